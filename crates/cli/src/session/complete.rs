//! Whether what was typed is a whole cell, so that Enter runs it, or goes on in the next line.
//!
//! A guess for convenience, never a judgement: what it takes for whole and is not, the interpreter refuses, and two empty lines
//! end a cell in any case.

use crate::args::Language;

/// Whether Enter runs this.
pub(super) fn is_whole(language: Language, typed: &str) -> bool {
    if typed.ends_with("\n\n") {
        return true;
    }
    let scanned = Scan::of(language, typed);
    if scanned.open {
        return false;
    }
    match language {
        Language::JavaScript => true,
        Language::Python => !in_block(typed, &scanned),
    }
}

/// A block of Python goes on until an empty line.
fn in_block(typed: &str, scanned: &Scan) -> bool {
    let last = typed.rsplit('\n').next().unwrap_or_default();
    if last.trim().is_empty() {
        return false;
    }
    let decorates = last.starts_with('@');
    let indented = last.starts_with([' ', '\t']) && typed.contains('\n');
    scanned.last == Some(':') || decorates || indented
}

/// What a walk over the text came to.
#[derive(Debug, Default)]
struct Scan {
    /// A bracket, a text or a comment is still open, or the line says that it goes on.
    open: bool,
    /// The last character that is neither space nor comment.
    last: Option<char>,
}

impl Scan {
    fn of(language: Language, typed: &str) -> Self {
        let mut walk = Walk {
            language,
            rest: typed,
            depth: Vec::new(),
            last: None,
        };
        let open = walk.skip_to_end();
        Self {
            open: open || !walk.depth.is_empty(),
            last: walk.last,
        }
    }
}

/// On the stack for a template literal that waits behind its `${`.
const TEMPLATE: char = '`';

struct Walk<'t> {
    language: Language,
    rest: &'t str,
    depth: Vec<char>,
    last: Option<char>,
}

impl Walk<'_> {
    /// Walks on to the end; whether it ends within a text or a comment that may go on in the next line.
    fn skip_to_end(&mut self) -> bool {
        while let Some(c) = self.rest.chars().next() {
            let goes_on = match (self.language, c) {
                (Language::JavaScript, '/') if self.rest.starts_with("//") => self.skip_line(),
                (Language::JavaScript, '/') if self.rest.starts_with("/*") => self.skip_past(2, "*/"),
                (Language::JavaScript, '/') if self.begins_pattern() => self.skip_text('/'),
                (Language::JavaScript, '`') => self.skip_template(1),
                (Language::Python, '#') => self.skip_line(),
                (Language::Python, '"') if self.rest.starts_with("\"\"\"") => self.skip_past(3, "\"\"\""),
                (Language::Python, '\'') if self.rest.starts_with("'''") => self.skip_past(3, "'''"),
                (Language::Python, '\\') if matches!(self.rest, "\\" | "\\\n") => return true,
                (_, '"' | '\'') => self.skip_text(c),
                (_, '(' | '[' | '{') => {
                    self.depth.push(c);
                    self.take(c)
                }
                (Language::JavaScript, '}') if self.depth.last() == Some(&TEMPLATE) => {
                    self.depth.pop();
                    self.skip_template(1)
                }
                (_, ')' | ']' | '}') => {
                    // One too many is the interpreter's to refuse.
                    if self.depth.last().is_some_and(|open| *open != TEMPLATE) {
                        self.depth.pop();
                    }
                    self.take(c)
                }
                _ => self.take(c),
            };
            if goes_on {
                return true;
            }
        }
        false
    }

    fn take(&mut self, c: char) -> bool {
        self.rest = &self.rest[c.len_utf8()..];
        if !c.is_whitespace() {
            self.last = Some(c);
        }
        false
    }

    fn skip_line(&mut self) -> bool {
        self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        false
    }

    /// Past a mark behind the first bytes; whether it is missing.
    fn skip_past(&mut self, first: usize, mark: &str) -> bool {
        let Some(at) = self.rest[first..].find(mark) else {
            self.rest = "";
            return true;
        };
        self.rest = &self.rest[first + at + mark.len()..];
        self.last = mark.chars().last();
        false
    }

    /// Past a text in one line. One that its line does not close is the interpreter's to refuse.
    fn skip_text(&mut self, quote: char) -> bool {
        let mut chars = self.rest.char_indices().skip(1);
        let mut in_class = false;
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                '[' if quote == '/' => in_class = true,
                ']' if quote == '/' => in_class = false,
                '\n' => {
                    self.rest = &self.rest[at..];
                    return false;
                }
                _ if c == quote && !in_class => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    self.last = Some(quote);
                    return false;
                }
                _ => {}
            }
        }
        self.rest = "";
        false
    }

    /// Past a template literal, or to the code inside it; whether it is still open.
    fn skip_template(&mut self, first: usize) -> bool {
        let mut chars = self.rest.char_indices().skip(first);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                '`' => {
                    self.rest = &self.rest[at + 1..];
                    self.last = Some('`');
                    return false;
                }
                '$' if self.rest[at..].starts_with("${") => {
                    self.rest = &self.rest[at + 2..];
                    self.depth.push(TEMPLATE);
                    return false;
                }
                _ => {}
            }
        }
        self.rest = "";
        true
    }

    /// Whether a slash begins a regular expression and does not divide: where no value stands before it.
    fn begins_pattern(&self) -> bool {
        self.last.is_none_or(|last| {
            !(last.is_alphanumeric() || matches!(last, '_' | '$' | ')' | ']' | '}' | '"' | '\'' | '`'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javascript_goes_on_while_something_is_open() {
        for whole in [
            "1 + 1",
            "const f = (x) => { return x }",
            "'it`s {'",
            "\"a\\\"{\"",
            "`a ${[1].map((n) => `${n}`)} b`",
            "// {",
            "/* { */ 1",
            "/[{(]/.test('x') && /\\//",
            "1 / 2 / (3)",
            "'never closed",
            "}",
            "{\n\n",
        ] {
            assert!(is_whole(Language::JavaScript, whole), "{whole}");
        }
        for part in [
            "function f() {",
            "[1,\n2",
            "`a",
            "`a ${1 +",
            "`a ${{}}",
            "/* a",
            "if (a) { '}'",
            "{\n",
        ] {
            assert!(!is_whole(Language::JavaScript, part), "{part}");
        }
    }

    #[test]
    fn python_goes_on_in_a_bracket_a_long_text_and_a_block() {
        for whole in [
            "1 + 1",
            "if x: y()",
            "'''a'''",
            "# [",
            "x = '['",
            "def f():\n    return 1\n",
            "def f():\n    return 1\nf()",
            "d = {1: 2}",
            "  1",
            "x = 'never closed",
            "for x in y:\n\n",
        ] {
            assert!(is_whole(Language::Python, whole), "{whole}");
        }
        for part in [
            "if x:",
            "if x:  # why",
            "def f():\n    return 1",
            "@cached",
            "[1,",
            "'''a",
            "\"\"\"a\nb",
            "x = 1 + \\",
            "class A:\n    def f(self):",
        ] {
            assert!(!is_whole(Language::Python, part), "{part}");
        }
    }
}
