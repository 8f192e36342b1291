//! The strict pass over a JSON body, before the protobuf layer sees it.
//!
//! One walk without recursion. It allocates only for names the schema does not know and for strings with escapes in
//! names; a usual request allocates nothing. Strings are skipped eight bytes at a time.

use super::error::{Problem, ScanError};
use super::number;
use super::schema::{Kind, MessageId};

/// Deepest nesting of objects and arrays, the root object counted as one.
pub const MAX_DEPTH: usize = 64;

/// Most elements of all lists of strings and messages of one body together. Twice what the largest valid request holds
/// (100 000 module rows), and few enough that a body of empty elements cannot cost many times its own size in memory.
pub const MAX_ELEMENTS: usize = 200_000;

/// One open object or array.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// What the object is read as; `None` for unknown fields.
    message: Option<MessageId>,
    /// The field of `message` whose value is being read (in an array: of the object around it).
    field: Option<usize>,
    /// For an array: which kind its elements have.
    elements: Option<Kind>,
    is_array: bool,
    /// Known fields seen, one bit each.
    seen: u64,
    /// Oneofs with a member set, one bit each.
    oneofs: u64,
    /// Where this object's unknown names start in [`Scanner::names`].
    names: usize,
}

const CLOSED: Frame = Frame {
    message: None,
    field: None,
    elements: None,
    is_array: false,
    seen: 0,
    oneofs: 0,
    names: 0,
};

/// An unknown name: a span of the body, or of [`Scanner::decoded`] when it was written with escapes.
#[derive(Clone, Copy, Debug)]
struct Name {
    start: u32,
    length: u32,
    decoded: bool,
    /// Where it stands in the body.
    at: u32,
}

/// The longest unknown name that an error repeats, in bytes.
const MAX_SHOWN_NAME: usize = 64;

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    frames: [Frame; MAX_DEPTH],
    depth: usize,
    elements: usize,
    names: Vec<Name>,
    decoded: String,
    /// The unknown name that an object has twice, as it may be shown.
    twice: Option<String>,
}

/// Walks a body strictly as a message and returns it as text.
///
/// # Errors
/// The first rule that the body breaks.
pub fn scan(body: &[u8], root: MessageId) -> Result<&str, ScanError> {
    let plain = |at, problem| ScanError {
        at,
        field: String::new(),
        problem,
    };
    if body.is_empty() {
        return Err(plain(0, Problem::Empty));
    }
    if body.starts_with(b"\xef\xbb\xbf") {
        return Err(plain(0, Problem::ByteOrderMark));
    }
    let text = str::from_utf8(body).map_err(|error| plain(error.valid_up_to(), Problem::NotUtf8))?;
    let mut scanner = Scanner {
        text,
        bytes: body,
        at: 0,
        frames: [CLOSED; MAX_DEPTH],
        depth: 0,
        elements: 0,
        names: Vec::new(),
        decoded: String::new(),
        twice: None,
    };
    scanner.skip_space();
    if scanner.peek() != Some(b'{') {
        return Err(plain(scanner.at, Problem::NotAnObject));
    }
    match scanner.document(root) {
        Ok(()) => Ok(text),
        Err(problem) => Err(ScanError {
            at: scanner.at,
            field: scanner.path(),
            problem,
        }),
    }
}

impl Scanner<'_> {
    fn document(&mut self, root: MessageId) -> Result<(), Problem> {
        self.open(Frame {
            message: Some(root),
            ..CLOSED
        })?;
        while self.depth > 0 {
            self.step()?;
        }
        self.skip_space();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(Problem::TrailingData)
        }
    }

    /// Reads one member or element, or the end, of the innermost open value.
    fn step(&mut self) -> Result<(), Problem> {
        let top = self.depth - 1;
        if self.frames[top].is_array {
            let element = self.frames[top].elements;
            if matches!(element, Some(Kind::Text | Kind::Bytes | Kind::Message(_))) {
                self.elements += 1;
                if self.elements > MAX_ELEMENTS {
                    return Err(Problem::TooManyElements);
                }
            }
            return self.value(element, true);
        }
        let field = self.name()?;
        self.frames[top].field = field;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        let Some((message, field)) = self.frames[top].message.zip(field) else {
            return self.value(None, false);
        };
        let description = &message.message().fields[field];
        if self.peek() == Some(b'n') {
            self.literal(b"null")?;
            return self.after_value();
        }
        if self.frames[top].oneofs & description.oneof != 0 {
            return Err(Problem::TwoAlternatives);
        }
        self.frames[top].oneofs |= description.oneof;
        if !description.repeated {
            return self.value(Some(description.kind), false);
        }
        if self.peek() != Some(b'[') {
            return Err(self.unless_ended(Problem::WrongType("a list")));
        }
        self.open(Frame {
            elements: Some(description.kind),
            is_array: true,
            ..CLOSED
        })
    }

    /// Reads a value of a kind; `None` is a value of an unknown field, which may be anything.
    fn value(&mut self, kind: Option<Kind>, in_array: bool) -> Result<(), Problem> {
        match self.peek().ok_or(Problem::Unfinished)? {
            b'{' => {
                let message = match kind {
                    Some(Kind::Message(message)) => Some(message),
                    None => None,
                    Some(other) => return Err(Problem::WrongType(other.expectation())),
                };
                return self.open(Frame { message, ..CLOSED });
            }
            b'[' => {
                if let Some(kind) = kind {
                    return Err(Problem::WrongType(kind.expectation()));
                }
                return self.open(Frame {
                    is_array: true,
                    ..CLOSED
                });
            }
            b'"' => {
                let (start, escaped) = self.string()?;
                if let Some(kind) = kind
                    && !kind.takes_string(&self.bytes[start..self.at - 1], escaped)
                {
                    return Err(Problem::WrongType(kind.expectation()));
                }
            }
            b't' => {
                self.literal(b"true")?;
                Self::takes_bool(kind)?;
            }
            b'f' => {
                self.literal(b"false")?;
                Self::takes_bool(kind)?;
            }
            b'n' => {
                self.literal(b"null")?;
                if in_array && kind.is_some() {
                    return Err(Problem::NullElement);
                }
            }
            b'-' | b'0'..=b'9' => {
                let start = self.at;
                self.at += number::length(&self.bytes[start..]).ok_or(Problem::Syntax)?;
                if let Some(kind) = kind
                    && !kind.takes_number(&self.bytes[start..self.at])
                {
                    return Err(Problem::WrongType(kind.expectation()));
                }
            }
            _ => return Err(Problem::Syntax),
        }
        self.after_value()
    }

    fn takes_bool(kind: Option<Kind>) -> Result<(), Problem> {
        match kind {
            None | Some(Kind::Bool) => Ok(()),
            Some(other) => Err(Problem::WrongType(other.expectation())),
        }
    }

    /// Opens an object or array and stands on its first member or behind its end.
    fn open(&mut self, frame: Frame) -> Result<(), Problem> {
        if self.depth == MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        self.at += 1;
        self.frames[self.depth] = Frame {
            names: self.names.len(),
            ..frame
        };
        self.depth += 1;
        self.skip_space();
        let end = if frame.is_array { b']' } else { b'}' };
        if self.peek() == Some(end) { self.close() } else { Ok(()) }
    }

    /// Leaves the innermost value; then whatever follows it in the one around.
    fn close(&mut self) -> Result<(), Problem> {
        self.at += 1;
        let names = self.frames[self.depth - 1].names;
        self.distinct_names(names)?;
        self.names.truncate(names);
        if names == 0 {
            self.decoded.clear();
        }
        self.depth -= 1;
        self.after_value()
    }

    /// Reads the comma or the end behind a value.
    fn after_value(&mut self) -> Result<(), Problem> {
        if self.depth == 0 {
            return Ok(());
        }
        self.skip_space();
        let end = if self.frames[self.depth - 1].is_array {
            b']'
        } else {
            b'}'
        };
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_space();
                Ok(())
            }
            Some(byte) if byte == end => self.close(),
            Some(_) => Err(Problem::Syntax),
            None => Err(Problem::Unfinished),
        }
    }

    /// Reads a member's name: the known field it stands for, or notes it as an unknown name.
    fn name(&mut self) -> Result<Option<usize>, Problem> {
        if self.peek() != Some(b'"') {
            return Err(self.unless_ended(Problem::Syntax));
        }
        let top = self.depth - 1;
        self.frames[top].field = None;
        let (start, escaped) = self.string()?;
        let end = self.at - 1;
        let decoded_from = self.decoded.len();
        if escaped {
            unescape_into(&self.text[start..end], &mut self.decoded);
        }
        let known = self.frames[top].message.and_then(|message| {
            let name = if escaped {
                &self.decoded.as_bytes()[decoded_from..]
            } else {
                &self.bytes[start..end]
            };
            message.message().field(name)
        });
        if let Some(field) = known {
            self.decoded.truncate(decoded_from);
            if self.frames[top].seen & (1 << field) != 0 {
                self.frames[top].field = Some(field);
                return Err(Problem::DuplicateName);
            }
            self.frames[top].seen |= 1 << field;
            return Ok(Some(field));
        }
        let span = if escaped {
            (decoded_from, self.decoded.len())
        } else {
            (start, end)
        };
        // Bodies are bounded by 8 MiB (answers by 32 MiB), so a span always fits; one that does not is refused.
        let (Ok(at), Ok(start), Ok(length)) = (
            u32::try_from(start),
            u32::try_from(span.0),
            u32::try_from(span.1 - span.0),
        ) else {
            return Err(Problem::Syntax);
        };
        self.names.push(Name {
            start,
            length,
            decoded: escaped,
            at,
        });
        Ok(None)
    }

    /// Refuses two equal unknown names of the object that just ended: sorted, so that many names stay cheap.
    fn distinct_names(&mut self, from: usize) -> Result<(), Problem> {
        if self.names.len() - from < 2 {
            return Ok(());
        }
        let (text, decoded) = (self.bytes, self.decoded.as_bytes());
        let bytes_of = |name: &Name| {
            let source = if name.decoded { decoded } else { text };
            &source[name.start as usize..name.start as usize + name.length as usize]
        };
        let names = &mut self.names[from..];
        names.sort_unstable_by(|left, right| bytes_of(left).cmp(bytes_of(right)).then(left.at.cmp(&right.at)));
        let equal = names
            .windows(2)
            .filter(|pair| bytes_of(&pair[0]) == bytes_of(&pair[1]))
            .map(|pair| pair[1]);
        let Some(second) = equal.min_by_key(|name| name.at) else {
            return Ok(());
        };
        // The walk has gone on to the object's end since: what is told is the second of the two.
        let top = self.depth - 1;
        self.at = second.at as usize;
        self.frames[top].field = None;
        let plain = |name: &&str| {
            let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            !name.is_empty() && name.len() <= MAX_SHOWN_NAME && name.bytes().all(of_a_name)
        };
        let name = str::from_utf8(bytes_of(&second)).ok().filter(plain);
        self.twice = name.filter(|_| self.frames[top].message.is_some()).map(str::to_owned);
        Err(Problem::DuplicateName)
    }

    /// Skips a string and returns where its content starts and whether it holds escapes.
    fn string(&mut self) -> Result<(usize, bool), Problem> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_length(&self.bytes[self.at..]);
            match self.peek().ok_or(Problem::Unfinished)? {
                b'"' => {
                    self.at += 1;
                    return Ok((start, escaped));
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(Problem::ControlCharacter),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Problem> {
        match self.bytes.get(self.at + 1).ok_or(Problem::Unfinished)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => {
                let unit = self.code_unit(self.at)?;
                match unit {
                    0xD800..0xDC00 => {
                        let next = self.at + 6;
                        if self.bytes.get(next..next + 2) != Some(b"\\u") {
                            return Err(Problem::LoneSurrogate);
                        }
                        if !(0xDC00..0xE000).contains(&self.code_unit(next)?) {
                            return Err(Problem::LoneSurrogate);
                        }
                        self.at += 12;
                    }
                    0xDC00..0xE000 => return Err(Problem::LoneSurrogate),
                    _ => self.at += 6,
                }
            }
            _ => return Err(Problem::Escape),
        }
        Ok(())
    }

    /// The four digits of the `\u` escape that starts at `at`.
    fn code_unit(&self, at: usize) -> Result<u32, Problem> {
        let digits = self.bytes.get(at + 2..at + 6).ok_or(Problem::Unfinished)?;
        let mut unit = 0;
        for &digit in digits {
            unit = unit * 16 + char::from(digit).to_digit(16).ok_or(Problem::Escape)?;
        }
        Ok(unit)
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Problem> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(Problem::Syntax)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.unless_ended(Problem::Syntax))
    }

    fn unless_ended(&self, problem: Problem) -> Problem {
        if self.at >= self.bytes.len() {
            Problem::Unfinished
        } else {
            problem
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The known fields that lead to where the scanner stands, and an unknown one where that is what is wrong.
    fn path(&self) -> String {
        let known = MessageId::path(
            self.frames[..self.depth]
                .iter()
                .filter_map(|frame| frame.message.zip(frame.field)),
        );
        match &self.twice {
            Some(name) if known.is_empty() => name.clone(),
            Some(name) => format!("{known}.{name}"),
            None => known,
        }
    }
}

/// How many bytes of a string go by before a quote, a backslash or a control character.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // A byte of `word` is zero where `word - ONES` borrows into its top bit and the top bit was clear.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let quote = zeros(word ^ (ONES * u64::from(b'"')));
        let backslash = zeros(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        if quote | backslash | control != 0 {
            break;
        }
        at += 8;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\') || *byte < 0x20;
    at + bytes[at..].iter().position(special).unwrap_or(bytes.len() - at)
}

/// Appends the text of a name whose escapes the scanner has already found well-formed.
fn unescape_into(raw: &str, into: &mut String) {
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        into.push_str(&rest[..at]);
        let escape = &rest.as_bytes()[at..];
        let unit = |at: usize| {
            escape
                .get(at..at + 4)
                .and_then(|digits| str::from_utf8(digits).ok())
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .unwrap_or_default()
        };
        let (character, length) = match escape.get(1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => match unit(2) {
                high @ 0xD800..0xDC00 => {
                    let scalar = 0x1_0000 + ((high - 0xD800) << 10) + unit(8).saturating_sub(0xDC00);
                    (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
                }
                scalar => (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
            },
            Some(&other) => (char::from(other), 2),
            None => break,
        };
        into.push(character);
        rest = rest.get(at + length..).unwrap_or_default();
    }
    into.push_str(rest);
}

impl Kind {
    fn expectation(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bytes => "base64 in a string",
            Self::Bool => "true or false",
            Self::Int32 => "a whole number from -2147483648 to 2147483647",
            Self::Uint32 => "a whole number from 0 to 4294967295",
            Self::Int64 => "a whole number of 64 bits, as a string or a number",
            Self::Uint64 => "a whole number from 0 to 18446744073709551615, as a string or a number",
            Self::Double => "a number, or the string NaN, Infinity or -Infinity",
            Self::Enum => "a name or number of the enumeration",
            Self::Message(_) => "an object",
        }
    }

    /// Whether a string fits; its content is still escaped when `escaped`.
    fn takes_string(self, content: &[u8], escaped: bool) -> bool {
        match self {
            Self::Text | Self::Bytes | Self::Enum => true,
            Self::Bool | Self::Message(_) => false,
            _ if escaped => false,
            Self::Double => {
                matches!(content, b"NaN" | b"Infinity" | b"-Infinity") || number::length(content) == Some(content.len())
            }
            Self::Int32 | Self::Uint32 | Self::Int64 | Self::Uint64 => {
                number::is_decimal(content) && self.takes_number(content)
            }
        }
    }

    fn takes_number(self, text: &[u8]) -> bool {
        match self {
            Self::Double => true,
            Self::Int32 => number::fits(text, i32::MIN.into(), i32::MAX.into()),
            Self::Enum => number::is_decimal(text) && number::fits(text, i32::MIN.into(), i32::MAX.into()),
            Self::Uint32 => number::fits(text, 0, u32::MAX.into()),
            Self::Int64 => number::fits(text, i64::MIN.into(), i64::MAX.into()),
            Self::Uint64 => number::fits(text, 0, u64::MAX.into()),
            Self::Text | Self::Bytes | Self::Bool | Self::Message(_) => false,
        }
    }
}
