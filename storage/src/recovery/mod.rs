//! Recovery: from the manifests and journals of a data directory to logs that may be opened.

pub mod log_replay;
pub mod replay;
