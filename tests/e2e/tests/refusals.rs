//! A host that refuses io_uring or the locking of memory: what the broker, and the doctor, say.

use std::process::Command;

use e2e::broker::{Ended, Launch, program};
use e2e::confined::without_io_uring;

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn without_io_uring_the_cause_and_the_remedy_are_named() {
    let dir = temp();
    let launch = Launch::new(dir.path().join("data"));
    let words = ["io_uring is forbidden", "seccomp", "io_uring_setup", "--security-opt seccomp=", "SystemCallFilter="];
    let check = |text: &str| words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in {text}"));
    let Ended { code, stdout, stderr } = without_io_uring(|| launch.run());
    assert_eq!((code, stdout.as_str()), (Some(5), ""), "{stderr}");
    check(&stderr);
    assert!(!launch.data_dir.exists(), "nothing was made");
    let doctor = || Command::new(program()).args(["doctor", "--data-dir"]).arg(dir.path()).output();
    let found = without_io_uring(doctor).expect("it runs");
    assert_eq!(found.status.code(), Some(1));
    check(&String::from_utf8_lossy(&found.stdout));
    // A verb that needs a ring says the same.
    let list = || Command::new(program()).args(["topic", "list"]).output();
    let found = without_io_uring(list).expect("it runs");
    assert_eq!(found.status.code(), Some(5));
    check(&String::from_utf8_lossy(&found.stderr));
    // And where it is not refused, all is well.
    assert!(launch.start().stop().success());
}

/// The program that starts another one which may lock so much memory.
fn locking(bytes: u64) -> Vec<String> {
    // Root may lock what it likes, unless that right is taken away.
    let unprivileged = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "--"];
    let root = rustix::process::geteuid().is_root();
    let words = if root { &unprivileged[..] } else { &[] };
    let limit = format!("--memlock={bytes}:{bytes}");
    words.iter().copied().chain(["prlimit", &limit, "--"]).map(str::to_owned).collect()
}

#[test]
fn without_locked_memory_it_goes_on_and_says_so_once() {
    let dir = temp();
    // Enough for the rings, and not for a slab of buffers: what many systems give by default.
    let broker = Launch { through: locking(8 << 20), ..Launch::new(dir.path().join("data")) }.start();
    let said = "the kernel refuses to lock memory";
    // Memory is registered in the background as it comes into use; each topic brings some into use.
    for number in 0..500 {
        if broker.log().contains(said) {
            break;
        }
        let done = Command::new(program())
            .args(["topic", "create", &format!("t{number}"), "--bootstrap", &broker.kafka])
            .output()
            .expect("it runs");
        assert!(done.status.success(), "{done:?}");
    }
    let log = broker.log();
    assert!(broker.stop().success());
    assert_eq!(log.matches(said).count(), 1, "{log}");
    assert!(log.contains("LimitMEMLOCK") && log.contains("CAP_IPC_LOCK"), "{log}");
}

#[test]
fn the_doctor_names_the_limit_of_locked_memory() {
    let through = locking(0);
    let doctor = Command::new(&through[0]).args(&through[1..]).arg(program()).arg("doctor").output().expect("it runs");
    let text = String::from_utf8_lossy(&doctor.stdout);
    assert!(text.contains("0 KiB of memory may be locked") && text.contains("ulimit -l"), "{text}");
    // Later kernels count the ring itself, which is in the way then.
    let in_the_way = text.contains("io_uring gets no memory");
    assert_eq!(doctor.status.code(), Some(i32::from(in_the_way)), "{text}");
}
