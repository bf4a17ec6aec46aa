//! Reads the commits of a journal or orphan file one after another, in pieces.

use std::io;

use shard::File;
use storage::journal::codec::{FRAME_BYTES_MAX, FRAME_HEAD_BYTES, FrameHead, JOURNAL_BLOCK_BYTES, frame_at};
use storage::recovery::image::read_file_range;

/// Read at a time: a commit of any size, and one more behind it.
const WINDOW_BYTES: usize = 2 * FRAME_BYTES_MAX;

/// The whole commits of a file, of any generation; what is none is passed over, for a journal is written round and round.
pub struct FrameReader<'a> {
    file: &'a File,
    window: Vec<u8>,
    window_at: u64,
    position: u64,
    /// Blocks that belong to no whole commit.
    pub other_blocks: u64,
}

impl<'a> FrameReader<'a> {
    pub fn new(file: &'a File) -> Self {
        Self { file, window: Vec::new(), window_at: 0, position: 0, other_blocks: 0 }
    }

    /// The next commit: where it stands, its head and its body.
    pub async fn next(&mut self) -> io::Result<Option<(u64, FrameHead, &[u8])>> {
        let (position, head) = loop {
            if self.rest().len() < FRAME_BYTES_MAX && self.window_end() < self.file.bytes_at_open() {
                self.window = read_file_range(self.file, self.position, WINDOW_BYTES as u64).await?;
                self.window_at = self.position;
            }
            let rest = self.rest();
            if rest.is_empty() {
                return Ok(None);
            }
            let frame = FrameHead::parse(rest).and_then(|head| frame_at(rest, head.salt));
            if let Some((head, _)) = frame {
                break (self.position, head);
            }
            self.position += JOURNAL_BLOCK_BYTES as u64;
            self.other_blocks += 1;
        };
        self.position += head.frame_bytes() as u64;
        let frame = &self.window[(position - self.window_at) as usize..];
        Ok(Some((position, head, &frame[FRAME_HEAD_BYTES..head.frame_bytes()])))
    }

    fn window_end(&self) -> u64 {
        self.window_at + self.window.len() as u64
    }

    fn rest(&self) -> &[u8] {
        self.window.get((self.position - self.window_at) as usize..).unwrap_or(&[])
    }
}
