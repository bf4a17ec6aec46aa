//! Reads from the partitions of this shard, and the fetches that wait for more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use base::{Instant, LeaderEpoch, NO_EPOCH, Offset};
use shard::Slice;
use shard::sync::{Event, Marks, either};
use storage::{EpochEnd, ReadLimits};
use wire::ErrorCode;

use super::Partition;
use super::interest::Interest;
use crate::message::{FetchId, FetchTarget, FetchTask, Fetched, Patience, ReaderId, Scope};
use crate::node::Node;

/// The fetches of this shard that may wait for records, and be told by another to wait no longer. Clones are the same.
#[derive(Clone, Default)]
pub struct FetchCancels(Rc<RefCell<HashMap<FetchId, Event>>>);

impl FetchCancels {
    /// From now on the fetch can be told. A request is registered when it is taken up, before anything of it is awaited, so that the word
    /// to wait no longer, which may come right behind it, finds it.
    #[must_use]
    pub fn register(&self, id: FetchId) -> WaitingFetch {
        let cancelled = Event::new();
        self.0.borrow_mut().insert(id, cancelled.clone());
        WaitingFetch { cancels: self.clone(), id, cancelled }
    }

    /// Has a waiting fetch answer with what there is; without effect where it has been answered.
    pub fn cancel(&self, id: FetchId) {
        let cancelled = self.0.borrow_mut().remove(&id);
        if let Some(event) = cancelled {
            event.notify_all();
        }
    }
}

/// A fetch that may wait; forgotten when it ends in any way.
pub struct WaitingFetch {
    cancels: FetchCancels,
    id: FetchId,
    cancelled: Event,
}

impl WaitingFetch {
    fn is_cancelled(&self) -> bool {
        !self.cancels.0.borrow().contains_key(&self.id)
    }
}

impl Drop for WaitingFetch {
    fn drop(&mut self) {
        self.cancels.0.borrow_mut().remove(&self.id);
    }
}

/// What one reader wants of this shard's partitions.
#[derive(Default)]
pub struct Reader {
    interest: RefCell<Interest>,
    /// Places whose partitions have changed.
    marks: Marks,
}

/// The readers of this shard that want the same with fetch after fetch. Clones are the same.
#[derive(Clone, Default)]
pub struct Readers(Rc<RefCell<HashMap<ReaderId, Rc<Reader>>>>);

impl Readers {
    /// The reader of a task; a new one where none of that name is here. Called when the task is taken up, before anything of it is awaited: the
    /// word that the reader has gone may come right behind it.
    #[must_use]
    pub fn of(&self, task: &FetchTask) -> Rc<Reader> {
        match task.reader {
            Some(id) => self.0.borrow_mut().entry(id).or_default().clone(),
            None => Rc::default(),
        }
    }

    /// Without effect for one that is not here.
    pub fn forget(&self, id: ReaderId) {
        let forgotten = self.0.borrow_mut().remove(&id);
        drop(forgotten);
    }
}

/// A fetch under way. Dropped before its end, it leaves what it has read to the next.
struct UnderWay<'r>(&'r Reader);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.interest.borrow_mut().abandon();
    }
}

/// Reads what has news for the reader; waits until there is as much as is asked for, a target fails, the deadline passes or the fetch is cancelled.
pub async fn fetch(node: &Rc<Node>, reader: &Reader, task: FetchTask, waiting: &WaitingFetch) -> Vec<Fetched<Slice>> {
    let under_way = UnderWay(reader);
    let is_last = task.reader.is_none() && task.patience == Patience::None;
    let order = Order { scope: task.scope, max_bytes: task.max_bytes, is_watching: !is_last };
    {
        let mut interest = reader.interest.borrow_mut();
        interest.begin(task.scope);
        task.forgotten.into_iter().for_each(|place| interest.forget(place));
        interest.set(task.targets);
    }
    let is_over = || waiting.is_cancelled() || node.shard.now() >= task.deadline;
    if task.patience == Patience::Change && !is_over() {
        reader.wait_for_change(node, task.deadline, &waiting.cancelled).await;
    }
    reader.read(node, order).await;
    let min_bytes = if let Patience::Bytes(bytes) = task.patience { bytes } else { 0 };
    while !satisfied(min_bytes, reader.interest.borrow().answers()) && !is_over() {
        // Whoever waits keeps no records meanwhile.
        reader.interest.borrow_mut().release_records();
        let since = node.shard.now();
        reader.wait_for_change(node, task.deadline, &waiting.cancelled).await;
        node.request_meters.fetch_wait_ns.record_since(since, node.shard.now());
        reader.read(node, order).await;
    }
    let answers = reader.interest.borrow_mut().finish();
    drop(under_way);
    answers
}

fn satisfied(min_bytes: usize, answers: &[Fetched<Slice>]) -> bool {
    let bytes: usize = answers.iter().map(|answer| answer.bytes).sum();
    bytes >= min_bytes || answers.iter().any(Fetched::is_remarkable)
}

/// How a fetch looks at its targets.
#[derive(Clone, Copy)]
struct Order {
    scope: Scope,
    max_bytes: usize,
    /// Changes matter: the fetch may wait, or others follow it.
    is_watching: bool,
}

impl Reader {
    /// Resolves when a partition has changed since it was last read, or time is up.
    async fn wait_for_change(&self, node: &Node, deadline: Instant, cancelled: &Event) {
        let is_over = either(node.shard.sleep_until(deadline), cancelled.wait());
        either(self.marks.any(), is_over).await;
    }

    /// One look at all that may have news, in turn, within the bytes of the whole.
    async fn read(&self, node: &Node, order: Order) {
        let started = node.shard.now();
        let mut left_bytes = order.max_bytes;
        let mut found = false;
        let mut pass = {
            let mut interest = self.interest.borrow_mut();
            self.marks.take().into_iter().for_each(|place| interest.changed(place));
            interest.pass()
        };
        // Who has all the room filled looks no further, unless each is to be told how it stands.
        while order.scope == Scope::All || !found || left_bytes > 0 {
            let Some(target) = self.interest.borrow_mut().next(&mut pass) else { break };
            let answer = match node.partitions.get(target.log) {
                Some(partition) => {
                    if order.is_watching {
                        self.interest.borrow_mut().watch(target.place, partition.log.changed(), &self.marks);
                    }
                    read_one(node, &partition, &target, left_bytes, !found).await
                }
                None => Err(ErrorCode::NotLeaderOrFollower),
            };
            let answer = answer.unwrap_or_else(|error| Fetched::failed(target.place, target.log, error));
            found |= answer.bytes > 0;
            left_bytes = left_bytes.saturating_sub(answer.bytes);
            self.interest.borrow_mut().answer(&mut pass, &target, answer);
        }
        self.interest.borrow_mut().end(pass);
        node.request_meters.fetch_read_ns.record_since(started, node.shard.now());
    }
}

async fn read_one(
    node: &Node,
    partition: &Partition,
    target: &FetchTarget,
    left_bytes: usize,
    at_least_one: bool,
) -> Result<Fetched<Slice>, ErrorCode> {
    partition.check_epoch(target.current_epoch)?;
    let high_watermark = partition.high_watermark();
    let mut answer = Fetched {
        place: target.place,
        log: target.log,
        error: ErrorCode::None,
        high_watermark,
        log_start: partition.log.start_offset(),
        slices: Vec::new(),
        bytes: 0,
        diverging: None,
    };
    if target.last_fetched_epoch != NO_EPOCH {
        answer.diverging = diverging(partition, target)?;
        if answer.diverging.is_some() {
            return Ok(answer);
        }
    }
    if target.offset < answer.log_start || target.offset > partition.log.end_offset() {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let max_bytes = target.max_bytes.min(left_bytes);
    if target.offset >= high_watermark || (max_bytes == 0 && !at_least_one) {
        return Ok(answer);
    }
    let limits = ReadLimits { max_bytes, at_least_one_batch: at_least_one, upto: high_watermark };
    let meters = &node.request_meters;
    let (read, bytes) = match partition.log.read_tail(target.offset, &limits) {
        Some(read) => (read, &meters.fetched_tail_bytes),
        None => {
            let read = partition.log.read(target.offset, limits).await;
            (read.map_err(|error| partition.read_failed(&error))?, &meters.fetched_disk_bytes)
        }
    };
    bytes.add(read.bytes as u64);
    answer.slices = read.slices;
    answer.bytes = read.bytes;
    Ok(answer)
}

/// Where the client's log leaves this one, if it does (KIP-595). An epoch that this log has not come to is none to diverge from: the client
/// is told to start from an offset that exists.
fn diverging(partition: &Partition, target: &FetchTarget) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    match partition.log.epoch_end(target.last_fetched_epoch) {
        EpochEnd::Unknown => Err(ErrorCode::OffsetOutOfRange),
        EpochEnd::At { epoch, end } if epoch != target.last_fetched_epoch || end < target.offset => {
            Ok(Some((epoch, end)))
        }
        EpochEnd::At { .. } => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::FetchCancels;
    use crate::message::FetchId;
    use base::ShardId;

    #[test]
    fn a_fetch_is_called_off_however_early_and_forgotten_when_it_ends() {
        let cancels = FetchCancels::default();
        let id = |number| FetchId { shard: ShardId(0), number };
        let [first, second] = [1, 2].map(|number| cancels.register(id(number)));
        cancels.cancel(id(1));
        cancels.cancel(id(3));
        assert!(first.is_cancelled() && !second.is_cancelled());
        drop((first, second));
        assert!(cancels.0.borrow().is_empty());
    }
}
