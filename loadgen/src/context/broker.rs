//! The broker, as it tells of itself. Kafka's protocol names no software: what there is to tell brokers apart by is who the cluster
//! is, which features it has settled on and how far its APIs go.

use std::time::Duration;

use base::MIB;
use client::{Client, ClientOptions};
use shard::driver::UringOptions;
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions};
use wire::messages::describe_configs::DescribeConfigsResource;
use wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use wire::{ApiKey, Array};

use super::UNKNOWN;
use crate::units::addresses;

/// All questions together; who does not answer in that time is unknown, and the run that follows finds out why.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a broker says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Described {
    pub broker: String,
    pub durability: String,
}

/// Asks the broker behind a bootstrap list, on a shard of its own.
pub(super) fn describe(bootstrap: &str) -> Described {
    let options = SpawnOptions {
        pin: false,
        uring: UringOptions {
            submission_entries: 64,
            descriptors_max: 64,
            recv_buffers: 16,
            ..UringOptions::default()
        },
        shard: ShardOptions { arena_bytes: 16 * MIB, ..ShardOptions::default() },
    };
    let bootstrap = addresses(bootstrap);
    let main = move |shard: Shard, ()| async move {
        let mut options = ClientOptions::new(bootstrap);
        options.timeout = TIMEOUT;
        options.connection.connect_timeout = TIMEOUT;
        options.connection.request_timeout = TIMEOUT;
        let client = Client::new(&shard, options);
        let deadline = shard.now() + TIMEOUT;
        shard.until(deadline, ask(&client)).await
    };
    let answered = spawn_shards(&options, vec![()], main).map(|threads| threads.join().pop().flatten());
    let unknown = |why: &str| Described { broker: format!("{UNKNOWN}: {why}"), durability: UNKNOWN.to_owned() };
    match answered {
        Ok(Some(Ok(described))) => described,
        Ok(Some(Err(error))) => unknown(&error.to_string()),
        Ok(None) => unknown("it does not answer"),
        Err(error) => unknown(&format!("no io_uring: {error}")),
    }
}

/// What each answer adds; the first question decides whether there is a broker at all.
async fn ask(client: &Client) -> Result<Described, client::Error> {
    let connection = client.any_connection().await?;
    client.ask_for_metadata(Some(Array::default())).await?;
    let versions = connection.versions();
    let highest =
        |key: ApiKey| versions.range(key).map_or_else(|| "not served".to_owned(), |(_, most)| format!("v{most}"));
    let mut parts = Vec::new();
    match client.describe_cluster().await {
        Ok(cluster) => parts.push(format!("cluster {}, brokers {}", cluster.id, cluster.brokers.len())),
        Err(_) => {
            let brokers = client.with_metadata(|metadata| metadata.brokers().len());
            parts.push(format!("cluster {UNKNOWN}, brokers {brokers}"));
        }
    }
    for feature in client.finalized_features().await.unwrap_or_default() {
        parts.push(format!("{} {}", feature.name, feature.level));
    }
    parts.push(format!("Produce {}", highest(ApiKey::Produce)));
    parts.push(format!("Fetch {}", highest(ApiKey::Fetch)));
    Ok(Described { broker: parts.join(", "), durability: durability(client).await })
}

/// A broker, as requests about settings number what they belong to.
const BROKER: i8 = 4;
/// Tidemill's setting, beside which Kafka's are accepted and without effect.
const TIDEMILL: &str = "tidemill.durability";
const SETTINGS: [&str; 3] = [TIDEMILL, "log.flush.interval.messages", "log.flush.interval.ms"];

/// The settings of the first broker that decide when a record is on the disk.
async fn durability(client: &Client) -> String {
    let Some(broker) = client.with_metadata(|metadata| metadata.brokers().map(|broker| broker.id).min()) else {
        return UNKNOWN.to_owned();
    };
    let name = broker.to_string();
    let keys = Some(Array::from(&SETTINGS));
    let resources = [DescribeConfigsResource { resource_type: BROKER, resource_name: &name, configuration_keys: keys }];
    let request = DescribeConfigsRequest {
        resources: (&resources).into(),
        include_synonyms: false,
        include_documentation: false,
    };
    let Ok(reply) = client.call(broker, &request).await else { return UNKNOWN.to_owned() };
    let Ok(response) = reply.decode::<DescribeConfigsResponse<'_>>() else { return UNKNOWN.to_owned() };
    let results = response.results.iter();
    let told =
        results.flat_map(|result| result.configs.to_vec()).filter_map(|config| Some((config.name, config.value?)));
    said_of_durability(&told.collect::<Vec<_>>())
}

/// Settings that have an effect and, where they need it, what they mean.
fn said_of_durability(settings: &[(&str, &str)]) -> String {
    let is_tidemill = settings.iter().any(|(name, _)| *name == TIDEMILL);
    let in_force = settings.iter().filter(|(name, _)| !is_tidemill || *name == TIDEMILL);
    let said = in_force.map(|(name, value)| {
        let means = match (*name, *value) {
            (TIDEMILL, "disk") => " (flushed before it is acknowledged)",
            (TIDEMILL, "replicas") => " (acknowledged once written; flushed in the background)",
            ("log.flush.interval.messages", "1") => " (each append is flushed before it is acknowledged)",
            ("log.flush.interval.messages", "9223372036854775807") => {
                " (acknowledged once written; the system flushes)"
            }
            _ => "",
        };
        format!("{name}={value}{means}")
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { format!("{UNKNOWN}: the broker does not tell") } else { said.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_durability_say_what_they_mean() {
        for (settings, said) in [
            (&[][..], "unknown: the broker does not tell"),
            (
                &[("log.flush.interval.messages", "9223372036854775807"), ("tidemill.durability", "disk")],
                "tidemill.durability=disk (flushed before it is acknowledged)",
            ),
            (
                &[("log.flush.interval.messages", "9223372036854775807")],
                "log.flush.interval.messages=9223372036854775807 (acknowledged once written; the system flushes)",
            ),
            (
                &[("log.flush.interval.messages", "500"), ("log.flush.interval.ms", "1000")],
                "log.flush.interval.messages=500, log.flush.interval.ms=1000",
            ),
        ] {
            assert_eq!(said_of_durability(settings), said);
        }
    }
}
