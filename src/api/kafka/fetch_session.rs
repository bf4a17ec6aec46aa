//! Fetch sessions (KIP-227): a consumer says once what it reads, then only what changed.
//!
//! Owner: each shard keeps the sessions of its own connections; a session asked for on another shard is not found, and the
//! client starts a new one, as the protocol has it. Bounds: `fetch-sessions-max`, and [`SessionBounds::partitions_max`] over all of them; a
//! full cache gives a place to a new session only from one that was not used for two minutes, else the client goes on without a session.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Offset, PartitionIndex, ShardId, Uuid};
use wire::ErrorCode;
use wire::messages::fetch::FetchPartition;

/// An unused session may be evicted after this (Kafka's `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`).
const EVICTABLE_AFTER: Duration = Duration::from_secs(120);

/// Ends or does without a session.
const FINAL_EPOCH: i32 = -1;
/// Opens a session.
const INITIAL_EPOCH: i32 = 0;

/// A topic as the client names it. Its partitions share the name, which may be long.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TopicKey {
    Name(Rc<str>),
    Id(Uuid),
}

/// One partition that a client reads.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    pub topic: TopicKey,
    pub partition: FetchPartition,
}

/// What the client was last told of a partition, so that an answer without news can be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    high_watermark: Offset,
    log_start: Offset,
}

#[derive(Debug)]
struct Entry {
    wanted: Wanted,
    told: Option<Told>,
}

#[derive(Debug)]
struct Session {
    epoch: i32,
    used: Instant,
    uses_ids: bool,
    /// What it counts for among all sessions.
    weight: usize,
    /// By key, so that one is found without a look at the others.
    entries: Vec<Entry>,
    /// Places in `entries`, in the order of the answers: what had data last goes to the end, so that none starves.
    turns: Vec<u32>,
}

/// What a request asks for once its session is known.
#[derive(Debug)]
pub struct FetchOrder {
    /// 0 for none.
    pub session_id: i32,
    /// Leave out what has no news.
    pub incremental: bool,
    pub wanted: Vec<Wanted>,
}

/// What happened to one partition of an order, for [`FetchSessions::report`].
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub high_watermark: Offset,
    pub log_start: Offset,
    pub has_records: bool,
    /// An error or a diverging epoch: always told.
    pub remarkable: bool,
}

/// What a request says about its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionRequest {
    pub session_id: i32,
    pub epoch: i32,
    pub uses_ids: bool,
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
    sessions: RefCell<HashMap<i32, Session>>,
    /// Over all sessions.
    partitions: Cell<usize>,
}

/// A name counts as a partition for each so many bytes of it.
const NAME_BYTES_PER_PARTITION: usize = 256;

impl FetchSessions {
    #[must_use]
    pub fn new(shard: ShardId, bounds: SessionBounds) -> Self {
        Self { shard, bounds, sessions: RefCell::default(), partitions: Cell::new(0) }
    }

    /// The partitions of a session; 0 where there is none.
    #[must_use]
    pub fn partitions(&self, session_id: i32) -> usize {
        self.sessions.borrow().get(&session_id).map_or(0, |session| session.entries.len())
    }

    /// Finds, opens or closes the session of a request and says what is to be read.
    ///
    /// # Errors
    /// `FETCH_SESSION_ID_NOT_FOUND`, `INVALID_FETCH_SESSION_EPOCH` or `FETCH_SESSION_TOPIC_ID_ERROR`: the client starts anew.
    pub fn order(
        &self,
        request: SessionRequest,
        wanted: Vec<Wanted>,
        forgotten: &[(TopicKey, PartitionIndex)],
        now: Instant,
        random: u64,
    ) -> Result<FetchOrder, ErrorCode> {
        let SessionRequest { session_id, epoch, uses_ids } = request;
        let mut sessions = self.sessions.borrow_mut();
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            self.remove(&mut sessions, session_id);
            let weight = weight(&wanted);
            let session_id = if epoch == INITIAL_EPOCH && self.make_room(&mut sessions, weight, now) {
                let id = self.fresh_id(&sessions, random);
                let entries = wanted.iter().map(|wanted| Entry { wanted: wanted.clone(), told: None }).collect();
                self.partitions.set(self.partitions.get() + weight);
                let mut session =
                    Session { epoch: 1, used: now, uses_ids, weight, entries: Vec::new(), turns: Vec::new() };
                session.set(entries);
                sessions.insert(id, session);
                id
            } else {
                0
            };
            return Ok(FetchOrder { session_id, incremental: false, wanted });
        }
        let session = sessions.get_mut(&session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_ids != uses_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        // What joins a session finds no less room than a session; the client begins anew and does without.
        let joining = weight(&wanted);
        if self.partitions.get() + joining > self.bounds.partitions_max && joining > session.entries.len() {
            self.remove(&mut sessions, session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        session.used = now;
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        if session.update(wanted, forgotten) {
            let weight = weight(session.in_turn());
            let before = std::mem::replace(&mut session.weight, weight);
            self.partitions.set(self.partitions.get() - before + session.weight);
        }
        let wanted = session.in_turn().cloned().collect();
        Ok(FetchOrder { session_id, incremental: true, wanted })
    }

    fn remove(&self, sessions: &mut HashMap<i32, Session>, session_id: i32) {
        if let Some(removed) = sessions.remove(&session_id) {
            self.partitions.set(self.partitions.get() - removed.weight);
        }
    }

    /// Whether one more session of this weight may be kept.
    fn make_room(&self, sessions: &mut HashMap<i32, Session>, weight: usize, now: Instant) -> bool {
        loop {
            let has_room = sessions.len() < self.bounds.sessions_max as usize
                && self.partitions.get() + weight <= self.bounds.partitions_max;
            if has_room {
                return true;
            }
            let used = |(id, session): (&i32, &Session)| (session.used, *id);
            match sessions.iter().map(used).min() {
                Some((used, id)) if now.since(used) >= EVICTABLE_AFTER => self.remove(sessions, id),
                _ => return false,
            }
        }
    }

    /// A positive id that is not in use; its low byte is the shard's, so that shards don't answer for each other's sessions.
    fn fresh_id(&self, sessions: &HashMap<i32, Session>, random: u64) -> i32 {
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

    /// Notes what each partition of an order came to, in the order's order. True for each that belongs in the answer.
    pub fn report(&self, order: &FetchOrder, outcomes: &[Outcome]) -> Vec<bool> {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.get_mut(&order.session_id) else { return vec![true; outcomes.len()] };
        let mut shown = Vec::with_capacity(outcomes.len());
        let mut served = Vec::new();
        for (turn, outcome) in session.turns.iter().zip(outcomes) {
            let entry = &mut session.entries[*turn as usize];
            let told = Told { high_watermark: outcome.high_watermark, log_start: outcome.log_start };
            shown.push(!order.incremental || outcome.has_records || outcome.remarkable || entry.told != Some(told));
            // What was an error is told again until it is none.
            entry.told = (!outcome.remarkable).then_some(told);
            if outcome.has_records {
                served.push(*turn);
            }
        }
        if !served.is_empty() {
            let mut outcomes = outcomes.iter();
            session.turns.retain(|_| !outcomes.next().is_some_and(|outcome| outcome.has_records));
            session.turns.append(&mut served);
        }
        shown
    }
}

/// What these partitions count for: one each, and long names besides.
fn weight<'w>(wanted: impl IntoIterator<Item = &'w Wanted>) -> usize {
    let mut last: Option<&TopicKey> = None;
    wanted.into_iter().fold(0, |weight, Wanted { topic, .. }| {
        let name_bytes = match topic {
            TopicKey::Name(name) if last.replace(topic) != Some(topic) => name.len(),
            _ => 0,
        };
        weight + 1 + name_bytes / NAME_BYTES_PER_PARTITION
    })
}

impl Session {
    /// What is read, in the order of the answers.
    fn in_turn(&self) -> impl Iterator<Item = &Wanted> {
        self.turns.iter().map(|turn| &self.entries[*turn as usize].wanted)
    }

    /// Reads these, in this order.
    fn set(&mut self, entries: Vec<Entry>) {
        let mut places: Vec<u32> = (0..entries.len() as u32).collect();
        places.sort_by(|one, other| entries[*one as usize].key().cmp(&entries[*other as usize].key()));
        self.turns = vec![0; entries.len()];
        for (sorted, place) in places.iter().enumerate() {
            self.turns[*place as usize] = sorted as u32;
        }
        self.entries = entries;
        self.entries.sort_by(|one, other| one.key().cmp(&other.key()));
    }

    /// Takes up what a request says; true when partitions have joined or left.
    fn update(&mut self, wanted: Vec<Wanted>, forgotten: &[(TopicKey, PartitionIndex)]) -> bool {
        let gone: HashSet<(&TopicKey, PartitionIndex)> =
            forgotten.iter().map(|(topic, index)| (topic, *index)).collect();
        let (mut joining, mut joined): (Vec<Entry>, HashMap<(TopicKey, PartitionIndex), usize>) = Default::default();
        for wanted in wanted {
            let key = (&wanted.topic, wanted.partition.partition);
            let known = self.entries.binary_search_by(|entry| entry.key().cmp(&key));
            match known.ok().filter(|_| !gone.contains(&key)) {
                // The topic is the entry's own: the partitions of a topic share its name.
                Some(place) => self.entries[place].wanted.partition = wanted.partition,
                None => match joined.entry((wanted.topic.clone(), wanted.partition.partition)) {
                    Occupied(again) => joining[*again.get()].wanted = wanted,
                    Vacant(first) => {
                        first.insert(joining.len());
                        joining.push(Entry { wanted, told: None });
                    }
                },
            }
        }
        if gone.is_empty() && joining.is_empty() {
            return false;
        }
        let mut before: Vec<_> = std::mem::take(&mut self.entries).into_iter().map(Some).collect();
        let in_turn = self.turns.iter().filter_map(|turn| before[*turn as usize].take());
        let mut entries: Vec<_> = in_turn.filter(|entry| !gone.contains(&entry.key())).collect();
        entries.append(&mut joining);
        self.set(entries);
        true
    }
}

impl Entry {
    fn key(&self) -> (&TopicKey, PartitionIndex) {
        (&self.wanted.topic, self.wanted.partition.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::{FetchOrder, FetchSessions, Outcome, SessionBounds, SessionRequest, TopicKey, Wanted};
    use base::{Instant, Offset, PartitionIndex, ShardId};
    use wire::ErrorCode;
    use wire::messages::fetch::FetchPartition;

    fn bounds(sessions_max: u32, partitions_max: usize) -> SessionBounds {
        SessionBounds { sessions_max, partitions_max }
    }

    fn wanted(partition: i32, offset: i64) -> Wanted {
        let partition = FetchPartition {
            partition: PartitionIndex(partition),
            fetch_offset: Offset(offset),
            ..FetchPartition::default()
        };
        Wanted { topic: TopicKey::Name("t".into()), partition }
    }

    fn ask(
        sessions: &FetchSessions,
        id: i32,
        epoch: i32,
        wanted: Vec<Wanted>,
        at: u64,
    ) -> Result<FetchOrder, ErrorCode> {
        let request = SessionRequest { session_id: id, epoch, uses_ids: false };
        sessions.order(request, wanted, &[], Instant(at), base::Random::new(at).next_u64())
    }

    fn quiet() -> Outcome {
        Outcome { high_watermark: Offset(5), log_start: Offset(0), has_records: false, remarkable: false }
    }

    fn partitions(order: &FetchOrder) -> Vec<i32> {
        order.wanted.iter().map(|wanted| wanted.partition.partition.0).collect()
    }

    #[test]
    fn a_session_tells_only_news_and_rotates_what_had_data() {
        let sessions = FetchSessions::new(ShardId(1), bounds(10, 100));
        let opened = ask(&sessions, 0, 0, vec![wanted(0, 0), wanted(1, 0), wanted(2, 0)], 0).unwrap();
        assert!(opened.session_id > 0 && !opened.incremental);
        assert_eq!(sessions.report(&opened, &[quiet(); 3]), [true; 3]);
        let id = opened.session_id;
        let second = ask(&sessions, id, 1, vec![wanted(1, 7)], 0).unwrap();
        assert_eq!(partitions(&second), [0, 1, 2]);
        assert_eq!(second.wanted[1].partition.fetch_offset, Offset(7));
        let with_data = Outcome { has_records: true, ..quiet() };
        assert_eq!(sessions.report(&second, &[with_data, quiet(), quiet()]), [true, false, false]);
        let third = ask(&sessions, id, 2, vec![], 0).unwrap();
        assert_eq!(partitions(&third), [1, 2, 0]);
        let failed = Outcome { remarkable: true, ..quiet() };
        assert_eq!(sessions.report(&third, &[failed, quiet(), quiet()]), [true, false, false]);
        let fourth = ask(&sessions, id, 3, vec![], 0).unwrap();
        assert_eq!(sessions.report(&fourth, &[quiet(); 3]), [true, false, false], "the end of an error is news");
    }

    #[test]
    fn forgotten_partitions_and_wrong_epochs() {
        let sessions = FetchSessions::new(ShardId(0), bounds(10, 100));
        let id = ask(&sessions, 0, 0, vec![wanted(0, 0), wanted(1, 0)], 0).unwrap().session_id;
        let request = SessionRequest { session_id: id, epoch: 1, uses_ids: false };
        let forgotten = [(TopicKey::Name("t".into()), PartitionIndex(0))];
        assert_eq!(partitions(&sessions.order(request, vec![], &forgotten, Instant(0), 1).unwrap()), [1]);
        assert_eq!(ask(&sessions, id, 1, vec![], 0).unwrap_err(), ErrorCode::InvalidFetchSessionEpoch);
        assert_eq!(ask(&sessions, id + 256, 1, vec![], 0).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
        let ids = SessionRequest { session_id: id, epoch: 2, uses_ids: true };
        assert_eq!(sessions.order(ids, vec![], &[], Instant(0), 1).unwrap_err(), ErrorCode::FetchSessionTopicIdError);
        assert_eq!(ask(&sessions, id, -1, vec![wanted(0, 0)], 0).unwrap().session_id, 0);
        assert_eq!(ask(&sessions, id, 2, vec![], 0).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
    }

    #[test]
    fn what_joins_and_what_leaves_keeps_the_turns_of_the_others() {
        let sessions = FetchSessions::new(ShardId(0), bounds(10, 100));
        let opened = ask(&sessions, 0, 0, [3, 1, 2].map(|partition| wanted(partition, 0)).to_vec(), 0).unwrap();
        assert_eq!(partitions(&opened), [3, 1, 2]);
        let with_data = Outcome { has_records: true, ..quiet() };
        sessions.report(&opened, &[with_data, quiet(), quiet()]);
        let id = opened.session_id;
        // What is new comes last; named twice, it is read once, from where it was named last.
        let joined = ask(&sessions, id, 1, vec![wanted(0, 4), wanted(2, 7), wanted(0, 5)], 0).unwrap();
        assert_eq!(partitions(&joined), [1, 2, 3, 0]);
        assert_eq!([1, 3].map(|place| joined.wanted[place].partition.fetch_offset.0), [7, 5]);
        sessions.report(&joined, &[quiet(), with_data, quiet(), quiet()]);
        // Forgotten and named again, it is as new.
        let request = SessionRequest { session_id: id, epoch: 2, uses_ids: false };
        let forgotten = [1, 3].map(|partition| (TopicKey::Name("t".into()), PartitionIndex(partition)));
        let left = sessions.order(request, vec![wanted(3, 9)], &forgotten, Instant(0), 1).unwrap();
        assert_eq!(partitions(&left), [0, 2, 3]);
        assert_eq!(sessions.report(&left, &[quiet(); 3]), [false, false, true]);
    }

    #[test]
    fn a_full_cache_evicts_only_what_was_long_unused() {
        let sessions = FetchSessions::new(ShardId(0), bounds(1, 100));
        let first = ask(&sessions, 0, 0, vec![wanted(0, 0)], 0).unwrap().session_id;
        assert_eq!(ask(&sessions, 0, 0, vec![wanted(0, 0)], 1).unwrap().session_id, 0);
        let later = 121 * 1_000_000_000;
        assert_ne!(ask(&sessions, 0, 0, vec![wanted(0, 0)], later).unwrap().session_id, 0);
        assert!(ask(&sessions, first, 1, vec![], later).is_err());
    }

    #[test]
    fn all_sessions_together_keep_so_many_partitions() {
        let sessions = FetchSessions::new(ShardId(0), bounds(10, 5));
        let of = |count| (0..count).map(|partition| wanted(partition, 0)).collect::<Vec<_>>();
        let first = ask(&sessions, 0, 0, of(4), 0).unwrap().session_id;
        assert_ne!(first, 0);
        assert_eq!(ask(&sessions, 0, 0, of(2), 0).unwrap().session_id, 0, "no room for two more");
        assert_ne!(ask(&sessions, 0, 0, of(1), 0).unwrap().session_id, 0);
        // A session may go on with what it has, and not grow: then its client begins anew.
        assert_eq!(ask(&sessions, first, 1, of(4), 0).unwrap().wanted.len(), 4);
        assert_eq!(ask(&sessions, first, 2, of(6), 0).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
        assert_ne!(ask(&sessions, 0, 0, of(4), 0).unwrap().session_id, 0, "its place is free");
        let long = Wanted { topic: TopicKey::Name("t".repeat(1000).into()), ..wanted(0, 0) };
        let later = 121 * 1_000_000_000;
        assert_ne!(ask(&sessions, 0, 0, vec![long.clone()], later).unwrap().session_id, 0, "what was idle gives way");
        assert_eq!(ask(&sessions, 0, 0, vec![long], later).unwrap().session_id, 0, "a long name counts");
    }
}
