use super::*;
use clap::builder::ValueParser;
use std::collections::BTreeSet;
use std::path::PathBuf;

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

fn each(command: &clap::Command, see: &mut impl FnMut(&clap::Command)) {
    see(command);
    command.get_subcommands().for_each(|below| each(below, see));
}

/// What help shows; a letter from before that means something else elsewhere stays as an alias nobody sees.
#[test]
fn a_letter_is_the_same_option_in_every_verb() {
    let mut long_of = std::collections::BTreeMap::new();
    each(&Args::command(), &mut |verb| {
        for arg in verb.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            if let Some(letter) = arg.get_short() {
                let first = long_of.entry(letter).or_insert_with(|| long.to_string());
                assert_eq!(first, long, "-{letter} of {}", verb.get_name());
            }
        }
    });
    each(&Args::command(), &mut |verb| {
        for arg in
            verb.get_arguments().filter(|arg| matches!(arg.get_long(), Some("out" | "quiet")))
        {
            assert!(
                arg.get_short().is_some(),
                "{} of {} has no letter",
                arg.get_id(),
                verb.get_name()
            );
        }
    });
}

/// What a value is called says what it is: two spellings of one option must not be two things.
#[test]
fn an_option_takes_the_same_kind_of_value_in_every_verb() {
    // Lists or one of it; sizes in bytes; where a result goes, as one file or as a folder.
    let kinds: &[&[&str]] = &[
        &["LIST", "CONFIG", "DRIVE", "DEVICE", "NAME"],
        &["BYTES", "SIZE"],
        &["DIR", "FILE", "FILE|DIR"],
        &["N", "K"],
        &["NAME=TIME", "NAME", "JOB"],
        &["EXPORT", "NAME"],
        &["PATH", "DEVICE"],
    ];
    // A server's file of settings is `--config` everywhere; an option that may be a flag has a value of its own;
    // where only the program's own schedulers can be meant, they are named.
    let known = ["config", "markdown", "scheduler"];
    let mut seen = std::collections::BTreeMap::<String, String>::new();
    each(&Args::command(), &mut |verb| {
        for arg in verb.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let (Some(long), Some(names)) = (arg.get_long(), arg.get_value_names()) else {
                continue;
            };
            if known.contains(&long) {
                continue;
            }
            let name = names[0].to_string();
            let first = seen.entry(long.to_string()).or_insert_with(|| name.clone());
            let same =
                |kind: &&[&str]| kind.contains(&first.as_str()) && kind.contains(&name.as_str());
            assert!(
                *first == name || kinds.iter().any(same),
                "--{long}: {first}, and {name} in {}",
                verb.get_name()
            );
        }
    });
}

#[test]
fn help_names_every_verb_once() {
    let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let shown = command();
    for verb in shown.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let times = grouped.iter().filter(|&&name| name == verb.get_name()).count();
        assert_eq!(times, 1, "{}", verb.get_name());
    }
    let help = command().render_help().to_string();
    assert!(help.contains("\n  compare           Run experiments"), "{help}");
}
