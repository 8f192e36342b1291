//! `plimsoll session` at a terminal.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of a program start it and fail by panicking"
)]

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::session::{KEEPING, session_with};
use crate::support::{Daemon, TOKEN};

/// The command at a terminal, which `script` gives it.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    told: Receiver<Vec<u8>>,
    shown: Vec<u8>,
    seen: usize,
}

impl Terminal {
    fn start(args: &str, home: &Path, variables: &[(&str, &str)]) -> Self {
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--echo", "never", "--command"])
            // Without `exec` the shell in between would take the interrupt for its own. A hang-up is ignored where
            // the tests run under `nohup`, and the command honours that.
            .arg(format!(
                "exec env --default-signal=HUP {} session {args}",
                env!("CARGO_BIN_EXE_plimsoll")
            ))
            .arg("/dev/null")
            .env_clear()
            .envs(variables.iter().copied())
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(n @ 1..) = screen.read(&mut part) {
                if tell.send(part[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            script,
            keys,
            told,
            shown: Vec::new(),
            seen: 0,
        }
    }

    /// Waits until this is shown, behind what was waited for before.
    fn until(&mut self, shown: &str) {
        let begun = Instant::now();
        loop {
            let text = String::from_utf8_lossy(&self.shown[self.seen..]).into_owned();
            if let Some(at) = text.find(shown) {
                self.seen += at + shown.len();
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no {shown:?} in {text}");
            if let Ok(part) = self.told.recv_timeout(Duration::from_millis(200)) {
                self.shown.extend(part);
            }
        }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The command itself, below `script`.
    fn command(&self) -> Pid {
        let script = self.script.id();
        let children = fs_err::read_to_string(format!("/proc/{script}/task/{script}/children")).unwrap();
        Pid::from_raw(children.trim().parse().unwrap()).unwrap()
    }

    fn ended(mut self) -> (ExitStatus, String) {
        while let Ok(part) = self.told.recv_timeout(Duration::from_secs(20)) {
            self.shown.extend(part);
        }
        let status = self.script.wait().unwrap();
        (status, String::from_utf8_lossy(&self.shown).into_owned())
    }
}

/// What is typed is written when what stands before it has been shown.
fn at_a_terminal(args: &str, home: &Path, variables: &[(&str, &str)], steps: &[(&str, &str)]) -> String {
    let mut terminal = Terminal::start(args, home, variables);
    for (before, typed) in steps {
        terminal.until(before);
        terminal.types(typed);
    }
    let (status, text) = terminal.ended();
    assert!(status.success(), "{status}: {text}");
    text
}

#[test]
fn the_prompt_takes_cells_of_several_lines_interrupts_and_remembers() {
    let home = tempfile::tempdir().unwrap();
    let shown = at_a_terminal(
        "--timeout 20s",
        home.path(),
        &[],
        &[
            ("process 1> ", "function twice(x) {\r"),
            ("{", "  return 2 * x\r"),
            ("x", "}\r"),
            ("process 2> ", "twice(21)\r"),
            ("42", ""),
            ("process 3> ", "while (true) {}\r"),
            ("}", ""),
            ("running the cell", "\u{3}"),
            ("and its interpreter with the variables", ""),
            ("no answer", ""),
            ("process 4> ", "given up\u{3}"),
            ("process 4> ", "typeof twice\r"),
            ("undefined", ""),
            ("process 5> ", "\u{4}"),
        ],
    );
    assert!(shown.contains("exit 0, fresh interpreter, record "), "{shown}");
    assert!(shown.contains("closed, 4 calls"), "{shown}");
    let history = home.path().join(".local/state/plimsoll/session-history");
    let remembered = fs_err::read_to_string(&history).unwrap();
    assert!(
        remembered.contains("twice(21)") && !remembered.contains("given up"),
        "{remembered}"
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs_err::metadata(&history).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // The last cell of the session before, by the key for what came before.
    let again = at_a_terminal(
        "",
        home.path(),
        &[],
        &[
            ("process 1> ", "\u{1b}[A\u{1b}[A\u{1b}[A\r"),
            ("ReferenceError", ""),
            ("process 2> ", "\u{4}"),
        ],
    );
    assert!(again.contains("twice(21)"), "{again}");
}

#[test]
fn a_cell_that_is_given_up_on_a_daemon_is_followed_by_a_new_session() {
    let daemon = Daemon::start_with(&KEEPING);
    let home = tempfile::tempdir().unwrap();
    let shown = at_a_terminal(
        &format!("--daemon {} --timeout 20s", daemon.url),
        home.path(),
        &[("PLIMSOLL_TOKEN", TOKEN)],
        &[
            ("process 1> ", "let n = 1\r"),
            ("process 2> ", "while (true) {}\r"),
            ("running the cell", "\u{3}"),
            ("interrupt once more", "\u{3}"),
            ("no checked answer (canceled)", ""),
            // The first call of the session that begins with it.
            ("process 1> ", "typeof n\r"),
            ("a new one begins", ""),
            ("undefined", ""),
            ("process 2> ", "\u{4}"),
        ],
    );
    assert!(shown.contains("closed, 1 call, as the daemon counts"), "{shown}");
    assert!(
        shown.contains("no count to compare, because an answer was lost: the daemon counts 2 calls"),
        "{shown}"
    );
}

#[test]
fn nothing_that_is_typed_ahead_is_lost() {
    let home = tempfile::tempdir().unwrap();
    let shown = at_a_terminal(
        "--timeout 2s",
        home.path(),
        &[],
        &[
            ("process 1> ", "let a = 1\rlet b = 2\ra + b + 40\r"),
            ("43", ""),
            ("process 4> ", "while (true) {}\r"),
            ("running the cell", "let c = 600\rc + 2\r"),
            ("602", ""),
            ("process 7> ", "given up\u{3}c + 100\r"),
            ("700", ""),
            ("process 8> ", "if (c) {\r\t'tab'.length + 1000}\r"),
            ("1003", ""),
            ("process 9> ", "\u{4}"),
        ],
    );
    assert!(shown.contains("closed, 8 calls"), "{shown}");
    let history = fs_err::read_to_string(home.path().join(".local/state/plimsoll/session-history")).unwrap();
    assert!(
        history.contains("\t'tab'") && !history.contains("given up"),
        "{history}"
    );
}

#[test]
fn a_signal_at_the_prompt_closes_the_session() {
    // One place: whoever comes after finds it free.
    let daemon = Daemon::start_with(&[("SANDBOX_PROVIDER", "wasm"), ("SANDBOX_MAX_SESSIONS", "1")]);
    let (args, token) = (
        format!("--daemon {} --timeout 20s", daemon.url),
        [("PLIMSOLL_TOKEN", TOKEN)],
    );
    let home = tempfile::tempdir().unwrap();
    for (signal, cell) in [
        (Signal::TERM, None),
        (Signal::HUP, None),
        (Signal::TERM, Some("while (true) {}\r")),
    ] {
        let mut terminal = Terminal::start(&args, home.path(), &token);
        terminal.until("process 1> ");
        terminal.types("1\r");
        terminal.until("process 2> ");
        if let Some(cell) = cell {
            terminal.types(cell);
            terminal.until("running the cell");
        }
        let begun = Instant::now();
        kill_process(terminal.command(), signal).unwrap();
        let (status, shown) = terminal.ended();
        assert!(begun.elapsed() < Duration::from_secs(10), "{signal:?}: {shown}");
        assert_eq!(status.code(), Some(123), "{signal:?}: {shown}");
        assert!(
            shown.contains("plimsoll: interrupted") || cell.is_some(),
            "{signal:?}: {shown}"
        );
        let next = session_with("1\n", &["--daemon", &daemon.url], &token);
        assert_eq!(next.code, 0, "{signal:?}: {}", next.stderr);
    }
}

#[test]
fn a_terminal_that_goes_closes_the_session() {
    let daemon = Daemon::start_with(&[("SANDBOX_PROVIDER", "wasm"), ("SANDBOX_MAX_SESSIONS", "1")]);
    let (args, token) = (
        format!("--daemon {} --timeout 20s", daemon.url),
        [("PLIMSOLL_TOKEN", TOKEN)],
    );
    let home = tempfile::tempdir().unwrap();
    for cell in [None, Some("while (true) {}\r")] {
        let mut terminal = Terminal::start(&args, home.path(), &token);
        terminal.until("process 1> ");
        if let Some(cell) = cell {
            terminal.types(cell);
            terminal.until("running the cell");
        }
        terminal.script.kill().unwrap();
        terminal.script.wait().unwrap();
        let begun = Instant::now();
        loop {
            let next = session_with("1\n", &["--daemon", &daemon.url], &token);
            if next.code == 0 {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{cell:?}: {}", next.stderr);
        }
    }
}

#[test]
fn a_daemon_that_goes_away_does_not_end_the_prompt() {
    let daemon = Daemon::start_with(&KEEPING);
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(
        &format!("--daemon {} --timeout 20s", daemon.url),
        home.path(),
        &[("PLIMSOLL_TOKEN", TOKEN)],
    );
    terminal.until("process 1> ");
    terminal.types("while (true) {}\r");
    terminal.until("running the cell");
    drop(daemon);
    terminal.until("it may have run");
    for _ in 0..2 {
        terminal.until("> ");
        terminal.types("1\r");
        terminal.until("nothing ran (environment)");
    }
    terminal.until("> ");
    terminal.types("\u{4}");
    let (status, shown) = terminal.ended();
    // A session that could not be closed counts, whoever was told.
    assert_eq!(status.code(), Some(123), "{shown}");
}

#[test]
fn at_a_prompt_nobody_is_told_to_open_a_session() {
    let daemon = Daemon::start_with(&[KEEPING.as_slice(), &[("SANDBOX_SESSION_LIFETIME", "1s")]].concat());
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(
        &format!("--daemon {}", daemon.url),
        home.path(),
        &[("PLIMSOLL_TOKEN", TOKEN)],
    );
    terminal.until("process 1> ");
    std::thread::sleep(Duration::from_millis(1_500));
    terminal.types("'late'\r");
    terminal.until("the next cell begins a new one");
    terminal.until("process 1> ");
    terminal.types("\u{4}");
    let (_, shown) = terminal.ended();
    assert!(!shown.contains("open a new one"), "{shown}");
}
