//! Files made ready for direct writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::aligned::AlignedBuf;

const CHUNK_BYTES: usize = 1 << 20;

/// A file of `len` bytes whose every block has been written once, open for direct writes. So a later write changes data
/// alone and no metadata, and a data sync is a flush of the device.
///
/// # Errors
/// As the file system has them; O_DIRECT refused, say.
pub fn prezeroed(path: &Path, len: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
    let file = options.open(path)?;
    let zeros = AlignedBuf::zeroed(CHUNK_BYTES);
    let mut at = 0;
    while at < len {
        let bytes = (len - at).min(CHUNK_BYTES as u64) as usize;
        file.write_all_at(&zeros[..bytes], at)?;
        at += bytes as u64;
    }
    file.sync_all()?;
    Ok(file)
}

/// A directory of a measurement's own, emptied before and removed after.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh directory under `parent`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(format!("tidemill-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}
