//! Reads a manifest's copy record by record.

use std::io;

use base::{KIB, MIB};
use shard::File;
use storage::manifest::{LogRecord, MANIFEST_BYTES_MAX, ManifestError, ManifestHead, PAYLOAD_AT, StoredHead};
use storage::recovery::image::read_file_range;

const PIECE_BYTES: u64 = 128 * KIB as u64;
/// The record of one log: its producers are most of it, and a hundred thousand of them are 14 MiB.
const RECORD_BYTES_MAX: u32 = 64 * MIB as u32;

/// What a copy was found to be.
#[derive(Debug)]
pub enum Copy {
    /// It was never written, or a crash came while it was: the other one counts.
    Blank,
    Whole(ManifestHead),
    /// Written by a newer release.
    Newer {
        format: u32,
    },
    Damaged {
        position: u64,
        what: String,
        /// Where the head itself is sound.
        head: Option<ManifestHead>,
    },
}

/// Reads a copy to its end and gives each record, with its position, to `each`, up to the first that makes no sense. Records of a damaged
/// copy are given too, for what they are worth.
pub async fn read(
    file: &File,
    mut head: impl FnMut(&StoredHead),
    mut each: impl FnMut(u64, &LogRecord),
) -> io::Result<Copy> {
    let block = read_file_range(file, 0, PAYLOAD_AT as u64).await?;
    if StoredHead::is_blank(&block) {
        return Ok(Copy::Blank);
    }
    let stored = match StoredHead::decode(&block) {
        Ok(stored) => stored,
        Err(ManifestError::Format { format }) => return Ok(Copy::Newer { format }),
        Err(error) => {
            let what = format!("the head of the manifest is damaged: {error}");
            return Ok(Copy::Damaged { position: 0, what, head: None });
        }
    };
    head(&stored);
    let damaged = |position, what| Ok(Copy::Damaged { position, what, head: Some(stored.head) });
    let end = (PAYLOAD_AT as u64).saturating_add(stored.payload_bytes);
    if end > file.bytes_at_open() || end > MANIFEST_BYTES_MAX as u64 {
        let bytes = file.bytes_at_open();
        return damaged(bytes, format!("the manifest ends at byte {bytes}, where its records go on to byte {end}"));
    }
    let sound_to = records(file, &stored, end, &mut each).await?;
    if checksum(file, end).await? != stored.payload_checksum {
        let position = sound_to.unwrap_or(PAYLOAD_AT as u64);
        let what = format!("the checksum of the manifest's records, bytes {PAYLOAD_AT} to {end}, is wrong");
        return damaged(position, what);
    }
    match sound_to {
        None => Ok(Copy::Whole(stored.head)),
        Some(position) => {
            damaged(position, "the checksum of the manifest is right, and this record makes no sense".to_owned())
        }
    }
}

async fn checksum(file: &File, end: u64) -> io::Result<u32> {
    let (mut at, mut checksum) = (PAYLOAD_AT as u64, 0);
    while at < end {
        let piece = read_file_range(file, at, (end - at).min(PIECE_BYTES)).await?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        checksum = storage::manifest::checksum_of(checksum, &piece);
        at += piece.len() as u64;
    }
    Ok(checksum)
}

/// Where the first record that makes no sense begins, if there is one.
async fn records(
    file: &File,
    stored: &StoredHead,
    end: u64,
    each: &mut impl FnMut(u64, &LogRecord),
) -> io::Result<Option<u64>> {
    let mut at = PAYLOAD_AT as u64;
    let mut last = None;
    for _ in 0..stored.log_count {
        let length = read_file_range(file, at, 4).await?;
        let length = length.try_into().ok().map(u32::from_be_bytes).filter(|length| *length <= RECORD_BYTES_MAX);
        let Some(length) = length.map(u64::from).filter(|length| at + 4 + length <= end) else { return Ok(Some(at)) };
        let record = LogRecord::decode(&read_file_range(file, at + 4, length).await?);
        let Some(record) = record.ok().filter(|record| last.is_none_or(|last| last < record.id)) else {
            return Ok(Some(at));
        };
        last = Some(record.id);
        each(at, &record);
        at += 4 + length;
    }
    Ok((at != end).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::log::open;
    use crate::cli::session::on_shard;
    use base::{PartitionIndex, ShardId, Uuid, WallTime};
    use storage::LogId;
    use storage::manifest::Manifest;
    use storage::segment::SegmentMeta;

    fn manifest() -> Vec<u8> {
        let log = |number| LogRecord {
            id: LogId { topic_id: Uuid([7; 16]), partition: PartitionIndex(number) },
            topic: "orders".into(),
            segments: vec![SegmentMeta::new(base::Offset(0), WallTime(5))],
            ..LogRecord::default()
        };
        let head = ManifestHead { shard: ShardId(0), version: 9, ..ManifestHead::default() };
        Manifest { head, logs: vec![log(0), log(1)] }.encode()
    }

    /// What a copy of these bytes is, in a word with the place of the damage, and how many records were given.
    fn check(bytes: &[u8]) -> (String, usize) {
        let dir = std::env::temp_dir().join(format!("tidemill-manifest-{}", std::process::id()));
        std::fs::write(&dir, bytes).expect("written");
        let path = dir.clone();
        let found = on_shard(move |shard| async move {
            let file = open(&shard, &path).await.expect("opened").expect("there");
            let mut records = 0;
            let copy = read(&file, |_| (), |_, _| records += 1).await.expect("read");
            let word = match copy {
                Copy::Blank => "blank".to_owned(),
                Copy::Whole(head) => format!("whole {}", head.version),
                Copy::Newer { format } => format!("newer {format}"),
                Copy::Damaged { position, head, .. } => format!("damaged {position} {}", head.is_some()),
            };
            (word, records)
        });
        std::fs::remove_file(&dir).expect("removed");
        found.expect("a shard")
    }

    #[test]
    fn each_state_of_a_copy_is_told() {
        let whole = manifest();
        let second = PAYLOAD_AT + (whole.len() - PAYLOAD_AT) / 2;
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x80;
            bytes
        };
        let longer = [&whole[..], &[0; 5000]].concat();
        let mut blank = whole.clone();
        blank[..PAYLOAD_AT].fill(0);
        for (what, bytes, expected) in [
            ("whole", whole.clone(), ("whole 9", 2)),
            ("with room behind", longer, ("whole 9", 2)),
            ("being written", blank, ("blank", 0)),
            ("empty", Vec::new(), ("blank", 0)),
            ("its version", flipped(17), ("damaged 0 false", 0)),
            ("a topic's first letter", flipped(PAYLOAD_AT + 26), ("damaged 4096 true", 0)),
            ("the second length", flipped(second), (&*format!("damaged {second} true"), 1)),
            ("a time, which may be any", flipped(whole.len() - 20), ("damaged 4096 true", 2)),
            ("cut short", whole[..second].to_vec(), (&*format!("damaged {second} true"), 0)),
        ] {
            assert_eq!(check(&bytes), (expected.0.to_owned(), expected.1), "{what}");
        }
    }
}
