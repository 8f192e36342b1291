//! The steps this provider can run: `node FILE [arguments]`, written as for a shell, without a shell.

use std::fmt;

/// One step, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Command {
    pub(crate) file: String,
    pub(crate) arguments: Vec<String>,
}

/// Why a step is not one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unrunnable {
    /// It begins with another word.
    NotNode,
    /// Nothing follows `node`.
    NoFile,
    /// An option stands where the file should.
    Option(String),
    /// It uses what only a shell has.
    Shell(char),
    /// A quote is not closed, or a backslash ends it.
    Open,
}

impl fmt::Display for Unrunnable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNode => formatter.write_str("it does not begin with `node`"),
            Self::NoFile => formatter.write_str("it names no file"),
            Self::Option(option) => write!(formatter, "it gives node the option `{option}`"),
            Self::Shell('\n') => formatter.write_str("it has several lines, which needs a shell"),
            Self::Shell(character) => write!(formatter, "it uses `{character}`, which needs a shell"),
            Self::Open => formatter.write_str("it has a quote that is not closed"),
        }
    }
}

/// What a shell gives a meaning wherever it stands unquoted.
const OPERATORS: &str = ";&|<>()$`*?[\n";

/// Takes a step apart as `sh` would, if `sh` would do no more than that.
pub(crate) fn parse(step: &str) -> Result<Command, Unrunnable> {
    // A step of another kind is told as that, whatever else is in it.
    let first = step.split_whitespace().next().unwrap_or_default();
    if first != "node" {
        return Err(Unrunnable::NotNode);
    }
    let mut words = words(step.trim())?.into_iter().skip(1);
    let file = words.next().ok_or(Unrunnable::NoFile)?;
    if file.is_empty() {
        return Err(Unrunnable::NoFile);
    }
    if file.starts_with('-') {
        return Err(Unrunnable::Option(file));
    }
    Ok(Command {
        file,
        arguments: words.collect(),
    })
}

fn words(text: &str) -> Result<Vec<String>, Unrunnable> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '~' | '#' if word.is_none() => return Err(Unrunnable::Shell(character)),
            '\\' => match characters.next().ok_or(Unrunnable::Open)? {
                '\n' => {}
                next => word.get_or_insert_default().push(next),
            },
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(Unrunnable::Open)? {
                        '\'' => break,
                        next => word.push(next),
                    }
                }
            }
            '"' => quoted(&mut characters, word.get_or_insert_default())?,
            character if OPERATORS.contains(character) => return Err(Unrunnable::Shell(character)),
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Ok(words)
}

/// What stands between double quotes.
fn quoted(characters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), Unrunnable> {
    loop {
        match characters.next().ok_or(Unrunnable::Open)? {
            '"' => return Ok(()),
            character @ ('$' | '`') => return Err(Unrunnable::Shell(character)),
            '\\' => match characters.next().ok_or(Unrunnable::Open)? {
                '\n' => {}
                next @ ('$' | '`' | '"' | '\\') => word.push(next),
                next => word.extend(['\\', next]),
            },
            character => word.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: &str) -> Result<Vec<String>, Unrunnable> {
        parse(step).map(|command| [vec![command.file], command.arguments].concat())
    }

    fn owned(words: Vec<&str>) -> Vec<String> {
        words.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_those_a_shell_would_hand_over() {
        for (step, words) in [
            ("node a.js", vec!["a.js"]),
            ("  node\ta.js  \n", vec!["a.js"]),
            (
                "node ./a.js --flag -x=1 {b,c} !",
                vec!["./a.js", "--flag", "-x=1", "{b,c}", "!"],
            ),
            (
                "node 'my file.js' \"two words\" ''",
                vec!["my file.js", "two words", ""],
            ),
            (
                r#"node a.js "a \"b\" \\ \n \$5" c\ d 'e\'f"#,
                vec!["a.js", r#"a "b" \ \n $5"#, "c d", r"e\f"],
            ),
            (
                "node a.js x'y'\"z\" '$HOME;' a~b a#b",
                vec!["a.js", "xyz", "$HOME;", "a~b", "a#b"],
            ),
            ("node a.js '{\"n\": [1, 2]}'", vec!["a.js", "{\"n\": [1, 2]}"]),
            ("node a.js \\\n b", vec!["a.js", "b"]),
        ] {
            assert_eq!(told(step).as_deref(), Ok(owned(words).as_slice()), "{step}");
        }
    }

    #[test]
    fn what_needs_a_shell_or_another_program_is_named() {
        for (step, cause) in [
            ("", Unrunnable::NotNode),
            ("ls", Unrunnable::NotNode),
            ("npm test", Unrunnable::NotNode),
            ("nodejs a.js", Unrunnable::NotNode),
            ("/usr/bin/node a.js", Unrunnable::NotNode),
            ("X=1 node a.js", Unrunnable::NotNode),
            ("node", Unrunnable::NoFile),
            ("node ''", Unrunnable::NoFile),
            ("node -e 1", Unrunnable::Option("-e".to_owned())),
            ("node --test", Unrunnable::Option("--test".to_owned())),
            ("node a.js > out.txt", Unrunnable::Shell('>')),
            ("node a.js | cat", Unrunnable::Shell('|')),
            ("node a.js && node b.js", Unrunnable::Shell('&')),
            ("node a.js; node b.js", Unrunnable::Shell(';')),
            ("node a.js\nnode b.js", Unrunnable::Shell('\n')),
            ("node a.js $HOME", Unrunnable::Shell('$')),
            ("node a.js \"$HOME\"", Unrunnable::Shell('$')),
            ("node a.js `ls`", Unrunnable::Shell('`')),
            ("node a.js *.txt", Unrunnable::Shell('*')),
            ("node a.js ~/x", Unrunnable::Shell('~')),
            ("node a.js # why", Unrunnable::Shell('#')),
            ("node a.js 'open", Unrunnable::Open),
            ("node a.js \"open", Unrunnable::Open),
            ("node a.js \\", Unrunnable::Open),
        ] {
            assert_eq!(told(step), Err(cause), "{step}");
        }
    }
}
