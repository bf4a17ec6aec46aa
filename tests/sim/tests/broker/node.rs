//! The broker in the simulated world: the very code that ships, from its boot on.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shard::{Class, ShardOptions};
use sim::io::Crash;
use sim::seat::{MachineId, Seat};
use sim::world::{Failure, World};
use tidemill::boot;
use tidemill::config::NodeConfig;

pub const PORT: u16 = 9092;
pub const HTTP_PORT: u16 = 8082;
/// Virtual time in which a start must come through.
const LIMIT: Duration = Duration::from_secs(600);

/// How a start went.
enum Started {
    Ready,
    Crashed,
    /// It refused to start, and said why.
    Refused(String),
}

/// The settings of a small broker.
pub fn config(shards: u16) -> NodeConfig {
    NodeConfig {
        listen: format!("10.0.0.1:{PORT}"),
        http: format!("10.0.0.1:{HTTP_PORT}"),
        data_dir: "/data".into(),
        shards: Some(shards),
        journal_bytes: 4 << 20,
        disk_reserve_bytes: 4 << 20,
        memory_bytes: 256 << 20,
        auto_create_topics: false,
        retention_check_interval_ms: 500,
        ..NodeConfig::default()
    }
}

/// Starts the broker until it comes through. So many times it is crashed on the way, each time as `draw` says: after how many operations of its disk, and
/// how. `crashed` is told of each crash, the first being 1.
pub fn start_through(
    world: &mut World,
    machine: MachineId,
    config: &NodeConfig,
    mut crashes: u32,
    mut draw: impl FnMut() -> (u64, Crash),
    mut crashed: impl FnMut(u32),
) -> Result<(), Failure> {
    let mut count = 0;
    loop {
        let (at, how) = draw();
        let crash = |world: &mut World| {
            if crashes > 0 {
                world.crash_after(machine, at, how);
            }
        };
        match start(world, machine, config.clone(), crash)? {
            Started::Ready => {
                world.spare(machine);
                return Ok(());
            }
            Started::Crashed => {
                crashes -= 1;
                count += 1;
                crashed(count);
            }
            Started::Refused(why) => return Err(Failure::Judged(format!("the broker does not start: {why}"))),
        }
    }
}

fn options(seat: Seat) -> ShardOptions {
    ShardOptions { id: seat.shard, arena_bytes: 64 << 20, ..ShardOptions::default() }
}

/// Starts the broker on a machine and waits until it takes requests.
fn start(
    world: &mut World,
    machine: MachineId,
    config: NodeConfig,
    crash: impl FnOnce(&mut World),
) -> Result<Started, Failure> {
    let shards = config.shards.expect("a number of its own");
    let config = Arc::new(config);
    let ready: Rc<RefCell<Option<Result<(), String>>>> = Rc::default();
    let started = world.boot(machine, shards, options);
    crash(world);
    for (seat, shard) in boot::seats(shards).into_iter().zip(&started) {
        let mesh = seat.attach(shard);
        let (own, config, ready) = (shard.clone(), config.clone(), ready.clone());
        let task = async move {
            if own.id().0 > 0 {
                return drop(boot::run_other(own, mesh, config).await);
            }
            let told = ready.clone();
            let ended = boot::run_first(own, mesh, config, |_| *told.borrow_mut() = Some(Ok(())), pending()).await;
            if let Err(error) = ended {
                *ready.borrow_mut() = Some(Err(error.to_string()));
            }
        };
        drop(shard.spawn(Class::Normal, shard.account("main"), task));
    }
    world.nudge(machine);
    world.run_until(LIMIT, |world| ready.borrow().is_some() || !world.is_up(machine))?;
    let told = ready.borrow_mut().take();
    Ok(match told {
        None => Started::Crashed,
        Some(Ok(())) => Started::Ready,
        Some(Err(why)) => Started::Refused(why),
    })
}
