//! What a person reads when a command fails: every text at once, so that a change to one is seen beside the others.

#![expect(clippy::unwrap_used, reason = "tests of a program start it and fail by panicking")]

use std::io::Write as _;

use crate::support::{Daemon, TOKEN, command, finish};

/// One failing command: its arguments, its environment, its standard input.
struct Case<'a> {
    args: Vec<&'a str>,
    variables: Vec<(&'a str, &'a str)>,
    input: &'a [u8],
}

impl<'a> Case<'a> {
    fn new(args: &'a str) -> Self {
        Self {
            args: args.split(' ').collect(),
            variables: Vec::new(),
            input: b"1",
        }
    }

    fn with(mut self, name: &'a str, value: &'a str) -> Self {
        self.variables.push((name, value));
        self
    }

    fn of(mut self, input: &'a [u8]) -> Self {
        self.input = input;
        self
    }

    fn to(mut self, daemon: &'a str) -> Self {
        self.args.extend(["--daemon", daemon]);
        self
    }

    /// What was typed, the exit code, and what standard error said, without what differs from run to run.
    fn told(&self) -> String {
        let mut child = command(&self.args)
            .envs(self.variables.iter().copied())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The command may refuse before it has read everything.
        let _refused_early = child.stdin.take().unwrap().write_all(self.input);
        let ran = finish(child);
        let variables: Vec<_> = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={} ", if *value == TOKEN { "TOKEN" } else { value }))
            .collect();
        let stderr = ran.stderr_named();
        let said = stderr.split("\n\nUsage: ").next().unwrap_or_default();
        let said = said.split("\n\nFor more information").next().unwrap_or_default();
        let input = match self.input {
            b"1" => String::new(),
            input if input.len() > 40 => format!(" < {} bytes", input.len()),
            input => format!(" < \"{}\"", input.escape_ascii()),
        };
        let text = format!(
            "$ {}plimsoll {}{input}\n{}\n[{}]\n",
            variables.concat(),
            self.args.join(" "),
            said.trim_end(),
            ran.code
        );
        ports_named(&text)
    }
}

/// Ports of this host the system chose, replaced by their name; the others in these texts have at most four digits.
fn ports_named(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        named.push_str("127.0.0.1:");
        named.push_str(if digits > 1 { "PORT" } else { &part[..digits] });
        named.push_str(&part[digits..]);
    }
    named
}

fn told(cases: &[Case<'_>]) -> String {
    cases.iter().map(Case::told).collect::<Vec<_>>().join("\n")
}

#[test]
fn on_this_host() {
    let big = vec![b' '; 262_145];
    let texts = told(&[
        Case::new("run"),
        Case::new("run /nonexistent/program.js"),
        Case::new("run /"),
        Case::new("run -").of(b""),
        Case::new("run -").of(b"1\0"),
        Case::new("run -").of(b"\xff"),
        Case::new("run -").of(&big),
        Case::new("run - --floor vm"),
        Case::new("run - --floor none"),
        Case::new("run - --timeout -1s"),
        Case::new("run - --timeout=-1s"),
        Case::new("run - --timeout 30"),
        Case::new("run - --provider e2b"),
        Case::new("run - --provider docker").with("DOCKER_HOST", "unix:///nonexistent/engine.sock"),
        Case::new("run - --provider docker").with("DOCKER_HOST", "tcp://203.0.113.7:2375"),
        Case::new("run - --provider wasm --daemon http://127.0.0.1:1"),
        Case::new("run - --insecure-http"),
        Case::new("run -").with("SANDBOX_PROVIDER", "e2b"),
        Case::new("run -").with("SANDBOX_PROVIDER", "dokcer"),
        Case::new("run -").with("SANDBOX_PIDS", "5"),
        Case::new("run -").with("SANDBOX_MEMORY_MB", "1"),
        Case::new("run -").with("SANDBOX_MEMORY_MB", "x"),
        Case::new("run -").with("SANDBOX_MIN_ISOLATION", "vm"),
        Case::new("run -").with("SANDBOX_MIN_ISOLATION", "none"),
        Case::new("describe").with("SANDBOX_MIN_ISOLATION", "vm"),
        Case::new("describe").with("SANDBOX_PROVIDER", "e2b"),
        Case::new("describe --provider e2b"),
        Case::new("bench").with("SANDBOX_MEMORY_MB", "x"),
        Case::new("man nosuch"),
        Case::new("serve now"),
        Case::new("check --now"),
        Case::new("check").with("SANDBOX_PROVIDER", "wasm"),
        Case::new("check").with("PLIMSOLL_CLIENTS_FILE", "/nonexistent/clients.json"),
        Case::new("check").with("PLIMSOLL_GRANTS_FILE", "/nonexistent/grants.json"),
        Case::new("report /dev/null"),
        Case::new("report -").of(b"not a log\n"),
        Case::new("nosuch"),
    ]);
    insta::assert_snapshot!(texts);
}

#[test]
fn with_a_daemon() {
    let daemon = Daemon::start();
    let url = daemon.url.as_str();
    let (prefixed, tls) = (format!("{url}/prefix"), url.replace("http://", "https://"));
    // Somebody who answers HTTP, and is no daemon.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stranger = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _read = std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    });
    let run = |daemon| Case::new("run -").to(daemon);
    let texts = told(&[
        run("http://sandbox.example"),
        run("sandbox.example"),
        run("ftp://sandbox.example"),
        run("http://me:secret@sandbox.example"),
        run("http://127.0.0.1:1"),
        run("https://127.0.0.1:1"),
        run("http://127.0.0.1:1").with("PLIMSOLL_TOKEN", "two words"),
        run(url),
        run(url).with("PLIMSOLL_TOKEN", "somebody-else"),
        run(url).with("PLIMSOLL_TOKEN", TOKEN).of(b"1\0"),
        Case::new("run - --floor vm").to(url).with("PLIMSOLL_TOKEN", TOKEN),
        run(&prefixed).with("PLIMSOLL_TOKEN", TOKEN),
        run(&tls).with("PLIMSOLL_TOKEN", TOKEN),
        run(&stranger),
        Case::new("describe").to(url),
        Case::new("describe").to("http://127.0.0.1:1"),
        Case::new("describe").to("http://sandbox.example"),
        Case::new("describe").to(&stranger),
    ]);
    insta::assert_snapshot!(texts);
}

#[test]
fn what_could_be_mistaken_is_explained_on_the_line_about_the_run() {
    let daemon = Daemon::start();
    let url = daemon.url.as_str();
    let texts = told(&[
        Case::new("run -").of(b"process.exit(125)"),
        Case::new("run -").of(b"process.exit(123)"),
        Case::new("run -").of(b"process.exit(2)"),
        Case::new("run - --timeout 1m"),
        Case::new("run - --timeout 30s"),
        Case::new("run - --timeout 1m").to(url).with("PLIMSOLL_TOKEN", TOKEN),
    ]);
    insta::assert_snapshot!(texts);
}
