//! The program `dwell`.

fn main() -> std::process::ExitCode {
    cli::main()
}
