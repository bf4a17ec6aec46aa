//! Produce: batches go into their logs as the request arrives; the answer leaves when the pace says so.

use std::rc::Rc;

use base::{Instant, Offset};
use net::{OnClose, Reply, Started};
use wire::ErrorCode;
use wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData,
    TopicProduceResponse,
};

use super::super::broker::Broker;
use super::super::request::{Refusal, Request};
use super::super::store::{Store, TopicKey};

/// The first version that names topics by their ids.
const TOPIC_ID_VERSION: i16 = 13;

/// Appends every batch, and answers.
pub fn handle(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: ProduceRequest<'_> = request.decode()?;
    let (acknowledged_at, readable_at) = broker.times_of_produce(request.arrived);
    let refuse = match asked.acks {
        _ if asked.transactional_id.is_some() => Some(ErrorCode::InvalidRequest),
        -1..=1 => None,
        _ => Some(ErrorCode::InvalidRequiredAcks),
    };
    let mut failed = None;
    let response = {
        let mut store = broker.store.borrow_mut();
        let mut appending = Appending { store: &mut store, version: request.asker.version, refuse, readable_at };
        let responses: Vec<TopicProduceResponse<'_>> =
            asked.topic_data.iter().map(|topic| appending.topic(&topic)).collect();
        for partition in responses.iter().flat_map(|topic| &topic.partition_responses) {
            failed = failed.or(Some(partition.error_code).filter(|code| code.is_error()));
        }
        ProduceResponse { responses: responses.into(), ..Default::default() }
    };
    if asked.acks == 0 {
        // A client that wants no answer learns of a failure by the end of its connection, as from Kafka.
        let reply = failed.map_or(Reply::Nothing, |code| Reply::Close(format!("a Produce with acks=0 failed: {code}")));
        return Ok(Started::Done(reply));
    }
    let reply = request.asker.answer(&response)?;
    if acknowledged_at <= request.arrived {
        return Ok(Started::Done(reply));
    }
    let shard = broker.shard.clone();
    let later = Box::pin(async move {
        shard.sleep_until(acknowledged_at).await;
        reply
    });
    Ok(Started::Later(later, OnClose::Drop))
}

/// The batches of one request on their way into the logs.
struct Appending<'s> {
    store: &'s mut Store,
    version: i16,
    /// The whole request is refused.
    refuse: Option<ErrorCode>,
    readable_at: Instant,
}

impl Appending<'_> {
    fn topic<'a>(&mut self, topic: &TopicProduceData<'a>) -> TopicProduceResponse<'a> {
        let by_id = self.version >= TOPIC_ID_VERSION;
        let found = if by_id {
            self.store.topic(&TopicKey::Id(topic.topic_id)).map(|topic| topic.id).ok_or(ErrorCode::UnknownTopicId)
        } else {
            let found = self.store.topic_named(topic.name);
            found.map(|topic| topic.id).ok_or(ErrorCode::UnknownTopicOrPartition)
        };
        let found = self.refuse.map_or(found, Err);
        let mut append = |partition: PartitionProduceData<'_>| {
            let batch = partition.records.bytes().unwrap_or_default();
            let appended = found.and_then(|id| self.store.append(id, partition.index, batch, self.readable_at));
            let (base_offset, log_start_offset) = appended.unwrap_or((Offset(-1), Offset(-1)));
            PartitionProduceResponse {
                index: partition.index,
                error_code: appended.err().unwrap_or_default(),
                base_offset,
                log_start_offset,
                ..Default::default()
            }
        };
        TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: topic.partition_data.iter().map(&mut append).collect(),
        }
    }
}
