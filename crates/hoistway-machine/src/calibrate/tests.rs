use super::*;
use hoistway_sim::probe::{Action, Pattern, Probe, ProbeError, Stream, Test};
use std::sync::atomic::AtomicBool;

const SIZE: u64 = 4 << 20;

/// A scratch file on whatever holds temporary files; `None` if that has no direct I/O.
fn scratch(name: &str) -> Option<(File, Option<Scratch>)> {
    let path = std::env::temp_dir().join(format!("hoistway-probe-{}-{name}", std::process::id()));
    let (made, kept) = Scratch::create(hoistway_files::Place::of(&path).unwrap()).unwrap();
    let file = match direct(&through(&made), &path, true) {
        Ok(file) => file,
        Err(e) => {
            println!("skipped: {e}");
            return None;
        }
    };
    fill(&file, SIZE, &AtomicBool::new(false), &path).unwrap();
    Some((file, kept))
}

fn test(streams: Vec<Stream>) -> Test {
    let (warm_up_ns, duration_ns, commands_max) = (0, 3_000_000_000, 200);
    Test { name: "t".into(), streams, warm_up_ns, duration_ns, commands_max }
}

#[test]
fn reads_and_synced_writes_of_a_file_are_timed_and_the_budget_ends_writing() {
    let Some((file, _kept)) = scratch("times") else { return };
    let stop = AtomicBool::new(false);
    let mut probe = RealProbe::new(file, 1, 40 * 4096, &stop);
    let read = Stream::new(Action::Read, Pattern::Random, 4096, (0, SIZE)).depth(4);
    let outcome = match probe.run(&test(vec![read])) {
        Err(ProbeError::Failed(what)) if what.contains("io_uring") => {
            return println!("skipped: {what}");
        }
        other => other.unwrap(),
    };
    let commands = &outcome.first().commands;
    assert!(commands.count >= 200 && commands.min_ns > 0.0, "{outcome:?}");
    assert_eq!(outcome.first().bytes, 4096 * commands.count);
    let write = Stream::new(Action::Write, Pattern::Sequential, 4096, (0, SIZE));
    let write = Stream { flush_every: 4, ..write };
    let outcome = probe.run(&test(vec![write])).unwrap();
    assert_eq!(outcome.first().commands.count, 40, "what the budget allows");
    assert_eq!(outcome.first().flushes.count, 10);
}

#[test]
fn a_wish_to_stop_ends_a_test() {
    let Some((file, _kept)) = scratch("stop") else { return };
    let stop = AtomicBool::new(true);
    let mut probe = RealProbe::new(file, 1, 0, &stop);
    let read = Stream::new(Action::Read, Pattern::Same, 4096, (0, SIZE));
    assert_eq!(probe.run(&test(vec![read])), Err(ProbeError::Interrupted));
}
