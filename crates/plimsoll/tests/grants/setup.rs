//! A sandbox for the whole test process, and runs with a grant made in place.

use std::time::Duration;

use plimsoll::grants::{Grant, GrantSpec, Profile, StaticMinter};
use plimsoll::{Run, Sandbox};
use tokio::sync::OnceCell;

use crate::api::Api;

/// The credential of every grant here.
pub(crate) const TOKEN: &str = "facade-credential-0123456789";

/// Longer than any run takes; runs that hang fail by it.
const TIMEOUT: Duration = Duration::from_secs(25);

pub(crate) async fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceCell<Sandbox> = OnceCell::const_new();
    let built = async { Sandbox::wasm().max_concurrent(16).build().await.unwrap() };
    SANDBOX.get_or_init(|| built).await
}

/// A grant of an API with the static credential.
pub(crate) fn spec(api: &Api, allow: &[&str]) -> GrantSpec {
    let mut spec = GrantSpec::new(api.origin());
    let split = |route: &&str| {
        let (method, path) = route.split_once(' ').unwrap();
        (method.to_owned(), path.to_owned())
    };
    spec.allow = allow.iter().map(split).collect();
    spec.minter = Some(std::sync::Arc::new(StaticMinter::new(TOKEN.to_owned().into()).unwrap()));
    spec.max_calls = 100_000;
    spec
}

/// The verbs of the client, each on every path of two segments that starts with `/b`.
pub(crate) const EVERY_VERB: [&str; 5] = ["GET /b/*", "PUT /b/*", "POST /b/*", "PATCH /b/*", "DELETE /b/*"];

/// Runs a program with a grant.
pub(crate) async fn run(grant: Grant, code: &str) -> Run {
    with_profile(Profile::direct("berths", grant), code).await
}

/// Runs a program with a profile.
pub(crate) async fn with_profile(profile: Profile, code: &str) -> Run {
    let snippet = sandbox().await.run_javascript(code).any_tier().timeout(TIMEOUT);
    snippet.grant(profile, "tester").unwrap().send().await.unwrap()
}

/// What a program printed that must end with exit code 0.
pub(crate) async fn prints(grant: Grant, code: &str) -> String {
    let run = run(grant, code).await;
    assert_eq!(run.exit_code, 0, "{code}\n{}{}", run.stdout_text(), run.stderr_text());
    run.stdout_text().into_owned()
}
