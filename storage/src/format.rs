//! `<data>/format.toml`: what a data directory is, so that a program that does not understand it leaves it alone.
//!
//! Owner: shard 0, before recovery. Written once, durably, when the directory is first used; read at every start.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base::{BrokerId, Uuid};
use serde::{Deserialize, Serialize};
use shard::Shard;

/// The format that this program writes. A newer one is refused; an older one is migrated, once there is one.
pub const FORMAT_VERSION: u32 = 1;

/// In the data directory.
pub const FILE_NAME: &str = "format.toml";
/// The file beside it that a broker holds a lock on.
pub const LOCK_NAME: &str = "lock";
const FILE_BYTES_MAX: usize = 4096;

/// Whose data a directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub cluster_id: Uuid,
    pub node_id: BrokerId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    cluster_id: String,
    node_id: i32,
}

/// What can be told of any format: only its version.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Why a directory is left alone.
#[derive(Debug)]
pub enum FormatError {
    Io {
        path: PathBuf,
        error: io::Error,
    },
    /// The file can't be understood.
    Invalid {
        path: PathBuf,
        reason: String,
    },
    Newer {
        path: PathBuf,
        format: u32,
    },
    /// The directory belongs to another node.
    OtherNode {
        path: PathBuf,
        node: BrokerId,
        asked: BrokerId,
    },
    /// There is data and no format file.
    Missing {
        path: PathBuf,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Invalid { path, reason } => {
                write!(f, "{} can't be understood: {reason}; restore it from a copy of the directory", path.display())
            }
            Self::Newer { path, format } => write!(
                f,
                "{} says format {format}, and this version knows {FORMAT_VERSION}: run the version that wrote it, or a later one",
                path.display()
            ),
            Self::OtherNode { path, node, asked } => write!(
                f,
                "{} belongs to broker {node}, not {asked}: set broker-id = {node}, or choose another --data-dir",
                path.display()
            ),
            Self::Missing { path } => {
                write!(f, "{} is missing beside data: restore it, or choose an empty --data-dir", path.display())
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// Reads what a data directory is; makes it `node`'s, of the cluster `fresh`, where it is new.
///
/// # Errors
/// See [`FormatError`]; nothing was changed then.
pub async fn open(shard: &Shard, data_dir: &Path, node: BrokerId, fresh: Uuid) -> Result<Identity, FormatError> {
    let path = data_dir.join(FILE_NAME);
    let Some(identity) = read(shard, data_dir).await? else {
        let identity = Identity { cluster_id: fresh, node_id: node };
        let written = shard.fs().write_file_durably(&path, encode(&identity)).await;
        return written.map(|()| identity).map_err(|error| FormatError::Io { path, error });
    };
    if identity.node_id != node {
        return Err(FormatError::OtherNode { path, node: identity.node_id, asked: node });
    }
    Ok(identity)
}

/// What a data directory is, whoever asks; `None` where it has never been used.
///
/// # Errors
/// See [`FormatError`].
pub async fn read(shard: &Shard, data_dir: &Path) -> Result<Option<Identity>, FormatError> {
    let path = data_dir.join(FILE_NAME);
    let io = |error| FormatError::Io { path: path.clone(), error };
    let fs = shard.fs();
    if fs.stat(&path).await.map_err(io)?.is_some() {
        return decode(&path, &fs.read_file(&path, FILE_BYTES_MAX).await.map_err(io)?).map(Some);
    }
    if fs.stat(data_dir.join("shards")).await.map_err(io)?.is_some() {
        return Err(FormatError::Missing { path });
    }
    Ok(None)
}

fn encode(identity: &Identity) -> Vec<u8> {
    let content =
        Content { format: FORMAT_VERSION, cluster_id: identity.cluster_id.to_string(), node_id: identity.node_id.0 };
    toml::to_string(&content).expect("numbers and a plain string are TOML").into_bytes()
}

fn decode(path: &Path, content: &[u8]) -> Result<Identity, FormatError> {
    let invalid = |reason: String| FormatError::Invalid { path: path.to_owned(), reason };
    let text = std::str::from_utf8(content).map_err(|error| invalid(error.to_string()))?;
    let version: Version = toml::from_str(text).map_err(|error| invalid(error.message().to_owned()))?;
    if version.format > FORMAT_VERSION {
        return Err(FormatError::Newer { path: path.to_owned(), format: version.format });
    }
    let content: Content = toml::from_str(text).map_err(|error| invalid(error.message().to_owned()))?;
    let cluster_id = content.cluster_id.parse().map_err(|_| invalid("cluster_id is no id".to_owned()))?;
    Ok(Identity { cluster_id, node_id: BrokerId(content.node_id) })
}

#[cfg(test)]
mod tests {
    use super::{FormatError, Identity, decode, encode};
    use base::{BrokerId, Uuid};
    use std::path::Path;

    #[test]
    fn what_is_written_is_read_and_the_rest_is_refused() {
        let identity = Identity { cluster_id: Uuid::from_random(7, 9), node_id: BrokerId(3) };
        let path = Path::new("format.toml");
        assert_eq!(decode(path, &encode(&identity)).unwrap(), identity);
        let refused = |text: &str| decode(path, text.as_bytes()).unwrap_err();
        assert!(matches!(refused("format = 2\nnew = \"field\""), FormatError::Newer { format: 2, .. }));
        for text in ["", "format = 1", "format = 1\ncluster_id = \"x\"\nnode_id = 1", "format = \"1\"", "\u{0}"] {
            assert!(matches!(refused(text), FormatError::Invalid { .. }), "{text:?}");
        }
    }
}
