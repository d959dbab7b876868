//! The command line of hoistway: arguments in, tables out. Everything else is in `hoistway-lab`.
//!
//! `verbs` has a file or folder for each verb, `args` puts their options together, `common` is what they share.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// What verbs share is not parted by which of them there are.
#![cfg_attr(not(feature = "studies"), allow(dead_code))]

#[macro_use]
mod common;
mod args;
mod failure;
mod verbs;

/// The command line as data: completions and man pages are made from it.
pub use args::command;

use args::{Args, Command};
use clap::FromArgMatches;
use common::output::print;
use common::terminal;
use failure::Failure;
use std::process::ExitCode;

/// What the arguments of this process ask for, from beginning to end.
pub fn run() -> ExitCode {
    let matches = args::command().try_get_matches();
    let args = match matches.and_then(|m| Args::from_arg_matches(&m)) {
        Ok(args) => args,
        Err(told) => return not_run(&told),
    };
    match dispatch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => fail(2, &message),
        Err(Failure::Failed(message)) => fail(1, &message),
        Err(Failure::Environment(message)) => fail(3, &message),
        Err(Failure::No) => ExitCode::from(1),
        Err(Failure::Interrupted(message)) => fail(130, &message),
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(code)
}

/// Help is data; what is wrong with the arguments goes to stderr, and repeats what was given.
fn not_run(told: &clap::Error) -> ExitCode {
    match told.use_stderr() {
        true => terminal::say(format_args!("{told}")),
        false => drop(print(&told.to_string())),
    }
    ExitCode::from(told.exit_code() as u8)
}

/// Carries out a verb.
fn dispatch(args: Args) -> Result<(), Failure> {
    match args.command {
        #[cfg(all(feature = "live", target_os = "linux"))]
        Command::Live(verb) => verbs::live::run(&verb),
        #[cfg(feature = "studies")]
        Command::Study(verb) => verbs::studies::run(&verb),
        Command::List(list) => verbs::list::list(&list),
        Command::Show(show) => verbs::show::show(&show),
        Command::Compare(options) => verbs::compare::compare(&options),
        Command::Report(options) => verbs::report::report(&options),
        Command::Repeat(options) => verbs::repeat::repeat(&options),
        Command::Diff(options) => verbs::diff::diff(&options),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "hoistway", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
    }
}
