//! What the tasks of one thread share: its meter, its judge, the news for other threads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use base::{Instant, ShardId};
use shard::sync::Event;
use shard::{Mesh, Shard};

use super::setup::Setup;
use crate::measure::{Meter, Tally, Window};
use crate::membership::MemberTally;
use crate::verify::{Judge, News, Rules};

/// What threads tell each other.
#[derive(Debug)]
pub enum Message {
    /// To the first thread: this one's clients are connected.
    Ready,
    /// From the first thread: the run begins at this time.
    Begin(Instant),
    /// What producers were told of records whose partitions the receiver reads, by stream.
    News(Vec<(u32, News)>),
    /// No more news will come from the sender.
    NoMoreNews,
    /// From the first thread: the run can't begin.
    GiveUp,
}

/// A second of one thread that is over.
#[derive(Debug)]
pub struct Over {
    pub second: u32,
    pub tally: Tally,
}

/// The reasons why records failed that are told apart.
const REASONS_MAX: usize = 20;

/// A judge of a thread.
fn judge_of(setup: &Arc<Setup>) -> Judge {
    let workload = &setup.workload;
    let rules = Rules {
        run: setup.run,
        numbering: setup.numbering,
        streams: setup.numbering.partitions * workload.producers.max(1),
        enabled: workload.verify,
        idempotent: workload.idempotence,
        alone: setup.created.len() == setup.topics.len(),
    };
    let setup = setup.clone();
    let name = move |partition| {
        let (topic, index) = setup.place(partition);
        (topic.to_string(), index.0)
    };
    Judge::new(rules, Box::new(name))
}

/// A thread of the generator.
pub struct Local {
    pub shard: Shard,
    pub setup: Arc<Setup>,
    pub mesh: Mesh<Message>,
    pub meter: RefCell<Meter>,
    /// One; where groups read one for each group of this thread, in the order of their numbers.
    pub judges: RefCell<Vec<Judge>>,
    pub members: RefCell<MemberTally>,
    pub window: Window,
    pub reasons: RefCell<BTreeMap<String, u64>>,
    pub retried_batches: Cell<u64>,
    pub unsent: Cell<u64>,
    pub begin: Cell<Instant>,
    seconds: Sender<Over>,
    outbox: Vec<RefCell<Vec<(u32, News)>>>,
    posted: Event,
    /// The threads from which no more news will come.
    pub silent: Cell<u16>,
}

impl Local {
    pub fn new(
        shard: Shard,
        setup: Arc<Setup>,
        mesh: Mesh<Message>,
        window: Window,
        seconds: Sender<Over>,
    ) -> Rc<Self> {
        let outbox = (0..mesh.shards()).map(|_| RefCell::default()).collect();
        let local = Rc::new(Self {
            shard,
            setup,
            mesh,
            meter: RefCell::new(Meter::new(window)),
            judges: RefCell::default(),
            members: RefCell::default(),
            window,
            reasons: RefCell::default(),
            retried_batches: Cell::new(0),
            unsent: Cell::new(0),
            begin: Cell::new(Instant(u64::MAX)),
            seconds,
            outbox,
            posted: Event::new(),
            silent: Cell::new(0),
        });
        let judges = match &local.setup.workload.groups {
            Some(_) => local.groups().count(),
            None => 1,
        };
        local.judges.borrow_mut().extend((0..judges).map(|_| judge_of(&local.setup)));
        local
    }

    /// The groups whose members are on this thread.
    pub fn groups(&self) -> impl Iterator<Item = u32> + '_ {
        let count = self.setup.workload.groups.as_ref().map_or(0, |groups| groups.count);
        (0..count).filter(|group| self.thread_of(*group) == self.shard.id())
    }

    /// Nanoseconds since the run began; 0 before.
    pub fn now_ns(&self) -> u64 {
        self.shard.now().0.saturating_sub(self.begin.get().0)
    }

    /// The consumer that reads a partition.
    pub fn consumer_of(&self, partition: u32) -> u32 {
        partition % self.setup.workload.consumers.max(1)
    }

    /// The thread that a consumer or producer runs on.
    pub fn thread_of(&self, number: u32) -> ShardId {
        ShardId((number % u32::from(self.mesh.shards())) as u16)
    }

    /// Every thread but this one.
    pub fn others(&self) -> impl Iterator<Item = ShardId> + use<> {
        let own = self.shard.id();
        (0..self.mesh.shards()).map(ShardId).filter(move |thread| *thread != own)
    }

    /// Tells whoever reads the stream's partition what became of its records.
    pub fn tell(&self, stream: u32, news: News) {
        let workload = &self.setup.workload;
        if let Some(groups) = &workload.groups {
            (0..groups.count.min(u32::from(self.mesh.shards())))
                .for_each(|thread| self.tell_thread(thread, stream, news));
        } else if workload.consumers > 0 {
            self.tell_thread(self.consumer_of(self.setup.numbering.partition(stream)), stream, news);
        }
    }

    /// Tells the thread of a consumer, or of a group.
    fn tell_thread(&self, number: u32, stream: u32, news: News) {
        let thread = self.thread_of(number);
        if thread == self.shard.id() {
            self.hear(stream, news);
        } else {
            self.outbox[usize::from(thread.0)].borrow_mut().push((stream, news));
            self.posted.notify_one();
        }
    }

    /// Takes in news of records that this thread reads.
    pub fn hear(&self, stream: u32, news: News) {
        for judge in self.judges.borrow_mut().iter_mut() {
            let early = judge.told(stream, news);
            self.meter.borrow_mut().early(&early);
        }
    }

    /// Records were not acknowledged.
    pub fn failed(&self, count: u64, reason: String) {
        self.meter.borrow_mut().failed(count);
        let mut reasons = self.reasons.borrow_mut();
        let is_full = reasons.len() >= REASONS_MAX && !reasons.contains_key(&reason);
        *reasons.entry(if is_full { "other reasons".into() } else { reason }).or_default() += count;
    }

    /// Sends the second that is over to whoever collects them, if one is. Returns the time, for what is to be counted now.
    pub fn roll(&self) -> u64 {
        let now_ns = self.now_ns();
        let over = self.meter.borrow_mut().roll(now_ns);
        self.hand_over(over);
        now_ns
    }

    pub fn hand_over(&self, over: Option<(u32, Tally)>) {
        if let Some((second, tally)) = over {
            // Nobody collects them any more: the run is being given up.
            let _ = self.seconds.send(Over { second, tally });
        }
    }

    /// Carries news to the other threads, for ever.
    pub async fn carry(self: Rc<Self>) {
        loop {
            // From before the look, so that what is posted while a full mesh makes this wait is carried next.
            let posted = self.posted.wait();
            self.flush_news().await;
            posted.await;
        }
    }

    /// Carries what is there.
    pub async fn flush_news(&self) {
        for (thread, outbox) in (0..).zip(&self.outbox) {
            let news = outbox.take();
            if !news.is_empty() {
                self.mesh.post(ShardId(thread), Message::News(news)).await;
            }
        }
    }
}
