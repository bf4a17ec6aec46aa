//! Which names a topic may have: Kafka's rules (`Topic.validate`, `Topic.hasCollision`).

use std::fmt;

/// The longest name, in bytes: a partition's folder name must fit 255 with its suffix.
pub const NAME_BYTES_MAX: usize = 249;

/// The name of the metadata log itself, which nobody creates.
pub const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Topics that clients take for the cluster's own by their names (`Topic.INTERNAL_TOPICS`).
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__share_group_state", "__transaction_state"];

/// Why a topic can't have a name. `INVALID_TOPIC_EXCEPTION`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicNameError {
    Empty,
    /// "." and ".." name folders.
    Dots,
    TooLong {
        bytes: usize,
    },
    /// Anything but ASCII letters, digits, '.', '_' and '-'.
    BadCharacter {
        character: char,
    },
}

impl fmt::Display for TopicNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a topic name can't be empty"),
            Self::Dots => f.write_str("a topic name can't be \".\" or \"..\""),
            Self::TooLong { bytes } => write!(f, "the topic name has {bytes} bytes; {NAME_BYTES_MAX} is the most"),
            Self::BadCharacter { character } => {
                write!(f, "the topic name contains {character:?}; ASCII letters, digits, '.', '_' and '-' are allowed")
            }
        }
    }
}

impl std::error::Error for TopicNameError {}

/// Checks a topic's name.
///
/// # Errors
/// The name breaks a rule.
pub fn check_topic_name(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if matches!(name, "." | "..") {
        return Err(TopicNameError::Dots);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(TopicNameError::TooLong { bytes: name.len() });
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name.chars().find(|c| !allowed(c)) {
        Some(character) => Err(TopicNameError::BadCharacter { character }),
        None => Ok(()),
    }
}

/// True when two names differ at most in '.' against '_': metric names can't tell such topics apart.
#[must_use]
pub fn names_collide(a: &str, b: &str) -> bool {
    let unified = |byte: u8| if byte == b'.' { b'_' } else { byte };
    a.len() == b.len() && a.bytes().map(unified).eq(b.bytes().map(unified))
}

/// Whether the cluster keeps its own state in a topic of that name; clients leave those out of listings unless they are asked for.
#[must_use]
pub fn is_internal_topic(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}
