//! Reads the entries of an index file one after another, in pieces.

use std::io;
use std::marker::PhantomData;

use base::{KIB, Offset};
use shard::File;
use storage::recovery::image::read_file_range;
use storage::segment::IndexEntry;

/// Entries read at a time; those of either kind fill whole blocks.
const ENTRIES_AT_ONCE: u64 = 8192;
const PIECE_BYTES: u64 = 128 * KIB as u64;

/// An entry and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Placed<E> {
    pub entry: E,
    pub position: u64,
    /// Nothing but zeros: most likely room ahead of the entries.
    pub is_blank: bool,
}

/// The entries of one file, front to back.
pub struct EntryReader<E> {
    file: Option<File>,
    base: Offset,
    /// Whole entries that are to be read, and how many were.
    entries: u64,
    read: u64,
    window: Vec<u8>,
    peeked: Option<Placed<E>>,
    entry: PhantomData<E>,
}

impl<E: IndexEntry> EntryReader<E> {
    /// The first `entries` entries of a segment's index; without a file there are none.
    pub fn new(file: Option<File>, base: Offset, entries: u64) -> Self {
        let entries = if file.is_some() { entries } else { 0 };
        Self { file, base, entries, read: 0, window: Vec::new(), peeked: None, entry: PhantomData }
    }

    /// The next entry, which stays the next. `None` at the end, which is early where the file is shorter than it was.
    pub async fn peek(&mut self) -> io::Result<Option<Placed<E>>> {
        if self.peeked.is_none() {
            self.peeked = self.read_next().await?;
        }
        Ok(self.peeked)
    }

    /// The next entry.
    pub async fn next(&mut self) -> io::Result<Option<Placed<E>>> {
        let next = self.peek().await?;
        self.peeked = None;
        Ok(next)
    }

    async fn read_next(&mut self) -> io::Result<Option<Placed<E>>> {
        let Some(file) = self.file.as_ref().filter(|_| self.read < self.entries) else { return Ok(None) };
        let position = self.read * E::BYTES as u64;
        let within = (self.read % ENTRIES_AT_ONCE) as usize * E::BYTES;
        if within == 0 {
            self.window = read_file_range(file, position, ENTRIES_AT_ONCE * E::BYTES as u64).await?;
        }
        let Some(bytes) = self.window.get(within..within + E::BYTES) else { return Ok(None) };
        self.read += 1;
        let is_blank = bytes.iter().all(|&byte| byte == 0);
        Ok(Some(Placed { entry: E::decode(self.base, bytes), position, is_blank }))
    }

    /// True where the file holds nothing but zeros from `position` on.
    pub async fn is_blank_from(&self, position: u64) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        let mut at = position;
        while at < file.bytes_at_open() {
            let piece = read_file_range(file, at, PIECE_BYTES).await?;
            if piece.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            if piece.is_empty() {
                break;
            }
            at += piece.len() as u64;
        }
        Ok(true)
    }
}
