//! Session sandboxes that wait: a session in one is a session like any other, and whatever somebody does to what waits is no
//! session's failure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use plimsoll::{Cell, RunError, Sandbox, Session, Tier};
use plimsoll_core::{Reason, Resources};
use plimsoll_docker::provider::Docker;
use plimsoll_docker::settings::DockerSettings;
use plimsoll_sandbox::Sandbox as _;
use tokio::time::sleep;

use crate::engine;
use crate::support::{run, variables};

/// Snippets run in it too, so that one image is proven.
const IMAGE: &str = "plimsoll/sandbox-python:latest";

/// The longest session of these pools.
const LIFETIME: Duration = Duration::from_secs(600);

/// A sandbox with a session pool.
struct Pooled {
    sandbox: Sandbox,
    /// The owner its containers name.
    owner: String,
    size: usize,
    /// How long a member takes to be made.
    making: Duration,
}

impl Pooled {
    async fn of(size: u32) -> Self {
        Self::with_image(size, IMAGE).await
    }

    async fn with_image(size: u32, image: &str) -> Self {
        let variables = variables(&[("SANDBOX_DOCKER_IMAGE", image), ("SANDBOX_DOCKER_PROJECT_IMAGE", image)]);
        let settings = DockerSettings::read(&variables, Resources::default()).unwrap();
        let docker = Arc::new(Docker::new(settings, Resources::default(), 0));
        let sandbox = Sandbox::with_provider(docker.clone()).await.unwrap();
        let before = Instant::now();
        let pool = docker.sessions().unwrap().pool().unwrap();
        pool.start(size, LIFETIME).await.unwrap();
        let making = before.elapsed();
        // The first open has sessions proven, in a member of the pool.
        let first = sandbox
            .open_session()
            .any_tier()
            .lifetime(LIFETIME)
            .send()
            .await
            .unwrap();
        let owner = owner_of(&first).await;
        first.close().await.unwrap();
        let pooled = Self {
            sandbox,
            owner,
            size: usize::try_from(size).unwrap(),
            making,
        };
        pooled.full(&[]).await;
        pooled
    }

    /// IDs of what waits beside these sessions' containers, once it is all there.
    async fn full(&self, open: &[&str]) -> BTreeSet<String> {
        for _ in 0..240 {
            let waiting = self.beside(open).await;
            if waiting.len() == self.size {
                // Each is there from its creation; when its interpreters have started it waits.
                sleep(self.making * 2 + Duration::from_millis(500)).await;
                if self.beside(open).await == waiting {
                    return waiting;
                }
            }
            sleep(Duration::from_millis(250)).await;
        }
        panic!("the pool does not fill: {:?}", self.beside(open).await);
    }

    async fn beside(&self, open: &[&str]) -> BTreeSet<String> {
        let owned = engine::owned_by(&self.owner).await.into_iter();
        owned
            .filter(|id| !open.iter().any(|host_name| id.starts_with(host_name)))
            .collect()
    }

    /// A session, and its container's host name: the beginning of its ID.
    async fn open(&self) -> (Session, String) {
        let session = self
            .sandbox
            .open_session()
            .any_tier()
            .lifetime(LIFETIME)
            .send()
            .await
            .unwrap();
        let host_name = host_name(&session).await;
        (session, host_name)
    }

    /// Lets everything go, and looks whether it is gone.
    async fn drained(self) {
        self.sandbox.drain().await.unwrap();
        assert_eq!(engine::owned_by(&self.owner).await, Vec::<String>::new());
    }
}

async fn host_name(session: &Session) -> String {
    let asked = session.run_javascript("console.log(require('os').hostname())");
    let host_name = asked.send().await.unwrap().stdout_text().trim().to_owned();
    assert_eq!(host_name.len(), 12, "{host_name}");
    host_name
}

async fn owner_of(session: &Session) -> String {
    let host_name = host_name(session).await;
    let mut owners = engine::owners().await.into_iter();
    owners.find(|(id, _)| id.starts_with(&host_name)).unwrap().1
}

fn among(host_name: &str, waiting: &BTreeSet<String>) -> bool {
    waiting.iter().any(|id| id.starts_with(host_name))
}

async fn prints(session: &Session, cell: Cell) -> String {
    let ran = session.run_cell(cell).send().await.unwrap();
    assert_eq!(ran.exit_code, 0, "{}", ran.stderr_text());
    ran.stdout_text().into_owned()
}

#[test]
fn a_session_takes_what_waits_for_itself_alone_and_the_pool_fills_again() {
    run(async {
        let pooled = Pooled::of(2).await;
        let waiting = pooled.full(&[]).await;
        for id in &waiting {
            let labels = &engine::json(&format!("/containers/{id}/json")).await["Config"]["Labels"];
            let expires: u64 = labels["io.plimsoll.expires"].as_str().unwrap().parse().unwrap();
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
            let rest = expires - now;
            // Half an hour and the longest session, less what it has waited.
            assert!((1800 + 600 - 120..=1800 + 600 + 61).contains(&rest), "{rest}");
            assert_eq!(labels["io.plimsoll.session"], "1");
        }
        let (session, taken) = pooled.open().await;
        assert!(among(&taken, &waiting), "{taken} {waiting:?}");
        prints(&session, Cell::python("open('mine', 'w').write('x')")).await;
        let again = pooled.full(&[&taken]).await;
        assert_eq!(waiting.intersection(&again).count(), 1);
        session.close().await.unwrap();
        assert!(
            !among(&taken, &pooled.beside(&[]).await),
            "a session's sandbox is its own"
        );
        let (next, host_name) = pooled.open().await;
        assert!(among(&host_name, &again));
        let told = prints(&next, Cell::python("import os; os.path.exists('mine')")).await;
        assert_eq!(told, "False\n");
        next.close().await.unwrap();
        pooled.drained().await;
    });
}

#[test]
fn the_first_cell_finds_an_interpreter_that_waited_and_is_told_that_it_is_fresh() {
    run(async {
        let pooled = Pooled::of(1).await;
        sleep(Duration::from_secs(2)).await;
        let (session, _) = pooled.open().await;
        let opened = Instant::now();
        for (cell, again) in [
            (Cell::javascript("var n = 1"), Cell::javascript("n")),
            (Cell::python("n = 1"), Cell::python("n")),
        ] {
            let first = session.run_cell(cell).send().await.unwrap();
            assert!(first.exit_code == 0 && first.interpreter_started, "{first:?}");
            let second = session.run_cell(again).send().await.unwrap();
            assert_eq!(
                (second.stdout_text().as_ref(), second.interpreter_started),
                ("1\n", false)
            );
        }
        // A node that was started for the cell would be no older than the session.
        let age: f64 = prints(&session, Cell::javascript("process.uptime()"))
            .await
            .trim()
            .parse()
            .unwrap();
        assert!(age > opened.elapsed().as_secs_f64() + 1.5, "{age}");
        session.close().await.unwrap();
        pooled.drained().await;
    });
}

#[test]
fn nothing_of_the_wait_is_in_the_session() {
    const TOLD: &str = r"
import os, sys
print(sorted(os.listdir('/work')), sorted(os.listdir('/dev/shm')), sorted(os.listdir('/tmp')))
print(sorted(key for key in os.environ if key != 'HOSTNAME'), os.getcwd(), sys.argv, sys.path[0], __name__)
print(sorted(name for name in globals() if not name.startswith('__')))
print(len([pid for pid in os.listdir('/proc') if pid.isdigit()]), os.getppid())
";
    run(async {
        let pooled = Pooled::of(1).await;
        let (from_pool, host_name) = pooled.open().await;
        // While that one is there the pool is emptied behind its back: the next session's container is made for it.
        let waiting = pooled.full(&[&host_name]).await;
        for id in &waiting {
            engine::ask("POST", &format!("/containers/{id}/kill")).await;
        }
        let (cold, host_name) = pooled.open().await;
        assert!(!among(&host_name, &waiting));
        let mut seen = Vec::new();
        for session in [&from_pool, &cold] {
            // Both interpreters live in both.
            prints(session, Cell::javascript("1")).await;
            seen.push(prints(session, Cell::python(TOLD)).await);
        }
        assert_eq!(seen[0], seen[1]);
        from_pool.close().await.unwrap();
        cold.close().await.unwrap();
        pooled.drained().await;
    });
}

#[test]
fn a_floor_above_the_tier_takes_nothing_from_the_pool() {
    run(async {
        let pooled = Pooled::of(1).await;
        let waiting = pooled.full(&[]).await;
        let refused = pooled.sandbox.open_session().floor(Tier::Vm).send().await;
        match refused {
            Err(RunError::NotDispatched(refusal)) => assert_eq!(refusal.reason(), Reason::Isolation),
            other => panic!("not refused: {other:?}"),
        }
        assert_eq!(pooled.full(&[]).await, waiting);
        pooled.drained().await;
    });
}

/// Does this to everything that waits; a session opened then is a good one, and what was harmed is removed.
async fn behind_its_back(pooled: &Pooled, method: &str, action: &str, body: &str) {
    let waiting = pooled.full(&[]).await;
    for id in &waiting {
        let path = format!("/containers/{id}{action}");
        let (status, told) = engine::request(method, &path, "application/json", body.as_bytes()).await;
        assert!(status < 300, "{action}: {status} {}", String::from_utf8_lossy(&told));
    }
    let (session, host_name) = pooled.open().await;
    assert!(!among(&host_name, &waiting), "{action}");
    assert_eq!(prints(&session, Cell::python("6 * 7")).await, "42\n", "{action}");
    // A paused container takes its time to go, and holds its place until then.
    for _ in 0..160 {
        if pooled.beside(&[]).await.is_disjoint(&waiting) {
            pooled.full(&[&host_name]).await;
            session.close().await.unwrap();
            return;
        }
        sleep(Duration::from_millis(250)).await;
    }
    panic!("{action}: still there");
}

#[test]
fn what_somebody_killed_paused_removed_changed_or_renamed_is_never_a_session() {
    run(async {
        let pooled = Pooled::of(1).await;
        behind_its_back(&pooled, "POST", "/kill", "").await;
        behind_its_back(&pooled, "POST", "/pause", "").await;
        behind_its_back(&pooled, "DELETE", "?force=true", "").await;
        behind_its_back(&pooled, "POST", "/update", r#"{"CpuShares":512}"#).await;
        let renamed = format!("/rename?name=plimsoll-test-renamed-{}", std::process::id());
        behind_its_back(&pooled, "POST", &renamed, "").await;
        pooled.drained().await;
    });
}

#[test]
fn eight_opens_at_once_on_a_pool_of_two_get_eight_sandboxes() {
    run(async {
        let pooled = Pooled::of(2).await;
        let mut opens = tokio::task::JoinSet::new();
        for nth in 0..8 {
            let sandbox = pooled.sandbox.clone();
            opens.spawn(async move {
                let session = sandbox
                    .open_session()
                    .any_tier()
                    .lifetime(LIFETIME)
                    .send()
                    .await
                    .unwrap();
                let told = prints(&session, Cell::javascript(format!("{nth} * {nth}"))).await;
                assert_eq!(told, format!("{}\n", nth * nth));
                session
            });
        }
        let (mut sessions, mut containers) = (Vec::new(), BTreeSet::new());
        while let Some(opened) = opens.join_next().await {
            let session = opened.unwrap();
            containers.insert(host_name(&session).await);
            sessions.push(session);
        }
        assert_eq!(containers.len(), 8);
        for session in sessions {
            session.close().await.unwrap();
        }
        pooled.drained().await;
    });
}

#[test]
fn a_claim_waits_for_no_probe_and_a_probe_that_failed_stops_claims() {
    run(async {
        let image = engine::Throwaway::named_like(IMAGE).await;
        let pooled = Pooled::with_image(2, image.name()).await;
        // No probe is younger than five seconds, and the next would fail.
        sleep(Duration::from_secs(6)).await;
        let untag = format!("/images/{}", image.name());
        let (status, _) = engine::request("DELETE", &untag, "application/json", b"").await;
        assert_eq!(status, 200);
        let waiting = pooled.beside(&[]).await;
        let (session, host_name) = pooled.open().await;
        assert!(among(&host_name, &waiting));
        // The filler looks at the image again because a member was taken.
        let refused = refusal(&pooled).await;
        assert_eq!(refused, Reason::Environment);
        image.repoint(IMAGE).await;
        pooled.full(&[&host_name]).await;
        let (next, _) = pooled.open().await;
        session.close().await.unwrap();
        next.close().await.unwrap();
        pooled.drained().await;
        image.remove().await;
    });
}

#[test]
fn a_tag_that_moves_empties_the_pool() {
    run(async {
        let image = engine::Throwaway::named_like(IMAGE).await;
        let pooled = Pooled::with_image(2, image.name()).await;
        let other = engine::Throwaway::built("LABEL moved=1", &[]).await;
        image.repoint(other.name()).await;
        // The claim that wakes the filler is the last one in the image that was proven.
        let (session, host_name) = pooled.open().await;
        let refused = refusal(&pooled).await;
        assert_eq!(refused, Reason::Environment);
        for _ in 0..40 {
            if pooled.beside(&[&host_name]).await.is_empty() {
                assert_eq!(prints(&session, Cell::python("6 * 7")).await, "42\n");
                session.close().await.unwrap();
                pooled.drained().await;
                image.remove().await;
                other.remove().await;
                return;
            }
            sleep(Duration::from_millis(250)).await;
        }
        panic!("still waiting: {:?}", pooled.beside(&[&host_name]).await);
    });
}

/// Opens until one is refused.
async fn refusal(pooled: &Pooled) -> Reason {
    for _ in 0..40 {
        sleep(Duration::from_millis(250)).await;
        match pooled.sandbox.open_session().any_tier().lifetime(LIFETIME).send().await {
            Ok(session) => drop(session.close().await.unwrap()),
            Err(RunError::NotDispatched(refusal)) => return refusal.reason(),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("never refused");
}

#[test]
fn a_pool_that_nobody_holds_any_more_goes() {
    run(async {
        let pooled = Pooled::of(1).await;
        let owner = pooled.owner.clone();
        drop(pooled);
        engine::goes_for_good(&owner, Duration::from_secs(4)).await;
    });
}
