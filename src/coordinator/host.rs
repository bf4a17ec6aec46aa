//! Runs the groups of one partition of `__consumer_offsets` on its log.
//!
//! Owner: the shard of the partition. Life cycle: begins when the partition is opened, reads its log, serves, ends with the partition. A *term* is the
//! time from one reading of the log to the next: it is over when an append is refused whose step has changed members already.
//!
//! Steps are taken by one task, each with its append, so the log has them in their order, and whoever asks may go away. Answers leave in that order
//! too, once what their step has appended, and all before it, is committed.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::{PartitionIndex, Uuid, WallTime};
use record::{BatchBuilder, BatchOptions, BuildError};
use shard::Class;
use shard::sync::{Event, either, oneshot};
use storage::{AppendError, AppendOptions, Durable};
use wire::{ErrorCode, STRING_BYTES_MAX};

use super::config::GroupConfig;
use super::effects::{Effects, Record};
use super::message::{GroupAnswer, GroupRequest, ListedGroup, Ticket};
use super::records;
use super::table::{GroupTable, Moment};
use super::topics::{TopicInfo, Topics};
use crate::cluster::View;
use crate::log_replay;
use crate::node::Node;
use crate::partition::Partition;

/// The topic that groups are kept in.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// `offsets.retention.check.interval.ms`
const EXPIRY_INTERVAL: Duration = Duration::from_secs(600);
/// After a term that failed, or a log that could not be read.
const RELOAD_AFTER: Duration = Duration::from_secs(1);
/// Records of one batch of those that need not be in one.
const RECORDS_PER_BATCH: usize = 1000;

/// The coordinators of a shard, by their partition.
#[derive(Default)]
pub struct Coordinators {
    running: RefCell<HashMap<PartitionIndex, Rc<Coordinator>>>,
    /// What all their groups come to on the heap.
    bytes: Cell<usize>,
}

/// The coordinator of the groups of one partition.
pub struct Coordinator {
    partition: Rc<Partition>,
    /// None while the log is being read.
    table: RefCell<Option<GroupTable>>,
    /// Requests that are yet to be taken up.
    inbox: RefCell<VecDeque<(GroupRequest, oneshot::Sender<GroupAnswer>)>>,
    /// Those that were, and are not answered.
    waiting: RefCell<HashMap<Ticket, oneshot::Sender<GroupAnswer>>>,
    tickets: Cell<Ticket>,
    /// Answers on their way out, oldest first, each behind what its step has appended.
    outgoing: RefCell<VecDeque<Outgoing>>,
    outgoing_changed: Event,
    /// A request has come, or the coordinator has stopped.
    woken: Event,
    stopped: Cell<bool>,
    term: Cell<u64>,
    /// What its groups came to when that was last looked at.
    bytes: Cell<usize>,
    /// How many topics had gone when their offsets were last forgotten; none in a term that is yet to look.
    topics_gone: Cell<Option<u64>>,
}

struct Outgoing {
    term: u64,
    durable: Option<Durable>,
    answers: Vec<(Ticket, GroupAnswer)>,
}

impl Coordinators {
    /// The coordinator on a partition that is here.
    #[must_use]
    pub fn get(&self, index: PartitionIndex) -> Option<Rc<Coordinator>> {
        self.running.borrow().get(&index).cloned()
    }

    /// All coordinators, by their partitions.
    #[must_use]
    pub fn all(&self) -> Vec<Rc<Coordinator>> {
        let mut all: Vec<_> = self.running.borrow().iter().map(|(index, running)| (*index, running.clone())).collect();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, running)| running).collect()
    }

    /// All groups that are coordinated here. LOAD_IN_PROGRESS where some are not known yet.
    ///
    /// # Errors
    /// `COORDINATOR_LOAD_IN_PROGRESS`.
    pub fn list(&self) -> Result<Vec<ListedGroup>, ErrorCode> {
        let mut listed = Vec::new();
        for coordinator in self.running.borrow().values() {
            let table = coordinator.table.borrow();
            let table = table.as_ref().ok_or(ErrorCode::CoordinatorLoadInProgress)?;
            listed.extend(table.list());
        }
        Ok(listed)
    }

    /// Ends the coordinator of a partition that goes.
    pub fn stop(&self, index: PartitionIndex) {
        if let Some(coordinator) = self.running.borrow_mut().remove(&index) {
            coordinator.stop();
            self.bytes.set(self.bytes.get() - coordinator.bytes.take());
        }
    }

    /// Ends all of them: the broker stops.
    pub fn stop_all(&self) {
        self.running.take().into_values().for_each(|coordinator| coordinator.stop());
    }
}

/// Begins to coordinate the groups of a partition that was opened.
pub fn start(node: &Rc<Node>, index: PartitionIndex, partition: Rc<Partition>) {
    let coordinator = Rc::new(Coordinator {
        partition,
        table: RefCell::new(None),
        inbox: RefCell::default(),
        waiting: RefCell::default(),
        tickets: Cell::new(0),
        outgoing: RefCell::default(),
        outgoing_changed: Event::new(),
        woken: Event::new(),
        stopped: Cell::new(false),
        term: Cell::new(0),
        bytes: Cell::new(0),
        topics_gone: Cell::new(None),
    });
    let log = &coordinator.partition.log;
    if log.start_offset() == log.end_offset() {
        // Nothing to read: whoever was told of the coordinator finds it ready.
        coordinator.begin_term(node, GroupTable::new(GroupConfig::of(&node.config)));
    }
    node.coordinators.running.borrow_mut().insert(index, coordinator.clone());
    let spawn = |task: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        node.shard.spawn_detached(Class::Normal, node.accounts.control.clone(), task);
    };
    spawn(Box::pin(run(node.clone(), coordinator.clone())));
    spawn(Box::pin(give_answers(coordinator)));
}

/// One term after another, until it is stopped.
async fn run(node: Rc<Node>, coordinator: Rc<Coordinator>) {
    while !coordinator.stopped.get() {
        let is_ready = coordinator.table.borrow().is_some();
        if is_ready || coordinator.load(&node).await {
            coordinator.serve(&node).await;
        }
        if !coordinator.stopped.get() {
            either(node.shard.sleep(RELOAD_AFTER), coordinator.woken.wait()).await;
        }
    }
}

/// Gives the answers, each once all appends up to its own are committed.
async fn give_answers(coordinator: Rc<Coordinator>) {
    loop {
        let changed = coordinator.outgoing_changed.wait();
        let next = coordinator.outgoing.borrow_mut().front_mut().map(|next| (next.term, next.durable.take()));
        let Some((term, durable)) = next else {
            if coordinator.stopped.get() {
                return;
            }
            changed.await;
            continue;
        };
        let lost = match durable {
            Some(durable) => durable.await.is_err(),
            None => false,
        };
        // Emptied meanwhile where the term has ended.
        let next = coordinator.outgoing.borrow_mut().pop_front_if(|next| next.term == term);
        if let Some(next) = next {
            for (ticket, answer) in next.answers {
                coordinator.give(ticket, if lost { answer.refused(ErrorCode::NotCoordinator) } else { answer });
            }
        }
    }
}

impl Coordinator {
    /// Looks at the groups, or keeps what was seen of them; `None` while the log is being read.
    pub fn with_table<T>(&self, f: impl FnOnce(&mut GroupTable) -> T) -> Option<T> {
        self.table.borrow_mut().as_mut().map(f)
    }

    /// Has a request taken up and waits for its answer.
    pub async fn ask(&self, request: GroupRequest) -> GroupAnswer {
        if self.table.borrow().is_none() {
            let code =
                if self.stopped.get() { ErrorCode::NotCoordinator } else { ErrorCode::CoordinatorLoadInProgress };
            return GroupAnswer::Unavailable(code);
        }
        let (sender, receiver) = oneshot::channel();
        self.inbox.borrow_mut().push_back((request, sender));
        self.woken.notify_all();
        receiver.await.unwrap_or(GroupAnswer::Unavailable(ErrorCode::NotCoordinator))
    }

    /// Takes up requests and keeps deadlines until the term ends.
    async fn serve(&self, node: &Node) {
        let term = self.term.get();
        let mut next_expiry = node.shard.now() + EXPIRY_INTERVAL;
        while self.term.get() == term {
            let woken = self.woken.wait();
            while let Some((request, sender)) = self.next_request() {
                self.forget_gone_topics(node).await;
                self.take_up(node, request, sender).await;
            }
            self.keep_deadlines(node).await;
            if node.shard.now() >= next_expiry {
                next_expiry = node.shard.now() + EXPIRY_INTERVAL;
                // Once more: the log may have refused it, or a commit have come that was on its way.
                self.topics_gone.set(None);
                self.forget_gone_topics(node).await;
                self.expire(node).await;
            }
            let deadline = self.table.borrow().as_ref().and_then(GroupTable::next_deadline);
            let deadline = deadline.map_or(next_expiry, |deadline| deadline.min(next_expiry));
            either(node.shard.sleep_until(deadline), woken).await;
        }
    }

    fn next_request(&self) -> Option<(GroupRequest, oneshot::Sender<GroupAnswer>)> {
        self.inbox.borrow_mut().pop_front()
    }

    async fn take_up(&self, node: &Node, request: GroupRequest, sender: oneshot::Sender<GroupAnswer>) {
        let ticket = self.tickets.replace(self.tickets.get() + 1);
        let id = member_id(node, &request);
        let (view, number) = (node.view(), node.view_number());
        let topics = ViewTopics { view: &view, number };
        let effects = {
            let mut table = self.table.borrow_mut();
            // Where the term has ended the sender is dropped, and who asks is told.
            let Some(table) = table.as_mut() else { return };
            table.set_own_settings(view.groups());
            table.set_full(node.coordinators.bytes.get() > node.config.heap_of_shard(node.mesh.shards()).group_bytes);
            table.handle(request, ticket, id, &topics, moment(node))
        };
        self.waiting.borrow_mut().insert(ticket, sender);
        self.carry_out(node, effects).await;
    }

    /// Appends what a step says and has its answers follow.
    async fn carry_out(&self, node: &Node, effects: Effects) {
        let Effects { records, answers, is_membership, .. } = effects;
        let mut durable = None;
        if !records.is_empty() {
            match self.append(node, &records).await {
                Ok(appended) => {
                    durable = Some(appended);
                    if let Some(table) = self.table.borrow_mut().as_mut() {
                        table.appended(records, moment(node));
                    }
                }
                Err(error) => {
                    tracing::warn!(partition = %self.partition.log.id().partition, %error, "group records are not kept");
                    if is_membership && !matches!(error, AppendError::TooLarge { .. }) {
                        self.end_term();
                        return;
                    }
                    let code = refusal(&error);
                    let refused = answers.into_iter().map(|(ticket, answer)| (ticket, answer.refused(code)));
                    self.send_out(None, refused.collect());
                    // It would be too large again and again, which is no reason for other groups to begin anew.
                    if is_membership && let Some(record) = records.first() {
                        self.revert(node, record.group()).await;
                    }
                    return;
                }
            }
        }
        self.weigh(node);
        self.send_out(durable, answers);
    }

    /// Counts what the groups come to now.
    fn weigh(&self, node: &Node) {
        let bytes = self.table.borrow().as_ref().map_or(0, GroupTable::bytes);
        let before = self.bytes.replace(bytes);
        node.coordinators.bytes.set(node.coordinators.bytes.get() - before + bytes);
    }

    fn send_out(&self, durable: Option<Durable>, answers: Vec<(Ticket, GroupAnswer)>) {
        if durable.is_none() && self.outgoing.borrow().is_empty() {
            answers.into_iter().for_each(|(ticket, answer)| self.give(ticket, answer));
            return;
        }
        self.outgoing.borrow_mut().push_back(Outgoing { term: self.term.get(), durable, answers });
        self.outgoing_changed.notify_all();
    }

    fn give(&self, ticket: Ticket, answer: GroupAnswer) {
        let sender = self.waiting.borrow_mut().remove(&ticket);
        if let Some(sender) = sender {
            // Who asked may have gone.
            let _ = sender.send(answer);
        }
    }

    async fn append(&self, node: &Node, records: &[Record]) -> Result<Durable, AppendError> {
        let now = node.shard.wall();
        let bytes = batch_of(records, now).map_err(|_| AppendError::TooLarge {
            bytes: i32::MAX as usize,
            bytes_limit: self.partition.log.config().max_message_bytes as usize,
        })?;
        let options = AppendOptions { leader_epoch: self.partition.leader_epoch(), append_time: None, wall_now: now };
        loop {
            // Taken before the attempt, so that room made in between is not missed.
            let room = self.partition.log.room();
            match self.partition.log.append(&bytes, options) {
                Ok(appended) => return Ok(appended.durable),
                Err(AppendError::Backpressure | AppendError::Busy) => room.await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn keep_deadlines(&self, node: &Node) {
        loop {
            let (view, number) = (node.view(), node.view_number());
            let topics = ViewTopics { view: &view, number };
            let due = self.table.borrow_mut().as_mut().and_then(|table| table.tick(&topics, moment(node)));
            let Some(effects) = due else { return };
            self.carry_out(node, effects).await;
        }
    }

    async fn expire(&self, node: &Node) {
        let Some(effects) = self.table.borrow().as_ref().map(|table| table.expire(moment(node))) else { return };
        self.remove(node, &effects.records).await;
    }

    /// Forgets the offsets of topics that have gone since it last did.
    async fn forget_gone_topics(&self, node: &Node) {
        let view = node.view();
        let gone = Some(view.gone_count());
        // A start reads the logs first: until its first view, which has all topics, none is known.
        if self.topics_gone.get() == gone || view.topic(OFFSETS_TOPIC).is_none() {
            return;
        }
        let is_there = |name: &str, id| view.topic(name).is_some_and(|topic| id == Uuid::ZERO || id == topic.id);
        let Some(effects) = self.table.borrow().as_ref().map(|table| table.forget_topics(is_there)) else { return };
        self.topics_gone.set(gone);
        self.remove(node, &effects.records).await;
    }

    /// Appends what takes out something, in as many batches as it comes to.
    async fn remove(&self, node: &Node, records: &[Record]) {
        for records in records.chunks(RECORDS_PER_BATCH) {
            self.carry_out(node, Effects { records: records.to_vec(), ..Effects::default() }).await;
        }
    }

    /// Has one group be what the log has of it.
    async fn revert(&self, node: &Node, group: &str) {
        let read = self.read(node, |record| record.group() == group).await;
        let (view, number) = (node.view(), node.view_number());
        let topics = ViewTopics { view: &view, number };
        let reverted = match (self.table.borrow_mut().as_mut(), read) {
            (Some(table), Some(read)) => {
                Some(table.revert(group, read, ErrorCode::UnknownServerError, &topics, moment(node)))
            }
            // Stopped meanwhile, or the log can't be read.
            _ => None,
        };
        match reverted {
            Some(Effects { answers, .. }) => {
                self.weigh(node);
                self.send_out(None, answers);
            }
            None => self.end_term(),
        }
    }

    /// Reads the log. False where that can't be done now.
    async fn load(&self, node: &Node) -> bool {
        let read = self.read(node, |_| true).await;
        match read {
            Some(table) if !self.stopped.get() => {
                self.begin_term(node, table);
                true
            }
            _ => false,
        }
    }

    /// What the wanted records of the log come to. None where it can't be read now.
    async fn read(&self, node: &Node, is_wanted: impl Fn(&Record) -> bool) -> Option<GroupTable> {
        let mut table = GroupTable::new(GroupConfig::of(&node.config));
        let now = moment(node);
        let log = &self.partition.log;
        let read = log_replay::records(log, log.end_offset(), |entry| {
            match records::decode(entry.key.unwrap_or_default(), entry.value) {
                Ok(Some(record)) if is_wanted(&record) => table.replay(record, now),
                Ok(Some(_)) => {}
                // Of a later version, or of a kind that is not kept here.
                Ok(None) => {}
                Err(error) => tracing::warn!(offset = entry.offset.0, %error, "a group record can't be read"),
            }
            Ok(())
        });
        if let Err(error) = read.await {
            tracing::warn!(partition = %log.id().partition, %error, "the groups of a partition can't be read");
            return None;
        }
        Some(table)
    }

    fn begin_term(&self, node: &Node, mut table: GroupTable) {
        let (view, number) = (node.view(), node.view_number());
        table.set_own_settings(view.groups());
        table.resume(&ViewTopics { view: &view, number }, moment(node));
        *self.table.borrow_mut() = Some(table);
        self.weigh(node);
        self.topics_gone.set(None);
        self.term.set(self.term.get() + 1);
    }

    /// Members have changed and the log does not know: all is read again, and who waits asks again.
    fn end_term(&self) {
        self.term.set(self.term.get() + 1);
        self.table.take();
        self.outgoing.take();
        self.inbox.take();
        let waiting = self.waiting.take();
        for sender in waiting.into_values() {
            let _ = sender.send(GroupAnswer::Unavailable(ErrorCode::NotCoordinator));
        }
        self.woken.notify_all();
    }

    fn stop(&self) {
        self.stopped.set(true);
        self.end_term();
        self.outgoing_changed.notify_all();
    }
}

fn batch_of(records: &[Record], now: WallTime) -> Result<Vec<u8>, BuildError> {
    let mut batch = BatchBuilder::new(BatchOptions::default());
    for record in records {
        let (key, value) = records::encode(record);
        batch.add(now, Some(&key), value.as_deref(), &[])?;
    }
    batch.finish()
}

/// The topics of the view that a shard has.
pub(super) struct ViewTopics<'v> {
    pub(super) view: &'v View,
    pub(super) number: u64,
}

impl Topics for ViewTopics<'_> {
    fn version(&self) -> u64 {
        self.number
    }

    fn topic(&self, name: &str) -> Option<TopicInfo> {
        let topic = self.view.topic(name)?;
        Some(TopicInfo { id: topic.id, partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX) })
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.view.topic_by_id(id).map(|topic| topic.name.as_str())
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.view.topics().map(|topic| topic.name.as_str()))
    }
}

pub(super) fn moment(node: &Node) -> Moment {
    Moment { instant: node.shard.now(), wall: node.shard.wall() }
}

/// An id for a member that has none: what it calls itself, and a random UUID behind it, as Kafka's.
fn member_id(node: &Node, request: &GroupRequest) -> String {
    match request {
        GroupRequest::ConsumerHeartbeat(beat) if beat.member_id.is_empty() => {
            uuid_text(node.shard.random(), node.shard.random())
        }
        GroupRequest::Join(join) if join.member_id.is_empty() => {
            let name = join.instance_id.as_ref().unwrap_or(&join.client_id);
            named_id(name, &uuid_text(node.shard.random(), node.shard.random()))
        }
        _ => String::new(),
    }
}

/// The name and the UUID; as much of the name as leaves the id a string of the protocol, which its records and answers must be able to carry.
fn named_id(name: &str, uuid: &str) -> String {
    let room = STRING_BYTES_MAX - 1 - uuid.len();
    format!("{}-{uuid}", &name[..name.floor_char_boundary(room)])
}

/// A random UUID (RFC 9562, version 4) in the form with hyphens.
fn uuid_text(high: u64, low: u64) -> String {
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    let (third, fourth) = ((high & 0xffff) as u16, (low >> 48) as u16);
    format!("{:08x}-{:04x}-{third:04x}-{fourth:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, low & 0xffff_ffff_ffff)
}

/// What an append that was refused is told as, as Kafka's coordinators do.
fn refusal(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::TooLarge { .. } => ErrorCode::InvalidCommitOffsetSize,
        AppendError::NoSpace(_) => ErrorCode::CoordinatorNotAvailable,
        AppendError::Offline | AppendError::Gone | AppendError::StaleEpoch { .. } => ErrorCode::NotCoordinator,
        _ => ErrorCode::UnknownServerError,
    }
}

impl GroupAnswer {
    /// The same answer where the step was not kept.
    fn refused(self, code: ErrorCode) -> Self {
        match self {
            Self::Committed(outcomes) => Self::Committed(vec![code; outcomes.len()]),
            Self::OffsetsDeleted(..) => Self::OffsetsDeleted(code, Vec::new()),
            Self::Done(ErrorCode::None) => Self::Done(code),
            Self::Joined(_) | Self::Synced(_) | Self::Left(_) | Self::ConsumerHeartbeat(_) => {
                // What is too large is told of commits alone.
                let is_size = code == ErrorCode::InvalidCommitOffsetSize;
                Self::Unavailable(if is_size { ErrorCode::UnknownServerError } else { code })
            }
            told => told,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::STRING_BYTES_MAX;

    use super::{named_id, uuid_text};

    #[test]
    fn an_id_is_a_string_of_the_protocol_whatever_its_member_calls_itself() {
        let uuid = uuid_text(0x0123_4567_89ab_cdef, u64::MAX);
        assert_eq!(uuid, "01234567-89ab-4def-bfff-ffffffffffff");
        assert_eq!(named_id("reader", &uuid), format!("reader-{uuid}"));
        assert_eq!(named_id("", &uuid), format!("-{uuid}"));
        for name in ["a".repeat(STRING_BYTES_MAX), "ü".repeat(STRING_BYTES_MAX / 2)] {
            let id = named_id(&name, &uuid);
            assert!(
                (STRING_BYTES_MAX - 1..=STRING_BYTES_MAX).contains(&id.len()) && id.ends_with(&uuid),
                "{}",
                id.len()
            );
        }
    }
}
