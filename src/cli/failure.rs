//! How a verb fails: an exit code, what happened and why, and what to do about it.
//!
//! One table maps the client's errors, so that every verb says the same about the same trouble.

use std::fmt::Display;

use client::Error;
use wire::ErrorCode;

use super::Exit;

/// A failure to report, once, on standard error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub exit: Exit,
    /// What failed and why.
    pub what: String,
    pub remedy: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, what: impl Display) -> Self {
        Self { exit, what: what.to_string(), remedy: None }
    }

    pub fn failed(what: impl Display) -> Self {
        Self::new(Exit::Failed, what)
    }

    #[must_use]
    pub fn remedy(self, remedy: impl Display) -> Self {
        Self { remedy: Some(remedy.to_string()), ..self }
    }

    /// Says it and gives the exit code.
    pub fn report(&self) -> Exit {
        eprintln!("tidemill: {}", self.what);
        if let Some(remedy) = &self.remedy {
            eprintln!("  {remedy}");
        }
        self.exit
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = if error.is_unreachable() { Exit::CannotConnect } else { Exit::Failed };
        let failure = Self::new(exit, &error);
        match remedy_of(&error) {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    }
}

fn remedy_of(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Connect { .. } | Error::Unreachable { .. } => {
            "is a broker running there? `tidemill serve` starts one; `--bootstrap HOST:PORT` names another address"
        }
        Error::TimedOut { .. } | Error::Closed { .. } => {
            "the broker may be overloaded or stopping: its log says more; then try again"
        }
        Error::NoTopic { .. } => "`tidemill topic list` shows what there is, `tidemill topic create` makes a new one",
        Error::NoPartition { .. } => "`tidemill topic describe TOPIC` shows its partitions",
        Error::Unsupported { .. } => "use the `tidemill` of the broker's release",
        Error::Refused { code, .. } => return remedy_of_code(*code),
        Error::Encode { .. } | Error::Decode { .. } | Error::Nonsense { .. } => return None,
    })
}

pub fn remedy_of_code(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::TopicAlreadyExists => {
            "choose another name, or delete the topic first: `tidemill topic delete TOPIC`"
        }
        ErrorCode::UnknownTopicOrPartition => "`tidemill topic list` shows what there is",
        ErrorCode::InvalidTopicException => "names have 1 to 249 letters, digits, dots, underscores and hyphens",
        ErrorCode::InvalidReplicationFactor => "`--replication-factor` is at most the number of brokers",
        ErrorCode::InvalidPartitions => "`--partitions` is at least 1",
        ErrorCode::MessageTooLarge => "raise the topic's `max.message.bytes`, or send less in one record",
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            "wait until enough replicas are in sync, or lower `min.insync.replicas`"
        }
        ErrorCode::KafkaStorageError => "the broker's disk is full or failing: its log says which",
        _ => return None,
    })
}
