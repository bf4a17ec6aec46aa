//! Who holds a file lock that was refused: as far as the kernel tells this process.
//!
//! Owner: the janitor, when a lock is refused. It only reads; what it does not find stays unknown, as it does where the holder lives in
//! another container, whose processes have no number here.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::{major, minor};

/// A process and what it was started as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    pid: u32,
    command: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "process {} ({command})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// The holder of an exclusive lock on `file`.
pub(super) fn holder_of(file: impl AsFd) -> Option<Holder> {
    let stat = rustix::fs::fstat(file).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = find(&locks, (major(stat.st_dev), minor(stat.st_dev)), stat.st_ino)?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok().and_then(|bytes| command_line(&bytes));
    Some(Holder { pid, command })
}

/// Looks through `/proc/locks` (proc(5)): a line is number, kind, mode, type, process, `major:minor:inode` and range.
fn find(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (kind, _mode, access) = (fields.next()?, fields.next()?, fields.next()?);
        let (pid, place) = (fields.next()?, fields.next()?);
        let mut place = place.split(':');
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let (of_device, of_inode) =
            ((number(place.next()?)?, number(place.next()?)?), place.next()?.parse::<u64>().ok()?);
        let holds = kind == "FLOCK" && access == "WRITE" && of_device == device && of_inode == inode;
        // A holder outside of this process's namespace has the number 0, or none.
        pid.parse().ok().filter(|&pid| holds && pid > 0)
    })
}

/// Arguments longer than this in all are cut.
const COMMAND_BYTES_MAX: usize = 200;

/// `/proc/PID/cmdline`: arguments, each with a zero behind it.
fn command_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(COMMAND_BYTES_MAX)]);
    let words: Vec<&str> = text.split('\0').filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{command_line, find, holder_of};
    use rustix::fs::FlockOperation;

    #[test]
    fn the_line_of_the_file_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 8518 fe:00:77 0 0\n\
                     2: FLOCK  ADVISORY  READ 10 fe:00:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 12 fe:01:77 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fe:00:78 0 EOF\n\
                     nonsense\n\
                     5: FLOCK  ADVISORY  WRITE 13 fe:00:77 0 EOF\n";
        for (device, inode, pid) in
            [((0xfe, 0), 77, Some(13)), ((0xfe, 1), 77, Some(12)), ((0xfe, 0), 78, None), ((0xfe, 2), 77, None)]
        {
            assert_eq!(find(locks, device, inode), pid, "{device:?} {inode}");
        }
    }

    #[test]
    fn a_lock_of_this_process_is_known() {
        let path = std::env::temp_dir().join(format!("lock-holder-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
        let holder = holder_of(&file).expect("known");
        let _ = std::fs::remove_file(&path);
        assert_eq!(holder.pid, std::process::id());
        assert!(holder.to_string().starts_with(&format!("process {} (", holder.pid)), "{holder}");
    }

    #[test]
    fn arguments_are_shown_with_spaces() {
        assert_eq!(command_line(b"tidemill\0serve\0"), Some("tidemill serve".to_owned()));
        assert_eq!(command_line(b""), None);
    }
}
