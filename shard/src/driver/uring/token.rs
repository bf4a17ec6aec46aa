//! What a completion's user data says: whose completion it is.
//!
//! The low half names a slot, the high half its generation. Slots with the top bit set are the driver's own submissions
//! (a multishot accept, a descriptor being installed); the highest values are notes that no flight waits for.

use base::ShardId;

use crate::driver::OpId;

/// A completion posted by a peer to end this shard's park. It says nothing else.
pub(super) const WAKE: u64 = u64::MAX;
/// A submission whose success makes no completion and whose failure interests nobody (cancel, close).
pub(super) const IGNORED: u64 = u64::MAX - 1;
/// From here on: a message that should have woken a peer did not get through; the low bits say which.
const WAKE_FAILED: u64 = u64::MAX << 17;

const OWN: u32 = 1 << 31;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// An operation of the shard.
    Op(OpId),
    /// A submission of the driver itself, by its key.
    Own(usize),
}

pub(super) fn of_op(id: OpId) -> u64 {
    assert!(id.slot < OWN, "an operation slot of more than 31 bits");
    u64::from(id.generation) << 32 | u64::from(id.slot)
}

pub(super) fn of_own(key: usize) -> u64 {
    let key = u32::try_from(key).expect("own submissions are few");
    u64::from(OWN | key)
}

pub(super) fn of_wake(peer: ShardId) -> u64 {
    WAKE_FAILED | u64::from(peer.0)
}

/// What a completion without a flight says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Note {
    /// Nothing that matters.
    Quiet,
    WakeFailed(ShardId),
}

pub(super) fn note(user_data: u64) -> Option<Note> {
    match user_data {
        IGNORED | WAKE => Some(Note::Quiet),
        WAKE_FAILED.. => Some(Note::WakeFailed(ShardId(user_data as u16))),
        _ => None,
    }
}

pub(super) fn parse(user_data: u64) -> Token {
    let slot = user_data as u32;
    if slot & OWN != 0 {
        Token::Own((slot & !OWN) as usize)
    } else {
        Token::Op(OpId { slot, generation: (user_data >> 32) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::{IGNORED, Note, Token, WAKE, note, of_op, of_own, of_wake, parse};
    use crate::driver::OpId;
    use base::ShardId;

    #[test]
    fn tokens_round_trip_and_stay_apart() {
        for (slot, generation) in [(0, 0), (7, 1), ((1 << 31) - 1, u32::MAX), (0, u32::MAX)] {
            let id = OpId { slot, generation };
            assert_eq!((parse(of_op(id)), note(of_op(id))), (Token::Op(id), None));
        }
        for key in [0, 1, (1 << 31) - 1] {
            assert_eq!((parse(of_own(key)), note(of_own(key))), (Token::Own(key), None));
        }
        for shard in [0, 1, u16::MAX] {
            assert_eq!(note(of_wake(ShardId(shard))), Some(Note::WakeFailed(ShardId(shard))));
        }
        assert_eq!((note(WAKE), note(IGNORED)), (Some(Note::Quiet), Some(Note::Quiet)));
    }
}
