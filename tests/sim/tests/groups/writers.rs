//! What is written beside the groups: each partition has one idempotent writer, so its log is known to the last record.

use std::time::Duration;

use base::{LeaderEpoch, PartitionIndex, ProducerEpoch, ProducerId};
use sim::batches::{Recipe, Stamp, placed};
use sim::compacted::Written;
use sim::groups::Place;
use wire::messages::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::{ErrorCode, Records};

use crate::model::{KEYED, Model};
use crate::seat::Link;

/// Keys of the topic that is compacted: so many that most rest for a while, as a tombstone must before it goes.
const KEYS: u32 = 150;

/// Writes batch after batch until `ends`, each until it is acknowledged.
pub async fn write_loop(mut link: Link, place: Place, ends: fn(&Model) -> bool) {
    if let Some((producer, epoch)) = producer_id(&mut link).await {
        let mut stamp = Stamp { producer, epoch, sequence: 0 };
        while !link.is_over() && !ends(&link.model.borrow()) {
            let recipe = recipe(&link, place, stamp);
            stamp.sequence += recipe.records as i32;
            write(&mut link, place, &recipe).await;
            link.pause(if place.0 == KEYED { 600 } else { 2500 }).await;
        }
    }
    let mut model = link.model.borrow_mut();
    model.working -= 1;
    model.writing -= 1;
}

fn recipe(link: &Link, place: Place, stamp: Stamp) -> Recipe {
    let mut model = link.model.borrow_mut();
    Recipe {
        tag: model.tag(),
        records: 1 + model.below(4) as u32,
        value_bytes: 20 + model.below(100) as u32,
        stamp: Some(stamp),
        timestamp: link.shard.wall(),
        keys: if place.0 == KEYED { KEYS } else { 0 },
    }
}

async fn producer_id(link: &mut Link) -> Option<(i64, i16)> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        producer_id: ProducerId(-1),
        producer_epoch: ProducerEpoch(-1),
    };
    while !link.is_over() {
        let Some(reply) = link.call(&request, Duration::ZERO).await else { continue };
        let response: InitProducerIdResponse = reply.decode().expect("an answer of the protocol");
        if !response.error_code.is_error() {
            return Some((response.producer_id.0, response.producer_epoch.0));
        }
        link.pause(100).await;
    }
    None
}

/// Sends a batch until it is acknowledged: what is known to be written is all there is.
async fn write(link: &mut Link, place: Place, recipe: &Recipe) {
    let bytes = recipe.build();
    let (name, topic_id) = {
        let model = link.model.borrow();
        (model.topics[place.0].name, model.topics[place.0].id)
    };
    while !link.is_over() {
        let data = [PartitionProduceData { index: PartitionIndex(place.1), records: Records::Bytes(&bytes) }];
        let topics = [TopicProduceData { name, topic_id, partition_data: (&data).into() }];
        let request =
            ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 3000, topic_data: (&topics).into() };
        let Some(reply) = link.call(&request, Duration::ZERO).await else { continue };
        let response: ProduceResponse<'_> = reply.decode().expect("an answer of the protocol");
        let told = response.responses.iter().next().and_then(|topic| topic.partition_responses.iter().next());
        let told = told.expect("one partition was written to");
        match told.error_code {
            ErrorCode::None => {
                let mark = placed(&bytes, told.base_offset.0, LeaderEpoch(0));
                let mut model = link.model.borrow_mut();
                let partition = &mut model.topics[place.0].partitions[place.1 as usize];
                let end = partition.end();
                partition.written.push(Written { mark, rows: recipe.rows() });
                if mark.base != end {
                    model.fail(format!("{place:?}: a batch was put at {}, and the log ends at {end}", mark.base));
                }
                return;
            }
            ErrorCode::UnknownTopicId
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::RequestTimedOut => link.pause(50).await,
            code => return link.model.borrow_mut().fail(format!("{place:?}: a batch was refused: {code:?}")),
        }
    }
}
