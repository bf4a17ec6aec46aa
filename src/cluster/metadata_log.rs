//! The seam behind which consensus will stand: `propose(records) -> committed`, over a local durable log.
//!
//! Owner: the controller on shard 0. The log is `__cluster_metadata`, an ordinary partition of shard 0's store; a record is committed
//! once its batch is durable, and only then replayed into the image. Start-up replays the log from its beginning.

use std::fmt;

use base::{LeaderEpoch, Offset, PartitionIndex, Uuid};
use record::{BatchBuilder, BatchOptions, BuildError};
use replication::metadata::{CLUSTER_METADATA_TOPIC, Image, ImageBuilder, MetadataRecord};
use shard::Shard;
use storage::{AppendError, AppendOptions, Log, LogConfig, LogId, Lost, ShardStore, SpaceClass, StoreError};

use crate::log_replay::{self, ReplayError};

/// Kafka's id for the topic of the metadata log (KIP-595), partition 0.
pub const METADATA_LOG: LogId =
    LogId { topic_id: Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), partition: PartitionIndex(0) };

/// Why metadata can't be read or changed.
#[derive(Debug)]
pub enum MetadataLogError {
    Store(StoreError),
    Append(AppendError),
    Lost(Lost),
    Replay(ReplayError),
    Build(BuildError),
    /// A record that does not fit, at this offset.
    Record {
        offset: Offset,
        reason: String,
    },
}

impl fmt::Display for MetadataLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the metadata log can't be opened: {error}"),
            Self::Append(error) => write!(f, "the metadata log takes no record: {error}"),
            Self::Lost(error) => write!(f, "a metadata record was not committed: {error}"),
            Self::Replay(error) => write!(f, "the metadata log can't be read: {error}"),
            Self::Build(error) => write!(f, "the metadata records make no batch: {error}"),
            Self::Record { offset, reason } => {
                write!(f, "the metadata record at offset {offset} is not valid: {reason}")
            }
        }
    }
}

impl std::error::Error for MetadataLogError {}

/// The metadata log and what its committed records add up to.
pub struct MetadataLog {
    shard: Shard,
    log: Log,
    epoch: LeaderEpoch,
    image: Image,
}

impl MetadataLog {
    /// Opens the log, or creates it, replays it, and begins a leader epoch of its own.
    ///
    /// # Errors
    /// [`MetadataLogError`]: the broker can't start without its metadata.
    pub async fn open(shard: Shard, store: &ShardStore) -> Result<Self, MetadataLogError> {
        let log = match store.log(METADATA_LOG) {
            Some(log) => {
                // A log that was recovered has no settings of its own until it is told.
                log.set_config(kept_for_ever());
                log
            }
            None => store
                .create_log(CLUSTER_METADATA_TOPIC, METADATA_LOG, kept_for_ever())
                .await
                .map_err(MetadataLogError::Store)?,
        };
        let image = replay(&log).await?;
        let epoch = LeaderEpoch(log.latest_epoch().0.max(-1) + 1);
        log.adopt_epoch(epoch).await.map_err(MetadataLogError::Store)?;
        Ok(Self { shard, log, epoch, image })
    }

    /// What all committed records add up to.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Commits `records` as one batch, all or none, and replays them.
    ///
    /// # Errors
    /// The records were not committed, or don't fit the image: a plan of ours that was wrong is refused before it is written.
    pub async fn propose(&mut self, records: &[MetadataRecord]) -> Result<(), MetadataLogError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut next = ImageBuilder::new(&self.image);
        for record in records {
            next.replay(record).map_err(|error| MetadataLogError::Record {
                offset: self.log.end_offset(),
                reason: error.to_string(),
            })?;
        }
        let now = self.shard.wall();
        let mut batch = BatchBuilder::new(BatchOptions::default());
        for record in records {
            batch.add(now, None, Some(&record.encode()), &[]).map_err(MetadataLogError::Build)?;
        }
        let bytes = batch.finish().map_err(MetadataLogError::Build)?;
        let options = AppendOptions { leader_epoch: self.epoch, append_time: None, wall_now: now };
        let appended = self.log.append(&bytes, options).map_err(MetadataLogError::Append)?;
        appended.durable.await.map_err(MetadataLogError::Lost)?;
        self.image = next.finish();
        Ok(())
    }
}

/// Metadata is never deleted by age or size; a full disk takes it as long as it takes anything.
fn kept_for_ever() -> LogConfig {
    LogConfig {
        retention_ms: None,
        retention_bytes: None,
        retention_topic_bytes_share: None,
        max_message_bytes: u32::MAX,
        space: SpaceClass::Metadata,
        ..LogConfig::default()
    }
}

async fn replay(log: &Log) -> Result<Image, MetadataLogError> {
    let mut image = ImageBuilder::default();
    log_replay::records(log, log.durable_end(), |entry| {
        let record = MetadataRecord::decode(entry.value.unwrap_or_default()).map_err(|error| error.to_string())?;
        image.replay(&record).map_err(|error| error.to_string())
    })
    .await
    .map_err(MetadataLogError::Replay)?;
    Ok(image.finish())
}
