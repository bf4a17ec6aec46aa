//! A machine's wall clock: it drifts from the world's time, and people set it.

use base::{Instant, Random, WallTime};

/// 2024-01-01T00:00:00Z, when every simulated world begins.
const EPOCH_MS: i64 = 1_704_067_200_000;

#[derive(Clone, Debug)]
pub struct Clock {
    drift_ppm: i64,
    offset_ms: i64,
}

impl Clock {
    /// Up to 200 parts per million fast or slow, and up to half a second off.
    pub fn new(random: &mut Random) -> Self {
        Self { drift_ppm: random.below(401) as i64 - 200, offset_ms: random.below(1001) as i64 - 500 }
    }

    pub fn wall(&self, now: Instant) -> WallTime {
        let elapsed = (now.0 / 1000) as i64;
        WallTime(EPOCH_MS + self.offset_ms + (elapsed + elapsed / 1_000_000 * self.drift_ppm) / 1000)
    }

    /// Somebody sets the clock.
    pub fn jump(&mut self, by_ms: i64) {
        self.offset_ms += by_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_and_jumps_add_up() {
        let mut clock = Clock { drift_ppm: 100, offset_ms: 0 };
        assert_eq!(clock.wall(Instant(0)).0, EPOCH_MS);
        assert_eq!(clock.wall(Instant(10_000_000_000)).0, EPOCH_MS + 10_001);
        clock.jump(-5000);
        assert_eq!(clock.wall(Instant(10_000_000_000)).0, EPOCH_MS + 5001);
    }
}
