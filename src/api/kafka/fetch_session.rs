//! Fetch sessions (KIP-227): a consumer says once what it reads, then only what changed.
//!
//! Owner: each shard keeps the sessions of its own connections; a session asked for on another shard is not found, and the
//! client starts a new one, as the protocol has it. Bounds: `fetch-sessions-max`, and [`SessionBounds::partitions_max`] over all of them; a
//! full cache gives a place to a new session only from one that was not used for two minutes, else the client goes on without a session.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, PartitionIndex, ShardId};
use wire::ErrorCode;

use super::fetch_reading::{Located, Reading, TopicKey, Wanted};
use crate::router::{FetchPart, ReaderHandle};

/// An unused session may be evicted after this (Kafka's `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`).
const EVICTABLE_AFTER: Duration = Duration::from_secs(120);

/// Ends or does without a session.
pub const FINAL_EPOCH: i32 = -1;
/// Opens a session.
pub const INITIAL_EPOCH: i32 = 0;

/// One session, or what a request reads that has none.
struct Session {
    /// What the next request says.
    epoch: Cell<i32>,
    used: Cell<Instant>,
    uses_ids: bool,
    /// What it counts for among all sessions.
    weight: Cell<usize>,
    /// What the partitions were found in.
    view_number: Cell<u64>,
    reading: RefCell<Reading>,
    /// What the owners know it by, where it is kept.
    reader: OnceCell<ReaderHandle>,
}

/// What a request asks for once its session is known. Dropped without [`FetchOrder::answered`], it ends its session: nobody knows then what of the
/// request came to the owners of the partitions, and what of their answers to the client.
pub struct FetchOrder {
    /// 0 for none.
    pub session_id: i32,
    /// All that is read is answered, not only what has news.
    pub is_complete: bool,
    /// What the owners are to be told; whose answers come first changes from fetch to fetch.
    pub parts: Vec<FetchPart>,
    session: Rc<Session>,
    is_answered: bool,
}

impl FetchOrder {
    #[must_use]
    pub fn reading(&self) -> &RefCell<Reading> {
        &self.session.reading
    }

    /// What the owners know the session by.
    pub fn reader(&self, make: impl FnOnce() -> ReaderHandle) -> Option<&ReaderHandle> {
        (self.session_id != 0).then(|| self.session.reader.get_or_init(make))
    }

    /// The client is being answered.
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for FetchOrder {
    fn drop(&mut self) {
        if !self.is_answered {
            self.session.epoch.set(INITIAL_EPOCH);
        }
    }
}

/// What a request says about its session.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub session_id: i32,
    pub epoch: i32,
    pub uses_ids: bool,
    pub wanted: Vec<Wanted>,
    pub forgotten: Vec<(TopicKey, PartitionIndex)>,
    /// Another one whenever partitions may be elsewhere.
    pub view_number: u64,
    pub now: Instant,
    pub random: u64,
}

/// The most that the sessions of one shard come to.
#[derive(Clone, Copy, Debug)]
pub struct SessionBounds {
    pub sessions_max: u32,
    /// Partitions over all sessions.
    pub partitions_max: usize,
}

/// The sessions of one shard.
pub struct FetchSessions {
    shard: ShardId,
    bounds: SessionBounds,
    sessions: RefCell<HashMap<i32, Rc<Session>>>,
    /// Over all sessions.
    partitions: Cell<usize>,
}

impl FetchSessions {
    #[must_use]
    pub fn new(shard: ShardId, bounds: SessionBounds) -> Self {
        Self { shard, bounds, sessions: RefCell::default(), partitions: Cell::new(0) }
    }

    /// The partitions of a session; 0 where there is none.
    #[must_use]
    pub fn partitions(&self, session_id: i32) -> usize {
        self.sessions.borrow().get(&session_id).map_or(0, |session| session.reading.borrow().len())
    }

    /// Finds, opens or closes the session of a request and says what is to be read.
    ///
    /// # Errors
    /// `FETCH_SESSION_ID_NOT_FOUND`, `INVALID_FETCH_SESSION_EPOCH` or `FETCH_SESSION_TOPIC_ID_ERROR`: the client starts anew.
    pub fn order(
        &self,
        request: SessionRequest,
        locate: impl FnMut(&TopicKey, PartitionIndex) -> Located,
    ) -> Result<FetchOrder, ErrorCode> {
        let SessionRequest { session_id, epoch, .. } = request;
        let mut sessions = self.sessions.borrow_mut();
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            self.remove(&mut sessions, session_id);
            return Ok(self.begin(&mut sessions, request, locate));
        }
        let session = sessions.get(&session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?.clone();
        if session.epoch.get() != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_ids != request.uses_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        session.used.set(request.now);
        session.epoch.set(if epoch == i32::MAX { 1 } else { epoch + 1 });
        let has_moved = session.view_number.replace(request.view_number) != request.view_number;
        let mut reading = session.reading.borrow_mut();
        let changes = reading.update(request.wanted, &request.forgotten, has_moved, locate);
        let before = session.weight.replace(reading.weight());
        self.partitions.set(self.partitions.get() - before + reading.weight());
        // What joins a session finds no less room than a session; the client begins anew and does without.
        if reading.weight() > before && self.partitions.get() > self.bounds.partitions_max {
            self.remove(&mut sessions, session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        let mut parts = reading.parts(changes);
        if !parts.is_empty() {
            let first = usize::try_from(epoch).unwrap_or(0) % parts.len();
            parts.rotate_left(first);
        }
        drop(reading);
        Ok(FetchOrder { session_id, is_complete: false, parts, session, is_answered: false })
    }

    /// What a request reads that opens a session, or has none.
    fn begin(
        &self,
        sessions: &mut HashMap<i32, Rc<Session>>,
        request: SessionRequest,
        locate: impl FnMut(&TopicKey, PartitionIndex) -> Located,
    ) -> FetchOrder {
        let SessionRequest { epoch, uses_ids, view_number, now, random, .. } = request;
        let mut reading = Reading::default();
        let changes = reading.update(request.wanted, &[], false, locate);
        let (weight, parts) = (reading.weight(), reading.parts(changes));
        let session = Rc::new(Session {
            epoch: Cell::new(1),
            used: Cell::new(now),
            uses_ids,
            weight: Cell::new(weight),
            view_number: Cell::new(view_number),
            reading: RefCell::new(reading),
            reader: OnceCell::new(),
        });
        let mut session_id = 0;
        if epoch == INITIAL_EPOCH && self.make_room(sessions, weight, now) {
            session_id = self.fresh_id(sessions, random);
            self.partitions.set(self.partitions.get() + weight);
            sessions.insert(session_id, session.clone());
        }
        FetchOrder { session_id, is_complete: true, parts, session, is_answered: false }
    }

    fn remove(&self, sessions: &mut HashMap<i32, Rc<Session>>, session_id: i32) {
        if let Some(removed) = sessions.remove(&session_id) {
            self.partitions.set(self.partitions.get() - removed.weight.get());
        }
    }

    /// Whether one more session of this weight may be kept.
    fn make_room(&self, sessions: &mut HashMap<i32, Rc<Session>>, weight: usize, now: Instant) -> bool {
        loop {
            let has_room = sessions.len() < self.bounds.sessions_max as usize
                && self.partitions.get() + weight <= self.bounds.partitions_max;
            if has_room {
                return true;
            }
            let used = |(id, session): (&i32, &Rc<Session>)| (session.used.get(), *id);
            match sessions.iter().map(used).min() {
                Some((used, id)) if now.since(used) >= EVICTABLE_AFTER => self.remove(sessions, id),
                _ => return false,
            }
        }
    }

    /// A positive id that is not in use; its low byte is the shard's, so that shards don't answer for each other's sessions.
    fn fresh_id(&self, sessions: &HashMap<i32, Rc<Session>>, random: u64) -> i32 {
        let mut id = (random >> 33) as i32;
        loop {
            id = (id & 0x7fff_ff00) | i32::from(self.shard.0 & 0xff);
            if id != 0 && !sessions.contains_key(&id) {
                return id;
            }
            id = id.wrapping_add(0x100) & 0x7fff_ffff;
            if id < 0x100 {
                id = 0x100;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{Instant, Offset, PartitionIndex, Random, ShardId, Uuid};
    use storage::LogId;
    use wire::ErrorCode;
    use wire::messages::fetch::FetchPartition;

    use super::{FetchOrder, FetchSessions, SessionBounds, SessionRequest, TopicKey, Wanted};

    fn sessions(sessions_max: u32, partitions_max: usize) -> FetchSessions {
        FetchSessions::new(ShardId(1), SessionBounds { sessions_max, partitions_max })
    }

    fn wanted(partition: i32, offset: i64) -> Wanted {
        let partition = FetchPartition {
            partition: PartitionIndex(partition),
            fetch_offset: Offset(offset),
            ..FetchPartition::default()
        };
        Wanted { topic: TopicKey::Name("t".into()), partition }
    }

    fn request(session_id: i32, epoch: i32, wanted: Vec<Wanted>) -> SessionRequest {
        let (forgotten, random) = (Vec::new(), Random::new(9).next_u64());
        SessionRequest {
            session_id,
            epoch,
            uses_ids: false,
            wanted,
            forgotten,
            view_number: 1,
            now: Instant(0),
            random,
        }
    }

    /// Partitions are on shard 0 and 1 by turns.
    fn order(sessions: &FetchSessions, request: SessionRequest) -> Result<FetchOrder, ErrorCode> {
        sessions.order(request, |_, index| {
            Ok((ShardId(u16::from(index.0 % 2 != 0)), LogId { topic_id: Uuid::ZERO, partition: index }))
        })
    }

    /// The id of a session that was opened, and answered.
    fn opened(sessions: &FetchSessions, wanted: Vec<Wanted>, now: u64) -> i32 {
        let (now, random) = (Instant(now), Random::new(now).next_u64());
        let order = order(sessions, SessionRequest { now, random, ..request(0, 0, wanted) }).unwrap();
        let id = order.session_id;
        order.answered();
        id
    }

    fn refused(sessions: &FetchSessions, request: SessionRequest) -> ErrorCode {
        order(sessions, request).err().expect("refused")
    }

    #[test]
    fn a_session_tells_the_owners_what_changes() {
        let sessions = sessions(10, 100);
        let first = order(&sessions, request(0, 0, (0..4).map(|index| wanted(index, 0)).collect())).unwrap();
        assert!(first.session_id > 0 && first.is_complete);
        let id = first.session_id;
        let told = |order: &FetchOrder| {
            let part = |part: &super::FetchPart| {
                let targets = part.targets.iter().map(|target| (target.place, target.log.partition.0, target.offset.0));
                (part.owner.0, targets.collect::<Vec<_>>(), part.forgotten.clone())
            };
            order.parts.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(told(&first), [(0, vec![(0, 0, 0), (2, 2, 0)], vec![]), (1, vec![(1, 1, 0), (3, 3, 0)], vec![])]);
        first.answered();
        // Every owner is asked, whether it has something to hear or not; whose answers come first takes turns.
        let second = order(&sessions, request(id, 1, vec![wanted(1, 7)])).unwrap();
        assert!(!second.is_complete);
        assert_eq!(told(&second), [(1, vec![(1, 1, 7)], vec![]), (0, vec![], vec![])]);
        second.answered();
        let forgotten = [0, 2].map(|index| (TopicKey::Name("t".into()), PartitionIndex(index))).to_vec();
        let third =
            order(&sessions, SessionRequest { forgotten, ..request(id, 2, vec![wanted(5, 3), wanted(2, 1)]) }).unwrap();
        // A place that is free is another's, and what is forgotten and named again is as new.
        assert_eq!(told(&third), [(0, vec![(0, 2, 1)], vec![0, 2]), (1, vec![(2, 5, 3)], vec![])]);
        let reading = third.reading().borrow();
        let named = |place, partition| {
            let log = LogId { topic_id: Uuid::ZERO, partition: PartitionIndex(partition) };
            reading.named(place, log).map(|wanted| wanted.partition.fetch_offset.0)
        };
        assert_eq!([named(2, 5), named(2, 2), named(0, 2), named(4, 4)], [Some(3), None, Some(1), None]);
    }

    #[test]
    fn wrong_epochs_and_unanswered_requests() {
        let sessions = sessions(10, 100);
        let id = opened(&sessions, vec![wanted(0, 0), wanted(1, 0)], 0);
        order(&sessions, request(id, 1, vec![])).unwrap().answered();
        assert_eq!(refused(&sessions, request(id, 1, vec![])), ErrorCode::InvalidFetchSessionEpoch);
        assert_eq!(refused(&sessions, request(id + 256, 1, vec![])), ErrorCode::FetchSessionIdNotFound);
        let by_id = SessionRequest { uses_ids: true, ..request(id, 2, vec![]) };
        assert_eq!(refused(&sessions, by_id), ErrorCode::FetchSessionTopicIdError);
        // Nobody knows what came of this one.
        drop(order(&sessions, request(id, 2, vec![])).unwrap());
        assert_eq!(refused(&sessions, request(id, 3, vec![])), ErrorCode::InvalidFetchSessionEpoch);
        assert_eq!(refused(&sessions, request(id, 2, vec![])), ErrorCode::InvalidFetchSessionEpoch);
        assert_eq!(order(&sessions, request(id, -1, vec![wanted(0, 0)])).unwrap().session_id, 0);
        assert_eq!(refused(&sessions, request(id, 3, vec![])), ErrorCode::FetchSessionIdNotFound);
        assert_eq!(sessions.partitions.get(), 0);
    }

    #[test]
    fn a_full_cache_evicts_only_what_was_long_unused() {
        let sessions = sessions(1, 100);
        let first = opened(&sessions, vec![wanted(0, 0)], 0);
        assert_eq!(opened(&sessions, vec![wanted(0, 0)], 1), 0);
        assert_ne!(opened(&sessions, vec![wanted(0, 0)], 121 * 1_000_000_000), 0);
        assert!(order(&sessions, request(first, 1, vec![])).is_err());
    }

    #[test]
    fn all_sessions_together_keep_so_many_partitions() {
        let sessions = sessions(10, 5);
        let of = |count| (0..count).map(|partition| wanted(partition, 0)).collect::<Vec<_>>();
        let first = opened(&sessions, of(4), 0);
        assert_ne!(first, 0);
        assert_eq!(opened(&sessions, of(2), 0), 0, "no room for two more");
        assert_ne!(opened(&sessions, of(1), 0), 0);
        // A session may go on with what it has, and not grow: then its client begins anew.
        let again = order(&sessions, request(first, 1, of(4))).unwrap();
        assert_eq!(again.reading().borrow().len(), 4);
        again.answered();
        assert_eq!(refused(&sessions, request(first, 2, of(6))), ErrorCode::FetchSessionIdNotFound);
        assert_ne!(opened(&sessions, of(4), 0), 0, "its place is free");
        let long = || vec![Wanted { topic: TopicKey::Name("t".repeat(1000).into()), ..wanted(0, 0) }];
        let later = 121 * 1_000_000_000;
        assert_ne!(opened(&sessions, long(), later), 0, "what was idle gives way");
        assert_eq!(opened(&sessions, long(), later), 0, "a long name counts");
    }
}
