//! Zigzag variable-length integers, as records use them (Protocol Buffers' `sint32` and `sint64`).

/// Most bytes of a 32-bit and of a 64-bit number.
const I32_BYTES_MAX: usize = 5;
const I64_BYTES_MAX: usize = 10;

/// Takes a 32-bit number off the front of `bytes`; `None` when they end early or hold more than 32 bits.
pub(crate) fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    let raw = take_u64(bytes, I32_BYTES_MAX)?;
    let raw = u32::try_from(raw).ok()?;
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// Takes a 64-bit number off the front of `bytes`; `None` when they end early or hold more than 64 bits.
pub(crate) fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    let raw = take_u64(bytes, I64_BYTES_MAX)?;
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

fn take_u64(bytes: &mut &[u8], bytes_max: usize) -> Option<u64> {
    let mut value: u64 = 0;
    for (index, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index;
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

pub(crate) fn put_i32(out: &mut Vec<u8>, value: i32) {
    put_u64(out, u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()));
}

pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_i32`] writes.
pub(crate) fn size_i32(value: i32) -> usize {
    size_u64(u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()))
}

/// Bytes that [`put_i64`] writes.
pub(crate) fn size_i64(value: i64) -> usize {
    size_u64(((value << 1) ^ (value >> 63)).cast_unsigned())
}

fn size_u64(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_encodings() {
        let check = |value: i64, bytes: &[u8]| {
            let mut out = Vec::new();
            put_i64(&mut out, value);
            assert_eq!((out.as_slice(), size_i64(value)), (bytes, bytes.len()), "{value}");
            let mut rest = bytes;
            assert_eq!((take_i64(&mut rest), rest), (Some(value), &[][..]));
            if let Ok(small) = i32::try_from(value) {
                out.clear();
                put_i32(&mut out, small);
                assert_eq!((out.as_slice(), size_i32(small)), (bytes, bytes.len()), "{value}");
                let mut rest = bytes;
                assert_eq!((take_i32(&mut rest), rest), (Some(small), &[][..]));
            }
        };
        check(0, &[0]);
        check(-1, &[1]);
        check(1, &[2]);
        check(63, &[126]);
        check(-64, &[127]);
        check(64, &[0x80, 1]);
        check(i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]);
        check(i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]);
        check(i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        check(i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn too_short_and_too_long() {
        for bytes in [&[][..], &[0x80], &[0xff; 5], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0x80, 0x80, 0x80, 0x80, 0x80, 0]]
        {
            let mut rest = bytes;
            assert_eq!(take_i32(&mut rest), None, "{bytes:?}");
        }
        for bytes in [&[0xff; 10][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &[0x80; 11]] {
            let mut rest = bytes;
            assert_eq!(take_i64(&mut rest), None, "{bytes:?}");
        }
    }
}
