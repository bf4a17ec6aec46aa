//! What happens where the process runs out of descriptors. A process of its own: the limit is everyone's.

mod real;

use std::fs::File;
use std::time::Duration;

use real::run;
use rustix::process::{Resource, Rlimit};
use shard::{Shard, Slice};

#[test]
fn accepting_pauses_without_descriptors_and_goes_on_with_them() {
    let old = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: old.maximum }).unwrap();
    run(async |shard: Shard| {
        let listener = shard.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(shard.connect(listener.local_addr()).await.unwrap());
        }
        // Nothing has been accepted yet, since nobody asked: the connections wait in the kernel.
        let mut hoard = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            hoard.push(file);
        }
        let before = shard.uring_stats().unwrap();
        let mut accepting = Box::pin(listener.accept());
        let _ =
            std::future::poll_fn(|context| std::task::Poll::Ready(accepting.as_mut().poll(context).is_ready())).await;
        shard.sleep(Duration::from_millis(300)).await;
        let after = shard.uring_stats().unwrap();
        assert!(after.accept_pauses > before.accept_pauses, "it met the limit");
        let spent = after.enters - before.enters;
        assert!(spent < 40, "{spent} system calls while paused");
        // The shard can do all else meanwhile; opening needs one descriptor for a moment.
        assert!(shard.connect(listener.local_addr()).await.is_err());
        drop(hoard);
        let mut accepted = vec![accepting.await.unwrap().0];
        while accepted.len() < clients.len() {
            accepted.push(listener.accept().await.unwrap().0);
        }
        for (client, socket) in clients.iter().zip(&accepted) {
            client.send(vec![Slice::from_static(b"x")]).await.unwrap();
            assert_eq!(&socket.recv().await.unwrap()[..], b"x");
        }
        // The table takes as many as the limit says: the rest is refused as it comes.
        let mut extra = Vec::new();
        let error = loop {
            match shard.connect(listener.local_addr()).await {
                Ok(client) => extra.push(client),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(23), "{error}");
        drop(extra);
    });
}
