//! The grants file: whatever loads keeps the promises the broker relies on, checked here in the plainest words, and
//! whatever does not says why, with no secret in it.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use plimsoll_grants::{Host, Profiles, Route, Target};

/// What every variable holds, so that token objects can be whole.
const SECRET: &str = "a-secret-of-more-than-32-bytes-zq9";

fuzz_target!(|file: &[u8]| {
    let variables = |name: &str| (name != "ABSENT").then(|| SECRET.to_owned());
    // A file that holds the secret itself may have it repeated, as the name of a field that does not exist.
    let written = file.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    let keeps = |text: &str| written || !text.contains(SECRET);
    match Profiles::read(file, Path::new("/nonexistent"), &variables) {
        Ok(profiles) => {
            holds(&profiles);
            assert!(profiles.warnings().iter().all(|line| keeps(line)));
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "a refusal says why");
            for problem in problems {
                assert!(!problem.problem().is_empty() && keeps(&problem.to_string()));
            }
        }
    }
});

fn holds(profiles: &Profiles) {
    for profile in profiles.iter() {
        let name = profile.name();
        assert!((1..=128).contains(&name.len()) && name.is_ascii() && !name.contains(['/', ' ']));
        assert!(profiles.look_up(name, None).is_err() && profiles.look_up(name, Some("*")).is_err());
        if profile.open_to_all() {
            assert!(profiles.look_up(name, Some("anybody")).is_ok());
        }
        let grant = profile.grant();
        assert!((1..=100_000).contains(&grant.budget()));
        assert!((1..=60).contains(&grant.call_timeout().as_secs()));
        assert!(!grant.global().is_empty());
        let origin = grant.origin();
        assert!(origin.is_https() || origin.host().is_localhost() || matches!(origin.host(), Host::Address(_)));
        assert!(!origin.as_str().contains('@') && origin.as_str().matches('/').count() == 2);
        for (index, route) in grant.allow().iter().enumerate() {
            clean(route);
            assert!(!grant.allow()[..index].contains(route), "no entry stands twice");
        }
        for (route, cap) in grant.route_caps() {
            assert!(grant.allow().contains(route) && (1..=100_000).contains(cap));
        }
        for scope in grant.scopes() {
            assert!(!scope.is_empty() && !scope.contains(char::is_whitespace));
            assert!(!["code:run", "*"].contains(&scope.as_str()));
        }
        if let Some(health) = grant.health_check() {
            assert!(health.method().as_str() == "GET" && !health.path().contains('*'));
        }
        profile.catalog().iter().for_each(clean);
        for (served, batch) in profile.batch_of() {
            assert!(served != batch && served.is_wildcard());
            assert!([served, batch].iter().all(|route| route.method().as_str() == "GET"));
        }
    }
}

/// A route reads back from its own text, and with its stars filled in it is a target in its one spelling.
fn clean(route: &Route) {
    assert_eq!(Route::parse_line(&route.to_string()).as_ref(), Ok(route));
    let filled = route.path().replace('*', "x");
    assert!(Target::parse(filled.as_bytes()).is_ok_and(|target| route.matches(route.method(), target)));
}
