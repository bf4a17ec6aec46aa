//! A peer with a socket of its own, which writes what it likes and waits for what comes of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wire::{ApiKey, Encoder};

/// Far longer than an answer or a close takes. A broker that hangs fails the test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a broker may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// With so many bytes.
    Answered(usize),
    Closed,
}

pub struct Peer(pub TcpStream);

impl Peer {
    /// # Panics
    /// When the broker does not take connections.
    pub fn connect(kafka: &str) -> Self {
        let stream = TcpStream::connect(kafka).expect("the broker takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self(stream)
    }

    /// Sends all of it, unless the broker closes before.
    ///
    /// # Panics
    /// When the broker neither takes it nor closes.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.0.write_all(bytes) {
            assert!(is_close(error.kind()), "it neither reads nor closes: {error}");
        }
    }

    /// Sends until the broker takes no more for now: it must not wait for us, nor we for it.
    pub fn send_what_is_taken(&mut self, bytes: &[u8], times: usize) {
        self.0.set_nonblocking(true).expect("a socket may be non-blocking");
        'all: for _ in 0..times {
            let mut rest = bytes;
            while !rest.is_empty() {
                match self.0.write(rest) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(_) => break 'all,
                }
            }
        }
        self.0.set_nonblocking(false).expect("a socket may be blocking");
    }

    /// The next answer, or the end of the connection.
    ///
    /// # Panics
    /// When neither comes.
    pub fn outcome(&mut self) -> Outcome {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) => {
                assert!(is_close(error.kind()), "neither an answer nor a close: {error}");
                return Outcome::Closed;
            }
        }
        let bytes = usize::try_from(i32::from_be_bytes(length)).expect("a length");
        let taken = std::io::copy(&mut (&self.0).take(bytes as u64), &mut std::io::sink());
        match taken {
            Ok(taken) if taken == bytes as u64 => Outcome::Answered(bytes),
            Ok(_) => Outcome::Closed,
            Err(error) => {
                assert!(is_close(error.kind()), "half an answer: {error}");
                Outcome::Closed
            }
        }
    }

    /// Says that no more will come; returns once the broker has closed too.
    ///
    /// # Panics
    /// When it does not.
    pub fn finish(self) {
        // The broker may have closed already.
        let _ = self.0.shutdown(Shutdown::Write);
        if let Err(error) = std::io::copy(&mut &self.0, &mut std::io::sink()) {
            assert!(is_close(error.kind()), "it neither answers nor closes: {error}");
        }
    }
}

/// The broker has closed, maybe with bytes of ours unread.
fn is_close(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// A peer that blocks on its socket has a thread of its own.
#[allow(clippy::disallowed_methods)]
pub fn thread(run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::spawn(run)
}

/// Runs `count` of them side by side.
pub fn side_by_side(count: usize, run: impl Fn(usize) + Send + Clone + 'static) {
    let start = |number| {
        let run = run.clone();
        thread(move || run(number))
    };
    let threads: Vec<_> = (0..count).map(start).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a peer is answered or closed"));
}

/// A length prefix and what it says.
pub fn framed(frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).expect("a frame's length").to_be_bytes();
    [&length, frame].concat()
}

/// A request's header, in the layout of its version, and whatever body.
pub fn request(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut header = Encoder::new();
    header.put_i16(key);
    header.put_i16(version);
    header.put_i32(7);
    header.put_i16(-1);
    if ApiKey::from_code(key).is_some_and(|key| key.request_header_version(version) >= 2) {
        header.put_uvarint(0);
    }
    framed(&[header.bytes(), body].concat())
}
