//! Medians and percentiles of durations.

use std::time::Duration;

/// Durations of one round, sorted.
#[derive(Clone, Debug)]
pub struct Round(Vec<Duration>);

impl Round {
    /// Sorts what was measured.
    ///
    /// # Panics
    /// When nothing was measured: a percentile of nothing is a mistake of the benchmark.
    pub fn new(mut taken: Vec<Duration>) -> Self {
        assert!(!taken.is_empty(), "a round measures something");
        taken.sort_unstable();
        Self(taken)
    }

    /// The smallest duration that `percent` of the round do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank.min(self.0.len()) - 1]
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> Duration {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.iter().sum::<Duration>() / count
    }

    /// The median.
    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }
}

/// The middle one of several rounds' figures: one disturbed round does not decide.
pub fn middle(rounds: &[Round], figure: impl Fn(&Round) -> Duration) -> Duration {
    Round::new(rounds.iter().map(figure).collect()).p50()
}

/// Whole microseconds, as they are printed.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A ratio with one decimal.
pub fn ratio(over: Duration, under: Duration) -> f64 {
    (over.as_secs_f64() / under.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let round = Round::new((1..=100).rev().map(Duration::from_micros).collect());
        assert_eq!(
            [50, 99, 100].map(|percent| micros(round.percentile(percent))),
            [50, 99, 100]
        );
        let single = Round::new(vec![Duration::from_micros(7)]);
        assert_eq!(micros(single.p50()), 7);
        let rounds: Vec<Round> = [9, 1, 5].map(|us| Round::new(vec![Duration::from_micros(us)])).into();
        assert_eq!(micros(middle(&rounds, Round::p50)), 5);
    }
}
