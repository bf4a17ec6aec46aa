//! Everything at once, cut off anywhere: random operations whose futures are dropped at random, and nothing left over.

mod real;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use base::Random;
use real::{TestDir, aligned, pattern, run_with};
use shard::{Class, File, OpenOptions, Shard, Slice, Socket, WriteSync};

/// Direct descriptors in use in the rings of this process, as the kernel lists them.
fn direct_descriptors() -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let ring = std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains("io_uring"));
        let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", entry.file_name().display())) else {
            continue;
        };
        if ring {
            let listed = info.lines().skip_while(|line| !line.starts_with("UserFiles:")).skip(1);
            count += listed.take_while(|line| !line.starts_with("UserBufs:")).count();
        }
    }
    count
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Polls the future up to `polls` times, then drops it wherever it stands.
async fn cut_short<T>(future: impl Future<Output = T>, polls: u64) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            // Polled again with the next turn, done or not.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

struct World {
    shard: Shard,
    address: std::net::SocketAddr,
    sockets: RefCell<Vec<Rc<Socket>>>,
    file: File,
    directory: std::path::PathBuf,
    finished: Cell<u64>,
}

async fn disturb(world: Rc<World>, mut random: Random) {
    let shard = &world.shard;
    for _ in 0..60 {
        let polls = random.below(12);
        let some = |random: &mut Random| {
            let sockets = world.sockets.borrow();
            (!sockets.is_empty()).then(|| sockets[random.below(sockets.len() as u64) as usize].clone())
        };
        let done = match random.below(10) {
            0 => match cut_short(shard.connect(world.address), polls * 4).await {
                Some(Ok(socket)) => {
                    world.sockets.borrow_mut().push(Rc::new(socket));
                    true
                }
                _ => false,
            },
            1 | 2 => match some(&mut random) {
                Some(socket) => cut_short(socket.recv(), polls).await.is_some(),
                None => false,
            },
            3 | 4 => match some(&mut random) {
                Some(socket) => {
                    let bytes = Slice::from_vec(pattern(1, random.below(20_000) as usize));
                    cut_short(socket.send(vec![bytes.clone(), bytes]), polls).await.is_some()
                }
                None => false,
            },
            5 => {
                let socket = { some(&mut random) };
                if let Some(socket) = socket {
                    if random.chance(1, 2) {
                        socket.shutdown();
                    }
                    world.sockets.borrow_mut().retain(|kept| !Rc::ptr_eq(kept, &socket));
                }
                true
            }
            6 => cut_short(world.file.read_at(random.below(64) * 4096, 8192), polls).await.is_some(),
            7 => {
                let data = vec![aligned(shard, &pattern(2, 8192)).await; 3];
                let sync = if random.chance(1, 2) { WriteSync::Data } else { WriteSync::None };
                cut_short(world.file.write_at(random.below(64) * 4096, data, sync), polls).await.is_some()
            }
            8 => cut_short(world.file.datasync(), polls).await.is_some(),
            _ => {
                let options = OpenOptions { read: true, write: true, create: true, direct: true, exclusive: false };
                let path = world.directory.join(format!("file-{}", random.below(5)));
                let fs = shard.fs();
                match cut_short(fs.open(path, options), polls * 4).await {
                    Some(Ok(file)) => cut_short(fs.allocate(&file, 0, 8192), polls).await.is_some(),
                    _ => false,
                }
            }
        };
        world.finished.set(world.finished.get() + u64::from(done));
    }
}

async fn one_seed(shard: Shard, directory: std::path::PathBuf, seed: u64) {
    let mut random = Random::new(seed);
    let options = OpenOptions { read: true, write: true, create: true, direct: true, exclusive: false };
    let file = shard.fs().open(directory.join("shared"), options).await.unwrap();
    let listener = shard.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let world = Rc::new(World {
        shard: shard.clone(),
        address: listener.local_addr(),
        sockets: RefCell::default(),
        file,
        directory,
        finished: Cell::new(0),
    });
    let account = shard.account("soak");
    let accepted = world.clone();
    let accepting = async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            accepted.sockets.borrow_mut().push(Rc::new(socket));
        }
    };
    let accepting = shard.spawn(Class::Normal, account.clone(), accepting);
    let tasks: Vec<_> =
        (0..20).map(|_| shard.spawn(Class::Normal, account.clone(), disturb(world.clone(), random.fork()))).collect();
    for task in tasks {
        task.await;
    }
    assert!(world.finished.get() > 100, "most of it is real work: {}", world.finished.get());
    assert!(direct_descriptors() >= 2, "the shared file and the listener are listed");
    accepting.cancel();
    world.sockets.borrow_mut().clear();
    drop(world);
    while shard.ops_in_flight() > 0 {
        shard.sleep(Duration::from_micros(200)).await;
    }
}

#[test]
fn nothing_is_left_over_whatever_is_cut_short() {
    let dir = TestDir::new();
    for entries in [1024, 8] {
        let mut options = real::options(16 << 20);
        options.uring.submission_entries = entries;
        options.uring.recv_buffers = 32;
        let directory = dir.path().to_path_buf();
        run_with(&options, async move |shard: Shard| {
            one_seed(shard.clone(), directory.clone(), 0).await;
            let (used, open) = (shard.arena().usage().used_bytes, open_descriptors());
            for seed in 1..10 {
                one_seed(shard.clone(), directory.clone(), seed).await;
                // Closes that nobody waits for have gone out with the park that `sleep` is.
                shard.sleep(Duration::from_millis(2)).await;
                assert_eq!(shard.arena().usage().used_bytes, used, "seed {seed}: bytes in use");
                assert_eq!(open_descriptors(), open, "seed {seed}: descriptors of the process");
                assert_eq!(direct_descriptors(), 0, "seed {seed}: descriptors of the ring");
            }
        });
    }
}
