//! Cuts a byte stream into frames: four bytes of big-endian length, then that many bytes.
//!
//! Owner: the reading task of one connection. A frame that arrived whole is a slice of what was received, without a copy; the rest of
//! a longer one goes straight into one contiguous buffer. Memory follows the bytes that have arrived, not the length that
//! was claimed: a buffer starts at [`FIRST_STEP_BYTES`] and doubles only once it is full.

use std::{fmt, io};

use shard::{Shard, Slice, Socket};

/// The first buffer for a frame that did not arrive whole: nearly every frame fits, and a lying length costs no more than this.
const FIRST_STEP_BYTES: usize = 1 << 20;

/// Why no further frame can be read.
#[derive(Debug)]
pub enum FrameError {
    /// The length prefix is negative or over the limit (`socket.request.max.bytes`).
    Length(wire::FrameError),
    /// The stream ended inside a frame.
    Truncated,
    Io(io::Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(error) => error.fmt(f),
            Self::Truncated => f.write_str("the connection ended inside a frame"),
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
    shard: Shard,
    /// Received and not yet part of a frame.
    rest: Slice,
    limit_bytes: usize,
}

impl FrameReader {
    /// `limit_bytes` bounds a frame's length without its prefix.
    #[must_use]
    pub fn new(shard: Shard, limit_bytes: usize) -> Self {
        Self { shard, rest: Slice::from_vec(Vec::new()), limit_bytes }
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
        let mut buf = self.shard.arena().alloc_wait(len.min(FIRST_STEP_BYTES)).await;
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
            let mut larger = self.shard.arena().alloc_wait(len.min(buf.capacity() * 2)).await;
            larger.extend_from_slice(&buf);
            buf = larger;
        }
    }
}
