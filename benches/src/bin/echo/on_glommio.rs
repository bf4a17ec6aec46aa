//! The echo on glommio, as its documentation writes one.

use std::io;
use std::net::Ipv4Addr;

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement};

pub fn serve(message_bytes: usize) -> io::Result<()> {
    let executor = LocalExecutorBuilder::new(Placement::Fixed(0)).spawn(move || listen(message_bytes));
    executor.map_err(io::Error::from)?.join().map_err(io::Error::from)?
}

async fn listen(message_bytes: usize) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io::Error::from)?;
    super::announce(listener.local_addr().map_err(io::Error::from)?);
    loop {
        let stream = listener.accept().await.map_err(io::Error::from)?;
        stream.set_nodelay(true).map_err(io::Error::from)?;
        glommio::spawn_local(async move {
            // An error is the end of the connection, and of nothing else.
            let _ = echo(stream, message_bytes).await;
        })
        .detach();
    }
}

async fn echo(mut stream: TcpStream, message_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; message_bytes];
    loop {
        let bytes = stream.read(&mut buffer).await?;
        if bytes == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..bytes]).await?;
    }
}
