use super::*;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;

fn set(name: &str, value: &str) -> BTreeMap<OsString, OsString> {
    BTreeMap::from([(name.into(), value.into())])
}

const MEMORY: Var = Var::new("SANDBOX_MEMORY_MB", Kind::Int { min: 0, max: i64::MAX }, "0", "");
const MAX: Var = Var::new("SANDBOX_MAX_CONCURRENT", Kind::Int { min: 1, max: 1024 }, "8", "");
const CPUS: Var = Var::new("SANDBOX_CPUS", Kind::Float, "0", "");
const METRICS: Var = Var::new(
    "PLIMSOLL_METRICS_ADDR",
    Kind::HostPort { off: true },
    "127.0.0.1:9464",
    "",
);
const TIER: Var = Var::new("SANDBOX_MIN_ISOLATION", Kind::OneOf(&["process", "vm"]), "", "");
const HARDENED: Var = Var::new("PLIMSOLL_HARDENED", Kind::Bool, "false", "").not_built("hardened mode is");
const LIFETIME: Var = Var::new(
    "SANDBOX_SESSION_LIFETIME",
    Kind::Duration {
        min: Duration::from_secs(1),
        max: Duration::from_secs(12 * 3600),
        zero: false,
    },
    "30m",
    "",
);

#[test]
fn a_whole_number_is_a_sign_and_digits_of_64_bits() {
    for (text, expected) in [
        ("-0", Some(0)),
        ("+7", Some(7)),
        (" 42\u{2003}", Some(42)),
        ("9223372036854775807", Some(i64::MAX)),
        ("", None),
        ("  ", None),
    ] {
        assert_eq!(MEMORY.int(&set(MEMORY.name, text)), Ok(expected), "{text:?}");
    }
    for text in [
        "abc",
        "9223372036854775808",
        "1.0",
        "1_000",
        "0x10",
        "+-1",
        "+",
        "1 2",
        "१",
    ] {
        let error = MEMORY.int(&set(MEMORY.name, text)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("SANDBOX_MEMORY_MB={text:?}: not a whole number")),
            "{error}"
        );
    }
}

#[test]
fn a_number_outside_the_bounds_names_variable_value_limit_and_default() {
    assert_eq!(
        MAX.int(&set(MAX.name, "1025")).unwrap_err().to_string(),
        "SANDBOX_MAX_CONCURRENT=\"1025\": out of range; set it to a whole number from 1 to 1024, or unset it (default 8)"
    );
    assert_eq!(MAX.count(&BTreeMap::new()), Ok(8));
}

#[test]
fn a_value_that_is_not_utf8_is_refused_by_name_only() {
    let mut lookup = BTreeMap::new();
    lookup.insert(OsString::from(MEMORY.name), OsString::from_vec(vec![0x31, 0xff]));
    let error = MEMORY.check(&lookup).unwrap_err();
    assert_eq!(error, SettingError::NotUtf8 { variable: MEMORY.name });
    assert!(error.to_string().contains("SANDBOX_MEMORY_MB"));
}

#[test]
fn processors_are_finite_and_not_negative() {
    assert_eq!(CPUS.float(&set(CPUS.name, " 1.5e0 ")), Ok(1.5));
    assert_eq!(CPUS.float(&set(CPUS.name, "-0")).map(f64::is_sign_positive), Ok(true));
    for text in ["NaN", "Inf", "infinity", "-1", "1e999", "0x1p3", "lots", "."] {
        let error = CPUS.float(&set(CPUS.name, text)).unwrap_err().to_string();
        assert!(error.contains("SANDBOX_CPUS") && error.contains(text), "{error}");
    }
}

#[test]
fn a_switch_has_four_spellings_in_any_case() {
    for (text, expected) in [
        ("1", true),
        (" TRUE ", true),
        ("0", false),
        ("False", false),
        (" ", false),
    ] {
        assert_eq!(HARDENED.bool(&set(HARDENED.name, text)), Ok(expected), "{text:?}");
    }
    for text in ["yes", "on", "2", "tru"] {
        assert!(HARDENED.bool(&set(HARDENED.name, text)).is_err(), "{text:?}");
    }
}

#[test]
fn durations_need_units() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("30m", 1_800_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("500ms", 500_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1µs", 1_000),
        ("1μs", 1_000),
        ("2us3ns", 2_003),
        ("-1s", -1_000_000_000),
    ] {
        assert_eq!(parse_duration(text), Some(nanos), "{text:?}");
    }
    for text in ["", "30", "s", ".s", "1h 30m", "1d", "1H", "--1s", "300000000000h", "-"] {
        assert_eq!(parse_duration(text), None, "{text:?}");
    }
}

#[test]
fn a_session_lifetime_without_unit_or_outside_1s_to_12h_is_refused() {
    for text in ["30", "13h", "500ms", "-1s"] {
        let error = LIFETIME.check(&set(LIFETIME.name, text)).unwrap_err().to_string();
        assert!(
            error.contains("SANDBOX_SESSION_LIFETIME") && error.contains(text),
            "{error}"
        );
        assert!(error.contains("from 1s to 12h"), "{error}");
    }
    assert_eq!(
        LIFETIME.duration(&set(LIFETIME.name, "12h")),
        Ok(Some(Duration::from_secs(43200)))
    );
}

#[test]
fn a_negative_duration_and_a_port_past_65535_are_told_as_what_they_are() {
    let error = LIFETIME.check(&set(LIFETIME.name, "-1s")).unwrap_err().to_string();
    assert!(
        error.starts_with("SANDBOX_SESSION_LIFETIME=\"-1s\": a duration cannot be negative; set it to "),
        "{error}"
    );
    for text in ["127.0.0.1:65536", ":99999999999999999999", "[::1]:70000"] {
        let error = METRICS.check(&set(METRICS.name, text)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{}={text:?}: out of range; set it to ", METRICS.name))
                && error.contains("a port from 0 to 65535"),
            "{error}"
        );
    }
}

#[test]
fn a_provider_that_is_planned_is_known_and_not_told_of() {
    let kind = Kind::Provider {
        built: &["wasm"],
        planned: &["docker"],
    };
    let provider = Var::new("SANDBOX_PROVIDER", kind, "", "");
    assert_eq!(provider.word(&set("SANDBOX_PROVIDER", " Docker ")), Ok(Some("docker")));
    let error = provider
        .word(&set("SANDBOX_PROVIDER", "dokcer"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a provider of this build (wasm)") && !error.contains("docker"),
        "{error}"
    );
}

#[test]
fn an_address_has_a_port_or_is_off() {
    let read = |text: &str| {
        METRICS
            .host_port(&set(METRICS.name, text))
            .map(|value| value.map(|a| a.to_string()))
    };
    assert_eq!(read(""), Ok(Some("127.0.0.1:9464".to_owned())));
    assert_eq!(read("  "), Ok(Some("127.0.0.1:9464".to_owned())));
    assert_eq!(read(" OFF "), Ok(None));
    assert_eq!(read(":9464"), Ok(Some(":9464".to_owned())));
    assert_eq!(read("[::1]:9464"), Ok(Some("[::1]:9464".to_owned())));
    for text in [
        "9464",
        "no",
        "127.0.0.1",
        "disabled",
        "::1:9464",
        "[::1]",
        "a:",
        "a:65536",
        "a:-1",
        "[x]:1",
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(
            error.contains("PLIMSOLL_METRICS_ADDR") && error.contains(text),
            "{error}"
        );
    }
}

#[test]
fn a_word_is_trimmed_and_lowered() {
    assert_eq!(TIER.word(&set(TIER.name, "VM ")), Ok(Some("vm")));
    for text in ["none", "unknown", "strong"] {
        assert!(TIER.word(&set(TIER.name, text)).is_err(), "{text:?}");
    }
}

#[test]
fn a_variable_of_an_unbuilt_feature_stops_the_start_unless_blank() {
    assert_eq!(HARDENED.check(&set(HARDENED.name, "  ")), Ok(()));
    assert_eq!(HARDENED.check(&BTreeMap::new()), Ok(()));
    let error = HARDENED.check(&set(HARDENED.name, "0")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("PLIMSOLL_HARDENED: set, but hardened mode is not built yet"),
        "{error}"
    );
    // Malformed first: the operator sees which text is wrong.
    assert!(
        HARDENED
            .check(&set(HARDENED.name, "yes"))
            .unwrap_err()
            .to_string()
            .contains("\"yes\"")
    );
}

#[test]
fn a_credential_is_never_shown() {
    let token = Var::new("PLIMSOLL_TOKEN", Kind::Secret, "", "");
    for error in [
        token.unusable("hunter2", "too short", "use 32 bytes"),
        token.malformed("hunter2"),
    ] {
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[test]
fn names_nobody_reads_are_found_sorted_and_only_ours() {
    let mut lookup = set("SANDBOX_MAX_CONCURENT", "4");
    lookup.insert("PLIMSOLL_ADR".into(), ":1".into());
    lookup.insert("SANDBOX_MAX_CONCURRENT".into(), "4".into());
    lookup.insert("HOME".into(), "/root".into());
    lookup.insert("SANDBOX_BYTES".into(), OsString::from_vec(vec![0xff]));
    lookup.insert(OsString::from_vec(b"SANDBOX_\xff".to_vec()), "1".into());
    assert_eq!(
        unknown([MAX].iter(), &lookup),
        ["PLIMSOLL_ADR", "SANDBOX_MAX_CONCURENT"]
    );
}
