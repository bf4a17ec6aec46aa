//! A server under measurement: started as a process of its own, known to be ready by its `ready` line, stopped by its id.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ready_line: String,
    ready_after: Duration,
}

impl Server {
    /// Starts `command` and waits for a line on its standard output that begins with `ready`. The rest of its output is
    /// thrown away.
    ///
    /// # Errors
    /// When it cannot be started, or ends without such a line.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let begin = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", command.get_program().to_string_lossy())))?;
        let output = child.stdout.take().expect("it was asked to be piped");
        let mut lines = BufReader::new(output).lines();
        let ready_line = loop {
            match lines.next() {
                Some(line) => {
                    let line = line?;
                    if line.starts_with("ready") {
                        break line;
                    }
                }
                None => {
                    let status = child.wait()?;
                    return Err(io::Error::other(format!("the server ended before it was ready: {status}")));
                }
            }
        };
        let ready_after = begin.elapsed();
        // A server whose output nobody reads would block some day.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, ready_line, ready_after })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From the start of the process to its ready line.
    #[must_use]
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// The value of `key=value` in the ready line.
    #[must_use]
    pub fn ready_value(&self, key: &str) -> Option<&str> {
        let mut words = self.ready_line.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// When it ended in another way than by its own will.
    pub fn stop(mut self) -> io::Result<()> {
        self.signal(libc::SIGTERM);
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("the server ended with {status}"))) }
    }

    /// Ends it at once (SIGKILL).
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(mut self) -> io::Result<()> {
        self.signal(libc::SIGKILL);
        self.child.wait().map(drop)
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("process ids are small");
        // SAFETY: the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(pid, signal) };
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
