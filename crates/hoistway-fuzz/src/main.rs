//! `hoistway-fuzz`: runs cases from seeds until so many events have passed, prints what it finds as a
//! script, and replays scripts. Exit code: 0 nothing found, 1 a finding, 2 bad usage, 130 interrupted.

use hoistway::sched;
use hoistway_fuzz::source::{Rng, Source, mix};
use hoistway_fuzz::{Case, Failure, Outcome, make, run, run_traced, run_twice, shrink};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const HELP: &str = "\
Fuzzes the pure stack: random operations, invariants after every event.

usage: hoistway-fuzz [--events N] [--seed N] [--jobs N] [--save DIR]
       hoistway-fuzz --case SEED [--steps N] [--save DIR]   one case again, with what it breaks
       hoistway-fuzz [--trace] --replay FILE ...            scripts

  --events N   events in all; 10k, 5M, 1G (default 1M)
  --seed N     where the seeds of the cases come from (default 1)
  --jobs N     threads; the findings are the same for any number (default 1)
  --scheduler NAME  all cases under this one; may be given again for more
  --steps N    operations of each case (default: as its seed says)
  --save DIR   where scripts of findings go (default: printed)
  --trace      what the stack did, with the reasons of its stages
  --still MS   a stand-still of the device longer than this is a finding, whatever the policies say
  --without TEXT  leave out operations that contain it, to look past a finding
  --keep-going N  findings of different rules until it stops (default 1)
  --longest    at the end: the longest waits by scheduler and controllers, with their cases
";

/// Every so many cases one runs twice.
const TWICE: u64 = 8;
/// Trials that a finding may take to shrink.
const TRIALS: u32 = 20_000;
/// An event takes microseconds; after so many seconds without one the stack turns in a circle.
const STUCK: u64 = 60;

#[derive(Debug)]
struct Options {
    events: u64,
    seed: u64,
    jobs: u64,
    case: Option<u64>,
    steps: Option<usize>,
    schedulers: Vec<&'static sched::Entry>,
    save: Option<PathBuf>,
    findings: usize,
    longest: bool,
    still: u64,
    without: Vec<String>,
    trace: bool,
    replay: Vec<PathBuf>,
}

fn main() {
    let options = options().unwrap_or_else(|what| {
        eprintln!("{what}\n\n{HELP}");
        exit(2);
    });
    let code = if !options.replay.is_empty() {
        replay(&options)
    } else if let Some(seed) = options.case {
        one_case(seed, &options)
    } else {
        campaign(&options)
    };
    exit(code);
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        events: 1_000_000,
        seed: 1,
        jobs: 1,
        case: None,
        steps: None,
        schedulers: Vec::new(),
        save: None,
        findings: 1,
        longest: false,
        still: 0,
        without: Vec::new(),
        trace: false,
        replay: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--events" => o.events = count(&value()?)?,
            "--seed" => o.seed = count(&value()?)?,
            "--jobs" => o.jobs = count(&value()?)?.clamp(1, 256),
            "--case" => o.case = Some(count(&value()?)?),
            "--steps" => o.steps = Some(count(&value()?)? as usize),
            "--scheduler" => {
                let name = value()?;
                let entry = sched::find(&name).ok_or(format!("no scheduler '{name}'"))?;
                o.schedulers.push(entry);
            }
            "--save" => o.save = Some(value()?.into()),
            "--keep-going" => o.findings = count(&value()?)?.max(1) as usize,
            "--longest" => o.longest = true,
            "--still" => o.still = count(&value()?)?,
            "--without" => o.without.push(value()?),
            "--trace" => o.trace = true,
            "--replay" => {
                o.replay.push(value()?.into());
                o.replay.extend(args.by_ref().map(PathBuf::from));
            }
            "--help" | "-h" => {
                print!("{HELP}");
                exit(0);
            }
            _ => return Err(format!("no option '{arg}'")),
        }
    }
    if o.schedulers.is_empty() {
        o.schedulers = sched::SCHEDULERS.to_vec();
    }
    Ok(o)
}

/// A number, with k, M or G behind it.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    number.ok_or(format!("'{text}' is no count; write 5000, 10k, 100M or 1G"))
}

/// The case of a seed. How long it is comes from the seed too.
fn case_of(seed: u64, options: &Options) -> Case {
    let mut source = Rng::new(seed);
    let own = [60, 200, 800, 3000][source.below(4) as usize];
    let steps = options.steps.unwrap_or(own);
    let mut case = make::case_under(&options.schedulers, &mut source, steps);
    case.set("still_ms", options.still);
    if !options.without.is_empty() {
        let left_out = |text: String| options.without.iter().any(|w| text.contains(w));
        case.steps.retain(|step| !left_out(step.op.to_string()));
    }
    case
}

fn replay(options: &Options) -> i32 {
    let mut code = 0;
    for file in &options.replay {
        let name = file.display();
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| {
            eprintln!("{name}: {error}");
            exit(2);
        });
        let case = Case::parse(&text).unwrap_or_else(|what| {
            eprintln!("{name}: {what}");
            exit(2);
        });
        if options.trace {
            for record in run_traced(&case).1 {
                println!("[{:>12}] {:?}", record.at.as_nanos(), record.event);
            }
        }
        match run_twice(&case) {
            Ok(outcome) => println!("{name}: passes, {} events", outcome.events),
            Err(failure) => {
                println!("{name}: {}", told(&failure));
                code = 1;
            }
        }
    }
    code
}

fn told(failure: &Failure) -> String {
    let Failure { broken, step, events } = failure;
    format!("{}\nafter {step} operations, {events} events: {}", broken.rule, broken.what)
}

fn one_case(seed: u64, options: &Options) -> i32 {
    let case = case_of(seed, options);
    match run_twice(&case) {
        Ok(outcome) => {
            println!("case {seed}, {} operations: passes\n{outcome:#?}", case.steps.len());
            0
        }
        Err(failure) => {
            finding(seed, &case, &failure, options);
            1
        }
    }
}

/// Prints a finding, shrinks it, and keeps its script.
fn finding(seed: u64, case: &Case, failure: &Failure, options: &Options) {
    println!("case {seed}, {} operations: {}", case.steps.len(), told(failure));
    let under = match options.schedulers.as_slice() {
        all if all.len() == sched::SCHEDULERS.len() => String::new(),
        some => some.iter().map(|entry| format!(" --scheduler {}", entry.name)).collect(),
    };
    println!("again: hoistway-fuzz --case {seed} --steps {}{under}", case.steps.len());
    let mut trials = 0;
    let (small, how) = shrink::shrink(case, failure, || {
        trials += 1;
        trials <= TRIALS
    });
    let script = format!(
        "# case {seed}, shrunk from {} to {} operations in {trials} trials\n# {}\n{small}",
        case.steps.len(),
        small.steps.len(),
        how.broken.rule.replace('\n', "\n# "),
    );
    match &options.save {
        None => println!("{script}{}", told(&how)),
        Some(dir) => {
            let path = dir.join(format!("case-{seed}.txt"));
            match std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, &script)) {
                Ok(()) => println!("{}: {}", path.display(), told(&how)),
                Err(error) => println!("{}: {error}\n{script}", path.display()),
            }
        }
    }
}

/// The longest waits of one combination, each with the seed of its case.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    cases: u64,
    oldest: (u64, u64),
    stand_still: (u64, u64),
    drain: (u64, u64),
    lifted: u64,
}

impl Longest {
    fn add(&mut self, outcome: &Outcome, seed: u64) {
        self.cases += 1;
        self.lifted += u64::from(outcome.lifted);
        self.oldest = self.oldest.max((outcome.oldest.0, seed));
        self.stand_still = self.stand_still.max((outcome.stand_still.0, seed));
        self.drain = self.drain.max((outcome.drain.0, seed));
    }
}

/// What the threads share.
#[derive(Debug, Default)]
struct Shared {
    events: AtomicU64,
    cases: AtomicU64,
    stop: AtomicBool,
    /// The case that each thread is at.
    at: Vec<AtomicU64>,
    findings: Mutex<Vec<(u64, Failure)>>,
    longest: Mutex<BTreeMap<String, Longest>>,
}

fn campaign(options: &Options) -> i32 {
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        at: (0..options.jobs).map(|_| AtomicU64::new(0)).collect(),
        ..Shared::default()
    }));
    let interrupted: &'static AtomicBool = Box::leak(Box::default());
    ctrlc::set_handler(|| {
        interrupted.store(true, Ordering::Relaxed);
        shared.stop.store(true, Ordering::Relaxed);
    })
    .expect("no handler was set before");
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..options.jobs).map(|n| scope.spawn(move || work(n, options, shared))).collect();
        watch(options, shared, || threads.iter().all(|t| t.is_finished()));
    });
    let (events, cases) =
        (shared.events.load(Ordering::Relaxed), shared.cases.load(Ordering::Relaxed));
    if options.longest {
        print_longest(&shared.longest.lock().expect("no thread panics while it holds it"));
    }
    let mut findings =
        std::mem::take(&mut *shared.findings.lock().expect("no thread panics while it holds it"));
    // By seed: which thread was first is chance.
    findings.sort_by_key(|f| f.0);
    findings.dedup_by(|a, b| a.1.broken.rule == b.1.broken.rule);
    for (seed, failure) in &findings {
        finding(*seed, &case_of(*seed, options), failure, options);
    }
    let found = findings.len();
    println!("{events} events in {cases} cases of seed {}, {found} findings", options.seed);
    match (found, interrupted.load(Ordering::Relaxed)) {
        (0, true) => 130,
        (0, false) => 0,
        _ => 1,
    }
}

/// The cases of thread `n`: every `jobs`-th of the seed's sequence.
fn work(n: u64, options: &Options, shared: &Shared) {
    let mut number = n;
    while !shared.stop.load(Ordering::Relaxed)
        && shared.events.load(Ordering::Relaxed) < options.events
    {
        // Short enough to be typed.
        let seed = mix(options.seed ^ mix(number)) % 1_000_000_000_000;
        shared.at[n as usize].store(seed, Ordering::Relaxed);
        let case = case_of(seed, options);
        let result = if number.is_multiple_of(TWICE) { run_twice(&case) } else { run(&case) };
        shared.cases.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(outcome) => {
                shared.events.fetch_add(outcome.events, Ordering::Relaxed);
                if options.longest {
                    let what = format!("{} + {}", case.scheduler, case.controllers.join(" "));
                    let mut longest = shared.longest.lock().expect("nobody panics holding it");
                    longest.entry(what).or_default().add(&outcome, seed);
                }
            }
            Err(failure) => {
                shared.events.fetch_add(failure.events, Ordering::Relaxed);
                let mut findings = shared.findings.lock().expect("nobody panics holding it");
                if findings.iter().all(|f| f.1.broken.rule != failure.broken.rule) {
                    eprintln!("case {seed}: {}", failure.broken.rule);
                    findings.push((seed, failure));
                }
                if findings.len() >= options.findings {
                    shared.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        number += options.jobs;
    }
}

/// Prints where it is, and finds a stack that turns in a circle.
fn watch(options: &Options, shared: &Shared, over: impl Fn() -> bool) {
    let (mut seen, mut still) = (0, 0);
    for second in 1u64.. {
        for _ in 0..10 {
            if over() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let events = shared.events.load(Ordering::Relaxed);
        still = if events == seen && !shared.stop.load(Ordering::Relaxed) { still + 1 } else { 0 };
        seen = events;
        let at: Vec<String> =
            shared.at.iter().map(|at| at.load(Ordering::Relaxed).to_string()).collect();
        if still >= STUCK {
            println!("no event for {STUCK} s; again: hoistway-fuzz --case {}", at.join(" or "));
            exit(1);
        }
        if second.is_multiple_of(10) {
            let percent = events.saturating_mul(100) / options.events.max(1);
            eprintln!(
                "{events} events ({percent} %), {} per s, case {}",
                events / second,
                at.join(" ")
            );
        }
    }
}

fn print_longest(longest: &BTreeMap<String, Longest>) {
    println!(
        "longest waits in virtual ms (case): oldest I/O; stand-still of the device; drain; drains with limits lifted"
    );
    let ms =
        |(ns, seed): (u64, u64)| format!("{}.{:03} ({seed})", ns / 1_000_000, ns / 1000 % 1000);
    for (what, l) in longest {
        println!(
            "{what}: {} cases; {}; {}; {}; {}",
            l.cases,
            ms(l.oldest),
            ms(l.stand_still),
            ms(l.drain),
            l.lifted
        );
    }
}
