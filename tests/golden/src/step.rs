//! One step of the script: a request at each of its versions, and how its answer is read.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use base::{ProducerId, Uuid, WallTime};
use wire::{ApiKey, Decoder, LENGTH_BYTES, Message, Request, ResponseHeader, encode_request, encode_response};

use crate::known::Known;
use crate::tree::Tree;

/// The correlation id of every step's request.
pub const CORRELATION: i32 = 0x0601_d000;
const CLIENT_ID: &str = "golden";

/// Where a request is built: its version, and what the run has learnt.
pub struct At<'k> {
    pub version: i16,
    known: &'k Known,
}

impl<'k> At<'k> {
    #[must_use]
    pub fn new(known: &'k Known) -> Self {
        Self { version: known.version, known }
    }

    /// A name that only this version of the step uses.
    #[must_use]
    pub fn name(&self, name: &str) -> &'static str {
        kept(format!("{name}-v{}", self.version))
    }

    /// The id of a topic; one that no topic has, where there is none.
    #[must_use]
    pub fn id(&self, topic: &str) -> Uuid {
        self.known.topic_id(topic).unwrap_or(NO_SUCH_ID)
    }

    /// A time of the script.
    #[must_use]
    pub fn time(&self, offset_ms: i64) -> WallTime {
        WallTime(self.known.base().0 + offset_ms)
    }

    /// The producer id that was given out as the `index`th.
    #[must_use]
    pub fn producer(&self, index: usize) -> ProducerId {
        ProducerId(self.known.producer(index).expect("a step before asked for it"))
    }

    /// The id that a member of this version's group was given; one that nobody has, where there is none.
    #[must_use]
    pub fn member(&self) -> &'static str {
        self.known.member(self.version).map_or("nobody", |id| kept(id.to_owned()))
    }

    /// The epoch of this version's member; 1 where it has none.
    #[must_use]
    pub fn epoch(&self) -> i32 {
        self.known.epoch(self.version).unwrap_or(1)
    }

    /// The newest fetch session of this version; −1 where there is none.
    #[must_use]
    pub fn session(&self) -> i32 {
        self.session_of(self.version)
    }

    /// The newest fetch session of a version; −1 where there is none.
    #[must_use]
    pub fn session_of(&self, version: i16) -> i32 {
        self.known.session(version).unwrap_or(-1)
    }
}

/// An id that no topic has.
pub const NO_SUCH_ID: Uuid = Uuid([7; 16]);

/// Text that lives as long as the run: requests borrow what they are made of, and a run is short.
#[must_use]
pub fn kept(text: String) -> &'static str {
    text.leak()
}

/// What came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Reply {
        tree: Tree,
        /// Of the whole frame.
        bytes: usize,
    },
    /// A frame that is not the answer's type; its bytes.
    Unreadable { error: String, bytes: Vec<u8> },
    /// No answer, and the connection goes on.
    Silence,
    /// The broker ended the connection.
    Closed,
    /// An answer was due, and none came.
    Nothing,
}

type Encode = Box<dyn Fn(&At<'_>) -> Vec<u8>>;

/// One step.
pub struct Step {
    /// `group/what`.
    pub name: &'static str,
    pub api: ApiKey,
    pub versions: RangeInclusive<i16>,
    encode: Encode,
    decode: fn(&[u8], i16) -> Result<Tree, String>,
    /// There may be no answer: a second request tells silence from an answer that is late.
    pub may_be_silent: bool,
    /// It changes metadata: the run waits until the broker has applied it.
    pub changes: bool,
    /// Sent again while the answer says that a coordinator is on its way.
    pub is_patient: bool,
}

/// A step that sends a request at every version of its message.
pub fn step<R>(name: &'static str, build: impl Fn(&At<'_>) -> R + 'static) -> Step
where
    R: Request<'static>,
    for<'r> <R as Request<'static>>::Reply<'r>: Debug,
{
    let encode = move |at: &At<'_>| {
        let frame = encode_request(at.version, CORRELATION, Some(CLIENT_ID), &build(at), Vec::new());
        let frame = frame.unwrap_or_else(|error| panic!("{name} at version {}: {error}", at.version));
        assert!(frame.is_whole(), "{name}: the script's records stand in its requests");
        frame.into_structure()
    };
    Step {
        name,
        api: R::KEY,
        versions: R::VERSIONS,
        encode: Box::new(encode),
        decode: decode::<R>,
        may_be_silent: false,
        changes: false,
        is_patient: false,
    }
}

/// A step whose request is written by hand: `body` goes behind the header of `api`. It is read as a reply to `R`, at the version that
/// the step's name is for.
pub fn raw<R>(name: &'static str, versions: RangeInclusive<i16>, body: impl Fn(&At<'_>) -> Vec<u8> + 'static) -> Step
where
    R: Request<'static>,
    for<'r> <R as Request<'static>>::Reply<'r>: Debug,
{
    let encode = move |at: &At<'_>| frame(R::KEY.code(), at.version, R::KEY.is_flexible(at.version), &body(at));
    Step {
        name,
        api: R::KEY,
        versions,
        encode: Box::new(encode),
        decode: decode::<R>,
        may_be_silent: false,
        changes: false,
        is_patient: false,
    }
}

/// A step that sends these very bytes.
pub fn bytes(name: &'static str, bytes: impl Fn() -> Vec<u8> + 'static) -> Step {
    Step {
        name,
        api: ApiKey::ApiVersions,
        versions: 0..=0,
        encode: Box::new(move |_| bytes()),
        decode: |_, _| Err("no answer was expected".to_owned()),
        may_be_silent: false,
        changes: false,
        is_patient: false,
    }
}

/// A request's frame with its header.
#[must_use]
pub fn frame(key: i16, version: i16, flexible: bool, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; LENGTH_BYTES];
    frame.extend_from_slice(&key.to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&CORRELATION.to_be_bytes());
    frame.extend_from_slice(&i16::try_from(CLIENT_ID.len()).expect("it is short").to_be_bytes());
    frame.extend_from_slice(CLIENT_ID.as_bytes());
    if flexible {
        frame.push(0);
    }
    frame.extend_from_slice(body);
    let length = i32::try_from(frame.len() - LENGTH_BYTES).expect("it is short");
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Reads an answer to its last byte, and holds that its fields are all there is in it: written again, they give the same bytes.
fn decode<R>(frame: &[u8], version: i16) -> Result<Tree, String>
where
    R: Request<'static>,
    for<'r> <R as Request<'static>>::Reply<'r>: Debug,
{
    let mut decoder = Decoder::new(frame);
    let header = ResponseHeader::decode(&mut decoder, R::KEY, version).map_err(|error| error.to_string())?;
    let reply = R::Reply::decode_exact(decoder, version).map_err(|error| error.to_string())?;
    let again =
        encode_response(version, header.correlation_id, &reply, Vec::new()).map_err(|error| error.to_string())?;
    if again.structure().get(LENGTH_BYTES..) != Some(frame) {
        return Err(format!("written again it is other bytes: {:?}", again.structure()));
    }
    Tree::parse(&format!("{reply:?}")).map_err(|error| error.to_string())
}

impl Step {
    /// Only at these versions.
    #[must_use]
    pub fn at(self, versions: RangeInclusive<i16>) -> Self {
        Self { versions, ..self }
    }

    #[must_use]
    pub fn silent(self) -> Self {
        Self { may_be_silent: true, ..self }
    }

    #[must_use]
    pub fn changes(self) -> Self {
        Self { changes: true, ..self }
    }

    #[must_use]
    pub fn patient(self) -> Self {
        Self { is_patient: true, ..self }
    }

    /// Reads the answer as one of version 0, whatever the request's.
    #[must_use]
    pub fn read_as_version_0<R>(self) -> Self
    where
        R: Request<'static>,
        for<'r> <R as Request<'static>>::Reply<'r>: Debug,
    {
        Self { decode: |frame, _| decode::<R>(frame, 0), ..self }
    }

    #[must_use]
    pub fn encode(&self, at: &At<'_>) -> Vec<u8> {
        (self.encode)(at)
    }

    /// Reads the frame of an answer, without its length.
    #[must_use]
    pub fn decode(&self, frame: &[u8], version: i16) -> Outcome {
        match (self.decode)(frame, version) {
            Ok(tree) => Outcome::Reply { tree, bytes: frame.len() + LENGTH_BYTES },
            Err(error) => Outcome::Unreadable { error, bytes: frame.to_vec() },
        }
    }
}
