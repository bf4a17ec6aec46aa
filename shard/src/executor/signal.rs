//! How a shard that sleeps is told that there is work: the park protocol.
//!
//! Shared by a shard and all who bring it work. The shard says "parked", fences, and looks once more at every door that work may
//! come in by; who brings work puts it in, fences, and looks whether the shard is parked. One of the two sees the other, so no work
//! sleeps; and a shard that is awake costs its peers no system call.

use std::fmt;
use std::sync::Arc;

use crate::atomic::{AtomicU8, Ordering, fence};

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
/// Parked, and someone has taken it upon himself to wake it.
const NOTIFIED: u8 = 2;

/// Ends a park from any thread.
pub type Unparker = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Signal {
    state: AtomicU8,
    unpark: Unparker,
}

impl Signal {
    pub(crate) fn new(unpark: Unparker) -> Self {
        Self { state: AtomicU8::new(AWAKE), unpark }
    }

    /// The shard is up.
    pub(crate) fn awake(&self) {
        self.state.store(AWAKE, Ordering::Release);
    }

    /// The shard is about to sleep; it looks at its doors once more after this.
    pub(crate) fn park(&self) {
        self.state.store(PARKED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After work was put in, and a `SeqCst` fence: true for the one caller who must wake the shard.
    pub(crate) fn take_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
            && self.state.compare_exchange(PARKED, NOTIFIED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Work was put in by someone who has no driver of his own: fences, and wakes the shard if it is parked.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.take_parked() {
            (self.unpark)();
        }
    }

    /// True while the shard is parked and has been notified.
    pub(crate) fn is_notified(&self) -> bool {
        self.state.load(Ordering::Acquire) == NOTIFIED
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({})", self.state.load(Ordering::Relaxed))
    }
}
