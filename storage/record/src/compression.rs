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

/// What zstd answers when its destination is too short.
const ZSTD_TOO_SMALL: usize =
    (zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();

/// In one piece into a buffer that is doubled when it was too small, not as a stream: a stream allocates the window that
/// the frame asks for, up to 128 MiB for a few bytes. The doubling costs at most as much again as the last round.
fn unzstd(input: &[u8], bytes_limit: usize) -> Result<Vec<u8>, DecompressError> {
    const FIRST_CAPACITY_MIN: usize = 4 * base::KIB;
    let corrupt = DecompressError::Corrupt { codec: Compression::Zstd };
    let mut decoder = zstd_safe::DCtx::try_create().ok_or(DecompressError::TooLarge { bytes_limit })?;
    let mut capacity = input.len().saturating_mul(4).max(FIRST_CAPACITY_MIN).min(bytes_limit);
    loop {
        let mut output = Vec::with_capacity(capacity);
        match decoder.decompress(&mut output, input) {
            Ok(_) if output.len() > bytes_limit => return Err(DecompressError::TooLarge { bytes_limit }),
            Ok(_) => return Ok(output),
            Err(ZSTD_TOO_SMALL) if capacity < bytes_limit => capacity = capacity.saturating_mul(2).min(bytes_limit),
            Err(ZSTD_TOO_SMALL) => return Err(DecompressError::TooLarge { bytes_limit }),
            Err(_) => return Err(corrupt),
        }
    }
}

/// The compressed bytes did not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfRoom;

/// Appends `input`, compressed, to `output`, which grows to no more than `bytes_max`. `level` is the codec's own (gzip 0 to 9,
/// zstd −131072 to 22, others none); what is outside its range is moved to the nearest end, and `None` is the codec's default.
///
/// # Errors
/// `output` would be longer than `bytes_max`; what it holds then is of no use.
pub(crate) fn compress(
    codec: Compression,
    level: Option<i32>,
    input: &[u8],
    output: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), OutOfRoom> {
    let mut room = Room { output, bytes_max };
    // Writing into memory fails for want of room alone.
    let out_of_room = |_: std::io::Error| OutOfRoom;
    match codec {
        Compression::None => room.write_all(input).map_err(out_of_room),
        Compression::Gzip => {
            let level = level.map_or(flate2::Compression::default(), |level| {
                flate2::Compression::new(level.clamp(0, 9).cast_unsigned())
            });
            let mut encoder = GzEncoder::new(room, level);
            encoder.write_all(input).and_then(|()| encoder.finish().map(drop)).map_err(out_of_room)
        }
        Compression::Snappy => snappy::compress(input, &mut room).map_err(out_of_room),
        Compression::Lz4 => {
            let frame = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
            let mut encoder = FrameEncoder::with_frame_info(frame, room);
            let written = encoder.write_all(input);
            written.and_then(|()| encoder.finish().map(drop).map_err(std::io::Error::other)).map_err(out_of_room)
        }
        Compression::Zstd => zstd(level, input, room),
    }
}

/// A vector that may not grow past a bound.
struct Room<'a> {
    output: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl Write for Room<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.bytes_max.saturating_sub(self.output.len()) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// In one piece: the frame then names its size, and its window is no larger than that.
fn zstd(level: Option<i32>, input: &[u8], room: Room<'_>) -> Result<(), OutOfRoom> {
    /// The slowest levels would have tables of half a gigabyte for the largest inputs; with a window of 8 MiB, which every
    /// decoder takes, no level has more than 130 MiB of them.
    const WINDOW_LOG_MAX: u32 = 23;
    const WIDER_FROM_LEVEL: i32 = 20;
    /// Beyond what the output takes in the end, so that a block that just fits is not refused for the room it is made in.
    const SLACK_BYTES: usize = 128 * base::KIB;
    let Room { output, bytes_max } = room;
    let level = level.unwrap_or(0).clamp(zstd_safe::min_c_level(), zstd_safe::max_c_level());
    let mut encoder = zstd_safe::CCtx::create();
    let parameter = |error| panic!("zstd refuses its own parameter: {}", zstd_safe::get_error_name(error));
    encoder.set_parameter(zstd_safe::CParameter::CompressionLevel(level)).unwrap_or_else(parameter);
    if level >= WIDER_FROM_LEVEL && input.len() > 1 << WINDOW_LOG_MAX {
        encoder.set_parameter(zstd_safe::CParameter::WindowLog(WINDOW_LOG_MAX)).unwrap_or_else(parameter);
    }
    let start = output.len();
    let room_bytes = bytes_max.saturating_sub(start);
    let bound = zstd_safe::compress_bound(input.len()).min(room_bytes.saturating_add(SLACK_BYTES));
    output.resize(start + bound, 0);
    match encoder.compress2(&mut output[start..], input) {
        Ok(written) if written > room_bytes => Err(OutOfRoom),
        Ok(written) => {
            output.truncate(start + written);
            Ok(())
        }
        Err(ZSTD_TOO_SMALL) => Err(OutOfRoom),
        Err(code) => panic!("compressing into memory does not fail: {}", zstd_safe::get_error_name(code)),
    }
}
