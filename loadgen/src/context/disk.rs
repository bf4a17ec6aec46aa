//! The disk behind a folder: what `/proc/self/mountinfo` and `/sys` say of it, and how long it takes to flush.

use std::fs::{File, OpenOptions, remove_file};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::time::ClockId;

use super::machine::in_brackets;
use super::{UNKNOWN, now, read};
use crate::report::Disk;

/// Enough for a median, and over in a second on a disk that takes 20 ms.
const FLUSHES: usize = 50;
const BLOCK_BYTES: usize = 4096;

/// The disk that a folder is on; `None` where there is no such folder.
pub(super) fn describe(folder: &Path) -> Option<Disk> {
    let folder = folder.canonicalize().ok()?;
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let mount = mount_of(&mounts, &folder);
    let said =
        |what: fn(&Mount) -> &String| mount.as_ref().map_or_else(|| UNKNOWN.to_owned(), |mount| what(mount).clone());
    let mut flushes = measure_flushes(&folder).unwrap_or_default();
    flushes.sort_by(f64::total_cmp);
    Some(Disk {
        folder: folder.display().to_string(),
        file_system: said(|mount| &mount.file_system),
        mount_options: said(|mount| &mount.options),
        io_scheduler: mount
            .as_ref()
            .and_then(|mount| io_scheduler(&mount.device))
            .unwrap_or_else(|| UNKNOWN.to_owned()),
        flush_p50_us: at_quantile(&flushes, 0.5),
        flush_p99_us: at_quantile(&flushes, 0.99),
    })
}

/// The value that so great a part of sorted ones does not exceed; 0 of none.
fn at_quantile(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// A line of mountinfo.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    point: PathBuf,
    /// `major:minor`.
    device: String,
    file_system: String,
    /// Of the mount, then those of the file system that are not among them.
    options: String,
}

/// Where a folder is mounted: the longest mount point above it; of equal ones the last covers the others.
fn mount_of(mountinfo: &str, folder: &Path) -> Option<Mount> {
    let above = mountinfo.lines().filter_map(parse_mount).filter(|mount| folder.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// `27 1 254:0 / /data rw,relatime shared:1 - ext4 /dev/vda rw,discard`: see proc_pid_mountinfo(5).
fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, super_block) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (device, _root, point, options) = (mount.next()?, mount.next()?, mount.next()?, mount.next()?);
    let mut super_block = super_block.split(' ');
    let (file_system, _source, super_options) =
        (super_block.next()?, super_block.next()?, super_block.next().unwrap_or(""));
    let mut all: Vec<&str> = options.split(',').collect();
    for option in super_options.split(',').filter(|option| !option.is_empty()) {
        if !all.contains(&option) {
            all.push(option);
        }
    }
    Some(Mount {
        point: PathBuf::from(unescaped(point)),
        device: device.to_owned(),
        file_system: file_system.to_owned(),
        options: all.join(","),
    })
}

/// Blanks in paths stand as `\040`.
fn unescaped(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (escape, plain)| path.replace(escape, plain))
}

/// The I/O scheduler of a block device or, for a partition, of the device it is a part of.
fn io_scheduler(device: &str) -> Option<String> {
    let entry = Path::new("/sys/dev/block").join(device).canonicalize().ok()?;
    let whole = [Some(entry.as_path()), entry.parent()];
    let choices = whole.into_iter().flatten().find_map(|device| read(&device.join("queue/scheduler")))?;
    Some(in_brackets(&choices).unwrap_or(choices))
}

/// A file that goes when this does.
struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    fn create(folder: &Path) -> std::io::Result<Self> {
        let path =
            folder.join(format!(".tidemill-loadgen-{}-{}", std::process::id(), now(ClockId::Monotonic).as_nanos()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { file, path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Who can't remove it could hardly have made it.
        let _ = remove_file(&self.path);
    }
}

/// Appends a block and flushes it, again and again: the microseconds that each took.
fn measure_flushes(folder: &Path) -> std::io::Result<Vec<f64>> {
    let mut scratch = Scratch::create(folder)?;
    // Not zeros: some devices know how to write those without writing.
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at * 31 + at / 251) as u8).collect();
    (0..FLUSHES)
        .map(|_| {
            let begin = now(ClockId::Monotonic);
            scratch.file.write_all(&block)?;
            scratch.file.sync_data()?;
            Ok((now(ClockId::Monotonic) - begin).as_secs_f64() * 1e6)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 259:1 / /data rw,noatime shared:1 master:2 - xfs /dev/nvme0n1p1 rw,logbufs=8
41 27 0:30 / /data/over\\040here rw - tmpfs tmpfs rw,size=4k
42 27 0:31 / /data/over\\040here ro,nosuid - overlay overlay rw
not a line of it";

    #[test]
    fn the_nearest_mount_counts_and_of_equal_ones_the_last() {
        for (folder, expected) in [
            ("/home/x", Some(("254:0", "ext4", "rw,relatime,discard"))),
            ("/data", Some(("259:1", "xfs", "rw,noatime,logbufs=8"))),
            ("/data/kafka", Some(("259:1", "xfs", "rw,noatime,logbufs=8"))),
            ("/database", Some(("254:0", "ext4", "rw,relatime,discard"))),
            ("/data/over here/x", Some(("0:31", "overlay", "ro,nosuid,rw"))),
            ("relative", None),
        ] {
            let mount = mount_of(MOUNTS, Path::new(folder));
            let found = mount.as_ref().map(|m| (m.device.as_str(), m.file_system.as_str(), m.options.as_str()));
            assert_eq!(found, expected, "{folder}");
        }
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=50).map(f64::from).collect();
        assert_eq!((at_quantile(&values, 0.5), at_quantile(&values, 0.99)), (25.0, 50.0));
        assert_eq!((at_quantile(&[7.0], 0.5), at_quantile(&[], 0.99)), (7.0, 0.0));
    }
}
