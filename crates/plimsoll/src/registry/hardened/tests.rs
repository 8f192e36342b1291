//! Rules 7 to 11, also those of providers that do not exist yet: scripted entries state what theirs will.

use std::time::Duration;

use super::super::{BuildPlan, PROVIDERS};
use super::*;
use crate::env::Environment;

const TEMPLATE: &str = "E2B_TEMPLATE";
const API: &str = "SANDBOX_DOCKERCLOUD_API";
const STORE_IMAGE: &str = "SANDBOX_DOCKERCLOUD_STORE_IMAGE";

fn text<'a>(lookup: &'a dyn Lookup, name: &str) -> &'a str {
    lookup
        .get(name)
        .and_then(|value| value.to_str())
        .unwrap_or_default()
        .trim()
}

/// An entry whose provider is never built.
const fn scripted(name: &'static str, strongest: Tier, hardened: Hardened) -> Entry {
    Entry {
        name,
        on_host: false,
        in_process: false,
        metered: None,
        strongest,
        default_timeout: Duration::ZERO,
        pooled_kinds: 0,
        hardened,
        unenforceable: |_| Vec::new(),
        build: |_: &BuildPlan<'_>| Ok(std::sync::Arc::new(plimsoll_sandbox::Disabled)),
    }
}

/// Asks for a template by name (rule 9).
const TEMPLATED: Entry = scripted(
    "templated",
    Tier::Vm,
    Hardened {
        settings: |lookup| {
            let unset = text(lookup, TEMPLATE).is_empty();
            let violation = || Violation::new(9, format!("{TEMPLATE} is not set"));
            unset.then(violation).into_iter().collect()
        },
        ..Hardened::PLAIN
    },
);

/// Asks for one API in so many words, and for a pinned or a stored image (rule 8).
const STORED: Entry = scripted(
    "stored",
    Tier::Vm,
    Hardened {
        envelope: &[MEMORY_MB.name, CPUS.name],
        settings: |lookup| {
            let mut found = Vec::new();
            if text(lookup, API) != "connect" {
                found.push(Violation::new(8, format!("{API} is not connect")));
            }
            if text(lookup, STORE_IMAGE).is_empty() {
                found.extend(unpinned(8, lookup));
            }
            found
        },
        ..Hardened::PLAIN
    },
);

/// Asks for pinned images by its entry alone (rule 10).
const GATEWAY: Entry = scripted(
    "gateway",
    Tier::Container,
    Hardened {
        pinned_images: true,
        ..Hardened::PLAIN
    },
);

fn found(entry: Option<&Entry>, values: &[(&str, &str)]) -> Vec<Violation> {
    violations(entry, &Environment::from_pairs(values.iter().copied()))
}

fn rules(entry: &Entry, values: &[(&str, &str)]) -> Vec<u8> {
    found(Some(entry), values)
        .iter()
        .map(|violation| violation.rule)
        .collect()
}

fn built(name: &str) -> &'static Entry {
    PROVIDERS.iter().find(|entry| entry.name == name).unwrap()
}

const ENVELOPE: [(&str, &str); 5] = [
    ("SANDBOX_MEMORY_MB", "256"),
    ("SANDBOX_CPUS", "0.5"),
    ("SANDBOX_DISK_MB", "64"),
    ("SANDBOX_PIDS", "+64"),
    ("SANDBOX_TOTAL_MEMORY_MB", "4096"),
];

const PINNED: (&str, &str) = ("SANDBOX_REQUIRE_PINNED_IMAGES", "true");

/// The envelope, and more.
fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    ENVELOPE.iter().chain(more).copied().collect()
}

#[test]
fn docker_wants_pinned_images_and_a_seccomp_filter() {
    let docker = built("docker");
    assert_eq!(rules(docker, &with(&[PINNED])), [] as [u8; 0]);
    assert_eq!(rules(docker, &with(&[])), [7]);
    for value in ["false", "yes", "0", "2"] {
        let told = found(Some(docker), &with(&[(PINNED.0, value)]));
        assert_eq!(told.len(), 1, "{value}");
        assert!(told[0].rule == 7 && told[0].problem.contains(PINNED.0), "{}", told[0]);
    }
    for (seccomp, expected) in [
        ("unconfined", &[7][..]),
        (" unconfined ", &[7]),
        ("engine", &[]),
        ("/profile", &[]),
    ] {
        let values = with(&[PINNED, ("SANDBOX_DOCKER_SECCOMP", seccomp)]);
        assert_eq!(rules(docker, &values), expected, "{seccomp}");
    }
}

#[test]
fn limits_left_out_and_limits_of_nothing_are_two_lists() {
    let told = found(
        Some(built("docker")),
        &[
            PINNED,
            ("SANDBOX_MEMORY_MB", " "),
            ("SANDBOX_CPUS", "lots"),
            ("SANDBOX_DISK_MB", "-1"),
            ("SANDBOX_PIDS", "64"),
        ],
    );
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "rule 11: limits that must be chosen are not set: SANDBOX_MEMORY_MB, SANDBOX_TOTAL_MEMORY_MB; not above 0: \
          SANDBOX_CPUS, SANDBOX_DISK_MB; set each to a number above 0"
        ]
    );
    for name in ENVELOPE.map(|(name, _)| name) {
        for value in ["", "0", "-0", "0.0", "NaN", "inf"] {
            let values: Vec<_> = with(&[PINNED])
                .into_iter()
                .map(|(have, text)| (have, if have == name { value } else { text }))
                .collect();
            let told = found(Some(built("docker")), &values);
            let list = if value.is_empty() { "not set: " } else { "not above 0: " };
            assert_eq!(told.len(), 1, "{name}={value:?}");
            assert!(told[0].problem.contains(&format!("{list}{name};")), "{}", told[0]);
        }
    }
}

#[test]
fn an_entry_says_itself_which_limits_and_which_images_it_wants() {
    let own = [ENVELOPE[0], ENVELOPE[1], ENVELOPE[2]];
    let own_with = |more: &[(&'static str, &'static str)]| own.iter().chain(more).copied().collect::<Vec<_>>();
    assert_eq!(rules(&TEMPLATED, &own_with(&[(TEMPLATE, "base")])), [] as [u8; 0]);
    assert_eq!(rules(&TEMPLATED, &own), [9]);

    let two = [ENVELOPE[0], ENVELOPE[1]];
    let two_with = |more: &[(&'static str, &'static str)]| two.iter().chain(more).copied().collect::<Vec<_>>();
    assert_eq!(rules(&STORED, &two_with(&[(API, "connect"), PINNED])), [] as [u8; 0]);
    assert_eq!(
        rules(&STORED, &two_with(&[(API, "connect"), (STORE_IMAGE, "id@sha256:00")])),
        [] as [u8; 0]
    );
    assert_eq!(rules(&STORED, &two_with(&[(API, "rest"), PINNED])), [8]);
    assert_eq!(rules(&STORED, &two_with(&[PINNED])), [8], "the default does not count");
    assert_eq!(rules(&STORED, &two_with(&[(API, "connect")])), [8]);
    assert_eq!(rules(&STORED, &[]), [8, 8, 11]);

    assert_eq!(rules(&GATEWAY, &own_with(&[PINNED])), [] as [u8; 0]);
    assert_eq!(rules(&GATEWAY, &own), [10]);
    assert_eq!(
        found(None, &[])
            .iter()
            .map(|violation| violation.rule)
            .collect::<Vec<_>>(),
        [11]
    );
}

#[test]
fn where_no_configuration_could_ever_hold_it_says_so() {
    assert_eq!(
        never(Some(built("wasm"))).unwrap(),
        "hardened mode can never hold on provider wasm: it proves process at most (rule 1), and it cannot enforce SANDBOX_CPUS \
         and SANDBOX_DISK_MB, and refuses them (rule 11)"
    );
    assert!(
        never(Some(&GATEWAY))
            .unwrap()
            .ends_with("it proves container at most (rule 1)")
    );
    assert!(never(None).unwrap().contains("without a provider"));
    for entry in [built("docker"), &TEMPLATED, &STORED] {
        assert_eq!(never(Some(entry)), None, "{}", entry.name);
    }
}

#[test]
fn the_terms_are_those_of_the_provider_that_is_named_even_where_it_could_not_be_built() {
    let of = |values: &[(&str, &str)]| Terms::read(&Environment::from_pairs(values.iter().copied()));
    let wasm = of(&[("SANDBOX_PROVIDER", " WASM "), ("SANDBOX_CPUS", "lots")]).unwrap();
    assert_eq!((wasm.violations[0].rule, wasm.metered), (11, false));
    assert_eq!(wasm.never, never(Some(built("wasm"))));
    assert!(of(&[]).unwrap().never.unwrap().contains("without a provider"));
    assert_eq!(of(&[("SANDBOX_PROVIDER", "dokcer")]), None);
    let paid = Entry {
        metered: Some(Duration::from_secs(33)),
        ..STORED
    };
    assert!(Terms::of(Some(&paid), &Environment::default()).metered);
}
