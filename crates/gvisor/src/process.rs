//! Starts the few programs this crate needs: `runsc` itself, `go`, `systemctl`.

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use thiserror::Error;

/// How much of an answer is kept: version lines and a description of a module are far smaller.
const MAX_ANSWER: u64 = 1024 * 1024;
/// How much of what a program complained about is shown: the end, where the reason stands.
const MAX_COMPLAINT: usize = 2000;
/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why a program gave no answer.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It did not start, or its output could not be kept.
    #[error("{} cannot be run: {error}", program.display())]
    Start {
        /// What was to be run.
        program: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// It ended with an error.
    #[error("{} ended with {status}: {complaint}", program.display())]
    Failed {
        /// What ran.
        program: PathBuf,
        /// Its exit status, in words.
        status: String,
        /// The end of its standard error.
        complaint: String,
    },
    /// It did not end.
    #[error("{} was ended after {} s without an answer", program.display(), after.as_secs())]
    Late {
        /// What ran.
        program: PathBuf,
        /// How long.
        after: Duration,
    },
}

/// A program, its arguments, and an environment that holds nothing of this process's.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) folder: &'a Path,
    pub(crate) deadline: Duration,
}

impl<'a> Program<'a> {
    /// With no environment, in the root folder, ended after half a minute.
    pub(crate) fn new<S: AsRef<OsStr>>(path: &'a Path, args: impl IntoIterator<Item = S>) -> Self {
        Self {
            path,
            args: args.into_iter().map(|arg| arg.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            folder: Path::new("/"),
            deadline: Duration::from_secs(30),
        }
    }

    /// Runs it to its end and returns its standard output.
    ///
    /// Its output goes to files and not to pipes, so that a descendant which keeps them open holds nobody up.
    ///
    /// # Errors
    /// When it cannot be started, fails, or does not end in time.
    pub(crate) fn answer(&self) -> Result<Vec<u8>, ProcessError> {
        let start = |error| ProcessError::Start {
            program: self.path.to_owned(),
            error,
        };
        let (mut stdout, mut stderr) = (
            tempfile::tempfile().map_err(start)?,
            tempfile::tempfile().map_err(start)?,
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "an installer's work is to start the installed program"
        )]
        let mut child = Command::new(self.path)
            .args(&self.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().map_err(start)?)
            .stderr(stderr.try_clone().map_err(start)?)
            .spawn()
            .map_err(start)?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(start)? {
                break status;
            }
            if started.elapsed() >= self.deadline {
                // Gone already is as good as killed.
                let _gone = child.kill();
                let _reaped = child.wait();
                return Err(ProcessError::Late {
                    program: self.path.to_owned(),
                    after: self.deadline,
                });
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let mut kept = Vec::new();
        let output = if status.success() { &mut stdout } else { &mut stderr };
        output.rewind().map_err(start)?;
        output.take(MAX_ANSWER).read_to_end(&mut kept).map_err(start)?;
        if status.success() {
            return Ok(kept);
        }
        Err(ProcessError::Failed {
            program: self.path.to_owned(),
            status: status.to_string(),
            complaint: end_of(&String::from_utf8_lossy(&kept)),
        })
    }
}

/// The last characters of a complaint, on lines of their own where it has several.
fn end_of(text: &str) -> String {
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(MAX_COMPLAINT);
    let end: String = text.chars().skip(skipped).collect();
    if end.is_empty() {
        "it said nothing".to_owned()
    } else {
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program<'_> {
        Program::new(Path::new("/bin/sh"), ["-c", script])
    }

    #[test]
    fn the_answer_is_the_standard_output_and_the_environment_is_empty() {
        let answer = shell("printf '%s|%s' \"$HOME\" \"$PWD\"").answer().unwrap();
        assert_eq!(answer, b"|/");
    }

    #[test]
    fn a_failure_shows_the_status_and_the_end_of_the_complaint() {
        let error = shell("echo no disk >&2; exit 3").answer().unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh ended with exit status: 3: no disk");
        let error = shell("exit 1").answer().unwrap_err().to_string();
        assert!(error.ends_with("it said nothing"), "{error}");
        let long = end_of(&format!("{}end", "\u{e9}".repeat(5000)));
        assert!(long.chars().count() == MAX_COMPLAINT && long.ends_with("end"));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let started = Instant::now();
        let late = Program {
            deadline: Duration::from_millis(100),
            ..shell("exec sleep 60")
        };
        assert!(matches!(late.answer(), Err(ProcessError::Late { .. })));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_descendant_that_keeps_the_output_open_holds_nobody_up() {
        let started = Instant::now();
        assert_eq!(shell("sleep 20 & echo done").answer().unwrap(), b"done\n");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Program::new::<&str>(Path::new("/nonexistent/runsc"), [])
            .answer()
            .unwrap_err();
        assert!(
            error.to_string().starts_with("/nonexistent/runsc cannot be run: "),
            "{error}"
        );
    }
}
