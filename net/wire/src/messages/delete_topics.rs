//! DeleteTopics (key 20): by name, and from version 6 on by id as well (KIP-516).

use base::Uuid;

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DeleteTopics, versions = "1-6", reply = DeleteTopicsResponse<'r>)]
pub struct DeleteTopicsRequest<'a> {
    #[wire(versions = "6+")]
    pub topics: Array<'a, DeleteTopicState<'a>>,
    #[wire(versions = "0-5", ignorable)]
    pub topic_names: Array<'a, &'a str>,
    pub timeout_ms: i32,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DeleteTopicState<'a> {
    /// Null where the id says it.
    #[wire(versions = "6+", nullable = "6+")]
    pub name: Option<&'a str>,
    #[wire(versions = "6+")]
    pub topic_id: Uuid,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DeleteTopics, versions = "1-6")]
pub struct DeleteTopicsResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    pub responses: Array<'a, DeletableTopicResult<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DeletableTopicResult<'a> {
    /// Null where the topic was named by an id that does not exist, or that the client may not see.
    #[wire(nullable = "6+")]
    pub name: Option<&'a str>,
    #[wire(versions = "6+", ignorable)]
    pub topic_id: Uuid,
    pub error_code: ErrorCode,
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub error_message: Option<&'a str>,
}
