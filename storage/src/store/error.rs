//! Why a store refuses or fails a change.

use std::fmt;
use std::io;
use std::path::PathBuf;

use base::LeaderEpoch;

/// See each.
#[derive(Debug)]
pub enum StoreError {
    /// The store closes, or has closed.
    Closed,
    /// No such log on this shard.
    NotFound,
    Exists,
    /// The topic's name cannot be a directory's, or the partition is negative.
    InvalidName,
    /// The log is being truncated or moved: retriable.
    Busy,
    /// A file of the log failed.
    Offline,
    StaleEpoch {
        epoch: LeaderEpoch,
        latest: LeaderEpoch,
    },
    DiskFull,
    /// The journal entry would not fit into a commit.
    TooLarge {
        bytes: usize,
    },
    Io {
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::Io { what, path: path.into(), error }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the store is closed"),
            Self::NotFound => f.write_str("there is no such log on this shard"),
            Self::Exists => f.write_str("the log exists already"),
            Self::InvalidName => f.write_str("not the name of a topic and a partition of it"),
            Self::Busy => f.write_str("the log is being truncated or moved"),
            Self::Offline => f.write_str("the log is offline: its files failed"),
            Self::StaleEpoch { epoch, latest } => write!(f, "leader epoch {epoch} is over: {latest} has begun"),
            Self::DiskFull => f.write_str("the disk is full: free space, or shorten retention"),
            Self::TooLarge { bytes } => {
                write!(f, "an entry of {bytes} bytes does not fit into a commit of the journal")
            }
            Self::Io { what, path, error } => write!(f, "cannot {what} {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}
