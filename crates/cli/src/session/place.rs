//! Where a session lives: in this process, or on a daemon. Both answer in the same words.

use std::future::Future;
use std::time::Duration;

use plimsoll::{Cell, Sandbox};
use plimsoll_client::{CancelToken, CellRequest, Client, ErrorKind};
use plimsoll_core::vars::Lookup;
use plimsoll_core::{CellResult, Code, Diagnostics, Reason, Refusal, Tier};
use plimsoll_record::RunRecord;

use crate::args::{Language, SessionArgs};
use crate::failure::Failure;
use crate::{local, remote};

/// What sessions are opened on.
pub(super) enum Place {
    Here(Sandbox),
    There { client: Client, url: String },
}

/// An open session.
pub(super) enum Conversation {
    Here(Box<plimsoll::Session>),
    There(Box<plimsoll_client::Session>),
}

/// A cell that ran to its end.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) result: CellResult,
    pub(super) record: RunRecord,
    pub(super) duration_ms: i64,
    pub(super) diagnostics: Diagnostics,
}

/// A cell that did not.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) failure: Failure,
    /// Its place in the chain, if it has one.
    pub(super) record: Option<RunRecord>,
}

/// A session that was not closed as it should.
#[derive(Debug)]
pub(super) struct Unclosed {
    pub(super) failure: Failure,
    /// Its count is not the one seen here, and cannot be: an answer was lost before, and that was told.
    pub(super) foreseen: bool,
}

impl Unclosed {
    /// Nobody waited for the close.
    pub(super) fn interrupted() -> Self {
        Self {
            failure: Failure::not_ready(&"interrupted before the session was closed"),
            foreseen: false,
        }
    }

    /// The line for people.
    pub(super) fn line(&self) -> String {
        self.failure.line_without(if self.foreseen {
            "count to compare, because an answer was lost"
        } else {
            "clean end"
        })
    }
}

/// A session that is closed.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) calls: u64,
    pub(super) last_record_sha256: String,
    /// Whether somebody else's count was compared with the one seen here.
    pub(super) compared: bool,
}

impl Place {
    /// Makes the sandbox, or the client.
    ///
    /// # Errors
    /// The sandbox is not ready, or the daemon's address or token cannot be used.
    pub(super) async fn new(args: &SessionArgs, lookup: &dyn Lookup) -> Result<Self, Failure> {
        match &args.target.daemon {
            Some(url) => Ok(Self::There {
                client: remote::client(url, &args.target, lookup)?,
                url: url.clone(),
            }),
            None => local::sandbox(args.target.provider.as_deref(), lookup)
                .await
                .map(Self::Here),
        }
    }

    /// Opens a session; with it the longest a cell of it may take in milliseconds, 0 where that is not stated.
    ///
    /// # Errors
    /// What the sandbox or the daemon refuses, and a language that sessions here keep no interpreter of.
    pub(super) async fn open(&self, args: &SessionArgs, lookup: &dyn Lookup) -> Result<(Conversation, u32), Failure> {
        let most_ms = self.check_language(args.language).await?;
        let session = match self {
            Self::Here(sandbox) => {
                let mut open = sandbox.open_session();
                if let Some(language) = args.language {
                    open = open.language(language.as_str());
                }
                let opened = match args.floor {
                    Some(floor) => open.floor(floor).send().await,
                    None => open.any_tier().send().await,
                };
                Conversation::Here(Box::new(opened?))
            }
            Self::There { client, url } => {
                let mut open = client.open_session();
                if let Some(language) = args.language {
                    open = open.language(language.as_str());
                }
                let opened = match args.floor {
                    Some(floor) => open.floor(floor).send().await,
                    None => open.any_tier().send().await,
                };
                let opened = opened.map_err(|error| remote::failure(&error, url, lookup))?;
                Conversation::There(Box::new(opened))
            }
        };
        Ok((session, most_ms))
    }

    /// The language is only a hint to whoever opens a session, and every cell of another one would be refused. What the place
    /// states beside it: the longest a cell may take.
    async fn check_language(&self, asked: Option<Language>) -> Result<u32, Failure> {
        let (provider, kept) = match self {
            Self::Here(sandbox) => {
                let evidence = sandbox.evidence();
                let environment = evidence.sessions.as_ref().map(|support| &support.environment);
                let kept = environment.map(|one| (one.languages.clone(), one.max_timeout_ms));
                (evidence.provider.to_owned(), kept)
            }
            Self::There { client, .. } => match client.describe().await {
                Ok(info) => {
                    let environment = info.session_environment;
                    let kept = (environment.languages, environment.max_timeout_ms);
                    (info.provider, info.supports_sessions.then_some(kept))
                }
                // Why is told by the open, which meets the same.
                Err(_) => return Ok(0),
            },
        };
        // Without sessions the open is refused, and says so.
        let Some((kept, most_ms)) = kept else { return Ok(0) };
        has_interpreter(asked, &provider, &kept, matches!(self, Self::Here(_)))?;
        Ok(most_ms)
    }

    /// Clears away what is left here.
    pub(super) async fn drain(&self) -> Result<(), Failure> {
        match self {
            Self::Here(sandbox) => sandbox.drain().await.map_err(|fault| Failure::not_ready(&fault)),
            Self::There { .. } => Ok(()),
        }
    }
}

impl Conversation {
    pub(super) fn fingerprint(&self) -> &str {
        match self {
            Self::Here(session) => session.fingerprint(),
            Self::There(session) => session.fingerprint(),
        }
    }

    pub(super) fn provider(&self) -> &str {
        match self {
            Self::Here(session) => session.evidence().provider,
            Self::There(session) => session.provider(),
        }
    }

    pub(super) fn tier(&self) -> &str {
        match self {
            Self::Here(session) => session.isolation().tier().map_or("unknown", Tier::as_str),
            Self::There(session) => session.isolation(),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        match self {
            Self::Here(session) => session.calls(),
            Self::There(session) => session.calls(),
        }
    }

    /// Why nothing can be run in it any more.
    pub(super) fn over(&self) -> Option<String> {
        let ended = match self {
            Self::Here(session) => session.ended(),
            Self::There(session) => match session.stopped() {
                Some(reason) => return Some(reason),
                None => session.ended(),
            },
        }?;
        Some(match ended.detail.as_str() {
            "" => ended.end.as_str().to_owned(),
            detail => format!("{}: {detail}", ended.end.as_str()),
        })
    }

    /// Runs a cell. When `stop` is ready first the cell is given up: here it then has its place in the chain and the session
    /// goes on; on a daemon its answer is lost, and the session with it.
    pub(super) async fn cell(
        &self,
        language: &str,
        code: String,
        timeout: Duration,
        stop: impl Future<Output = ()>,
        lookup: &dyn Lookup,
    ) -> Result<Answered, Unanswered> {
        match self {
            Self::Here(session) => {
                let before = session.calls();
                let call = session.run_cell(Cell::in_language(language, code)).timeout(timeout);
                call.send_until(stop).await.map(answered_here).map_err(|error| {
                    let recorded = session.calls() > before;
                    Unanswered {
                        failure: error.into(),
                        record: recorded.then(|| session.records().pop()).flatten(),
                    }
                })
            }
            Self::There(session) => {
                let token = CancelToken::new();
                let call = session
                    .run_cell(CellRequest::in_language(language, code))
                    .timeout(timeout)
                    .cancel(&token);
                let mut sending = std::pin::pin!(call.send());
                let answered = tokio::select! {
                    biased;
                    answered = &mut sending => answered,
                    () = stop => {
                        token.cancel();
                        sending.await
                    }
                };
                answered.map(answered_there).map_err(|error| Unanswered {
                    record: error.record().cloned(),
                    failure: remote::failure(&error, "", lookup),
                })
            }
        }
    }

    /// Closes the session and compares the count of whoever kept it with the one seen here.
    ///
    /// # Errors
    /// The session could not be shown to be closed, or its count is another one.
    pub(super) async fn close(self, lookup: &dyn Lookup) -> Result<Receipt, Unclosed> {
        match self {
            Self::Here(session) => match session.close().await {
                Ok(summary) => Ok(Receipt {
                    calls: summary.calls,
                    last_record_sha256: summary.last_record_sha256,
                    compared: false,
                }),
                Err(fault) => Err(Unclosed {
                    failure: Failure::not_ready(&format!("the session was not removed: {fault}")),
                    foreseen: false,
                }),
            },
            Self::There(session) => {
                let lost = session.stopped().is_some();
                match session.close().await {
                    Ok(closed) => Ok(Receipt {
                        calls: closed.summary().calls,
                        last_record_sha256: closed.summary().last_record_sha256.clone(),
                        compared: closed.is_confirmed(),
                    }),
                    Err(failed) => Err(Unclosed {
                        failure: remote::failure(failed.error(), "", lookup),
                        foreseen: lost && failed.error().kind() == ErrorKind::Chain,
                    }),
                }
            }
        }
    }
}

/// `ours` is a provider in this process, of which whoever typed the command chooses the image.
fn has_interpreter(asked: Option<Language>, provider: &str, kept: &[String], ours: bool) -> Result<(), Failure> {
    let language = asked.unwrap_or_else(|| Language::default_of(provider)).as_str();
    if kept.iter().any(|one| one == language) {
        return Ok(());
    }
    let keeps = format!("but a session on provider {provider} keeps");
    let message = match (asked, kept) {
        (_, []) => format!("cell.language is {language}, {keeps} no interpreter"),
        (Some(_), kept) => format!(
            "cell.language is {language}, {keeps} an interpreter of {} only; choose another with --language",
            kept.join(" and of ")
        ),
        (None, kept) => {
            let image = if ours && provider == "docker" {
                ", or an image that has one: SANDBOX_DOCKER_PROJECT_IMAGE=plimsoll/sandbox-python"
            } else {
                ""
            };
            format!(
                "without --language cells are {language}, {keeps} an interpreter of {} only; give --language {}{image}",
                kept.join(" and of "),
                kept.join(" or --language ")
            )
        }
    };
    Err(Refusal::new(Code::Unimplemented, Reason::Environment, message).into())
}

fn answered_here(run: plimsoll::CellRun) -> Answered {
    Answered {
        result: CellResult {
            stdout: run.stdout,
            stderr: run.stderr,
            exit_code: run.exit_code,
            timed_out: run.timed_out,
            stdout_truncated: run.stdout_truncated,
            stderr_truncated: run.stderr_truncated,
            interpreter_started: run.interpreter_started,
            interpreter_ended: run.interpreter_ended,
        },
        record: run.record,
        duration_ms: i64::try_from(run.duration.as_millis()).unwrap_or(i64::MAX),
        diagnostics: run.diagnostics,
    }
}

fn answered_there(run: plimsoll_client::CellResult) -> Answered {
    Answered {
        result: CellResult {
            stdout: run.stdout,
            stderr: run.stderr,
            exit_code: run.exit_code,
            timed_out: run.timed_out,
            stdout_truncated: run.stdout_truncated,
            stderr_truncated: run.stderr_truncated,
            interpreter_started: run.interpreter_started,
            interpreter_ended: run.interpreter_ended,
        },
        // The client hands out no result without a checked record.
        record: run.evidence.record.unwrap_or_default(),
        duration_ms: run.evidence.duration_ms,
        diagnostics: run.evidence.diagnostics.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_nobody_gave_is_not_told_as_given_and_the_fix_is_named() {
        let told = |asked, provider: &str, kept: &[&str], ours| {
            let kept: Vec<String> = kept.iter().map(|one| (*one).to_owned()).collect();
            has_interpreter(asked, provider, &kept, ours).map_err(|failure| failure.line())
        };
        assert_eq!(
            told(None, "docker", &["javascript"], true).unwrap_err(),
            "plimsoll: nothing ran (environment): without --language cells are python, but a session on provider docker keeps an \
             interpreter of javascript only; give --language javascript, or an image that has one: \
             SANDBOX_DOCKER_PROJECT_IMAGE=plimsoll/sandbox-python"
        );
        // A daemon's image is not for its callers to choose.
        let there = told(None, "docker", &["javascript"], false).unwrap_err();
        assert!(there.ends_with("only; give --language javascript"), "{there}");
        let given = told(Some(Language::Python), "docker", &["javascript"], true).unwrap_err();
        assert!(given.contains("(environment): --language is python, but"), "{given}");
        for (asked, kept) in [
            (None, &["javascript", "python"][..]),
            (Some(Language::JavaScript), &["javascript"]),
        ] {
            assert_eq!(told(asked, "docker", kept, true), Ok(()));
        }
    }
}
