//! Cuts a byte stream into frames: four bytes of big-endian length, then that many bytes.
//!
//! Owner: the reading task of one connection. A frame that arrived whole is a slice of what was received, without a copy; the rest of
//! a longer one goes straight into one contiguous buffer. Memory follows the bytes that have arrived, not the length that
//! was claimed: a buffer starts at [`FIRST_STEP_BYTES`] and doubles only once it is full.
//!
//! Bound: the shard's part for received bytes. A frame that needs more than the first step holds memory while it waits for more, so
//! it takes a turn first: the long frames that have one fit in together. Whoever gets none in time is closed.

use std::time::Duration;
use std::{fmt, io};

use shard::sync::{Permit, Semaphore};
use shard::{Shard, Slice, Socket};

/// The first buffer for a frame that did not arrive whole: nearly every frame fits, and a lying length costs no more than this.
const FIRST_STEP_BYTES: usize = 1 << 20;

/// How long a long frame waits for others to end.
const TURN_LIMIT: Duration = Duration::from_secs(30);

/// What the connections of a shard share: the turns of long frames. Clones are the same.
#[derive(Clone)]
pub struct FrameMemory {
    shard: Shard,
    /// Bytes that long frames may come to.
    turns: Semaphore,
    turns_bytes: usize,
}

impl FrameMemory {
    #[must_use]
    pub fn new(shard: &Shard) -> Self {
        let turns_bytes = shard.received().usage().limit_bytes;
        Self { shard: shard.clone(), turns: Semaphore::new(turns_bytes), turns_bytes }
    }

    /// The longest frame that fits in while it grows: its last two buffers are there at once.
    #[must_use]
    pub fn frame_bytes_max(&self) -> usize {
        self.turns_bytes / 2
    }

    /// A turn for a frame of `len`; `None` when others take too long.
    async fn turn(&self, len: usize) -> Option<Permit> {
        self.shard.until(self.shard.now() + TURN_LIMIT, self.turns.acquire(len * 2)).await?.ok()
    }
}

/// Why no further frame can be read.
#[derive(Debug)]
pub enum FrameError {
    /// The length prefix is negative or over the limit (`socket.request.max.bytes`).
    Length(wire::FrameError),
    /// The stream ended inside a frame.
    Truncated,
    /// Other long frames took the memory for too long.
    NoMemory {
        bytes: usize,
    },
    Io(io::Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(error) => error.fmt(f),
            Self::Truncated => f.write_str("the connection ended inside a frame"),
            Self::NoMemory { bytes } => {
                write!(
                    f,
                    "a request of {bytes} bytes found no memory within {TURN_LIMIT:?}: raise memory-bytes, or send less at once"
                )
            }
            Self::Io(error) => write!(f, "receiving failed: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

/// Reads the frames of one stream.
pub struct FrameReader {
    memory: FrameMemory,
    /// Received and not yet part of a frame.
    rest: Slice,
    limit_bytes: usize,
}

impl FrameReader {
    /// `limit_bytes` bounds a frame's length without its prefix, as does the memory.
    #[must_use]
    pub fn new(memory: FrameMemory, limit_bytes: usize) -> Self {
        let limit_bytes = limit_bytes.min(memory.frame_bytes_max());
        Self { memory, rest: Slice::from_vec(Vec::new()), limit_bytes }
    }

    /// The next frame without its length prefix; `None` at a clean end of the stream.
    ///
    /// # Errors
    /// [`FrameError`]; the stream is of no further use then.
    pub async fn next(&mut self, socket: &Socket) -> Result<Option<Slice>, FrameError> {
        let Some(prefix) = self.prefix(socket).await? else { return Ok(None) };
        let len = wire::frame_length(prefix, self.limit_bytes).map_err(FrameError::Length)?;
        if self.rest.len() >= len {
            let frame = self.rest.slice(0..len);
            self.rest = self.rest.slice(len..self.rest.len());
            return Ok(Some(frame));
        }
        self.long_body(socket, len).await.map(Some)
    }

    async fn prefix(&mut self, socket: &Socket) -> Result<Option<[u8; 4]>, FrameError> {
        let mut prefix = [0; 4];
        let mut filled = 0;
        while filled < prefix.len() {
            if self.rest.is_empty() {
                self.rest = socket.recv().await?;
                if self.rest.is_empty() {
                    return if filled == 0 { Ok(None) } else { Err(FrameError::Truncated) };
                }
            }
            let taken = (prefix.len() - filled).min(self.rest.len());
            prefix[filled..filled + taken].copy_from_slice(&self.rest[..taken]);
            self.rest = self.rest.slice(taken..self.rest.len());
            filled += taken;
        }
        Ok(Some(prefix))
    }

    async fn long_body(&mut self, socket: &Socket, len: usize) -> Result<Slice, FrameError> {
        let received = self.memory.shard.received().clone();
        let _turn = match len > FIRST_STEP_BYTES {
            true => Some(self.memory.turn(len).await.ok_or(FrameError::NoMemory { bytes: len })?),
            false => None,
        };
        let mut buf = received.alloc_wait(len.min(FIRST_STEP_BYTES)).await;
        // `rest` is shorter than the frame but may be longer than the first buffer only if a receive were larger than it: never.
        assert!(self.rest.len() <= buf.capacity(), "one receive is at most a first step");
        buf.extend_from_slice(&self.rest);
        self.rest = Slice::from_vec(Vec::new());
        loop {
            let until = len.min(buf.capacity());
            buf = socket.recv_into(buf, until).await?;
            if until == len {
                return Ok(buf.freeze());
            }
            let mut larger = received.alloc_wait(len.min(buf.capacity() * 2)).await;
            larger.extend_from_slice(&buf);
            buf = larger;
        }
    }
}
