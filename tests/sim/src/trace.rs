//! The run's fingerprint: a hash over everything that happened, and, when asked for, the lines it was made of.
//!
//! Two runs with one seed have the same hash, or something in the code under test decides by chance of its own.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io;

use base::Instant;
use shard::driver::{FsOp, Op, Outcome};

use crate::seat::{Seat, Ticket};

/// As many last lines as a dump shows.
const LINES: usize = 4000;

#[derive(Default)]
pub struct Trace {
    hash: u64,
    count: u64,
    /// Kept only when somebody will read them.
    pub keep: bool,
    lines: VecDeque<String>,
}

impl Trace {
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    pub fn mix(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub fn line(&mut self, text: impl FnOnce(&mut String)) {
        if self.keep {
            let mut line = match self.lines.len() {
                LINES.. => self.lines.pop_front().unwrap_or_default(),
                _ => String::new(),
            };
            line.clear();
            text(&mut line);
            self.lines.push_back(line);
        }
    }

    fn stamp(&mut self, now: Instant, seat: Seat, kind: u64) {
        self.count += 1;
        self.mix(now.0);
        self.mix(u64::from(seat.machine.0) << 48 | u64::from(seat.shard.0) << 32 | kind);
    }

    pub fn turn(&mut self, now: Instant, seat: Seat) {
        self.stamp(now, seat, 1);
    }

    pub fn submit(&mut self, now: Instant, ticket: Ticket, op: &Op) {
        self.stamp(now, ticket.seat, 2);
        let (kind, at, len) = shape(op);
        self.mix(kind);
        self.mix(at);
        self.mix(len);
        self.line(|line| {
            let _ = write!(line, "{:>13} {}.{} > {:?} ", now.0, ticket.seat.machine.0, ticket.seat.shard, ticket.op);
            let _ = describe(line, op);
        });
    }

    pub fn end(&mut self, now: Instant, ticket: Ticket, result: &io::Result<Outcome>) {
        self.stamp(now, ticket.seat, 3);
        let size = match result {
            Ok(Outcome::Read { len, .. }) => *len as u64,
            Ok(Outcome::Received(slice)) => slice.len() as u64,
            Ok(Outcome::File { bytes, .. }) => *bytes,
            Ok(Outcome::Entries(entries)) => entries.len() as u64,
            Ok(_) => 0,
            Err(e) => e.raw_os_error().unwrap_or(-1) as u64,
        };
        self.mix(size);
        self.line(|line| {
            let _ = write!(line, "{:>13} {}.{} < {:?} ", now.0, ticket.seat.machine.0, ticket.seat.shard, ticket.op);
            let _ = match result {
                Ok(Outcome::Entries(entries)) => write!(line, "{} entries", entries.len()),
                Ok(Outcome::Content(content)) => write!(line, "{} bytes", content.len()),
                Ok(outcome) => write!(line, "{outcome:?}"),
                Err(e) => write!(line, "{e}"),
            };
        });
    }
}

fn shape(op: &Op) -> (u64, u64, u64) {
    match op {
        Op::Read { offset, len, .. } => (1, *offset, *len as u64),
        Op::Write { offset, data, .. } => (2, *offset, data.iter().map(|slice| slice.len() as u64).sum()),
        Op::Datasync { .. } => (3, 0, 0),
        Op::Fs(_) => (4, 0, 0),
        Op::Listen { .. } => (5, 0, 0),
        Op::Accept { .. } => (6, 0, 0),
        Op::Connect { .. } => (7, 0, 0),
        Op::Recv { .. } => (8, 0, 0),
        Op::RecvInto { filled, until, .. } => (9, *filled as u64, *until as u64),
        Op::Send { data, .. } => (10, 0, data.iter().map(|slice| slice.len() as u64).sum()),
        Op::Shutdown { .. } => (11, 0, 0),
        Op::Pass { .. } => (12, 0, 0),
        Op::CloseFile { .. } | Op::CloseSocket { .. } | Op::CloseListener { .. } => (13, 0, 0),
        Op::Offload(_) => (14, 0, 0),
    }
}

fn describe(line: &mut String, op: &Op) -> std::fmt::Result {
    match op {
        Op::Read { file, offset, len, .. } => write!(line, "read {file:?} {offset}+{len}"),
        Op::Write { file, offset, data, sync } => {
            let len: usize = data.iter().map(|slice| slice.len()).sum();
            write!(line, "write {file:?} {offset}+{len} {sync:?}")
        }
        Op::Fs(FsOp::WriteFileDurably { path, content }) => {
            write!(line, "write durably {} ({} bytes)", path.display(), content.len())
        }
        Op::Send { socket, data } => {
            let len: usize = data.iter().map(|slice| slice.len()).sum();
            write!(line, "send {socket:?} {len} bytes")
        }
        other => write!(line, "{other:?}"),
    }
}
