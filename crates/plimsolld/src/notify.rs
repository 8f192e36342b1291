//! Word to the service manager that started the daemon (`sd_notify`).

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager's socket, when there is one.
#[derive(Debug, Default)]
pub(crate) struct Notify(Option<String>);

impl Notify {
    /// From the value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name.
    pub(crate) fn new(socket: Option<&str>) -> Self {
        Self(socket.map(str::to_owned))
    }

    /// The daemon serves.
    pub(crate) fn ready(&self) -> io::Result<()> {
        self.send(b"READY=1")
    }

    /// The daemon drains.
    pub(crate) fn stopping(&self) -> io::Result<()> {
        self.send(b"STOPPING=1")
    }

    fn send(&self, state: &[u8]) -> io::Result<()> {
        let Some(socket) = &self.0 else { return Ok(()) };
        let address = match socket.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(socket)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state, &address).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_ready_and_stopping_on_a_path_and_on_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("plimsolld-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}")),
        ] {
            let notify = Notify::new(Some(&socket));
            notify.ready().unwrap();
            notify.stopping().unwrap();
            let mut buffer = [0; 32];
            for expected in ["READY=1", "STOPPING=1"] {
                let length = manager.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], expected.as_bytes());
            }
        }
    }

    #[test]
    fn without_a_manager_there_is_nothing_to_do_and_a_dead_one_is_an_error() {
        Notify::new(None).ready().unwrap();
        assert!(Notify::new(Some("/nonexistent/notify")).ready().is_err());
    }
}
