//! DescribeLogDirs (key 35): a broker's log directories and the size of each replica in them (KIP-113).

use base::PartitionIndex;

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DescribeLogDirs, versions = "1-5", reply = DescribeLogDirsResponse<'r>)]
pub struct DescribeLogDirsRequest<'a> {
    /// Null for all topics.
    #[wire(nullable = "0+", default = Some(Array::empty()))]
    pub topics: Option<Array<'a, DescribableLogDirTopic<'a>>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribableLogDirTopic<'a> {
    pub topic: &'a str,
    pub partitions: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DescribeLogDirs, versions = "1-5")]
pub struct DescribeLogDirsResponse<'a> {
    pub throttle_time_ms: i32,
    #[wire(versions = "3+", ignorable)]
    pub error_code: ErrorCode,
    pub results: Array<'a, DescribeLogDirsResult<'a>>,
}

/// A directory; the topics are those asked for that have a replica in it.
#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeLogDirsResult<'a> {
    pub error_code: ErrorCode,
    /// The absolute path.
    pub log_dir: &'a str,
    pub topics: Array<'a, DescribeLogDirsTopic<'a>>,
    /// The size of the volume that the directory is on, without what remote storage holds; −1 for unknown (KIP-827).
    #[wire(versions = "4+", default = -1, ignorable)]
    pub total_bytes: i64,
    /// What is left of `total_bytes` for the broker to use; −1 for unknown.
    #[wire(versions = "4+", default = -1, ignorable)]
    pub usable_bytes: i64,
    /// The directory takes no new replicas (KIP-1066).
    #[wire(versions = "5+", ignorable)]
    pub is_cordoned: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeLogDirsTopic<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, DescribeLogDirsPartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DescribeLogDirsPartition {
    pub partition_index: PartitionIndex,
    /// The bytes of the log's segments.
    pub partition_size: i64,
    /// By how many offsets this log ends before the high watermark, or a future log before the current one.
    pub offset_lag: i64,
    /// A future log: a copy that is made here and takes the current log's place when it has caught up.
    pub is_future_key: bool,
}
