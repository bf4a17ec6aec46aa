//! Sockets on the production driver: bytes in any cut, ends of every kind, memory that runs out, many connections.

mod real;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use base::Random;
use real::{aligned, pattern, run, run_with};
use shard::{Class, Listener, Shard, Slice, Socket};

const MIB: usize = 1 << 20;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn pair(shard: &Shard) -> (Socket, Socket) {
    let listener = shard.listen(loopback()).await.unwrap();
    connect(shard, &listener).await
}

async fn connect(shard: &Shard, listener: &Listener) -> (Socket, Socket) {
    let near = shard.connect(listener.local_addr()).await.unwrap();
    let (far, peer) = listener.accept().await.unwrap();
    assert!(peer.ip().is_loopback());
    (near, far)
}

/// Sends back what comes until the stream ends; how many bytes that was.
async fn echo(socket: Socket) -> usize {
    let mut total = 0;
    loop {
        let bytes = socket.recv().await.unwrap();
        if bytes.is_empty() {
            return total;
        }
        total += bytes.len();
        socket.send(vec![bytes]).await.unwrap();
    }
}

/// Polls once, so that an operation is submitted.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

async fn settle(shard: &Shard) {
    while shard.ops_in_flight() > 0 {
        shard.sleep(Duration::from_micros(100)).await;
    }
}

#[test]
fn a_completion_ring_that_overflows_loses_nothing() {
    let mut options = real::options(64 * MIB);
    options.uring.submission_entries = 2;
    run_with(&options, async |shard: Shard| {
        let listener = shard.listen(loopback()).await.unwrap();
        let mut pairs = Vec::new();
        for _ in 0..200 {
            pairs.push(connect(&shard, &listener).await);
        }
        let account = shard.account("echo");
        let (nears, fars): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        for far in fars {
            drop(shard.spawn(Class::Latency, account.clone(), echo(far)));
        }
        // All at once: 200 completions for a ring of 8.
        let one = |near: Socket| {
            let task = async move {
                for n in 0..20u8 {
                    near.send(vec![Slice::from_vec(vec![n; 10])]).await.unwrap();
                    assert_eq!(near.recv().await.unwrap()[..], [n; 10]);
                }
            };
            shard.spawn(Class::Latency, account.clone(), task)
        };
        for task in nears.into_iter().map(one).collect::<Vec<_>>() {
            task.await;
        }
    });
}

#[test]
fn what_is_sent_comes_back_in_any_size_and_cut() {
    run(async |shard: Shard| {
        let (near, far) = pair(&shard).await;
        let echoing = shard.spawn(Class::Normal, shard.account("echo"), echo(far));
        let mut random = Random::new(11);
        let mut total = 0;
        let sizes = [1, 4095, 4096, 4097, 65_536, 8 * MIB].into_iter().chain((0..40).map(|_| 1 << random.below(22)));
        for (n, len) in sizes.collect::<Vec<_>>().into_iter().enumerate() {
            let content = pattern(n as u64, len);
            // Up to 3,000 slices, more than the kernel takes at once.
            let cuts = if n % 3 == 0 { 1 } else { len.min(1 + random.below(3000) as usize) };
            let slices = content.chunks(len.div_ceil(cuts)).map(|part| Slice::from_vec(part.to_vec())).collect();
            let sender = async { near.send(slices).await.unwrap() };
            let receiver = async {
                let buf = shard.arena().alloc_wait(len).await;
                near.recv_into(buf, len).await.unwrap()
            };
            let (mut sender, mut receiver) = (Box::pin(sender), Box::pin(receiver));
            let mut sent = false;
            let received = poll_fn(|context| {
                sent = sent || sender.as_mut().poll(context).is_ready();
                receiver.as_mut().poll(context)
            })
            .await;
            assert!(received[..] == content[..], "{len} bytes in {cuts} pieces");
            total += len;
        }
        near.shutdown();
        assert_eq!(echoing.await, total);
        drop(near);
        settle(&shard).await;
    });
}

#[test]
fn a_stream_can_end_one_way_and_go_on_the_other() {
    run(async |shard: Shard| {
        let listener = shard.listen(loopback()).await.unwrap();
        let address = listener.local_addr();
        let client = shard.offload(move || {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"question").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            answer
        });
        let server = async {
            let (socket, _) = listener.accept().await.unwrap();
            let mut question = Vec::new();
            loop {
                let bytes = socket.recv().await.unwrap();
                if bytes.is_empty() {
                    break;
                }
                question.extend_from_slice(&bytes);
            }
            assert_eq!(question, b"question");
            assert!(socket.recv().await.unwrap().is_empty(), "an end stays an end");
            let buf = shard.arena().alloc(10).unwrap();
            assert_eq!(socket.recv_into(buf, 10).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            socket.send(vec![Slice::from_static(b"ans"), Slice::default(), Slice::from_static(b"wer")]).await.unwrap();
        };
        let (mut client, mut server) = (Box::pin(client), Some(Box::pin(server)));
        let answer = poll_fn(|context| {
            // Once it is done, dropping the server with its socket ends the stream.
            server.take_if(|server| server.as_mut().poll(context).is_ready());
            client.as_mut().poll(context)
        })
        .await;
        assert_eq!(answer, "answer");
    });
}

#[test]
fn resets_and_refusals_are_errors_and_raise_no_signal() {
    run(async |shard: Shard| {
        let (near, far) = pair(&shard).await;
        // Unread bytes make the close a reset.
        far.send(vec![Slice::from_vec(pattern(1, 1000))]).await.unwrap();
        near.send(vec![Slice::from_vec(pattern(2, 1000))]).await.unwrap();
        drop(far);
        settle(&shard).await;
        let error = loop {
            match near.send(vec![Slice::from_vec(pattern(3, 1000))]).await {
                Ok(()) => shard.yield_now().await,
                Err(error) => break error,
            }
        };
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
        let closed = {
            let listener = shard.listen(loopback()).await.unwrap();
            listener.local_addr()
        };
        settle(&shard).await;
        assert_eq!(shard.connect(closed).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
        let listener = shard.listen(loopback()).await.unwrap();
        assert_eq!(shard.listen(listener.local_addr()).await.err().unwrap().kind(), ErrorKind::AddrInUse);
        // A shutdown ends what is pending.
        let (near, _far) = connect(&shard, &listener).await;
        let mut receiving = Box::pin(near.recv());
        assert!(!poll_once(receiving.as_mut()).await);
        near.shutdown();
        assert!(receiving.await.unwrap().is_empty());
    });
}

#[test]
fn two_thousand_connections_are_served_and_idle_ones_hold_no_buffer() {
    run(async |shard: Shard| {
        let listener = shard.listen(loopback()).await.unwrap();
        let address = listener.local_addr();
        let account = shard.account("test");
        let (acceptor, echoes) = (shard.clone(), account.clone());
        let accepting = async move {
            for _ in 0..2000 {
                let (socket, _) = listener.accept().await.unwrap();
                drop(acceptor.spawn(Class::Normal, echoes.clone(), echo(socket)));
            }
            listener
        };
        let server = shard.spawn(Class::Normal, shard.account("accept"), accepting);
        let connecting: Vec<_> = (0..2000)
            .map(|_| {
                let dialler = shard.clone();
                shard.spawn(Class::Normal, account.clone(), async move { dialler.connect(address).await.unwrap() })
            })
            .collect();
        let mut clients = Vec::new();
        for task in connecting {
            clients.push(task.await);
        }
        let _listener = server.await;
        let idle = shard.arena().usage().used_bytes;
        assert!(idle <= 256 * shard::RECV_BYTES, "{idle} bytes held by 2,000 idle connections");
        for (n, client) in clients.iter().enumerate() {
            client.send(vec![Slice::from_vec(pattern(n as u64, 100))]).await.unwrap();
        }
        for (n, client) in clients.iter().enumerate() {
            let buf = shard.arena().alloc(100).unwrap();
            assert!(client.recv_into(buf, 100).await.unwrap()[..] == pattern(n as u64, 100)[..]);
        }
        drop(clients);
    });
}

#[test]
fn a_full_arena_holds_receives_back_and_lets_them_go_on() {
    let mut options = real::options(4 * MIB);
    options.uring.recv_buffers = 16;
    run_with(&options, async |shard: Shard| {
        let listener = shard.listen(loopback()).await.unwrap();
        let mut pairs = Vec::new();
        for _ in 0..64 {
            pairs.push(connect(&shard, &listener).await);
        }
        // All but the provided buffers: 16 receives at most can be answered.
        let mut hoard = Vec::new();
        while let Some(buf) = shard.arena().alloc(4096) {
            hoard.push(buf);
        }
        for (near, _) in &pairs {
            near.send(vec![Slice::from_static(b"here")]).await.unwrap();
        }
        let held = Rc::new(RefCell::new(Vec::new()));
        let (nears, fars): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        for far in fars {
            let held = held.clone();
            let receiving = async move {
                let bytes = far.recv().await.unwrap();
                held.borrow_mut().push(bytes);
            };
            drop(shard.spawn(Class::Normal, shard.account("receive"), receiving));
        }
        let until = async |count: usize| {
            while held.borrow().len() < count {
                shard.yield_now().await;
            }
        };
        until(16).await;
        let before = shard.uring_stats().unwrap();
        // Nothing comes, and waiting for it is not spinning.
        shard.sleep(Duration::from_millis(50)).await;
        assert_eq!(held.borrow().len(), 16);
        let spent = shard.uring_stats().unwrap().enters - before.enters;
        assert!(spent < 20, "{spent} system calls while starved");
        assert!(before.starved_receives > 0);
        hoard.truncate(hoard.len() - 8);
        until(24).await;
        // What comes back from the first answers the rest.
        while shard.task_count() > 1 {
            held.borrow_mut().clear();
            shard.yield_now().await;
        }
        drop((hoard, nears));
    });
}

#[test]
fn dropped_futures_lose_no_connection_no_byte_and_no_buffer() {
    run(async |shard: Shard| {
        let listener = shard.listen(loopback()).await.unwrap();
        for _ in 0..100 {
            let mut accepting = Box::pin(listener.accept());
            assert!(!poll_once(accepting.as_mut()).await);
            drop(accepting);
            let mut connecting = Box::pin(shard.connect(listener.local_addr()));
            let _ = poll_once(connecting.as_mut()).await;
            drop(connecting);
        }
        // The connections that were made before their dialler lost interest come first, already closed.
        let near = shard.connect(listener.local_addr()).await.unwrap();
        near.send(vec![Slice::from_static(b"me")]).await.unwrap();
        let far = loop {
            let (far, _) = listener.accept().await.unwrap();
            if matches!(far.recv().await.as_deref(), Ok(b"me")) {
                break far;
            }
        };
        for _ in 0..100 {
            let mut receiving = Box::pin(far.recv());
            assert!(!poll_once(receiving.as_mut()).await);
            drop(receiving);
            let buf = shard.arena().alloc(5000).unwrap();
            let mut filling = Box::pin(near.recv_into(buf, 5000));
            assert!(!poll_once(filling.as_mut()).await);
        }
        near.send(vec![Slice::from_static(b"still")]).await.unwrap();
        assert_eq!(&far.recv().await.unwrap()[..], b"still");
        let big = aligned(&shard, &pattern(5, 4 * MIB)).await;
        let mut sending = Box::pin(far.send(vec![big]));
        assert!(!poll_once(sending.as_mut()).await);
        drop(sending);
        drop((near, far, listener));
        settle(&shard).await;
        assert!(shard.arena().usage().used_bytes <= 256 * shard::RECV_BYTES);
    });
}

#[test]
fn a_shard_that_ends_with_everything_in_flight_ends() {
    run(async |shard: Shard| {
        let listener = shard.listen(loopback()).await.unwrap();
        let (near, far) = connect(&shard, &listener).await;
        let account = shard.account("left behind");
        drop(shard.spawn(Class::Normal, account.clone(), async move { listener.accept().await.map(|_| ()) }));
        drop(shard.spawn(Class::Normal, account.clone(), async move { near.recv().await.map(|_| ()) }));
        let block = aligned(&shard, &pattern(6, 4 * MIB)).await;
        drop(shard.spawn(Class::Normal, account, async move { far.send(vec![block; 8]).await }));
        shard.yield_now().await;
        shard.yield_now().await;
    });
}
