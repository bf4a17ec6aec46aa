//! The form with the store: shards that run all the while, told by the main thread which cell to measure.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use benches::stats::Samples;
use benches::stores::{batch_of, create_logs, round, with_stores};
use shard::{Class, Shard};
use storage::{Log, ShardStore};

use super::{Cell, Pace};

/// How often an idle shard looks for an order. While it measures it looks for none.
const POLL: Duration = Duration::from_millis(5);

enum Order {
    Rounds { partitions: usize, bytes: usize, pace: Pace },
    Checkpoint,
}

struct Seat {
    orders: Receiver<Order>,
    results: Sender<io::Result<Samples>>,
}

/// The stores of all shards.
pub struct Stores {
    shards: Vec<(Sender<Order>, Receiver<io::Result<Samples>>)>,
    thread: JoinHandle<io::Result<()>>,
}

impl Stores {
    /// Opens them, each with `logs` logs. Returns when all are there.
    pub fn open(dir: &Path, shards: u16, logs: usize) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let (mut ends, mut seats) = (Vec::new(), Vec::new());
        for _ in 0..shards {
            let (order, orders) = channel();
            let (results, result) = channel();
            ends.push((order, result));
            seats.push(Seat { orders, results });
        }
        let dir = dir.to_owned();
        let thread = std::thread::spawn(move || {
            with_stores(&dir, seats, move |shard, store, seat| serve(shard, store, seat, logs)).map(drop)
        });
        let stores = Self { shards: ends, thread };
        stores.results()?;
        Ok(stores)
    }

    /// The rounds of a cell.
    pub fn run(&self, cell: Cell, pace: Pace) -> io::Result<Samples> {
        for (n, (orders, _)) in self.shards.iter().enumerate() {
            let partitions = cell.on_shard(n, self.shards.len());
            let order = Order::Rounds { partitions, bytes: cell.bytes, pace };
            orders.send(order).map_err(io::Error::other)?;
        }
        self.results()
    }

    /// Checkpoints, so that the background has nothing left to do.
    pub fn settle(&self) -> io::Result<()> {
        for (orders, _) in &self.shards {
            orders.send(Order::Checkpoint).map_err(io::Error::other)?;
        }
        self.results().map(drop)
    }

    pub fn close(self) -> io::Result<()> {
        drop(self.shards);
        self.thread.join().expect("the shards' starter does not panic")
    }

    fn results(&self) -> io::Result<Samples> {
        let mut samples = Samples::default();
        for (_, results) in &self.shards {
            samples.merge(&results.recv().map_err(|_| io::Error::other("a shard has ended"))??);
        }
        Ok(samples)
    }
}

async fn serve(shard: Shard, store: ShardStore, seat: Seat, logs: usize) -> io::Result<()> {
    let logs = create_logs(&shard, &store, "round", logs).await?;
    // The first append of a log makes its files, which is no part of a round.
    round(&shard, &logs, &batch_of(256)?).await?;
    store.checkpoint().await.map_err(io::Error::other)?;
    let mut answer = Ok(Samples::default());
    loop {
        if seat.results.send(answer).is_err() {
            return Ok(());
        }
        let order = loop {
            match seat.orders.try_recv() {
                Ok(order) => break order,
                Err(TryRecvError::Empty) => shard.sleep(POLL).await,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        };
        answer = match order {
            Order::Rounds { partitions, bytes, pace } => {
                let account = shard.account("rounds");
                let rounds = rounds(shard.clone(), logs[..partitions].to_vec(), bytes, pace);
                shard.spawn(Class::Latency, account, rounds).await
            }
            Order::Checkpoint => store.checkpoint().await.map(|()| Samples::default()).map_err(io::Error::other),
        };
    }
}

async fn rounds(shard: Shard, logs: Vec<Log>, bytes: usize, pace: Pace) -> io::Result<Samples> {
    let mut samples = Samples::default();
    if logs.is_empty() {
        return Ok(samples);
    }
    let batch = batch_of(bytes)?;
    let begin = Instant::now();
    while let Some(due) = pace.next(begin, samples.count()) {
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            shard.sleep(early).await;
        }
        let begun = Instant::now();
        round(&shard, &logs, &batch).await?;
        samples.push(begun.elapsed());
    }
    Ok(samples)
}
