//! What the scanner knows of the schema: for every message its fields, their two JSON names and their kinds.
//!
//! The table is written by the build script from the compiled schema, so it cannot drift from the messages.

/// Which message an object is read as: an index into the generated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u16);

/// What a field holds; decides which JSON values the scanner lets through to the protobuf layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Double,
    Enum,
    Message(MessageId),
}

#[derive(Debug)]
pub(super) struct Message {
    #[cfg_attr(not(test), expect(dead_code, reason = "names the row for people and tests"))]
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

#[derive(Debug)]
pub(super) struct Field {
    /// The snake_case name of the schema.
    pub(super) name: &'static str,
    /// The lowerCamelCase name we write; read as the same field.
    pub(super) json: &'static str,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
    /// A bit per oneof of the message; 0 outside any.
    pub(super) oneof: u64,
}

impl MessageId {
    pub(super) fn message(self) -> &'static Message {
        &MESSAGES[usize::from(self.0)]
    }
}

impl Message {
    /// The field a name of either spelling stands for.
    pub(super) fn field(&self, name: &[u8]) -> Option<usize> {
        self.fields
            .iter()
            .position(|field| field.json.as_bytes() == name || field.name.as_bytes() == name)
    }
}

include!(concat!(env!("OUT_DIR"), "/fields.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_under_both_names_and_their_kinds_follow_the_schema() {
        let run = RUN_REQUEST.message();
        assert_eq!(run.name, "RunRequest");
        assert_eq!(run.field(b"timeoutMs"), run.field(b"timeout_ms"));
        assert!(run.field(b"timeoutms").is_none());
        let rule = &run.fields[run.field(b"softwareRule").unwrap()];
        assert_eq!(rule.kind, Kind::Message(SOFTWARE_RULE));
        let (snippet, cell) = (run.field(b"javascript").unwrap(), run.field(b"cell").unwrap());
        assert_eq!(run.fields[snippet].oneof, run.fields[cell].oneof);
        assert_ne!(run.fields[snippet].oneof, 0);
        assert_eq!(run.fields[run.field(b"protocol").unwrap()].oneof, 0);
        let response = RUN_RESPONSE.message();
        assert_eq!(
            response.fields[response.field(b"diagnostics").unwrap()].kind,
            Kind::Message(RUN_DIAGNOSTICS)
        );
    }

    #[test]
    fn no_message_has_more_fields_than_the_scanner_has_bits() {
        for message in &MESSAGES {
            assert!(message.fields.len() <= 64, "{}", message.name);
        }
    }
}
