use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// A server that answers each connection with the next of these texts, and a fetcher that trusts it as `gvisor.example`
/// and goes there whatever the host.
fn server(answers: Vec<String>) -> Fetcher {
    let signed = rcgen::generate_simple_self_signed(["gvisor.example".to_owned(), "files.example".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(signed.cert.der().clone()).unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let (tcp, _) = listener.accept().unwrap();
            let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), tcp);
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(tls.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            // A client that refused the certificate is gone.
            let _gone = tls.write_all(answer.as_bytes());
            tls.conn.send_close_notify();
            let _gone = tls.flush();
        }
        // Keeps the port, so that one connection too many waits instead of being refused.
        std::thread::sleep(Duration::from_secs(5));
    });
    Fetcher {
        connect_to: Some(address),
        ..Fetcher::with_roots(roots).unwrap()
    }
}

fn fetched(fetcher: &Fetcher, url: &str) -> Result<String, FetchError> {
    let mut bytes = Vec::new();
    fetcher.fetch(url, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(String::from_utf8(bytes).unwrap())
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn to(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

const URL: &str = "https://gvisor.example/archive";

#[test]
fn redirects_are_followed_over_https_and_the_body_is_kept() {
    let answers = vec![
        to("https://files.example:443/a?b=c"),
        to("/elsewhere"),
        ok("the archive"),
    ];
    assert_eq!(fetched(&server(answers), URL).unwrap(), "the archive");
}

#[test]
fn nothing_is_downloaded_but_over_https() {
    let fetcher = server(vec![to("http://gvisor.example/archive"), to("file:///etc/passwd")]);
    for url in [
        URL,
        URL,
        "http://gvisor.example/archive",
        "file:///etc/passwd",
        "gvisor.example",
    ] {
        let error = fetched(&fetcher, url).unwrap_err();
        assert!(matches!(error, FetchError::NotHttps(_)), "{url}: {error}");
    }
}

#[test]
fn a_circle_of_redirects_ends() {
    let fetcher = server((0..=MAX_REDIRECTS).map(|_| to(URL)).collect());
    assert!(matches!(fetched(&fetcher, URL), Err(FetchError::Redirects)));
}

#[test]
fn an_answer_that_is_not_the_archive_is_named() {
    let fetcher = server(vec!["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()]);
    assert_eq!(
        fetched(&fetcher, URL).unwrap_err().to_string(),
        "gvisor.example answers 404 Not Found"
    );
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let fetcher = server(vec![ok("the archive")]);
    let error = fetched(&fetcher, "https://other.example/archive").unwrap_err();
    assert!(matches!(error, FetchError::Exchange { .. }), "{error}");
}

#[test]
fn a_download_that_breaks_off_is_an_error_and_not_a_short_archive() {
    let fetcher = server(vec!["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_owned()]);
    assert!(matches!(fetched(&fetcher, URL), Err(FetchError::Exchange { .. })));
}

#[test]
fn a_download_that_does_not_end_is_ended() {
    let fetcher = Fetcher {
        whole_within: Duration::from_millis(300),
        ..server(Vec::new())
    };
    assert!(matches!(fetched(&fetcher, URL), Err(FetchError::Late(_))));
}
