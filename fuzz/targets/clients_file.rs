//! The clients file: whatever is a registry keeps the promises the daemon relies on and is read back from what the editor
//! writes, and whatever is none says why, without a fingerprint in it.

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use plimsoll_callers::{check_identity, parse, to_json};

fuzz_target!(|file: &[u8]| {
    match parse(file) {
        Ok(clients) => {
            let (mut ids, mut fingerprints) = (HashSet::new(), HashSet::new());
            for client in &clients {
                assert_eq!(check_identity(&client.id), Ok(()));
                assert!(ids.insert(&client.id) && fingerprints.insert(client.token_sha256));
                for (index, scope) in client.scopes.iter().enumerate() {
                    assert!(
                        !scope.is_empty() && !scope.contains(char::is_whitespace) && !scope.contains(char::is_control)
                    );
                    assert!(!client.scopes[..index].contains(scope));
                }
            }
            assert_eq!(parse(&to_json(&clients)).ok(), Some(clients));
        }
        Err(refused) => {
            let lines = refused.lines();
            assert!(!lines.is_empty() && lines.len() <= 101 && refused.count() >= 1);
            // A run of hex digits as long as half a fingerprint is in no message, wherever in the file it stands.
            for line in lines {
                assert!(
                    line.split(|c: char| !c.is_ascii_hexdigit()).all(|run| run.len() < 32),
                    "{line}"
                );
            }
        }
    }
});
