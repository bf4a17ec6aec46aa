//! Starting and stopping a sink: a shard of its own, and the connections that it serves.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::task::Poll;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use base::MIB;
use net::{Drain, FrameMemory, Limits, Place, Watch};
use shard::sync::either;
use shard::threads::{ShardThreads, SpawnOptions, spawn_shards};
use shard::{Class, Listener, Shard, ShardOptions, UringOptions};

use super::broker::{Broker, SinkOptions};
use super::service::SinkService;

/// Memory for what comes in; what is kept is copied out of it.
const ARENA_BYTES: usize = 256 * MIB;

/// The longest request.
const FRAME_BYTES_MAX: usize = 64 * MIB;

/// Requests of one connection that are received and not answered: those that wait for their time.
const REQUESTS_IN_FLIGHT_MAX: usize = 1024;

/// The pause after a connection could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A sink that runs on a thread of its own. Dropping it stops it.
pub struct Sink {
    address: SocketAddr,
    stop: Arc<Stop>,
    /// `None` once it has stopped.
    threads: Option<ShardThreads<()>>,
}

impl Sink {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, with all its connections and whatever they wait for.
    pub fn stop(self) {}
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(threads) = self.threads.take() {
            threads.join();
        }
    }
}

/// The word to stop, from any thread to the sink's.
#[derive(Default)]
struct Stop {
    stopped: AtomicBool,
    waker: AtomicWaker,
}

impl Stop {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
    }

    async fn stopped(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.stopped.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Starts a sink. Returns once it takes requests.
///
/// # Errors
/// The address is none, or can't be listened on; io_uring is refused.
pub fn start(options: SinkOptions) -> io::Result<Sink> {
    let address = options.listen.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the host has no address"))?;
    if address.ip().is_unspecified() {
        let what = "clients are told the address that the sink listens on: name one that they can connect to";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let stop = Arc::new(Stop::default());
    let (ready, started) = mpsc::channel();
    let spawn = SpawnOptions {
        pin: false,
        uring: UringOptions { register_buffers: false, ..UringOptions::default() },
        shard: ShardOptions { arena_bytes: ARENA_BYTES, ..ShardOptions::default() },
    };
    let seat = Seat { address, options, stop: stop.clone(), ready };
    let threads = spawn_shards(&spawn, vec![seat], run)?;
    match started.recv().unwrap_or_else(|_| Err(io::Error::other("the sink ended before it began"))) {
        Ok(address) => Ok(Sink { address, stop, threads: Some(threads) }),
        Err(error) => {
            threads.join();
            Err(error)
        }
    }
}

/// What the sink's thread is given.
struct Seat {
    address: SocketAddr,
    options: SinkOptions,
    stop: Arc<Stop>,
    ready: Sender<io::Result<SocketAddr>>,
}

async fn run(shard: Shard, seat: Seat) {
    let Seat { address, options, stop, ready } = seat;
    let listener = match shard.listen(address).await {
        Ok(listener) => listener,
        Err(error) => {
            // Whoever started the sink waits for this word.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let address = listener.local_addr();
    let broker = Broker::new(&shard, address, options);
    let _ = ready.send(Ok(address));
    either(stop.stopped(), accept(shard, listener, broker)).await;
}

/// Accepts for ever.
async fn accept(shard: Shard, listener: Listener, broker: Rc<Broker>) {
    let limits = Limits {
        frame_bytes: FRAME_BYTES_MAX,
        bytes_in_flight: FRAME_BYTES_MAX,
        requests_in_flight: REQUESTS_IN_FLIGHT_MAX,
    };
    let (account, memory, service) = (shard.account("sink"), FrameMemory::new(&shard), SinkService::new(broker));
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, say: what is closed in the meantime makes room.
                eprintln!("a connection can't be accepted: {error}");
                shard.sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let place = Place {
            shard: shard.clone(),
            account: account.clone(),
            peer,
            limits,
            memory: memory.clone(),
            // It ends with its shard, and lets everybody be slow.
            drain: Drain::default(),
            watch: Watch::default(),
        };
        let serving = net::serve(place, socket, service.clone());
        let task = async move {
            if let Some(reason) = serving.await {
                eprintln!("{peer}: connection closed: {reason}");
            }
        };
        drop(shard.spawn(Class::Latency, account.clone(), task));
    }
}
