//! Which connections are closed for what they do not do: those that nobody uses, and those that keep memory, are slow, and are waited for.
//!
//! Owner: each shard watches the connections that it serves. [`Watch::run`] looks once a [`LOOK_INTERVAL`]. A peer that is slow costs
//! its own time and is left alone; only when others wait for memory do the slow ones give way, those that keep most first, until enough comes back. A
//! request that is being worked on is never a reason: its peer only waits.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use base::Instant;
use shard::{Shard, Socket};

use crate::connection::Connection;
use crate::progress::{Moving, Progress, Shortage};

const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Idle connections are looked for less often: there may be thousands.
const LOOKS_PER_IDLE_LOOK: u64 = 8;
/// A frame or an answer that has been under way for less is nobody's fault.
const GRACE: Duration = Duration::from_secs(1);
/// Who has waited so long for more memory, with some that others wait for, is in their way.
const WAIT_GRACE: Duration = Duration::from_secs(5);
/// What moves at least so fast is not slow.
const BYTES_PER_SEC_MIN: usize = 1 << 20;

/// Why a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dismissal {
    /// For so long nothing came and nothing was owed (`connections.max.idle.ms`).
    Idle(Duration),
    /// For so long it did not take an answer.
    Stuck(Duration),
    /// It kept so many bytes of memory for so long, and others waited for them.
    Slow { held_bytes: usize, age: Duration },
}

impl fmt::Display for Dismissal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle(age) => write!(f, "nothing was asked for {} s", age.as_secs()),
            Self::Stuck(age) => write!(f, "an answer was not taken for {} s", age.as_secs()),
            Self::Slow { held_bytes, age } => write!(
                f,
                "a request or an answer kept {held_bytes} bytes for {} ms while others waited for memory; \
                 send and read faster, or raise memory-bytes",
                age.as_millis()
            ),
        }
    }
}

/// What a look at a connection finds.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: u64,
    used: Instant,
    /// Unanswered requests.
    requests: usize,
    /// A frame that has begun to come in, an answer that has begun to go out.
    moving: [Option<Moving>; 2],
}

impl Seen {
    fn sending(&self) -> Option<Moving> {
        self.moving[1]
    }
}

/// Connections that nobody has used since `idle`.
fn idle(seen: &[Seen], now: Instant, idle: Duration) -> Vec<(u64, Dismissal)> {
    let dismissal = |seen: &Seen| {
        let unused = now.since(seen.used);
        let stuck = seen.sending().map_or(Duration::ZERO, |sending| now.since(sending.since));
        if seen.requests == 0 && unused >= idle {
            return Some((seen.id, Dismissal::Idle(unused)));
        }
        (stuck >= idle).then_some((seen.id, Dismissal::Stuck(stuck)))
    };
    seen.iter().filter_map(dismissal).collect()
}

/// The slow ones, those that keep most first and among them the longest, that together keep what is short.
fn slow(seen: &[Seen], now: Instant, shortage: Shortage) -> Vec<(u64, Dismissal)> {
    let is_slow = |moving: &Moving| {
        let age = now.since(moving.since);
        if moving.waits && !(shortage.waiting_is_in_the_way && age >= WAIT_GRACE) {
            return false;
        }
        let due_bytes = age.as_micros() * BYTES_PER_SEC_MIN as u128 / 1_000_000;
        age >= GRACE && moving.held_bytes > 0 && (moving.moved_bytes as u128) < due_bytes
    };
    let mut slow: Vec<(Duration, u64, usize)> = seen
        .iter()
        .filter_map(|seen| {
            let moving = seen.moving.iter().flatten().filter(|moving| is_slow(moving));
            let (age, held) = moving.fold((Duration::ZERO, 0), |(age, held), moving| {
                (age.max(now.since(moving.since)), held + moving.held_bytes)
            });
            (held > 0).then_some((age, seen.id, held))
        })
        .collect();
    slow.sort_unstable_by_key(|(age, id, held_bytes)| (Reverse(*held_bytes), Reverse(*age), *id));
    let mut freed_bytes = 0;
    let enough = |(age, id, held_bytes): (Duration, u64, usize)| {
        let goes = freed_bytes < shortage.bytes;
        freed_bytes += held_bytes;
        goes.then_some((id, Dismissal::Slow { held_bytes, age }))
    };
    slow.into_iter().map_while(enough).collect()
}

struct Watched {
    connection: Rc<Connection>,
    socket: Rc<Socket>,
    reading: Progress,
}

/// The connections of a shard. Clones are the same watch.
#[derive(Clone, Default)]
pub struct Watch(Rc<Inner>);

#[derive(Default)]
struct Inner {
    watched: RefCell<BTreeMap<u64, Watched>>,
    next_id: Cell<u64>,
}

/// Ends the watch over one connection.
pub(crate) struct WatchGuard {
    watch: Watch,
    id: u64,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let gone = self.watch.0.watched.borrow_mut().remove(&self.id);
        drop(gone);
    }
}

impl Watch {
    pub(crate) fn add(&self, connection: &Rc<Connection>, socket: &Rc<Socket>, reading: Progress) -> WatchGuard {
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
        let watched = Watched { connection: connection.clone(), socket: socket.clone(), reading };
        self.0.watched.borrow_mut().insert(id, watched);
        WatchGuard { watch: self.clone(), id }
    }

    /// Looks for ever. `shortage` says what those who wait for memory need.
    pub async fn run(self, shard: Shard, idle_limit: Duration, shortage: impl Fn() -> Shortage) {
        for look in 1_u64.. {
            shard.sleep(LOOK_INTERVAL).await;
            let shortage = shortage();
            if shortage.bytes > 0 {
                let seen = self.see();
                self.dismiss(&slow(&seen, shard.now(), shortage));
            }
            if look.is_multiple_of(LOOKS_PER_IDLE_LOOK) {
                let seen = self.see();
                self.dismiss(&idle(&seen, shard.now(), idle_limit));
            }
        }
    }

    fn see(&self) -> Vec<Seen> {
        let see = |(&id, watched): (&u64, &Watched)| {
            let Watched { connection, reading, .. } = watched;
            Seen {
                id,
                used: connection.used(),
                requests: connection.requests_in_flight(),
                moving: [reading.moving(), connection.sending().moving()],
            }
        };
        self.0.watched.borrow().iter().map(see).collect()
    }

    fn dismiss(&self, dismissals: &[(u64, Dismissal)]) {
        for (id, dismissal) in dismissals {
            let watched = self.0.watched.borrow();
            if let Some(Watched { connection, socket, .. }) = watched.get(id) {
                connection.dismiss(*dismissal);
                // Whatever is being received or sent ends with it.
                socket.shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    fn seen(id: u64, used_secs: u64, requests: usize, moving: &[(u64, usize, usize)]) -> Seen {
        let moving = |index: usize| {
            moving.get(index).map(|&(secs, moved_bytes, held_bytes)| Moving {
                since: Instant(secs * SEC),
                moved_bytes,
                held_bytes,
                waits: false,
            })
        };
        Seen { id, used: Instant(used_secs * SEC), requests, moving: [moving(0), moving(1)] }
    }

    fn ids(dismissals: &[(u64, Dismissal)]) -> Vec<u64> {
        dismissals.iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn only_the_idle_are_idle() {
        // A frame that has begun is no use of a connection; a request that is being answered is.
        let stuck = seen(5, 10, 1, &[(10, 1, 1), (10, 1, 1)]);
        let all = [seen(1, 10, 0, &[]), seen(2, 10, 1, &[]), seen(3, 11, 0, &[]), seen(4, 10, 0, &[(10, 1, 1)]), stuck];
        assert_eq!(ids(&idle(&all, Instant(20 * SEC), Duration::from_secs(10))), [1, 4, 5]);
    }

    #[test]
    fn who_keeps_most_gives_way_until_there_is_enough() {
        let now = Instant(20 * SEC);
        let all = [
            seen(1, 0, 0, &[(15, 5 << 20, 900)]),
            seen(2, 0, 0, &[(15, (5 << 20) - 1, 300)]),
            seen(3, 0, 1, &[(10, 0, 100), (18, 0, 100)]),
            seen(4, 0, 1, &[(20, 0, 1000)]),
            seen(5, 0, 0, &[(1, 0, 0)]),
            seen(6, 0, 5, &[]),
            seen(7, 0, 1, &[(17, 0, 50)]),
            seen(8, 0, 1, &[(16, 0, 50)]),
        ];
        // 1 is fast enough, 4 has just begun, 5 keeps nothing, 6 is being worked on.
        let slow = |bytes| slow(&all, now, Shortage { bytes, waiting_is_in_the_way: false });
        assert_eq!(ids(&slow(usize::MAX)), [2, 3, 8, 7]);
        assert_eq!(ids(&slow(301)), [2, 3]);
        assert_eq!(ids(&slow(300)), [2]);
        assert_eq!(slow(301)[1].1, Dismissal::Slow { held_bytes: 200, age: Duration::from_secs(10) });
    }

    #[test]
    fn who_waits_gives_way_only_to_those_who_wait_for_what_he_keeps() {
        let waiting = |id, secs| {
            let moving = Moving { since: Instant(secs * SEC), moved_bytes: 0, held_bytes: 9, waits: true };
            Seen { moving: [Some(moving), None], ..seen(id, 0, 0, &[]) }
        };
        let all = [waiting(1, 15), waiting(2, 16)];
        for (waiting_is_in_the_way, expected) in [(false, &[][..]), (true, &[1])] {
            let shortage = Shortage { bytes: usize::MAX, waiting_is_in_the_way };
            assert_eq!(ids(&slow(&all, Instant(20 * SEC), shortage)), expected);
        }
    }
}
