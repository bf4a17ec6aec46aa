//! The block device under a path, and what it has done: from `/sys/dev/block/*/stat`.
//!
//! The counters are the whole device's. On a machine where others write too, they are an upper bound.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Counts since the machine started; subtract two to learn about the time between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
}

impl DeviceCounts {
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

/// A block device; none for file systems that have no device of their own, such as tmpfs and overlays.
#[derive(Clone, Debug)]
pub struct Device {
    sys: Option<PathBuf>,
}

impl Device {
    /// The device that holds `path`.
    ///
    /// # Errors
    /// When `path` does not exist.
    pub fn of(path: &Path) -> io::Result<Self> {
        let dev = std::fs::metadata(path)?.dev();
        let sys = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev)));
        let sys = std::fs::canonicalize(sys).ok().map(|sys| {
            // A partition has no queue of its own, and flushes are counted for the whole device only.
            let whole = sys.parent().map(Path::to_path_buf).filter(|_| sys.join("partition").exists());
            whole.unwrap_or(sys)
        });
        Ok(Self { sys })
    }

    #[must_use]
    pub fn name(&self) -> String {
        let name = self.sys.as_ref().and_then(|sys| sys.file_name());
        name.map_or_else(|| "no device".into(), |name| name.to_string_lossy().into_owned())
    }

    /// An attribute of the queue, `write_cache` say.
    #[must_use]
    pub fn queue(&self, attribute: &str) -> Option<String> {
        let path = self.sys.as_ref()?.join("queue").join(attribute);
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    /// What it has done so far; `None` without a device.
    #[must_use]
    pub fn counts(&self) -> Option<DeviceCounts> {
        parse_stat(&std::fs::read_to_string(self.sys.as_ref()?.join("stat")).ok()?)
    }
}

/// The fields of `/sys/block/*/stat`, as `Documentation/block/stat.rst` of the kernel numbers them.
fn parse_stat(text: &str) -> Option<DeviceCounts> {
    const SECTOR_BYTES: u64 = 512;
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let field = |index: usize| fields.get(index).copied();
    Some(DeviceCounts {
        reads: field(0)?,
        read_bytes: field(2)? * SECTOR_BYTES,
        writes: field(4)?,
        written_bytes: field(6)? * SECTOR_BYTES,
        // Absent before Linux 5.5.
        flushes: field(15).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line() {
        let text = "  165641 15252 11726778 133656 140297 91701 20398240 149366 0 36184 300563 35210 48 7913208 6026 43731 11513\n";
        let expected = DeviceCounts {
            reads: 165_641,
            read_bytes: 11_726_778 * 512,
            writes: 140_297,
            written_bytes: 20_398_240 * 512,
            flushes: 43_731,
        };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("1 2 3"), None);
    }
}
