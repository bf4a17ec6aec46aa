//! Takes the frames of connections to the APIs, and their answers back.

use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;

use net::{Connection, Reply, Service, Started};
use shard::Slice;
use wire::ApiKey;

use super::api;
use super::broker::Broker;
use super::request::{Refusal, Request};

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// The Kafka service of a sink.
pub struct SinkService(Rc<Broker>);

impl SinkService {
    #[must_use]
    pub fn new(broker: Rc<Broker>) -> Rc<Self> {
        Rc::new(Self(broker))
    }

    fn begin(&self, frame: Slice) -> Result<Started, Refusal> {
        let (key, request) = Request::new(frame, self.0.shard.now())?;
        let version = request.asker.version;
        match api::TABLE.iter().find(|api| api.key == key) {
            Some(api) if api.versions.contains(&version) => (api.handler)(&self.0, request),
            Some(api) if key == ApiKey::ApiVersions => {
                // In the lowest version, so that any client can read it (KIP-511).
                api::identity::unsupported(request.asker.at(0), api).map(Started::Done)
            }
            _ => Err(Refusal::NotServed { key: key.code(), version }),
        }
    }
}

impl Service for SinkService {
    fn pipelined(&self, frame: &[u8]) -> bool {
        frame.starts_with(&ApiKey::Produce.code().to_be_bytes())
    }

    fn frame_bytes_max(&self, _: [u8; 2]) -> usize {
        usize::MAX
    }

    fn start(self: Rc<Self>, _: Rc<Connection>, frame: Slice) -> Boxed<Started> {
        let started = self.begin(frame).unwrap_or_else(|refusal| Started::Done(Reply::Close(refusal.to_string())));
        Box::pin(ready(started))
    }
}
