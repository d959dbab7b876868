use super::*;
use clap::CommandFactory;
use clap::builder::ValueParser;
use std::collections::BTreeSet;

/// What every option that names a place is for; `tests/command_line/outputs.rs` tries those that are written to.
const PLACES: &str = include_str!("../../tests/command_line/places.txt");

/// Words in the name of a value that stands for a place.
const WORDS: &[&str] = &[
    "FILE", "DIR", "FOLDER", "PATH", "SOCKET", "ADDRESS", "EXPORT", "DEVICE", "PLACE", "RUN",
    "TRACE", "SOURCE",
];

/// Whether the value of an argument may be a place.
fn names_a_place(arg: &clap::Arg) -> bool {
    let of = |parser: ValueParser| parser.type_id();
    let path = of(clap::value_parser!(PathBuf)) == arg.get_value_parser().type_id();
    let text = of(clap::value_parser!(std::ffi::OsString)) == arg.get_value_parser().type_id();
    let names = arg.get_value_names().unwrap_or_default();
    path || text || names.iter().any(|name| WORDS.iter().any(|word| name.contains(word)))
}

fn places(command: &clap::Command, verb: &str, found: &mut BTreeSet<String>) {
    for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
        if names_a_place(arg) {
            let name = match arg.get_long() {
                Some(long) => format!("--{long}"),
                None => arg.get_id().as_str().to_uppercase(),
            };
            found.insert(format!("{verb} {name}"));
        }
    }
    for below in command.get_subcommands() {
        let verb = format!("{verb} {}", below.get_name());
        places(below, verb.trim_start(), found);
    }
}

#[test]
fn every_option_that_names_a_place_says_whether_it_is_written_to() {
    let mut found = BTreeSet::new();
    places(&Args::command(), "", &mut found);
    let mut told = BTreeSet::new();
    let live = cfg!(all(feature = "live", target_os = "linux"));
    for line in PLACES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (what, option) = line.split_once(' ').unwrap();
        let kind = what.strip_prefix("live-").unwrap_or(what);
        assert!(["input", "output", "disk", "scratch"].contains(&kind), "{line}");
        if live || !what.starts_with("live-") {
            assert!(told.insert(option.to_string()), "twice: {line}");
        }
    }
    let missing: Vec<_> = found.difference(&told).collect();
    assert!(missing.is_empty(), "tests/command_line/places.txt says nothing of {missing:#?}");
    let gone: Vec<_> = told.difference(&found).collect();
    assert!(gone.is_empty(), "there is no {gone:#?}");
}
