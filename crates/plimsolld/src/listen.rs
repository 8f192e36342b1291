//! Binding a listener: before anything that can take time or cost money.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};

use plimsoll_core::vars::{HostPort, SettingError, Var};
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted; the system lowers it to its own limit.
const BACKLOG: i32 = 1024;

/// Binds the address of `var` and returns a listener ready for the runtime.
///
/// # Errors
/// The address cannot be bound; names the variable and the address.
pub(crate) fn bind(var: &Var, addr: &HostPort) -> Result<TcpListener, SettingError> {
    let bound = if addr.host.is_empty() {
        bind_everywhere(addr.port)
    } else {
        bind_host(addr)
    };
    bound.map_err(|error| {
        let problem = format!("the address cannot be bound: {error}");
        var.unusable(addr, problem, "free it, or set another host:port of this host")
    })
}

/// Every interface, IPv4 and IPv6 on one socket; IPv4 alone where the system has no IPv6.
fn bind_everywhere(port: u16) -> io::Result<TcpListener> {
    match listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        // A port in use stays an error: half a listener would answer some callers and not others.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).map_err(|_| error)
        }
        bound => bound,
    }
}

/// The first address of the host that can be bound.
fn bind_host(addr: &HostPort) -> io::Result<TcpListener> {
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for address in (addr.host.as_str(), addr.port).to_socket_addrs()? {
        outcome = listen(address);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for connections of the last daemon to be forgotten.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use plimsoll_core::vars::parse_host_port;
    use plimsoll_service::settings::{ADDR, METRICS_ADDR};

    fn at(text: &str) -> HostPort {
        parse_host_port(text).unwrap()
    }

    #[test]
    fn an_empty_host_answers_on_ipv4_and_ipv6() {
        let listener = bind(&ADDR, &at(":0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        }
    }

    #[test]
    fn an_address_in_use_is_named_with_its_variable() {
        let first = bind(&ADDR, &at(":0")).unwrap();
        let port = first.local_addr().unwrap().port();
        for host in ["", "127.0.0.1"] {
            let error = bind(&METRICS_ADDR, &at(&format!("{host}:{port}")))
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("PLIMSOLL_METRICS_ADDR=\"{host}:{port}\"")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_name_is_resolved_and_a_foreign_address_refused() {
        assert!(
            bind(&ADDR, &at("localhost:0"))
                .unwrap()
                .local_addr()
                .unwrap()
                .ip()
                .is_loopback()
        );
        assert!(bind(&ADDR, &at("192.0.2.1:0")).is_err());
    }
}
