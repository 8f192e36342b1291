//! Sending: in order, and on to the next backend only while it is certain that nothing ran.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::fit::Asked;
use super::{Pool, Shared};
use crate::call::{FloorStated, RunCall, RunResultKind, typed};
use crate::cancel::CancelToken;
use crate::error::{Error, ErrorKind, Refusal};
use crate::info::Info;
use crate::results::RunOutput;
use crate::session::{OpenSession, Session};

/// What a call through a pool came to, and where.
#[derive(Debug)]
#[non_exhaustive]
pub struct Placed<T> {
    /// The result, or the open session.
    pub value: T,
    /// The backend it is from, and the refusals before it.
    pub choice: Choice,
}

/// Where a call went.
#[derive(Debug)]
#[non_exhaustive]
pub struct Choice {
    /// The backend that was asked last: its answer or its error is what the call came to.
    pub backend: String,
    /// The backends that refused the call before, in the order in which they were asked. Nothing ran on any of them.
    pub retried: Vec<Refused>,
}

/// A backend that refused a call before anything of it ran.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// Its name.
    pub backend: String,
    /// The mark of its refusal.
    pub reason: Refusal,
    /// The whole refusal.
    pub error: Error,
}

impl<R: RunResultKind> RunCall<'_, R, FloorStated, Pool> {
    /// Validates the request, sends it to the first backend that can take it, and on to the next one for as long as it is refused
    /// for a reason that may not hold there.
    ///
    /// # Errors
    /// As [`RunCall::send`] of a client, and besides [`ErrorKind::NoBackend`], marked `unsupported`, and
    /// [`ErrorKind::EnvironmentMismatch`]. [`Error::choice`] names the backend the error is from.
    pub async fn send(self) -> Result<Placed<R>, Error> {
        let pool = self.target();
        let asked = Asked::by_run(&pool.requirement, &self)?;
        let to = |index: usize| {
            let client = pool.shared.backends[index].client();
            self.to(client, asked.floor, &asked.rule)
        };
        to(0).check()?;
        let required = pool.requirement.environment.as_deref();
        let send = |index| {
            let call = to(index);
            Box::pin(async move { typed(in_environment(call.send_for_output().await?, required)?) })
        };
        pool.place(&asked, self.cancel_token(), send).await
    }
}

impl OpenSession<'_, FloorStated, Pool> {
    /// Validates the request, opens the session on the first backend that can take it, and on the next one for as long as it is
    /// refused for a reason that may not hold there. From then on the session stays where it is.
    ///
    /// # Errors
    /// As [`OpenSession::send`] of a client, and besides [`ErrorKind::NoBackend`], marked `unsupported`. [`Error::choice`]
    /// names the backend the error is from.
    pub async fn send(self) -> Result<Placed<Session>, Error> {
        let pool = self.target();
        let asked = Asked::by_session(&pool.requirement, &self)?;
        let required = pool.requirement.environment.as_deref();
        let to = |index: usize| {
            let client = pool.shared.backends[index].client();
            self.to(client, asked.floor, &asked.rule, required)
        };
        to(0).check()?;
        let send = |index| Box::pin(to(index).send());
        pool.place(&asked, self.cancel_token(), send).await
    }
}

/// Whether another backend may be sent what this error says nothing ran of: the one rule on which "never twice" rests.
fn may_go_on(error: &Error) -> Option<Refusal> {
    let reason = error.not_dispatched()?;
    matches!(
        reason,
        Refusal::Unsupported | Refusal::Isolation | Refusal::Environment | Refusal::Capacity
    )
    .then_some(reason)
}

/// Backends that were not asked to run a call, and why.
type LeftOut = Vec<(String, String)>;

impl Pool {
    async fn place<T, F>(
        &self,
        asked: &Asked<'_>,
        cancel: Option<&CancelToken>,
        send: impl Fn(usize) -> F,
    ) -> Result<Placed<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut left_out = LeftOut::new();
        let mut refused: Vec<Refused> = Vec::new();
        let order = unless_canceled(cancel, self.order(asked, &mut left_out)).await?;
        for index in order {
            let backend = &self.shared.backends[index];
            let described = unless_canceled(cancel, backend.described(self.shared.lifetime)).await;
            let info = match described {
                Ok(Ok(info)) => info,
                Ok(Err(failure)) => {
                    left_out.push((
                        backend.name().to_owned(),
                        format!("it does not describe itself: {failure}"),
                    ));
                    continue;
                }
                Err(canceled) if refused.is_empty() => return Err(canceled),
                // A refusal that was answered says more than that nobody waits for the next backend.
                Err(_) => break,
            };
            if let Some(reason) = asked.unfit(backend, &info) {
                left_out.push((backend.name().to_owned(), reason));
                continue;
            }
            let error = match send(index).await {
                Ok(value) => {
                    let backend = backend.name().to_owned();
                    let choice = Choice {
                        backend,
                        retried: refused,
                    };
                    return Ok(Placed { value, choice });
                }
                Err(error) => error,
            };
            let backend = backend.name().to_owned();
            let Some(reason) = may_go_on(&error) else {
                return Err(error.with_choice(Choice {
                    backend,
                    retried: refused,
                }));
            };
            refused.push(Refused { backend, reason, error });
            if cancel.is_some_and(CancelToken::is_canceled) {
                break;
            }
        }
        let Some(last) = refused.pop() else {
            return Err(no_backend(&left_out));
        };
        Err(last.error.with_choice(Choice {
            backend: last.backend,
            retried: refused,
        }))
    }

    /// The backends to try, in order. Without a preference each is described when its turn comes, so that a daemon that is down
    /// holds up only the calls that get as far as it.
    async fn order(&self, asked: &Asked<'_>, left_out: &mut LeftOut) -> Vec<usize> {
        let mut order = Vec::new();
        for (index, backend) in self.shared.backends.iter().enumerate() {
            match asked.ruled_out(backend) {
                Some(reason) => left_out.push((backend.name().to_owned(), reason)),
                None => order.push(index),
            }
        }
        if order.is_empty()
            && let Some(named) = &asked.requirement.backend
        {
            left_out.push((named.clone(), "the pool has no backend of this name".to_owned()));
        }
        let Some(prefer) = &asked.requirement.prefer else {
            return order;
        };
        let mut able: Vec<(usize, Arc<Info>)> = Vec::new();
        for (index, described) in describe_all(&self.shared, order).await {
            let backend = &self.shared.backends[index];
            let reason = match described {
                Ok(info) => match asked.unfit(backend, &info) {
                    Some(reason) => reason,
                    None => {
                        able.push((index, info));
                        continue;
                    }
                },
                Err(failure) => format!("it does not describe itself: {failure}"),
            };
            left_out.push((backend.name().to_owned(), reason));
        }
        able.sort_by(|(_, one), (_, other)| prefer(one, other));
        able.into_iter().map(|(index, _)| index).collect()
    }
}

/// All at once; the answers in the pool's order.
async fn describe_all(shared: &Arc<Shared>, backends: Vec<usize>) -> Vec<(usize, Result<Arc<Info>, String>)> {
    let mut asking = JoinSet::new();
    for index in backends {
        let shared = Arc::clone(shared);
        asking.spawn(async move { (index, shared.backends[index].described(shared.lifetime).await) });
    }
    let mut described = asking.join_all().await;
    described.sort_by_key(|(index, _)| *index);
    described
}

/// Waits for what is not a call: dropping it when the caller cancels cuts nothing that runs.
async fn unless_canceled<T>(cancel: Option<&CancelToken>, what: impl Future<Output = T>) -> Result<T, Error> {
    let canceled = async {
        match cancel {
            Some(token) => token.canceled().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = canceled => Err(Error::canceled(false)),
        done = what => Ok(done),
    }
}

fn no_backend(left_out: &LeftOut) -> Error {
    let mut message = "no backend of the pool can take the call".to_owned();
    for (index, (backend, reason)) in left_out.iter().enumerate() {
        let separator = if index == 0 { ": " } else { "; " };
        // Writing to a string does not fail.
        let _ = write!(message, "{separator}{backend}: {reason}");
    }
    Error::new(ErrorKind::NoBackend, message).marked(Refusal::Unsupported)
}

/// An answer from another environment than was required did run, and is not the answer to what was asked.
pub(crate) fn in_environment(output: RunOutput, required: Option<&str>) -> Result<RunOutput, Error> {
    let Some(required) = required else { return Ok(output) };
    let record = output.evidence().record.as_ref();
    let stated = record.map_or("", |record| record.environment.as_str());
    if stated == required {
        return Ok(output);
    }
    let message = format!("environment {required:?} is required, and the record states {stated:?}");
    let error = Error::new(ErrorKind::EnvironmentMismatch, message).with_status(200);
    Err(error.with_result(output))
}
