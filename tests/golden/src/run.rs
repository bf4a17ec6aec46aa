//! Puts the script to a broker and records what it answers.

use base::{Uuid, WallTime};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use wire::messages::metadata::MetadataRequest;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse, DescribeConfigsResponse, MetadataResponse};
use wire::{Decoder, Message, Request, ResponseHeader, encode_request};

use crate::connection::{Connection, Heard};
use crate::fields::fields;
use crate::known::Known;
use crate::recording::{Answers, BYTES, OUTCOME, Recording};
use crate::script::FENCE;
use crate::step::{At, Outcome, Step, kept};
use crate::tree::Tree;

/// How often the run looks for something that is on its way: many seconds of looking.
const LOOKS_MAX: usize = 100_000;

/// A broker that takes requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// `HOST:PORT`.
    pub address: String,
    /// Whether it has coordinators, which come up when they are first asked for.
    pub has_coordinators: bool,
}

/// What an API serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    pub key: i16,
    pub min: i16,
    pub max: i16,
}

/// The answers to every step, in order.
///
/// # Panics
/// The broker does not answer at all, or what the run itself asks of it fails.
#[must_use]
pub fn record(peer: &Peer, script: &[Step]) -> Recording {
    let port = peer.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("HOST:PORT");
    let mut run = Run {
        connection: Connection::new(&peer.address),
        fence: Fence { connection: Connection::new(&peer.address), count: 0 },
        known: Known::new(port, wall_now()),
        has_coordinators: peer.has_coordinators,
    };
    Recording { steps: script.iter().map(|step| run.step(step)).collect() }
}

/// What the broker says that it serves.
#[must_use]
pub fn served(peer: &Peer) -> Vec<Served> {
    let mut connection = Connection::new(&peer.address);
    let mut served = Vec::new();
    ask(&mut connection, 0, &ApiVersionsRequest::default(), |response: ApiVersionsResponse<'_>| {
        served = response
            .api_keys
            .iter()
            .map(|api| Served { key: api.api_key, min: api.min_version, max: api.max_version })
            .collect();
    });
    served
}

/// The script's timestamps must lie near the brokers' clocks, which are this machine's.
fn wall_now() -> WallTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    WallTime(time.tv_sec * 1000 + time.tv_nsec / 1_000_000)
}

/// A request that must be answered.
fn ask<R: Request<'static>>(connection: &mut Connection, version: i16, request: &R, read: impl FnOnce(R::Reply<'_>)) {
    let frame = encode_request(version, 0, None, request, Vec::new()).expect("the run's requests can be written");
    let Heard::Frame(answer) = connection.exchange(frame.structure()) else { panic!("{} is not answered", R::NAME) };
    let mut decoder = Decoder::new(&answer);
    ResponseHeader::decode(&mut decoder, R::KEY, version).expect("an answer has a header");
    read(R::Reply::decode_exact(decoder, version).unwrap_or_else(|error| panic!("{}: {error}", R::NAME)));
}

struct Run {
    connection: Connection,
    fence: Fence,
    known: Known,
    has_coordinators: bool,
}

impl Run {
    fn step(&mut self, step: &Step) -> Answers {
        let mut answers = Answers::new(step.name, step.api.name(), step.versions.clone());
        for version in step.versions.clone() {
            self.known.version = version;
            let outcome = self.outcome(step, version);
            if let Outcome::Reply { tree, .. } = &outcome {
                self.known.learn(tree);
            }
            if step.changes {
                self.fence.wait_until_applied();
                self.fence.learn_topics(&mut self.known);
            }
            answers.add(version, self.shown(&outcome));
        }
        answers
    }

    fn outcome(&mut self, step: &Step, version: i16) -> Outcome {
        for _ in 0..LOOKS_MAX {
            let frame = step.encode(&At::new(&self.known));
            let heard = match step.may_be_silent {
                true => self.connection.exchange_or_silence(&frame),
                false => self.connection.exchange(&frame),
            };
            let outcome = match heard {
                Heard::Frame(frame) => step.decode(&frame, version),
                Heard::Silence => Outcome::Silence,
                Heard::Closed => Outcome::Closed,
                Heard::Nothing => Outcome::Nothing,
            };
            let on_its_way = step.is_patient && self.has_coordinators && is_on_its_way(&outcome);
            if !on_its_way {
                return outcome;
            }
        }
        panic!("{} at version {version}: the coordinator does not come", step.name)
    }

    fn shown(&self, outcome: &Outcome) -> Vec<(String, String)> {
        let only = |value: String| vec![(OUTCOME.to_owned(), value)];
        match outcome {
            Outcome::Closed => only("closed".to_owned()),
            Outcome::Silence => only("silence".to_owned()),
            Outcome::Nothing => only("no answer at all".to_owned()),
            Outcome::Unreadable { error, bytes } => only(format!("unreadable ({error}): {bytes:02x?}")),
            Outcome::Reply { tree, bytes } => {
                // A path of this machine has the length it has.
                let bytes = if has_path(tree) { "<varies>".to_owned() } else { bytes.to_string() };
                let mut shown = vec![(BYTES.to_owned(), bytes)];
                shown.extend(fields(tree, &self.known));
                shown
            }
        }
    }
}

fn has_path(tree: &Tree) -> bool {
    match tree {
        Tree::Struct(fields) => fields.iter().any(|(name, value)| name == "log_dir" || has_path(value)),
        Tree::List(items) => items.iter().any(has_path),
        Tree::Text(_) | Tree::Atom(_) | Tree::Null => false,
    }
}

fn is_on_its_way(outcome: &Outcome) -> bool {
    const CODES: [&str; 3] = ["CoordinatorNotAvailable", "CoordinatorLoadInProgress", "NotCoordinator"];
    fn says_so(tree: &Tree) -> bool {
        match tree {
            Tree::Struct(fields) => fields.iter().any(|(_, value)| says_so(value)),
            Tree::List(items) => items.iter().any(says_so),
            Tree::Atom(atom) => CODES.contains(&atom.as_str()),
            Tree::Text(_) | Tree::Null => false,
        }
    }
    matches!(outcome, Outcome::Reply { tree, .. } if says_so(tree))
}

/// Waits until a broker has applied the changes of metadata that it has answered: Kafka answers once its controller has them, and its
/// broker follows. Changes are applied in their order and in groups, one group after another, so once a change that was asked for when
/// another could be seen can be seen itself, all that came before the first of the two is applied.
struct Fence {
    connection: Connection,
    count: i64,
}

impl Fence {
    fn wait_until_applied(&mut self) {
        for _ in 0..2 {
            self.count += 1;
            let value = kept((1_000_000_000 + self.count).to_string());
            self.set_retention(value);
            let seen = (0..LOOKS_MAX).any(|_| self.retention().as_deref() == Some(value));
            assert!(seen, "the broker does not follow its controller");
        }
    }

    fn set_retention(&mut self, value: &'static str) {
        let config = AlterableConfig { name: "retention.ms", config_operation: 0, value: Some(value) };
        let resource = AlterConfigsResource { resource_type: 2, resource_name: FENCE, configs: vec![config].into() };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource].into(), validate_only: false };
        ask(&mut self.connection, 1, &request, |_| ());
    }

    fn retention(&mut self) -> Option<String> {
        let resource = DescribeConfigsResource {
            resource_type: 2,
            resource_name: FENCE,
            configuration_keys: Some(vec!["retention.ms"].into()),
        };
        let request = DescribeConfigsRequest { resources: vec![resource].into(), ..Default::default() };
        let mut found = None;
        ask(&mut self.connection, 4, &request, |response: DescribeConfigsResponse<'_>| {
            let values = response.results.iter().flat_map(|result| result.configs.to_vec());
            found = values.filter_map(|config| config.value.map(str::to_owned)).next();
        });
        found
    }

    fn learn_topics(&mut self, known: &mut Known) {
        let request = MetadataRequest { topics: None, ..Default::default() };
        ask(&mut self.connection, 12, &request, |response: MetadataResponse<'_>| {
            for topic in &response.topics {
                if let Some(name) = topic.name.filter(|_| topic.topic_id != Uuid::ZERO) {
                    known.learn_topic(topic.topic_id, name);
                }
            }
        });
    }
}
