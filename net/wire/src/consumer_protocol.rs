//! What consumers of a classic group tell each other through the coordinator: the subscription that a member gives with
//! JoinGroup, and the assignment that the leader gives it with SyncGroup.
//!
//! To the coordinator both are bytes, but for three questions: which topics does the group read (OffsetDelete, the expiry of
//! offsets), what does a member own, and what is it to be told, where classic and new members share a group (KIP-848).
//!
//! Versions only ever append fields. So a reader takes a version above those it knows for the newest it knows and passes over
//! what follows, and a writer that answers a member writes the version that the member spoke ([`version_of`]).

use base::PartitionIndex;

use crate::{Array, DecodeError, DecodeFault, Decoder, Versioned, Wire};

/// The protocol type of groups whose members speak this.
pub const PROTOCOL_TYPE: &str = "consumer";

/// The newest version of both structs.
pub const VERSION_NEWEST: i16 = 3;

/// What a member wants to read, and what it has.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0-3")]
pub struct ConsumerProtocolSubscription<'a> {
    pub topics: Array<'a, &'a str>,
    /// The assignor's own.
    #[wire(nullable = "0+")]
    pub user_data: Option<&'a [u8]>,
    #[wire(versions = "1+", ignorable)]
    pub owned_partitions: Array<'a, TopicPartition<'a>>,
    /// The generation in which it came to own them; −1 for none.
    #[wire(versions = "2+", default = -1, ignorable)]
    pub generation_id: i32,
    #[wire(versions = "3+", nullable = "3+", ignorable)]
    pub rack_id: Option<&'a str>,
}

/// What a member is to read.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0-3")]
pub struct ConsumerProtocolAssignment<'a> {
    pub assigned_partitions: Array<'a, TopicPartition<'a>>,
    /// The assignor's own.
    #[wire(nullable = "0+")]
    pub user_data: Option<&'a [u8]>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicPartition<'a> {
    pub topic: &'a str,
    pub partitions: Array<'a, PartitionIndex>,
}

impl<'a> ConsumerProtocolSubscription<'a> {
    /// Reads a subscription of whatever version.
    ///
    /// # Errors
    /// A negative version, or bytes that are no subscription.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        read(bytes)
    }
}

impl<'a> ConsumerProtocolAssignment<'a> {
    /// Reads an assignment of whatever version.
    ///
    /// # Errors
    /// A negative version, or bytes that are no assignment.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        read(bytes)
    }
}

/// The version to answer the speaker of `bytes` at: its own, or the newest there is here.
///
/// # Errors
/// Less than a version, or a negative one.
pub fn version_of(bytes: &[u8]) -> Result<i16, DecodeError> {
    take_version(&mut Decoder::new(bytes))
}

fn take_version(decoder: &mut Decoder<'_>) -> Result<i16, DecodeError> {
    let start = *decoder;
    let version = decoder.take_i16()?;
    if version < 0 {
        return Err(start.fail(DecodeFault::UnsupportedVersion { name: "ConsumerProtocol", version }));
    }
    Ok(version.min(VERSION_NEWEST))
}

fn read<'a, T: Versioned<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let version = take_version(&mut decoder).map_err(|error| error.in_field(T::NAME))?;
    T::decode(&mut decoder, version)
}
