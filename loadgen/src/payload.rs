//! What stands at the front of a record: a stamp by which it is known again when it is delivered.
//!
//! The stamp (28 bytes, little endian): the run (4), the stream (4), the record's number in the stream (8), when it was due in nanoseconds
//! since the run began (8), and the CRC-32C of all that, of the rest of the value and of the key (4). A stream is what one producer
//! writes to one partition; its numbers go up by one.

/// Bytes of a stamp: the least that a record has.
pub const STAMP_BYTES: usize = 28;
const CRC_AT: usize = 24;

/// Which record it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub run: u32,
    pub stream: u32,
    pub number: u64,
    /// Nanoseconds since the run began.
    pub due_ns: u64,
}

/// What a delivered record turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// As it was sent.
    Intact(Stamp),
    /// It was not sent so: its checksum is wrong, or it is too short to have one.
    Damaged,
}

fn crc(value: &[u8], key: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&value[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &value[STAMP_BYTES..]);
    crc32c::crc32c_append(crc, key)
}

/// Puts a stamp on a value, whose other bytes are in place.
pub fn stamp(value: &mut [u8], stamp: &Stamp, key: &[u8]) {
    value[..4].copy_from_slice(&stamp.run.to_le_bytes());
    value[4..8].copy_from_slice(&stamp.stream.to_le_bytes());
    value[8..16].copy_from_slice(&stamp.number.to_le_bytes());
    value[16..CRC_AT].copy_from_slice(&stamp.due_ns.to_le_bytes());
    let crc = crc(value, key);
    value[CRC_AT..STAMP_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Looks at what was delivered. `check`: whether its checksum is computed.
#[must_use]
pub fn inspect(value: &[u8], key: &[u8], check: bool) -> Content {
    if value.len() < STAMP_BYTES {
        return Content::Damaged;
    }
    let u32_at = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    if check && crc(value, key) != u32_at(CRC_AT) {
        return Content::Damaged;
    }
    Content::Intact(Stamp { run: u32_at(0), stream: u32_at(4), number: u64_at(8), due_ns: u64_at(16) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { run: 7, stream: 9, number: 11, due_ns: 13 };

    #[test]
    fn a_record_is_known_again_and_a_flip_anywhere_is_seen() {
        let mut value = vec![5; 100];
        stamp(&mut value, &STAMP, b"key");
        assert_eq!(inspect(&value, b"key", true), Content::Intact(STAMP));
        assert_eq!(inspect(&value, b"kez", true), Content::Damaged);
        for at in 0..value.len() {
            let mut flipped = value.clone();
            flipped[at] ^= 0x40;
            assert_eq!(inspect(&flipped, b"key", true), Content::Damaged, "byte {at}");
        }
        assert_eq!(inspect(&value[..99], b"key", true), Content::Damaged);
        assert_eq!(inspect(&value[..20], b"key", false), Content::Damaged);
    }
}
