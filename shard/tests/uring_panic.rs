//! A panic on a shard's thread ends the process: what it leaves behind belongs to nobody.

mod real;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use shard::Shard;

const VICTIM: &str = "SHARD_TEST_VICTIM";

#[test]
fn a_panic_on_a_shard_aborts_the_process() {
    if std::env::var_os(VICTIM).is_some() {
        real::run(async |shard: Shard| {
            let task = shard.spawn(shard::Class::Normal, shard.account("bad"), async { panic!("on purpose") });
            task.await;
        });
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "a_panic_on_a_shard_aborts_the_process"]).env(VICTIM, "1");
    let status = again.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.signal(), Some(6), "{status}");
}
