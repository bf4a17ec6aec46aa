//! Snappy in the framing of snappy-java ("xerial"): an 8-byte mark, two versions, then blocks with their length before
//! them. Some clients send a bare snappy block instead; both are read.

use std::io::{self, Write};

use snap::raw;

use super::DecompressError;
use crate::attributes::Compression;

const MARK: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Mark, version, lowest compatible version.
const PREAMBLE_BYTES: usize = 16;
const VERSION: i32 = 1;
/// What snappy-java puts into one block.
const BLOCK_BYTES: usize = 32 * base::KIB;
/// Three bytes of snappy expand to at most 64 (a copy with a two-byte offset), two to at most 11.
const EXPANSION_MAX: usize = 22;

const CORRUPT: DecompressError = DecompressError::Corrupt { codec: Compression::Snappy };

pub(super) fn decompress(input: &[u8], bytes_limit: usize) -> Result<Vec<u8>, DecompressError> {
    let mut output = Vec::new();
    if !input.starts_with(&MARK) {
        append_block(input, bytes_limit, &mut output)?;
        return Ok(output);
    }
    // The versions are not looked at: snappy-java has only ever written 1.
    let mut rest = input.get(PREAMBLE_BYTES..).ok_or(CORRUPT)?;
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(CORRUPT)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| CORRUPT)?;
        let (block, after) = after.split_at_checked(length).ok_or(CORRUPT)?;
        append_block(block, bytes_limit, &mut output)?;
        rest = after;
    }
    Ok(output)
}

fn append_block(block: &[u8], bytes_limit: usize, output: &mut Vec<u8>) -> Result<(), DecompressError> {
    let size_bytes = raw::decompress_len(block).map_err(|_| CORRUPT)?;
    // A size that no block of this length can reach is refused before memory is taken for it.
    if size_bytes > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(CORRUPT);
    }
    let start = output.len();
    if size_bytes > bytes_limit - start {
        return Err(DecompressError::TooLarge { bytes_limit });
    }
    let end = start + size_bytes;
    if end > output.capacity() {
        // Doubled as a vector does by itself, but never past the limit.
        let capacity = output.capacity().saturating_mul(2).clamp(end, bytes_limit);
        output.reserve_exact(capacity - start);
    }
    output.resize(end, 0);
    let written = raw::Decoder::new().decompress(block, &mut output[start..]).map_err(|_| CORRUPT)?;
    if written == size_bytes { Ok(()) } else { Err(CORRUPT) }
}

pub(super) fn compress(input: &[u8], output: &mut impl Write) -> io::Result<()> {
    let mut preamble = [0; PREAMBLE_BYTES];
    preamble[..8].copy_from_slice(&MARK);
    preamble[8..12].copy_from_slice(&VERSION.to_be_bytes());
    preamble[12..].copy_from_slice(&VERSION.to_be_bytes());
    output.write_all(&preamble)?;
    let mut encoder = raw::Encoder::new();
    let mut compressed = vec![0; raw::max_compress_len(BLOCK_BYTES.min(input.len()))];
    for block in input.chunks(BLOCK_BYTES) {
        let written = encoder.compress(block, &mut compressed).expect("the space is what snappy asks for");
        let length = i32::try_from(written).expect("a block of 32 KiB compresses to less than 2 GiB");
        output.write_all(&length.to_be_bytes())?;
        output.write_all(&compressed[..written])?;
    }
    Ok(())
}
