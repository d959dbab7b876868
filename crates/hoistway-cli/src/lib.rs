//! The command line of hoistway: arguments in, tables out. Everything else is in `hoistway-lab`.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod terminal;
mod args;
mod baseline;
mod bench;
mod beside;
mod calibrate;
mod compare;
mod describe;
mod diff;
mod explain;
mod job;
mod list;
#[cfg(all(feature = "live", target_os = "linux"))]
mod live;
mod merge;
mod output;
mod population;
mod recommend;
mod replay;
mod replay_trace;
mod report;
mod reproduce;
mod results;
mod show;
mod table;
mod trace_args;
mod what_if;
mod world;

use clap::FromArgMatches;
use hoistway_files::shown;
use std::io::Write;
use std::process::ExitCode;

/// How a command ends when it does not end well.
#[derive(Debug)]
enum Failure {
    /// Wrong usage: names, files and flags (exit code 2).
    Usage(String),
    /// The work failed (exit code 1).
    Failed(String),
    /// The environment lacks something (exit code 3).
    Environment(String),
    /// The work is done, and its answer is no (exit code 1, no message).
    No,
    /// Ctrl-C (exit code 130): what is left of the work.
    Interrupted(String),
}

fn main() -> ExitCode {
    let matches = args::command().try_get_matches();
    let args = match matches.and_then(|m| args::Args::from_arg_matches(&m)) {
        Ok(args) => args,
        Err(told) => return not_run(&told),
    };
    match run(args) {
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

fn run(args: args::Args) -> Result<(), Failure> {
    match args.command {
        #[cfg(all(feature = "live", target_os = "linux"))]
        args::Command::Live(verb) => live::run(&verb),
        args::Command::Calibrate(options) => calibrate::calibrate(&options),
        args::Command::List(list) => list::list(&list),
        args::Command::Show(show) => show::show(&show),
        args::Command::Compare(options) => compare::compare(&options),
        args::Command::Run(options) => compare::run_one(&options),
        args::Command::Population(options) => population::population(&options),
        args::Command::WhatIf(options) => what_if::what_if(&options),
        args::Command::Describe(options) => describe::describe(&options),
        args::Command::ReplayDecisions(options) => replay::replay_decisions(&options),
        args::Command::Reproduce(options) => reproduce::reproduce(&options),
        args::Command::Bench(options) => bench::bench(&options),
        args::Command::Replay(options) => replay_trace::replay_trace(&options),
        args::Command::Report(options) => report::report(&options),
        args::Command::Merge(options) => merge::merge(&options),
        args::Command::Recommend(options) => recommend::recommend(&options),
        args::Command::Diff(options) => diff::diff(&options),
        args::Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "hoistway", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
    }
}

/// The arguments in words, for people.
#[cfg(all(feature = "live", target_os = "linux"))]
fn arguments() -> String {
    let all: Vec<_> = std::env::args_os().skip(1).collect();
    all.join(std::ffi::OsStr::new(" ")).to_string_lossy().into_owned()
}

/// Data goes to stdout, shown as on every terminal ([`terminal`]). A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> Result<(), Failure> {
    let text = shown::text(text);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("stdout: {e}")))
        }
        _ => Ok(()),
    }
}
