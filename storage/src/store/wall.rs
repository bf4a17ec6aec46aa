//! The wall clock as the store's upkeep goes by it: watched while the process runs, held against what was trusted before it started.

use std::time::Duration;

use base::WallTime;

use super::core::StoreCore;
use super::destage::is_full;
use crate::clock::{self, Clock, ClockGuard};
use crate::config::paths;

/// A trusted time is written down so often. A stop must be told from a jump of years, so minutes do not matter.
const NOTE_INTERVAL: Duration = Duration::from_secs(600);
/// A longer file is not ours.
const FILE_BYTES_MAX: usize = 64;

pub(crate) struct WallClock {
    guard: ClockGuard,
    /// As it stands in the file.
    noted: Option<WallTime>,
}

impl WallClock {
    /// Begins to watch, by what an earlier process wrote down.
    pub(crate) async fn start(core: &StoreCore) -> Self {
        let path = paths::clock_file(core.data_dir(), core.config.shard);
        // What cannot be read is as good as a first start.
        let noted = core.shard.fs().read_file(&path, FILE_BYTES_MAX).await.ok().and_then(|bytes| clock::decode(&bytes));
        let (guard, clock) = ClockGuard::start(core.shard.now(), core.shard.wall(), noted);
        let mut wall = Self { guard, noted };
        wall.take_in(core, clock).await;
        wall
    }

    /// The wall time, if it is to be trusted.
    pub(crate) async fn look(&mut self, core: &StoreCore) -> Option<WallTime> {
        let clock = self.guard.observe(core.shard.now(), core.shard.wall());
        self.take_in(core, clock).await
    }

    async fn take_in(&mut self, core: &StoreCore, clock: Clock) -> Option<WallTime> {
        core.trusted.set(clock.trusted().map(|wall| (core.shard.now(), wall)));
        if let Clock::Jumped { by_ms } = clock {
            tracing::warn!(
                shard = %core.config.shard, by_ms, pause = ?ClockGuard::PAUSE,
                "the wall clock is much further than the time that passed, or behind it: nothing is deleted for its age until it has kept in step for a while; see that it is right"
            );
        }
        let trusted = clock.trusted()?;
        let apart_ms = self.noted.map_or(u64::MAX, |noted| noted.0.abs_diff(trusted.0));
        if apart_ms >= NOTE_INTERVAL.as_millis() as u64 {
            self.note(core, trusted).await;
        }
        Some(trusted)
    }

    async fn note(&mut self, core: &StoreCore, trusted: WallTime) {
        let path = paths::clock_file(core.data_dir(), core.config.shard);
        match core.shard.fs().write_file_durably(&path, clock::encode(trusted)).await {
            Ok(()) => self.noted = Some(trusted),
            // On a full disk the older one does: it errs on the side of doubt.
            Err(error) if is_full(&error) => {}
            Err(error) => tracing::warn!(path = %path.display(), %error, "the trusted time cannot be written down"),
        }
    }
}
