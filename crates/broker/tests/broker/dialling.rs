//! Which addresses are dialled, whatever a name resolves to, and whatever the environment says.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use plimsoll_broker::{BrokerOptions, CauseObserver, ResolveFuture, Resolver};
use tokio::net::TcpListener;

use crate::support::{Names, Run, Script, Step, ok, spec};
use crate::tls::tls;

#[tokio::test]
async fn a_name_is_dialled_only_when_every_answer_may_be() {
    let (acceptor, options) = tls("api.example", &[]);
    let upstream = Script::over(Some(acceptor), |_| vec![Step::Send(ok())]).await;
    let origin = format!("https://api.example:{}", upstream.address.port());
    for answers in [
        &["10.0.0.5"][..],
        &["127.0.0.1"],
        &["100.64.0.1"],
        &["fc00::1"],
        &["::ffff:10.0.0.5"],
        &["::ffff:127.0.0.1"],
        &["93.184.215.14", "127.0.0.1"],
        &["127.0.0.1", "93.184.215.14"],
        &["169.254.169.254"],
        &["100.100.100.200"],
        &["168.63.129.16"],
        &["fd00:ec2::254"],
        &["::ffff:169.254.169.254"],
        &["0.0.0.0"],
        &["224.0.0.1"],
        &[],
    ] {
        let run = Run::with(
            &spec(&origin, &["GET /a"]),
            BrokerOptions {
                resolver: Names::new(&[answers]),
                ..options.clone()
            },
        );
        let answer = run.get("/a").await;
        assert_eq!(answer.status, 502, "{answers:?}");
        assert!(answer.body.starts_with(b"address refused: "), "{answers:?}");
        let row = run.trace().rows.pop().unwrap();
        assert_eq!((row.status, row.delivered), (0, false));
    }
    assert_eq!(upstream.connections(), 0);

    let mut listed = spec(&origin, &["GET /a"]);
    listed.allow_private = vec!["127.0.0.0/8".to_owned()];
    assert_eq!(Run::with(&listed, options.clone()).status("/a").await, 200);

    let mut metadata = spec(&origin, &["GET /a"]);
    metadata.allow_private = vec!["169.254.0.0/16".to_owned(), "127.0.0.0/8".to_owned()];
    let run = Run::with(
        &metadata,
        BrokerOptions {
            resolver: Names::new(&[&["127.0.0.1", "169.254.169.254"]]),
            ..options
        },
    );
    assert_eq!(run.status("/a").await, 502);
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_dialled() {
    let upstream = Script::start(|seen| {
        let mut steps = vec![Step::Send(ok())];
        if seen.nth == 1 {
            steps.push(Step::Close);
        }
        steps
    })
    .await;
    // Fine when asked first, elsewhere when asked again.
    let names = Names::new(&[&["127.0.0.1"], &["10.0.0.5"]]);
    let run = Run::with(
        &spec(&format!("http://localhost:{}", upstream.address.port()), &["GET /a"]),
        BrokerOptions {
            resolver: Arc::clone(&names) as Arc<dyn Resolver>,
            ..BrokerOptions::default()
        },
    );
    assert_eq!(run.status("/a").await, 200);
    assert_eq!(
        run.status("/a").await,
        200,
        "a kept connection leads to the checked address"
    );
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(run.status("/a").await, 502, "a new connection is checked again");
    assert_eq!(names.asked.load(Ordering::SeqCst), 2);
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn localhost_is_found_by_the_resolver_of_the_host() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&format!("http://LOCALHOST:{}", upstream.address.port()), &["GET /a"]);
    assert_eq!(run.status("/a").await, 200);
}

#[tokio::test]
async fn a_dead_address_does_not_hide_a_live_one() {
    let upstream = Script::always(ok()).await;
    // Nobody listens on the port at 127.0.0.2.
    let run = Run::with(
        &spec(&format!("http://localhost:{}", upstream.address.port()), &["GET /a"]),
        BrokerOptions {
            resolver: Names::new(&[&["127.0.0.2", "127.0.0.1"]]),
            ..BrokerOptions::default()
        },
    );
    assert_eq!(run.status("/a").await, 200);
}

#[tokio::test]
async fn an_api_that_is_not_there_is_502() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let run = Run::new(&format!("http://{gone}"), &["GET /a"]);
    let answer = run.get("/a").await;
    assert_eq!(answer.status, 502);
    assert!(answer.body.starts_with(b"no answer: the API could not be reached"));
    assert_eq!(run.counts(), (1, 0, 0));
}

/// A host whose resolver knows no name.
#[derive(Debug)]
struct NoNames;

impl Resolver for NoNames {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(async { Err(std::io::Error::other("no such name")) })
    }
}

/// What the owner of the grants is told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl CauseObserver for Told {
    fn unanswered(&self, cause: &str) {
        self.0.lock().push(cause.to_owned());
    }
}

#[tokio::test]
async fn why_a_call_got_no_answer_is_told_to_the_owner_and_never_to_the_guest() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = Script::start(|_| vec![Step::Hang]).await;
    let (acceptor, trusting) = tls("other.example", &[]);
    let secure = Script::over(Some(acceptor), |_| vec![Step::Send(ok())]).await;
    let mut private = spec("https://api.example", &["GET /a"]);
    private.allow_private = vec!["127.0.0.0/8".to_owned()];
    let mut slow = spec(&silent.origin(), &["GET /a"]);
    slow.timeout_sec = 1;
    let mut distrusted = spec(&format!("https://api.example:{}", secure.address.port()), &["GET /a"]);
    distrusted.allow_private = vec!["127.0.0.0/8".to_owned()];
    let by_names = |resolver: Arc<dyn Resolver>| BrokerOptions {
        resolver,
        ..trusting.clone()
    };
    for (grant, options, words) in [
        (
            private.clone(),
            by_names(Arc::new(NoNames)),
            "does not resolve: no such name",
        ),
        (private, by_names(Names::new(&[&["10.0.0.5"]])), "10.0.0.5"),
        (
            spec(&format!("http://{gone}"), &["GET /a"]),
            BrokerOptions::default(),
            "Connection refused",
        ),
        (slow, BrokerOptions::default(), "no whole answer within 1 s"),
        (distrusted, by_names(Names::new(&[&["127.0.0.1"]])), "certificate"),
    ] {
        let told = Arc::new(Told::default());
        let options = BrokerOptions {
            causes: Some(Arc::clone(&told) as _),
            ..options
        };
        let answer = Run::with(&grant, options).get("/a").await;
        assert_eq!(answer.status, 502, "{words}");
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(!body.contains(words), "{body}");
        let told = told.0.lock();
        assert!(told.len() == 1 && told[0].contains(words), "{words}: {told:?}");
    }
    // An answer has no cause, and neither has what was never sent.
    let upstream = Script::always(ok()).await;
    let told = Arc::new(Told::default());
    let options = BrokerOptions {
        causes: Some(Arc::clone(&told) as _),
        ..BrokerOptions::default()
    };
    let run = Run::with(&spec(&upstream.origin(), &["GET /a"]), options);
    assert_eq!((run.status("/a").await, run.status("/b").await), (200, 403));
    assert!(told.0.lock().is_empty());
}

/// Runs one of these tests again in a process whose environment names a proxy for everything.
#[test]
fn proxies_of_the_environment_are_not_used() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment of this process must stay as it is"
    )]
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ] {
        child.env(name, &url);
    }
    let output = child
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .args(["--exact", "calls::a_request_carries_our_headers_and_nothing_else"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(proxy.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
