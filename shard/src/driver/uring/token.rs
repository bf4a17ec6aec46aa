//! What a completion's user data says: whose completion it is.
//!
//! The low half names a slot, the high half its generation. Slots with the top bit set are the driver's own submissions
//! (a multishot accept, a descriptor being installed); the two highest values are notes that nobody waits for.

use crate::driver::OpId;

/// A completion posted by a peer to end this shard's park. It says nothing else.
pub(super) const WAKE: u64 = u64::MAX;
/// A submission whose success makes no completion and whose failure interests nobody (cancel, close, wake).
pub(super) const IGNORED: u64 = u64::MAX - 1;

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
    // The generation half stays zero, which keeps clear of the two notes above.
    u64::from(OWN | key)
}

pub(super) fn is_quiet(user_data: u64) -> bool {
    user_data >= IGNORED
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
    use super::{IGNORED, Token, WAKE, is_quiet, of_op, of_own, parse};
    use crate::driver::OpId;

    #[test]
    fn tokens_round_trip_and_stay_apart() {
        for (slot, generation) in [(0, 0), (7, 1), ((1 << 31) - 1, u32::MAX), (0, u32::MAX)] {
            let id = OpId { slot, generation };
            assert_eq!(parse(of_op(id)), Token::Op(id));
            assert!(!is_quiet(of_op(id)));
        }
        for key in [0, 1, (1 << 31) - 1] {
            assert_eq!(parse(of_own(key)), Token::Own(key));
            assert!(!is_quiet(of_own(key)));
        }
        assert!(is_quiet(WAKE) && is_quiet(IGNORED));
    }
}
