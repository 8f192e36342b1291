use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const RUNSC: &str = "/usr/local/bin/runsc";

/// A folder with a scripted engine's socket, its configuration and its process id file.
struct Fake {
    folder: tempfile::TempDir,
    questions: Arc<AtomicUsize>,
}

impl Fake {
    /// Answers the n-th question (from 0) with what `answer` makes of n.
    fn new(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("engine.sock")).unwrap();
        let questions = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&questions);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
                // A connection that asks nothing holds up no other.
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                        head.push(byte[0]);
                    }
                    if head.is_empty() {
                        return;
                    }
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    // Whoever has read enough is gone.
                    let _gone = stream.write_all(answer(number).as_bytes());
                });
            }
        });
        Self { folder, questions }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn show(&self, process: &str) -> Result<Reload, EngineError> {
        self.show_within(process, Duration::from_secs(20))
    }

    fn show_within(&self, process: &str, shown_within: Duration) -> Result<Reload, EngineError> {
        let (socket, config, pid_file) = (
            self.path("engine.sock"),
            self.path("daemon.json"),
            self.path("engine.pid"),
        );
        let engine = Engine {
            process,
            pid_file: &pid_file,
            shown_within,
            systemd: false,
            ..Engine::at(&socket, &config)
        };
        engine.show(Path::new(RUNSC))
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
}

fn with(path: &str, args: &str) -> String {
    ok(&format!(
        r#"{{"Runtimes":{{"runc":{{"path":"runc"}},"runsc":{{"path":"{path}","runtimeArgs":{args}}}}},"Name":"x"}}"#
    ))
}

const ARGS: &str = r#"["--host-uds=open"]"#;

/// A process of our own that leaves a file when it is told to reload, and its name.
fn reloadable(mark: &Path) -> (std::process::Child, String) {
    #[expect(clippy::disallowed_methods, reason = "the test stands in for the engine's process")]
    let mut child = std::process::Command::new("/usr/bin/env")
        // Whoever started the tests may have the signal ignored, and a shell cannot trap what it was started to ignore.
        .args(["--default-signal=HUP", "/bin/sh", "-c"])
        .arg(format!(
            "trap ': >{}; exit' HUP; echo; while :; do sleep 0.02; done",
            mark.display()
        ))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The line says that the trap is set.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let name = fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    (child, name.trim_end().to_owned())
}

#[test]
fn an_engine_that_shows_the_runtime_is_left_alone() {
    let fake = Fake::new(|_| with(RUNSC, ARGS));
    assert_eq!(fake.show("nobody").unwrap(), Reload::NotNeeded);
    assert_eq!(fake.questions.load(Ordering::SeqCst), 1);
}

#[test]
fn without_an_engine_there_is_nothing_to_reload() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none.sock");
    let engine = Engine::at(&socket, Path::new("/nonexistent"));
    assert_eq!(engine.show(Path::new(RUNSC)).unwrap(), Reload::NoEngine);
}

#[test]
fn another_path_or_a_missing_argument_is_not_the_runtime() {
    for answer in [
        with("/opt/runsc", ARGS),
        with(RUNSC, "null"),
        with(RUNSC, r#"["--host-uds=all"]"#),
        ok("{}"),
    ] {
        let fake = Fake::new(move |_| answer.clone());
        assert!(matches!(fake.show("nobody"), Err(EngineError::NoProcess(_))));
    }
}

#[test]
fn the_process_of_the_engine_is_told_to_reload_and_shows_the_runtime_then() {
    let mark_folder = tempfile::tempdir().unwrap();
    let mark = mark_folder.path().join("told");
    let (mut child, name) = reloadable(&mark);
    let fake = Fake::new(move |_| if mark.exists() { with(RUNSC, ARGS) } else { ok("{}") });
    // Another process id file, named by the configuration.
    fs::write(fake.path("other.pid"), format!("{}\n", child.id())).unwrap();
    let config = format!(r#"{{"pidfile": {:?}}}"#, fake.path("other.pid"));
    fs::write(fake.path("daemon.json"), config).unwrap();
    assert_eq!(fake.show(&name).unwrap(), Reload::Signalled);
    child.wait().unwrap();
}

#[test]
fn a_process_of_another_name_is_never_signalled() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("told");
    let (mut child, _) = reloadable(&mark);
    let fake = Fake::new(|_| ok("{}"));
    fs::write(fake.path("engine.pid"), child.id().to_string()).unwrap();
    assert!(matches!(fake.show("dockerd"), Err(EngineError::NoProcess(_))));
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none() && !mark.exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_engine_that_reads_another_file_is_an_error_that_names_ours() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, name) = reloadable(&folder.path().join("told"));
    let fake = Fake::new(|_| ok("{}"));
    fs::write(fake.path("engine.pid"), child.id().to_string()).unwrap();
    let error = fake.show(&name).unwrap_err().to_string();
    assert!(
        error.contains("Does it read ") && error.contains("daemon.json"),
        "{error}"
    );
    child.wait().unwrap();
}

#[test]
fn what_is_no_answer_is_never_taken_for_one() {
    let large = format!("HTTP/1.0 200 OK\r\n\r\n{}", " ".repeat(5 * 1024 * 1024));
    for (answer, why) in [
        (String::new(), "it is not HTTP"),
        (
            "HTTP/1.0 500 Oops\r\n\r\n{}".to_owned(),
            "it says \"HTTP/1.0 500 Oops\"",
        ),
        ("SSH-2.0-x\r\n\r\n".to_owned(), "it says \"SSH-2.0-x\""),
        (ok("{\"Runtimes\":"), "EOF while parsing"),
        (large, "it is larger than 4 MiB"),
    ] {
        let fake = Fake::new(move |_| answer.clone());
        let error = fake.show("nobody").unwrap_err();
        assert!(
            matches!(&error, EngineError::Answer { .. }) && error.to_string().contains(why),
            "{why}: {error}"
        );
    }
}

#[test]
fn the_file_that_an_engine_was_started_with_is_the_one_that_counts() {
    let file = Some(PathBuf::from("/a b.json"));
    assert_eq!(config_among(b"dockerd\0--config-file\0/a b.json\0--debug\0"), file);
    assert_eq!(config_among(b"dockerd\0--debug\0--config-file=/a b.json\0"), file);
    assert_eq!(config_among(b"dockerd\0--config-files\0/x\0-H\0fd://\0"), None);
    assert_eq!(
        Engine::config_of(Path::new("/nonexistent/engine.sock")),
        Path::new(CONFIG)
    );
}
