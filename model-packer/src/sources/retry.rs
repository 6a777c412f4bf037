//! One policy for waiting: what the hub asks for first, then growing pauses with jitter, one pause for all requests.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// How often, and how patiently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts without any progress before giving up.
    pub attempts: u32,
    /// First pause; doubled each time.
    pub first_pause: Duration,
    /// Longest pause of our own.
    pub longest_pause: Duration,
    /// Longest wait that a hub may ask for: its windows are five minutes.
    pub longest_wait: Duration,
    /// Time without a byte after which a connection is dead.
    pub idle: Duration,
    /// Fewest bytes per second over `rate_window`.
    pub minimum_rate: u64,
    /// See `minimum_rate`.
    pub rate_window: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 6,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(20),
            longest_wait: Duration::from_secs(310),
            idle: Duration::from_secs(30),
            minimum_rate: 1024,
            rate_window: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// The pause before attempt `attempt` (the first retry is 1), between half of the growing value and all of it.
    pub fn pause(&self, attempt: u32) -> Duration {
        let doubled = self
            .first_pause
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(self.longest_pause);
        // A hasher with a random state is all the randomness that spreading requests needs.
        let random = RandomState::new().hash_one(attempt) % 1000;
        doubled / 2 + doubled.mul_f64(f64::from(u32::try_from(random).unwrap_or(0)) / 2000.0)
    }
}

/// A pause that holds for all requests to one hub, because its budget is one.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed_until: Mutex<Option<Instant>>,
}

impl Gate {
    /// Closes the gate for this long, unless it is closed for longer already.
    pub(crate) fn close_for(&self, wait: Duration) {
        let until = Instant::now() + wait;
        if let Ok(mut closed) = self.closed_until.lock() {
            *closed = Some(closed.map_or(until, |present| present.max(until)));
        }
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        loop {
            let closed = self.closed_until.lock().ok().and_then(|closed| *closed);
            match closed.filter(|until| *until > Instant::now()) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return,
            }
        }
    }
}

/// The wait that an answer asks for: `RateLimit: "bucket";r=0;t=55` first, then `Retry-After` as seconds or as a date.
pub(crate) fn asked_wait(
    rate_limit: Option<&str>,
    retry_after: Option<&str>,
    refused: bool,
    now: SystemTime,
) -> Option<Duration> {
    let from_limits = rate_limit.and_then(|value| value.split(',').filter_map(|limit| reset_of(limit, refused)).max());
    let from_header = || {
        let text = retry_after.filter(|_| refused)?.trim();
        let seconds = text.parse().ok().map(Duration::from_secs);
        // A date that is over, by the hub's clock or by ours, asks for no wait.
        seconds.or_else(|| {
            let until = httpdate::parse_http_date(text).ok()?;
            Some(until.duration_since(now).unwrap_or_default())
        })
    };
    from_limits.or_else(from_header)
}

/// The rest of the window, when nothing of this budget is left or the request was refused.
fn reset_of(limit: &str, refused: bool) -> Option<Duration> {
    let field = |name: &str| {
        let mut parts = limit.split(';');
        let value = parts.find_map(|part| part.trim().strip_prefix(name));
        value.and_then(|text| text.trim().parse::<u64>().ok())
    };
    let used_up = field("r=").map_or(refused, |left| left == 0);
    // One second more than asked, as the hub's own client does: its clock is not ours.
    field("t=")
        .filter(|_| used_up)
        .map(|seconds| Duration::from_secs(seconds + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_hubs_own_where_it_names_one() {
        let cases = [
            (Some("\"resolvers\";r=0;t=55"), None, true, Some(56)),
            (Some("\"api\";r=0;t=3"), Some("99"), true, Some(4)),
            (Some("\"api\";r=7;t=3"), None, false, None),
            (Some("\"api\";r=0;t=3"), None, false, Some(4)),
            (None, Some("12"), true, Some(12)),
            (None, Some("12"), false, None),
            (Some("\"api\";r=5;t=9, \"resolvers\";r=0;t=12"), None, true, Some(13)),
            (Some("\"api\";t=9"), None, true, Some(10)),
            (Some("\"api\";r=3;t=9"), Some("4"), true, Some(4)),
            (Some("nonsense"), Some("Thu, 01 Jan 1970 00:01:30 GMT"), true, Some(80)),
            (None, Some("Thu, 01 Jan 1970 00:00:05 GMT"), true, Some(0)),
            (None, Some("soon"), true, None),
        ];
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        for (limit, after, refused, seconds) in cases {
            assert_eq!(
                asked_wait(limit, after, refused, now),
                seconds.map(Duration::from_secs),
                "{limit:?} {after:?}"
            );
        }
    }

    #[test]
    fn pauses_grow_to_the_cap_and_are_never_below_half() {
        let policy = RetryPolicy::default();
        for attempt in 1..12 {
            let full = (policy.first_pause * (1 << (attempt - 1))).min(policy.longest_pause);
            let pause = policy.pause(attempt);
            assert!(pause >= full / 2 && pause <= full, "{attempt}: {pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_gate_holds_everybody_until_it_opens() {
        let gate = Gate::default();
        gate.close_for(Duration::from_secs(5));
        gate.close_for(Duration::from_secs(2));
        let before = Instant::now();
        gate.pass().await;
        assert_eq!(before.elapsed(), Duration::from_secs(5));
    }
}
