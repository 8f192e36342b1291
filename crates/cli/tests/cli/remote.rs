//! `plimsoll run --daemon`: the same program behind a daemon, and every way not to reach it.

use crate::support::{Daemon, TOKEN, plimsoll, run_with};

#[test]
fn a_daemon_runs_refuses_and_is_described() {
    let daemon = Daemon::start();
    let token = [("PLIMSOLL_TOKEN", TOKEN)];
    let to = |more: &[&'static str]| -> Vec<String> {
        ["--daemon", &daemon.url]
            .iter()
            .map(ToString::to_string)
            .chain(more.iter().map(ToString::to_string))
            .collect()
    };
    let run = |program: &str, more: &[&'static str], variables: &[(&str, &str)]| {
        let args = to(more);
        run_with(program, &args.iter().map(String::as_str).collect::<Vec<_>>(), variables)
    };

    let ran = run("console.log(6*7)", &["--floor", "process"], &token);
    assert_eq!((ran.code, ran.stdout_text()), (0, "42\n"), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stderr_named(), @"plimsoll: tier process, <duration>, exit 0, record <digest>");
    assert_eq!(run("process.exit(3)", &["-q"], &token).code, 3);
    assert_eq!(run("while (true) {}", &["-q", "--timeout", "50ms"], &token).code, 124);

    let json = run("console.log(6*7)", &["--json", "-q"], &token);
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&answer["javascript"]["stdout"], &answer["record"]["version"]),
        (&"NDIK".into(), &4.into())
    );

    let floor = run("1", &["--floor", "vm"], &token);
    assert_eq!(floor.code, 125);
    assert!(
        floor.stderr.starts_with("plimsoll: nothing ran (isolation): "),
        "{}",
        floor.stderr
    );

    for variables in [&[][..], &[("PLIMSOLL_TOKEN", "somebody-else's-token-0123456789abcdef")]] {
        let refused = run("1", &["--json"], variables);
        assert_eq!(refused.code, 125, "{}", refused.stderr);
        let error: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
        // Reason 2, permission.
        assert_eq!(
            (&error["code"], &error["details"][0]["value"]),
            (&"unauthenticated".into(), &"CAI".into())
        );
        assert!(!refused.stderr.contains("somebody"), "{}", refused.stderr);
    }

    let described = crate::support::finish(
        crate::support::command(&["describe", "--json", "--daemon", &daemon.url])
            .envs(token)
            .spawn()
            .unwrap(),
    );
    let stated: serde_json::Value = serde_json::from_slice(&described.stdout).unwrap();
    assert_eq!(
        (&stated["sandbox"], &stated["isolation"], &stated["protocol"]),
        (&"wasm".into(), &"process".into(), &4.into())
    );
    assert_eq!(
        stated["javascriptEnvironment"]["languages"],
        serde_json::json!(["javascript"])
    );
}

#[test]
fn a_daemon_nobody_runs_ran_nothing() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let ran = run_with("1", &["--daemon", &format!("http://{free}")], &[]);
    assert_eq!(ran.code, 125);
    assert!(
        ran.stderr.starts_with("plimsoll: nothing ran (environment): "),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_answer_that_is_cut_off_may_have_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _read = std::io::Read::read(&mut stream, &mut request).unwrap();
    });
    let ran = run_with("1", &["--daemon", &url], &[]);
    server.join().unwrap();
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    assert!(
        ran.stderr
            .starts_with("plimsoll: it may have run, there is no checked answer ("),
        "{}",
        ran.stderr
    );
}

#[test]
fn cleartext_beyond_this_host_needs_consent() {
    let refused = run_with(
        "1",
        &["--daemon", "http://sandbox.example:8746"],
        &[("PLIMSOLL_TOKEN", TOKEN)],
    );
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("--insecure-http") && !refused.stderr.contains(TOKEN),
        "{}",
        refused.stderr
    );
    let nonsense = run_with("1", &["--daemon", "sandbox.example"], &[]);
    assert_eq!(nonsense.code, 2, "{}", nonsense.stderr);
    let token = run_with(
        "1",
        &["--daemon", "http://127.0.0.1:1"],
        &[("PLIMSOLL_TOKEN", "two words")],
    );
    assert_eq!(token.code, 125);
    assert!(
        token.stderr.contains("PLIMSOLL_TOKEN") && !token.stderr.contains("two words"),
        "{}",
        token.stderr
    );
}

#[test]
fn check_says_whether_the_daemon_would_start() {
    let child = |variables: &[(&str, &str)]| {
        crate::support::finish(
            crate::support::command(&["check"])
                .envs(variables.iter().copied())
                .spawn()
                .unwrap(),
        )
    };
    assert_eq!(
        child(&[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", TOKEN)]).code,
        0
    );
    let refused = child(&[
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_TOKEN", TOKEN),
        ("SANDBOX_MAX_CONCURRENT", "ten"),
    ]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("SANDBOX_MAX_CONCURRENT"), "{}", refused.stderr);
    assert_eq!(plimsoll(&["serve", "--variables"]).code, 0);
}

#[test]
fn a_daemon_under_tls_is_believed_by_the_authority_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs_err::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "an authority of our own");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(params, authority_key);
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let (ca, cert, key) = (
        file("ca.pem", &authority.pem()),
        file("cert.pem", &certificate.pem()),
        file("key.pem", &key.serialize_pem()),
    );
    let daemon = Daemon::start_with(&[
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_TLS_CERT", &cert),
        ("PLIMSOLL_TLS_KEY", &key),
    ]);
    assert!(daemon.url.starts_with("https://"), "{}", daemon.url);
    let token = [("PLIMSOLL_TOKEN", TOKEN)];
    let ran = run_with("console.log(6 * 7)", &["--daemon", &daemon.url, "--ca", &ca], &token);
    assert_eq!((ran.code, ran.stdout_text()), (0, "42\n"), "{}", ran.stderr);
    let described = plimsoll(&["describe", "--daemon", &daemon.url, "--ca", &ca]);
    assert!(
        described.stderr.contains("PLIMSOLL_TOKEN is not set"),
        "{}",
        described.stderr
    );

    // Without it, or with another one, nothing is sent.
    let unknown = run_with("1", &["--daemon", &daemon.url], &token);
    assert_eq!(unknown.code, 125, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("name that with --ca"), "{}", unknown.stderr);
    for (path, words) in [
        (key.as_str(), "holds no certificate in PEM"),
        ("/nonexistent", "cannot be read"),
        (
            &file(
                "bad.pem",
                "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n",
            ),
            "cannot be used",
        ),
    ] {
        let refused = run_with("1", &["--daemon", &daemon.url, "--ca", path], &token);
        assert_eq!(refused.code, 125, "{}", refused.stderr);
        assert!(
            refused.stderr.contains(&format!("--ca {path}: ")) && refused.stderr.contains(words),
            "{}",
            refused.stderr
        );
    }
    let in_clear = run_with("1", &["--daemon", &daemon.url.replace("https:", "http:")], &token);
    assert!(
        in_clear.stderr.contains("is it meant to be reached with https?"),
        "{}",
        in_clear.stderr
    );
    let clear = run_with("1", &["--daemon", "http://127.0.0.1:1", "--ca", &ca], &token);
    assert_eq!(clear.code, 2, "{}", clear.stderr);
    assert!(
        clear
            .stderr
            .contains("--ca is about the certificate of an https:// daemon"),
        "{}",
        clear.stderr
    );
}
