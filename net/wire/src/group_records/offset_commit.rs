//! How far a group has read a partition.

use base::{LeaderEpoch, Offset, Uuid};

use super::Value;
use crate::{Versioned, Wire};

/// The offset that a group committed for a partition.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0-4", flexible = "4+")]
pub struct OffsetCommitValue<'a> {
    /// The next offset to read.
    pub offset: Offset,
    /// The epoch of the last record that was read; −1 for unknown.
    #[wire(versions = "3+", default = LeaderEpoch(-1), ignorable)]
    pub leader_epoch: LeaderEpoch,
    /// Kept for the client.
    pub metadata: &'a str,
    /// In milliseconds since 1970.
    pub commit_timestamp: i64,
    /// When the offset is to go, in milliseconds since 1970; −1 for what the broker is set to. Only OffsetCommit 2 to 4 can
    /// ask for it.
    #[wire(versions = "1", default = -1, ignorable)]
    pub expire_timestamp: i64,
    /// Zero where the commit did not say it.
    #[wire(versions = "4+", tag = 0, ignorable)]
    pub topic_id: Uuid,
}

impl<'a> Value<'a> for OffsetCommitValue<'a> {
    /// Only version 1 can say when the offset is to go; it drops the leader epoch and the topic id.
    fn version_written(&self) -> i16 {
        if self.expire_timestamp == -1 { *Self::VERSIONS.end() } else { 1 }
    }
}
