//! A program that embeds the sandbox, for tests that kill it, stop it, or look at what it leaves behind.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::engine;
use crate::support::runtime;

/// The program, and its own folder for temporary files: what lies in it is what it made.
pub(crate) struct Embedder {
    pub(crate) child: Child,
    told: BufReader<ChildStdout>,
    pub(crate) temp: TempDir,
}

impl Embedder {
    pub(crate) fn start(task: &[&str], more: &[(&str, &str)]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let mut child = Self::spawn(task, temp.path(), more);
        let told = BufReader::new(child.stdout.take().unwrap());
        Self { child, told, temp }
    }

    fn spawn(task: &[&str], temp: &Path, more: &[(&str, &str)]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_embedder-under-test"));
        command
            .args(task)
            .env("TMPDIR", temp)
            .env("SANDBOX_PROVIDER", "docker")
            .env("SANDBOX_DOCKER_RUNTIME", runtime())
            .envs(more.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// The next process with the same folder looks for what dead ones left.
    pub(crate) async fn cleared(&self) {
        let mut next = Self::spawn(&["reconcile"], self.temp.path(), &[]);
        let status = next.wait().await.unwrap();
        assert!(status.success(), "{status}");
    }

    /// Its next line.
    pub(crate) async fn tells(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(120), self.told.read_line(&mut line));
        read.await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Its containers.
    pub(crate) async fn containers(&self) -> Vec<String> {
        let temp = self.temp.path().to_str().unwrap();
        let all = engine::owners().await.into_iter();
        all.filter(|(_, owner)| owner.starts_with(temp))
            .map(|(id, _)| id)
            .collect()
    }
}
