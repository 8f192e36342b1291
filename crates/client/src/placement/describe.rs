//! What is known of a backend, and for how long.
//!
//! A description is asked for when a call needs it and the last one is missing, too old, or a failure. Calls that need it at the
//! same time wait for one question and share its answer. Questions are numbered as they are asked, and an answer is kept only
//! when no later question has been answered: a slow daemon's old answer never replaces a newer one.

use std::future::IntoFuture as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::error::{Error, ErrorKind, Refusal};
use crate::info::Info;

/// How long a backend may take to describe itself, however long the client's calls may take: it answers from memory, and a
/// call waits for it.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(10);

/// One daemon of a pool.
pub(super) struct Backend {
    name: String,
    client: Client,
    /// Questions asked so far.
    asked: AtomicU64,
    /// One call asks at a time; the others wait for its answer.
    asking: Turn<()>,
    known: Mutex<Option<Known>>,
}

/// The answer to the latest question that has one.
struct Known {
    question: u64,
    asked_at: Instant,
    answer: Result<Arc<Info>, String>,
}

impl Backend {
    pub(super) fn new(name: String, client: Client) -> Self {
        Self {
            name,
            client,
            asked: AtomicU64::new(0),
            asking: Turn::new(()),
            known: Mutex::new(None),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// The backend's description, asked for if need be; else why there is none.
    pub(super) async fn described(&self, lifetime: Duration) -> Result<Arc<Info>, String> {
        let answered = match &*self.known() {
            Some(Known {
                asked_at,
                answer: Ok(info),
                ..
            }) if asked_at.elapsed() < lifetime => return Ok(Arc::clone(info)),
            Some(known) => known.question,
            None => 0,
        };
        let _asking = self.asking.lock().await;
        // Whoever asked while this call waited asked for it too, a failure included: callers in a queue do not each wait for a
        // daemon that is silent.
        if let Some(known) = &*self.known()
            && known.question > answered
        {
            return known.answer.clone();
        }
        self.ask().await.map_err(|failure| failure.message().to_owned())
    }

    /// Asks now, whatever is known.
    pub(super) async fn ask(&self) -> Result<Arc<Info>, Error> {
        let question = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let asked_at = Instant::now();
        let answer = timeout(DESCRIBED_WITHIN, self.client.describe().into_future()).await;
        let answer = answer.unwrap_or_else(|_| {
            let message = format!("no description within {DESCRIBED_WITHIN:?}");
            Err(Error::new(ErrorKind::RequestTimeout, message).marked(Refusal::Environment))
        });
        let answer = answer.map(Arc::new);
        self.keep(question, asked_at, &answer);
        answer
    }

    fn keep(&self, question: u64, asked_at: Instant, answer: &Result<Arc<Info>, Error>) {
        let mut known = self.known();
        if known.as_ref().is_none_or(|known| known.question < question) {
            *known = Some(Known {
                question,
                asked_at,
                answer: answer
                    .as_ref()
                    .map(Arc::clone)
                    .map_err(|failure| failure.message().to_owned()),
            });
        }
    }

    /// Whoever panicked while holding it left it whole: every change is one assignment.
    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
