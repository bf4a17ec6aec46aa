//! The `tidemill` program.

fn main() -> std::process::ExitCode {
    tidemill::cli::run()
}
