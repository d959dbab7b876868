//! Answers in words and tables.

use super::{rules, words};
use crate::common::table::{Table, limit, three};
use hoistway_lab::config::WBT;
use hoistway_lab::recommend::advice::BaseIs;
use hoistway_lab::recommend::choose::ChoiceReason;
use hoistway_lab::recommend::compare::{ScoreDifference, Verdict};
use hoistway_lab::recommend::field::{Quantity, Strain};
use hoistway_lab::recommend::goal::{Aspect, Limit};
use hoistway_lab::recommend::identity::KERNEL;
use hoistway_lab::recommend::install::{Lines, Step};
use hoistway_lab::recommend::processor::{Decisions, grouped};
use hoistway_lab::recommend::{Advice, Match, Recommendation};
use hoistway_lab::words::counted;
use std::fmt::Write as _;

/// What of the answers is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Every workload.
    pub workloads: bool,
    /// Every column, however narrow the terminal.
    pub wide: bool,
    /// What the rule to install is for.
    pub by: Match,
}

/// Everything, drive by drive.
pub fn text(all: &[Advice], shown: Shown) -> String {
    let each: Vec<String> = all.iter().map(|a| one(a, shown)).collect();
    each.join("\n")
}

fn one(a: &Advice, shown: Shown) -> String {
    let mut out = format!("{}, for {}: {}\n\n", a.field.identity.name(), a.goal.name, headline(a));
    let _ = write!(out, "{}", reasons(a));
    out.push('\n');
    out.push_str(&table(a, shown.wide));
    if shown.workloads {
        out.push('\n');
        out.push_str(&workloads(a, shown.wide));
    }
    out.push('\n');
    out.push_str(&how(a));
    out.push_str(&installed(a, shown.by));
    out
}

/// What installs the answer; nothing without one.
pub(super) fn installed(a: &Advice, by: Match) -> String {
    let Some(config) = a.answer.config() else { return String::new() };
    if a.is_in_force(config) {
        return "\nNothing to install: it is in force already.\n".into();
    }
    let mut lines = a.lines(config, by);
    if let Some(why) = a.not_for_good() {
        lines.files.clear();
        lines.cannot.push(format!("nothing for every boot: {why}"));
    }
    install(&lines)
}

/// The answer in a line.
pub(super) fn headline(a: &Advice) -> String {
    let name = |c: usize| a.field.configs[c].as_str();
    let sure = || format!("{} ({:.0} % of draws)", a.sureness.word(), 100.0 * a.same());
    match &a.answer {
        Recommendation::Change(c) => {
            format!("{} instead of {}, {}", name(*c), name(a.base), sure())
        }
        Recommendation::Keep(c) => match a.base_is {
            BaseIs::Present | BaseIs::Asked | BaseIs::Like(_) => {
                format!("keep {}, {}", name(*c), sure())
            }
            _ => format!("{}, {}", name(*c), sure()),
        },
        Recommendation::NoDifference(c) => match a.base_is {
            BaseIs::Present | BaseIs::Asked | BaseIs::Like(_) => {
                format!("no difference; {} stays because it is there, {}", name(*c), sure())
            }
            _ => format!("no difference; {} is the simplest, {}", name(*c), sure()),
        },
        Recommendation::Nothing(c) => {
            format!("no configuration keeps the limits; {} comes nearest", name(*c))
        }
        Recommendation::Processors => {
            "not decided: the processors were measured, not the drive".into()
        }
        Recommendation::NotEnough { more, .. } => {
            format!("not enough data: run {} more", counted(*more, "round"))
        }
    }
}

/// What is gained, what is lost, and who came second.
pub(super) fn reasons(a: &Advice) -> String {
    let mut out = String::new();
    let chosen = a.answer.config().or(a.choice.config);
    if let Recommendation::NotEnough { why, more } = &a.answer {
        let _ = writeln!(out, "why         {why}");
        words::commands(a, *more)
            .iter()
            .for_each(|c| writeln!(out, "next        {c}").expect("a string"));
        if let Some(c) = a.choice.config {
            let _ = writeln!(
                out,
                "so far      {} ({:.0} % of draws)",
                a.field.configs[c],
                100.0 * a.same()
            );
        }
    }
    if let Some(c) = chosen.filter(|&c| c != a.base) {
        for (verdict, word) in [(Verdict::Better, "gains"), (Verdict::Worse, "costs")] {
            let all = a
                .effects(c)
                .into_iter()
                .filter(|(aspect, x)| x.verdict(a.margin(*aspect)) == verdict);
            let list: Vec<String> = all.map(|(aspect, x)| effect(aspect, &x)).collect();
            let list =
                if list.is_empty() { "nothing that can be told".into() } else { list.join("; ") };
            let _ = writeln!(out, "{word:11} {list}");
        }
        let hidden = hidden(a, c);
        if !hidden.is_empty() {
            let _ = writeln!(out, "worse in    {}", hidden.join("; "));
        }
    }
    if let Recommendation::Keep(c) = a.answer {
        out.push_str(&beside(a, c));
    }
    out.push_str(&not_judged(a));
    if a.answer == Recommendation::Processors {
        return out;
    }
    out.push_str(&words::coarse(a));
    if let Some(decisions) = a.decisions().filter(Decisions::matter) {
        let (most, words) = (grouped(decisions.requests), decisions.words());
        let _ = writeln!(
            out,
            "processors  up to {most} requests per second, and the simulator takes no processor time for decisions: {words}"
        );
    }
    if a.lacks_throttling() {
        let base = &a.field.configs[a.base];
        let was = if a.field.identity.is_simulated() { "is on in most kernels" } else { "was on" };
        let _ = writeln!(
            out,
            "throttling  write-back throttling {was}, and {base} was measured without it: beside writers it looks slower than it is; measure {base}{WBT} too"
        );
    }
    for limit in a.doubts() {
        let _ = writeln!(out, "near        whether it keeps {} is not told yet", keeps(limit));
    }
    out.push_str(&words::limits(a));
    match a.runner_up {
        Some((second, reason)) => {
            let name = &a.field.configs[second];
            let _ = writeln!(out, "runner-up   {name}: {}", lost(a, second, reason));
        }
        None if a.answer.config().is_some() => {
            out.push_str("runner-up   no other keeps the limits\n")
        }
        None => {}
    }
    out
}

/// The others beside the one that stays: those of which nothing measured differs, those that do as well for this goal
/// although something does, and those that do worse.
fn beside(a: &Advice, kept: usize) -> String {
    let others = (0..a.field.configs.len()).filter(|&o| o != kept && a.complete(o));
    let (alike, other): (Vec<usize>, Vec<usize>) = others.partition(|&o| a.alike(o));
    let (tie, worse): (Vec<usize>, Vec<usize>) =
        other.into_iter().partition(|&o| a.choice.reasons[o] == ChoiceReason::Tie);
    let mut out = String::new();
    for (word, list) in [("same", alike), ("as good", tie), ("not better", worse)] {
        let names: Vec<&str> = list.iter().map(|&c| a.field.configs[c].as_str()).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "{word:11} {}", names.join(", "));
        }
    }
    out
}

/// What a limit wants kept.
pub(super) fn keeps(limit: &Limit) -> String {
    match limit {
        Limit::Keeps { aspect, part } => {
            format!("{:.0} % of the best {}", 100.0 * part, aspect.words())
        }
        Limit::Below(ns) => format!("{} ms", three(*ns as f64 / 1e6)),
        Limit::Others { part } => others(*part),
    }
}

/// What the goal is about and tells of the processors that emulate the drive.
fn not_judged(a: &Advice) -> String {
    let mut places: Vec<&str> = Vec::new();
    for q in a.not_judged() {
        if !places.contains(&q.place.as_str()) {
            places.push(&q.place);
        }
    }
    if places.is_empty() {
        return String::new();
    }
    let of = |place: &str| {
        let here = a.field.strains.iter().filter(|s| s.place == place);
        let bound: Vec<String> = here.filter_map(strained).collect();
        format!("{place} ({})", bound.join(", "))
    };
    let places: Vec<String> = places.into_iter().map(of).collect();
    let mut out = format!(
        "not judged  {}: this machine emulates the drive and did not keep up, so that its processors were measured and not the drive; \
         a machine with faster processors can judge it\n",
        places.join(", ")
    );
    for limit in a.open_limits() {
        let _ = writeln!(out, "            so it is not known whether {} are kept", keeps(limit));
    }
    out
}

/// What the machine did not keep up with under one configuration.
fn strained(s: &Strain) -> Option<String> {
    let busy = s.busy.filter(|_| s.is_bound());
    let busy = busy.map(|b| format!("processors {:.0} % busy", 100.0 * b));
    let late = s.late.filter(|_| s.is_late());
    let late = late.map(|l| format!("drive {:.0} % late", 100.0 * l));
    let all: Vec<String> = busy.into_iter().chain(late).collect();
    (!all.is_empty()).then(|| format!("{}: {}", s.config, all.join(", ")))
}

/// Workloads in which the choice is worse although the aspect as a whole is not.
fn hidden(a: &Advice, chosen: usize) -> Vec<String> {
    let told: Vec<Aspect> = a
        .effects(chosen)
        .into_iter()
        .filter(|(aspect, x)| x.verdict(a.margin(*aspect)) == Verdict::Worse)
        .map(|(aspect, _)| aspect)
        .collect();
    let places = a.places(chosen, Verdict::Worse);
    let hidden = places.into_iter().filter(|(q, _)| !told.contains(&q.aspect));
    hidden.map(|(q, x)| format!("{} ({})", q.place, effect(q.aspect, &x))).collect()
}

/// `latency 3.40 times shorter (3.10 to 3.70)`.
fn effect(aspect: Aspect, x: &ScoreDifference) -> String {
    let interval = |of: &dyn Fn(f64) -> f64| match x.interval() {
        Some((low, high)) => {
            let (a, b) = (of(low), of(high));
            format!(" ({} to {})", three(a.min(b)), three(a.max(b)))
        }
        None => String::new(),
    };
    let words = aspect.words();
    if aspect.is_part() {
        let points = |d: f64| 100.0 * d;
        return format!("{words} {:+.1} points{}", points(x.mean), interval(&points));
    }
    let rises = aspect.rises();
    let ratio = |d: f64| if rises { libm::exp(-d) } else { libm::exp(d) };
    let inverse = |d: f64| if rises { libm::exp(d) } else { libm::exp(-d) };
    let bound = if x.at_least || x.at_most { "at least " } else { "" };
    let change = 100.0 * (ratio(x.mean) - 1.0);
    if change.abs() < 50.0 {
        let percent = |d: f64| 100.0 * (ratio(d) - 1.0);
        return format!("{words} {bound}{change:+.1} %{}", interval(&percent));
    }
    let (more, less) = if rises { ("as much", "less") } else { ("as long", "shorter") };
    match ratio(x.mean) >= 1.0 {
        true => format!("{words} {bound}{} times {more}{}", three(ratio(x.mean)), interval(&ratio)),
        false => {
            format!("{words} {bound}{} times {less}{}", three(inverse(x.mean)), interval(&inverse))
        }
    }
}

/// Why a configuration is not the one.
fn lost(a: &Advice, config: usize, reason: ChoiceReason) -> String {
    let reference = a.answer.config().or(a.choice.config).unwrap_or(a.base);
    match reason {
        ChoiceReason::Chosen => "recommended".into(),
        ChoiceReason::Incomplete => "not measured in everything that counts".into(),
        ChoiceReason::Limit(i) => words::broken(a, config, i),
        ChoiceReason::Criterion(i) => {
            let criterion = &a.plan.criteria[i];
            let said = a.by_criterion(i, config, reference).map(|x| {
                let part = criterion.aspects.iter().any(|a| a.is_part());
                match part {
                    true => format!("{:+.1} points", 100.0 * x.mean),
                    false => format!("x{}", three(libm::exp(x.mean))),
                }
            });
            format!(
                "behind in {} ({} against {})",
                criterion.name,
                said.unwrap_or_default(),
                a.field.configs[reference]
            )
        }
        ChoiceReason::Tie if Some(reference) == a.plan.base => {
            "as good, but the other is there already".into()
        }
        ChoiceReason::Tie => "as good, but less simple".into(),
    }
}

fn others(part: f64) -> String {
    format!("{:.0} % of what the others move now while somebody waits", 100.0 * part)
}

/// What became of a configuration, in a word or two.
fn verdict(a: &Advice, config: usize) -> String {
    match a.choice.reasons[config] {
        ChoiceReason::Chosen if a.answer.config().is_some() => "recommended".into(),
        ChoiceReason::Chosen => "so far".into(),
        ChoiceReason::Incomplete => "not measured".into(),
        ChoiceReason::Limit(i) => words::beyond(a, config, i),
        ChoiceReason::Criterion(i) => format!("behind: {}", a.plan.criteria[i].name),
        ChoiceReason::Tie => "as good".into(),
    }
}

/// A row per configuration: each aspect over the present one's.
fn table(a: &Advice, wide: bool) -> String {
    let (table, note) = figures(a);
    let spare = [Aspect::Processor, Aspect::SyncTail, Aspect::InteractiveTail, Aspect::Beside]
        .map(Aspect::words);
    table.fit(limit(wide), &spare) + &note
}

/// The same, and how it is to be read.
pub(super) fn figures(a: &Advice) -> (Table, String) {
    let complete = || (0..a.field.configs.len()).filter(|&c| a.complete(c));
    let told =
        |x: &Aspect| a.field.has(*x) && complete().all(|c| a.field.scores(c, &[*x]).is_some());
    let told = |x: &Aspect| told(x) || aside(a, *x).is_some();
    let aspects: Vec<Aspect> = Aspect::ALL.into_iter().filter(told).collect();
    let mut headings = vec!["config"];
    headings.extend(aspects.iter().map(|x| x.words()));
    headings.push("verdict");
    let mut table = Table::new(&headings, 1);
    for c in complete() {
        let cell = |&aspect: &Aspect| {
            let (x, aside) = match aside(a, aspect) {
                Some(q) => (q.compare(c, a.base), true),
                None => (a.field.compare(c, a.base, &[aspect]), false),
            };
            let Some(x) = x else { return "-".to_string() };
            let text = ratio(aspect, &x, a.margin(aspect), c == a.base);
            if aside { format!("({text})") } else { text }
        };
        let mut row = vec![a.field.configs[c].clone()];
        row.extend(aspects.iter().map(cell));
        row.push(verdict(a, c));
        table.row(row);
    }
    let base = &a.field.configs[a.base];
    let aside = aspects.iter().any(|&x| aside(a, x).is_some());
    let note = format!(
        "(over {base}'s; =: the same within {:.0} %; ?: not told apart yet{})\n",
        100.0 * a.field.identity.margin(),
        if aside { "; in brackets: not judged" } else { "" }
    );
    (table, note)
}

/// The first workload of an aspect of which all were set aside.
fn aside(a: &Advice, aspect: Aspect) -> Option<&Quantity> {
    let told = |q: &&Quantity| q.aspect == aspect && q.mean(a.base).is_some();
    a.field.set_aside.iter().find(told).filter(|_| a.field.lost(aspect))
}

fn ratio(aspect: Aspect, x: &ScoreDifference, margin: f64, own: bool) -> String {
    if own {
        return if aspect.is_part() { "0".into() } else { "x1".into() };
    }
    let bound = match (x.at_least, x.at_most) {
        (false, false) => "",
        (true, false) => ">",
        (false, true) => "<",
        (true, true) => return "?".into(),
    };
    let mark = match x.verdict(margin) {
        Verdict::Same => "=",
        Verdict::Undecided => "?",
        _ => "",
    };
    match aspect.is_part() {
        true => format!("{mark}{:+.1}", 100.0 * x.mean),
        false => {
            let ratio = if aspect.rises() { libm::exp(-x.mean) } else { libm::exp(x.mean) };
            format!("{mark}{bound}x{}", three(ratio))
        }
    }
}

/// A row per workload, aspect and configuration.
fn workloads(a: &Advice, wide: bool) -> String {
    let headings = ["workload", "what", "config", "mean", "over", "99 %", "verdict"];
    let mut table = Table::new(&headings, 3);
    let (judged, aside) = (a.field.quantities.iter(), a.field.set_aside.iter());
    for (q, judged) in judged.map(|q| (q, true)).chain(aside.map(|q| (q, false))) {
        for c in 0..a.field.configs.len() {
            let Some(mean) = q.mean(c) else { continue };
            let x = q.compare(c, a.base);
            let interval = x.and_then(|x| x.interval()).map(|(low, high)| {
                let of = |d: f64| match (q.aspect.is_part(), q.aspect.rises()) {
                    (true, _) => 100.0 * d,
                    (_, true) => libm::exp(-d),
                    _ => libm::exp(d),
                };
                let (low, high) = (of(low).min(of(high)), of(low).max(of(high)));
                format!("{} to {}", three(low), three(high))
            });
            let verdict = x.map_or("-", |x| match x.verdict(a.margin(q.aspect)) {
                _ if !judged => "processors",
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::Same => "same",
                Verdict::Undecided => "?",
            });
            table.row(vec![
                q.place.clone(),
                q.aspect.words().into(),
                a.field.configs[c].clone(),
                mean.to_string(),
                x.map_or_else(
                    || "-".into(),
                    |x| ratio(q.aspect, &x, a.margin(q.aspect), c == a.base),
                ),
                interval.unwrap_or_else(|| "-".into()),
                verdict.into(),
            ]);
        }
    }
    table.fit(limit(wide), &["99 %"])
}

/// What it was made from, and how it was decided.
pub(super) fn how(a: &Advice) -> String {
    let field = &a.field;
    let mut out = String::new();
    let all = field.quantities.iter().chain(&field.set_aside);
    let places: std::collections::BTreeSet<&str> = all.map(|q| q.place.as_str()).collect();
    let _ = writeln!(
        out,
        "measured    {} of {}: {}",
        counted(a.plan.rounds, "round"),
        counted(places.len(), "workload"),
        places.into_iter().collect::<Vec<_>>().join(", ")
    );
    let where_ = match field.identity.world.as_str() {
        "sim" => {
            "simulated: as good as the model of the drive, and decisions take no processor time; a real one may differ"
                .to_string()
        }
        KERNEL => {
            let kernel = field.identity.kernel.as_deref().unwrap_or("unknown");
            format!("the kernel's own schedulers (Linux {kernel})")
        }
        world => {
            format!("world {world}: hoistway's own schedulers on real storage, not the kernel's")
        }
    };
    let _ = writeln!(out, "where       {where_}");
    let base = &field.configs[a.base];
    let was = match field.identity.is_simulated() {
        true => "Linux chooses for such a drive (--present: another)",
        false => "was in force",
    };
    let present = match &a.base_is {
        BaseIs::Present => format!("{base}, which {was}"),
        BaseIs::Asked => format!("{base}, as asked (--present)"),
        BaseIs::NotMeasured(s) => {
            format!("{base}; {s}, which {was}, was not measured in what counts here")
        }
        BaseIs::Like(s) => format!(
            "{base}; {s}, which {was}, differs only in what it does to writes, and nothing was written"
        ),
        BaseIs::Unknown => format!(
            "{base}, the simplest; the runs tell nothing of a present one (--present CONFIG)"
        ),
    };
    let _ = writeln!(out, "against     {present}");
    let _ = writeln!(out, "goal        {}: {}", a.goal.name, a.goal.about);
    let taken = a.answer.config().or(a.choice.config).filter(|&c| a.plan.complete(c));
    for (number, limit) in a.plan.limits.iter().enumerate() {
        let words = match &limit.limit {
            Limit::Keeps { aspect, part } => {
                format!("at least {:.0} % of the best {}", 100.0 * part, aspect.words())
            }
            Limit::Below(ns) => format!("below {} ms", three(*ns as f64 / 1e6)),
            Limit::Others { part } => format!("at least {}", others(*part)),
        };
        let of = taken.map_or_else(String::new, |c| {
            let kept = a.kept(c, number);
            let kept = match limit.limit {
                Limit::Below(_) => format!("{} ms", three(kept)),
                Limit::Keeps { .. } | Limit::Others { .. } => format!("{} %", three(100.0 * kept)),
            };
            format!(" ({}: {kept})", field.configs[c])
        });
        let _ = writeln!(out, "  limit     {words}{of}");
    }
    for (i, c) in (1..).zip(&a.plan.criteria) {
        let part = c.aspects.iter().any(|a| a.is_part());
        let tolerance = if part { c.tolerance } else { libm::expm1(c.tolerance) };
        let aspects: Vec<&str> = c.aspects.iter().map(|a| a.words()).collect();
        let _ = writeln!(
            out,
            "  {i}.        {}, those within {:.0} % of the best",
            aspects.join(" and "),
            100.0 * tolerance
        );
    }
    let _ = writeln!(
        out,
        "different   99 % interval without 1, and beyond {:.0} %; each comparison by itself, not corrected for their number",
        100.0 * field.identity.margin()
    );
    out.push_str(&processors(a));
    for (warning, runs) in &field.warnings {
        let _ = writeln!(out, "warning     {warning} ({})", runs.join(", "));
    }
    out
}

/// Where the processors had no rest.
fn processors(a: &Advice) -> String {
    let busy = |s: &Strain| 100.0 * s.busy.unwrap_or(0.0);
    let of = |s: &&Strain| format!("{} under {} ({:.0} %)", s.place, s.config, busy(s));
    let bound: Vec<String> = a.processor_bound().iter().map(of).collect();
    match bound.is_empty() {
        true => String::new(),
        false => format!(
            "processors  busy all the time in {}: there they are the limit, not the drive. On this machine that counts; in one with faster processors it may come out otherwise\n",
            bound.join(", ")
        ),
    }
}

/// The lines, each with its undo.
fn install(lines: &Lines) -> String {
    let mut out = String::new();
    let mut indented = |title: String, all: &[String]| {
        out.push_str(&title);
        for line in all {
            let _ = writeln!(out, "    {line}");
        }
    };
    for Step { title, lines, undo, .. } in lines.now.iter().chain(&lines.steps) {
        indented(format!("\n{title}:\n"), lines);
        indented("  undo:\n".into(), undo);
    }
    let what =
        format!("\nat every boot, for {} (--rules DIR writes these files):\n", lines.matched);
    for (i, file) in lines.files.iter().enumerate() {
        let text: Vec<String> = file.text.lines().map(str::to_string).collect();
        let title = if i == 0 { what.as_str() } else { "" };
        indented(format!("{title}  {}\n", file.path), &text);
    }
    if !lines.files.is_empty() {
        let paths: Vec<&str> = lines.files.iter().map(|f| f.path.as_str()).collect();
        indented("  undo:\n".into(), &[format!("rm {}", paths.join(" ")), rules::RELOAD.into()]);
    }
    for (word, all) in [("not installed", &lines.cannot), ("note", &lines.notes)] {
        for text in all {
            indented(format!("\n{word}: {text}\n"), &[]);
        }
    }
    out
}
