//! Route caps: how often a run may call the routes its grant caps.
//!
//! A call is charged to every capped entry it matches, wildcards included, and letters are compared without case: an
//! upstream may route `/EP1` and `/ep1` to one handler, and a cap that case can dodge is no cap.

use std::collections::HashMap;

use parking_lot::Mutex;
use thiserror::Error;

use crate::grant::Grant;
use crate::route::{Method, Target};

/// A capped route has no calls left; nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a capped route of the grant has no calls left")]
pub struct CapExhausted;

/// The counts of one run, or of all the granted calls of one session: two grants that cap the same route of the same origin
/// share a count.
#[derive(Debug, Default)]
pub struct RouteCaps {
    counts: Mutex<HashMap<CountKey, u32>>,
}

/// What a count belongs to: canonical origin, method and lower-case path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CountKey {
    origin: String,
    method: Method,
    path: String,
}

impl RouteCaps {
    /// No calls counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Charges one call to every capped entry of `grant` it matches, or, when one of them is used up, to none.
    pub fn charge(&self, grant: &Grant, method: Method, target: Target<'_>) -> Result<(), CapExhausted> {
        // Most grants cap nothing, and most calls match no capped entry: neither takes the lock.
        let mut charged: Vec<(CountKey, u32)> = Vec::new();
        for (route, limit) in grant.route_caps() {
            if route.method() != method || !route.covers(target, str::eq_ignore_ascii_case) {
                continue;
            }
            let key = CountKey {
                origin: grant.origin().canonical(),
                method,
                path: route.path().to_ascii_lowercase(),
            };
            // Two spellings of one route are one count, charged once and held to the smaller limit.
            match charged.iter_mut().find(|(seen, _)| *seen == key) {
                Some((_, smaller)) => *smaller = (*smaller).min(*limit),
                None => charged.push((key, *limit)),
            }
        }
        if charged.is_empty() {
            return Ok(());
        }
        let mut counts = self.counts.lock();
        let spent = |key: &CountKey| counts.get(key).copied().unwrap_or(0);
        if charged.iter().any(|(key, limit)| spent(key) >= *limit) {
            return Err(CapExhausted);
        }
        for (key, _) in charged {
            *counts.entry(key).or_insert(0) += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{CapExhausted, RouteCaps};
    use crate::grant::{Grant, GrantSpec};
    use crate::route::{Method, Target};

    fn grant(origin: &str, caps: &[(&str, i64)]) -> Grant {
        let mut spec = GrantSpec::new(origin);
        for (route, limit) in caps {
            let (method, path) = route.split_once(' ').unwrap();
            spec.allow.push((method.to_owned(), path.to_owned()));
            spec.route_max_calls.push(((*route).to_owned(), *limit));
        }
        spec.validate().unwrap()
    }

    fn charge(caps: &RouteCaps, grant: &Grant, method: Method, path: &str) -> bool {
        caps.charge(grant, method, Target::parse(path.as_bytes()).unwrap())
            .is_ok()
    }

    #[test]
    fn letters_of_a_segment_do_not_dodge_a_cap() {
        let (caps, grant) = (
            RouteCaps::new(),
            grant("https://api.example", &[("POST /v2/ep1/run", 1)]),
        );
        assert!(charge(&caps, &grant, Method::Post, "/v2/ep1/run"));
        assert!(!charge(&caps, &grant, Method::Post, "/v2/ep1/run"));
        assert!(!charge(&caps, &grant, Method::Post, "/V2/EP1/run"));
        assert!(charge(&caps, &grant, Method::Post, "/v2/ep2/run"));
        assert!(charge(&caps, &grant, Method::Get, "/v2/ep1/run"));
    }

    #[test]
    fn a_call_is_charged_to_all_it_matches_or_to_none() {
        let caps = RouteCaps::new();
        let grant = grant("https://api.example", &[("GET /a/*/c", 1), ("GET /a/b/*", 2)]);
        let get = |path| charge(&caps, &grant, Method::Get, path);
        assert!(get("/a/b/c"));
        assert!(!get("/a/b/c"));
        assert!(!get("/a/x/c"));
        assert!(get("/a/b/d"), "the refused call left the other cap alone");
        assert!(!get("/a/b/e"));
    }

    #[test]
    fn spellings_that_fold_to_one_route_share_the_smaller_limit() {
        let caps = RouteCaps::new();
        let grant = grant("https://api.example", &[("GET /a/B", 5), ("GET /A/b", 2)]);
        assert!(charge(&caps, &grant, Method::Get, "/a/b"));
        assert!(charge(&caps, &grant, Method::Get, "/a/B"));
        assert!(!charge(&caps, &grant, Method::Get, "/A/b"));
    }

    #[test]
    fn spellings_of_one_origin_share_counts() {
        for origins in [
            &[
                "https://api.example",
                "https://API.example.:443",
                "https://api.example:0443",
            ][..],
            &["http://[::1]:80", "http://[0:0:0:0:0:0:0:1]"],
            &["http://[::ffff:127.0.0.1]", "http://127.0.0.1"],
        ] {
            let caps = RouteCaps::new();
            let limit = i64::try_from(origins.len()).unwrap();
            for origin in origins {
                assert!(charge(&caps, &grant(origin, &[("GET /a", limit)]), Method::Get, "/a"));
            }
            for origin in origins {
                assert!(
                    !charge(&caps, &grant(origin, &[("GET /a", limit)]), Method::Get, "/a"),
                    "{origin}"
                );
            }
        }
        let caps = RouteCaps::new();
        assert!(charge(
            &caps,
            &grant("https://a.example", &[("GET /a", 1)]),
            Method::Get,
            "/a"
        ));
        assert!(charge(
            &caps,
            &grant("https://b.example", &[("GET /a", 1)]),
            Method::Get,
            "/a"
        ));
        assert!(charge(
            &caps,
            &grant("https://a.example:444", &[("GET /a", 1)]),
            Method::Get,
            "/a"
        ));
    }

    #[test]
    fn threads_do_not_get_past_a_cap() {
        let caps = RouteCaps::new();
        let grant = grant("https://api.example", &[("GET /a/*", 5)]);
        let admitted: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| charge(&caps, &grant, Method::Get, "/a/b")))
                .collect();
            threads
                .into_iter()
                .map(|thread| usize::from(thread.join().unwrap()))
                .sum()
        });
        assert_eq!(admitted, 5);
        assert_eq!(
            caps.charge(&grant, Method::Get, Target::parse(b"/a/c").unwrap()),
            Err(CapExhausted)
        );
    }

    #[test]
    fn a_star_is_one_segment_without_a_colon() {
        let (caps, grant) = (RouteCaps::new(), grant("https://api.example", &[("GET /a/*", 1)]));
        for free in ["/a/x:run", "/a/x/y", "/a"] {
            assert!(charge(&caps, &grant, Method::Get, free));
            assert!(charge(&caps, &grant, Method::Get, free), "{free} is not capped");
        }
        assert!(charge(&caps, &grant, Method::Get, "/A/x"));
        assert!(!charge(&caps, &grant, Method::Get, "/a/y"));
    }
}
