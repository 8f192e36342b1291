//! The circuit breaker of one run: what an upstream's 429 or 503 means for the calls after it. Pure: time is handed in.
//!
//! The two statuses recover differently. A 503 says the upstream is unwell, so a window may end early when its health
//! route answers. A 429 says the caller has had enough; a healthy upstream proves nothing about a quota, so such a window
//! is never probed.

use std::time::{Duration, Instant, SystemTime};

/// The pause when the upstream names none, and the shortest one.
pub const MIN_COOLDOWN: Duration = Duration::from_secs(1);

/// The longest pause: a run lasts minutes, and an upstream must not be able to end it.
pub const MAX_COOLDOWN: Duration = Duration::from_secs(30);

/// The shortest time between two health probes of one run.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// What the breaker says about the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The call goes upstream.
    Pass,
    /// This caller is elected to ask the health route first, and then to report through [`Breaker::probed_healthy`] or
    /// [`Breaker::open`].
    Probe,
    /// The call is refused without reaching the upstream.
    Shed,
}

/// The state of one run.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// Unset: closed.
    open_until: Option<Instant>,
    last_probe: Option<Instant>,
    /// A 429 was seen in this window.
    quota: bool,
}

impl Breaker {
    /// A closed breaker.
    pub const fn new() -> Self {
        Self {
            open_until: None,
            last_probe: None,
            quota: false,
        }
    }

    /// Opens the window, or keeps it open at least until `now + cooldown`; a window is never shortened.
    ///
    /// `quota` says that the upstream answered 429.
    pub fn open(&mut self, now: Instant, cooldown: Duration, quota: bool) {
        if self.open_until.is_some_and(|until| now >= until) {
            *self = Self::new();
        }
        self.quota |= quota;
        let until = now + cooldown;
        self.open_until = Some(self.open_until.map_or(until, |open| open.max(until)));
    }

    /// Asks for one call; `has_probe` says that the grant names a health route.
    pub fn gate(&mut self, now: Instant, has_probe: bool) -> Gate {
        if self.open_until.is_none_or(|until| now >= until) {
            *self = Self::new();
            return Gate::Pass;
        }
        let rested = self
            .last_probe
            .is_none_or(|last| now.saturating_duration_since(last) >= PROBE_INTERVAL);
        if self.quota || !has_probe || !rested {
            return Gate::Shed;
        }
        self.last_probe = Some(now);
        Gate::Probe
    }

    /// The health route answered 2xx. Closes the breaker and returns true, unless a 429 arrived while the probe was under
    /// way: a quota window lapses by time alone.
    pub fn probed_healthy(&mut self) -> bool {
        if self.quota {
            return false;
        }
        *self = Self::new();
        true
    }
}

/// How long an upstream asks to be left alone: its `Retry-After` as seconds or as an HTTP date, kept within
/// [`MIN_COOLDOWN`] and [`MAX_COOLDOWN`]; absent or unreadable is the minimum.
pub fn cooldown(retry_after: Option<&[u8]>, now: SystemTime) -> Duration {
    let Some(text) = retry_after.and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
        return MIN_COOLDOWN;
    };
    let text = text.trim();
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let asked = if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if negative {
            Duration::ZERO
        } else {
            // More digits than an integer holds is still a number, and a large one.
            digits.parse().map_or(MAX_COOLDOWN, Duration::from_secs)
        }
    } else {
        httpdate::parse_http_date(text)
            .ok()
            .and_then(|at| at.duration_since(now).ok())
            .unwrap_or(Duration::ZERO)
    };
    asked.clamp(MIN_COOLDOWN, MAX_COOLDOWN)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::{Breaker, Gate, MAX_COOLDOWN, MIN_COOLDOWN, cooldown};

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_window_sheds_until_it_lapses_and_then_forgets() {
        let (mut breaker, start) = (Breaker::new(), Instant::now());
        assert_eq!(breaker.gate(start, false), Gate::Pass);
        breaker.open(start, seconds(10), false);
        assert_eq!(breaker.gate(start, false), Gate::Shed);
        assert_eq!(breaker.gate(start + seconds(9), false), Gate::Shed);
        assert_eq!(breaker.gate(start + seconds(10), false), Gate::Pass);
        assert_eq!(breaker.gate(start, false), Gate::Pass, "the window is gone, not paused");
    }

    #[test]
    fn a_window_is_extended_and_never_shortened() {
        let (mut breaker, start) = (Breaker::new(), Instant::now());
        breaker.open(start, seconds(10), false);
        breaker.open(start + seconds(1), seconds(1), false);
        assert_eq!(breaker.gate(start + seconds(9), false), Gate::Shed);
        breaker.open(start + seconds(9), seconds(5), false);
        assert_eq!(breaker.gate(start + seconds(13), false), Gate::Shed);
        assert_eq!(breaker.gate(start + seconds(14), false), Gate::Pass);
    }

    #[test]
    fn one_caller_a_second_is_elected_to_probe() {
        let (mut breaker, start) = (Breaker::new(), Instant::now());
        breaker.open(start, seconds(10), false);
        assert_eq!(breaker.gate(start, true), Gate::Probe);
        assert_eq!(breaker.gate(start, true), Gate::Shed);
        assert_eq!(breaker.gate(start + Duration::from_millis(999), true), Gate::Shed);
        assert_eq!(breaker.gate(start + seconds(1), true), Gate::Probe);
        assert!(breaker.probed_healthy());
        assert_eq!(breaker.gate(start + seconds(1), true), Gate::Pass);
        breaker.open(start + seconds(1), seconds(3), false);
        assert_eq!(
            breaker.gate(start + seconds(1), true),
            Gate::Probe,
            "a healthy probe cleared the interval too"
        );
    }

    #[test]
    fn a_quota_window_is_never_probed_until_it_lapses() {
        let (mut breaker, start) = (Breaker::new(), Instant::now());
        breaker.open(start, seconds(2), true);
        breaker.open(start + seconds(1), seconds(5), false);
        assert_eq!(breaker.gate(start + seconds(5), true), Gate::Shed);
        breaker.open(start + seconds(7), seconds(5), false);
        assert_eq!(
            breaker.gate(start + seconds(7), true),
            Gate::Probe,
            "a new window of a 503"
        );
        breaker.open(start + seconds(7), seconds(5), true);
        assert!(!breaker.probed_healthy(), "a 429 came while the probe was under way");
        assert_eq!(breaker.gate(start + seconds(9), true), Gate::Shed);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_within_bounds() {
        // 2026-11-06 08:49:37 UTC.
        let now = SystemTime::UNIX_EPOCH + seconds(1_793_954_977);
        for (header, expected) in [
            (None, 1),
            (Some(""), 1),
            (Some("x"), 1),
            (Some("0"), 1),
            (Some("-5"), 1),
            (Some("-99999999999999999999999"), 1),
            (Some("7.5"), 1),
            (Some("+"), 1),
            (Some("٣"), 1),
            (Some("7"), 7),
            (Some(" +7\t"), 7),
            (Some("30"), 30),
            (Some("31"), 30),
            (Some("99999999999"), 30),
            (Some("99999999999999999999999"), 30),
            (Some("Fri, 06 Nov 2026 08:49:46 GMT"), 9),
            (Some("Friday, 06-Nov-26 08:49:46 GMT"), 9),
            (Some("Fri Nov  6 08:49:46 2026"), 9),
            (Some("Fri, 06 Nov 2026 09:49:37 GMT"), 30),
            (Some("Fri, 06 Nov 2026 08:00:00 GMT"), 1),
        ] {
            let got = cooldown(header.map(str::as_bytes), now);
            assert_eq!(got, seconds(expected), "{header:?}");
            assert!((MIN_COOLDOWN..=MAX_COOLDOWN).contains(&got));
        }
        assert_eq!(cooldown(Some(b"\xff7"), now), MIN_COOLDOWN);
    }
}
