//! Frames that begin and do not end, on the production driver: what they hold, and who gives way to whom.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use net::{Connection, Drain, FrameMemory, Limits, OnClose, Place, Reply, Service, Started, Watch};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Class, Listener, Shard, ShardOptions, Slice, Socket, Task};

/// What a driver lends to the kernel for receives is never given back.
const LENT_BYTES: usize = 1 << 20;

/// Answers every frame with its length.
struct Lengths;

impl Service for Lengths {
    fn pipelined(&self, _: &[u8]) -> bool {
        false
    }

    fn frame_bytes_max(&self, head: [u8; 2]) -> usize {
        if head == [9, 9] { 100_000 } else { usize::MAX }
    }

    fn start(self: Rc<Self>, _: Rc<Connection>, frame: Slice) -> std::pin::Pin<Box<dyn Future<Output = Started>>> {
        let length = u32::try_from(frame.len()).expect("short").to_be_bytes();
        let answer = [&4_u32.to_be_bytes()[..], &length].concat();
        let reply: std::pin::Pin<Box<dyn Future<Output = Reply>>> =
            Box::pin(async move { Reply::Answer(vec![Slice::from_vec(answer)].into()) });
        Box::pin(std::future::ready(Started::Later(reply, OnClose::Finish)))
    }
}

/// A server, and what it lets its connections use.
struct World {
    shard: Shard,
    listener: Listener,
    memory: FrameMemory,
    watch: Watch,
}

type Serving = Task<Option<String>>;

impl World {
    async fn new(shard: Shard) -> Self {
        let listener = shard.listen("127.0.0.1:0".parse().expect("an address")).await.expect("listen");
        let (memory, watch) = (FrameMemory::new(&shard), Watch::default());
        Self { shard, listener, memory, watch }
    }

    /// Closes who is slow and waited for, from now on.
    fn start_watch(&self) {
        let memory = self.memory.clone();
        let watching = self.watch.clone().run(self.shard.clone(), Duration::from_secs(600), move || memory.shortage());
        drop(self.shard.spawn(Class::Normal, self.shard.account("watch"), watching));
    }

    async fn connect(&self) -> (Socket, Serving) {
        let client = self.shard.connect(self.listener.local_addr()).await.expect("connect");
        let (socket, peer) = self.listener.accept().await.expect("accept");
        let account = self.shard.account("connections");
        let limits = Limits { frame_bytes: 100 << 20, bytes_in_flight: 16 << 20, requests_in_flight: 16 };
        let place = Place {
            shard: self.shard.clone(),
            account: account.clone(),
            peer,
            limits,
            memory: self.memory.clone(),
            drain: Drain::default(),
            watch: self.watch.clone(),
        };
        let serving = net::serve(place, socket, Rc::new(Lengths));
        (client, self.shard.spawn(Class::Latency, account, serving))
    }

    /// A frame that claims `length` and of which `sent` bytes come.
    async fn begin(&self, length: u32, sent: usize) -> (Socket, Serving) {
        let (client, serving) = self.connect().await;
        client.send(vec![Slice::from_vec([&length.to_be_bytes()[..], &vec![0; sent]].concat())]).await.expect("send");
        (client, serving)
    }

    /// What is received and held, beside what is always lent.
    fn held_bytes(&self) -> usize {
        self.shard.received().usage().used_bytes.saturating_sub(LENT_BYTES)
    }
}

/// Sends a whole frame and returns the length that comes back.
async fn ask(client: &Socket, length: usize) -> u32 {
    let prefix = u32::try_from(length).expect("short").to_be_bytes();
    client.send(vec![Slice::from_vec([&prefix[..], &vec![0; length]].concat())]).await.expect("send");
    let mut answer = Vec::new();
    while answer.len() < 8 {
        let piece = client.recv().await.expect("receive");
        assert!(!piece.is_empty(), "the connection was closed");
        answer.extend_from_slice(&piece);
    }
    u32::from_be_bytes(answer[4..8].try_into().expect("four bytes"))
}

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(World) -> F + Clone + Send + 'static) {
    let options = SpawnOptions {
        shard: ShardOptions { arena_bytes: 64 << 20, ..ShardOptions::default() },
        ..SpawnOptions::default()
    };
    let main = move |shard: Shard, ()| async move { test(World::new(shard).await).await };
    spawn_shards(&options, vec![()], main).expect("a ring for the test").join();
}

#[test]
fn a_claimed_length_holds_nothing_and_keeps_nobody_out() {
    run(|world| async move {
        let mut begun = Vec::new();
        for number in 0..300 {
            begun.push(world.begin([1 << 20, 5 << 20, 70_000][number % 3], [0, 1, 700][number / 3 % 3]).await);
        }
        let (client, _serving) = world.connect().await;
        for length in [0, 10, 5000, 100_000, 1 << 20, 3 << 20] {
            assert_eq!(ask(&client, length).await as usize, length);
        }
        assert!(world.held_bytes() <= 1 << 20, "{} bytes held", world.held_bytes());
        assert!(begun.iter().all(|(_, serving)| !serving.is_finished()), "nobody was in the way");
    });
}

#[test]
fn an_idle_connection_holds_no_block() {
    run(|world| async move {
        let mut idle = Vec::new();
        for _ in 0..500 {
            let (client, serving) = world.connect().await;
            assert_eq!(ask(&client, 100).await, 100);
            idle.push((client, serving));
        }
        assert!(world.held_bytes() <= 256 << 10, "{} bytes held", world.held_bytes());
    });
}

#[test]
fn who_sends_and_stops_gives_way_to_who_goes_on() {
    run(|world| async move {
        // All trust, all probation, all claims and more: each sends enough to get memory, and then no more.
        let mut begun = Vec::new();
        for number in 0..320 {
            begun.push(world.begin([900_000, 100_000][number % 2], 40_000).await);
        }
        world.start_watch();
        let (client, _serving) = world.connect().await;
        for length in [10, 3000, 20_000, 100_000, 900_000] {
            assert_eq!(ask(&client, length).await as usize, length);
        }
        let mut closed = begun.into_iter().map(|(_, serving)| serving).filter(Task::is_finished);
        let reason = closed.next().expect("some were closed").await.expect("a reason");
        assert!(reason.contains("while others waited for memory"), "{reason}");
    });
}

#[test]
fn a_long_frame_that_stops_gives_its_turn_to_the_next() {
    run(|world| async move {
        let longest = u32::try_from(world.memory.frame_bytes_max()).expect("megabytes");
        let (_silent, stopped) = world.begin(longest, (1 << 20) + 100_000).await;
        world.start_watch();
        let (client, _serving) = world.connect().await;
        assert_eq!(ask(&client, longest as usize).await, longest);
        assert!(stopped.await.expect("a reason").contains("while others waited for memory"));
    });
}

#[test]
fn a_frame_is_held_to_the_limit_of_its_kind_before_it_comes() {
    run(|world| async move {
        let (client, serving) = world.connect().await;
        let begun = [&100_001_u32.to_be_bytes()[..], &[9, 9]].concat();
        client.send(vec![Slice::from_vec(begun)]).await.expect("send");
        let reason = serving.await.expect("a reason");
        assert_eq!(reason, "a frame of 100001 bytes, where 100000 are allowed");
    });
}
