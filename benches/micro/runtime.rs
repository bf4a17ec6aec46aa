//! What the runtime costs by itself: a task spawned and awaited, a yield, a round trip through the mesh.

use std::time::{Duration, Instant};

use base::ShardId;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Class, Mesh, MeshBounds, MeshSeat, Shard, mesh};

/// Runs `work` on a pinned shard of its own, and returns what it measured.
fn on_a_shard<F: Future<Output = Duration> + 'static>(
    work: impl FnOnce(Shard) -> F + Clone + Send + 'static,
) -> Duration {
    let options = SpawnOptions { pin: true, ..SpawnOptions::default() };
    let threads = spawn_shards(&options, vec![()], move |shard, ()| work(shard)).expect("a shard can be started");
    threads.join().pop().expect("one shard was started")
}

fn executor(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("executor");
    group.throughput(Throughput::Elements(1));
    group.bench_function("spawn and await", |bencher| {
        bencher.iter_custom(|iterations| {
            on_a_shard(move |shard| async move {
                let account = shard.account("bench");
                let begin = Instant::now();
                for n in 0..iterations {
                    assert_eq!(shard.spawn(Class::Latency, account.clone(), async move { n }).await, n);
                }
                begin.elapsed()
            })
        });
    });
    group.bench_function("yield among 64 tasks", |bencher| {
        bencher.iter_custom(|iterations| {
            on_a_shard(move |shard| async move {
                const TASKS: u64 = 64;
                let account = shard.account("bench");
                let begin = Instant::now();
                let spawn = |_| {
                    let handle = shard.clone();
                    let work = async move {
                        for _ in 0..iterations.div_ceil(TASKS) {
                            handle.yield_now().await;
                        }
                    };
                    shard.spawn(Class::Latency, account.clone(), work)
                };
                for task in (0..TASKS).map(spawn).collect::<Vec<_>>() {
                    task.await;
                }
                begin.elapsed()
            })
        });
    });
    group.finish();
}

/// Ends the shard that answers.
const STOP: u64 = u64::MAX;

/// Two shards: one asks, with `in_flight` requests out at a time, the other answers.
fn round_trips(iterations: u64, in_flight: u64) -> Duration {
    let options = SpawnOptions { pin: true, ..SpawnOptions::default() };
    let seats: Vec<MeshSeat<u64>> = mesh(2, MeshBounds::default());
    let threads = spawn_shards(&options, seats, move |shard, seat| async move {
        let mesh = seat.attach(&shard);
        if shard.id() == ShardId(1) {
            answer(&mesh).await;
            return Duration::ZERO;
        }
        let begin = Instant::now();
        let ask = |_| {
            let mesh = mesh.clone();
            let work = async move {
                for n in 0..iterations.div_ceil(in_flight) {
                    assert_eq!(mesh.request(ShardId(1), n).await, n);
                }
            };
            shard.spawn(Class::Latency, shard.account("bench"), work)
        };
        for task in (0..in_flight).map(ask).collect::<Vec<_>>() {
            task.await;
        }
        let elapsed = begin.elapsed();
        mesh.request(ShardId(1), STOP).await;
        elapsed
    });
    threads.expect("two shards can be started").join().swap_remove(0)
}

async fn answer(mesh: &Mesh<u64>) {
    loop {
        let incoming = mesh.receive().await;
        let message = incoming.message;
        incoming.reply.expect("only requests are sent").send(message);
        if message == STOP {
            return;
        }
    }
}

fn mesh_request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mesh: request and reply");
    group.throughput(Throughput::Elements(1));
    for in_flight in [1, 16, 256] {
        group.bench_function(BenchmarkId::new("in flight", in_flight), |bencher| {
            bencher.iter_custom(|iterations| round_trips(iterations, in_flight));
        });
    }
    group.finish();
}

criterion_group!(runtime, executor, mesh_request);
criterion_main!(runtime);
