//! What is shown: lists, reports and help.

use super::*;

#[test]
fn a_list_shows_names_scopes_and_allowances_and_says_whom_it_did_not_ask() {
    let house = House::new();
    house.import("b", TOKEN);
    house.fed(
        "import -id a -scope code:run -scope other -paid-seconds-per-day 3600",
        OTHER,
    );
    let table = house.done("list");
    assert_eq!(
        table.stdout_text(),
        "CALLER  SCOPES           PAID SECONDS/DAY\n\
         a       code:run, other  3600\n\
         b       code:run         none\n"
    );
    assert!(table.stderr.contains("no daemon was inspected"), "{}", table.stderr);
    assert_eq!(
        house.done("list -json").stdout_text(),
        r#"[
  {
    "id": "a",
    "scopes": [
      "code:run",
      "other"
    ],
    "paid_seconds_per_day": 3600
  },
  {
    "id": "b",
    "scopes": [
      "code:run"
    ]
  }
]
"#
    );
}

#[test]
fn verify_names_every_problem_and_touches_nothing() {
    let house = House::new();
    house.import("a", TOKEN);
    fs_err::set_permissions(house.path(), std::fs::Permissions::from_mode(0o620)).unwrap();
    let warned = house.done("verify");
    assert!(
        warned
            .stdout_text()
            .contains("warning: the file can be written by group or others"),
        "{warned:?}"
    );
    let bad = r#"{"clients":[{"id":"*","token_sha256":"x"},{"id":"a","scopes":[""]}]}"#;
    fs_err::write(house.path(), bad).unwrap();
    let refused = house.clients("verify");
    let path = house.path().display().to_string();
    let lines: Vec<_> = refused
        .stdout_text()
        .lines()
        .map(|line| line.strip_prefix(&format!("{path}: ")).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "clients[0].id: must not be `*`, which stands for every caller",
            "clients[0].token_sha256: must be the SHA-256 of the token as exactly 64 hex digits",
            "clients[1].scopes[0]: must not be empty and must hold no white space or control character",
            "clients[1]: has no `token_sha256`",
        ]
    );
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (1, "plimsoll-clients: no daemon can use the file: 4 problems\n")
    );
    assert_eq!(
        (house.bytes(), house.names()),
        (bad.into(), vec!["clients.json".to_owned()])
    );
    for text in ["{", "null", "{\"clients\":[]} {}", "\u{feff}{\"clients\":[]}"] {
        fs_err::write(house.path(), text).unwrap();
        assert_eq!(house.clients("verify").code, 1, "{text}");
        assert_eq!(house.bytes(), text.as_bytes());
    }
    fs_err::remove_file(house.path()).unwrap();
    let missing = house.clients("verify");
    assert!(
        missing.code == 1 && missing.stdout_text().contains("the file does not exist"),
        "{missing:?}"
    );
    assert!(house.names().is_empty());
}

#[test]
fn the_other_name_and_help_are_the_same_command() {
    let house = House::new();
    for args in [&[][..], &["help"], &["-h"], &["--help"]] {
        let own = linked(house.0.path(), args);
        assert_eq!((own.code, own.stderr.as_str()), (0, ""), "{args:?}");
        assert!(
            own.stdout_text().contains("Usage: plimsoll-clients <COMMAND>")
                && own.stdout_text().contains("  plimsoll-clients rotate "),
            "{}",
            own.stdout_text()
        );
        let args = [&["clients"], args].concat();
        let long = plimsoll(&args);
        assert_eq!((long.code, long.stderr.as_str()), (0, ""), "{args:?}");
        assert!(
            long.stdout_text().contains("Usage: plimsoll clients <COMMAND>"),
            "{}",
            long.stdout_text()
        );
    }
    let of_command = linked(house.0.path(), &["create", "-h"]);
    assert_eq!((of_command.code, of_command.stdout_text()), (0, ""));
    assert!(
        of_command.stderr.contains("Usage: plimsoll-clients create"),
        "{}",
        of_command.stderr
    );
    let wrong = linked(house.0.path(), &["nosuch"]);
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stderr.starts_with("plimsoll-clients: there is no such command"),
        "{}",
        wrong.stderr
    );
    let path = house.path();
    let made = linked(
        house.0.path(),
        &["create", "-file", path.to_str().unwrap(), "-id", "a", "-token-stdout"],
    );
    assert_eq!((made.code, made.stdout.len()), (0, 65), "{}", made.stderr);
}

#[test]
fn help_of_every_command_is_on_standard_error() {
    let mut all = String::new();
    for name in ["create", "import", "limit", "list", "rotate", "revoke", "verify"] {
        let ran = plimsoll(&["clients", name, "-h"]);
        assert_eq!((ran.code, ran.stdout_text()), (0, ""), "{name}");
        assert!(ran.stderr.contains("Examples:"), "{name}");
        all.push_str(&format!("$ plimsoll clients {name} -h\n{}\n", ran.stderr));
    }
    insta::assert_snapshot!(all);
}
