//! A fetch session (KIP-227): the broker remembers the partitions, so a request says only what changed.
//!
//! Owner: the task that fetches from one broker. Pure: wanted partitions in, request out; answers move the epoch.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{PartitionIndex, Uuid};
use wire::ErrorCode;
use wire::messages::fetch::FetchPartition;

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
    /// What the broker remembers.
    sent: BTreeMap<FetchKey, FetchPartition>,
}

impl Session {
    /// The request for exactly these partitions; `enabled` is whether broker and reader want a session.
    pub(super) fn request(&mut self, wanted: BTreeMap<FetchKey, FetchPartition>, enabled: bool) -> SessionRequest {
        let (session_id, session_epoch) = if enabled { (self.id, self.epoch) } else { (0, EPOCH_NONE) };
        if session_epoch <= EPOCH_NEW {
            self.sent = wanted.clone();
            return SessionRequest {
                session_id,
                session_epoch,
                partitions: wanted.into_iter().collect(),
                forgotten: Vec::new(),
            };
        }
        let changed = wanted.iter().filter(|(key, partition)| self.sent.get(key) != Some(partition));
        let partitions = changed.map(|(key, partition)| (key.clone(), *partition)).collect();
        let forgotten = self.sent.keys().filter(|key| !wanted.contains_key(key)).cloned().collect();
        self.sent = wanted;
        SessionRequest { session_id, session_epoch, partitions, forgotten }
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

    /// Partitions as (index, offset).
    fn wanted(partitions: &[(i32, i64)]) -> BTreeMap<FetchKey, FetchPartition> {
        let entry = |&(index, offset)| {
            let partition = PartitionIndex(index);
            let key = FetchKey { topic: "t".into(), topic_id: Uuid::ZERO, partition };
            (key, FetchPartition { partition, fetch_offset: Offset(offset), ..Default::default() })
        };
        partitions.iter().map(entry).collect()
    }

    /// What is sent for `now`: (session, epoch, partitions with offsets, forgotten).
    fn sent(session: &mut Session, now: &[(i32, i64)]) -> (i32, i32, Vec<(i32, i64)>, Vec<i32>) {
        let request = session.request(wanted(now), true);
        let partitions = request.partitions.iter().map(|(key, p)| (key.partition.0, p.fetch_offset.0)).collect();
        let forgotten = request.forgotten.iter().map(|key| key.partition.0).collect();
        (request.session_id, request.session_epoch, partitions, forgotten)
    }

    #[test]
    fn only_changes_are_sent_within_a_session() {
        let mut session = Session::default();
        assert_eq!(sent(&mut session, &[(0, 5), (1, 0)]), (0, 0, vec![(0, 5), (1, 0)], vec![]));
        assert!(session.answered(ErrorCode::None, 7));
        assert_eq!(sent(&mut session, &[(0, 9), (1, 0), (2, 1)]), (7, 1, vec![(0, 9), (2, 1)], vec![]));
        assert!(session.answered(ErrorCode::None, 7));
        assert_eq!(sent(&mut session, &[(1, 0)]), (7, 2, vec![], vec![0, 2]));
        session.reset();
        assert_eq!(sent(&mut session, &[(1, 0)]), (7, 0, vec![(1, 0)], vec![]));
        assert!(session.answered(ErrorCode::None, 8));
        assert_eq!(sent(&mut session, &[(1, 3)]), (8, 1, vec![(1, 3)], vec![]));
        assert!(!session.answered(ErrorCode::FetchSessionIdNotFound, 0));
        assert_eq!(sent(&mut session, &[(1, 3)]), (0, 0, vec![(1, 3)], vec![]));
        assert!(session.answered(ErrorCode::None, 0));
        assert_eq!(sent(&mut session, &[(1, 4)]), (0, 0, vec![(1, 4)], vec![]), "the broker gave no session");
    }

    #[test]
    fn without_a_session_everything_is_sent_each_time() {
        let mut session = Session::default();
        for _ in 0..2 {
            let request = session.request(wanted(&[(0, 1)]), false);
            assert_eq!((request.session_id, request.session_epoch, request.partitions.len()), (0, -1, 1));
            assert!(session.answered(ErrorCode::None, 0));
        }
    }

    #[test]
    fn the_epoch_wraps_to_one() {
        let mut session = Session { id: 3, epoch: i32::MAX, sent: BTreeMap::new() };
        assert!(session.answered(ErrorCode::None, 3));
        assert_eq!(session.epoch, 1);
    }
}
