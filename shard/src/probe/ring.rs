//! Whether a shard can have its ring, and if not, why.

use io_uring::{IoUring, opcode};

use super::{Finding, Severity, finding, read_small};

/// Sets up a ring as a shard would. Findings about what it lacks, or the reason why there is none.
pub(super) fn check_ring() -> Result<Vec<Finding>, Finding> {
    let refused =
        |error: std::io::Error| explain_refusal(error.raw_os_error().unwrap_or(0), uring_disabled(), is_filtered());
    let ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(32)
        .build(8)
        .map_err(refused)?;
    let mut known = io_uring::Probe::new();
    ring.submitter().register_probe(&mut known).map_err(refused)?;
    let needed = [
        ("READ", opcode::Read::CODE),
        ("READ_FIXED", opcode::ReadFixed::CODE),
        ("WRITE", opcode::Write::CODE),
        ("WRITE_FIXED", opcode::WriteFixed::CODE),
        ("WRITEV", opcode::Writev::CODE),
        ("FSYNC", opcode::Fsync::CODE),
        ("ACCEPT", opcode::AcceptMulti::CODE),
        ("CONNECT", opcode::Connect::CODE),
        ("RECV", opcode::Recv::CODE),
        ("SEND", opcode::Send::CODE),
        ("SENDMSG", opcode::SendMsg::CODE),
        ("SHUTDOWN", opcode::Shutdown::CODE),
        ("CLOSE", opcode::Close::CODE),
        ("ASYNC_CANCEL", opcode::AsyncCancel2::CODE),
        ("FILES_UPDATE", opcode::FilesUpdate::CODE),
        ("MSG_RING", opcode::MsgRingData::CODE),
    ];
    let missing: Vec<&str> =
        needed.iter().filter(|(_, code)| !known.is_supported(*code)).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Err(finding(
            Severity::Fatal,
            format!("io_uring lacks {}", missing.join(", ")),
            "every operation of a shard goes through these",
            "run Linux 6.1 or later, with nothing that filters io_uring operations",
        ));
    }
    if !ring.params().is_feature_nodrop()
        || !ring.params().is_feature_ext_arg()
        || !ring.params().is_feature_skip_cqe_on_success()
    {
        return Err(finding(
            Severity::Fatal,
            "io_uring lacks NODROP, EXT_ARG or CQE_SKIP",
            "completions could be lost, or waits not bounded",
            "run Linux 6.1 or later",
        ));
    }
    Ok(Vec::new())
}

/// The sysctl `kernel.io_uring_disabled` (Linux 6.6 and later): 0 open, 1 for the privileged, 2 for nobody.
fn uring_disabled() -> Option<u32> {
    read_small("/proc/sys/kernel/io_uring_disabled")?.trim().parse().ok()
}

/// Whether a seccomp filter looks at this process's system calls (proc(5), `Seccomp`: 2).
fn is_filtered() -> bool {
    let status = read_small("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() == "2")
}

const ALLOW: &str = "allow io_uring_setup, io_uring_enter and io_uring_register (docker, podman: --security-opt seccomp=PROFILE with a profile \
                     that has them, as their default one does not; Kubernetes: securityContext.seccompProfile; systemd: \
                     SystemCallFilter=@io-event)";

/// Why the kernel gave no ring, in words that name the remedy. `filtered`: a seccomp filter is known to be there.
fn explain_refusal(errno: i32, disabled: Option<u32>, filtered: bool) -> Finding {
    let (what, why, remedy) = match (errno, disabled) {
        (libc::EPERM | libc::ENOSYS, Some(2)) => (
            "io_uring is switched off",
            "the sysctl kernel.io_uring_disabled is 2",
            "set it to 0: sysctl -w kernel.io_uring_disabled=0, and in /etc/sysctl.d/ for the next boot",
        ),
        (libc::EPERM, Some(1)) => (
            "io_uring is reserved for privileged processes",
            "the sysctl kernel.io_uring_disabled is 1 and this process is neither privileged nor in kernel.io_uring_group",
            "set it to 0, or add this user's group: sysctl -w kernel.io_uring_group=<gid>",
        ),
        (libc::EPERM | libc::EACCES | libc::ENOSYS, _) if filtered => (
            "io_uring is forbidden",
            "a seccomp filter is at work on this process, that of its container or service: it refuses io_uring",
            ALLOW,
        ),
        (libc::EPERM | libc::EACCES, _) => (
            "io_uring is forbidden",
            "the kernel has it and no seccomp filter is seen, so a security module or a sandbox (AppArmor, SELinux, gVisor) refuses it",
            "allow io_uring in its policy: its log, or `dmesg`, says which rule it was",
        ),
        (libc::ENOSYS, _) => (
            "there is no io_uring",
            "the kernel was built without CONFIG_IO_URING, or a sandbox (gVisor) hides it",
            "run Linux 6.1 or later with io_uring, outside of that sandbox",
        ),
        (libc::EINVAL, _) => (
            "io_uring is too old",
            "the kernel does not know the set-up flags SINGLE_ISSUER and DEFER_TASKRUN",
            "run Linux 6.1 or later",
        ),
        (libc::ENOMEM, _) => (
            "io_uring gets no memory",
            "the memlock limit or the memory of this host or cgroup is used up",
            "raise the memlock limit (LimitMEMLOCK=infinity, ulimit -l), or give the process more memory",
        ),
        (libc::EMFILE | libc::ENFILE, _) => (
            "no descriptor is left for io_uring",
            "the open-files limit is reached",
            "raise the open-files limit (LimitNOFILE, ulimit -n)",
        ),
        _ => {
            let error = std::io::Error::from_raw_os_error(errno);
            let why = format!("setting up a ring failed: {error}");
            return finding(
                Severity::Fatal,
                "io_uring does not work",
                &why,
                "run Linux 6.1 or later with io_uring enabled",
            );
        }
    };
    finding(Severity::Fatal, what, why, remedy)
}

#[cfg(test)]
mod tests {
    use super::{Severity, explain_refusal};

    #[test]
    fn each_refusal_names_its_cause() {
        for (errno, disabled, filtered, cause) in [
            (libc::EPERM, Some(2), false, "io_uring_disabled is 2"),
            (libc::EPERM, Some(2), true, "io_uring_disabled is 2"),
            (libc::EPERM, Some(1), false, "io_uring_group"),
            (libc::EPERM, Some(0), true, "seccomp=PROFILE"),
            (libc::EPERM, None, true, "seccomp=PROFILE"),
            (libc::ENOSYS, Some(0), true, "seccomp=PROFILE"),
            (libc::EPERM, Some(0), false, "security module"),
            (libc::ENOSYS, None, false, "CONFIG_IO_URING"),
            (libc::EINVAL, None, false, "DEFER_TASKRUN"),
            (libc::ENOMEM, Some(0), false, "memlock"),
            (libc::EMFILE, Some(0), false, "open-files"),
            (libc::EIO, Some(0), false, "setting up a ring failed"),
        ] {
            let found = explain_refusal(errno, disabled, filtered);
            assert_eq!(found.severity, Severity::Fatal);
            assert!(found.to_string().contains(cause), "{errno} {disabled:?} {filtered}: {found}");
        }
    }
}
