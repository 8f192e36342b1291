//! What can be wrong with a JSON body.

use super::schema::MessageId;

/// Why a JSON body was refused. The text names the field, where there is one, the rule and the byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON body is refused at byte {at}: {}{problem}", field_prefix(.field))]
pub struct ScanError {
    /// Offset into the body, in bytes, of what is wrong.
    pub at: usize,
    /// Dotted path of the field concerned, in the schema's names; empty when the fault is in no known field. An unknown
    /// name that stands twice in a known object is named too, where it is short and plain.
    pub field: String,
    /// Which rule was broken.
    pub problem: Problem,
}

fn field_prefix(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!("{field}: ")
    }
}

/// One rule of the strict scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Zero bytes are no JSON object.
    #[error("the body is empty; send a JSON object, {{}} at the least")]
    Empty,
    /// A byte-order mark is not JSON.
    #[error("the body starts with a byte-order mark; send plain UTF-8 without one")]
    ByteOrderMark,
    /// Not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// The root is another kind of value.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// Something follows the object.
    #[error("bytes follow the JSON object; send exactly one")]
    TrailingData,
    /// The body ends inside a value.
    #[error("the body ends inside a value")]
    Unfinished,
    /// A byte JSON does not allow at this place; a bare NaN or Infinity among them.
    #[error("this is not JSON here (NaN and Infinity are written as strings)")]
    Syntax,
    /// A control character inside a string.
    #[error("a control character inside a string; write it as an escape")]
    ControlCharacter,
    /// A backslash JSON does not know.
    #[error("an escape JSON does not know")]
    Escape,
    /// Half a UTF-16 pair.
    #[error("half a surrogate pair in a string")]
    LoneSurrogate,
    /// Too deep.
    #[error("more than {} levels of nesting", super::MAX_DEPTH)]
    TooDeep,
    /// Too many list elements.
    #[error("more than {} elements in the body's lists", super::MAX_ELEMENTS)]
    TooManyElements,
    /// A name twice in one object; the two spellings of one field are the same name.
    #[error("the same name twice in one object (a field's two spellings are one name)")]
    DuplicateName,
    /// Two members of one oneof.
    #[error("two alternatives of which only one can be set")]
    TwoAlternatives,
    /// Another kind of value than the field takes.
    #[error("expected {0}")]
    WrongType(&'static str),
    /// A `null` inside a list.
    #[error("null inside a list; leave the element out")]
    NullElement,
}

/// Why a JSON body did not become a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The strict scanner refused it.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The protobuf layer refused it.
    #[error("the JSON body does not fit the message: {0}")]
    Decode(String),
}

impl MessageId {
    /// The dotted path through known fields, as it reads in an error.
    pub(super) fn path(fields: impl IntoIterator<Item = (Self, usize)>) -> String {
        let mut path = String::new();
        for (message, field) in fields {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(message.message().fields[field].name);
        }
        path
    }
}
