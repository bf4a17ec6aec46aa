//! `tidemill consume --group`: prints what a member of a group gets, and commits what it has printed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Instant, Offset, PartitionIndex};
use client::{Client, Fetched, GroupConsumer, GroupError, GroupOptions, OffsetSpec, OutOfRange, Start};
use shard::Shard;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Exit;
use super::consume::{ConsumeArguments, print, unreadable};
use super::failure::Failure;
use super::output::{Format, Output};
use super::session;

/// What was printed is committed at the latest after this long.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is looked whether the user wants it to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

type Place = (String, PartitionIndex);

/// A member at work.
struct Member<'a> {
    shard: &'a Shard,
    client: &'a Client,
    consumer: GroupConsumer,
    arguments: &'a ConsumeArguments,
    output: Output,
    /// Of each partition the next offset that is not printed yet.
    printed: BTreeMap<Place, Offset>,
    /// Where each ended when it became this member's.
    ends: BTreeMap<Place, Offset>,
    committed_at: Instant,
    left: u64,
}

pub async fn consume(shard: &Shard, arguments: &ConsumeArguments, group: &str) -> Result<Exit, Failure> {
    let begin = match arguments.from.0 {
        Start::Beginning => OutOfRange::Beginning,
        Start::End => OutOfRange::End,
        Start::Offset(_) | Start::Time(_) => {
            let what =
                "a group goes on where it was: --from beginning or end says where it begins what it has not read yet";
            let remedy = format!("`tidemill group reset-offsets {group} --to …` sets where it goes on");
            return Err(Failure::new(Exit::WrongUsage, what).remedy(remedy));
        }
    };
    let client = arguments.connect.client(shard).await?;
    client.topic(&arguments.topic).await?;
    // Whoever interrupts it has it leave, so that others need not wait for the end of its session.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, interrupted.clone())
            .and_then(|_| signal_hook::flag::register(signal, interrupted.clone()))
            .map_err(|error| Failure::failed(format!("signals can't be handled: {error}")))?;
    }
    let options = GroupOptions { begin, ..GroupOptions::new(group.to_owned(), vec![arguments.topic.clone()]) };
    let mut member = Member {
        shard,
        client: &client,
        consumer: GroupConsumer::join(&client, options),
        arguments,
        output: Output::stdout(),
        printed: BTreeMap::new(),
        ends: BTreeMap::new(),
        committed_at: shard.now(),
        left: arguments.count.unwrap_or(u64::MAX),
    };
    if arguments.output == Format::Table {
        member.output.line("PARTITION\tOFFSET\tTIMESTAMP\tKEY\tVALUE");
    }
    let outcome = member.work(&interrupted).await;
    member.output.flush();
    let committed = member.consumer.commit_to(&member.printed).await;
    let left = member.consumer.leave().await;
    outcome?;
    committed?;
    left?;
    Ok(Exit::Done)
}

impl Member<'_> {
    async fn work(&mut self, interrupted: &AtomicBool) -> Result<(), Failure> {
        while self.left > 0 && !interrupted.load(Ordering::Relaxed) {
            if !self.arguments.follow && self.has_reached_ends().await? {
                return Ok(());
            }
            if self.shard.now().since(self.committed_at) >= COMMIT_INTERVAL {
                self.commit().await;
            }
            let Some(next) = session::within(self.shard, LOOK_INTERVAL, self.consumer.next()).await else {
                self.output.flush();
                continue;
            };
            match next {
                Ok(fetched) => self.print(&fetched),
                Err(GroupError::Partition(error)) => return Err(unreadable(&error)),
                Err(GroupError::Membership(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn print(&mut self, fetched: &Fetched) {
        let place = (fetched.topic.to_string(), fetched.partition);
        let mut next = fetched.next_offset;
        for record in fetched.batch.iter().flat_map(|batch| batch.records()) {
            if self.left == 0 {
                next = record.offset;
                break;
            }
            print(&mut self.output, self.arguments.output, fetched.partition, &record);
            self.left -= 1;
        }
        self.printed.insert(place, next);
    }

    /// Another generation may have begun, whose members read again what could not be committed: that is no failure of this one.
    async fn commit(&mut self) {
        self.output.flush();
        self.committed_at = self.shard.now();
        if let Err(error) = self.consumer.commit_to(&self.printed).await {
            eprintln!("tidemill: not committed: {error}");
        }
    }

    /// Whether everything is printed that was there when the partitions became this member's.
    async fn has_reached_ends(&mut self) -> Result<bool, Failure> {
        let Some(assigned) = self.consumer.assigned() else { return Ok(false) };
        self.printed.retain(|place, _| assigned.contains(place));
        for place in &assigned {
            if !self.ends.contains_key(place) {
                let found = self.client.list_offsets(&[(place.0.as_str(), place.1, OffsetSpec::Latest)]).await?;
                self.ends.insert(place.clone(), found[0].offset.unwrap_or_default());
            }
        }
        let committed = self.consumer.committed();
        let position =
            |place: &Place| self.printed.get(place).or_else(|| committed.get(place)).copied().unwrap_or_default();
        Ok(assigned.iter().all(|place| position(place) >= self.ends[place]))
    }
}
