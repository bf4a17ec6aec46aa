//! Compressing and decompressing the records of a batch, as Kafka's clients frame them.
//!
//! | codec | written | also read |
//! | --- | --- | --- |
//! | gzip | one member | several members |
//! | snappy | snappy-java's ("xerial") blocks of 32 KiB | one raw block |
//! | lz4 | frame, independent blocks of 64 KiB, no checksums | any frame |
//! | zstd | one frame | several frames |
//!
//! Invariant: output never exceeds the caller's limit, and no size in the input decides an allocation: buffers start in
//! proportion to the input and grow with what was really produced.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use zstd::zstd_safe;

use crate::attributes::Compression;

mod snappy;

/// Why compressed bytes could not be expanded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecompressError {
    /// The output is larger than the caller allows.
    TooLarge { bytes_limit: usize },
    /// The bytes are not what the codec writes.
    Corrupt { codec: Compression },
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes_limit } => write!(f, "the records expand to more than {bytes_limit} bytes"),
            Self::Corrupt { codec } => write!(f, "the compressed records are not valid {codec}"),
        }
    }
}

impl std::error::Error for DecompressError {}

/// Expands `input` to at most `bytes_limit` bytes; without compression it is lent as it is, and the limit is not asked.
///
/// # Errors
/// Damaged input, or more output than `bytes_limit`.
pub fn decompress(codec: Compression, input: &[u8], bytes_limit: usize) -> Result<Cow<'_, [u8]>, DecompressError> {
    Ok(Cow::Owned(match codec {
        Compression::None => return Ok(Cow::Borrowed(input)),
        Compression::Gzip => read_bounded(codec, MultiGzDecoder::new(input), bytes_limit)?,
        Compression::Snappy => snappy::decompress(input, bytes_limit)?,
        Compression::Lz4 => read_bounded(codec, FrameDecoder::new(input), bytes_limit)?,
        Compression::Zstd => unzstd(input, bytes_limit)?,
    }))
}

/// Reads a stream to its end, growing with what comes and never past the limit: beyond it one byte is asked for, to
/// tell "exactly full" from "too large".
fn read_bounded(codec: Compression, mut decoder: impl Read, bytes_limit: usize) -> Result<Vec<u8>, DecompressError> {
    const FIRST_CAPACITY: usize = 4 * base::KIB;
    let corrupt = |_| DecompressError::Corrupt { codec };
    let mut output = Vec::new();
    let mut capacity = FIRST_CAPACITY.min(bytes_limit);
    loop {
        let room = capacity - output.len();
        output.reserve_exact(room);
        let read = decoder.by_ref().take(room as u64).read_to_end(&mut output).map_err(corrupt)?;
        if read < room {
            return Ok(output);
        }
        if capacity == bytes_limit {
            let more = decoder.read(&mut [0]).map_err(corrupt)?;
            return if more == 0 { Ok(output) } else { Err(DecompressError::TooLarge { bytes_limit }) };
        }
        capacity = capacity.saturating_mul(2).min(bytes_limit);
    }
}

/// In one piece into a buffer that is doubled when it was too small, not as a stream: a stream allocates the window that
/// the frame asks for, up to 128 MiB for a few bytes. The doubling costs at most as much again as the last round.
fn unzstd(input: &[u8], bytes_limit: usize) -> Result<Vec<u8>, DecompressError> {
    const TOO_SMALL: usize = (zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();
    const FIRST_CAPACITY_MIN: usize = 4 * base::KIB;
    let corrupt = DecompressError::Corrupt { codec: Compression::Zstd };
    let mut decoder = zstd_safe::DCtx::try_create().ok_or(DecompressError::TooLarge { bytes_limit })?;
    let mut capacity = input.len().saturating_mul(4).max(FIRST_CAPACITY_MIN).min(bytes_limit);
    loop {
        let mut output = Vec::with_capacity(capacity);
        match decoder.decompress(&mut output, input) {
            Ok(_) if output.len() > bytes_limit => return Err(DecompressError::TooLarge { bytes_limit }),
            Ok(_) => return Ok(output),
            Err(TOO_SMALL) if capacity < bytes_limit => capacity = capacity.saturating_mul(2).min(bytes_limit),
            Err(TOO_SMALL) => return Err(DecompressError::TooLarge { bytes_limit }),
            Err(_) => return Err(corrupt),
        }
    }
}

/// Appends `input`, compressed, to `output`. `level` is the codec's own (gzip 0 to 9, zstd 1 to 22, others none); what is
/// outside its range is moved to the nearest end, and `None` is the codec's default.
pub(crate) fn compress(codec: Compression, level: Option<i32>, input: &[u8], output: &mut Vec<u8>) {
    // Writing into a vector does not fail; the codecs' own errors are about their destination or about sizes of 2 GiB
    // and more, which the builder of a batch refuses.
    let done: std::io::Result<()> = match codec {
        Compression::None => output.write_all(input),
        Compression::Gzip => {
            let level = level.map_or(flate2::Compression::default(), |level| {
                flate2::Compression::new(level.clamp(0, 9).cast_unsigned())
            });
            let mut encoder = GzEncoder::new(output, level);
            encoder.write_all(input).and_then(|()| encoder.finish().map(drop))
        }
        Compression::Snappy => {
            snappy::compress(input, output);
            Ok(())
        }
        Compression::Lz4 => {
            let frame = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
            let mut encoder = FrameEncoder::with_frame_info(frame, output);
            encoder.write_all(input).and_then(|()| encoder.finish().map(drop).map_err(std::io::Error::other))
        }
        Compression::Zstd => {
            // In one piece: the frame then names its size, and its window is no larger than that.
            let start = output.len();
            output.resize(start + zstd_safe::compress_bound(input.len()), 0);
            let written = zstd_safe::compress(&mut output[start..], input, level.unwrap_or(0).clamp(-7, 22));
            written.map(|written| output.truncate(start + written)).map_err(|code| {
                output.truncate(start);
                std::io::Error::other(zstd_safe::get_error_name(code))
            })
        }
    };
    done.expect("compressing into memory does not fail");
}
