//! The API keys of Kafka 4.4, and what follows from them for headers and lengths.

use std::fmt;

/// One line per key: name, number, first flexible version (KIP-482).
macro_rules! api_keys {
    (@flexible none) => { None };
    (@flexible $version:literal) => { Some($version) };
    ($($name:ident = $code:literal, $flexible:tt;)*) => {
        /// An API of Kafka. Whether a broker serves it is its own affair.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(i16)]
        pub enum ApiKey {
            $($name = $code,)*
        }

        impl ApiKey {
            /// Every key, in order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The key of this number, if Kafka has one; 4 to 7 were retired with ZooKeeper.
            #[must_use]
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// As Kafka writes it, `Produce`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The first version with compact lengths and tagged fields.
            #[must_use]
            pub const fn flexible_from(self) -> Option<i16> {
                match self {
                    $(Self::$name => api_keys!(@flexible $flexible),)*
                }
            }
        }
    };
}

api_keys! {
    Produce = 0, 9;
    Fetch = 1, 12;
    ListOffsets = 2, 6;
    Metadata = 3, 9;
    OffsetCommit = 8, 8;
    OffsetFetch = 9, 6;
    FindCoordinator = 10, 3;
    JoinGroup = 11, 6;
    Heartbeat = 12, 4;
    LeaveGroup = 13, 4;
    SyncGroup = 14, 4;
    DescribeGroups = 15, 5;
    ListGroups = 16, 3;
    SaslHandshake = 17, none;
    ApiVersions = 18, 3;
    CreateTopics = 19, 5;
    DeleteTopics = 20, 4;
    DeleteRecords = 21, 2;
    InitProducerId = 22, 2;
    OffsetForLeaderEpoch = 23, 4;
    AddPartitionsToTxn = 24, 3;
    AddOffsetsToTxn = 25, 3;
    EndTxn = 26, 3;
    WriteTxnMarkers = 27, 1;
    TxnOffsetCommit = 28, 3;
    DescribeAcls = 29, 2;
    CreateAcls = 30, 2;
    DeleteAcls = 31, 2;
    DescribeConfigs = 32, 4;
    AlterConfigs = 33, 2;
    AlterReplicaLogDirs = 34, 2;
    DescribeLogDirs = 35, 2;
    SaslAuthenticate = 36, 2;
    CreatePartitions = 37, 2;
    CreateDelegationToken = 38, 2;
    RenewDelegationToken = 39, 2;
    ExpireDelegationToken = 40, 2;
    DescribeDelegationToken = 41, 2;
    DeleteGroups = 42, 2;
    ElectLeaders = 43, 2;
    IncrementalAlterConfigs = 44, 1;
    AlterPartitionReassignments = 45, 0;
    ListPartitionReassignments = 46, 0;
    OffsetDelete = 47, none;
    DescribeClientQuotas = 48, 1;
    AlterClientQuotas = 49, 1;
    DescribeUserScramCredentials = 50, 0;
    AlterUserScramCredentials = 51, 0;
    Vote = 52, 0;
    BeginQuorumEpoch = 53, 1;
    EndQuorumEpoch = 54, 1;
    DescribeQuorum = 55, 0;
    AlterPartition = 56, 0;
    UpdateFeatures = 57, 0;
    Envelope = 58, 0;
    FetchSnapshot = 59, 0;
    DescribeCluster = 60, 0;
    DescribeProducers = 61, 0;
    BrokerRegistration = 62, 0;
    BrokerHeartbeat = 63, 0;
    UnregisterBroker = 64, 0;
    DescribeTransactions = 65, 0;
    ListTransactions = 66, 0;
    AllocateProducerIds = 67, 0;
    ConsumerGroupHeartbeat = 68, 0;
    ConsumerGroupDescribe = 69, 0;
    ControllerRegistration = 70, 0;
    GetTelemetrySubscriptions = 71, 0;
    PushTelemetry = 72, 0;
    AssignReplicasToDirs = 73, 0;
    ListConfigResources = 74, 0;
    DescribeTopicPartitions = 75, 0;
    ShareGroupHeartbeat = 76, 0;
    ShareGroupDescribe = 77, 0;
    ShareFetch = 78, 0;
    ShareAcknowledge = 79, 0;
    AddRaftVoter = 80, 0;
    RemoveRaftVoter = 81, 0;
    UpdateRaftVoter = 82, 0;
    InitializeShareGroupState = 83, 0;
    ReadShareGroupState = 84, 0;
    WriteShareGroupState = 85, 0;
    DeleteShareGroupState = 86, 0;
    ReadShareGroupStateSummary = 87, 0;
    StreamsGroupHeartbeat = 88, 0;
    StreamsGroupDescribe = 89, 0;
    DescribeShareGroupOffsets = 90, 0;
    AlterShareGroupOffsets = 91, 0;
    DeleteShareGroupOffsets = 92, 0;
    StreamsGroupTopologyDescriptionUpdate = 93, 0;
    UnregisterController = 94, 0;
}

impl ApiKey {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Whether messages of this version have compact lengths and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        match self.flexible_from() {
            Some(first) => version >= first,
            None => false,
        }
    }

    /// The version of the header before a request of this version. Header 0, without a client id, belonged to version 0 of
    /// the retired ControlledShutdown alone.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the header before a response of this version. ApiVersions keeps header 0 for ever: its reader does not
    /// know yet what the broker speaks (KIP-511).
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        if !matches!(self, Self::ApiVersions) && self.is_flexible(version) { 1 } else { 0 }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;

    #[test]
    fn numbers_and_keys_match_both_ways() {
        for code in i16::MIN..=i16::MAX {
            assert!(ApiKey::from_code(code).is_none_or(|key| key.code() == code));
        }
        for key in ApiKey::ALL {
            assert_eq!(ApiKey::from_code(key.code()), Some(*key));
        }
        assert_eq!(ApiKey::ALL.len(), 91);
        assert_eq!(ApiKey::from_code(4), None);
    }

    #[test]
    fn headers_follow_the_key_and_the_version() {
        // key, version, request header, response header
        let table = [
            (ApiKey::Produce, 8, 1, 0),
            (ApiKey::Produce, 9, 2, 1),
            (ApiKey::ApiVersions, 2, 1, 0),
            (ApiKey::ApiVersions, 3, 2, 0),
            (ApiKey::ApiVersions, 5, 2, 0),
            (ApiKey::SaslHandshake, 1, 1, 0),
            (ApiKey::ConsumerGroupHeartbeat, 0, 2, 1),
            (ApiKey::Fetch, -1, 1, 0),
        ];
        for (key, version, request, response) in table {
            assert_eq!(key.request_header_version(version), request, "{key} {version}");
            assert_eq!(key.response_header_version(version), response, "{key} {version}");
        }
    }
}
