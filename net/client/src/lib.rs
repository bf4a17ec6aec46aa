//! The client: what the command line, the load generator, HTTP forwarding and the tests talk to a cluster with.
//!
//! Everything runs on a [`shard::Shard`]: connections, timers and tasks are the shard's, time and randomness come from its driver, so
//! a client can live in a simulated world. Nothing is ambient and nothing is `Send`.
//!
//! | to | use |
//! | --- | --- |
//! | write records | [`Producer`] |
//! | read records | [`Consumer`]; as a member of a group [`GroupConsumer`] |
//! | create, delete, list and describe topics, ask for offsets | the methods of [`Client`] in `admin` |
//! | change topics, see their settings | the methods of [`Client`] in `alter` and `settings` |
//! | list and describe groups, see and set how far they have read | the methods of [`Client`] in `groups` |
//! | ask who the cluster is, what log directories hold | the methods of [`Client`] in `cluster` |
//! | send any request to any or to one broker | [`Client::call_any`], [`Client::call`] |
//! | speak with one socket | [`Connection`] |
//!
//! Invariants: every wait has an end; dropping a future loses no more than its answer; an error says whether what it was about
//! may have happened all the same; bytes from a broker never panic.

mod address;
mod admin;
mod alter;
mod client;
mod cluster;
mod connection;
mod consumer;
mod error;
mod group;
mod groups;
mod metadata;
mod producer;
mod settings;
mod versions;
mod wait;

pub use admin::{CreatedTopic, ListedOffset, NewTopic, OffsetSpec};
pub use client::{Client, ClientOptions, Lane};
pub use cluster::{ClusterDescription, DescribedBroker, FinalizedFeature, LogDir};
pub use connection::{Answer, Connection, ConnectionOptions, Reply, Sending, Sent, Slot};
pub use consumer::{
    Assigned, ConsumeError, Consumer, ConsumerOptions, Corrupt, Fault, Fetched, OutOfRange, RecordBatch, Start,
};
pub use error::Error;
pub use group::{GroupConsumer, GroupError, GroupEvent, GroupOptions, GroupProtocol, Happened};
pub use groups::{DescribedGroup, DescribedMember, GroupOffset, ListedGroup};
pub use metadata::{Broker, Metadata, Partition, Topic};
pub use producer::{
    Acks, BatchOutcome, Delivered, Delivery, DeliveryError, OptionsError, Partitioner, Producer, ProducerOptions,
    ProducerRecord, SendError,
};
pub use settings::TopicSetting;
pub use versions::VersionTable;
pub use wait::RetryOptions;
