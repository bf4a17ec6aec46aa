//! What a request may come to on the heap, from its arrival until its answer is taken: what is read from it, what is built for its answer,
//! the answer itself.
//!
//! A decoded message borrows from its frame and costs nothing. Everything else is at most so many bytes for each byte of the request
//! ([`Cost::per_byte`]; the smallest element of its arrays decides, and vectors that grow count three times), and what does not follow
//! from its length: elements that are few bytes for much work, answers that are about all there is.

use wire::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, DescribeTopicPartitionsRequest, FetchRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
};

use super::context::{Context, Refusal};
use super::describe_topic_partitions;
use crate::work::Lane;

/// Every request: its task, its header, its place among those that are owed an answer.
const REQUEST_BYTES: usize = 1 << 10;
/// One partition of a Produce: its outcome with a reason, its place in the answer.
const PRODUCE_PARTITION_BYTES: usize = 700;
/// One partition of a Fetch: what is wanted, where it is, who waits for it, what came of it. Its place in the answer is some hundred bytes more, for those with news
/// alone; that of one which is named is in the cost of the request's bytes.
const FETCH_PARTITION_BYTES: usize = 600;
/// One topic of either.
const TOPIC_BYTES: usize = 256;
/// A topic that CreateTopics describes, with all its settings.
const CREATED_TOPIC_BYTES: usize = 8 << 10;
/// A topic or broker that DescribeConfigs describes, with synonyms and documentation.
const DESCRIBED_RESOURCE_BYTES: usize = 24 << 10;
/// A partition in an answer of Metadata or DescribeTopicPartitions.
const PARTITION_BYTES: usize = 400;
/// A log in an answer of DescribeLogDirs: its size, its place in the map of sizes, in the answer.
const LOG_BYTES: usize = 300;
/// An offset of a group on its way: as it is asked for or kept, in a record, in the answer.
const OFFSET_BYTES: usize = 300;
/// What a group is told as.
const GROUP_ANSWER_BYTES: usize = 64 << 10;
/// The producers that DescribeProducers lists at most.
const PRODUCERS_BYTES: usize = 2 << 20;

/// What requests of an API may come to.
#[derive(Clone, Copy)]
pub struct Cost {
    /// For each byte of the request.
    pub per_byte: usize,
    /// And besides.
    beyond: fn(&Context) -> Result<usize, Refusal>,
}

/// So much for each byte and nothing besides.
pub const fn each(per_byte: usize) -> Cost {
    Cost { per_byte, beyond: |_| Ok(0) }
}

impl Cost {
    pub const fn and(self, beyond: fn(&Context) -> Result<usize, Refusal>) -> Self {
        Self { beyond, ..self }
    }

    /// What this request may come to.
    ///
    /// # Errors
    /// Bytes that are not the request they claim to be.
    pub fn of(&self, context: &Context) -> Result<usize, Refusal> {
        Ok(REQUEST_BYTES + context.frame.len() * self.per_byte + (self.beyond)(context)?)
    }

    /// The longest request that a lane of `limit_bytes` has room for.
    pub fn frame_bytes_max(&self, limit_bytes: usize) -> usize {
        limit_bytes.saturating_sub(REQUEST_BYTES).checked_div(self.per_byte).unwrap_or(usize::MAX)
    }
}

/// A Produce is long for its records, which are moved and not copied: its partitions count.
pub fn produce(context: &Context) -> Result<usize, Refusal> {
    if context.version < 3 {
        // Its answer repeats its partitions, at most six bytes with the growth of the answer for each byte of theirs.
        return Ok(context.frame.len() * 6);
    }
    let request: ProduceRequest<'_> = context.decode()?;
    let topic_bytes = |topic: wire::messages::produce::TopicProduceData<'_>| {
        TOPIC_BYTES + 3 * topic.name.len() + topic.partition_data.len() * PRODUCE_PARTITION_BYTES
    };
    Ok(request.topic_data.iter().map(topic_bytes).sum())
}

/// The partitions that a Fetch names, and those of its session; what it takes out of that is in its length.
pub fn fetch(context: &Context) -> Result<usize, Refusal> {
    let request: FetchRequest<'_> = context.decode()?;
    let named: usize =
        request.topics.iter().map(|topic| TOPIC_BYTES + topic.partitions.len() * FETCH_PARTITION_BYTES).sum();
    let known = context.node.fetch_sessions.partitions(request.session_id);
    Ok(named + known * FETCH_PARTITION_BYTES)
}

/// The offsets that a commit names: each is copied with its topic, and becomes a record with its group.
pub fn offset_commit(context: &Context) -> Result<usize, Refusal> {
    let request: OffsetCommitRequest<'_> = context.decode()?;
    let topic_bytes = |topic: wire::messages::offset_commit::OffsetCommitRequestTopic<'_>| {
        let names_bytes = 4 * (topic.name.len() + request.group_id.len());
        topic.partitions.len() * (OFFSET_BYTES + names_bytes)
    };
    Ok(request.topics.iter().map(topic_bytes).sum())
}

/// The offsets that are asked for by name; of a group whose offsets are all asked for, as many as answers about all there is come to.
pub fn offset_fetch(context: &Context) -> Result<usize, Refusal> {
    let request: OffsetFetchRequest<'_> = context.decode()?;
    let named = |name: &str, partitions: usize| partitions * (OFFSET_BYTES + 2 * name.len());
    let of_group: usize =
        request.topics.iter().flatten().map(|topic| named(topic.name, topic.partition_indexes.len())).sum();
    let of_groups: usize = request
        .groups
        .iter()
        .map(|group| {
            let topics = group.topics.iter().flatten();
            topics.map(|topic| named(topic.name, topic.partition_indexes.len())).sum::<usize>()
        })
        .sum();
    let asks_all = request.topics.is_none() || request.groups.iter().any(|group| group.topics.is_none());
    Ok(of_group + of_groups + if asks_all { group_answer(context)? } else { 0 })
}

/// An answer with what all members said, or all offsets: about a megabyte, as what is kept of a group is bounded by a batch.
pub fn group_answer(context: &Context) -> Result<usize, Refusal> {
    Ok(known_to(context, GROUP_ANSWER_BYTES))
}

/// What an answer about all there is comes to. `partitions_max` keeps it small; where a broker has more, from times when it had more memory, it is
/// answered one request after another rather than never.
fn known_to(context: &Context, bytes: usize) -> usize {
    bytes.min(context.node.work.limit_bytes(Lane::Other) / 2)
}

/// Each topic is told once, so the answer is at most about all there are.
pub fn metadata(context: &Context) -> Result<usize, Refusal> {
    let request: MetadataRequest<'_> = context.decode()?;
    let view = context.node.view();
    let asked = request.topics.iter().flatten().filter_map(|topic| match topic.name {
        Some(name) => view.topic(name),
        None => view.topic_by_id(topic.topic_id),
    });
    let all = known_to(context, view.topics().count() * TOPIC_BYTES + view.partition_count() * PARTITION_BYTES);
    let is_all = request.topics.as_ref().is_none_or(wire::Array::is_empty);
    let asked_bytes = |topic: &crate::cluster::Topic| topic.partitions.len() * PARTITION_BYTES;
    Ok(if is_all { all } else { asked.map(asked_bytes).sum::<usize>().min(all) })
}

pub fn create_topics(context: &Context) -> Result<usize, Refusal> {
    let request: CreateTopicsRequest<'_> = context.decode()?;
    Ok(request.topics.len() * CREATED_TOPIC_BYTES)
}

/// Each resource is told once, and only those that there are have settings to tell.
pub fn describe_configs(context: &Context) -> Result<usize, Refusal> {
    let request: DescribeConfigsRequest<'_> = context.decode()?;
    let resources = context.node.view().topics().count() + 2;
    Ok(request.resources.len().min(resources) * DESCRIBED_RESOURCE_BYTES)
}

pub fn describe_log_dirs(context: &Context) -> Result<usize, Refusal> {
    Ok(known_to(context, context.node.view().partition_count() * LOG_BYTES))
}

pub fn describe_producers(_: &Context) -> Result<usize, Refusal> {
    Ok(PRODUCERS_BYTES)
}

pub fn describe_topic_partitions(context: &Context) -> Result<usize, Refusal> {
    let request: DescribeTopicPartitionsRequest<'_> = context.decode()?;
    let view = context.node.view();
    let names = if request.topics.is_empty() { view.topics().count() } else { 0 };
    let partitions = view.partition_count().min(describe_topic_partitions::PARTITIONS_MAX);
    Ok(known_to(context, names * TOPIC_BYTES + partitions * PARTITION_BYTES))
}

/// Every topic's name, as a resource.
pub fn list_config_resources(context: &Context) -> Result<usize, Refusal> {
    Ok(known_to(context, context.node.view().topics().count() * TOPIC_BYTES))
}
