//! Several shards with real rings: the mesh, parks and wakes, sockets that change hands, the janitor's answers.

mod real;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use base::ShardId;
use real::TestDir;
use shard::threads::spawn_shards;
use shard::{Class, Mesh, MeshBounds, MeshSeat, PassedSocket, Shard, Slice, mesh};

/// Rounds of the ping-pong; a soak sets more.
fn rounds() -> u64 {
    std::env::var("PING_PONG_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20_000)
}

fn on_shards<M, T, F>(count: u16, main: impl FnOnce(Shard, Mesh<M>) -> F + Clone + Send + 'static) -> Vec<T>
where
    M: Send + 'static,
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let seats = mesh::<M>(count, MeshBounds::default());
    let attach = move |shard: Shard, seat: MeshSeat<M>| {
        let mesh = seat.attach(&shard);
        main(shard, mesh)
    };
    spawn_shards(&real::options(16 << 20), seats, attach).unwrap().join()
}

#[test]
fn no_wake_is_lost_between_two_shards_that_park() {
    let rounds = rounds();
    let stats = on_shards(2, async move |shard: Shard, mesh: Mesh<u64>| {
        if shard.id() == ShardId(0) {
            for n in 0..rounds {
                assert_eq!(mesh.request(ShardId(1), n).await, n + 1);
            }
            mesh.post(ShardId(1), u64::MAX).await;
        } else {
            loop {
                let incoming = mesh.receive().await;
                match incoming.reply {
                    Some(reply) => reply.send(incoming.message + 1),
                    None => break,
                }
            }
        }
        shard.uring_stats().unwrap()
    });
    for stats in stats {
        println!("{rounds} rounds: {stats:?}");
        assert!(stats.enters < 4 * rounds, "two system calls a round at most, and a few to start");
    }
}

#[test]
fn floods_in_all_directions_arrive_whole() {
    const EACH: u64 = 20_000;
    on_shards(4, async move |shard: Shard, mesh: Mesh<u64>| {
        let (me, sender) = (u64::from(shard.id().0), mesh.clone());
        let sending = async move {
            for n in 0..EACH {
                for peer in (0..4).filter(|&peer| u64::from(peer) != me) {
                    sender.post(ShardId(peer), n).await;
                }
            }
        };
        let sending = shard.spawn(Class::Normal, shard.account("send"), sending);
        let mut next = [0; 4];
        for _ in 0..3 * EACH {
            let incoming = mesh.receive().await;
            let next = &mut next[usize::from(incoming.from.0)];
            assert_eq!(incoming.message, *next, "in order");
            *next += 1;
        }
        sending.await;
    });
}

#[test]
fn a_connection_changes_hands_with_the_bytes_it_brought() {
    on_shards(2, async move |shard: Shard, mesh: Mesh<Option<PassedSocket>>| {
        if shard.id() == ShardId(1) {
            let account = shard.account("serve");
            while let Some(passed) = mesh.receive().await.message {
                let socket = passed.adopt(&shard);
                let serving = async move {
                    let mut bytes = Vec::new();
                    while bytes.len() < 10 {
                        bytes.extend_from_slice(&socket.recv().await.unwrap());
                    }
                    socket.send(vec![Slice::from_vec(bytes)]).await.unwrap();
                };
                drop(shard.spawn(Class::Normal, account.clone(), serving));
            }
            return;
        }
        let listener = shard.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        for n in 0..200u32 {
            let client = shard.connect(listener.local_addr()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            client.send(vec![Slice::from_static(b"first")]).await.unwrap();
            if n % 2 == 0 {
                // A receive that is pending, or done, when the socket goes: its bytes go along.
                let mut receiving = Box::pin(socket.recv());
                let _ = poll_fn(|context| Poll::Ready(receiving.as_mut().poll(context).is_ready())).await;
                if n % 4 == 0 {
                    shard.sleep(Duration::from_micros(200)).await;
                }
            }
            let to = ShardId(u16::from(n % 10 != 0));
            let passed = socket.pass_to(to).await.unwrap();
            client.send(vec![Slice::from_static(b"after")]).await.unwrap();
            if to == shard.id() {
                // To itself, which costs nothing.
                let socket = passed.adopt(&shard);
                let buf = socket.recv_into(shard.arena().alloc(10).unwrap(), 10).await.unwrap();
                socket.send(vec![buf.freeze()]).await.unwrap();
            } else {
                mesh.post(to, Some(passed)).await;
            }
            let answer = client.recv_into(shard.arena().alloc(10).unwrap(), 10).await.unwrap();
            assert_eq!(&answer[..], b"firstafter");
        }
        mesh.post(ShardId(1), None).await;
    });
}

#[test]
fn the_janitor_and_the_helper_wake_a_shard_that_sleeps() {
    let dir = TestDir::new();
    let path = dir.path().to_path_buf();
    on_shards(2, async move |shard: Shard, _: Mesh<()>| {
        for n in 0..5_000u64 {
            assert!(shard.fs().stat(&path).await.unwrap().unwrap().is_dir);
            assert_eq!(shard.offload(move || n + 1).await, n + 1);
        }
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a thread that is no shard is what this is about")]
fn any_thread_can_wake_a_task() {
    let (sender, wakers) = mpsc::channel::<(Arc<AtomicBool>, Waker)>();
    let stranger = std::thread::spawn(move || {
        for (done, waker) in wakers {
            done.store(true, Ordering::Release);
            waker.wake();
        }
    });
    on_shards(1, async move |_: Shard, _: Mesh<()>| {
        for _ in 0..5_000 {
            let done = Arc::new(AtomicBool::new(false));
            let mut asked = false;
            poll_fn(|context| {
                if !std::mem::replace(&mut asked, true) {
                    sender.send((done.clone(), context.waker().clone())).unwrap();
                }
                if done.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    });
    stranger.join().unwrap();
}

#[test]
fn a_passed_connection_that_nobody_adopts_is_closed() {
    on_shards(2, async move |shard: Shard, mesh: Mesh<()>| {
        if shard.id() == ShardId(1) {
            mesh.receive().await;
            return;
        }
        let listener = shard.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        for to in [0, 1] {
            let client = shard.connect(listener.local_addr()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            drop(socket.pass_to(ShardId(to)).await.unwrap());
            assert!(client.recv().await.unwrap().is_empty(), "the stream ends");
        }
        mesh.post(ShardId(1), ()).await;
    });
}
