//! Bits that flip on the disk of a broker that does not run, and where to flip them.

use std::path::{Path, PathBuf};

use record::Batches;

/// Files of a directory whose names end with `suffix`, in the order of their names.
///
/// # Panics
/// When the directory can't be listed.
#[must_use]
pub fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the directory can be listed");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(suffix));
    paths.sort();
    paths
}

/// The directory of a partition.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn partition_dir(data_dir: &Path, topic: &str, partition: i32) -> PathBuf {
    let topic_dir = data_dir.join("logs").join(topic);
    let prefix = format!("{partition}-");
    let entries = std::fs::read_dir(&topic_dir).expect("the topic has a directory");
    let mut names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    topic_dir.join(names.find(|name| name.starts_with(&prefix)).expect("the partition has a directory"))
}

/// Where the batch with `offset` begins in a segment file.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn position_of(segment: &Path, offset: i64) -> u64 {
    let content = std::fs::read(segment).expect("the segment can be read");
    let mut position = 0;
    for batch in Batches::new(&content) {
        let batch = batch.expect("a sound segment");
        if batch.last_offset().0 >= offset {
            return position;
        }
        position += batch.bytes().len() as u64;
    }
    panic!("no offset {offset} in {}", segment.display())
}

/// The file of `paths` that holds `needle`, and where.
///
/// # Panics
/// When none does.
#[must_use]
pub fn find(paths: &[PathBuf], needle: &[u8]) -> (PathBuf, u64) {
    for path in paths {
        let content = std::fs::read(path).expect("the file can be read");
        if let Some(at) = content.windows(needle.len()).position(|window| window == needle) {
            return (path.clone(), at as u64);
        }
    }
    panic!("{:?} is nowhere", String::from_utf8_lossy(needle))
}

/// Flips one bit of the byte at `at`; a second time flips it back.
///
/// # Panics
/// When the file is shorter.
pub fn flip(path: &Path, at: u64, bit: u8) {
    let mut content = std::fs::read(path).expect("the file can be read");
    content[usize::try_from(at).expect("a position in memory")] ^= 1 << bit;
    std::fs::write(path, content).expect("the file can be written");
}
