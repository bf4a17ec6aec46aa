//! One request on its way: the frame, what its header says, and how to answer it.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use base::Instant;
use net::{Answer, Reply};
use shard::Slice;
use shard::sync::Permit;
use wire::{DecodeError, Decoder, EncodeError, Message, RequestHeader, encode_response};

use crate::node::Node;
use crate::work::{Lane, TooMuchWork};

/// Whom to answer and how: what is left of a request once its frame has been used.
#[derive(Clone)]
pub struct Asker {
    pub node: Rc<Node>,
    pub version: i16,
    /// When the whole request was there.
    pub started: Instant,
    correlation_id: i32,
}

/// A request with its header read. It owns the frame; what handlers decode borrows from it.
pub struct Context {
    asker: Asker,
    pub frame: Slice,
    /// Where the body starts in the frame.
    body_at: usize,
    peer: IpAddr,
}

impl Deref for Context {
    type Target = Asker;

    fn deref(&self) -> &Asker {
        &self.asker
    }
}

/// Why a request is not answered and its connection ends.
#[derive(Debug)]
pub enum Refusal {
    /// The bytes are not the request they claim to be.
    Decode(DecodeError),
    /// An answer that the version cannot carry: a bug of ours.
    Encode(EncodeError),
    /// There is no memory for what it asks for, and never will be.
    TooMuchWork { api: &'static str, error: TooMuchWork },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "not a valid request: {error}"),
            Self::Encode(error) => write!(f, "the answer can't be written: {error}"),
            Self::TooMuchWork { api, error } => write!(f, "a request of {api} asks for too much: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<EncodeError> for Refusal {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl Context {
    /// Reads the header.
    ///
    /// # Errors
    /// An unknown key or bytes that are no header.
    pub fn new(node: Rc<Node>, frame: Slice, peer: IpAddr) -> Result<Self, Refusal> {
        let (version, correlation_id, body_at) = {
            let mut decoder = Decoder::new(&frame);
            let header = RequestHeader::decode(&mut decoder)?;
            (header.api_version, header.correlation_id, decoder.position())
        };
        let started = node.shard.now();
        Ok(Self { asker: Asker { node, version, started, correlation_id }, frame, body_at, peer })
    }

    /// What the client calls itself; empty where it does not say.
    #[must_use]
    pub fn client_id(&self) -> &str {
        RequestHeader::decode(&mut Decoder::new(&self.frame))
            .ok()
            .and_then(|header| header.client_id)
            .unwrap_or_default()
    }

    /// Where the client is, as Kafka writes it.
    #[must_use]
    pub fn client_host(&self) -> String {
        format!("/{}", self.peer)
    }

    /// For an answer that comes when the frame is gone.
    #[must_use]
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// A decoder at the start of the body.
    #[must_use]
    pub fn body(&self) -> Decoder<'_> {
        Decoder::new(&self.frame[self.body_at..])
    }

    /// The body as a request of this version. What stands behind it is passed over, as Kafka does: librdkafka 2 ends a Metadata request for
    /// all topics with bytes that belong to none of its fields.
    ///
    /// # Errors
    /// Bytes that are not that request.
    pub fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, Refusal> {
        Ok(M::decode(&mut self.body(), self.version)?)
    }

    /// A part of the frame that a decoded message borrows, as a slice that keeps the frame alive.
    #[must_use]
    pub fn share(&self, part: &[u8]) -> Slice {
        let range = wire::offset_in(&self.frame, part).expect("decoded parts lie in the frame they were decoded from");
        self.frame.slice(range..range + part.len())
    }
}

impl Asker {
    /// An answer without external bytes.
    ///
    /// # Errors
    /// A value that the version cannot carry.
    pub fn answer<'a, M: Message<'a>>(&self, response: &M) -> Result<Reply, Refusal> {
        self.answer_with(response, &[])
    }

    /// An answer whose `Records::External { index, .. }` stand for `externals[index]`.
    ///
    /// # Errors
    /// A value that the version cannot carry.
    pub fn answer_with<'a, M: Message<'a>>(&self, response: &M, externals: &[Vec<Slice>]) -> Result<Reply, Refusal> {
        self.answer_at(self.version, response, externals)
    }

    /// An answer at another version than the request's: ApiVersions to a client that is newer than this broker.
    ///
    /// # Errors
    /// A value that the version cannot carry.
    pub fn answer_at<'a, M: Message<'a>>(
        &self,
        version: i16,
        response: &M,
        externals: &[Vec<Slice>],
    ) -> Result<Reply, Refusal> {
        let frame = encode_response(version, self.correlation_id, response, Vec::with_capacity(256))?;
        Ok(Reply::Answer(Answer::laid_out(frame, externals)))
    }

    /// Waits for memory for an answer whose length shows only once it is known, with what is built for it. Not of its lane: there, members wait that
    /// hold memory until this one is answered.
    pub async fn room_for_answer(&self, bytes: usize) -> Option<Permit> {
        if bytes == 0 {
            return None;
        }
        let room = self.node.work.acquire(Lane::Other, bytes.min(self.node.work.limit_bytes(Lane::Other) / 2));
        Some(room.await.expect("no more than half of what there is"))
    }

    /// An answer that was written by hand: `body` goes behind the plain header.
    #[must_use]
    pub fn answer_raw(&self, body: &[u8]) -> Reply {
        let length = i32::try_from(body.len() + 4).expect("hand-written answers are short");
        let mut frame = Vec::with_capacity(body.len() + 8);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&self.correlation_id.to_be_bytes());
        frame.extend_from_slice(body);
        Reply::Answer(vec![Slice::from_vec(frame)].into())
    }
}

/// The answer holds its memory until it is sent.
pub fn keeping(reply: Reply, memory: impl Any) -> Reply {
    match reply {
        Reply::Answer(mut answer) => {
            answer.kept = Some(Box::new((answer.kept, memory)));
            Reply::Answer(answer)
        }
        other => other,
    }
}
