//! What an editor may do to a registry, and when it may not.

use crate::file::Client;

/// One change of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A caller more, behind all others.
    Add(Client),
    /// Another allowance: seconds of paid time per day, 0 for none of its own.
    Limit {
        /// The caller.
        id: String,
        /// Its new allowance.
        paid_seconds_per_day: u64,
    },
    /// Another token; id, scopes and allowance stay.
    Rotate {
        /// The caller.
        id: String,
        /// The new fingerprint.
        token_sha256: [u8; 32],
    },
    /// A caller less.
    Revoke {
        /// The caller.
        id: String,
    },
}

/// Why a change is not made. What the new registry must obey as a whole is the parser's to say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The id is taken.
    #[error("there is a caller {0:?} already; give another id, or rotate or revoke that one")]
    Exists(String),
    /// Nobody has the id.
    #[error("there is no caller {0:?}; list shows who there is")]
    Unknown(String),
    /// The caller has this token.
    #[error("that is the token caller {0:?} has; rotating takes another one")]
    SameToken(String),
    /// Somebody else has this token.
    #[error("that is the token of another caller; one token names one caller")]
    TokenTaken,
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// It cannot be made; `clients` is as it was.
    pub fn apply(self, clients: &mut Vec<Client>) -> Result<(), ChangeError> {
        match self {
            Self::Add(client) => {
                if clients.iter().any(|one| one.id == client.id) {
                    return Err(ChangeError::Exists(client.id));
                }
                free(clients, &client.token_sha256)?;
                clients.push(client);
            }
            Self::Limit {
                id,
                paid_seconds_per_day,
            } => {
                let index = find(clients, &id)?;
                clients[index].paid_seconds_per_day = paid_seconds_per_day;
            }
            Self::Rotate { id, token_sha256 } => {
                let index = find(clients, &id)?;
                if clients[index].token_sha256 == token_sha256 {
                    return Err(ChangeError::SameToken(id));
                }
                free(clients, &token_sha256)?;
                clients[index].token_sha256 = token_sha256;
            }
            Self::Revoke { id } => {
                let index = find(clients, &id)?;
                clients.remove(index);
            }
        }
        Ok(())
    }
}

fn find(clients: &[Client], id: &str) -> Result<usize, ChangeError> {
    let index = clients.iter().position(|one| one.id == id);
    index.ok_or_else(|| ChangeError::Unknown(id.to_owned()))
}

fn free(clients: &[Client], fingerprint: &[u8; 32]) -> Result<(), ChangeError> {
    if clients.iter().any(|one| one.token_sha256 == *fingerprint) {
        return Err(ChangeError::TokenTaken);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str, fingerprint: u8) -> Client {
        Client {
            id: id.to_owned(),
            token_sha256: [fingerprint; 32],
            scopes: vec!["code:run".to_owned()],
            paid_seconds_per_day: 60,
        }
    }

    fn rotate(id: &str, fingerprint: u8) -> Change {
        Change::Rotate {
            id: id.to_owned(),
            token_sha256: [fingerprint; 32],
        }
    }

    #[test]
    fn a_change_touches_what_it_names_and_nothing_else() {
        let mut clients = vec![client("a", 1), client("b", 2)];
        Change::Add(client("c", 3)).apply(&mut clients).unwrap();
        rotate("b", 4).apply(&mut clients).unwrap();
        let limit = Change::Limit {
            id: "a".to_owned(),
            paid_seconds_per_day: 0,
        };
        limit.apply(&mut clients).unwrap();
        Change::Revoke { id: "c".to_owned() }.apply(&mut clients).unwrap();
        let a = Client {
            paid_seconds_per_day: 0,
            ..client("a", 1)
        };
        assert_eq!(clients, [a, client("b", 4)]);
    }

    #[test]
    fn a_change_that_cannot_be_made_changes_nothing() {
        let before = vec![client("a", 1), client("b", 2)];
        let unknown = || ChangeError::Unknown("x".to_owned());
        for (change, error) in [
            (Change::Add(client("a", 3)), ChangeError::Exists("a".to_owned())),
            (Change::Add(client("c", 2)), ChangeError::TokenTaken),
            (rotate("a", 1), ChangeError::SameToken("a".to_owned())),
            (rotate("a", 2), ChangeError::TokenTaken),
            (rotate("x", 3), unknown()),
            (Change::Revoke { id: "x".to_owned() }, unknown()),
            (
                Change::Limit {
                    id: "x".to_owned(),
                    paid_seconds_per_day: 1,
                },
                unknown(),
            ),
        ] {
            let mut clients = before.clone();
            assert_eq!(change.apply(&mut clients), Err(error));
            assert_eq!(clients, before);
        }
    }
}
