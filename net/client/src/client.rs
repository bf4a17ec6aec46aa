//! The client: brokers found from a bootstrap list, a connection to each as needed, metadata, and tries that end.
//!
//! Owner: the shard it was made on. Life cycle: connections open when they are first asked for and are opened anew when they have
//! ended; all close with the last handle.
//!
//! Invariants: at most one attempt to connect per connection and one metadata request per client are under way at a time;
//! every operation ends by its deadline; dropping any future leaves the client usable.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, Instant, LeaderEpoch, PartitionIndex};
use shard::sync::Semaphore;
use shard::{Account, Shard};
use wire::messages::metadata::MetadataRequestTopic;
use wire::messages::{MetadataRequest, MetadataResponse};
use wire::{ApiKey, Array, ErrorCode, Request};

use crate::address::resolve;
use crate::connection::{Connection, ConnectionOptions, Reply};
use crate::metadata::{Metadata, Topic};
use crate::wait::{Backoff, RetryOptions};
use crate::{Error, Sending};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `host:port` of some brokers; the others are learned from them.
    pub bootstrap: Vec<String>,
    pub connection: ConnectionOptions,
    /// How long an operation may take, with all its tries.
    pub timeout: Duration,
    pub retry: RetryOptions,
    /// What was heard longer ago is asked for anew.
    pub metadata_age_max: Duration,
    /// How long a topic may be unknown before that is believed: news reaches the brokers one after another.
    pub unknown_topic_wait: Duration,
    /// Whether asking for an unknown topic may create it, where the broker is so configured.
    pub create_topics: bool,
    /// The account that the client's tasks are charged to.
    pub account: String,
}

impl ClientOptions {
    /// The defaults, for these brokers.
    #[must_use]
    pub fn new(bootstrap: Vec<String>) -> Self {
        Self {
            bootstrap,
            connection: ConnectionOptions::default(),
            timeout: Duration::from_secs(60),
            retry: RetryOptions::default(),
            metadata_age_max: Duration::from_secs(300),
            unknown_topic_wait: Duration::from_secs(5),
            create_topics: false,
            account: "client".into(),
        }
    }
}

/// One of several connections to the same broker: a long poll on one does not hold up the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane(u32);

impl Lane {
    /// Metadata and administration.
    pub const CONTROL: Self = Self(0);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum LinkKey {
    Bootstrap(usize),
    Broker(BrokerId, Lane),
}

/// A connection that is, was or will be.
struct Link {
    /// Held by whoever connects.
    gate: Semaphore,
    connection: Option<(String, Connection)>,
}

/// A client. Clones are the same one.
#[derive(Clone)]
pub struct Client(Rc<Inner>);

struct Inner {
    shard: Shard,
    account: Account,
    options: ClientOptions,
    metadata: RefCell<Metadata>,
    refreshing: Semaphore,
    links: RefCell<BTreeMap<LinkKey, Link>>,
    next_lane: Cell<u32>,
    /// Which broker is asked first, so that the load is spread.
    next_broker: Cell<usize>,
}

impl Client {
    /// A client of the shard; connects to nobody yet.
    #[must_use]
    pub fn new(shard: &Shard, options: ClientOptions) -> Self {
        let next_broker = Cell::new(usize::try_from(shard.random() >> 33).unwrap_or(0));
        Self(Rc::new(Inner {
            shard: shard.clone(),
            account: shard.account(&options.account),
            options,
            metadata: RefCell::default(),
            refreshing: Semaphore::new(1),
            links: RefCell::default(),
            next_lane: Cell::new(1),
            next_broker,
        }))
    }

    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.0.shard
    }

    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    pub(crate) fn account(&self) -> Account {
        self.0.account.clone()
    }

    /// When an operation that starts now has to be over.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.0.shard.now() + self.0.options.timeout
    }

    /// A lane nobody else uses.
    #[must_use]
    pub fn new_lane(&self) -> Lane {
        let lane = self.0.next_lane.get();
        self.0.next_lane.set(lane.wrapping_add(1).max(1));
        Lane(lane)
    }

    /// A connection to a broker on a lane: the one there is, or a new one. One attempt.
    ///
    /// # Errors
    /// The broker is unknown or can't be connected to.
    pub async fn connection(&self, broker: BrokerId, lane: Lane) -> Result<Connection, Error> {
        let address = self.0.metadata.borrow().broker(broker).map(crate::Broker::address);
        let Some(address) = address else {
            let cause = "the cluster does not list it".into();
            return Err(Error::Connect { address: format!("broker {broker}"), cause });
        };
        self.link(LinkKey::Broker(broker, lane), &address).await
    }

    /// The connection to a broker on a lane, if there is one now.
    #[must_use]
    pub fn live_connection(&self, broker: BrokerId, lane: Lane) -> Option<Connection> {
        let links = self.0.links.borrow();
        let (at, connection) = links.get(&LinkKey::Broker(broker, lane))?.connection.as_ref()?;
        let moved = self.0.metadata.borrow().broker(broker).is_none_or(|known| known.address() != *at);
        (!moved && !connection.is_closed()).then(|| connection.clone())
    }

    /// Lets the connections of a lane go, which end with their last handle.
    pub(crate) fn close_lane(&self, lane: Lane) {
        let mut links = self.0.links.borrow_mut();
        let of_lane = links.iter_mut().filter(|(key, _)| matches!(key, LinkKey::Broker(_, of) if *of == lane));
        let closed: Vec<_> = of_lane.filter_map(|(_, link)| link.connection.take()).collect();
        drop(links);
        drop(closed);
    }

    /// A connection to any broker. One attempt at each, the known ones first, then the bootstrap list.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with the reason of each.
    pub async fn any_connection(&self) -> Result<Connection, Error> {
        let mut causes = Vec::new();
        for (key, address) in self.candidates() {
            match self.link(key, &address).await {
                Ok(connection) => return Ok(connection),
                Err(cause) => causes.push(cause),
            }
        }
        Err(Error::Unreachable { causes })
    }

    /// Whom to ask, in order: a different broker first each time.
    fn candidates(&self) -> Vec<(LinkKey, String)> {
        let metadata = self.0.metadata.borrow();
        let mut known: Vec<_> =
            metadata.brokers().map(|b| (LinkKey::Broker(b.id, Lane::CONTROL), b.address())).collect();
        let turn = self.0.next_broker.get();
        self.0.next_broker.set(turn.wrapping_add(1));
        if !known.is_empty() {
            let first = turn % known.len();
            known.rotate_left(first);
        }
        let bootstrap = self.0.options.bootstrap.iter().enumerate();
        known.extend(bootstrap.map(|(index, address)| (LinkKey::Bootstrap(index), address.clone())));
        known
    }

    async fn link(&self, key: LinkKey, address: &str) -> Result<Connection, Error> {
        let live = || {
            let links = self.0.links.borrow();
            let (at, connection) = links.get(&key)?.connection.as_ref()?;
            (at == address && !connection.is_closed()).then(|| connection.clone())
        };
        if let Some(connection) = live() {
            return Ok(connection);
        }
        let gate = {
            let mut links = self.0.links.borrow_mut();
            links.entry(key).or_insert_with(|| Link { gate: Semaphore::new(1), connection: None }).gate.clone()
        };
        let _connecting = gate.acquire(1).await.expect("the gate is never closed");
        if let Some(connection) = live() {
            return Ok(connection);
        }
        let connection = self.connect(address).await?;
        let mut links = self.0.links.borrow_mut();
        let link = links.get_mut(&key).expect("links are never removed");
        let old = link.connection.replace((address.to_owned(), connection.clone()));
        drop(links);
        drop(old);
        Ok(connection)
    }

    /// Tries each address behind `host:port`.
    async fn connect(&self, address: &str) -> Result<Connection, Error> {
        let Inner { shard, account, options, .. } = &*self.0;
        let mut last = None;
        for candidate in resolve(shard, address).await? {
            match Connection::open(shard, account, candidate, options.connection.clone()).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("a resolved name has an address"))
    }

    /// Tries until it goes well, an error comes that another try can't mend, or `deadline` does.
    ///
    /// # Errors
    /// The last try's.
    pub async fn retrying<T>(
        &self,
        deadline: Instant,
        mut attempt: impl AsyncFnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (shard, started) = (&self.0.shard, self.0.shard.now());
        let mut backoff = Backoff::new(self.0.options.retry);
        let mut last = None;
        loop {
            let error = match shard.until(deadline, attempt()).await {
                Some(Ok(value)) => return Ok(value),
                Some(Err(error)) => error,
                None => {
                    let after = deadline - started;
                    return Err(last.unwrap_or(Error::TimedOut { what: "the cluster".into(), after }));
                }
            };
            let again = shard.now() + backoff.next(shard.random());
            if !error.is_retriable() || again >= deadline {
                return Err(error);
            }
            last = Some(error);
            shard.sleep_until(again).await;
        }
    }

    /// Sends a request to any broker, again after failures of the connection. Error codes in the answer are the caller's.
    ///
    /// # Errors
    /// No answer within [`ClientOptions::timeout`], or a request that the broker can't read.
    pub async fn call_any<'q, R: Request<'q>>(&self, request: &R) -> Result<Reply, Error> {
        self.retrying(self.deadline(), async || self.any_connection().await?.call(request).await).await
    }

    /// Sends a request to one broker. One attempt.
    ///
    /// # Errors
    /// The broker can't be reached, or does not answer.
    pub async fn call<'q, R: Request<'q>>(&self, broker: BrokerId, request: &R) -> Result<Reply, Error> {
        self.connection(broker, Lane::CONTROL).await?.call(request).await
    }

    /// As [`Client::call`], with a wait that the request asks of the broker.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_waiting<'q, R: Request<'q>>(
        &self,
        broker: BrokerId,
        request: &R,
        wait: Duration,
    ) -> Result<Reply, Error> {
        let connection = self.connection(broker, Lane::CONTROL).await?;
        let version = connection.version::<R>()?;
        let slot = connection.slot().await?;
        connection.start(slot, version, request, Sending { wait, ..Sending::default() })?.wait().await
    }

    /// A look at what is known now.
    pub fn with_metadata<T>(&self, look: impl FnOnce(&Metadata) -> T) -> T {
        look(&self.0.metadata.borrow())
    }

    /// The topic: as known, or asked for. Waits for [`ClientOptions::unknown_topic_wait`] for one that does not exist.
    ///
    /// # Errors
    /// The topic does not exist or may not be seen, or nobody answers.
    pub async fn topic(&self, name: &str) -> Result<Rc<Topic>, Error> {
        if let Some(topic) = self.known_topic(name) {
            return Ok(topic);
        }
        let unknown_until = self.0.shard.now() + self.0.options.unknown_topic_wait;
        self.retrying(self.deadline(), async || match self.ask_for_topic(name).await {
            Err(error)
                if error.code() == Some(ErrorCode::UnknownTopicOrPartition) && self.0.shard.now() >= unknown_until =>
            {
                Err(Error::NoTopic { topic: name.to_owned() })
            }
            other => other,
        })
        .await
    }

    /// The topic, if it is known and that is not too long ago.
    #[must_use]
    pub fn known_topic(&self, name: &str) -> Option<Rc<Topic>> {
        self.known_topic_at(name, self.0.shard.now())
    }

    /// As [`Client::known_topic`], for who has just looked at the clock.
    pub(crate) fn known_topic_at(&self, name: &str, now: Instant) -> Option<Rc<Topic>> {
        let age_max = self.0.options.metadata_age_max;
        let oldest = Instant(now.0.saturating_sub(u64::try_from(age_max.as_nanos()).unwrap_or(u64::MAX)));
        self.0.metadata.borrow().topic_since(name, oldest).cloned()
    }

    /// Has the topic asked for anew when it is next needed: a broker said that what is known of it is wrong.
    pub fn doubt_topic(&self, name: &str) {
        self.0.metadata.borrow_mut().doubt_topic(name);
    }

    async fn ask_for_topic(&self, name: &str) -> Result<Rc<Topic>, Error> {
        let asked = self.0.shard.now();
        let _turn = self.0.refreshing.acquire(1).await.expect("never closed");
        // Another's question may have brought the answer while this one waited.
        if let Some(topic) = self.0.metadata.borrow().topic_since(name, asked) {
            return Ok(topic.clone());
        }
        let topics = [MetadataRequestTopic { name: Some(name), ..Default::default() }];
        self.ask_for_metadata(Some((&topics).into())).await?;
        let metadata = self.0.metadata.borrow();
        metadata
            .topic_since(name, asked)
            .cloned()
            .ok_or_else(|| Error::refused(format!("topic {name}"), ErrorCode::UnknownTopicOrPartition, None))
    }

    /// Asks any broker for these topics (`None`: all) and takes the answer in. One attempt.
    ///
    /// # Errors
    /// Nobody answers, or one of the topics may not be had for a reason other than not existing.
    pub async fn ask_for_metadata(&self, topics: Option<Array<'_, MetadataRequestTopic<'_>>>) -> Result<Reply, Error> {
        let connection = self.any_connection().await?;
        let allow_auto_topic_creation = self.0.options.create_topics;
        let request = MetadataRequest { topics, allow_auto_topic_creation, ..Default::default() };
        let reply = connection.call(&request).await?;
        let response: MetadataResponse<'_> = reply.decode()?;
        connection.throttle(response.throttle_time_ms);
        if response.error_code.is_error() {
            return Err(Error::refused("metadata", response.error_code, None));
        }
        self.0.metadata.borrow_mut().update(&response, self.0.shard.now());
        for topic in &response.topics {
            if topic.error_code.is_error() && topic.error_code != ErrorCode::UnknownTopicOrPartition {
                let name = topic.name.unwrap_or("without a name");
                return Err(Error::refused(format!("topic {name}"), topic.error_code, None));
            }
        }
        if response.brokers.is_empty() {
            return Err(Error::Nonsense { key: ApiKey::Metadata, what: "a cluster without a broker" });
        }
        drop(response);
        Ok(reply)
    }

    /// The leader of a partition and its epoch, as known or asked for. One attempt.
    ///
    /// # Errors
    /// No such partition, no leader, nobody answers.
    pub async fn leader(&self, topic: &str, partition: PartitionIndex) -> Result<(BrokerId, LeaderEpoch), Error> {
        let known = match self.known_topic(topic) {
            Some(known) => known,
            None => self.ask_for_topic(topic).await?,
        };
        leader_in(&known, partition).inspect_err(|_| self.doubt_topic(topic))
    }

    /// The leader, if it is known without asking.
    #[must_use]
    pub fn known_leader(&self, topic: &str, partition: PartitionIndex) -> Option<(BrokerId, LeaderEpoch)> {
        leader_in(&*self.known_topic(topic)?, partition).ok()
    }
}

fn leader_in(topic: &Topic, index: PartitionIndex) -> Result<(BrokerId, LeaderEpoch), Error> {
    let Some(partition) = topic.partition(index) else {
        let partition_count = topic.partitions.len();
        return Err(Error::NoPartition { topic: topic.name.to_string(), partition: index.0, partition_count });
    };
    let leader = partition.leader.map(|leader| (leader, partition.leader_epoch));
    leader.ok_or_else(|| Error::refused(format!("{}-{index}", topic.name), ErrorCode::LeaderNotAvailable, None))
}
