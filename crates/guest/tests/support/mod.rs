//! A sandbox without a container: new PID and mount namespaces, a throwaway root, the guest's user. Needs root.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::{PROTOCOL_VERSION, SNIPPET_STREAM_CAP};
use plimsoll_guest_messages::{
    Direction, GuestMessage, HostMessage, Key, Open, Plan, Prepare, ProjectPlan, Report, Scanner, Sender, SnippetEnd,
    SnippetPlan, StepReport, Variable,
};

/// Longest a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running sandbox.
pub(crate) struct Sandbox {
    unshare: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) sender: Sender,
    key: Key,
    bytes: Receiver<Vec<u8>>,
    scanner: Scanner,
    waiting: Vec<GuestMessage>,
    /// Everything PID 1 wrote.
    pub(crate) raw: Vec<u8>,
    folder: PathBuf,
}

impl Sandbox {
    /// Starts PID 1 and says nothing to it.
    pub(crate) fn start() -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("plimsoll-guest-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let enter = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/enter.sh");
        let mut unshare = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "--mount", "--ipc", "--net", "--"])
            .arg("sh")
            .arg(enter)
            .arg(&folder)
            .arg(env!("CARGO_BIN_EXE_plimsoll-guest"))
            .arg(node())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut stdout = unshare.stdout.take().unwrap();
        let (to, bytes) = channel();
        std::thread::spawn(move || {
            let mut chunk = vec![0; 64 << 10];
            while let Ok(read @ 1..) = stdout.read(&mut chunk) {
                if to.send(chunk[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        let key = Key::new([42; 32]);
        Self {
            stdin: unshare.stdin.take(),
            unshare,
            sender: Sender::new(key.clone(), Direction::ToGuest),
            scanner: Scanner::new(key.clone()),
            key,
            bytes,
            waiting: Vec::new(),
            raw: Vec::new(),
            folder,
        }
    }

    /// Starts PID 1 and opens it.
    pub(crate) fn open(prepare: Prepare) -> Self {
        Self::open_with(prepare, &[], SNIPPET_STREAM_CAP)
    }

    /// Starts PID 1 and opens it with variables of an image.
    pub(crate) fn open_with(prepare: Prepare, env: &[(&str, &str)], output_cap: u64) -> Self {
        let mut sandbox = Self::start();
        let open = sandbox.open_frame(prepare, env, output_cap);
        sandbox.write(&open);
        sandbox
    }

    /// The opening frame.
    pub(crate) fn open_frame(&mut self, prepare: Prepare, env: &[(&str, &str)], output_cap: u64) -> Vec<u8> {
        let open = HostMessage::Open(Open {
            version: PROTOCOL_VERSION,
            key: self.key.clone(),
            prepare,
            env: env.iter().map(|(name, value)| Variable::new(*name, *value)).collect(),
            output_cap,
        });
        self.sender.frame(open.kind(), &open.encode().unwrap()).unwrap()
    }

    /// The frame of a plan.
    pub(crate) fn plan_frame(&mut self, plan: Plan) -> Vec<u8> {
        let message = HostMessage::Run(plan);
        self.sender.frame(message.kind(), &message.encode().unwrap()).unwrap()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, plan: Plan) {
        let frame = self.plan_frame(plan);
        self.write(&frame);
    }

    /// The next message, or `None` at the end of PID 1's output.
    pub(crate) fn next(&mut self) -> Option<GuestMessage> {
        let until = Instant::now() + PATIENCE;
        while self.waiting.is_empty() {
            match self.bytes.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(chunk) => {
                    self.raw.extend_from_slice(&chunk);
                    self.waiting = self.scanner.feed(&chunk);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("PID 1 says nothing for {PATIENCE:?}"),
            }
        }
        Some(self.waiting.remove(0))
    }

    /// The next message that is no heartbeat.
    pub(crate) fn next_word(&mut self) -> Option<GuestMessage> {
        loop {
            match self.next() {
                Some(GuestMessage::Heartbeat) => {}
                other => return other,
            }
        }
    }

    pub(crate) fn expect_ready(&mut self) {
        let ready = self.next_word();
        assert!(matches!(ready, Some(GuestMessage::Ready(_))), "{ready:?}");
    }

    pub(crate) fn expect_started(&mut self) {
        assert_eq!(self.next_word(), Some(GuestMessage::Started));
    }

    /// Has the running call's code stopped.
    pub(crate) fn stop(&mut self) {
        let message = HostMessage::Stop;
        let frame = self.sender.frame(message.kind(), &message.encode().unwrap()).unwrap();
        self.write(&frame);
    }

    /// Runs a project whose steps start.
    pub(crate) fn project(&mut self, plan: ProjectPlan) -> Report {
        self.send(Plan::Project(plan));
        self.expect_started();
        self.report()
    }

    pub(crate) fn report(&mut self) -> Report {
        match self.next_word() {
            Some(GuestMessage::Report(report)) => report,
            other => panic!("no report: {other:?}"),
        }
    }

    pub(crate) fn snippet_end(&mut self) -> SnippetEnd {
        match self.next_word() {
            Some(GuestMessage::SnippetEnd(end)) => end,
            other => panic!("no end: {other:?}"),
        }
    }

    /// PID 1 as the host sees it.
    pub(crate) fn host_pid(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.unshare.id());
        let until = Instant::now() + PATIENCE;
        loop {
            // Empty until it has forked.
            match std::fs::read_to_string(&path).unwrap().trim() {
                "" if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                children => return children.parse().expect("one child of unshare"),
            }
        }
    }

    /// Host pids of every process in the sandbox's PID namespace.
    pub(crate) fn inhabitants(pid_one: u32) -> Vec<u32> {
        let Ok(namespace) = std::fs::read_link(format!("/proc/{pid_one}/ns/pid")) else {
            return Vec::new();
        };
        let pids = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_string_lossy().parse::<u32>().ok());
        pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|other| other == namespace))
            .collect()
    }

    /// Closes PID 1's input and waits for its end.
    pub(crate) fn close(&mut self) -> ExitStatus {
        self.stdin = None;
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.unshare.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "PID 1 does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The Node 22 that tests run with.
pub(crate) fn node() -> PathBuf {
    let named = std::env::var_os("NODE").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("node"));
    let node = named
        .into_iter()
        .chain(found)
        .find(|path| path.is_file())
        .expect("node, by NODE or by PATH");
    std::fs::canonicalize(node).unwrap()
}

/// A project of steps alone, with 20 seconds.
pub(crate) fn steps(steps: &[&str]) -> ProjectPlan {
    ProjectPlan {
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        step_timeout_ms: 20_000,
        ..ProjectPlan::default()
    }
}

/// Runs steps in a fresh sandbox.
pub(crate) fn project(plan: ProjectPlan) -> Report {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    sandbox.project(plan)
}

/// Runs one step in a fresh sandbox.
pub(crate) fn one_step(step: &str) -> StepReport {
    let mut report = project(steps(&[step]));
    assert_eq!(report.error, "");
    report.steps.remove(0)
}

/// Runs one snippet in a fresh sandbox that was ready before.
pub(crate) fn pooled(program: &str, prelude: &str, timeout_ms: u64) -> SnippetEnd {
    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.expect_ready();
    sandbox.send(snippet(program, prelude, timeout_ms));
    sandbox.expect_started();
    sandbox.snippet_end()
}

/// Runs one snippet whose plan comes together with the opening.
pub(crate) fn cold(program: &str, prelude: &str, timeout_ms: u64) -> SnippetEnd {
    let mut sandbox = Sandbox::start();
    let mut frames = sandbox.open_frame(Prepare::Snippet, &[], SNIPPET_STREAM_CAP);
    frames.extend(sandbox.plan_frame(snippet(program, prelude, timeout_ms)));
    sandbox.write(&frames);
    sandbox.expect_ready();
    sandbox.expect_started();
    sandbox.snippet_end()
}

pub(crate) fn snippet(program: &str, prelude: &str, timeout_ms: u64) -> Plan {
    Plan::Snippet(SnippetPlan {
        program: program.to_owned(),
        prelude: prelude.to_owned(),
        timeout_ms,
    })
}

/// Bytes as text, for comparisons.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit code of PID 1, which unshare passes on.
pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    assert_eq!(status.signal(), None);
    status.code()
}
