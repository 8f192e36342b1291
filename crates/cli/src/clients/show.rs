//! What `list` and `verify` print. No fingerprint is among it.

use std::path::Path;

use plimsoll_callers::{Client, ClientsError, ClientsFile};
use serde::Serialize;

use crate::words::visible;

/// Between two columns.
const GAP: &str = "  ";

/// The callers by id, as a table.
pub(super) fn table(mut clients: Vec<Client>) -> String {
    clients.sort_by(|a, b| a.id.cmp(&b.id));
    let mut rows = vec![["CALLER", "SCOPES", "PAID SECONDS/DAY"].map(str::to_owned)];
    rows.extend(clients.iter().map(|client| {
        let paid = match client.paid_seconds_per_day {
            0 => "none".to_owned(),
            seconds => seconds.to_string(),
        };
        [visible(&client.id), visible(&client.scopes.join(", ")), paid]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line = |[id, scopes, paid]: &[String; 3]| format!("{id:first$}{GAP}{scopes:second$}{GAP}{paid}\n");
    rows.iter().map(line).collect()
}

/// One caller, as JSON shows it.
#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    scopes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_seconds_per_day: Option<u64>,
}

/// The callers by id, as JSON.
///
/// # Errors
/// None that text, lists and numbers could make.
pub(super) fn json(mut clients: Vec<Client>) -> serde_json::Result<String> {
    clients.sort_by(|a, b| a.id.cmp(&b.id));
    let list: Vec<Listed<'_>> = clients
        .iter()
        .map(|client| Listed {
            id: &client.id,
            scopes: &client.scopes,
            paid_seconds_per_day: Some(client.paid_seconds_per_day).filter(|seconds| *seconds > 0),
        })
        .collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&list)?))
}

/// What a daemon would make of the file, a finding a line; and how many problems keep it from using it.
pub(super) fn report(path: &Path, read: &Result<ClientsFile, ClientsError>) -> (String, usize) {
    let path = visible(&path.display().to_string());
    let (lines, problems) = match read {
        Err(refused) => (refused.lines(), refused.count()),
        Ok(file) => {
            let callers = file.clients.len();
            let mut lines = Vec::new();
            if callers == 0 {
                lines.push("the file names no caller: daemons refuse to start on it, and to reload it".to_owned());
            } else {
                lines.push(format!("{callers} {}", if callers == 1 { "caller" } else { "callers" }));
            }
            if file.writable_by_others {
                lines.push(
                    "warning: the file can be written by group or others; daemons warn of it, and refuse it in hardened mode"
                        .to_owned(),
                );
            }
            (lines, usize::from(callers == 0))
        }
    };
    (lines.iter().map(|line| format!("{path}: {line}\n")).collect(), problems)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn client(id: &str, scopes: &[&str], paid_seconds_per_day: u64) -> Client {
        Client {
            id: id.to_owned(),
            token_sha256: [0xab; 32],
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            paid_seconds_per_day,
        }
    }

    fn three() -> Vec<Client> {
        vec![
            client("b", &["code:run", "other"], 3600),
            client("a longer one\u{202e}", &[], 0),
            client("B", &["*"], 0),
        ]
    }

    #[test]
    fn a_table_is_sorted_by_bytes_and_obeys_no_terminal() {
        let expected = "\
CALLER                SCOPES           PAID SECONDS/DAY
B                     *                none
a longer one\\u{202e}                   none
b                     code:run, other  3600
";
        assert_eq!(table(three()), expected);
        assert_eq!(table(Vec::new()), "CALLER  SCOPES  PAID SECONDS/DAY\n");
    }

    #[test]
    fn json_has_what_the_table_has_and_no_fingerprint() {
        let text = super::json(three()).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read,
            json!([
                {"id": "B", "scopes": ["*"]},
                {"id": "a longer one\u{202e}", "scopes": []},
                {"id": "b", "scopes": ["code:run", "other"], "paid_seconds_per_day": 3600},
            ])
        );
        assert!(
            text.starts_with("[\n  {\n    \"id\": \"B\",\n") && text.ends_with("\n]\n"),
            "{text}"
        );
        assert!(!format!("{text}{}", table(three())).contains("abab"));
        assert_eq!(super::json(Vec::new()).unwrap(), "[]\n");
    }
}
