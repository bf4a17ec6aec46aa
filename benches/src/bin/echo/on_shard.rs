//! The echo on this project's runtime, in the two ways that the broker receives: small frames from lent buffers as they come,
//! large ones straight into a buffer of their own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Class, Shard, Slice, Socket};

/// From here on a message gets a buffer of its own.
const LARGE_BYTES: usize = 8 << 10;

pub fn serve(message_bytes: usize) -> io::Result<()> {
    let options = SpawnOptions { pin: true, ..SpawnOptions::default() };
    let threads = spawn_shards(&options, vec![()], move |shard, ()| listen(shard, message_bytes))?;
    threads.join().into_iter().collect()
}

async fn listen(shard: Shard, message_bytes: usize) -> io::Result<()> {
    let listener = shard.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    super::announce(listener.local_addr());
    loop {
        let (socket, _) = listener.accept().await?;
        let connection = shard.clone();
        let echo = async move {
            // An error is the end of the connection, and of nothing else.
            let _ = if message_bytes < LARGE_BYTES {
                echo_small(&socket).await
            } else {
                echo_large(&connection, &socket, message_bytes).await
            };
        };
        drop(shard.spawn(Class::Latency, shard.account("echo"), echo));
    }
}

async fn echo_small(socket: &Socket) -> io::Result<()> {
    loop {
        let bytes = socket.recv().await?;
        if bytes.is_empty() {
            return Ok(());
        }
        socket.send(vec![bytes]).await?;
    }
}

async fn echo_large(shard: &Shard, socket: &Socket, message_bytes: usize) -> io::Result<()> {
    loop {
        let buf = shard.arena().alloc_wait(message_bytes).await;
        let message: Slice = socket.recv_into(buf, message_bytes).await?.freeze();
        socket.send(vec![message]).await?;
    }
}
