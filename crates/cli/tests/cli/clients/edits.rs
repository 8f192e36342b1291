//! What each edit does to the file, prints and says.

use serde_json::json;

use super::*;

#[test]
fn a_created_caller_has_64_hex_digits_on_standard_output_and_nowhere_else() {
    let house = House::new();
    let ran = house.done("create -id a -token-stdout");
    let token = ran.stdout_text().strip_suffix('\n').unwrap();
    assert_eq!(token.len(), 64);
    assert!(
        token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "{token}"
    );
    assert_eq!(mode(&house.path()), 0o600);
    assert_eq!(
        house.registry(),
        json!({"clients": [{"id": "a", "token_sha256": digest(token), "scopes": ["code:run"]}]})
    );
    assert!(house.bytes().starts_with(b"{\n  \"clients\": [\n    {\n      \"id\"") && house.bytes().ends_with(b"}\n"));
    assert!(!ran.stderr.contains(token) && !String::from_utf8(house.bytes()).unwrap().contains(token));
    assert!(
        ran.stderr.lines().all(|line| line.starts_with("plimsoll-clients: ")),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("must be restarted, or sent SIGHUP where PLIMSOLL_CLIENTS_RELOAD is on"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("calls that are admitted go on"), "{}", ran.stderr);
    assert_eq!(house.names(), ["clients.json"]);

    let twice = house.refused("create -id a -token-stdout", "");
    assert!(twice.contains("there is a caller \"a\" already"), "{twice}");
}

#[test]
fn scopes_allowance_and_a_padded_id_are_kept_as_they_are_meant() {
    let house = House::new();
    let path = house.path();
    let file = format!("--file={}", path.display());
    let args = [
        "clients",
        "create",
        &file,
        "-id",
        "  a b ",
        "--scope",
        "code:run",
        "-scope=other",
        "-paid-seconds-per-day",
        "3600",
        "--token-stdout",
    ];
    let ran = plimsoll(&args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let entry = &house.registry()["clients"][0];
    assert_eq!(
        (&entry["id"], &entry["scopes"], &entry["paid_seconds_per_day"]),
        (&json!("a b"), &json!(["code:run", "other"]), &json!(3600))
    );
}

#[test]
fn an_imported_token_is_read_from_standard_input_and_prints_nothing() {
    let house = House::new();
    for (id, input, good) in [
        ("short", b"abc".to_vec(), false),
        ("lf", [&[b'a'; 32][..], b"\n"].concat(), true),
        ("crlf", [&[b'b'; 32][..], b"\r\n"].concat(), true),
        ("longest", vec![b'c'; 4096], true),
        ("long", vec![b'd'; 4097], false),
        ("empty", Vec::new(), false),
        ("space", [&[b'e'; 32][..], b" e"].concat(), false),
        ("31", vec![b'f'; 31], false),
    ] {
        let words = format!("import -id {id}");
        if good {
            let ran = house.fed(&words, &input);
            assert_eq!((ran.code, ran.stdout_text()), (0, ""), "{id}: {}", ran.stderr);
        } else {
            let said = house.refused(&words, &input);
            assert!(said.contains("standard input"), "{id}: {said}");
            let text = String::from_utf8(input).unwrap();
            assert!(text.is_empty() || !said.contains(text.trim()), "{id}: {said}");
        }
    }
    let registry = house.registry();
    let kept: Vec<_> = registry["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["token_sha256"])
        .collect();
    assert_eq!(
        kept,
        [
            &json!(digest(&"a".repeat(32))),
            &json!(digest(&"b".repeat(32))),
            &json!(digest(&"c".repeat(4096)))
        ]
    );
    let shared = house.refused("import -id another", [b'a'; 32]);
    assert!(shared.contains("that is the token of another caller"), "{shared}");
}

#[test]
fn a_limit_is_set_taken_away_and_warned_of_where_it_is_small() {
    let house = House::new();
    house.import("a", TOKEN);
    let small = house.done("limit -id a -paid-seconds-per-day 59");
    assert_eq!(small.stdout_text(), "");
    assert!(
        small.stderr.contains("warning: 59 paid seconds per day") && small.stderr.contains("33 s"),
        "{}",
        small.stderr
    );
    assert!(
        small
            .stderr
            .contains("a restart gives every caller a fresh day, unless PLIMSOLL_STATE_DIR"),
        "{}",
        small.stderr
    );
    assert_eq!(house.registry()["clients"][0]["paid_seconds_per_day"], 59);
    let enough = house.done("limit -id a -paid-seconds-per-day 60");
    assert!(!enough.stderr.contains("warning"), "{}", enough.stderr);
    let none = house.done("limit -id a -paid-seconds-per-day 0");
    assert!(!none.stderr.contains("warning"), "{}", none.stderr);
    assert_eq!(house.registry()["clients"][0].get("paid_seconds_per_day"), None);
    let unknown = house.refused("limit -id b -paid-seconds-per-day 60", "");
    assert!(unknown.contains("there is no caller \"b\""), "{unknown}");
}

#[test]
fn a_rotation_keeps_everything_but_the_token() {
    let house = House::new();
    house.fed("import -id a -scope x -paid-seconds-per-day 70", TOKEN);
    house.import("b", OTHER);
    let made = house.done("rotate -id a -token-stdout");
    let token = made.stdout_text().strip_suffix('\n').unwrap().to_owned();
    assert!(token.len() == 64 && !made.stderr.contains(&token));
    let entry =
        |digest: String| json!({"id": "a", "token_sha256": digest, "scopes": ["x"], "paid_seconds_per_day": 70});
    assert_eq!(house.registry()["clients"][0], entry(digest(&token)));
    let own = house.fed("rotate -id a -token-stdin", format!("{TOKEN}\n"));
    assert_eq!((own.code, own.stdout_text()), (0, ""), "{}", own.stderr);
    assert_eq!(house.registry()["clients"][0], entry(digest(TOKEN)));
    for (words, token, told) in [
        ("rotate -id a -token-stdin", TOKEN, "that is the token caller \"a\" has"),
        (
            "rotate -id a -token-stdin",
            OTHER,
            "that is the token of another caller",
        ),
        ("rotate -id c -token-stdin", TOKEN, "there is no caller \"c\""),
    ] {
        let said = house.refused(words, token);
        assert!(said.contains(told) && !said.contains(token), "{said}");
    }
}

#[test]
fn the_last_caller_can_be_revoked_and_the_registry_goes_on() {
    let house = House::new();
    house.import("a", TOKEN);
    let unknown = house.refused("revoke -id b", "");
    assert!(unknown.contains("there is no caller \"b\""), "{unknown}");
    let revoked = house.done("revoke -id a");
    assert_eq!(revoked.stdout_text(), "");
    assert!(
        revoked.stderr.contains("daemons refuse to start on this file") && revoked.stderr.contains("must be stopped"),
        "{}",
        revoked.stderr
    );
    assert_eq!(house.done("list -json").stdout_text(), "[]\n");
    let empty = house.clients("verify");
    assert_eq!(empty.code, 1);
    assert!(empty.stdout_text().contains("names no caller"), "{empty:?}");
    house.done("create -id a -token-stdout");
    assert_eq!(
        house.done("verify").stdout_text(),
        format!("{}: 1 caller\n", house.path().display())
    );
}

#[test]
fn owner_and_group_stay_where_they_can_be_given_and_a_warning_says_where_not() {
    let house = House::new();
    house.import("a", TOKEN);
    let owner = || {
        fs_err::metadata(house.path())
            .map(|file| (file.uid(), file.gid()))
            .unwrap()
    };
    let own = owner();
    // Who is root may give a file to anybody; who is not finds the file their own and edits it as such.
    if own.0 != 0 {
        let limited = house.done("limit -id a -paid-seconds-per-day 60");
        assert!(!limited.stderr.contains("warning"), "{}", limited.stderr);
        return assert_eq!(owner(), own);
    }
    fs_err::set_permissions(house.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::chown(house.path(), Some(4242), Some(4343)).unwrap();
    let limited = house.done("limit -id a -paid-seconds-per-day 60");
    assert!(!limited.stderr.contains("warning"), "{}", limited.stderr);
    assert_eq!((owner(), mode(&house.path())), ((4242, 4343), 0o644));
    // Somebody else who may write the folder: the new file is theirs, and they are told.
    let copy = house.at("plimsoll");
    // By a process of its own: a file that this one had written could be held open by what another test starts meanwhile.
    let mut cp = program(
        Path::new("/bin/cp"),
        &[env!("CARGO_BIN_EXE_plimsoll"), copy.to_str().unwrap()],
    );
    assert_eq!(finish(cp.spawn().unwrap()).code, 0);
    fs_err::set_permissions(house.0.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = house.path();
    let args = ["clients", "revoke", "-file", path.to_str().unwrap(), "-id", "a"];
    let ran = finish(program(&copy, &args).uid(4444).gid(4444).spawn().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("warning: the file's owner or group could not be kept"),
        "{}",
        ran.stderr
    );
    assert_eq!((owner(), mode(&house.path())), ((4444, 4444), 0o644));
}
