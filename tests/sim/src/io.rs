//! Operations on their way: what a shard asked its disk and its helpers for, how long it takes, and what it does when it ends.
//!
//! Effects happen at the end of an operation. What is in flight when the process ends may have happened wholly, partly or not
//! at all.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Instant, Random};
use shard::driver::{DirEntry, FileId, FileStat, FsOp, Op, Outcome, Space, Work, WriteSync};
use shard::{Buf, Slice};

use crate::disk::{EIO, Inode, PAGE, Seq, error};
use crate::net::NetEvent;
use crate::seat::{MachineId, Ticket};
use crate::state::{Handle, State};

/// Something that happens later.
pub enum Job {
    Disk(DiskJob),
    Offload { ticket: Ticket, work: Work },
    Net(NetEvent),
}

pub struct DiskJob {
    ticket: Ticket,
    task: Task,
    fails: bool,
    /// The janitor works for a shard in this order.
    order: u64,
}

enum Task {
    Read { file: Inode, offset: u64, buf: Buf, len: usize },
    Write { file: Inode, offset: u64, len: u64, data: Vec<Slice>, sync: WriteSync },
    Sync { file: Inode, upto: Seq },
    SetLen { file: Inode, len: u64 },
    Allocate { file: Inode, offset: u64, len: u64 },
    Fs { op: FsOp, upto: Seq },
}

impl DiskJob {
    fn is_janitor(&self) -> bool {
        matches!(self.task, Task::SetLen { .. } | Task::Allocate { .. } | Task::Fs { .. })
    }
}

/// Of what a shard asked the janitor for, only the first can have been under way.
fn is_first(job: &DiskJob, jobs: &[Job]) -> bool {
    !jobs.iter().any(|other| match other {
        Job::Disk(other) => other.is_janitor() && other.ticket.seat == job.ticket.seat && other.order < job.order,
        _ => false,
    })
}

impl Job {
    /// Whose process asked for it; network events end by themselves.
    pub fn machine(&self) -> Option<MachineId> {
        match self {
            Self::Disk(job) => Some(job.ticket.seat.machine),
            Self::Offload { ticket, .. } => Some(ticket.seat.machine),
            Self::Net(_) => None,
        }
    }
}

/// How the process of a machine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// `kill -9`: the kernel keeps what it was given.
    Kill,
    /// What was not synced is kept, lost or torn.
    PowerLoss,
}

impl Crash {
    /// One or the other: power is lost twice as often.
    pub fn drawn(random: &mut Random) -> Self {
        if random.chance(1, 3) { Self::Kill } else { Self::PowerLoss }
    }
}

impl State {
    /// Takes an operation over from a shard. Gives back what is to be dropped once the state is no longer borrowed.
    pub fn submit(&mut self, ticket: Ticket, op: Op) -> Option<Op> {
        if !self.is_live(ticket.seat) {
            return Some(op);
        }
        self.trace.submit(self.now, ticket, &op);
        match op {
            Op::Read { file, offset, buf, len } => self.submit_read(ticket, file, offset, buf, len),
            Op::Write { file, offset, data, sync } => self.submit_write(ticket, file, offset, data, sync),
            Op::Datasync { file } => self.submit_sync(ticket, file),
            Op::Fs(op) => self.submit_fs(ticket, op),
            Op::CloseFile { file } => {
                self.close_file(ticket, file);
                self.complete(ticket, Ok(Outcome::Done));
            }
            Op::Offload(work) => {
                let delay = self.latency(10, 2000);
                self.schedule(self.now + delay, Job::Offload { ticket, work });
            }
            op => self.submit_net(ticket, op),
        }
        None
    }

    fn submit_net(&mut self, ticket: Ticket, op: Op) {
        self.with_net(|net, now, effects| match op {
            Op::Listen { addr } => {
                let result = net.listen(ticket.seat, addr);
                effects.ended.push((ticket, result));
            }
            Op::Accept { listener } => net.accept(ticket, listener, effects),
            Op::Connect { addr } => net.connect(ticket, addr, now, effects),
            Op::Recv { socket } => net.recv(ticket, socket, now, effects),
            Op::RecvInto { socket, buf, filled, until } => {
                net.recv_into(ticket, socket, (buf, filled, until), now, effects);
            }
            Op::Send { socket, data } => net.send(ticket, socket, data, now, effects),
            Op::Shutdown { socket } => net.shutdown(ticket, socket, now, effects),
            Op::Pass { socket, to } => {
                let result = net.pass(ticket, socket, to);
                effects.ended.push((ticket, result));
            }
            Op::CloseSocket { socket } => {
                net.close_socket(ticket.seat, socket, now, effects);
                effects.ended.push((ticket, Ok(Outcome::Done)));
            }
            Op::CloseListener { listener } => {
                net.close_listener(listener, now, effects);
                effects.ended.push((ticket, Ok(Outcome::Done)));
            }
            _ => unreachable!("the disk's operations were taken out before"),
        });
    }

    fn handle(&mut self, ticket: Ticket, file: FileId) -> Handle {
        let handles = &self.machine(ticket.seat.machine).handles;
        let handle = handles.get(file.0 as usize).and_then(Option::as_ref);
        let handle = handle.unwrap_or_else(|| panic!("{file:?} is not open")).clone();
        assert_eq!(handle.shard, ticket.seat.shard, "{} belongs to another shard", handle.path);
        handle
    }

    /// Direct input and output come in whole blocks from whole blocks, or the kernel says `EINVAL`.
    fn check_alignment(&mut self, handle: &Handle, offset: u64, pieces: impl Iterator<Item = (usize, usize)>) {
        if !handle.direct {
            return;
        }
        for (address, len) in pieces {
            if !(offset as usize | address | len).is_multiple_of(PAGE) {
                let path = &handle.path;
                self.violate(format!("misaligned: {path} at {offset}, {len} bytes from address {address:#x}"));
            }
        }
    }

    fn begin(&mut self, ticket: Ticket, file: Inode, path: &str, task: Task, delay: Duration) {
        let machine = &mut self.machines[ticket.seat.machine.0 as usize];
        machine.disk.hold(file);
        machine.disk_ops += 1;
        let ppm = match task {
            Task::Read { .. } => machine.faults.read_error_ppm,
            Task::Write { .. } => machine.faults.write_error_ppm,
            _ => machine.faults.sync_error_ppm,
        };
        let fails = machine.faults.hits(path, ppm, &mut self.random);
        let stalls = machine.faults.hits(path, machine.faults.stall_ppm, &mut self.random);
        let delay = if stalls { delay + Duration::from_millis(self.random.below(1000)) } else { delay };
        if stalls {
            self.register.hit("disk: stall");
        }
        self.schedule(self.now + delay, Job::Disk(DiskJob { ticket, task, fails, order: 0 }));
    }

    fn submit_read(&mut self, ticket: Ticket, file: FileId, offset: u64, mut buf: Buf, len: usize) {
        let handle = self.handle(ticket, file);
        assert!(len <= buf.capacity(), "a read of {len} bytes into {} bytes", buf.capacity());
        self.check_alignment(&handle, offset, std::iter::once((buf.as_mut_ptr() as usize, len)));
        let delay = self.latency(15, 120);
        self.begin(ticket, handle.inode, &handle.path, Task::Read { file: handle.inode, offset, buf, len }, delay);
    }

    fn submit_write(&mut self, ticket: Ticket, file: FileId, offset: u64, data: Vec<Slice>, sync: WriteSync) {
        let handle = self.handle(ticket, file);
        assert!(handle.write, "{} was opened to read", handle.path);
        self.check_alignment(&handle, offset, data.iter().map(|slice| (slice.as_ptr() as usize, slice.len())));
        let len = data.iter().map(|slice| slice.len() as u64).sum();
        let delay = match sync {
            WriteSync::None => self.latency(10, 150),
            WriteSync::Data => self.latency(60, 400),
        };
        let task = Task::Write { file: handle.inode, offset, len, data, sync };
        self.begin(ticket, handle.inode, &handle.path, task, delay);
    }

    fn submit_sync(&mut self, ticket: Ticket, file: FileId) {
        let handle = self.handle(ticket, file);
        let upto = self.machine(ticket.seat.machine).disk.mark();
        let delay = self.latency(50, 600);
        self.begin(ticket, handle.inode, &handle.path, Task::Sync { file: handle.inode, upto }, delay);
    }

    /// The janitor does one thing after another for a shard.
    fn submit_fs(&mut self, ticket: Ticket, op: FsOp) {
        let delay = match op {
            FsOp::SyncDir { .. } | FsOp::SyncFs { .. } | FsOp::WriteFileDurably { .. } => self.latency(100, 900),
            _ => self.latency(5, 80),
        };
        let now = self.now;
        let slot = self.slot(ticket.seat).expect("checked when submitted");
        let at = slot.janitor_free.max(now) + delay;
        slot.janitor_free = at;
        let upto = self.machine(ticket.seat.machine).disk.mark();
        let task = match op {
            FsOp::SetLen { file, len } => Task::SetLen { file: self.hold(ticket, file), len },
            FsOp::Allocate { file, offset, len } => Task::Allocate { file: self.hold(ticket, file), offset, len },
            op => Task::Fs { op, upto },
        };
        let machine = self.machine(ticket.seat.machine);
        machine.disk_ops += 1;
        let order = machine.disk_ops;
        self.schedule(at, Job::Disk(DiskJob { ticket, task, fails: false, order }));
    }

    fn hold(&mut self, ticket: Ticket, file: FileId) -> Inode {
        let inode = self.handle(ticket, file).inode;
        self.machine(ticket.seat.machine).disk.hold(inode);
        inode
    }

    fn close_file(&mut self, ticket: Ticket, file: FileId) {
        let inode = self.handle(ticket, file).inode;
        let machine = self.machine(ticket.seat.machine);
        machine.handles[file.0 as usize] = None;
        machine.disk.close(inode);
    }

    /// A disk operation's time has come. What it held is given back, to be dropped without a borrow of the state.
    pub fn finish(&mut self, job: DiskJob) -> Option<Vec<Slice>> {
        let DiskJob { ticket, task, fails, order: _ } = job;
        if !self.is_live(ticket.seat) {
            return None;
        }
        let disk = &mut self.machines[ticket.seat.machine.0 as usize].disk;
        let (result, freed, held) = match task {
            Task::Read { file, offset, mut buf, len } => {
                let result = if fails {
                    self.register.hit("disk: EIO on read");
                    drop(buf);
                    Err(error(EIO))
                } else {
                    buf.set_len(len);
                    let got = disk.read(file, offset, &mut buf[..len]);
                    Ok(Outcome::Read { buf, len: got })
                };
                (result, Some(file), None)
            }
            Task::Write { file, offset, len, data, sync } => {
                let result = if fails {
                    self.fail_write(ticket.seat.machine, file, offset, &data)
                } else {
                    let parts = data.iter().map(|slice| &slice[..]);
                    disk.write(file, offset, len, parts).map(|at| {
                        if sync == WriteSync::Data {
                            disk.sync_write(file, at, offset, len);
                        }
                        Outcome::Done
                    })
                };
                (result, Some(file), Some(data))
            }
            Task::Sync { file, upto } => {
                let result = if fails {
                    self.register.hit("disk: EIO on sync");
                    disk.fail_sync(file, upto, &mut self.random);
                    Err(error(EIO))
                } else {
                    disk.sync_data(file, upto);
                    Ok(Outcome::Done)
                };
                (result, Some(file), None)
            }
            Task::SetLen { file, len } => {
                disk.set_len(file, len);
                (Ok(Outcome::Done), Some(file), None)
            }
            Task::Allocate { file, offset, len } => {
                (disk.allocate(file, offset, len).map(|()| Outcome::Done), Some(file), None)
            }
            Task::Fs { op, upto } => (self.finish_fs(ticket, op, upto), None, None),
        };
        if let Err(e) = &result
            && e.raw_os_error() == Some(crate::disk::ENOSPC)
        {
            self.register.hit("disk: full");
        }
        if let Some(file) = freed {
            self.machine(ticket.seat.machine).disk.close(file);
        }
        self.complete(ticket, result);
        held
    }

    /// The error is certain, what reached the disk is not.
    fn fail_write(&mut self, machine: MachineId, file: Inode, offset: u64, data: &[Slice]) -> io::Result<Outcome> {
        self.register.hit("disk: EIO on write");
        self.write_partly(machine, file, offset, data);
        Err(error(EIO))
    }

    fn write_partly(&mut self, machine: MachineId, file: Inode, offset: u64, data: &[Slice]) {
        let disk = &mut self.machines[machine.0 as usize].disk;
        let mut at = offset;
        for slice in data {
            for chunk in slice.chunks(PAGE) {
                if self.random.chance(1, 2) {
                    let _ = disk.write(file, at, chunk.len() as u64, std::iter::once(chunk));
                }
                at += chunk.len() as u64;
            }
        }
    }

    fn finish_fs(&mut self, ticket: Ticket, op: FsOp, upto: Seq) -> io::Result<Outcome> {
        let machine = &mut self.machines[ticket.seat.machine.0 as usize];
        let disk = &mut machine.disk;
        match op {
            FsOp::Open { path, options } => {
                let inode = disk.open(&path, options.create, options.exclusive)?;
                let bytes = disk.len(inode);
                let (direct, write) = (options.direct, options.write);
                let path = path.display().to_string();
                machine.handles.push(Some(Handle { inode, shard: ticket.seat.shard, direct, write, path }));
                let file = FileId(machine.handles.len() as u32 - 1);
                Ok(Outcome::File { file, bytes, alignment: if direct { PAGE } else { 1 } })
            }
            FsOp::CreateDirAll { path } => disk.create_dir_all(&path).map(|()| Outcome::Done),
            FsOp::RemoveDir { path } => disk.remove_dir(&path).map(|()| Outcome::Done),
            FsOp::Rename { from, to } => disk.rename(&from, &to).map(|()| Outcome::Done),
            FsOp::Remove { path } => disk.remove(&path).map(|()| Outcome::Done),
            FsOp::List { path } => {
                let entries = disk.list(&path)?.into_iter();
                Ok(Outcome::Entries(entries.map(|(name, is_dir, bytes)| DirEntry { name, is_dir, bytes }).collect()))
            }
            FsOp::SyncDir { path } => disk.sync_dir(upto, &path).map(|()| Outcome::Done),
            FsOp::SyncFs { .. } => {
                disk.sync_all(upto);
                Ok(Outcome::Done)
            }
            FsOp::Space { .. } => {
                let free_bytes = disk.free_bytes();
                Ok(Outcome::Space(Space { free_bytes, total_bytes: disk.capacity_bytes() }))
            }
            FsOp::Stat { path } => {
                let found = disk.stat(&path)?;
                Ok(Outcome::Stat(found.map(|(is_dir, bytes)| FileStat { is_dir, bytes })))
            }
            FsOp::ReadFile { path, limit } => {
                let content = disk.content(disk.find_file(&path)?);
                if content.len() > limit {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Ok(Outcome::Content(content))
            }
            FsOp::WriteFileDurably { path, content } => {
                self.write_file(ticket.seat.machine, &path, &content, WRITE_FILE_STEPS).map(|()| Outcome::Done)
            }
            FsOp::Lock { path } => {
                if machine.locks.contains(&path) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let inode = disk.open(&path, true, false)?;
                disk.close(inode);
                machine.locks.insert(path);
                Ok(Outcome::Done)
            }
            FsOp::SetLen { .. } | FsOp::Allocate { .. } => unreachable!("resolved when submitted"),
        }
    }

    /// The first `steps` of: write a temporary file, sync it, rename it, sync the directory.
    fn write_file(&mut self, machine: MachineId, path: &Path, content: &[u8], steps: u64) -> io::Result<()> {
        let disk = &mut self.machines[machine.0 as usize].disk;
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        if steps == 0 {
            return Ok(());
        }
        let file = disk.open(&temporary, true, false)?;
        disk.set_len(file, 0);
        let written = disk.write(file, 0, content.len() as u64, std::iter::once(content));
        if written.is_ok() && steps > 1 {
            disk.sync_data(file, disk.mark());
        }
        disk.close(file);
        if let Err(e) = written {
            disk.remove(&temporary)?;
            return Err(e);
        }
        if steps > 2 {
            disk.rename(&temporary, path)?;
        }
        if steps > 3 {
            disk.sync_dir(disk.mark(), path.parent().unwrap_or(Path::new("/")))?;
        }
        Ok(())
    }

    /// The process of a machine ends here and now. Gives back what was in flight, to be dropped without a borrow.
    pub fn crash(&mut self, id: MachineId, how: Crash) -> Vec<Job> {
        let mut jobs = self.take_jobs_of(id);
        // Any order: in flight means that none was promised.
        for index in (1..jobs.len()).rev() {
            jobs.swap(index, self.random.below(index as u64 + 1) as usize);
        }
        for job in &jobs {
            if let Job::Disk(job) = job
                && (!job.is_janitor() || is_first(job, &jobs))
            {
                self.leave_in_flight(id, job);
            }
        }
        let machine = &mut self.machines[id.0 as usize];
        machine.up = false;
        machine.handles.clear();
        machine.locks.clear();
        match how {
            Crash::Kill => machine.disk.close_all(),
            Crash::PowerLoss => {
                let lost = machine.disk.lose_power(&mut self.random);
                self.register.add("crash: torn page", lost.bytes.pages_torn);
                self.register.add("crash: lost page", lost.bytes.pages_lost);
                self.register.add("crash: lost length", lost.bytes.lens_lost);
                self.register.add("crash: lost name", lost.names_lost);
            }
        }
        self.register.hit(if how == Crash::Kill { "crash: kill" } else { "crash: power loss" });
        self.trace.mix(how as u64 + 7);
        let now = self.now;
        self.trace.line(|line| line.push_str(&format!("{:>13} {} CRASH {how:?}", now.0, id.0)));
        self.with_net(|net, now, effects| net.machine_down(id, how == Crash::PowerLoss, now, effects));
        jobs
    }

    /// What an operation in flight leaves behind.
    fn leave_in_flight(&mut self, id: MachineId, job: &DiskJob) {
        let disk = &mut self.machines[id.0 as usize].disk;
        match &job.task {
            Task::Write { file, offset, len, data, .. } => match self.random.below(3) {
                0 => {}
                1 => {
                    let _ = disk.write(*file, *offset, *len, data.iter().map(|slice| &slice[..]));
                    self.register.hit("crash: write in flight kept");
                }
                _ => {
                    self.write_partly(id, *file, *offset, data);
                    self.register.hit("crash: write in flight torn");
                }
            },
            Task::Sync { file, upto } if self.random.chance(1, 2) => disk.sync_data(*file, *upto),
            Task::SetLen { file, len } if self.random.chance(1, 2) => disk.set_len(*file, *len),
            Task::Allocate { file, offset, len } if self.random.chance(1, 2) => {
                let _ = disk.allocate(*file, *offset, *len);
            }
            Task::Fs { op, .. } => {
                let _ = match op {
                    FsOp::WriteFileDurably { path, content } => {
                        let steps = self.random.below(WRITE_FILE_STEPS + 1);
                        self.write_file(id, path, content, steps)
                    }
                    FsOp::Rename { from, to } if self.random.chance(1, 2) => disk.rename(from, to),
                    FsOp::Remove { path } if self.random.chance(1, 2) => disk.remove(path),
                    FsOp::CreateDirAll { path } if self.random.chance(1, 2) => disk.create_dir_all(path),
                    _ => Ok(()),
                };
            }
            _ => {}
        }
    }

    /// Moves time on, never back.
    pub fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }
}

/// How many steps it takes to write a file durably.
const WRITE_FILE_STEPS: u64 = 4;
