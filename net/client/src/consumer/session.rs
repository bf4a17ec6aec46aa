//! A fetch session (KIP-227): the broker remembers the partitions, so a request says only what changed.
//!
//! Owner: the task that fetches from one broker. Pure: wanted partitions in, request out; answers move the epoch.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{PartitionIndex, Uuid};
use wire::ErrorCode;
use wire::messages::fetch::FetchPartition;

use super::PartitionKey;

/// Asks for a new session.
const EPOCH_NEW: i32 = 0;
/// Does without.
const EPOCH_NONE: i32 = -1;

/// A partition of a topic as fetch requests name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FetchKey {
    pub topic: Rc<str>,
    pub topic_id: Uuid,
    pub partition: PartitionIndex,
}

/// What is wanted of a partition.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Wanted {
    pub topic_id: Uuid,
    pub question: FetchPartition,
    /// Tells an answer for an earlier assignment apart.
    pub assignment: u64,
}

/// What is wanted now.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Changes {
    /// These partitions and no others.
    All(BTreeMap<PartitionKey, Wanted>),
    /// As before but for these; `None`: not any more.
    Some(Vec<(PartitionKey, Option<Wanted>)>),
}

/// What to put into a request.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SessionRequest {
    pub session_id: i32,
    pub session_epoch: i32,
    pub partitions: Vec<(FetchKey, FetchPartition)>,
    pub forgotten: Vec<FetchKey>,
}

/// The session with one broker.
#[derive(Default, Debug)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    /// What was asked for last, of which the broker remembers what it is not told again.
    sent: BTreeMap<PartitionKey, Wanted>,
    /// The topics among them by their ids, by which newer answers name them.
    topics: BTreeMap<Uuid, Rc<str>>,
}

fn fetch_key(key: &PartitionKey, topic_id: Uuid) -> FetchKey {
    FetchKey { topic: key.0.clone(), topic_id, partition: key.1 }
}

impl Session {
    /// Whether the next request has to name every partition; `enabled` is whether broker and reader want a session.
    pub(super) fn wants_all(&self, enabled: bool) -> bool {
        !enabled || self.epoch <= EPOCH_NEW
    }

    /// How many partitions the next request would be about.
    pub(super) fn count_with(&self, changes: &Changes) -> usize {
        match changes {
            Changes::All(wanted) => wanted.len(),
            Changes::Some(changes) => {
                let change = |(key, wanted): &(PartitionKey, Option<Wanted>)| {
                    isize::from(wanted.is_some()) - isize::from(self.sent.contains_key(key))
                };
                self.sent.len().saturating_add_signed(changes.iter().map(change).sum())
            }
        }
    }

    /// The request for what is wanted; each partition is changed once at most.
    pub(super) fn request(&mut self, changes: Changes, enabled: bool) -> SessionRequest {
        let (session_id, session_epoch) = if enabled { (self.id, self.epoch) } else { (0, EPOCH_NONE) };
        let (mut partitions, mut forgotten) = (Vec::new(), Vec::new());
        match changes {
            Changes::All(wanted) => {
                self.topics.clear();
                for (key, wanted) in &wanted {
                    self.topics.insert(wanted.topic_id, key.0.clone());
                    partitions.push((fetch_key(key, wanted.topic_id), wanted.question));
                }
                self.sent = wanted;
            }
            Changes::Some(changes) => {
                for (key, wanted) in changes {
                    let before = self.sent.get(&key);
                    if before == wanted.as_ref() {
                        continue;
                    }
                    let asked_id = wanted.as_ref().map(|wanted| wanted.topic_id);
                    if let Some(before) = before.filter(|before| asked_id != Some(before.topic_id)) {
                        forgotten.push(fetch_key(&key, before.topic_id));
                    }
                    let Some(wanted) = wanted else {
                        self.sent.remove(&key);
                        continue;
                    };
                    if before
                        .is_none_or(|before| (before.topic_id, before.question) != (wanted.topic_id, wanted.question))
                    {
                        partitions.push((fetch_key(&key, wanted.topic_id), wanted.question));
                    }
                    self.topics.entry(wanted.topic_id).or_insert_with(|| key.0.clone());
                    self.sent.insert(key, wanted);
                }
            }
        }
        SessionRequest { session_id, session_epoch, partitions, forgotten }
    }

    /// The partition that an answer is about, and how it was asked for; `topic_id` where the answer names topics so.
    pub(super) fn asked(
        &self,
        topic: &str,
        topic_id: Option<Uuid>,
        partition: PartitionIndex,
    ) -> Option<(PartitionKey, &Wanted)> {
        let topic = match topic_id {
            Some(id) => self.topics.get(&id)?.clone(),
            None => topic.into(),
        };
        let key = (topic, partition);
        let wanted = self.sent.get(&key).filter(|wanted| topic_id.is_none_or(|id| id == wanted.topic_id))?;
        Some((key, wanted))
    }

    /// Whether some topic was asked for whose id is not known: all go by their names then.
    pub(super) fn goes_by_name(&self) -> bool {
        self.topics.contains_key(&Uuid::ZERO)
    }

    /// Everything that was asked for.
    pub(super) fn all_asked(&self) -> impl Iterator<Item = (&PartitionKey, &Wanted)> {
        self.sent.iter()
    }

    /// Takes in a response's session. True when its partitions count.
    pub(super) fn answered(&mut self, error: ErrorCode, session_id: i32) -> bool {
        if error.is_error() {
            // An unknown session can't be closed with the next request; another one can.
            if error == ErrorCode::FetchSessionIdNotFound {
                self.id = 0;
            }
            self.epoch = EPOCH_NEW;
            return false;
        }
        if self.epoch == EPOCH_NEW {
            // 0: the broker has no room for a session, so the next request is a full one again.
            self.id = session_id;
            self.epoch = if session_id == 0 { EPOCH_NEW } else { 1 };
        } else {
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
        true
    }

    /// It is not known what the broker remembers: the next request starts anew.
    pub(super) fn reset(&mut self) {
        self.epoch = EPOCH_NEW;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Offset;

    fn wanted(offset: i64) -> Wanted {
        let question = FetchPartition { fetch_offset: Offset(offset), ..Default::default() };
        Wanted { topic_id: Uuid::ZERO, question, assignment: 0 }
    }

    fn key(index: i32) -> PartitionKey {
        ("t".into(), PartitionIndex(index))
    }

    /// All partitions, as (index, offset).
    fn all(partitions: &[(i32, i64)]) -> Changes {
        Changes::All(partitions.iter().map(|&(index, offset)| (key(index), wanted(offset))).collect())
    }

    /// Changed ones; without an offset where they are not wanted any more.
    fn some(partitions: &[(i32, Option<i64>)]) -> Changes {
        Changes::Some(partitions.iter().map(|&(index, offset)| (key(index), offset.map(wanted))).collect())
    }

    /// What is sent: (session, epoch, partitions with offsets, forgotten).
    fn sent(session: &mut Session, changes: Changes) -> (i32, i32, Vec<(i32, i64)>, Vec<i32>) {
        assert_eq!(session.wants_all(true), matches!(changes, Changes::All(_)));
        let count = session.count_with(&changes);
        let request = session.request(changes, true);
        assert_eq!(session.sent.len(), count);
        let partitions = request.partitions.iter().map(|(key, p)| (key.partition.0, p.fetch_offset.0)).collect();
        let forgotten = request.forgotten.iter().map(|key| key.partition.0).collect();
        (request.session_id, request.session_epoch, partitions, forgotten)
    }

    #[test]
    fn only_changes_are_sent_within_a_session() {
        let mut session = Session::default();
        assert_eq!(sent(&mut session, all(&[(0, 5), (1, 0)])), (0, 0, vec![(0, 5), (1, 0)], vec![]));
        assert!(session.answered(ErrorCode::None, 7));
        let changes = some(&[(0, Some(9)), (1, Some(0)), (2, Some(1)), (5, None)]);
        assert_eq!(sent(&mut session, changes), (7, 1, vec![(0, 9), (2, 1)], vec![]));
        assert!(session.answered(ErrorCode::None, 7));
        assert_eq!(sent(&mut session, some(&[(0, None), (2, None)])), (7, 2, vec![], vec![0, 2]));
        session.reset();
        assert_eq!(sent(&mut session, all(&[(1, 0)])), (7, 0, vec![(1, 0)], vec![]));
        assert!(session.answered(ErrorCode::None, 8));
        assert_eq!(sent(&mut session, some(&[(1, Some(3))])), (8, 1, vec![(1, 3)], vec![]));
        assert!(!session.answered(ErrorCode::FetchSessionIdNotFound, 0));
        assert_eq!(sent(&mut session, all(&[(1, 3)])), (0, 0, vec![(1, 3)], vec![]));
        assert!(session.answered(ErrorCode::None, 0));
        assert_eq!(sent(&mut session, all(&[(1, 4)])), (0, 0, vec![(1, 4)], vec![]), "the broker gave no session");
    }

    #[test]
    fn an_assignment_anew_is_told_apart_without_a_word_to_the_broker() {
        let mut session = Session::default();
        sent(&mut session, all(&[(0, 5)]));
        assert!(session.answered(ErrorCode::None, 7));
        let again = Changes::Some(vec![(key(0), Some(Wanted { assignment: 1, ..wanted(5) }))]);
        assert_eq!(sent(&mut session, again), (7, 1, vec![], vec![]));
        let (_, asked) = session.asked("t", None, PartitionIndex(0)).expect("asked for");
        assert_eq!(asked.assignment, 1);
    }

    #[test]
    fn a_topic_of_another_id_is_another_topic() {
        let mut session = Session::default();
        let id = |byte| Uuid([byte; 16]);
        let of = |byte| Wanted { topic_id: id(byte), ..wanted(5) };
        session.request(Changes::All([(key(0), of(1))].into()), true);
        assert!(session.answered(ErrorCode::None, 7));
        let request = session.request(Changes::Some(vec![(key(0), Some(of(2)))]), true);
        assert_eq!((request.partitions[0].0.topic_id, request.forgotten[0].topic_id), (id(2), id(1)));
        assert_eq!(session.asked("", Some(id(1)), PartitionIndex(0)), None);
        assert_eq!(session.asked("", Some(id(2)), PartitionIndex(0)).map(|(key, _)| key), Some(key(0)));
    }

    #[test]
    fn without_a_session_everything_is_sent_each_time() {
        let mut session = Session::default();
        for _ in 0..2 {
            assert!(session.wants_all(false));
            let request = session.request(all(&[(0, 1)]), false);
            assert_eq!((request.session_id, request.session_epoch, request.partitions.len()), (0, -1, 1));
            assert!(session.answered(ErrorCode::None, 0));
        }
    }

    #[test]
    fn the_epoch_wraps_to_one() {
        let mut session = Session { id: 3, epoch: i32::MAX, ..Session::default() };
        assert!(session.answered(ErrorCode::None, 3));
        assert_eq!(session.epoch, 1);
    }
}
