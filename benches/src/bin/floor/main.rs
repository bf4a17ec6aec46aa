//! The floor: what a broker would cost if it did nothing but the unavoidable. Frames come in from sockets, one durable write
//! carries all that came while the one before was under way, and each frame gets the smallest reply that a client accepts.
//! No check, no offset, no index, no reader, no recovery.
//!
//! Three forms. `once`: bytes go to the device once, durably. `twice`: once durably and once more in the background with no
//! sync of its own, as a broker must that journals first and keeps logs for reading. `kept`: the same, but each frame's CRC is
//! computed and the frame copied to where the newest records are kept, as a broker must that trusts no client and stores
//! records one behind another.
//!
//! Bare io_uring, one thread and one ring per shard; frames are received straight into registered memory and, but for the last form,
//! written from there, so no byte is copied in this process. Prints `ready floor kafka=HOST:PORT shards=N` when it can take connections.

mod memory;
mod shard;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc;

use benches::files::prezeroed;
use benches::process;
use clap::{Parser, ValueEnum};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Form {
    Once,
    Twice,
    Kept,
}

#[derive(Parser)]
#[command(about = "The least a durable Produce path can cost")]
struct Arguments {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long, default_value_t = 2)]
    shards: usize,
    #[arg(long, value_enum)]
    form: Form,
    /// Size of each file that is written round and round.
    #[arg(long, default_value_t = 256)]
    file_mib: u64,
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.dir)?;
    let file_bytes = arguments.file_mib.max(64) << 20;
    let listener = TcpListener::bind(arguments.listen)?;
    let (ready, readies) = mpsc::channel();
    let mut seats = Vec::with_capacity(arguments.shards);
    for n in 0..arguments.shards {
        let file = |name: &str| prezeroed(&arguments.dir.join(format!("{name}-{n}")), file_bytes);
        let journal = file("journal")?;
        let background = (arguments.form != Form::Once).then(|| file("background")).transpose()?;
        let files = shard::Files { journal, background, bytes: file_bytes };
        let keeps = arguments.form == Form::Kept;
        let (seat, doors) = shard::seat()?;
        seats.push(seat);
        let ready = ready.clone();
        std::thread::spawn(move || {
            let result = process::pin_to(n).and_then(|()| shard::run(doors, files, keeps, &ready));
            // A shard never ends by itself.
            eprintln!("floor: shard {n} failed: {result:?}");
            std::process::exit(5);
        });
    }
    for _ in 0..arguments.shards {
        readies.recv().map_err(std::io::Error::other)?;
    }
    println!("ready floor kafka={} shards={} form={:?}", listener.local_addr()?, arguments.shards, arguments.form);
    for (n, stream) in listener.incoming().enumerate() {
        seats[n % seats.len()].give(stream?)?;
    }
    Ok(())
}
