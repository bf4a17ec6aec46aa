//! A thread that may not use io_uring, and whose children may not: what a container's default seccomp profile does to a broker.
//!
//! A filter can't be taken off again, so it is put on a thread of its own, which ends with the work.

use std::mem::offset_of;

/// Runs `work` where io_uring is refused.
///
/// # Panics
/// With `work`, and where the kernel takes no filter.
pub fn without_io_uring<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            refuse_io_uring();
            work()
        });
        confined.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[allow(unsafe_code, reason = "prctl(2) has no safe wrapper for filters")]
fn refuse_io_uring() {
    const NUMBER_AT: u32 = offset_of!(libc::seccomp_data, nr) as u32;
    let instruction = |code: u32, jump_if: u8, jump_else: u8, operand: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_if,
        jf: jump_else,
        k: operand,
    };
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER_AT),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which outlives both calls; they change what this thread may do, and no memory.
    let done = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter),
        ]
    };
    assert_eq!(done, [0, 0], "{}", std::io::Error::last_os_error());
}
