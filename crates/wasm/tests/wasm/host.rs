//! Host calls answered by a grant's holder, end to end.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_wasm::engine::{
    Engine, EngineConfig, HostCalls, HostFuture, HostRequest, HostResponse, RunReport, RunSpec,
};

/// Remembers every request and answers with what it was given.
#[derive(Debug)]
struct Recorder {
    seen: Mutex<Vec<(String, String, Option<String>)>>,
    status: u16,
    body: Vec<u8>,
    delay: Duration,
}

impl HostCalls for Recorder {
    fn call<'a>(&'a self, request: HostRequest<'a>) -> HostFuture<'a> {
        let body = request.body.map(|body| body.get().to_owned());
        self.seen
            .lock()
            .unwrap()
            .push((request.method.into_owned(), request.path.into_owned(), body));
        Box::pin(async {
            tokio::time::sleep(self.delay).await;
            HostResponse {
                status: self.status,
                body: self.body.clone().into(),
            }
        })
    }
}

async fn run(code: &str, status: u16, body: Vec<u8>, delay: Duration, timeout: Duration) -> (RunReport, Arc<Recorder>) {
    let recorder = Arc::new(Recorder {
        seen: Mutex::default(),
        status,
        body,
        delay,
    });
    let engine = Engine::new(EngineConfig {
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    let mut spec = RunSpec::new(code, timeout);
    spec.host = Some(recorder.clone());
    (engine.run(spec).await.unwrap(), recorder)
}

const CALL: &str = "const r = __plimsoll_host_call('{\"method\":\"PUT\",\"path\":\"/é\",\"body\":{ \"a\":1.0}}'); \
                    console.log(r.status, r.body.length, r.body.slice(0, 9))";
const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn method_path_and_body_cross_and_the_answer_comes_back() {
    let (report, recorder) = run(CALL, 201, "{\"ä\":2}".into(), Duration::from_millis(5), TIMEOUT).await;
    assert_eq!(String::from_utf8(report.stdout.bytes).unwrap(), "201 7 {\"ä\":2}\n");
    let seen = recorder.seen.lock().unwrap();
    assert_eq!(
        *seen,
        [("PUT".to_owned(), "/é".to_owned(), Some("{ \"a\":1.0}".to_owned()))]
    );
}

#[tokio::test]
async fn answers_outside_the_contract_are_an_empty_500() {
    for (status, size) in [(99, 1), (600, 1), (200, (4 << 20) + 1)] {
        let (report, _) = run(CALL, status, vec![b'x'; size], Duration::ZERO, TIMEOUT).await;
        assert_eq!(
            String::from_utf8(report.stdout.bytes).unwrap(),
            "500 0 \n",
            "{status} {size}"
        );
    }
    let (report, _) = run(CALL, 200, vec![b'x'; 4 << 20], Duration::ZERO, TIMEOUT).await;
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        "200 4194304 xxxxxxxxx\n"
    );
}

#[tokio::test]
async fn a_call_in_progress_sees_the_deadline() {
    let begin = Instant::now();
    let (report, recorder) = run(CALL, 200, vec![], Duration::from_secs(60), Duration::from_millis(100)).await;
    assert!(report.timed_out && report.exit_code == 124 && report.stdout.bytes.is_empty());
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(recorder.seen.lock().unwrap().len(), 1);
}
