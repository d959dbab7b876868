//! `hoistway`: the command line is the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    hoistway_cli::run()
}
