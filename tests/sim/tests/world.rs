//! The world itself: what it promises to the code that is run in it, and that it can be repeated.

use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use base::ShardId;
use shard::{Class, MeshBounds, OpenOptions, PassedSocket, Shard, ShardOptions, Slice, WriteSync, mesh};
use sim::io::Crash;
use sim::seat::{MachineId, Seat};
use sim::world::{Failure, World};

const DISK_BYTES: u64 = 64 << 20;
const LIMIT: Duration = Duration::from_secs(600);

fn options(seat: Seat) -> ShardOptions {
    ShardOptions { id: seat.shard, arena_bytes: 8 << 20, ..ShardOptions::default() }
}

/// Runs a task on a shard of the world to its end; `None` when its process ended before.
fn run<T: 'static>(
    world: &mut World,
    machine: MachineId,
    shard: &Shard,
    task: impl Future<Output = T> + 'static,
) -> Result<Option<T>, Failure> {
    let result = Rc::new(RefCell::new(None));
    let slot = result.clone();
    drop(shard.spawn(Class::Normal, shard.account("test"), async move {
        let value = task.await;
        *slot.borrow_mut() = Some(value);
    }));
    world.nudge(machine);
    world.run_until(LIMIT, |world| result.borrow().is_some() || !world.is_up(machine))?;
    Ok(result.take())
}

fn read_write() -> OpenOptions {
    OpenOptions { read: true, write: true, create: true, direct: true, ..OpenOptions::default() }
}

async fn write_blocks(shard: Shard, count: u64, sync: WriteSync) {
    shard.fs().create_dir_all(Path::new("/data")).await.unwrap();
    shard.fs().sync_dir(Path::new("/")).await.unwrap();
    let file = shard.fs().open(Path::new("/data/file"), read_write()).await.unwrap();
    shard.fs().sync_dir(Path::new("/data")).await.unwrap();
    for block in 0..count {
        let mut buf = shard.arena().alloc_wait(4096).await;
        buf.extend_from_slice(&[block as u8 + 1; 4096]);
        file.write_at(block * 4096, vec![buf.freeze()], sync).await.unwrap();
    }
    shard.sleep(Duration::from_secs(60)).await;
}

async fn read_blocks(shard: Shard) -> Vec<u8> {
    let Ok(file) = shard.fs().open(Path::new("/data/file"), OpenOptions { create: false, ..read_write() }).await else {
        return Vec::new();
    };
    let buf = file.read_at(0, 64 * 4096).await.unwrap();
    buf.chunks(4096).map(|block| block[0]).collect()
}

/// Writes until a crash, and reads what is left in the next run.
fn crash_and_read(seed: u64, sync: WriteSync, how: Crash) -> (Vec<u8>, u64) {
    let mut world = World::new(seed);
    let machine = world.add_machine(DISK_BYTES);
    let shards = world.boot(machine, 1, options);
    world.crash_after(machine, 4 + seed % 20, how);
    let done = run(&mut world, machine, &shards[0], write_blocks(shards[0].clone(), 32, sync)).unwrap();
    assert!(done.is_none() && world.crashes() == 1);
    let shards = world.boot(machine, 1, options);
    let found = run(&mut world, machine, &shards[0], read_blocks(shards[0].clone())).unwrap();
    let hash = world.state().trace.hash();
    (found.unwrap(), hash)
}

#[test]
fn durable_writes_survive_and_the_others_are_kept_or_lost() {
    let mut holes = 0;
    for seed in 0..60u64 {
        // Opening took four operations; what was asked for last was in flight.
        let completed = (seed % 20).saturating_sub(1);
        let (found, _) = crash_and_read(seed, WriteSync::Data, Crash::PowerLoss);
        let expected: Vec<u8> = (1..=completed as u8).collect();
        assert!(found.starts_with(&expected), "seed {seed}: {found:?}");
        let (found, _) = crash_and_read(seed, WriteSync::None, Crash::PowerLoss);
        holes += u32::from(!found.starts_with(&expected));
        let (found, _) = crash_and_read(seed, WriteSync::None, Crash::Kill);
        assert!(found.starts_with(&expected), "seed {seed}: the kernel keeps what it has: {found:?}");
    }
    assert!(holes > 10, "{holes}");
}

#[test]
fn one_seed_one_history() {
    let hashes: Vec<u64> = (0..20).map(|seed| crash_and_read(seed, WriteSync::None, Crash::PowerLoss).1).collect();
    for (seed, hash) in hashes.iter().enumerate() {
        assert_eq!(*hash, crash_and_read(seed as u64, WriteSync::None, Crash::PowerLoss).1);
    }
    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn shards_speak_through_the_mesh() {
    let mut world = World::new(1);
    let machine = world.add_machine(DISK_BYTES);
    let shards = world.boot(machine, 3, options);
    let seats = mesh::<u64>(3, MeshBounds::default());
    let meshes: Vec<_> = seats.into_iter().zip(&shards).map(|(seat, shard)| seat.attach(shard)).collect();
    for (shard, mesh) in shards.iter().zip(&meshes) {
        let mesh = mesh.clone();
        drop(shard.spawn(Class::Latency, shard.account("server"), async move {
            loop {
                let incoming = mesh.receive().await;
                let answer = incoming.message * 2;
                incoming.reply.expect("a request").send(answer);
            }
        }));
    }
    let client = meshes[0].clone();
    let sum = run(&mut world, machine, &shards[0], async move {
        let mut sum = 0;
        for number in 0..300 {
            sum += client.request(base::ShardId((number % 2) as u16 + 1), number).await;
        }
        sum
    });
    assert_eq!(sum.unwrap(), Some((0..300).sum::<u64>() * 2));
}

#[test]
fn bytes_cross_the_network_in_order_and_a_slow_reader_holds_its_sender_up() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let server = world.add_machine(DISK_BYTES);
        let client = world.add_machine(0);
        let server_shards = world.boot(server, 1, options);
        let client_shards = world.boot(client, 1, options);
        let received = Rc::new(RefCell::new(Vec::new()));
        let (shard, into) = (server_shards[0].clone(), received.clone());
        drop(server_shards[0].spawn(Class::Normal, shard.account("server"), async move {
            let listener = shard.listen("0.0.0.0:9000".parse().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            loop {
                let bytes = socket.recv().await.unwrap();
                if bytes.is_empty() {
                    break;
                }
                into.borrow_mut().extend_from_slice(&bytes);
                shard.sleep(Duration::from_millis(1)).await;
            }
            socket.send(vec![Slice::from_vec(b"got it".to_vec())]).await.unwrap_err();
        }));
        world.nudge(server);
        let shard = client_shards[0].clone();
        let sent: Vec<u8> = (0..600_000u32).map(|number| (number / 7) as u8).collect();
        let data = sent.clone();
        run(&mut world, client, &client_shards[0], async move {
            shard.sleep(Duration::from_millis(5)).await;
            let socket = shard.connect("10.0.0.1:9000".parse().unwrap()).await.unwrap();
            for piece in data.chunks(100_000) {
                socket.send(vec![Slice::from_vec(piece.to_vec())]).await.unwrap();
            }
            socket.shutdown();
            let refused = shard.connect("10.0.0.1:9001".parse().unwrap()).await;
            assert_eq!(refused.map(|_| ()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        })
        .unwrap();
        world.run_until(LIMIT, |_| received.borrow().len() == sent.len()).unwrap();
        assert_eq!(*received.borrow(), sent);
    }
}

#[test]
fn a_wait_that_cannot_end_is_a_deadlock() {
    let mut world = World::new(1);
    let machine = world.add_machine(DISK_BYTES);
    let shards = world.boot(machine, 1, options);
    let stuck = run(&mut world, machine, &shards[0], std::future::pending::<()>());
    assert!(matches!(stuck, Err(Failure::Deadlock(_))), "{stuck:?}");
}

#[test]
fn a_process_that_ends_itself_is_a_crash() {
    let mut world = World::new(1);
    let machine = world.add_machine(DISK_BYTES);
    let shards = world.boot(machine, 2, options);
    let shard = shards[1].clone();
    let ended = run(&mut world, machine, &shards[1], async move { shard.abort("the journal failed") });
    assert!(ended.unwrap().is_none());
    assert_eq!(world.take_aborts()[0].reason, "the journal failed");
}

/// A server that answers each byte with itself, and a client that asks and waits; gives how many answers came until an error.
fn echo(world: &mut World, faults: impl FnOnce(&mut World, MachineId, MachineId)) -> (u32, Option<std::io::ErrorKind>) {
    let server = world.add_machine(DISK_BYTES);
    let client = world.add_machine(0);
    let server_shards = world.boot(server, 1, options);
    let client_shards = world.boot(client, 1, options);
    let shard = server_shards[0].clone();
    drop(server_shards[0].spawn(Class::Normal, shard.account("server"), async move {
        let listener = shard.listen("0.0.0.0:9000".parse().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        while let Ok(bytes) = socket.recv().await
            && !bytes.is_empty()
            && socket.send(vec![bytes]).await.is_ok()
        {}
    }));
    world.nudge(server);
    let answers = Rc::new(RefCell::new((0, None)));
    let (shard, into) = (client_shards[0].clone(), answers.clone());
    drop(client_shards[0].spawn(Class::Normal, shard.account("client"), async move {
        shard.sleep(Duration::from_millis(5)).await;
        let socket = shard.connect("10.0.0.1:9000".parse().unwrap()).await.unwrap();
        for number in 0..200u8 {
            let answer = async {
                socket.send(vec![Slice::from_vec(vec![number])]).await?;
                socket.recv().await
            };
            match answer.await {
                Ok(bytes) if bytes[..] == [number] => into.borrow_mut().0 += 1,
                Ok(bytes) if bytes.is_empty() => {
                    into.borrow_mut().1 = Some(std::io::ErrorKind::UnexpectedEof);
                    return;
                }
                Ok(bytes) => panic!("{number} was answered with {bytes:?}"),
                Err(error) => {
                    into.borrow_mut().1 = Some(error.kind());
                    return;
                }
            }
        }
    }));
    world.nudge(client);
    world.run_until(LIMIT, |_| answers.borrow().0 == 50).unwrap();
    faults(world, server, client);
    world.run_until(LIMIT, |_| answers.borrow().0 == 200 || answers.borrow().1.is_some()).unwrap();
    answers.take()
}

#[test]
fn a_connection_that_is_passed_goes_on_at_the_other_shard() {
    let mut world = World::new(3);
    let server = world.add_machine(DISK_BYTES);
    let client = world.add_machine(0);
    let server_shards = world.boot(server, 2, options);
    let client_shards = world.boot(client, 1, options);
    let meshes: Vec<_> = mesh::<Option<PassedSocket>>(2, MeshBounds::default())
        .into_iter()
        .zip(&server_shards)
        .map(|(seat, shard)| seat.attach(shard))
        .collect();
    let (shard, outgoing, incoming) = (server_shards[0].clone(), meshes[0].clone(), meshes[1].clone());
    drop(server_shards[0].spawn(Class::Normal, shard.account("server"), async move {
        let listener = shard.listen("0.0.0.0:9000".parse().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let passed = socket.pass_to(ShardId(1)).await.unwrap();
        outgoing.post(ShardId(1), Some(passed)).await;
    }));
    let shard = server_shards[1].clone();
    drop(server_shards[1].spawn(Class::Normal, shard.account("server"), async move {
        let socket = incoming.receive().await.message.unwrap().adopt(&shard);
        let bytes = socket.recv().await.unwrap();
        socket.send(vec![bytes]).await.unwrap();
        assert!(socket.recv().await.unwrap().is_empty());
    }));
    world.nudge(server);
    let shard = client_shards[0].clone();
    let answer = run(&mut world, client, &client_shards[0], async move {
        shard.sleep(Duration::from_millis(5)).await;
        let socket = shard.connect("10.0.0.1:9000".parse().unwrap()).await.unwrap();
        shard.sleep(Duration::from_millis(5)).await;
        socket.send(vec![Slice::from_vec(b"over there".to_vec())]).await.unwrap();
        socket.recv().await.unwrap()
    });
    assert_eq!(answer.unwrap().unwrap()[..], *b"over there");
}

#[test]
fn a_partition_delays_and_loses_nothing() {
    let mut world = World::new(5);
    let answered = echo(&mut world, |world, server, client| {
        world.state().net.set_cut(server, client, true);
        let cut_at = world.now();
        world.run_until(LIMIT, |world| world.now() > cut_at + Duration::from_secs(5)).unwrap();
        world.state().net.set_cut(server, client, false);
    });
    assert_eq!(answered, (200, None));
    assert!(world.now().0 > 5_000_000_000);
}

#[test]
fn a_reset_and_a_dead_peer_are_seen_by_who_waits() {
    for seed in 0..10 {
        for fault in 0..3 {
            let mut world = World::new(seed);
            let (count, error) = echo(&mut world, |world, server, client| match fault {
                0 => {
                    let mut effects = sim::net::Effects::default();
                    let now = world.now();
                    assert!(world.state().net.reset_one(client, now, &mut effects));
                    world.state().settle(effects);
                }
                1 => world.crash(server, Crash::Kill),
                _ => world.crash(server, Crash::PowerLoss),
            });
            assert!((50..200).contains(&count));
            let ended = matches!(error, Some(std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe));
            assert!(ended || fault == 1, "fault {fault}: {error:?}");
        }
    }
}
