//! The runtime in a small world in memory: tasks, timers, files, sockets, the mesh, and taking it all apart.

mod support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, ShardId};
use shard::{AppendBuf, Class, MeshBounds, OpenOptions, Shard, Slice, WriteSync, mesh};
use support::Worlds;

const READ_WRITE: OpenOptions = OpenOptions { read: true, write: true, create: true, exclusive: false, direct: true };

#[test]
fn tasks_join_cancel_and_yield() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let log = Rc::new(RefCell::new(Vec::new()));
    let account = shard.account("test");
    let (s, l) = (shard.clone(), log.clone());
    let sum = shard.run(async move {
        let first = s.spawn(Class::Normal, account.clone(), {
            let (s, l) = (s.clone(), l.clone());
            async move {
                l.borrow_mut().push("first a");
                s.yield_now().await;
                l.borrow_mut().push("first b");
                1
            }
        });
        let second = s.spawn(Class::Normal, account.clone(), {
            let l = l.clone();
            async move {
                l.borrow_mut().push("second");
                2
            }
        });
        let never = s.spawn(Class::Normal, account, std::future::pending::<()>());
        let sum = first.await + second.await;
        never.cancel();
        sum
    });
    assert_eq!(sum, 3);
    assert_eq!(*log.borrow(), ["first a", "second", "first b"]);
    assert_eq!(shard.task_count(), 0);
    assert!(shard.accounts().iter().any(|account| &*account.name == "test" && account.polls == 4));
}

#[test]
fn timers_fire_in_order_and_dropped_ones_do_not_hold_the_shard() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let s = shard.clone();
    let order = shard.run(async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = [30, 10, 20, 10]
            .into_iter()
            .enumerate()
            .map(|(index, ms)| {
                let (shard, order) = (s.clone(), order.clone());
                let account = s.account("timers");
                s.spawn(Class::Normal, account, async move {
                    shard.sleep(Duration::from_millis(ms)).await;
                    order.borrow_mut().push((index, shard.now()));
                })
            })
            .collect();
        let unused = s.sleep(Duration::from_secs(100));
        for task in tasks {
            task.await;
        }
        drop(unused);
        order.take()
    });
    let at = |ms: u64| Instant(ms * 1_000_000);
    assert_eq!(order, [(1, at(10)), (3, at(10)), (2, at(20)), (0, at(30))]);
}

#[test]
fn a_file_is_written_read_and_closed() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let s = shard.clone();
    shard.run(async move {
        let file = s.fs().open("a", READ_WRITE).await.expect("created");
        let mut buf = s.arena().alloc(8192).expect("there is memory");
        buf.extend_from_slice(&[7; 5000]);
        buf.pad_to(file.alignment());
        file.write_at(4096, vec![buf.freeze()], WriteSync::Data).await.expect("written");
        file.datasync().await.expect("synced");
        let read = file.read_at(4096, 16384).await.expect("read");
        assert_eq!((read.len(), read[0], read[4999], read[5000]), (8192, 7, 7, 0));
        let odd = file.write_at(1, vec![Slice::from_vec(vec![1])], WriteSync::None).await.expect_err("not aligned");
        assert_eq!(odd.kind(), std::io::ErrorKind::InvalidInput);
        assert!(s.fs().stat("b").await.expect("asked").is_none());
        s.fs().write_file_durably("b", vec![1, 2, 3]).await.expect("written");
        assert_eq!(s.fs().read_file("b", 10).await.expect("read"), [1, 2, 3]);
    });
    world.settle(std::slice::from_ref(&shard));
    assert_eq!(world.0.borrow().closed_files, 1);
    assert_eq!((shard.ops_in_flight(), shard.arena().usage().used_bytes), (0, 0));
}

#[test]
fn sockets_echo_and_a_dropped_receive_loses_nothing() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let s = shard.clone();
    shard.run(async move {
        let listener = s.listen(([127, 0, 0, 1], 0).into()).await.expect("listens");
        let client = s.connect(listener.local_addr()).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        let early = s.spawn(Class::Latency, s.account("early"), {
            let server = Rc::new(server);
            let again = server.clone();
            let reader = s.spawn(Class::Latency, s.account("reader"), async move { again.recv().await.map(|_| ()) });
            async move {
                // Cancelled while it waits; what it would have got comes to the next call.
                reader.cancel();
                server
            }
        });
        let server = early.await;
        client.send(vec![Slice::from_static(b"hello "), Slice::from_vec(b"world".to_vec())]).await.expect("sent");
        let mut buf = s.arena().alloc(16).expect("there is memory");
        buf.extend_from_slice(b"> ");
        let buf = server.recv_into(buf, 7).await.expect("received");
        assert_eq!(&buf[..], b"> hello");
        assert_eq!(&server.recv().await.expect("received")[..], b" world");
        server.send(vec![buf.freeze()]).await.expect("sent");
        assert_eq!(&client.recv().await.expect("received")[..], b"> hello");
        client.shutdown();
        assert!(server.recv().await.expect("ends").is_empty());
    });
    world.settle(std::slice::from_ref(&shard));
    assert_eq!((world.0.borrow().closed_sockets, shard.ops_in_flight()), (2, 0));
}

#[test]
fn offloaded_work_comes_back() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let s = shard.clone();
    assert_eq!(shard.run(async move { s.offload(|| 6 * 7).await }), 42);
}

#[test]
fn requests_cross_the_mesh_with_foreign_slices() {
    let world = Worlds::default();
    let shards: Vec<Shard> = (0..3).map(|id| world.shard(id)).collect();
    let bounds = MeshBounds { messages_in_queue: 4, requests_outstanding: 8 };
    let seats = mesh::<shard::ForeignSlice>(3, bounds);
    let meshes: Vec<_> = seats.into_iter().zip(&shards).map(|(seat, shard)| seat.attach(shard)).collect();
    for (shard, mesh) in shards.iter().zip(&meshes) {
        let (account, mesh, shard) = (shard.account("server"), mesh.clone(), shard.clone());
        shard.clone().spawn(Class::Latency, account, async move {
            loop {
                let incoming = mesh.receive().await;
                let mut tail = AppendBuf::from(shard.arena().alloc(4096).expect("there is memory"));
                tail.append(&incoming.message);
                tail.append(b"!");
                incoming.reply.expect("a request").send(tail.slice(..).export());
            }
        });
    }
    let answered = Rc::new(Cell::new(0));
    for from in 0..3usize {
        for number in 0..50u8 {
            let (mesh, answered) = (meshes[from].clone(), answered.clone());
            let account = shards[from].account("client");
            shards[from].spawn(Class::Latency, account, async move {
                let to = ShardId(u16::from(number) % 3);
                let reply = mesh.request(to, Slice::from_vec(vec![number; 10]).export()).await;
                assert_eq!(reply[..10], [number; 10]);
                assert_eq!(reply[10..], *b"!");
                answered.set(answered.get() + 1);
            });
        }
    }
    world.settle(&shards);
    assert_eq!(answered.get(), 150);
    for shard in &shards {
        shard.turn();
        assert_eq!(shard.arena().usage().used_bytes, 0, "all foreign slices came home");
    }
    drop(meshes);
    shards.iter().for_each(Shard::shutdown);
}
