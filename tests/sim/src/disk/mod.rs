//! The disk of one simulated machine: a file system that promises what was synced and nothing else.
//!
//! Owned by its machine; operations take effect here when the world says that their time has come. Pure: no clock, and
//! randomness only where a fault or a power loss draws on the generator handed in.

mod image;
mod tree;

use std::io;
use std::path::Path;

use base::Random;

pub use image::{Loss, PAGE, SECTOR, Seq};
use tree::Tree;
pub use tree::{Inode, Lost};

pub const ENOENT: i32 = 2;
pub const EIO: i32 = 5;
pub const EEXIST: i32 = 17;
pub const ENOTDIR: i32 = 20;
pub const EISDIR: i32 = 21;
pub const EINVAL: i32 = 22;
pub const ENOSPC: i32 = 28;
pub const ENOTEMPTY: i32 = 39;

/// The kernel's error of that number.
pub fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

pub struct Disk {
    tree: Tree,
    seq: Seq,
    capacity_blocks: u64,
    /// Blocks in use; `None` when it must be counted anew.
    used_blocks: Option<u64>,
}

impl Disk {
    pub fn new(capacity_bytes: u64) -> Self {
        Self { tree: Tree::default(), seq: 0, capacity_blocks: capacity_bytes / PAGE as u64, used_blocks: None }
    }

    /// Makes the disk larger or smaller; below what is in use it is full.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity_blocks = bytes / PAGE as u64;
    }

    /// The position of the newest effect: a sync asked for now covers all up to here.
    pub fn mark(&self) -> Seq {
        self.seq
    }

    fn next(&mut self) -> Seq {
        self.seq += 1;
        self.seq
    }

    pub fn used_bytes(&mut self) -> u64 {
        let used = match self.used_blocks {
            Some(used) => used,
            None => self.tree.blocks_in_use(),
        };
        self.used_blocks = Some(used);
        used * PAGE as u64
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * PAGE as u64
    }

    pub fn free_bytes(&mut self) -> u64 {
        let used = self.used_bytes();
        self.capacity_bytes().saturating_sub(used)
    }

    fn take_blocks(&mut self, wanted: u64) -> io::Result<()> {
        if wanted == 0 {
            return Ok(());
        }
        let used = self.used_bytes() / PAGE as u64;
        if used + wanted > self.capacity_blocks {
            return Err(error(ENOSPC));
        }
        self.used_blocks = Some(used + wanted);
        Ok(())
    }

    // ---- bytes

    pub fn len(&self, file: Inode) -> u64 {
        self.tree.image(file).len()
    }

    pub fn read(&self, file: Inode, offset: u64, into: &mut [u8]) -> usize {
        self.tree.image(file).read(offset, into)
    }

    /// Volatile until a sync; gives the write's position.
    pub fn write<'a>(
        &mut self,
        file: Inode,
        offset: u64,
        len: u64,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<Seq> {
        self.take_blocks(self.tree.image(file).blocks_missing(offset, len))?;
        let seq = self.next();
        self.tree.image_mut(file).write(seq, offset, parts);
        Ok(seq)
    }

    /// Makes one write durable, at its position.
    pub fn sync_write(&mut self, file: Inode, at: Seq, offset: u64, len: u64) {
        self.tree.image_mut(file).sync_range(at, offset, len);
    }

    pub fn sync_data(&mut self, file: Inode, upto: Seq) {
        self.tree.image_mut(file).sync(upto);
    }

    /// What a failed sync leaves: pages that look clean and are not on the device.
    pub fn fail_sync(&mut self, file: Inode, upto: Seq, random: &mut Random) {
        self.tree.image_mut(file).drop_dirty(upto, random);
    }

    pub fn set_len(&mut self, file: Inode, len: u64) {
        let seq = self.next();
        self.tree.image_mut(file).set_len(seq, len);
        self.used_blocks = None;
    }

    pub fn allocate(&mut self, file: Inode, offset: u64, len: u64) -> io::Result<()> {
        self.take_blocks(self.tree.image(file).blocks_missing(offset, len))?;
        let seq = self.next();
        self.tree.image_mut(file).allocate(seq, offset, len);
        Ok(())
    }

    pub fn flip_bit(&mut self, file: Inode, offset: u64, bit: u8) -> bool {
        self.tree.image_mut(file).flip_bit(offset, bit)
    }

    // ---- names

    pub fn open(&mut self, path: &Path, create: bool, exclusive: bool) -> io::Result<Inode> {
        let seq = self.next();
        self.used_blocks = None;
        self.tree.open(seq, path, create, exclusive)
    }

    /// Another hold on an open file, for an operation in flight.
    pub fn hold(&mut self, file: Inode) {
        self.tree.hold(file);
    }

    pub fn close(&mut self, file: Inode) {
        if self.tree.close(file) {
            self.used_blocks = None;
            self.tree.sweep();
        }
    }

    pub fn find_file(&self, path: &Path) -> io::Result<Inode> {
        self.tree.find_file(path)
    }

    /// Is it a directory, and its length; `None` where nothing is there.
    pub fn stat(&self, path: &Path) -> io::Result<Option<(bool, u64)>> {
        Ok(self.tree.find(path)?.map(|inode| match self.tree.is_dir(inode) {
            true => (true, 0),
            false => (false, self.tree.image(inode).len()),
        }))
    }

    /// A whole file.
    pub fn content(&self, file: Inode) -> Vec<u8> {
        let mut bytes = vec![0; self.len(file) as usize];
        self.read(file, 0, &mut bytes);
        bytes
    }

    pub fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        self.used_blocks = None;
        let seq = &mut self.seq;
        self.tree.create_dir_all(
            || {
                *seq += 1;
                *seq
            },
            path,
        )
    }

    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        let seq = self.next();
        self.used_blocks = None;
        self.tree.remove(seq, path)
    }

    pub fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let seq = self.next();
        self.used_blocks = None;
        self.tree.remove_dir(seq, path)
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let seq = self.next();
        self.used_blocks = None;
        self.tree.rename(seq, from, to)
    }

    pub fn list(&self, path: &Path) -> io::Result<Vec<(String, bool, u64)>> {
        self.tree.list(path)
    }

    pub fn files(&self) -> Vec<(String, Inode)> {
        self.tree.files()
    }

    pub fn sync_dir(&mut self, upto: Seq, path: &Path) -> io::Result<()> {
        self.tree.sync_dir(upto, path)
    }

    pub fn sync_all(&mut self, upto: Seq) {
        self.tree.sync_all(upto);
    }

    // ---- ends

    /// Power is cut: what was not synced is kept, lost or torn, each effect for itself.
    pub fn lose_power(&mut self, random: &mut Random) -> Lost {
        self.used_blocks = None;
        self.tree.lose_power(random)
    }

    /// The processes are killed; the kernel keeps what it has.
    pub fn close_all(&mut self) {
        self.used_blocks = None;
        self.tree.close_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_what_is_reserved_and_nothing_more() {
        let mut disk = Disk::new(10 * PAGE as u64);
        let a = disk.open(Path::new("/a"), true, false).unwrap();
        disk.allocate(a, 0, 8 * PAGE as u64).unwrap();
        assert_eq!(disk.free_bytes(), PAGE as u64);
        let b = disk.open(Path::new("/b"), true, false).unwrap();
        let page = [1; PAGE];
        assert!(disk.write(b, 0, PAGE as u64, std::iter::once(&page[..])).is_ok());
        let refused = disk.write(b, PAGE as u64, PAGE as u64, std::iter::once(&page[..]));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(ENOSPC));
        assert!(disk.write(a, 7 * PAGE as u64, PAGE as u64, std::iter::once(&page[..])).is_ok());
        disk.set_len(a, 0);
        assert_eq!(disk.free_bytes(), 8 * PAGE as u64);
        disk.close(b);
        disk.remove(Path::new("/b")).unwrap();
        assert_eq!(disk.free_bytes(), 9 * PAGE as u64);
    }
}
