//! A connection on the production driver: the order of its answers, and how many leave together.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use net::{Connection, Drain, FrameMemory, Limits, OnClose, Place, Reply, Service, Started, Watch};
use shard::sync::Event;
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Class, Shard, ShardOptions, Slice};

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// A frame's first byte: its answer is the frame, once the gate is open; the connection ends then; it is not answered.
const ECHO: u8 = 0;
const CLOSE: u8 = 1;
const SILENT: u8 = 2;

/// Holds every answer back until its gate opens.
#[derive(Default)]
struct Gated {
    open: Cell<bool>,
    opened: Event,
    started: RefCell<Vec<u8>>,
}

impl Service for Gated {
    fn pipelined(&self, _: &[u8]) -> bool {
        true
    }

    fn frame_bytes_max(&self, _: [u8; 2]) -> usize {
        usize::MAX
    }

    fn start(self: Rc<Self>, _: Rc<Connection>, frame: Slice) -> Boxed<Started> {
        self.started.borrow_mut().push(frame[1]);
        let reply: Boxed<Reply> = Box::pin(async move {
            while !self.open.get() {
                self.opened.wait().await;
            }
            match frame[0] {
                ECHO => Reply::Answer(vec![Slice::from_vec(framed(&frame))].into()),
                CLOSE => Reply::Close("as it was told".to_owned()),
                _ => Reply::Nothing,
            }
        });
        Box::pin(std::future::ready(Started::Later(reply, OnClose::Finish)))
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len()).expect("short").to_be_bytes();
    [&length, body].concat()
}

/// Sends `frames`, opens the gate once all have started, and returns what comes back, and how many pieces of it came.
fn exchange(frames: Vec<Vec<u8>>) -> (Vec<u8>, usize, Option<String>) {
    let options = SpawnOptions {
        shard: ShardOptions { arena_bytes: 64 << 20, ..ShardOptions::default() },
        ..SpawnOptions::default()
    };
    let main = move |shard: Shard, ()| async move {
        let listener = shard.listen("127.0.0.1:0".parse().expect("an address")).await.expect("listen");
        let client = shard.connect(listener.local_addr()).await.expect("connect");
        let (socket, peer) = listener.accept().await.expect("accept");
        let account = shard.account("test");
        let limits = Limits { frame_bytes: 1 << 20, bytes_in_flight: 16 << 20, requests_in_flight: 1000 };
        let memory = FrameMemory::new(&shard);
        let (drain, watch) = (Drain::default(), Watch::default());
        let place = Place { shard: shard.clone(), account: account.clone(), peer, limits, memory, drain, watch };
        let service = Rc::new(Gated::default());
        let serving = shard.spawn(Class::Latency, account, net::serve(place, socket, service.clone()));
        let sent: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        client.send(vec![Slice::from_vec(sent)]).await.expect("send");
        while service.started.borrow().len() < frames.len() {
            shard.sleep(Duration::from_millis(1)).await;
        }
        service.open.set(true);
        service.opened.notify_all();
        let owed: usize =
            frames.iter().take_while(|f| f[0] != CLOSE).filter(|f| f[0] == ECHO).map(|f| f.len() + 4).sum();
        let (mut received, mut pieces) = (Vec::new(), 0);
        while received.len() < owed {
            let piece = client.recv().await.expect("receive");
            assert!(!piece.is_empty(), "the connection ended early");
            received.extend_from_slice(&piece);
            pieces += 1;
        }
        client.shutdown();
        (received, pieces, serving.await)
    };
    spawn_shards(&options, vec![()], main).expect("a ring for the test").join().pop().expect("one shard")
}

#[test]
fn answers_that_are_ready_together_leave_together_and_in_order() {
    let frames: Vec<Vec<u8>> = (0..40).map(|number| vec![ECHO, number, 7]).collect();
    let expected: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
    let (received, pieces, reason) = exchange(frames);
    assert_eq!((received, pieces, reason), (expected, 1, None));
}

#[test]
fn what_is_owed_before_a_close_is_sent_and_nothing_after_it() {
    let frames = vec![vec![ECHO, 0], vec![SILENT, 1], vec![ECHO, 2], vec![CLOSE, 3], vec![ECHO, 4]];
    let expected = [framed(&frames[0]), framed(&frames[2])].concat();
    let (received, _, reason) = exchange(frames);
    assert_eq!((received, reason.as_deref()), (expected, Some("as it was told")));
}

#[test]
fn long_answers_do_not_wait_for_each_other() {
    let frames: Vec<Vec<u8>> = (0..6).map(|number| [&[ECHO, number][..], &[number; 100_000][..]].concat()).collect();
    let expected: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
    let (received, _, reason) = exchange(frames);
    assert!(received == expected);
    assert_eq!(reason, None);
}
