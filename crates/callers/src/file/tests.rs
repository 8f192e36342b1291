//! The rules of the clients file, one by one.

use super::*;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn error(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

fn one(members: &str) -> String {
    format!("{{\"clients\":[{{{members}}}]}}")
}

#[test]
fn a_registry_is_one_object_with_one_list() {
    for text in [
        "null",
        "{}",
        "[]",
        "{\"clients\":null}",
        "{\"clients\":{}}",
        "{\"clients\":[]} {}",
        "{\"clients\":[]}x",
        "{\"clients\":[],\"unexpected\":true}",
        "{\"Clients\":[]}",
        "{\"clients\":[],\"clients\":[]}",
        "\u{feff}{\"clients\":[]}",
        "{\"clients\":[[]]}",
        "{\"clients\":[null]}",
        "{\"clients\":[",
        "",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text:?}");
    }
    assert!(parse(b"{\"clients\":[\xff]}").is_err());
    assert_eq!(parse(b" {\"clients\":[]}\n").unwrap(), []);
}

#[test]
fn a_problem_is_said_of_the_file_or_of_a_place_in_it() {
    for (text, told) in [
        ("[]", "the file must be a JSON object"),
        ("{\"callers\":[]}", "the file has a member other than `clients`"),
        ("{\"clients\":{}}", "clients: must be present and an array of objects"),
        ("{\"clients\":[1]}", "clients[0]: must be an object"),
        ("{", "the file is not valid JSON (line 1, column 1): ends too early"),
    ] {
        assert_eq!(error(text), told);
    }
}

#[test]
fn an_id_is_trimmed_and_a_fingerprint_lowered() {
    let text = one(&format!(
        "\"id\":\" caller \",\"token_sha256\":\" {} \",\"scopes\":[\"code:run\"]",
        A.to_uppercase()
    ));
    let clients = parse(text.as_bytes()).unwrap();
    assert_eq!(
        clients,
        [Client {
            id: "caller".to_owned(),
            token_sha256: [0xaa; 32],
            scopes: vec!["code:run".to_owned()],
            paid_seconds_per_day: 0
        }]
    );
}

#[test]
fn a_bad_id_is_refused() {
    for id in ["a\\u0000b", "*", " * ", "", "  ", "a\\nb", "a\\u0085b"] {
        let error = error(&one(&format!("\"id\":\"{id}\",\"token_sha256\":\"{A}\"")));
        assert!(error.starts_with("clients[0].id: "), "{error}");
    }
    assert!(error(&one("\"id\":7,\"token_sha256\":\"x\"")).starts_with("clients[0].id: "));
    assert_eq!(
        error(&one(&format!("\"token_sha256\":\"{A}\""))),
        "clients[0]: has no `id`"
    );
    assert_eq!(error(&one("\"id\":\"a\"")), "clients[0]: has no `token_sha256`");
    let twice = format!(
        "{{\"clients\":[{{\"id\":\"a\",\"token_sha256\":\"{A}\"}},{{\"id\":\" a\",\"token_sha256\":\"{B}\"}}]}}"
    );
    assert!(error(&twice).starts_with("clients[1].id: "), "{}", error(&twice));
}

#[test]
fn a_bad_fingerprint_is_refused_and_never_shown() {
    for fingerprint in [&A[1..], &format!("{A}0"), &A.replace("aa", "ag"), "hunter2", ""] {
        let error = error(&one(&format!("\"id\":\"a\",\"token_sha256\":\"{fingerprint}\"")));
        assert!(error.starts_with("clients[0].token_sha256: "), "{error}");
        assert!(fingerprint.is_empty() || !error.contains(fingerprint), "{error}");
    }
    let shared = format!(
        "{{\"clients\":[{{\"id\":\"a\",\"token_sha256\":\"{A}\"}},{{\"id\":\"b\",\"token_sha256\":\"{}\"}}]}}",
        A.to_uppercase()
    );
    assert!(error(&shared).starts_with("clients[1].token_sha256: "));
}

#[test]
fn bad_scopes_are_refused() {
    for scopes in [
        "[\"\"]",
        "[\"code:run other\"]",
        "[\"a\",\"a\"]",
        "[\"a\\u0007\"]",
        "[1]",
        "null",
        "\"a\"",
    ] {
        let error = error(&one(&format!(
            "\"id\":\"a\",\"token_sha256\":\"{A}\",\"scopes\":{scopes}"
        )));
        assert!(error.starts_with("clients[0].scopes"), "{error}");
    }
}

#[test]
fn an_allowance_is_a_whole_number_that_is_not_negative() {
    for allowance in ["-1", "1.5", "1e3", "null", "\"60\"", "18446744073709551616"] {
        let error = error(&one(&format!(
            "\"id\":\"a\",\"token_sha256\":\"{A}\",\"paid_seconds_per_day\":{allowance}"
        )));
        assert!(error.starts_with("clients[0].paid_seconds_per_day: "), "{error}");
    }
    let text = one(&format!(
        "\"id\":\"a\",\"token_sha256\":\"{A}\",\"paid_seconds_per_day\":3600"
    ));
    assert_eq!(parse(text.as_bytes()).unwrap()[0].paid_seconds_per_day, 3600);
}

#[test]
fn members_are_known_unrepeated_and_case_sensitive() {
    for extra in ["\"Id\":\"b\"", "\"token\":\"x\"", "\"ID\":1"] {
        let error = error(&one(&format!("\"id\":\"a\",\"token_sha256\":\"{A}\",{extra}")));
        assert!(error.starts_with("clients[0]: has a member other than"), "{error}");
    }
    let repeated = error(&one(&format!("\"id\":\"a\",\"token_sha256\":\"{A}\",\"id\":\"b\"")));
    assert!(repeated.starts_with("the file repeats a member"), "{repeated}");
}

#[test]
fn only_a_regular_file_of_bounded_size_is_read() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients.json");
    assert!(matches!(ClientsFile::load(&path), Err(ClientsError::Missing)));
    assert!(matches!(
        ClientsFile::load(folder.path()),
        Err(ClientsError::NotRegular)
    ));
    assert!(matches!(
        ClientsFile::load(Path::new("/dev/null")),
        Err(ClientsError::NotRegular)
    ));
    fs_err::write(&path, vec![b' '; MAX_BYTES + 1]).unwrap();
    assert!(matches!(ClientsFile::load(&path), Err(ClientsError::TooLarge)));
    fs_err::write(&path, "{\"clients\":[]}").unwrap();
    for (mode, writable) in [(0o600, false), (0o644, false), (0o620, true), (0o602, true)] {
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            ClientsFile::load(&path).unwrap().writable_by_others,
            writable,
            "{mode:o}"
        );
    }
    let link = folder.path().join("link.json");
    symlink(&path, &link).unwrap();
    assert!(ClientsFile::load(&link).unwrap().clients.is_empty());
    assert!(ClientsFile::load_itself(&path).unwrap().clients.is_empty());
    assert!(matches!(ClientsFile::load_itself(&link), Err(ClientsError::NotRegular)));
    assert!(matches!(
        ClientsFile::load_itself(folder.path()),
        Err(ClientsError::NotRegular)
    ));
    assert!(matches!(
        ClientsFile::load_itself(&folder.path().join("none")),
        Err(ClientsError::Missing)
    ));
}

#[test]
fn every_rule_that_is_not_met_is_told_in_file_order() {
    let text = format!(
        "{{\"clients\":[{{\"id\":\"*\",\"token_sha256\":\"x\",\"scopes\":[\"a b\",\"c\",\"c\"],\"paid_seconds_per_day\":-1}},\
         7,{{\"id\":\"a\",\"token_sha256\":\"{A}\"}},{{\"id\":\"a\",\"token_sha256\":\"{A}\"}}]}}"
    );
    let refused = parse(text.as_bytes()).unwrap_err();
    let places: Vec<String> = refused
        .lines()
        .iter()
        .map(|line| line.split_once(": ").unwrap().0.to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "clients[0].id",
            "clients[0].token_sha256",
            "clients[0].scopes[0]",
            "clients[0].scopes[2]",
            "clients[0].paid_seconds_per_day",
            "clients[1]",
            "clients[3].id",
            "clients[3].token_sha256",
        ]
    );
    assert!(refused.to_string().ends_with(" (and 7 more problems)"), "{refused}");
    let many = format!("{{\"clients\":[{}]}}", vec!["1"; 1000].join(","));
    let refused = parse(many.as_bytes()).unwrap_err();
    assert_eq!((refused.count(), refused.lines().len()), (1000, 101));
    assert_eq!(refused.lines().last().unwrap(), "and 900 more");
}

#[test]
fn what_is_written_is_read_back_and_is_plain() {
    let caller = |id: &str, digest: u8, scopes: &[&str], paid| Client {
        id: id.to_owned(),
        token_sha256: [digest; 32],
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        paid_seconds_per_day: paid,
    };
    let clients = vec![caller("a", 0xaa, &["code:run"], 0), caller("b \"é", 0x0b, &[], 60)];
    let text = to_json(&clients);
    assert_eq!(parse(&text).unwrap(), clients);
    let (a, b) = (A, "0b".repeat(32));
    let expected = format!(
        r#"{{
  "clients": [
    {{
      "id": "a",
      "token_sha256": "{a}",
      "scopes": [
        "code:run"
      ]
    }},
    {{
      "id": "b \"é",
      "token_sha256": "{b}",
      "scopes": [],
      "paid_seconds_per_day": 60
    }}
  ]
}}
"#
    );
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    assert_eq!(parse(&to_json(&[])).unwrap(), []);
}

proptest::proptest! {
    #[test]
    fn any_registry_is_read_back(ids in proptest::collection::hash_set("[a-z ]{0,3}\\PC{1,8}", 0..8), paid: u64) {
        let ids: HashSet<String> = ids.iter().map(|id| id.trim().to_owned()).collect();
        let good = ids.into_iter().filter(|id| check_identity(id).is_ok());
        let clients: Vec<Client> = good
            .zip(1u8..)
            .map(|(id, digest)| Client {
                id,
                token_sha256: [digest; 32],
                scopes: Vec::new(),
                paid_seconds_per_day: paid,
            })
            .collect();
        proptest::prop_assert_eq!(parse(&to_json(&clients)).unwrap(), clients);
    }
}
