//! Cuts a byte stream into frames: four bytes of big-endian length, then that many bytes.
//!
//! Owner: the reading task of one connection. A frame that arrived whole is a slice of what was received, without a copy; the rest of
//! a longer one goes straight into one contiguous buffer. Memory follows the bytes that have arrived, not the length that was
//! claimed: a frame of which little has come holds that little and no buffer, and what it holds later has its bounds in [`FrameMemory`].

use std::{fmt, io};

use shard::{RECV_BYTES, Slice, Socket};
use wire::LENGTH_BYTES;

use crate::frame_memory::{FrameMemory, PROBATION_BYTES, Step, TURN_LIMIT};
use crate::progress::Progress;

/// Frames up to this length are taken whatever they ask for; of a longer one the beginning decides.
const UNASKED_BYTES: usize = 16 << 10;

/// What is asked of the kernel at a time, so that a long frame's progress can be seen.
const RECEIVE_STEP_BYTES: usize = 1 << 20;

/// Why no further frame can be read.
#[derive(Debug)]
pub enum FrameError {
    /// The length prefix is negative or over the limit (`socket.request.max.bytes`).
    Length(wire::FrameError),
    /// The stream ended inside a frame.
    Truncated,
    /// Other frames took the memory for too long.
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
    progress: Progress,
}

impl FrameReader {
    /// `limit_bytes` bounds a frame's length without its prefix, as does the memory.
    #[must_use]
    pub fn new(memory: FrameMemory, limit_bytes: usize) -> Self {
        let limit_bytes = limit_bytes.min(memory.frame_bytes_max());
        Self { memory, rest: Slice::default(), limit_bytes, progress: Progress::default() }
    }

    /// How far the frame has come that has begun and is not whole.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The next frame without its length prefix; `None` at a clean end of the stream.
    ///
    /// # Errors
    /// [`FrameError`]; the stream is of no further use then.
    pub async fn next(&mut self, socket: &Socket) -> Result<Option<Slice>, FrameError> {
        self.next_within(socket, |_| usize::MAX).await
    }

    /// As [`FrameReader::next`]; a frame that is not short is held to the limit that its first two bytes have.
    ///
    /// # Errors
    /// [`FrameError`]; the stream is of no further use then.
    pub async fn next_within(
        &mut self,
        socket: &Socket,
        limit_of: impl Fn([u8; 2]) -> usize,
    ) -> Result<Option<Slice>, FrameError> {
        let Some(prefix) = self.prefix(socket).await? else { return Ok(None) };
        let len = wire::frame_length(prefix, self.limit_bytes).map_err(FrameError::Length)?;
        if len > UNASKED_BYTES {
            let limit = limit_of(self.head(socket).await?);
            wire::frame_length(prefix, limit).map_err(FrameError::Length)?;
        }
        let frame = if self.rest.len() >= len { self.take(len) } else { self.long_body(socket, len).await? };
        self.progress.end();
        Ok(Some(frame))
    }

    /// The first `len` of the received bytes. What is used up is let go: an idle connection holds no block.
    fn take(&mut self, len: usize) -> Slice {
        if len == self.rest.len() {
            return std::mem::take(&mut self.rest);
        }
        self.rest.split_to(len)
    }

    async fn prefix(&mut self, socket: &Socket) -> Result<Option<[u8; LENGTH_BYTES]>, FrameError> {
        let mut prefix = [0; LENGTH_BYTES];
        let mut filled = 0;
        while filled < prefix.len() {
            if self.rest.is_empty() {
                self.rest = socket.recv().await?;
                if self.rest.is_empty() {
                    return if filled == 0 { Ok(None) } else { Err(FrameError::Truncated) };
                }
            }
            if filled == 0 {
                self.progress.begin(self.memory.now(), 0);
            }
            let part = self.take((prefix.len() - filled).min(self.rest.len()));
            prefix[filled..filled + part.len()].copy_from_slice(&part);
            filled += part.len();
        }
        Ok(Some(prefix))
    }

    /// The first two bytes of a frame that has more of them.
    async fn head(&mut self, socket: &Socket) -> Result<[u8; 2], FrameError> {
        while self.rest.len() < 2 {
            let more = self.piece(socket).await?;
            self.rest = if self.rest.is_empty() { more } else { Slice::from_vec([&*self.rest, &*more].concat()) };
        }
        Ok([self.rest[0], self.rest[1]])
    }

    /// The rest of a frame of which not all has arrived.
    async fn long_body(&mut self, socket: &Socket, len: usize) -> Result<Slice, FrameError> {
        self.wait_for_more(socket).await?;
        if self.rest.len() >= len {
            return Ok(self.take(len));
        }
        let no_memory = || FrameError::NoMemory { bytes: len };
        // Whoever waits for memory is not slow: the clock starts once it is there.
        self.progress.end();
        let mut step = self.memory.first_step(len).await.ok_or_else(no_memory)?;
        self.progress.begin(self.memory.now(), step.buf.capacity());
        step.buf.extend_from_slice(&self.rest);
        self.rest = Slice::default();
        let first = len.min(step.buf.capacity());
        step = self.fill(socket, step, first).await?;
        if first < len {
            // Only who has more to send waits for more memory.
            let more = self.piece(socket).await?;
            self.progress.wait(self.memory.now(), step.buf.capacity());
            let mut whole = self.memory.whole(len).await.ok_or_else(no_memory)?;
            self.progress.begin(self.memory.now(), whole.buf.capacity());
            whole.buf.extend_from_slice(&step.buf);
            drop(step);
            self.rest = more;
            let more = self.take(self.rest.len().min(len - first));
            whole.buf.extend_from_slice(&more);
            step = self.fill(socket, whole, len).await?;
        }
        Ok(step.buf.freeze())
    }

    /// One more piece of the frame that has begun, where little of it is there: until it comes, that little is kept by itself.
    async fn wait_for_more(&mut self, socket: &Socket) -> Result<(), FrameError> {
        if self.rest.len() >= RECV_BYTES / 2 {
            return Ok(());
        }
        self.rest = Slice::from_vec(self.rest.to_vec());
        let more = self.piece(socket).await?;
        self.rest = if self.rest.is_empty() { more } else { Slice::from_vec([&*self.rest, &*more].concat()) };
        Ok(())
    }

    /// What comes next of a frame that is not whole.
    async fn piece(&self, socket: &Socket) -> Result<Slice, FrameError> {
        let piece = socket.recv().await?;
        if piece.is_empty() { Err(FrameError::Truncated) } else { Ok(piece) }
    }

    /// Receives up to `until` bytes of the frame, step by step.
    async fn fill(&self, socket: &Socket, step: Step, until: usize) -> Result<Step, FrameError> {
        let Step { mut buf, permit } = step;
        let before = buf.len();
        while buf.len() < until {
            let upto = until.min(buf.len() + RECEIVE_STEP_BYTES);
            buf = socket.recv_into(buf, upto).await?;
            self.progress.moved(buf.len() - before, buf.capacity());
        }
        Ok(Step { buf, permit })
    }
}

/// What has been received before there is a buffer fits into the first one.
const _: () = assert!(2 * RECV_BYTES <= PROBATION_BYTES);
