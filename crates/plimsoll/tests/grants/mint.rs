//! Minters of embedders: asked once a run, before anything runs, and never trusted with more than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use plimsoll::grants::{Credential, MintError, MintFuture, MintScope, Minter, Profile};
use plimsoll::{Reason, RunError};

use crate::api::{Api, ok};
use crate::setup::{sandbox, spec};

/// Gives what its function says, and remembers how often and for whom it was asked.
#[derive(Debug)]
struct Scripted {
    give: fn(MintScope) -> Result<Credential, MintError>,
    names_caller: bool,
    asked: AtomicUsize,
}

impl Minter for Scripted {
    fn mint(&self, scope: MintScope) -> MintFuture<'_> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { (self.give)(scope) })
    }

    fn requires_subject(&self) -> bool {
        self.names_caller
    }
}

fn scripted(names_caller: bool, give: fn(MintScope) -> Result<Credential, MintError>) -> Arc<Scripted> {
    Arc::new(Scripted {
        give,
        names_caller,
        asked: AtomicUsize::new(0),
    })
}

fn profile(api: &Api, minter: &Arc<Scripted>) -> Profile {
    let mut spec = spec(api, &["GET /b/*"]);
    spec.scopes = vec!["berths:read".to_owned()];
    spec.minter = Some(Arc::clone(minter) as Arc<dyn Minter>);
    Profile::direct("berths", spec.validate().unwrap())
}

const CALL: &str = "await host.get('/b/1'); await host.get('/b/2')";

#[tokio::test(flavor = "multi_thread")]
async fn a_minter_that_fails_or_gives_nothing_usable_is_a_refusal_marked_permission_and_nothing_runs() {
    let api = Api::start(|_| ok("1"));
    let failures: [fn(MintScope) -> Result<Credential, MintError>; 8] = [
        |_| Err(MintError::Failed("the vault is sealed")),
        |_| panic!("a minter of somebody else"),
        |_| Ok(Credential::new("")),
        |_| Ok(Credential::new("two words")),
        |_| Ok(Credential::new("line\nbreak")),
        |_| Ok(Credential::new("tök")),
        |_| Ok(Credential::new("fine").expiring_at(SystemTime::now())),
        |_| Ok(Credential::new("fine").expiring_at(SystemTime::UNIX_EPOCH)),
    ];
    for (which, give) in failures.into_iter().enumerate() {
        let minter = scripted(false, give);
        let snippet = sandbox().await.run_javascript(CALL).any_tier();
        let error = snippet
            .grant(profile(&api, &minter), "tester")
            .unwrap()
            .send()
            .await
            .unwrap_err();
        let RunError::NotDispatched(refusal) = error else {
            panic!("{which}: {error}")
        };
        assert_eq!(refusal.reason(), Reason::Permission, "{which}");
        assert!(!refusal.to_string().contains("two words"), "{refusal}");
        assert_eq!(minter.asked.load(Ordering::SeqCst), 1, "{which}");
    }
    assert!(api.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_no_token_can_name_is_refused_without_asking_the_minter() {
    let api = Api::start(|_| ok("1"));
    let minter = scripted(true, |_| Ok(Credential::new("never-minted")));
    for subject in ["", "  ", "*", " a", "a\nb"] {
        let snippet = sandbox().await.run_javascript(CALL).any_tier();
        let refusal = match snippet.grant(profile(&api, &minter), subject) {
            Err(refusal) => refusal,
            Ok(snippet) => match snippet.send().await.unwrap_err() {
                RunError::NotDispatched(refusal) => refusal,
                error @ RunError::MayHaveRun(_) => panic!("{subject:?}: {error}"),
            },
        };
        assert_eq!(refusal.reason(), Reason::Permission, "{subject:?}");
    }
    assert_eq!((minter.asked.load(Ordering::SeqCst), api.asked().len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_minted_once_a_run_for_its_caller_and_its_whole_time_limit() {
    let api = Api::start(|_| ok("1"));
    let minter = scripted(true, |scope| {
        let routes: Vec<String> = scope.allow.iter().map(ToString::to_string).collect();
        assert_eq!(
            (routes, scope.scopes),
            (vec!["GET /b/*".to_owned()], vec!["berths:read".to_owned()])
        );
        assert_eq!(scope.ttl, Duration::from_millis(4_321));
        Ok(Credential::new(format!("minted-for-{}", scope.subject)))
    });
    for subject in ["alice", "bob"] {
        let snippet = sandbox()
            .await
            .run_javascript(CALL)
            .any_tier()
            .timeout(Duration::from_micros(4_321_999));
        let run = snippet
            .grant(profile(&api, &minter), subject)
            .unwrap()
            .send()
            .await
            .unwrap();
        assert_eq!(run.calls.unwrap().rows.len(), 2);
    }
    let asked = api.asked();
    let bearers: Vec<&str> = asked
        .iter()
        .map(|asked| asked.header("authorization").unwrap())
        .collect();
    let (alice, bob) = ("Bearer minted-for-alice", "Bearer minted-for-bob");
    assert_eq!(bearers, [alice, alice, bob, bob]);
    assert_eq!(minter.asked.load(Ordering::SeqCst), 2);
}
