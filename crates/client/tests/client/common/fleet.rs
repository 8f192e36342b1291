//! Scripted daemons that describe themselves, and pools of them.

use std::time::Duration;

use plimsoll_client::RunRequest;
use plimsoll_client::placement::Pool;
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;

use super::keeper::error;
use super::{IMAGE, Received, SOFTWARE, Server, body, bound, honest};

/// Long enough for every test.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// What the daemon of [`honest`] says about itself: it can do everything.
pub(crate) fn description() -> pb::DescribeResponse {
    let environment = || pb::PayloadEnvironment {
        identity: IMAGE.to_owned(),
        max_timeout_ms: 300_000,
        software_identity: SOFTWARE.to_owned(),
        languages: vec!["javascript".to_owned()],
        ..Default::default()
    };
    pb::DescribeResponse {
        sandbox: "docker".to_owned(),
        isolation: "kernel".to_owned(),
        protocol: 4,
        supports_project: true,
        supports_module: true,
        supports_javascript_grants: true,
        supports_project_grants: true,
        supports_sessions: true,
        javascript_environment: Some(environment()).into(),
        project_environment: Some(environment()).into(),
        module_environment: Some(environment()).into(),
        session_environment: Some(environment()).into(),
        ..Default::default()
    }
}

/// A description that differs from [`description`] in what `change` does to it.
pub(crate) fn described(change: impl FnOnce(&mut pb::DescribeResponse)) -> pb::DescribeResponse {
    let mut description = description();
    change(&mut description);
    description
}

pub(crate) fn describes(received: &Received) -> bool {
    received.line.contains("/Describe ")
}

/// Answers Describe with a description, and everything else with what the script makes of it.
pub(crate) async fn backend(
    description: pb::DescribeResponse,
    script: impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static,
) -> Server {
    Server::answering(move |received| {
        if describes(received) {
            bound(received, 200, to_json(&description))
        } else {
            script(received)
        }
    })
    .await
}

/// The honest answer to a run.
pub(crate) fn runs(received: &Received) -> Vec<u8> {
    bound(received, 200, body(honest(&received.run())))
}

/// A refusal marked with the reason of a number, or unmarked.
pub(crate) fn refuses(code: &'static str, reason: Option<u8>) -> impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static {
    move |received| match reason {
        Some(number) => error(received, 400, code, &[("NotDispatched", &[8, number])]),
        None => error(received, 500, code, &[]),
    }
}

/// A pool of servers named `first`, `second`, …
pub(crate) fn pool(servers: &[&Server]) -> Pool {
    let names = ["first", "second", "third"];
    let backends = names.into_iter().zip(servers.iter().map(|server| server.client()));
    Pool::new(backends, LONG).expect("a pool")
}

/// The run requests a server has seen.
pub(crate) fn sent(server: &Server) -> Vec<RunRequest> {
    let received = server.received();
    received
        .iter()
        .filter(|request| request.line.contains("/Run "))
        .map(Received::run)
        .collect()
}
