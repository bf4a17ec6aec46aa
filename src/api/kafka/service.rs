//! Takes the frames of Kafka connections to their handlers.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;

use net::{Connection, Reply, Service, Started};
use shard::Slice;
use wire::ApiKey;

use super::api_versions;
use super::context::{Context, Refusal, keeping};
use super::table::{Api, Class, find};
use crate::node::Node;

/// The Kafka service of one shard.
pub struct KafkaService {
    node: Rc<Node>,
}

impl KafkaService {
    #[must_use]
    pub fn new(node: Rc<Node>) -> Rc<Self> {
        Rc::new(Self { node })
    }
}

impl Service for KafkaService {
    fn pipelined(&self, frame: &[u8]) -> bool {
        frame
            .first_chunk()
            .is_some_and(|&key| find(i16::from_be_bytes(key)).is_some_and(|(_, api)| api.class == Class::Pipelined))
    }

    /// What a request may come to must fit into its lane, so a longer one could never be answered. Only Produce is long for its records.
    fn frame_bytes_max(&self, head: [u8; 2]) -> usize {
        /// The longest request that carries no records.
        const WITHOUT_RECORDS_MAX: usize = 1 << 20;
        let Some((_, api)) = find(i16::from_be_bytes(head)) else { return 0 };
        let fits = api.cost.frame_bytes_max(self.node.work.limit_bytes(api.lane()));
        if api.key == ApiKey::Produce { fits } else { fits.min(WITHOUT_RECORDS_MAX) }
    }

    fn start(self: Rc<Self>, connection: Rc<Connection>, frame: Slice) -> Pin<Box<dyn Future<Output = Started>>> {
        match self.context(frame, connection.peer.ip()) {
            Err(started) => Box::pin(std::future::ready(started)),
            Ok((api, context)) => {
                Box::pin(async move { work(api, context).await.unwrap_or_else(|refusal| close(&refusal)) })
            }
        }
    }
}

fn close(reason: &dyn fmt::Display) -> Started {
    Started::Done(Reply::Close(reason.to_string()))
}

impl KafkaService {
    /// The request and the line of its API; `Err` with what is to become of one that is not served.
    fn context(&self, frame: Slice, peer: IpAddr) -> Result<(&'static Api, Rc<Context>), Started> {
        let key = frame.first_chunk().map(|&key| i16::from_be_bytes(key));
        let key = key.ok_or_else(|| close(&"a request shorter than its header"))?;
        let (index, api) = find(key)
            .ok_or_else(|| close(&format_args!("API key {key} is not served; ApiVersions names those that are")))?;
        let meter = &self.node.request_meters.by_api[index];
        meter.requests.add(1);
        meter.bytes.add(frame.len() as u64);
        let context = Rc::new(Context::new(self.node.clone(), frame, peer).map_err(|refusal| close(&refusal))?);
        let version = context.version;
        if (api.advertised_min..=*api.versions.end()).contains(&version) {
            return Ok((api, context));
        }
        if api.key == ApiKey::ApiVersions {
            return Err(api_versions::unsupported(&context).map_or_else(|refusal| close(&refusal), Started::Done));
        }
        let name = api.key.name();
        Err(close(&format_args!("{name} version {version} is not served; ApiVersions names those that are")))
    }
}

/// Starts a request once there is memory for what it may come to; its answer holds that until it is sent.
async fn work(api: &'static Api, context: Rc<Context>) -> Result<Started, Refusal> {
    let bytes = api.cost.of(&context)?;
    let permit = context.node.work.acquire(api.lane(), bytes).await;
    let permit = permit.map_err(|error| Refusal::TooMuchWork { api: api.key.name(), error })?;
    Ok(match (api.handler)(context).await? {
        Started::Done(reply) => Started::Done(keeping(reply, permit)),
        Started::Later(reply, on_close) => {
            Started::Later(Box::pin(async move { keeping(reply.await, permit) }), on_close)
        }
    })
}
