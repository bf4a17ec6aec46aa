//! The keys of the records.

use wire::group_records::{GroupKey, Key};
use wire::{DecodeError, DecodeFault};

use crate::SAMPLES;
use crate::sample::{Sample, Source};

/// The key's bytes are these, and these are the key again.
fn check(key: Key<'_>, bytes: &[u8]) {
    assert_eq!(key.to_bytes().as_deref(), Ok(bytes), "{key:?}");
    assert_eq!(Key::from_bytes(bytes), Ok(key), "{bytes:x?}");
}

#[test]
fn a_key_is_read_as_it_was_written_and_nothing_else_is() {
    let mut kinds = Vec::new();
    macro_rules! check_kind {
        ($kind:ident, $key:ident, $value:ident) => {
            for seed in 0..SAMPLES {
                let fields = wire::group_records::$key::sample(&mut Source::new(0, seed));
                let key = Key::$kind(fields);
                let mut bytes = key.to_bytes().unwrap();
                check(key, &bytes);
                for end in 0..bytes.len().min(300) {
                    Key::from_bytes(&bytes[..end]).unwrap_err();
                }
                bytes.push(0);
                assert_eq!(Key::from_bytes(&bytes).unwrap_err().fault, DecodeFault::TrailingBytes(1));
            }
            kinds.push(Key::$kind(Default::default()).kind());
        };
    }
    every_record!(check_kind);
    assert_eq!(kinds, [0, 1, 2, 3, 4, 5, 6, 7, 8, 16]);
}

#[test]
fn a_kind_that_is_not_known_is_no_garbage() {
    let unknown = |kind, fields| Key::Unknown { kind, fields };
    // A share group, a Streams group, and whatever comes.
    check(unknown(11, b"\0\x01g"), b"\0\x0b\0\x01g");
    check(unknown(17, b"\0\x01g"), b"\0\x11\0\x01g");
    check(unknown(i16::MAX, b""), b"\x7f\xff");
    check(unknown(-1, b"\xff"), b"\xff\xff\xff");
    check(Key::GroupMetadata(GroupKey { group_id: "g" }), b"\0\x02\0\x01g");
}

#[test]
fn garbage_of_a_known_kind_is_an_error_that_says_where() {
    let table: [(&[u8], usize, &str, DecodeFault); 6] = [
        (b"", 0, "Key.kind", DecodeFault::Truncated { needed: 2, left: 0 }),
        (b"\0\x02", 2, "GroupKey.group_id", DecodeFault::Truncated { needed: 2, left: 0 }),
        (b"\0\x02\x7f\xffg", 4, "GroupKey.group_id", DecodeFault::Truncated { needed: 32_767, left: 1 }),
        (b"\0\x02\xff\xff", 2, "GroupKey.group_id", DecodeFault::Null),
        (b"\0\x05\0\x01g\0\x01\xff", 7, "MemberKey.member_id", DecodeFault::NotUtf8),
        (b"\0\x01\0\x01g\0\x01t\0\0", 8, "OffsetKey.partition", DecodeFault::Truncated { needed: 4, left: 2 }),
    ];
    for (bytes, position, field, fault) in table {
        assert_eq!(Key::from_bytes(bytes), Err(DecodeError { position, field, fault }), "{bytes:x?}");
    }
}
