//! Kafka's error codes (4.4): the one table of their numbers, names and whether a client may retry.

use std::fmt;

/// One line per code: variant, number, Kafka's name, whether a retry can help, what it means.
macro_rules! error_codes {
    (@retriable retriable) => { true };
    (@retriable final) => { false };
    ($($(#[$attribute:ident])? $variant:ident = $code:literal, $name:literal, $retry:ident, $message:literal;)*) => {
        /// What went wrong, as clients understand it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = $message] $(#[$attribute])? $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, in order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code of this number, if Kafka has one.
            #[must_use]
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// As Kafka writes it, `OFFSET_OUT_OF_RANGE`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Whether a client may expect the same request to succeed later.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self {
                    $(Self::$variant => error_codes!(@retriable $retry),)*
                }
            }

            /// What it means in a few words, for a response that has no better message.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)*
                }
            }
        }
    };
}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", final, "the broker met an error that has no code of its own";
    #[default]
    None = 0, "NONE", final, "no error";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", final, "the offset is outside the log of this partition";
    CorruptMessage = 2, "CORRUPT_MESSAGE", retriable, "a record batch is damaged: its checksum or its size is wrong";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", retriable, "this broker has no such topic or partition";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", final, "the fetch size is not valid";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", retriable, "the partition has no leader at the moment";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", retriable,
        "this broker is not the leader, or not a replica, of the partition";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", retriable, "the request was not done within its time";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", final, "the broker is not available";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", retriable,
        "this broker has no replica of the partition to read from";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", final, "a record batch is larger than the topic allows";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", final, "the controller epoch is out of date";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", final,
        "the metadata of an offset commit is larger than allowed";
    NetworkException = 13, "NETWORK_EXCEPTION", retriable, "the connection ended before the response came";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", retriable,
        "the coordinator is still loading its state";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", retriable, "the coordinator is not available";
    NotCoordinator = 16, "NOT_COORDINATOR", retriable, "this broker is not the coordinator asked for";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", final,
        "the name is not a valid topic name, or the topic may not be used so";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", final, "a record batch is larger than a segment";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", retriable,
        "the in-sync set is smaller than min.insync.replicas; nothing was written";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable,
        "the records were written, but the in-sync set had shrunk below min.insync.replicas";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", final, "acks is none of 0, 1 and -1";
    IllegalGeneration = 22, "ILLEGAL_GENERATION", final, "the generation of the group is not the current one";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", final,
        "the member has no protocol in common with its group";
    InvalidGroupId = 24, "INVALID_GROUP_ID", final, "the group id is not valid";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", final, "the group has no such member";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", final, "the session timeout is outside the broker's bounds";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", final, "the group is rebalancing; join again";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", final, "the offset commit is too large";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", final, "not allowed on this topic";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", final, "not allowed on this group";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", final, "not allowed on this cluster";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", final, "a record's timestamp is outside the topic's bounds";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", final, "the SASL mechanism is not enabled here";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", final, "the request does not fit the state of the SASL exchange";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", final, "this version of the API is not served";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", final, "a topic of this name exists already";
    InvalidPartitions = 37, "INVALID_PARTITIONS", final, "the number of partitions is not valid";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", final,
        "the replication factor is below 1 or above the number of brokers";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", final, "the assignment of replicas is not valid";
    InvalidConfig = 40, "INVALID_CONFIG", final, "a configuration setting is not valid";
    NotController = 41, "NOT_CONTROLLER", retriable, "this broker is not the controller";
    InvalidRequest = 42, "INVALID_REQUEST", final, "the request is malformed or contradicts itself";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", final,
        "the record format of the log cannot do this";
    PolicyViolation = 44, "POLICY_VIOLATION", final, "the request goes against the broker's policy";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", final, "the producer's sequence number leaves a gap";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", final,
        "the producer's sequence number was written before";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", final, "the producer's epoch is an old one";
    InvalidTxnState = 48, "INVALID_TXN_STATE", final, "the transaction's state does not allow this";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", final,
        "the producer id does not belong to the transactional id";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", final,
        "the transaction timeout is above transaction.max.timeout.ms";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", retriable,
        "another operation on the same transaction is under way";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", final,
        "the transaction coordinator has been replaced by a newer one";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", final,
        "not allowed on this transactional id";
    SecurityDisabled = 54, "SECURITY_DISABLED", final, "the broker has no authorizer, so there are no access rules";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", final, "the broker did not come to this part of the request";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", retriable, "the disk under the log failed";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", final, "the broker has no such log directory";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", final, "authentication failed";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", final, "the broker knows nothing of this producer id any more";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", final, "the partition is being reassigned";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", final, "delegation tokens are not enabled";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", final, "the broker has no such delegation token";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", final,
        "the principal is neither owner nor renewer of the token";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", final,
        "delegation tokens may not be asked for over this connection";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", final,
        "not allowed on delegation tokens";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", final, "the delegation token has expired";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", final, "the type of the principal is not supported";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", final, "the group still has members";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", final, "there is no such group";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", retriable, "there is no such fetch session";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", retriable,
        "the epoch of the fetch session is not the next one";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", retriable, "the leader has no listener of this name";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", final, "the broker does not allow topics to be deleted";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", retriable,
        "the leader epoch of the request is older than the broker's";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", retriable,
        "the leader epoch of the request is newer than the broker's";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", final,
        "the client cannot read the partition's compression";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", final, "the broker epoch is out of date";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", retriable, "a new leader does not know its high watermark yet";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", final, "the member has to join with the id it was just given";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", retriable,
        "the preferred leader is not available";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", final, "the group is full";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", final, "another member has taken over this group.instance.id";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", retriable, "no eligible leader is available";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", retriable, "the partition has the leader it should have";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", final, "the partition is not being reassigned";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", final,
        "the group is subscribed to the topic, so its offsets stay";
    InvalidRecord = 87, "INVALID_RECORD", final, "a record breaks a rule of the topic";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", retriable,
        "offsets of an open transaction are not decided yet";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", retriable,
        "a quota is used up; wait for the throttle time";
    ProducerFenced = 90, "PRODUCER_FENCED", final, "a newer producer uses the same transactional id";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", final, "the request names something that does not exist";
    DuplicateResource = 92, "DUPLICATE_RESOURCE", final, "the request names the same thing twice";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", final, "the credential does not meet the requirements";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", final, "sender or receiver is not among the voters";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", final, "the version of the update is not valid";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", final, "a feature could not be changed";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", final,
        "the principal of a forwarded request cannot be read";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", final, "there is no such snapshot";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", final, "the position is outside the snapshot";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", retriable, "this broker has no topic of this id";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", final, "another live broker has this id";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", final, "no broker is registered under this id";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", retriable, "the topic id does not match the log's";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", final, "the cluster id is not this cluster's";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", final, "there is no such transactional id";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", retriable,
        "the fetch session mixes topic names and topic ids";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", final, "a replica may not be in the in-sync set";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", final, "the partition changed, and so did its leader";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", final, "the offset is in tiered storage";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", final,
        "the member's epoch is fenced; give up all partitions and join again";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", final, "the instance id still belongs to another member";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", final, "the group does not support the assignor";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", final, "the member's epoch is old; retry after the next heartbeat";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", final,
        "the endpoint is of another type than the request needs";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", final, "the endpoint's type is not supported";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", final, "there is no controller of this id";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", final, "the telemetry subscription is unknown or outdated";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", final, "the telemetry is larger than the broker takes";
    InvalidRegistration = 119, "INVALID_REGISTRATION", final, "the controller refuses the registration";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", final, "the transaction cannot commit; abort it and go on";
    InvalidRecordState = 121, "INVALID_RECORD_STATE", final, "the record is not in a state to be acknowledged";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", retriable, "there is no such share session";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", retriable,
        "the epoch of the share session is not the next one";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", final, "the state epoch is not the coordinator's";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", final, "the key of the voter is not this replica's";
    DuplicateVoter = 126, "DUPLICATE_VOTER", final, "the voter is in the set already";
    VoterNotFound = 127, "VOTER_NOT_FOUND", final, "the voter is not in the set";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", final, "the regular expression is not valid";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", final,
        "the client's metadata is useless; start again from the bootstrap servers";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", final, "the topology is not valid";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", final,
        "the epoch of the topology is not valid";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", final, "the epoch of the topology is an old one";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", retriable,
        "there are as many share sessions as the broker allows";
    GroupDeletionFailed = 134, "GROUP_DELETION_FAILED", final, "a group could not be deleted; its own message says why";
    StreamsTopologyDescriptionUpdateFailed = 135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", final,
        "the description of the topology was refused; the message says why";
    ControllerIdNotRegistered = 136, "CONTROLLER_ID_NOT_REGISTERED", final, "no controller is registered under this id";
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// As clients read it: a number from the future is an error nonetheless.
    pub(crate) fn from_wire(code: i16) -> Self {
        Self::from_code(code).unwrap_or(Self::UnknownServerError)
    }

    #[must_use]
    pub fn is_error(self) -> bool {
        self != Self::None
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.code(), self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn codes_are_one_run_of_numbers_that_match_both_ways() {
        let codes: Vec<i16> = ErrorCode::ALL.iter().map(|error| error.code()).collect();
        assert_eq!(codes, (-1..=136).collect::<Vec<i16>>());
        for error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), Some(*error));
        }
        assert_eq!(ErrorCode::from_code(137), None);
        assert_eq!(ErrorCode::from_wire(137), ErrorCode::UnknownServerError);
    }

    #[test]
    fn names_are_the_variants_in_capitals() {
        for error in ErrorCode::ALL {
            let variant: String = error.name().split('_').map(capitalized).collect();
            assert_eq!(variant, format!("{error:?}"));
        }
    }

    fn capitalized(word: &str) -> String {
        word[..1].to_owned() + &word[1..].to_lowercase()
    }
}
