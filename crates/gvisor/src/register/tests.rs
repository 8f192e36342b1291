use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

const RUNSC: &str = "/usr/local/bin/runsc";

fn merge(text: &str) -> Result<Option<String>, RegisterError> {
    merged(text, Path::new(RUNSC))
}

fn entry() -> Json {
    json!({"path": RUNSC, "runtimeArgs": ["--host-uds=open"]})
}

#[test]
fn a_file_that_is_empty_gets_the_entry_and_nothing_else() {
    for text in ["", "  \n", "{}", "{ }\n"] {
        let after = merge(text).unwrap().unwrap();
        let expected = "{\n  \"runtimes\": {\n    \"runsc\": {\n      \"path\": \"/usr/local/bin/runsc\",\n      \
                        \"runtimeArgs\": [\"--host-uds=open\"]\n    }\n  }\n}\n";
        assert_eq!(after, expected);
    }
}

#[test]
fn every_other_key_keeps_its_place_and_the_text_of_its_value() {
    let text = "{\n\t\"log-opts\": { \"max-size\":   \"10m\" },\n\t\"runtimes\": {\n\t\t\"kata\": {\"path\": \"/usr/bin/kata\"}\n\t},\n\t\
                \"z\": 1.50e1,\n\t\"a\": \"\\u00e9 \\/\",\n\t\"big\": 123456789012345678901234567890\n}\n";
    let after = merge(text).unwrap().unwrap();
    let expected = "{\n\t\"log-opts\": { \"max-size\":   \"10m\" },\n\t\"runtimes\": {\n\t\t\"kata\": {\"path\": \"/usr/bin/kata\"},\n\t\t\
                    \"runsc\": {\n\t\t\t\"path\": \"/usr/local/bin/runsc\",\n\t\t\t\"runtimeArgs\": [\"--host-uds=open\"]\n\t\t}\n\t},\n\t\
                    \"z\": 1.50e1,\n\t\"a\": \"\\u00e9 \\/\",\n\t\"big\": 123456789012345678901234567890\n}\n";
    assert_eq!(after, expected);
}

#[test]
fn what_is_registered_already_changes_nothing() {
    let compact = json!({"runtimes": {"runsc": entry()}, "debug": true}).to_string();
    assert!(merge(&compact).unwrap().is_none());
    let once = merge("{\"debug\": true}").unwrap().unwrap();
    assert!(merge(&once).unwrap().is_none());
}

#[test]
fn an_older_entry_is_brought_up_to_date_and_keeps_the_arguments_of_the_operator() {
    let old = json!({"runtimes": {"runsc": {
        "path": "/opt/runsc",
        "runtimeArgs": ["--platform=kvm", "--host-uds=all", "-host-uds", "create", "--host-uds-odd", "--debug"],
    }}});
    let after: Json = serde_json::from_str(&merge(&old.to_string()).unwrap().unwrap()).unwrap();
    let args = json!(["--platform=kvm", "--host-uds-odd", "--debug", "--host-uds=open"]);
    assert_eq!(
        after,
        json!({"runtimes": {"runsc": {"path": RUNSC, "runtimeArgs": args}}})
    );
}

#[test]
fn what_cannot_be_changed_without_a_guess_is_refused() {
    for text in [
        "[]",
        "{\"a\": 1,}",
        "{\"a\": 1} // words",
        "{\"runtimes\": []}",
        "{\"runtimes\": {\"runsc\": \"/usr/bin/runsc\"}}",
        "{\"runtimes\": {\"runsc\": {\"path\": 5}}}",
        "{\"runtimes\": {\"runsc\": {\"runtimeArgs\": \"--debug\"}}}",
        "{\"runtimes\": {}, \"runtimes\": {}}",
        "{\"runtimes\": {\"runsc\": {}, \"runsc\": {}}}",
    ] {
        let error = merge(text).unwrap_err();
        assert!(matches!(error, RegisterError::Json(_)), "{text}: {error}");
    }
    let shim = "{\"runtimes\": {\"runsc\": {\"runtimeType\": \"io.containerd.runsc.v1\"}}}";
    let error = merge(shim).unwrap_err().to_string();
    assert!(
        error.contains("\"runtimeType\"") && error.ends_with("nothing was changed"),
        "{error}"
    );
}

#[test]
fn the_file_is_replaced_whole_with_its_mode_and_through_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.json");
    let link = folder.path().join("daemon.json");
    fs::write(&real, "{\"debug\": true}").unwrap();
    fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(register(&link, Path::new(RUNSC)).unwrap());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let metadata = fs::metadata(&real).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o640);
    let after: Json = serde_json::from_str(&fs::read_to_string(&real).unwrap()).unwrap();
    assert_eq!(after, json!({"debug": true, "runtimes": {"runsc": entry()}}));
    assert!(!register(&link, Path::new(RUNSC)).unwrap());
    assert_eq!(
        fs::metadata(&real).unwrap().ino(),
        metadata.ino(),
        "it was replaced by the same"
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "something is left beside it"
    );
}

#[test]
fn a_file_that_is_not_there_is_made_with_its_folder_and_readable() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("etc/docker/daemon.json");
    assert!(register(&config, Path::new(RUNSC)).unwrap());
    assert_eq!(fs::metadata(&config).unwrap().mode() & 0o7777, 0o644);
}

#[test]
fn a_file_that_is_refused_stays_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("daemon.json");
    fs::write(&config, "{\"a\": 1,}").unwrap();
    register(&config, Path::new(RUNSC)).unwrap_err();
    assert_eq!(fs::read_to_string(&config).unwrap(), "{\"a\": 1,}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A JSON value of any shape.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        "\\PC{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::hash_map("\\PC{0,6}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_of_the_operators_is_lost(
        others in proptest::collection::hash_map("[a-q-]{1,6}", any_json(), 0..5),
        runtimes in proptest::collection::hash_map("[a-q]{1,6}", any_json(), 0..4),
        pretty in any::<bool>(),
    ) {
        let mut before: Json = others.into_iter().collect();
        before["runtimes"] = runtimes.into_iter().collect();
        let text = if pretty { serde_json::to_string_pretty(&before).unwrap() } else { before.to_string() };
        let after: Json = serde_json::from_str(&merge(&text).unwrap().unwrap()).unwrap();
        before["runtimes"]["runsc"] = entry();
        prop_assert_eq!(after, before);
    }
}
