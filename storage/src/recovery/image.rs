//! A shard's directory as recovery finds it: its newest manifest and the frames of its journal that follow.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

use base::{MIB, ShardId};
use shard::{File, OpenOptions, Shard};

use super::RecoverError;
use super::log_replay::Source;
use crate::config::paths;
use crate::journal::codec::FRAME_HEAD_BYTES;
use crate::journal::scan::{FoundFrame, JournalScan, PassedOver, find_end, scan_file};
use crate::manifest::Manifest;
use crate::manifest::file::{FoundManifest, ManifestReadError, read_newest};

/// Journal files are at most this long, whatever their name claims: what reading one may take of memory.
pub const JOURNAL_FILE_BYTES_MAX: u64 = 256 * MIB as u64;
const READ_BYTES: usize = MIB;

/// What was found of one shard.
pub struct ShardImage {
    pub shard: ShardId,
    pub manifest: Manifest,
    /// Which copy the manifest is; the other one is written first.
    pub newest_copy: usize,
    pub journal: JournalImage,
    pub scan: JournalScan,
    pub passed: PassedOver,
    pub manifest_bytes_read: u64,
}

/// The journal files of one shard.
pub struct JournalImage {
    files: Vec<JournalFile>,
    pub bytes_read: Cell<u64>,
}

struct JournalFile {
    number: u32,
    path: PathBuf,
    /// The whole file, as long as the memory allowed for it lasts.
    content: Option<Vec<u8>>,
}

/// Numbers of journal files stay far below; orphans are counted down from the top.
const ORPHAN_FILES_FROM: u32 = u32::MAX;

/// The shard directories of a data directory, in order.
pub async fn shard_dirs(shard: &Shard, data_dir: &Path) -> Result<Vec<ShardId>, RecoverError> {
    let dir = paths::shards_dir(data_dir);
    let entries = match shard.fs().list(&dir).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RecoverError::io("list", dir)(error)),
    };
    let number = |name: &str| name.parse().ok().map(ShardId).filter(|shard| shard.to_string() == name);
    let mut shards: Vec<_> =
        entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| number(&entry.name)).collect();
    shards.sort_unstable();
    Ok(shards)
}

impl ShardImage {
    /// Reads a shard's directory. `memory` is how many journal bytes may be kept; what is kept is taken off it. `None` when no
    /// store was ever opened there.
    pub async fn read(
        shard: &Shard,
        data_dir: &Path,
        of: ShardId,
        memory: &mut usize,
    ) -> Result<Option<Self>, RecoverError> {
        let dir = paths::shard_dir(data_dir, of);
        let found = read_newest(shard, &dir).await.map_err(|error| match error {
            ManifestReadError::Io { path, error } => RecoverError::io("read", path)(error),
            ManifestReadError::Unusable { path, error } => RecoverError::Manifest { path, error },
        })?;
        let numbers = journal_numbers(shard, &dir).await?;
        let FoundManifest { newest, broken, bytes_read } = found;
        let Some((manifest, newest_copy)) = newest else {
            // Journal files are made only after a manifest is durable: without any, the first start was cut short.
            return if numbers.is_empty() { Ok(None) } else { Err(RecoverError::NoManifest { dir, broken }) };
        };
        if manifest.head.shard != of {
            return Err(RecoverError::ForeignManifest { dir, shard: manifest.head.shard });
        }
        let mut journal = JournalImage { files: Vec::new(), bytes_read: Cell::new(0) };
        let (mut frames, mut passed) = (Vec::new(), PassedOver::default());
        for number in numbers {
            let path = paths::journal_file(data_dir, of, number);
            let content = read_whole(shard, &path).await?;
            *journal.bytes_read.get_mut() += content.len() as u64;
            frames.extend(scan_file(number, &content, manifest.head.salt, &mut passed));
            let keep = content.len() <= *memory;
            *memory -= if keep { content.len() } else { 0 };
            journal.files.push(JournalFile { number, path, content: keep.then_some(content) });
        }
        let scan = find_end(frames, &manifest.head.replay_from)
            .map_err(|rot| RecoverError::JournalRot { path: paths::journal_file(data_dir, of, rot.file), rot })?;
        if scan.manifest_version_max > manifest.head.version {
            return Err(RecoverError::ManifestLost {
                dir,
                broken,
                version: manifest.head.version,
                wanted: scan.manifest_version_max,
            });
        }
        Ok(Some(Self { shard: of, manifest, newest_copy, journal, scan, passed, manifest_bytes_read: bytes_read }))
    }

    /// The body of a frame and where it stands.
    pub async fn body(&self, shard: &Shard, frame: &FoundFrame) -> Result<(Vec<u8>, Source), RecoverError> {
        let at = Source { file: frame.file, offset: frame.offset + FRAME_HEAD_BYTES as u64 };
        Ok((self.journal.bytes(shard, at, frame.head.body_bytes() as u64).await?, at))
    }
}

impl JournalImage {
    /// Takes an orphan in as one more file; returns the number that its extents bear.
    pub(super) fn add_orphan(&mut self, path: PathBuf, content: Vec<u8>) -> u32 {
        let orphans = self.files.iter().filter(|file| file.number > ORPHAN_FILES_FROM / 2).count() as u32;
        let number = ORPHAN_FILES_FROM - orphans;
        *self.bytes_read.get_mut() += content.len() as u64;
        self.files.push(JournalFile { number, path, content: Some(content) });
        number
    }

    /// A file's content, if it was kept.
    pub(super) fn content(&self, file: u32) -> Option<&[u8]> {
        self.files.iter().find(|candidate| candidate.number == file)?.content.as_deref()
    }

    /// Bytes of a journal file that was scanned.
    pub async fn bytes(&self, shard: &Shard, at: Source, bytes: u64) -> Result<Vec<u8>, RecoverError> {
        let found = self.files.iter().find(|file| file.number == at.file).expect("a file that was scanned");
        let range = at.offset as usize..(at.offset + bytes) as usize;
        if let Some(content) = &found.content {
            return Ok(content[range].to_vec());
        }
        let path = found.path.clone();
        let content = read_range(shard, &path, at.offset, bytes).await;
        let content = content.map_err(RecoverError::io("read", path.clone()))?;
        self.bytes_read.set(self.bytes_read.get() + bytes);
        // It was there when the file was scanned: the device does not give back what it gave before.
        let short = || RecoverError::io("read", path)(io::ErrorKind::UnexpectedEof.into());
        if content.len() as u64 == bytes { Ok(content) } else { Err(short()) }
    }
}

async fn journal_numbers(shard: &Shard, dir: &Path) -> Result<Vec<u32>, RecoverError> {
    let entries = shard.fs().list(dir).await.map_err(RecoverError::io("list", dir.to_owned()))?;
    let mut numbers: Vec<_> = entries.iter().filter_map(|entry| paths::journal_number(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

const READ: OpenOptions = OpenOptions { read: true, write: false, create: false, exclusive: false, direct: true };

async fn read_whole(shard: &Shard, path: &Path) -> Result<Vec<u8>, RecoverError> {
    let read = async {
        let file = shard.fs().open(path, READ).await?;
        // A killed process may have left commits that the device has and the medium has not. Recovery acts on what it reads here, so
        // a power cut must not take it back any more.
        file.datasync().await?;
        let bytes = file.bytes_at_open();
        if bytes > JOURNAL_FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a journal file of {bytes} bytes")));
        }
        read_file_range(&file, 0, bytes).await
    };
    read.await.map_err(RecoverError::io("read", path.to_owned()))
}

async fn read_range(shard: &Shard, path: &Path, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let file = shard.fs().open(path, READ).await?;
    read_file_range(&file, at, bytes).await
}

/// Any range of a file, by whole blocks; short at its end.
pub async fn read_file_range(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let alignment = file.alignment().max(crate::segment::BLOCK_BYTES) as u64;
    let mut position = at - at % alignment;
    let end = at + bytes;
    let mut out = Vec::with_capacity(bytes as usize);
    while position < end {
        let len = (end - position).next_multiple_of(alignment).min(READ_BYTES as u64) as usize;
        let piece = file.read_at(position, len).await?;
        let skip = at.saturating_sub(position).min(piece.len() as u64) as usize;
        let keep = ((end - position) as usize).min(piece.len());
        out.extend_from_slice(&piece[skip..keep.max(skip)]);
        if piece.len() < len {
            break;
        }
        position += len as u64;
    }
    Ok(out)
}
