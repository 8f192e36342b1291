//! SIGINT and SIGTERM start one drain; the second of them kills at once. SIGHUP is passed on until then.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

/// The signals of this process, turned into things to wait for.
#[derive(Debug)]
pub(crate) struct Signals {
    stop: UnixStream,
    hangup: UnixStream,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn install() -> io::Result<Self> {
        let (stop, stop_writer) = StdStream::pair()?;
        let (hangup, hangup_writer) = StdStream::pair()?;
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and raises it, the second dies by the default action.
            flag::register_conditional_default(signal, Arc::clone(&stopping))?;
            flag::register(signal, Arc::clone(&stopping))?;
            low_level::pipe::register(signal, stop_writer.try_clone()?)?;
        }
        low_level::pipe::register(SIGHUP, hangup_writer)?;
        Ok(Self {
            stop: ready(stop)?,
            hangup: ready(hangup)?,
        })
    }

    /// Waits for SIGINT or SIGTERM, calling `hung_up` for every SIGHUP until then.
    pub(crate) async fn stop(&mut self, mut hung_up: impl FnMut()) {
        let (mut stop, mut hangup) = ([0], [0]);
        loop {
            tokio::select! {
                biased;
                _ = self.stop.read(&mut stop) => return,
                read = self.hangup.read(&mut hangup) => match read {
                    Ok(1..) => hung_up(),
                    // The writer lives as long as the process, so this is an error that would repeat at once.
                    _ => std::future::pending().await,
                },
            }
        }
    }
}

fn ready(stream: StdStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
