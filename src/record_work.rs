//! Work that looks into the records of a produced batch: holding each to its topic's rules, and storing the batch with its topic's
//! codec. Most batches need none of it, and then nothing here runs.
//!
//! Owner: the shard of the connection, within the first stage of a Produce, so that the connection's next request waits behind it.
//! Short work is done in place; what is long (more than 64 KiB of records, or a slow level of a codec) goes to the helper thread,
//! which the shards share. Bounds: [`JOBS_MAX`] batches of a shard are with the helper or just back from it, the others wait in line; the
//! helper expands one batch at a time, to [`NodeConfig::expanded_bytes_max`]; rebuilt batches have a part of the shard's memory, which waits for
//! nothing but the log. A batch takes of that part once, before or after its work, and holds none of it while it waits for more.

use record::{
    BatchHeader, BatchView, RecompressLimits, Recompression, RecordRules, RefusedRecords, TimestampBounds,
    check_records, recompress,
};
use shard::sync::Semaphore;
use shard::{Arena, Shard, Slice};

use crate::config::{NodeConfig, TopicConfig};
use crate::node::Node;

/// Up to so many bytes of records, both as sent and expanded, are worked on in place: a millisecond or two when gzip compresses them, a
/// fraction of one with any other codec.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// One batch is worked on while the next one waits at hand: more would not be done sooner and would hold memory.
const JOBS_MAX: usize = 2;
/// Room for whatever the codecs make of [`INLINE_BYTES_MAX`] of records, and a header.
const INLINE_REBUILT_BYTES_MAX: usize = 2 * INLINE_BYTES_MAX;
/// The part of a shard's memory, one in so many, that rebuilt batches have until the log has taken them. It is taken off what is
/// received, which they stand for.
const MEMORY_SHARE: usize = 25;

/// What a shard may use for work on records.
pub struct RecordJobs {
    with_helper: Semaphore,
    rebuilt: Arena,
    /// What always fits into the memory, and into a log.
    batch_bytes_max: usize,
    expanded_bytes_max: usize,
}

impl RecordJobs {
    #[must_use]
    pub fn new(shard: &Shard, config: &NodeConfig) -> Self {
        let rebuilt = shard.arena().part(shard.arena().usage().limit_bytes / MEMORY_SHARE);
        // Memory is given out in powers of two: the largest below the bound can always be had in the end.
        let fits_bytes_max = rebuilt.usage().limit_bytes.checked_ilog2().map_or(0, |log| 1 << log);
        Self {
            with_helper: Semaphore::new(JOBS_MAX),
            rebuilt,
            batch_bytes_max: config.batch_bytes_max().min(fits_bytes_max),
            expanded_bytes_max: config.expanded_bytes_max(),
        }
    }
}

/// What has to be done with the records of one batch.
#[derive(Clone, Copy, Debug)]
pub struct RecordWork {
    rules: RecordRules,
    recompression: Option<Recompression>,
    message_bytes_max: usize,
}

/// The rebuilt batch, or none where it stays as it was sent.
type Worked = Result<Option<Vec<u8>>, RefusedRecords>;

impl RecordWork {
    /// The work that a topic's settings ask for on a batch with this header; most ask for none. `timestamps` are the bounds of a topic
    /// with create time: a batch whose largest timestamp is out of them is looked into, to say which record is at fault.
    #[must_use]
    pub fn needed(config: &TopicConfig, header: &BatchHeader, timestamps: Option<TimestampBounds>) -> Option<Self> {
        let recompression = config.recompression().filter(|to| to.applies_to(header));
        // Nothing in the header tells how old the oldest record is.
        let is_doubtful = timestamps
            .is_some_and(|bounds| config.timestamp_before_max_ms != i64::MAX || !bounds.hold(header.max_timestamp));
        let key_required = config.cleanup.compact;
        (recompression.is_some() || is_doubtful || key_required).then(|| Self {
            rules: RecordRules { timestamps, key_required },
            recompression,
            message_bytes_max: usize::try_from(config.max_message_bytes).unwrap_or(0),
        })
    }

    /// Does it; gives the batch as it is to be stored.
    ///
    /// # Errors
    /// What is wrong with the records, or that the batch, rebuilt, is too large.
    pub async fn run(mut self, node: &Node, batch: Slice) -> Result<Slice, RefusedRecords> {
        let jobs = &node.record_jobs;
        self.message_bytes_max = self.message_bytes_max.min(jobs.batch_bytes_max);
        if self.may_be_short(&batch) {
            let memory = match self.recompression {
                Some(_) => Some(jobs.rebuilt.alloc_wait(INLINE_REBUILT_BYTES_MAX).await),
                None => None,
            };
            let worked = self.work(&batch, INLINE_BYTES_MAX);
            // A request may have very many batches: others get their turn between two of them.
            node.shard.yield_now().await;
            if !worked.as_ref().is_err_and(RefusedRecords::is_beyond_limit) {
                let Some(rebuilt) = worked? else { return Ok(batch) };
                // No more than it takes, where that can be had without waiting.
                let mut memory = jobs.rebuilt.alloc(rebuilt.len()).or(memory).expect("taken before a batch is rebuilt");
                memory.extend_from_slice(&rebuilt);
                return Ok(memory.freeze());
            }
        }
        self.run_on_helper(node, batch).await
    }

    /// False when only the helper will do; what turns out to be longer than it looks goes there all the same.
    fn may_be_short(&self, batch: &[u8]) -> bool {
        batch.len() <= INLINE_BYTES_MAX && !self.recompression.is_some_and(|to| to.is_slow())
    }

    async fn run_on_helper(self, node: &Node, batch: Slice) -> Result<Slice, RefusedRecords> {
        let jobs = &node.record_jobs;
        // Held until what comes back is in memory that is counted.
        let _permit = jobs.with_helper.acquire(1).await.expect("nobody closes it");
        let sent = batch.export();
        let expanded_bytes_max = jobs.expanded_bytes_max;
        let worked = node.shard.offload(move || self.work(&sent, expanded_bytes_max)).await;
        let Some(rebuilt) = worked? else { return Ok(batch) };
        // The batch itself is held meanwhile: its memory is of another part, which waits for this one and not the other way round.
        let mut memory = jobs.rebuilt.alloc_wait(rebuilt.len()).await;
        memory.extend_from_slice(&rebuilt);
        Ok(memory.freeze())
    }

    fn work(&self, batch: &[u8], records_bytes_max: usize) -> Worked {
        let batch = BatchView::parse(batch).expect("it was found to be a batch");
        match self.recompression {
            None => check_records(&batch, &self.rules, records_bytes_max).map(|()| None),
            Some(to) => {
                let limits = RecompressLimits { records_bytes_max, batch_bytes_max: self.message_bytes_max };
                recompress(&batch, to, &self.rules, &limits).map(Some)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::WallTime;
    use record::{BatchBuilder, BatchOptions, Compression};

    use super::*;
    use crate::config::TimestampType;

    fn header(compression: Compression) -> BatchHeader {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        builder.add(WallTime(5), None, None, &[]).expect("a record");
        BatchHeader::parse(&builder.finish().expect("a batch")).expect("its header")
    }

    fn needed(settings: &[(&str, &str)], sent_with: Compression) -> Option<RecordWork> {
        let config = TopicConfig::from_settings(settings.iter().copied()).expect("valid");
        let bounds =
            TimestampBounds { now: WallTime(6), before_ms_max: config.timestamp_before_max_ms, after_ms_max: 1 };
        let bounds = (config.timestamp_type == TimestampType::CreateTime).then_some(bounds);
        RecordWork::needed(&config, &header(sent_with), bounds)
    }

    #[test]
    fn which_batches_need_work() {
        let append_time = ("message.timestamp.type", "LogAppendTime");
        let past_bound = ("message.timestamp.before.max.ms", "60000");
        for sent_with in Compression::ALL {
            // Whether anything is to be done, whether the batch is rebuilt, whether timestamps are looked at.
            let check = |settings: &[(&str, &str)], expected: Option<(bool, bool)>| {
                let needed = needed(settings, sent_with);
                let found = needed.map(|work| (work.recompression.is_some(), work.rules.timestamps.is_some()));
                let compacted =
                    settings.iter().any(|(name, value)| *name == "cleanup.policy" && value.contains("compact"));
                assert_eq!(needed.is_some_and(|work| work.rules.key_required), compacted, "{settings:?}");
                assert_eq!(found, expected, "{settings:?}, sent with {sent_with}");
            };
            check(&[], None);
            check(&[("compression.type", "producer"), append_time], None);
            check(&[("cleanup.policy", "compact,delete"), append_time], Some((false, false)));
            check(&[("cleanup.policy", "compact")], Some((false, true)));
            check(&[("cleanup.policy", ""), append_time], None);
            check(&[past_bound], Some((false, true)));
            check(&[past_bound, append_time], None);
            let rebuilt = sent_with != Compression::Lz4;
            check(&[("compression.type", "lz4")], rebuilt.then_some((true, true)));
            check(&[("compression.type", "lz4"), append_time], rebuilt.then_some((true, false)));
            check(&[("compression.type", "lz4"), past_bound], Some((rebuilt, true)));
        }
    }

    #[test]
    fn which_work_goes_to_the_helper_at_once() {
        let check = |settings: &[(&str, &str)], bytes: usize, expected: bool| {
            let work = needed(settings, Compression::Snappy).expect("there is work");
            assert_eq!(!work.may_be_short(&vec![0; bytes]), expected, "{settings:?}, {bytes} bytes");
        };
        let past_bound = ("message.timestamp.before.max.ms", "60000");
        check(&[past_bound], INLINE_BYTES_MAX, false);
        check(&[past_bound], INLINE_BYTES_MAX + 1, true);
        check(&[("compression.type", "zstd")], INLINE_BYTES_MAX, false);
        check(&[("compression.type", "zstd")], INLINE_BYTES_MAX + 1, true);
        check(&[("compression.type", "zstd"), ("compression.zstd.level", "19")], 100, true);
        check(&[("compression.type", "gzip"), ("compression.gzip.level", "9")], 100, true);
        check(&[("compression.type", "gzip"), ("compression.zstd.level", "19")], 100, false);
    }
}
