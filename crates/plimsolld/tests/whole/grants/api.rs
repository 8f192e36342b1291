//! An API on a loopback port that answers by a script and remembers what it was asked.
#![allow(dead_code, reason = "each test binary uses its part of this")]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// One request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The request line without its version.
    pub(crate) line: String,
    /// Every header line.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What the API does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// An answer with this status and JSON body.
    Json(u16, String),
    /// The same with further header lines, each ended by CR LF.
    With(u16, &'static str, String),
    /// An answer of status 200 with a content type of its own.
    Bytes(&'static str, Vec<u8>),
    /// None, until the caller goes away.
    Never,
}

pub(crate) fn ok(body: impl Into<String>) -> Reply {
    Reply::Json(200, body.into())
}

pub(crate) struct Api {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Api {
    /// Listens for as long as the test process lives.
    pub(crate) fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(script), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                // A connection that breaks is the broker's business, not the script's.
                thread::spawn(move || drop(serve(&stream.unwrap(), &*script, &log)));
            }
        });
        Self { address, asked }
    }

    /// An API whose every answer is `{"path": …}` of the request.
    pub(crate) fn echoing_paths() -> Self {
        Self::start(|asked| ok(format!("{{\"path\":\"{}\"}}", asked.path())))
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    /// Waits until so many requests have come.
    pub(crate) fn wait_for(&self, requests: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.asked().len() < requests {
            assert!(Instant::now() < deadline, "the API was asked {:?} only", self.lines());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn serve(stream: &TcpStream, script: &dyn Fn(&Asked) -> Reply, log: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let line = head.remove(0).trim_end_matches(" HTTP/1.1").to_owned();
        let mut asked = Asked {
            line,
            headers: head,
            body: String::new(),
        };
        let length = asked.header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        asked.body = String::from_utf8(body).unwrap();
        log.lock().unwrap().push(asked.clone());
        let json = "application/json";
        let (status, kind, headers, body) = match script(&asked) {
            Reply::Json(status, body) => (status, json, "", body.into_bytes()),
            Reply::With(status, headers, body) => (status, json, headers, body.into_bytes()),
            Reply::Bytes(kind, body) => (200, kind, "", body),
            Reply::Never => {
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
        };
        let mut stream = stream;
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{headers}Content-Length: {length}\r\n\r\n");
        // One segment: a head that waits for its body costs a delayed acknowledgement.
        stream.write_all(&[head.as_bytes(), &body].concat())?;
    }
}
