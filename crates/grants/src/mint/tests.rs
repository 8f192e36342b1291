use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use zeroize::Zeroizing;

use super::jwt::lifetime;
use super::*;
use crate::grant::GrantSpec;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Minters of this crate answer at once, so one poll is enough.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the minter waits for something"),
    }
}

fn settings() -> JwtSettings {
    JwtSettings {
        secret: Zeroizing::new(SECRET.to_vec()),
        audience: "berth-api".to_owned(),
        issuer: String::new(),
        key_id: String::new(),
        ttl: Duration::ZERO,
    }
}

fn fixed_clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn grant_with(minter: impl Minter + 'static) -> Grant {
    let mut spec = GrantSpec::new("https://api.example");
    spec.minter = Some(Arc::new(minter));
    spec.validate().unwrap()
}

fn scope(subject: &str, scopes: &[&str], ttl: Duration) -> MintScope {
    MintScope {
        base_url: "https://api.example".to_owned(),
        allow: Vec::new(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        ttl,
        subject: subject.to_owned(),
    }
}

/// Gives a value of its own, and counts how often it is asked.
#[derive(Debug)]
struct Probe {
    value: &'static str,
    expires_at: Option<SystemTime>,
    named: bool,
    asked: Arc<AtomicUsize>,
}

impl Probe {
    fn giving(value: &'static str) -> Self {
        Self {
            value,
            expires_at: None,
            named: false,
            asked: Arc::default(),
        }
    }
}

impl Minter for Probe {
    fn mint(&self, _scope: MintScope) -> MintFuture<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let credential = Credential {
            value: Zeroizing::new(self.value.to_owned()),
            expires_at: self.expires_at,
        };
        Box::pin(async { Ok(credential) })
    }

    fn requires_subject(&self) -> bool {
        self.named
    }
}

#[test]
fn the_token_with_every_member_is_the_golden_one() {
    let minter = JwtMinter::new(JwtSettings {
        issuer: "plimsoll".to_owned(),
        key_id: "k1".to_owned(),
        ttl: Duration::from_secs(60),
        ..settings()
    });
    let minter = minter.unwrap().with_sources(fixed_clock, || {
        Ok([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    });
    let scope = scope("mcp-a", &["berths:read", "berths:write"], Duration::from_secs(30));
    let token = now(minter.mint(scope)).unwrap();
    assert_eq!(
        token.expose(),
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIiwidHlwIjoiSldUIn0.eyJhdWQiOiJiZXJ0aC1hcGkiLCJleHAiOjE4MDAwMDAwMzUsImlhdCI6MTgwMDAwMDAwMCwiaXNzIjoicGxpbXNvbGwiLCJqdGkiOiIwMDAxMDIwMzA0MDUwNjA3MDgwOTBhMGIwYzBkMGUwZiIsIm5iZiI6MTgwMDAwMDAwMCwic2NvcGUiOiJiZXJ0aHM6cmVhZCBiZXJ0aHM6d3JpdGUiLCJzdWIiOiJtY3AtYSJ9.xIRQM-iaBFXHpu0fjB649-l5V33oB1QnFjf2rlUjUqs"
    );
    assert_eq!(token.expires_at(), Some(fixed_clock() + Duration::from_secs(35)));
}

#[test]
fn the_token_with_only_what_it_must_have_is_the_golden_one() {
    let minter = JwtMinter::new(JwtSettings {
        audience: "a".to_owned(),
        ..settings()
    });
    let minter = minter.unwrap().with_sources(fixed_clock, || Ok([0xff; 16]));
    let token = now(minter.mint(scope("u", &[], Duration::ZERO))).unwrap();
    assert_eq!(
        token.expose(),
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJhdWQiOiJhIiwiZXhwIjoxODAwMDAwMDYwLCJpYXQiOjE4MDAwMDAwMDAsImp0aSI6ImZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmIiwibmJmIjoxODAwMDAwMDAwLCJzdWIiOiJ1In0.CtKGkxRCv62iF_7UxnZ7MCi0BHkoATQcu0PP5K3BZew"
    );
}

#[test]
fn two_runs_never_share_a_token() {
    let grant = grant_with(JwtMinter::new(settings()).unwrap());
    let token = || {
        now(mint(&grant, Some("alice"), Duration::from_secs(1)))
            .unwrap()
            .unwrap()
    };
    assert_ne!(token().expose(), token().expose());
}

#[test]
fn a_token_lives_five_seconds_longer_than_its_run_and_never_longer_than_its_own_limit() {
    let seconds = Duration::from_secs;
    assert_eq!(lifetime(seconds(60), seconds(55)), seconds(60));
    assert_eq!(lifetime(seconds(60), seconds(54)), seconds(59));
    assert_eq!(lifetime(seconds(60), seconds(300)), seconds(60));
    assert_eq!(lifetime(seconds(60), Duration::MAX), seconds(60));
    assert_eq!(lifetime(seconds(60), Duration::ZERO), seconds(60));
}

#[test]
fn the_end_is_counted_on_the_whole_clock_and_then_cut_to_seconds() {
    let minter = JwtMinter::new(settings()).unwrap().with_sources(
        || SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_700),
        || Ok([0; 16]),
    );
    let token = now(minter.mint(scope("u", &[], Duration::from_millis(1_400)))).unwrap();
    let claims = token.expose().split('.').nth(1).unwrap();
    let claims = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, claims).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!((&claims["iat"], &claims["exp"]), (&1_000.into(), &1_007.into()));
}

#[test]
fn a_token_that_names_the_caller_is_not_minted_without_one() {
    for subject in [
        None,
        Some(""),
        Some("  "),
        Some("*"),
        Some(" a"),
        Some("a "),
        Some("a\nb"),
        Some("a\u{85}b"),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let grant = grant_with(Probe {
            named: true,
            asked: Arc::clone(&asked),
            ..Probe::giving("token")
        });
        let refused = now(mint(&grant, subject, Duration::ZERO)).unwrap_err();
        assert_eq!(
            (refused, asked.load(Ordering::Relaxed)),
            (MintError::Subject, 0),
            "{subject:?}"
        );
    }
    let minter = JwtMinter::new(settings()).unwrap();
    for blank in ["", " \t"] {
        let refused = now(minter.mint(scope(blank, &[], Duration::ZERO)));
        assert_eq!(refused.unwrap_err(), MintError::Subject);
    }
}

#[test]
fn a_credential_that_cannot_stand_in_a_header_is_refused() {
    for value in ["", " t", "a b", "t\nh", "t\u{f6}k", "t\u{7f}"] {
        let refused = now(mint(&grant_with(Probe::giving(value)), None, Duration::ZERO));
        assert_eq!(refused.unwrap_err(), MintError::Value, "{value:?}");
        assert_eq!(
            StaticMinter::new(Zeroizing::new(value.to_owned())).unwrap_err(),
            MintError::Value
        );
    }
    let given = now(mint(&grant_with(Probe::giving("!~")), None, Duration::ZERO));
    assert_eq!(given.unwrap().unwrap().expose(), "!~");
}

#[test]
fn a_credential_that_is_over_is_refused() {
    let past = SystemTime::now();
    let grant = grant_with(Probe {
        expires_at: Some(past),
        ..Probe::giving("t")
    });
    assert_eq!(now(mint(&grant, None, Duration::ZERO)).unwrap_err(), MintError::Expired);
    let grant = grant_with(Probe {
        expires_at: Some(past + Duration::from_secs(3_600)),
        ..Probe::giving("t")
    });
    assert!(now(mint(&grant, None, Duration::ZERO)).unwrap().is_some());
}

#[test]
fn a_run_without_its_credential_is_refused_as_one_that_did_not_run() {
    let refusal = MintError::Failed("no randomness").refusal();
    assert_eq!((refusal.code(), refusal.reason()), (Code::Internal, Reason::Permission));
    assert_eq!(refusal.message(), "the credential could not be minted: no randomness");
}

#[test]
fn a_grant_without_a_minter_has_no_credential() {
    let grant = GrantSpec::new("https://api.example").validate().unwrap();
    assert!(now(mint(&grant, Some("alice"), Duration::ZERO)).unwrap().is_none());
}

#[test]
fn a_static_credential_is_the_same_for_every_run_and_names_nobody() {
    let grant = grant_with(StaticMinter::new(Zeroizing::new("s3cret".to_owned())).unwrap());
    for subject in [None, Some("alice")] {
        let credential = now(mint(&grant, subject, Duration::ZERO)).unwrap().unwrap();
        assert_eq!((credential.expose(), credential.expires_at()), ("s3cret", None));
    }
}

#[test]
fn settings_that_make_weak_tokens_are_refused() {
    let short = JwtSettings {
        secret: Zeroizing::new(SECRET[..31].to_vec()),
        ..settings()
    };
    let blank = JwtSettings {
        audience: "  ".to_owned(),
        ..settings()
    };
    let long = JwtSettings {
        ttl: MAX_TTL + Duration::from_secs(1),
        ..settings()
    };
    for settings in [short, blank, long] {
        assert!(matches!(JwtMinter::new(settings), Err(MintError::Failed(_))));
    }
    assert_eq!(JwtMinter::new(settings()).unwrap().ttl(), DEFAULT_TTL);
}

#[test]
fn no_formatter_shows_a_secret() {
    let credential = Credential::new("s3cret-value").expiring_at(fixed_clock());
    let jwt = JwtMinter::new(settings()).unwrap();
    let fixed = StaticMinter::new(Zeroizing::new("s3cret-value".to_owned())).unwrap();
    let shown = format!(
        "{credential:?} {jwt:?} {fixed:?} {:?} {:?}",
        settings(),
        grant_with(fixed_copy())
    );
    for secret in ["s3cret", "0123456789abcdef", "48, 49"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

fn fixed_copy() -> StaticMinter {
    StaticMinter::new(Zeroizing::new("s3cret-value".to_owned())).unwrap()
}
