//! A blocking connection to a broker that sends one frame at a time.
//!
//! Owner: the run. Every wait has an end: that a broker neither answers nor ends the connection is something to be told, too.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use wire::messages::ApiVersionsRequest;
use wire::{ApiKey, LENGTH_BYTES, encode_request, frame_length};

/// Far more than any answer should take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Far more than any answer has.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// The correlation id of the request that follows one which may be met with silence.
const PROBE: i32 = 0x0b0b_0b0b;

/// How an exchange ended.
#[derive(Debug)]
pub enum Heard {
    /// A frame without its length.
    Frame(Vec<u8>),
    /// No answer, and the connection goes on.
    Silence,
    Closed,
    /// Nothing at all within the time that the run waits.
    Nothing,
}

/// A connection; made again once it has ended or is of no more use.
pub struct Connection {
    address: String,
    stream: TcpStream,
}

impl Connection {
    /// # Panics
    /// Nobody listens there.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: connect(address) }
    }

    /// Sends a frame and waits for its answer.
    ///
    /// # Panics
    /// What comes is no frame.
    pub fn exchange(&mut self, frame: &[u8]) -> Heard {
        if send(&mut self.stream, frame) { self.hear() } else { self.closed() }
    }

    /// The same where there may be no answer: a second request follows, whose answer tells that the first has none.
    ///
    /// # Panics
    /// As [`Connection::exchange`].
    pub fn exchange_or_silence(&mut self, frame: &[u8]) -> Heard {
        let probe = encode_request(0, PROBE, None, &ApiVersionsRequest::default(), Vec::new()).expect("it is short");
        if !(send(&mut self.stream, frame) && send(&mut self.stream, probe.structure())) {
            return self.closed();
        }
        match self.hear() {
            Heard::Frame(answer) if answer.starts_with(&PROBE.to_be_bytes()) => Heard::Silence,
            Heard::Frame(answer) => match self.hear() {
                Heard::Frame(probe) if probe.starts_with(&PROBE.to_be_bytes()) => Heard::Frame(answer),
                other => panic!("an answer is followed by that of {}, not by {other:?}", ApiKey::ApiVersions),
            },
            heard => heard,
        }
    }

    fn hear(&mut self) -> Heard {
        let mut length = [0; LENGTH_BYTES];
        let frame = self.stream.read_exact(&mut length).and_then(|()| {
            let length = frame_length(length, FRAME_BYTES_MAX).map_err(io::Error::other)?;
            let mut frame = vec![0; length];
            self.stream.read_exact(&mut frame).map(|()| frame)
        });
        match frame {
            Ok(frame) => Heard::Frame(frame),
            Err(error) if is_end(&error) => self.closed(),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                self.stream = connect(&self.address);
                Heard::Nothing
            }
            Err(error) => panic!("no frame from {}: {error}", self.address),
        }
    }

    fn closed(&mut self) -> Heard {
        self.stream = connect(&self.address);
        Heard::Closed
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("nobody listens on {address}: {error}"));
    stream.set_nodelay(true).expect("a TCP socket has this option");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("it is not zero");
    stream
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// False where the connection ended instead.
fn send(stream: &mut TcpStream, frame: &[u8]) -> bool {
    match stream.write_all(frame) {
        Ok(()) => true,
        Err(error) if is_end(&error) => false,
        Err(error) => panic!("a broker takes no bytes: {error}"),
    }
}
