//! The `tidemill-loadgen` program.

fn main() -> std::process::ExitCode {
    loadgen::commands::run()
}
