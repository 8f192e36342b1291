//! Cancelling: what was not sent never is, what was sent is cut at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Server, body, bound, hanging_port, honest, read_request};
use plimsoll_client::{
    CancelToken, Client, Code, Error, ErrorKind, ModuleRequest, ProjectRequest, Refusal, RunRequest,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(1);

fn unsent(error: &Error) {
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::RequestCanceled, Code::Canceled),
        "{error}"
    );
    assert_eq!(error.not_dispatched(), Some(Refusal::Request), "{error}");
}

async fn run(client: &Client, token: &CancelToken) -> Result<(), Error> {
    client
        .run_javascript("1")
        .any_tier()
        .cancel(token)
        .send()
        .await
        .map(drop)
}

/// Cancels after a while and gives the error, which must come at once.
async fn canceled_after(client: &Client, wait: Duration) -> Error {
    let token = CancelToken::new();
    let other = token.clone();
    tokio::spawn(async move {
        sleep(wait).await;
        other.cancel();
    });
    let start = Instant::now();
    let error = run(client, &token).await.expect_err("a cancelled run");
    assert!(start.elapsed() < wait + SOON, "{:?}", start.elapsed());
    assert!(token.is_canceled());
    error
}

#[tokio::test]
async fn a_cancelled_token_refuses_every_operation_unsent() {
    let server = crate::common::daemon(|_| ()).await;
    let client = server.client();
    let token = CancelToken::new();
    token.cancel();
    token.cancel();
    unsent(&client.describe().cancel(&token).await.unwrap_err());
    unsent(&client.describe_unchecked().cancel(&token).await.unwrap_err());
    unsent(
        &client
            .exchange(RunRequest::javascript("1"))
            .cancel(&token)
            .await
            .unwrap_err(),
    );
    unsent(&run(&client, &token).await.unwrap_err());
    let project = ProjectRequest::new().step("true");
    unsent(
        &client
            .run_project(project)
            .any_tier()
            .cancel(&token)
            .send()
            .await
            .unwrap_err(),
    );
    let module = ModuleRequest {
        model: "m".into(),
        rows: vec![vec![1.0]],
        end_time: 1.0,
        step: 1.0,
    };
    unsent(
        &client
            .run_module(module)
            .any_tier()
            .cancel(&token)
            .send()
            .await
            .unwrap_err(),
    );
    assert_eq!(server.connections(), 0);
}

/// A server that reads a request, says so, never answers, and tells when the client hangs up.
async fn holding() -> (Server, Arc<Notify>, Arc<Notify>) {
    let (read, hung_up) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell_read, tell_hung_up) = (Arc::clone(&read), Arc::clone(&hung_up));
    let server = Server::raw(move |mut stream| {
        let (read, hung_up) = (Arc::clone(&tell_read), Arc::clone(&tell_hung_up));
        async move {
            if read_request(&mut stream).await.is_some() {
                read.notify_one();
                let mut byte = [0];
                if matches!(stream.read(&mut byte).await, Ok(0) | Err(_)) {
                    hung_up.notify_one();
                }
            }
        }
    })
    .await;
    (server, read, hung_up)
}

#[tokio::test]
async fn a_call_the_daemon_holds_is_cut_at_once_and_may_have_run() {
    let (server, read, hung_up) = holding().await;
    let client = server.client();
    let token = CancelToken::new();
    let call = tokio::spawn({
        let (client, token) = (client.clone(), token.clone());
        async move { run(&client, &token).await }
    });
    timeout(SOON, read.notified()).await.unwrap();
    let start = Instant::now();
    token.cancel();
    let error = call.await.unwrap().unwrap_err();
    assert!(start.elapsed() < SOON);
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestCanceled, None)
    );
    timeout(SOON, hung_up.notified())
        .await
        .expect("the server sees the hang-up");
    unsent(&run(&client, &token).await.unwrap_err());
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_the_future_hangs_up() {
    let (server, read, hung_up) = holding().await;
    let client = server.client();
    let call = tokio::spawn(async move { client.run_javascript("1").any_tier().send().await.map(drop) });
    timeout(SOON, read.notified()).await.unwrap();
    call.abort();
    timeout(SOON, hung_up.notified())
        .await
        .expect("the server sees the hang-up");
}

#[tokio::test]
async fn one_token_cancels_several_calls() {
    let (server, read, _hung_up) = holding().await;
    let client = server.client();
    let token = CancelToken::new();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (client, token) = (client.clone(), token.clone());
            tokio::spawn(async move { run(&client, &token).await })
        })
        .collect();
    timeout(SOON, read.notified()).await.unwrap();
    token.cancel();
    for call in calls {
        let error = timeout(SOON, call).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RequestCanceled);
    }
}

#[tokio::test]
async fn a_cancel_while_connecting_sends_nothing() {
    let (listener, _waiting) = hanging_port().await;
    let address = listener.local_addr().unwrap();
    let client = Client::builder(format!("http://{address}")).build().unwrap();
    unsent(&canceled_after(&client, Duration::from_millis(50)).await);
}

#[tokio::test]
async fn a_cancel_during_the_tls_handshake_sends_no_request() {
    let seen: Arc<std::sync::Mutex<Vec<u8>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = Server::raw(move |mut stream| {
        let log = Arc::clone(&log);
        async move {
            let mut bytes = Vec::new();
            drop(stream.read_to_end(&mut bytes).await);
            log.lock().expect("no test holds it").extend(bytes);
        }
    })
    .await;
    let client = Client::builder(format!("https://{}", server.address)).build().unwrap();
    unsent(&canceled_after(&client, Duration::from_millis(100)).await);
    sleep(Duration::from_millis(100)).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.first(), Some(&0x16), "a handshake record arrived");
    assert!(!seen.windows(4).any(|window| window == b"POST"));
}

#[tokio::test]
async fn a_cancel_during_the_name_look_up_sends_nothing() {
    let client = Client::builder("http://no-such-host.invalid:1")
        .insecure_http(true)
        .build()
        .unwrap();
    let token = CancelToken::new();
    let call = run(&client, &token);
    tokio::pin!(call);
    // One poll starts the look-up on another thread; the cancel comes before it can be done with this task.
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx))).await;
    assert!(first.is_pending());
    token.cancel();
    let error = timeout(SOON, call).await.unwrap().unwrap_err();
    assert!(error.not_dispatched().is_some(), "{error}");
}

/// A daemon that cancels a call when it has written its answer but for so many bytes.
async fn cancelling(token: &CancelToken, left: usize) -> Server {
    let other = token.clone();
    Server::raw(move |mut stream| {
        let token = other.clone();
        async move {
            let Some(request) = read_request(&mut stream).await else {
                return;
            };
            let answer = bound(&request, 200, body(honest(&request.run())));
            drop(stream.write_all(&answer[..answer.len() - left]).await);
            token.cancel();
            sleep(Duration::from_secs(30)).await;
        }
    })
    .await
}

#[tokio::test]
async fn an_answer_that_had_wholly_arrived_is_returned() {
    // On one thread: the cancel happens before the client can look at the answer that was just written.
    let token = CancelToken::new();
    let server = cancelling(&token, 0).await;
    run(&server.client(), &token).await.unwrap();
    assert!(token.is_canceled());
}

#[tokio::test]
async fn an_answer_cut_short_by_the_cancel_is_not_returned() {
    let token = CancelToken::new();
    let server = cancelling(&token, 1).await;
    let error = timeout(SOON, run(&server.client(), &token)).await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestCanceled, None)
    );
}
