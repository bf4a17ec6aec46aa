//! Two real threads, each with a shard of its own that really parks. Made for Miri as well.
#![allow(clippy::disallowed_methods, reason = "shards on real threads")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use base::{Instant, ShardId, WallTime};

use super::{MeshBounds, mesh, ring::ring};
use crate::driver::{Completion, Driver, Host, Op, OpId};
use crate::{Class, ForeignSlice, Shard, ShardOptions, Slice, Unparker};

/// A host that can do nothing but sleep and wake.
struct SleepyHost {
    peers: Arc<Vec<OnceLock<Thread>>>,
    parks: Rc<Cell<usize>>,
}

impl Host for SleepyHost {
    fn unparker(&self) -> Unparker {
        let me = thread::current();
        Arc::new(move || me.unpark())
    }
    fn submit(&mut self, _: OpId, op: Op) {
        unreachable!("{op:?}");
    }
    fn cancel(&mut self, _: OpId) {}
    fn reap(&mut self, _: &mut Vec<Completion>) {}
    fn park(&mut self, until: Option<Instant>) {
        assert_eq!(until, None);
        self.parks.set(self.parks.get() + 1);
        thread::park();
    }
    fn wake(&mut self, peer: ShardId) {
        self.peers[usize::from(peer.0)].get().expect("it is parked, so it is known").unpark();
    }
    fn now(&self) -> Instant {
        Instant(0)
    }
    fn wall(&self) -> WallTime {
        WallTime(0)
    }
    fn random(&mut self) -> u64 {
        4
    }
    fn abort(&mut self, reason: &str) -> ! {
        panic!("{reason}")
    }
}

fn sleepy_shard(id: u16, peers: &Arc<Vec<OnceLock<Thread>>>) -> Shard {
    peers[usize::from(id)].get_or_init(thread::current);
    let host = SleepyHost { peers: peers.clone(), parks: Rc::default() };
    let options = ShardOptions { id: ShardId(id), arena_bytes: 64 << 10, ..ShardOptions::default() };
    Shard::new(options, Driver::Hosted(Box::new(host)))
}

fn no_peers(count: usize) -> Arc<Vec<OnceLock<Thread>>> {
    Arc::new((0..count).map(|_| OnceLock::new()).collect())
}

const REQUESTS: u32 = if cfg!(miri) { 4 } else { 5_000 };

#[test]
fn requests_between_threads_that_sleep() {
    let peers = no_peers(2);
    let mut seats = mesh::<ForeignSlice>(2, MeshBounds { messages_in_queue: 2, requests_outstanding: 3 });
    let (far, near) = (seats.pop().expect("two"), seats.pop().expect("two"));
    let server = thread::spawn({
        let peers = peers.clone();
        move || {
            let shard = sleepy_shard(1, &peers);
            let mesh = far.attach(&shard);
            let s = shard.clone();
            shard.run(async move {
                for _ in 0..4 * REQUESTS {
                    let incoming = mesh.receive().await;
                    assert_eq!(incoming.from, ShardId(0));
                    let mut buf = s.arena().alloc_wait(4096).await;
                    buf.extend_from_slice(&incoming.message);
                    buf.extend_from_slice(b"!");
                    incoming.reply.expect("a request").send(buf.freeze().export());
                }
                // The last replies' memory comes home while this shard sleeps, and wakes it.
                s.arena().alloc_wait(64 << 10).await;
            });
            shard.shutdown();
        }
    });
    let shard = sleepy_shard(0, &peers);
    let mesh = near.attach(&shard);
    let s = shard.clone();
    shard.run(async move {
        let account = s.account("clients");
        let clients: Vec<_> = (0..4u8)
            .map(|client| {
                let mesh = mesh.clone();
                s.spawn(Class::Latency, account.clone(), async move {
                    for number in 0..REQUESTS {
                        let text = format!("{client}:{number}");
                        let reply = mesh.request(ShardId(1), Slice::from_vec(text.clone().into()).export()).await;
                        assert_eq!(&reply[..], format!("{text}!").as_bytes());
                    }
                })
            })
            .collect();
        for client in clients {
            client.await;
        }
    });
    shard.shutdown();
    server.join().expect("server");
}

#[test]
fn dropped_requests_and_replies_free_their_slots() {
    let shard = sleepy_shard(0, &no_peers(1));
    let bounds = MeshBounds { messages_in_queue: 1, requests_outstanding: 2 };
    let mesh = mesh::<u32>(1, bounds).pop().expect("one").attach(&shard);
    let kept = Rc::new(RefCell::new(Vec::new()));
    let account = shard.account("test");
    shard.spawn(Class::Normal, account.clone(), {
        let (mesh, kept) = (mesh.clone(), kept.clone());
        async move {
            loop {
                let incoming = mesh.receive().await;
                kept.borrow_mut().push(incoming);
            }
        }
    });
    let settle = || while shard.turn() == crate::Turn::Busy {};
    let ask = |number: u32| {
        let mesh = mesh.clone();
        shard.spawn(Class::Normal, account.clone(), async move { mesh.request(ShardId(0), number).await })
    };
    // Two are out, the third waits for a slot.
    let (first, second, third) = (ask(1), ask(2), ask(3));
    settle();
    assert_eq!(kept.borrow().len(), 2);
    first.cancel();
    let late = kept.borrow_mut().remove(0).reply.expect("a request");
    settle();
    assert_eq!(kept.borrow().len(), 1, "a cancelled request keeps its slot until it is answered");
    late.send(10);
    settle();
    assert_eq!(kept.borrow().len(), 2);
    // A handler that goes away frees the slot but gives no answer.
    drop(kept.borrow_mut().remove(0));
    kept.borrow_mut().remove(0).reply.expect("a request").send(30);
    settle();
    assert!(!second.is_finished() && third.is_finished());
    assert_eq!(third.take(), Some(30));
    let (fourth, fifth) = (ask(4), ask(5));
    settle();
    for incoming in kept.take() {
        incoming.reply.expect("a request").send(incoming.message * 10);
    }
    settle();
    assert_eq!((fourth.take(), fifth.take()), (Some(40), Some(50)));
    shard.shutdown();
}

#[test]
fn what_is_in_flight_goes_with_the_mesh() {
    let peers = no_peers(2);
    let shards = [sleepy_shard(0, &peers), sleepy_shard(1, &peers)];
    let seats = mesh::<Arc<()>>(2, MeshBounds { messages_in_queue: 2, requests_outstanding: 8 });
    let meshes: Vec<_> = seats.into_iter().zip(&shards).map(|(seat, shard)| seat.attach(shard)).collect();
    let message = Arc::new(());
    let settle = |shard: &Shard| while shard.turn() == crate::Turn::Busy {};
    for _ in 0..5 {
        let (mesh, message) = (meshes[0].clone(), message.clone());
        shards[0].spawn(
            Class::Normal,
            shards[0].account("ask"),
            async move { mesh.request(ShardId(1), message).await },
        );
    }
    settle(&shards[0]);
    let mesh = meshes[1].clone();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = kept.clone();
    shards[1].spawn(Class::Normal, shards[1].account("serve"), async move {
        // One is answered, one is held back; two more lie in the queue, one waits for room.
        let answered = mesh.receive().await;
        answered.reply.expect("a request").send(answered.message);
        let held = mesh.receive().await;
        keep.borrow_mut().push(held);
    });
    settle(&shards[1]);
    assert_eq!(Arc::strong_count(&message), 6);
    shards.iter().for_each(Shard::shutdown);
    drop(meshes);
    kept.take();
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn a_ring_keeps_order_between_threads_and_drops_the_rest() {
    const COUNT: usize = if cfg!(miri) { 100 } else { 100_000 };
    let (producer, consumer) = ring::<Box<usize>>(4);
    let pusher = thread::spawn(move || {
        for number in 0..COUNT {
            let mut item = Box::new(number);
            while let Err(back) = producer.push(item) {
                item = back;
                thread::yield_now();
            }
        }
        // Left in the ring: freed with it.
        while producer.push(Box::new(0)).is_ok() {}
    });
    for number in 0..COUNT {
        let item = loop {
            match consumer.pop() {
                Some(item) => break item,
                None => thread::yield_now(),
            }
        };
        assert_eq!(*item, number);
    }
    pusher.join().expect("pusher");
}
