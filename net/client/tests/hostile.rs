//! A broker whose answers are damaged: nothing panics, nothing hangs, and the client works again once they are sound.

mod support;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use base::Random;
use client::{
    Client, Consumer, ConsumerOptions, NewTopic, OffsetSpec, Producer, ProducerOptions, ProducerRecord, Start,
};
use record::Compression;
use support::{Reaction, index, run_with};
use wire::ApiKey;

/// Writes, reads and asks; whatever comes of it, it comes by itself.
async fn use_everything(client: &Client, rounds: i64) -> Result<(), String> {
    let options = ProducerOptions { delivery_timeout: Duration::from_secs(3), ..ProducerOptions::default() };
    let producer = Producer::open(client, options).map_err(|error| error.to_string())?;
    let consumer = Consumer::new(client, ConsumerOptions::default());
    let text = |error: &dyn std::fmt::Display| error.to_string();
    client.topics().await.map_err(|error| text(&error))?;
    client.describe_topic("t").await.map_err(|error| text(&error))?;
    let asked = [OffsetSpec::Earliest, OffsetSpec::Latest].map(|spec| ("t", index(0), spec));
    client.list_offsets(&asked).await.map_err(|error| text(&error))?;
    consumer.assign("t", index(0), Start::Beginning).await.map_err(|error| text(&error))?;
    for _ in 0..rounds {
        let record = ProducerRecord { topic: "t", value: Some(b"x"), ..Default::default() };
        let delivery = producer.send(record).await.map_err(|error| text(&error))?;
        delivery.await.map_err(|error| text(&error))?;
        let fetched = consumer.next().await.map_err(|error| text(&error))?;
        fetched.batch.iter().flat_map(|batch| batch.records()).for_each(drop);
    }
    Ok(())
}

/// Answers to one API are damaged for a while, each in its own way; after that all must be well.
fn check(key: ApiKey, seed: u64) {
    let change = |options: &mut client::ClientOptions| {
        options.timeout = Duration::from_secs(5);
        options.connection.request_timeout = Duration::from_secs(1);
    };
    run_with(1, change, move |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        cluster.borrow_mut().fill("t", 0, 5, Compression::None);
        let mut random = Random::new(seed);
        cluster.borrow_mut().hook = Box::new(move |_, incoming| {
            if incoming.key == key && random.chance(2, 3) {
                Reaction::Mangle(random.next_u64())
            } else {
                Reaction::Serve
            }
        });
        for _ in 0..3 {
            // The answers may make a consumer wait for what never comes; that is no hang.
            let mut using = pin!(use_everything(&client, 5));
            let mut limit = pin!(client.shard().sleep(Duration::from_secs(60)));
            poll_fn(|context| match using.as_mut().poll(context) {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => limit.as_mut().poll(context).map(|_| ()),
            })
            .await;
        }
        cluster.borrow_mut().hook = Box::new(|_, _| Reaction::Serve);
        // What was believed is found out to be wrong, or grows old.
        client.doubt_topic("t");
        let fresh = Client::new(client.shard(), client.options().clone());
        use_everything(&fresh, 2).await.unwrap_or_else(|error| panic!("{key} {seed}: {error}"));
    });
}

#[test]
fn damaged_answers_do_no_harm() {
    let keys = [
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::Produce,
        ApiKey::Fetch,
        ApiKey::ListOffsets,
        ApiKey::InitProducerId,
    ];
    for key in keys {
        (0..25).for_each(|seed| check(key, seed));
    }
}

#[test]
fn a_topic_that_cannot_be_created_says_why() {
    run_with(
        1,
        |options| options.timeout = Duration::from_secs(5),
        |cluster, client| async move {
            cluster.borrow_mut().versions.remove(&ApiKey::CreateTopics.code());
            let topic = NewTopic { name: "t".into(), ..NewTopic::default() };
            let error = client.create_topic(&topic, false).await.expect_err("not served");
            assert_eq!(error.to_string(), "the broker does not serve CreateTopics (wanted: versions 2 to 7)");
        },
    );
}
