//! The two manifest copies of a shard on disk: reading the newest, writing the next.
//!
//! Owner: recovery, then the shard's store. The copy that is written is never the newest valid one. Its head is blanked first and
//! written last, with a flush between each step: whatever a crash leaves of it is whole or has a blank head, and anything else has rotted.

use std::io;
use std::path::{Path, PathBuf};

use base::KIB;
use shard::{File, OpenOptions, Shard, WriteSync};

use super::{
    COPY_NAMES, MANIFEST_BYTES_MAX, Manifest, ManifestError, ManifestHead, ManifestSum, PAYLOAD_AT, StoredHead,
};

/// Written at a time: small enough not to hold up a journal write.
const PIECE_BYTES: usize = 128 * KIB;
const FILE_BYTES_MIN: u64 = 64 * KIB as u64;

/// What was found of a shard's manifests.
#[derive(Debug, Default)]
pub struct FoundManifest {
    /// The newest valid copy and which of the two it is.
    pub newest: Option<(Manifest, usize)>,
    /// Copies that were begun and are not whole: torn by a crash, or damaged.
    pub broken: Vec<BrokenCopy>,
    pub bytes_read: u64,
}

/// A copy of a manifest that cannot be read from `at` on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokenCopy {
    pub path: PathBuf,
    pub at: u64,
}

/// Why a shard's manifests cannot be used.
#[derive(Debug)]
pub enum ManifestReadError {
    Io {
        path: PathBuf,
        error: io::Error,
    },
    /// A newer release wrote it, or its content cannot be.
    Unusable {
        path: PathBuf,
        error: ManifestError,
    },
}

/// Reads both copies in `dir`.
///
/// # Errors
/// I/O, or a copy with a right checksum that this release cannot read. A copy that is merely not whole is no error.
pub async fn read_newest(shard: &Shard, dir: &Path) -> Result<FoundManifest, ManifestReadError> {
    let mut found = FoundManifest::default();
    for (copy, name) in COPY_NAMES.iter().enumerate() {
        let path = dir.join(name);
        let read = async {
            // What is read here is acted on: a power cut must not take it back any more.
            let options = OpenOptions { read: true, ..OpenOptions::default() };
            shard.fs().open(&path, options).await?.datasync().await?;
            shard.fs().read_file(&path, MANIFEST_BYTES_MAX).await
        };
        let content = match read.await {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ManifestReadError::Io { path, error }),
        };
        found.bytes_read += content.len() as u64;
        match Manifest::decode(&content) {
            Ok(manifest) => {
                let newer = found.newest.as_ref().is_none_or(|(known, _)| known.head.version < manifest.head.version);
                if newer {
                    found.newest = Some((manifest, copy));
                }
            }
            // One that was made and not written yet, or whose writing a crash cut short, is not broken.
            Err(ManifestError::Invalid { .. }) if StoredHead::is_blank(&content) => {}
            Err(ManifestError::Invalid { at }) => found.broken.push(BrokenCopy { path, at }),
            Err(error) => return Err(ManifestReadError::Unusable { path, error }),
        }
    }
    Ok(found)
}

/// The two copies of a shard, open for writing.
#[derive(Clone)]
pub struct ManifestFiles {
    shard: Shard,
    copies: [(File, u64); 2],
}

impl ManifestFiles {
    /// Opens or creates both files in `dir`, which exists.
    ///
    /// # Errors
    /// I/O.
    pub async fn open(shard: &Shard, dir: &Path) -> io::Result<Self> {
        let options = OpenOptions { read: false, write: true, create: true, exclusive: false, direct: true };
        let a = shard.fs().open(dir.join(COPY_NAMES[0]), options).await?;
        let b = shard.fs().open(dir.join(COPY_NAMES[1]), options).await?;
        shard.fs().sync_dir(dir).await?;
        let copies = [a, b].map(|file| {
            let bytes = file.bytes_at_open();
            (file, bytes)
        });
        Ok(Self { shard: shard.clone(), copies })
    }

    /// Makes room in a copy for `payload_bytes` of records, with as much again to spare. Metadata that a full disk may refuse.
    ///
    /// # Errors
    /// I/O.
    pub async fn reserve(&mut self, copy: usize, payload_bytes: usize) -> io::Result<()> {
        let needed = (PAYLOAD_AT + payload_bytes.next_multiple_of(PAYLOAD_AT)) as u64;
        let (file, bytes) = &mut self.copies[copy];
        if *bytes < needed {
            let target = needed.next_power_of_two().max(FILE_BYTES_MIN);
            self.shard.fs().allocate(file, 0, target).await?;
            *bytes = target;
        }
        Ok(())
    }

    /// Writes a copy; durable when it returns.
    ///
    /// # Errors
    /// I/O; the copy is then not valid, the other one still is.
    pub async fn write(&self, copy: usize, head: &ManifestHead, records: &[impl AsRef<[u8]>]) -> io::Result<u64> {
        let file = &self.copies[copy].0;
        self.write_head(file, &[0; PAYLOAD_AT]).await?;
        let mut sum = ManifestSum::new();
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut position = PAYLOAD_AT as u64;
        for record in records {
            sum.add(record.as_ref(), &mut piece);
            while piece.len() >= PIECE_BYTES {
                self.write_piece(file, position, &piece[..PIECE_BYTES]).await?;
                position += PIECE_BYTES as u64;
                piece.drain(..PIECE_BYTES);
            }
        }
        if !piece.is_empty() {
            self.write_piece(file, position, &piece).await?;
            position += piece.len() as u64;
        }
        file.datasync().await?;
        self.write_head(file, &sum.head(head)).await?;
        Ok(position)
    }

    async fn write_head(&self, file: &File, head: &[u8]) -> io::Result<()> {
        let mut block = self.shard.arena().alloc_wait(PAYLOAD_AT).await;
        block.extend_from_slice(head);
        file.write_at(0, vec![block.freeze()], WriteSync::Data).await
    }

    async fn write_piece(&self, file: &File, position: u64, piece: &[u8]) -> io::Result<()> {
        let mut buf = self.shard.arena().alloc_wait(piece.len().next_multiple_of(PAYLOAD_AT)).await;
        buf.extend_from_slice(piece);
        buf.pad_to(PAYLOAD_AT);
        file.write_at(position, vec![buf.freeze()], WriteSync::None).await
    }
}
