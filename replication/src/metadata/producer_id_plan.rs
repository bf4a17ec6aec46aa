//! Blocks of producer ids (KIP-98): a broker takes a block and hands its ids out one by one, so that not every producer
//! costs a write to the metadata log.

use std::fmt;

use base::{BrokerId, ProducerId};

use super::image::Image;
use super::record::{MetadataRecord, ProducerIdsRecord};

/// Ids in a block, as in Kafka (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
pub const PRODUCER_ID_BLOCK_SIZE: i64 = 1000;

/// Ids that belong to one broker: `first` and the `count − 1` after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerIdBlock {
    pub first: ProducerId,
    pub count: i64,
}

/// All 2^63 ids are given out. `UNKNOWN_SERVER_ERROR`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerIdsExhausted;

impl fmt::Display for ProducerIdsExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are no producer ids left")
    }
}

impl std::error::Error for ProducerIdsExhausted {}

/// The next block, for `broker`; its ids may be used once the record is committed.
///
/// # Errors
/// There is no whole block left.
pub fn plan_allocate_producer_ids(
    image: &Image,
    broker: BrokerId,
) -> Result<(ProducerIdBlock, MetadataRecord), ProducerIdsExhausted> {
    let first = image.next_producer_id();
    let next = first.0.checked_add(PRODUCER_ID_BLOCK_SIZE).map(ProducerId).ok_or(ProducerIdsExhausted)?;
    let block = ProducerIdBlock { first, count: PRODUCER_ID_BLOCK_SIZE };
    Ok((block, MetadataRecord::ProducerIds(ProducerIdsRecord { broker, next })))
}
