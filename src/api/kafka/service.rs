//! Takes the frames of Kafka connections to their handlers.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use net::{Connection, Reply, Service, Started};
use shard::Slice;
use wire::ApiKey;

use super::api_versions;
use super::context::Context;
use super::table::{Class, find};
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

    fn start(self: Rc<Self>, _: Rc<Connection>, frame: Slice) -> Pin<Box<dyn Future<Output = Started>>> {
        let close = |reason: String| -> Pin<Box<dyn Future<Output = Started>>> {
            Box::pin(std::future::ready(Started::Done(Reply::Close(reason))))
        };
        let Some(key) = frame.first_chunk().map(|&key| i16::from_be_bytes(key)) else {
            return close("a request shorter than its header".to_owned());
        };
        let Some((index, api)) = find(key) else {
            return close(format!("API key {key} is not served; ApiVersions names those that are"));
        };
        let meter = &self.node.request_meters.by_api[index];
        meter.requests.add(1);
        meter.bytes.add(frame.len() as u64);
        let context = match Context::new(self.node.clone(), frame) {
            Ok(context) => Rc::new(context),
            Err(refusal) => return close(refusal.to_string()),
        };
        let version = context.version;
        if !(api.advertised_min..=*api.versions.end()).contains(&version) {
            if api.key == ApiKey::ApiVersions {
                let reply =
                    api_versions::unsupported(&context).unwrap_or_else(|refusal| Reply::Close(refusal.to_string()));
                return Box::pin(std::future::ready(Started::Done(reply)));
            }
            return close(format!(
                "{} version {version} is not served; ApiVersions names those that are",
                api.key.name()
            ));
        }
        let started = (api.handler)(context);
        Box::pin(
            async move { started.await.unwrap_or_else(|refusal| Started::Done(Reply::Close(refusal.to_string()))) },
        )
    }
}
