//! What the place of a data directory gives: its file system, direct I/O, the right to write, its room.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Finding, Severity, finding};

/// Where data is to be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataDirFacts {
    pub path: PathBuf,
    pub file_system: String,
    pub direct_io: bool,
    /// What direct transfers must be multiples of, where there are any.
    pub alignment_bytes: Option<usize>,
    /// Why no file can be made there.
    pub refused: Option<String>,
    /// Free for a process without special rights.
    pub free_bytes: Option<u64>,
}

/// Looks at a directory that exists. A file of its own is made there, and removed.
pub(super) fn facts(path: &Path) -> DataDirFacts {
    let file_system = match rustix::fs::statfs(path) {
        Ok(found) => file_system_name(found.f_type as u64),
        Err(error) => format!("unknown ({error})"),
    };
    let (alignment, refused) = match direct_alignment(path) {
        Ok(alignment) => (alignment, None),
        Err(error) => (None, Some(error)),
    };
    DataDirFacts {
        path: path.to_path_buf(),
        file_system,
        direct_io: alignment.is_some(),
        alignment_bytes: alignment,
        // A full disk is a state that retention or its owner ends.
        refused: refused
            .filter(|error| *error != Errno::NOSPC && *error != Errno::DQUOT)
            .map(|error| error.to_string()),
        free_bytes: rustix::fs::statvfs(path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
    }
}

/// The names of the file systems a data directory is likely to meet (`linux/magic.h`).
fn file_system_name(magic: u64) -> String {
    let name = match magic & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0xca45_1a4e => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlayfs",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        0x6a65_6a63 => "virtiofs",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

/// What direct transfers to a file there must be multiples of; `None` where it takes none.
fn direct_alignment(dir: &Path) -> Result<Option<usize>, Errno> {
    let path = dir.join(format!(".direct-io-probe-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&path, flags | OFlags::DIRECT, Mode::from_raw_mode(0o600));
    let opened = match opened {
        Err(Errno::INVAL) => rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).map(|_| None),
        other => other.map(Some),
    };
    // Some file systems refuse the flag only after they have made the file.
    let _ = rustix::fs::unlink(&path);
    let alignment = opened?.and_then(|file| crate::driver::janitor::direct_alignment(&file).ok());
    Ok(alignment.filter(|alignment| *alignment > 0))
}

pub(super) fn check(facts: &DataDirFacts) -> Vec<Finding> {
    let place = format!("{} is on {}", facts.path.display(), facts.file_system);
    if let Some(error) = &facts.refused {
        return vec![finding(
            Severity::Fatal,
            format!("no file can be made in {}", facts.path.display()),
            error,
            "give the broker's user the right to write there (chown, mount without ro), or choose another --data-dir",
        )];
    }
    let mut findings = Vec::new();
    match facts.file_system.as_str() {
        "tmpfs" => findings.push(finding(
            Severity::Warning,
            place.clone(),
            "its files live in memory and end with it",
            "use it for tests only",
        )),
        "nfs" | "smb" | "fuse" | "9p" | "ceph" | "virtiofs" => findings.push(finding(
            Severity::Warning,
            place.clone(),
            "a flush there takes a network or another process, and locks may not hold",
            "put the data directory on a local ext4 or xfs",
        )),
        "overlayfs" => findings.push(finding(
            Severity::Warning,
            place.clone(),
            "most likely the image of a container: its files end with the container",
            "mount a volume there, on ext4 or xfs",
        )),
        _ => {}
    }
    if !facts.direct_io {
        findings.push(finding(
            Severity::Warning,
            format!("{place}, which refuses direct I/O here"),
            "the page cache is used instead: slower, and memory beyond the `memory` setting",
            "put the data directory on ext4 or xfs",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_judged() {
        let facts = |file_system: &str, direct_io, refused: Option<&str>| DataDirFacts {
            path: "/data".into(),
            file_system: file_system.to_owned(),
            direct_io,
            alignment_bytes: direct_io.then_some(512),
            refused: refused.map(str::to_owned),
            free_bytes: Some(1),
        };
        for (facts, severity, words) in [
            (facts("ext4", true, None), None, vec![]),
            (facts("tmpfs", false, None), Some(Severity::Warning), vec!["in memory", "page cache"]),
            (facts("nfs", true, None), Some(Severity::Warning), vec!["locks"]),
            (facts("overlayfs", true, None), Some(Severity::Warning), vec!["container"]),
            (facts("ext4", false, None), Some(Severity::Warning), vec!["page cache"]),
            (facts("nfs", false, Some("read-only")), Some(Severity::Fatal), vec!["no file can be made"]),
        ] {
            let found = check(&facts);
            assert_eq!(found.iter().map(|finding| finding.severity).max(), severity, "{facts:?}");
            assert_eq!(found.len(), words.len(), "{found:?}");
            for (finding, word) in found.iter().zip(words) {
                assert!(finding.to_string().contains(word), "{word}: {finding}");
            }
        }
        assert_eq!(file_system_name(0x1234_5678), "0x12345678");
    }
}
