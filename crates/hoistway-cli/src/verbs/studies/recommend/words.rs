//! What limits decide, what an answer hangs by, and what somebody who decides otherwise gets, in plain words.

use super::text::keeps;
use crate::common::table::three;
use hoistway::Nanos;
use hoistway_lab::bench::plan::as_budget;
use hoistway_lab::bench::record::Record;
use hoistway_lab::recommend::choose::ChoiceReason;
use hoistway_lab::recommend::compare::{ROUNDS_MAX, ScoreDifference, Verdict};
use hoistway_lab::recommend::doubt::{Doubt, DoubtKind, RAISING};
use hoistway_lab::recommend::field::Unit;
use hoistway_lab::recommend::goal::{Aspect, Limit};
use hoistway_lab::recommend::{Advice, Identity};
use std::fmt::Write as _;
use std::path::Path;

/// Who is ruled out by which limit, who would gain a lot, and what the answer hangs by.
pub fn limits(a: &Advice) -> String {
    let mut out = String::new();
    for (c, reason) in a.choice.reasons.iter().enumerate() {
        if let ChoiceReason::Limit(i) = reason {
            let _ = writeln!(out, "ruled out   {}: {}", a.field.configs[c], broken(a, c, *i));
        }
    }
    let Some(taken) = a.answer.config().or(a.choice.config) else { return out };
    for c in a.gains_a_lot() {
        let name = &a.field.configs[c];
        let _ =
            writeln!(out, "            {name}: {}; your choice", changes(a, c, taken).join(", "));
    }
    if a.answer.config().is_some() {
        for doubt in &a.hangs_by {
            let _ = writeln!(out, "hangs by    {}", hangs_by(a, doubt));
        }
    }
    out
}

/// What a configuration keeps, and what it should.
pub fn broken(a: &Advice, config: usize, limit: usize) -> String {
    let kept = a.kept(config, limit);
    match &a.plan.limits[limit].limit {
        Limit::Keeps { part, aspect } => format!(
            "{} % of the best {}, and the limit of {} is {:.0} %",
            three(100.0 * kept),
            aspect.words(),
            a.goal.name,
            100.0 * part
        ),
        Limit::Others { part } => format!(
            "the others keep {} % of what they move now while somebody waits, and the limit of {} is {:.0} %",
            three(100.0 * kept),
            a.goal.name,
            100.0 * part
        ),
        Limit::Below(ns) => {
            let place = a.worst(config).map_or_else(String::new, |(q, _)| {
                format!(" in {} ({})", q.place, q.aspect.words())
            });
            format!("{} ms{place}, and the limit is {} ms", three(kept), three(*ns as f64 / 1e6))
        }
    }
}

/// The same in a cell of a table.
pub fn beyond(a: &Advice, config: usize, limit: usize) -> String {
    let kept = a.kept(config, limit);
    match &a.plan.limits[limit].limit {
        Limit::Keeps { part, aspect } => {
            format!("{}: {:.0} of {:.0} %", aspect.words(), 100.0 * kept, 100.0 * part)
        }
        Limit::Others { part } => {
            format!("others keep {:.0} of {:.0} %", 100.0 * kept, 100.0 * part)
        }
        Limit::Below(ns) => format!("{} of {} ms", three(kept), three(*ns as f64 / 1e6)),
    }
}

/// What a configuration changes over another one, as people would say it: what it gains first.
pub fn changes(a: &Advice, config: usize, over: usize) -> Vec<String> {
    let (mut gains, mut costs) = (Vec::new(), Vec::new());
    for aspect in Aspect::ALL {
        let Some(x) = a.field.compare(config, over, &[aspect]) else { continue };
        match (x.verdict(a.margin(aspect)), said(aspect, &x)) {
            (Verdict::Better, Some(words)) => gains.push(words),
            (Verdict::Worse, Some(words)) => costs.push(words),
            _ => {}
        }
    }
    gains.extend(costs);
    gains
}

/// `reads 145 times sooner`, `copies 16 % slower`; `None` of what the others say already.
fn said(aspect: Aspect, x: &ScoreDifference) -> Option<String> {
    let (what, more, less) = match aspect {
        Aspect::Startup => ("programs start", "later", "sooner"),
        Aspect::Interactive => ("reads", "later", "sooner"),
        Aspect::Sync => ("small synced writes", "later", "sooner"),
        Aspect::Throughput => ("copies", "slower", "faster"),
        Aspect::Beside => ("the others meanwhile", "slower", "faster"),
        Aspect::Shared => ("all together", "slower", "faster"),
        Aspect::Share => {
            let points = 100.0 * x.mean.abs();
            let word = if x.mean < 0.0 { "nearer to" } else { "farther from" };
            return Some(format!("the worst served {} points {word} its share", three(points)));
        }
        Aspect::InteractiveTail | Aspect::SyncTail | Aspect::Processor => return None,
    };
    let (times, word) = (libm::exp(x.mean.abs()), if x.mean > 0.0 { more } else { less });
    let least = if x.at_least || x.at_most { "at least " } else { "" };
    // Of what moves less, the part that is lost.
    let percent = if x.mean > 0.0 && aspect.rises() { 1.0 - 1.0 / times } else { times - 1.0 };
    Some(match times >= 2.0 {
        true => format!("{what} {least}{} times {word}", three(times)),
        false => format!("{what} {least}{:.0} % {word}", 100.0 * percent),
    })
}

fn hangs_by(a: &Advice, doubt: &Doubt) -> String {
    let instead = doubt.instead.map_or("none of them", |c| a.field.configs[c].as_str());
    match &doubt.kind {
        DoubtKind::Limit(limit) => {
            format!("with a limit of {} it would be {instead}", keeps(limit))
        }
        DoubtKind::Tolerance(i, tolerance) => {
            let criterion = &a.plan.criteria[*i];
            let part = criterion.aspects.iter().any(|a| a.is_part());
            let percent = |t: f64| 100.0 * if part { t } else { libm::expm1(t) };
            format!(
                "with {} % in place of {} % as the same in {} it would be {instead}",
                three(percent(*tolerance)),
                three(percent(criterion.tolerance)),
                criterion.name
            )
        }
        DoubtKind::Half(late) => {
            let which = if *late { "second" } else { "first" };
            format!(
                "the {which} half of each run alone gives {instead}: the length of the runs decides"
            )
        }
        DoubtKind::Short(measured) => format!(
            "runs of {} s show nothing but a BFQ that raises what has just started, for up to {} s; longer ones may give \
             {instead}",
            three(seconds(*measured)),
            RAISING.0 / 1_000_000_000
        ),
        DoubtKind::NoDisk(reads) => no_disk(&a.field.identity, *reads),
        DoubtKind::LeftOut(places) => format!(
            "there was no time for {} of the suite's workloads ({}): `hoistway bench --standard` runs all",
            places.len(),
            places.join(", ")
        ),
        DoubtKind::Untried(config) => {
            format!("{config} was not tried: `hoistway bench --standard` has it")
        }
    }
}

/// What calls itself a disk and is none, and what to do about it.
fn no_disk(id: &Identity, reads: u64) -> String {
    let queue = id.queue.as_deref().unwrap_or("DEVICE");
    let clear = match id.is_simulated() {
        true => "set `rotational = false` in its file".to_string(),
        false => format!("`echo 0 > /sys/block/{queue}/queue/rotational`"),
    };
    format!(
        "the drive says that it rotates, but reads {reads} times per second at random, which no disk does; schedulers \
         treat it as a disk. If it is flash, {clear} and bench again"
    )
}

fn seconds(t: Nanos) -> f64 {
    t.0 as f64 / 1e9
}

/// Waits that are compared although the emulated drive did not keep up.
pub fn coarse(a: &Advice) -> String {
    let of = |(q, times): &(&hoistway_lab::recommend::field::Quantity, f64)| {
        format!("{} in {} ({} times)", q.aspect.words(), q.place, three(*times))
    };
    let all: Vec<String> = a.coarse().iter().map(of).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(
            "coarse      this machine emulates the drive and did not keep up, but that does not explain a difference this \
             large: {}\n",
            all.join("; ")
        ),
    }
}

/// The commands that add so many rounds.
pub fn commands(a: &Advice, more: usize) -> Vec<String> {
    if a.field.unit != Unit::Round {
        return Vec::new();
    }
    let rounds = (a.plan.rounds + more).min(ROUNDS_MAX);
    let mut folders: Vec<&Path> =
        a.field.sources.iter().filter_map(|s| Path::new(s).parent()).collect();
    folders.dedup();
    let of = |command: &String| match (command.starts_with("hoistway bench "), folders.as_slice()) {
        (true, [folder]) if is_word(folder) => {
            format!(
                "{} --rounds {rounds} --out {}",
                within(command, folder, rounds),
                folder.display()
            )
        }
        (true, _) => format!("{command} --rounds {rounds}"),
        (false, _) => {
            let each = command.split(" && ");
            let each = each.map(|c| with_flag(c, "--reps", &rounds.to_string()));
            each.collect::<Vec<_>>().join(" && ")
        }
    };
    a.field.made.commands.iter().map(of).collect()
}

/// The command of a bench with the limits that let it choose the same workloads for so many rounds.
fn within(command: &str, folder: &Path, rounds: usize) -> String {
    let record = Record::read(folder);
    let limits = record.and_then(|r| Some((r.limits, r.limits.with(&r.estimate, rounds)?)));
    let Some((before, limits)) = limits.filter(|(before, now)| before != now) else {
        return command.to_string();
    };
    let time = match limits.time_ns.div_ceil(1_000_000) {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    };
    let command = with_flag(command, "--time", &time);
    match limits.writes == before.writes {
        true => command,
        false => with_flag(&command, "--write-budget", &as_budget(limits.writes)),
    }
}

/// A path that stays one word in a shell.
fn is_word(path: &Path) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+/".contains(c);
    path.to_str().is_some_and(|text| !text.is_empty() && text.chars().all(plain))
}

/// A command with another value of a flag.
fn with_flag(command: &str, flag: &str, value: &str) -> String {
    let mut words: Vec<&str> = command.split(' ').collect();
    if let Some(at) = words.iter().position(|w| *w == flag) {
        words.drain(at..(at + 2).min(words.len()));
    }
    format!("{} {flag} {value}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(mean: f64) -> ScoreDifference {
        ScoreDifference { mean, sd: Some(0.0), rounds: 4, at_least: false, at_most: false }
    }

    #[test]
    fn changes_are_said_as_people_say_them() {
        let of = |aspect, ratio: f64| said(aspect, &compared(libm::log(ratio))).unwrap();
        assert_eq!(of(Aspect::Interactive, 1.0 / 145.0), "reads 145 times sooner");
        assert_eq!(of(Aspect::Throughput, 1.0 / 0.84), "copies 16 % slower");
        assert_eq!(of(Aspect::Throughput, 1.0 / 1.16), "copies 16 % faster");
        assert_eq!(of(Aspect::Beside, 4.0), "the others meanwhile 4.00 times slower");
        assert_eq!(of(Aspect::Startup, 1.25), "programs start 25 % later");
        let points = said(Aspect::Share, &compared(-0.21)).unwrap();
        assert_eq!(points, "the worst served 21.0 points nearer to its share");
    }

    #[test]
    fn what_is_no_disk_is_said_with_its_rate_and_the_line_that_ends_the_doubt() {
        let real = Identity { queue: Some("vda".into()), ..Identity::default() };
        let said = no_disk(&real, 40_000);
        assert!(said.contains("reads 40000 times per second at random"), "{said}");
        assert!(said.contains("`echo 0 > /sys/block/vda/queue/rotational`"), "{said}");
        let simulated = Identity { world: "sim".into(), ..real };
        let said = no_disk(&simulated, 40_000);
        assert!(said.contains("rotational = false") && !said.contains("/sys"), "{said}");
    }

    #[test]
    fn a_command_is_repeated_with_more_repetitions() {
        assert_eq!(
            with_flag("hoistway compare x --reps 3 --seed 1", "--reps", "9"),
            "hoistway compare x --seed 1 --reps 9"
        );
        assert_eq!(with_flag("hoistway compare x", "--reps", "9"), "hoistway compare x --reps 9");
        assert!(
            is_word(Path::new("runs/bench.sim-1"))
                && !is_word(Path::new("a b"))
                && !is_word(Path::new(""))
        );
    }
}
