//! The client of an echo: all connections on one bare ring.
//!
//! What the kernel holds: each connection's two buffers, which never move or grow, and which nobody touches while an operation
//! is out; they outlive the ring.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use benches::process::cpu_time;
use benches::ring::{self, Ring};
use benches::stats::Samples;
use benches::syscalls::SyscallCount;
use io_uring::{opcode, types};

pub struct Load {
    pub address: SocketAddr,
    pub pid: u32,
    pub connections: usize,
    pub message_bytes: usize,
    pub warm_up: Duration,
    pub duration: Duration,
}

/// Figures of one trial; CPU and system calls are the server's, for each message.
pub struct Trial {
    pub per_second: f64,
    pub cpu_us: f64,
    pub syscalls: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    back: Vec<u8>,
    /// Operations in the kernel, of a send and a receive.
    open: u32,
    sent: Instant,
}

pub fn run(load: &Load) -> io::Result<Trial> {
    let mut connections = Vec::with_capacity(load.connections);
    for n in 0..load.connections {
        let stream = TcpStream::connect(load.address)?;
        stream.set_nodelay(true)?;
        let out = vec![n as u8; load.message_bytes];
        connections.push(Connection { stream, out, back: vec![0; load.message_bytes], open: 0, sent: Instant::now() });
    }
    let mut ring = Ring::new(512)?;
    for (n, connection) in connections.iter_mut().enumerate() {
        exchange(&mut ring, n, connection)?;
    }
    let mut samples = Samples::with_capacity(1 << 20);
    serve_until(&mut ring, &mut connections, Instant::now() + load.warm_up, &mut Samples::default())?;
    let (begin, cpu, calls) = (Instant::now(), cpu_time(load.pid)?, SyscallCount::start(load.pid));
    serve_until(&mut ring, &mut connections, begin + load.duration, &mut samples)?;
    let (elapsed, cpu) = (begin.elapsed(), cpu_time(load.pid)?.since(cpu));
    let messages = samples.count() as f64;
    Ok(Trial {
        per_second: messages / elapsed.as_secs_f64(),
        cpu_us: cpu.total().as_secs_f64() * 1e6 / messages,
        syscalls: calls.map_or(f64::NAN, |calls| calls.count() as f64 / messages),
        p50_us: samples.percentile_us(0.5).unwrap_or(f64::NAN),
        p99_us: samples.percentile_us(0.99).unwrap_or(f64::NAN),
    })
}

fn serve_until(ring: &mut Ring, connections: &mut [Connection], end: Instant, samples: &mut Samples) -> io::Result<()> {
    loop {
        ring.submit_and_wait(1)?;
        let now = Instant::now();
        while let Some(completion) = ring.pop() {
            let n = completion.user_data() as usize;
            let connection = &mut connections[n];
            if ring::result(&completion)? != connection.out.len() {
                return Err(io::Error::other("the server closed a connection, or cut a message short"));
            }
            connection.open -= 1;
            if connection.open == 0 {
                if connection.out != connection.back {
                    return Err(io::Error::other("the echo is not what was sent"));
                }
                samples.push(now.duration_since(connection.sent));
                exchange(ring, n, connection)?;
            }
        }
        if now >= end {
            return Ok(());
        }
    }
}

/// Sends a message and receives it whole.
fn exchange(ring: &mut Ring, n: usize, connection: &mut Connection) -> io::Result<()> {
    let fd = types::Fd(connection.stream.as_raw_fd());
    let bytes = connection.out.len() as u32;
    let send = opcode::Send::new(fd, connection.out.as_ptr(), bytes).flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL);
    let recv = opcode::Recv::new(fd, connection.back.as_mut_ptr(), bytes).flags(libc::MSG_WAITALL);
    connection.open = 2;
    connection.sent = Instant::now();
    for entry in [send.build(), recv.build()] {
        // SAFETY: the buffers stay untouched until both have completed; see the module.
        unsafe { ring.push(&entry.user_data(n as u64))? };
    }
    Ok(())
}
