//! Draws the figures of `docs/guide/bfq.md` from traces of the simulator:
//! `cargo run --release -p hoistway-lab --example bfq_figures -- docs/images`.

use hoistway::sched;
use hoistway::trace::{Event, Record};
use hoistway::{IoPrio, Nanos};
use hoistway_run::{ControlSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use std::borrow::Cow;
use std::fmt::Write;

const COLOURS: [&str; 5] = ["#c1440e", "#2a6f97", "#4f772d", "#7b5ea7", "#8a6d00"];

/// One line: its name and points.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

fn reader(name: &str, level: u8, start: Nanos) -> ProcSpec {
    ProcSpec {
        name: name.into(),
        role: Role::Target,
        group: None,
        prio: IoPrio::be(level),
        start,
        load: "reader".into(),
        params: toml::Table::new(),
    }
}

/// Everything bfq did during so many seconds on a disk.
fn trace(procs: Vec<ProcSpec>, low_latency: u64, secs: u64) -> Vec<Record> {
    let drive = DriveFile::load("hitachi-hts727550a9e364").expect("it is embedded");
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("2019").expect("it is embedded"),
        scheduler: SchedulerSpec {
            entry: sched::find("bfq").expect("it is registered"),
            set: vec![("low_latency".into(), low_latency)],
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs,
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(secs),
            grace: Nanos::ZERO,
            target_interval: Nanos::ms(500),
            device_interval: Nanos::secs(1),
        },
        seed: 1,
        trace: TraceMode::Keep(2_000_000),
    };
    run(&job, &mut |_| true).expect("the job is in order").trace
}

/// The slots: when each ended, whose it was, the sectors it received and its budget.
fn slots(trace: &[Record]) -> Vec<(f64, u32, f64, f64)> {
    let mut budget = 0;
    let mut slots = Vec::new();
    for r in trace {
        let Event::Why(w) = r.event else { continue };
        if w.what == "in service" {
            budget = w.a;
        } else if w.what.starts_with("expired: ") {
            let at = r.at.as_nanos() as f64 / 1e9;
            slots.push((at, w.of, w.a as f64, budget as f64));
        }
    }
    slots
}

/// A chart of lines; with `steps` each value holds until the next point.
fn chart(title: &str, x: &str, y: &str, lines: &[Line], steps: bool) -> String {
    let all = || lines.iter().flat_map(|l| &l.points);
    let (right, top) = all().fold((0.0f64, 0.0f64), |m, p| (m.0.max(p.0), m.1.max(p.1)));
    let (right, top) = (round_up(right), round_up(top));
    let (w, h, left, under) = (720.0, 300.0, 64.0, 44.0);
    let px = |v: f64| left + v / right * (w - left - 130.0);
    let py = |v: f64| h - under - v / top * (h - under - 34.0);
    let mut s = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n\
         <text x=\"{left}\" y=\"18\" font-size=\"14\">{title}</text>\n"
    );
    let mut put = |text: std::fmt::Arguments<'_>| {
        s.write_fmt(text).expect("a String takes everything");
        s.push('\n');
    };
    for i in 0..=4 {
        let (a, b) = (right * f64::from(i) / 4.0, top * f64::from(i) / 4.0);
        put(format_args!(
            "<path d=\"M{left} {1:.1}H{0:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"middle\">{a}</text>\
             <text x=\"{4}\" y=\"{5:.1}\" text-anchor=\"end\">{b}</text>",
            px(right),
            py(b),
            px(a),
            h - under + 16.0,
            left - 6.0,
            py(b) + 4.0
        ));
    }
    put(format_args!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{x}</text>", px(right), h - 8.0));
    put(format_args!("<text x=\"{left}\" y=\"{}\" fill=\"#555\">{y}</text>", h - 8.0));
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let mut d = String::new();
        for (n, &(a, b)) in line.points.iter().enumerate() {
            let (a, b) = (px(a), py(b));
            match (n, steps) {
                (0, _) => write!(d, "M{a:.1} {b:.1}"),
                (_, true) => write!(d, "H{a:.1}V{b:.1}"),
                _ => write!(d, "L{a:.1} {b:.1}"),
            }
            .expect("a String takes everything");
        }
        put(format_args!(
            "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>\
             <text x=\"{:.1}\" y=\"{}\" fill=\"{colour}\">{}</text>",
            px(right) + 10.0,
            50 + 18 * i,
            line.name
        ));
    }
    s.push_str("</svg>\n");
    s
}

/// The next of 1, 2, 4, 5, 8 or 10 times a power of ten.
fn round_up(v: f64) -> f64 {
    let power = libm::pow(10.0, libm::log10(v.max(1e-9)).floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].map(|s| s * power);
    steps.into_iter().find(|&s| s >= v).unwrap_or(10.0 * power)
}

fn main() -> std::io::Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "docs/images".into());
    // Three readers of weights 80, 40 and 10, started 0.7 s apart; virtual time of each is the sum of what
    // it was served over its weight.
    let levels = [0u8, 4, 7];
    let procs = (0..3).map(|i| reader(&format!("r{i}"), levels[i], Nanos::ms(700) * i as u64));
    let slots = slots(&trace(procs.collect(), 0, 8));
    let mut queues: Vec<u32> = Vec::new();
    for s in &slots {
        if !queues.contains(&s.1) {
            queues.push(s.1);
        }
    }
    queues.truncate(3);
    let lines = |value: &mut dyn FnMut(usize, f64, f64) -> f64, from: f64| -> Vec<Line> {
        let line = |(i, &q): (usize, &u32)| {
            let own = slots.iter().filter(|s| s.1 == q && s.0 >= from && s.0 < from + 4.0);
            let weight = (8 - levels[i]) * 10;
            Line {
                name: format!("weight {weight}"),
                points: own.map(|s| (s.0 - from, value(i, s.2, s.3))).collect(),
            }
        };
        queues.iter().enumerate().map(line).collect()
    };
    let mut sums = [0.0; 3];
    let served = lines(
        &mut |i, service, _| {
            sums[i] += service / f64::from((8 - levels[i]) * 10);
            sums[i]
        },
        3.0,
    );
    let svg =
        chart("Service over weight after each slot", "seconds", "sectors / weight", &served, true);
    std::fs::write(format!("{dir}/bfq-virtual-time.svg"), svg)?;
    let budgets = lines(&mut |_, _, budget| budget, 0.0);
    let svg = chart("The budget of each slot", "seconds", "sectors", &budgets, true);
    std::fs::write(format!("{dir}/bfq-budgets.svg"), svg)?;

    // Four readers, and one that comes 6 s later: MB/s in intervals of 0.5 s.
    let mut procs: Vec<_> =
        (0..4).map(|i| reader(&format!("r{i}"), 4, Nanos::ms(700) * i)).collect();
    procs.push(reader("late", 4, Nanos::secs(6)));
    let trace = trace(procs, 1, 20);
    let mut rates = vec![[0.0; 40]; 5];
    for r in &trace {
        let Event::Issued { proc, sectors, .. } = r.event else { continue };
        let at = (r.at.as_nanos() / 500_000_000) as usize;
        if let Some(rate) = rates.get_mut(proc.index()).and_then(|r| r.get_mut(at)) {
            *rate += sectors.0 as f64 * 512.0 / 0.5e6;
        }
    }
    for r in &trace {
        match r.event {
            Event::Why(w) if w.what.starts_with("rais") => {
                println!(
                    "{:8.3} s queue {} {} {}",
                    r.at.as_nanos() as f64 / 1e9,
                    w.of,
                    w.what,
                    w.a
                );
            }
            _ => {}
        }
    }
    let points = |r: &[f64; 40]| r.iter().enumerate().map(|(i, &v)| (i as f64 / 2.0, v)).collect();
    let name = |i| if i == 4 { "the late one".into() } else { format!("reader {i}") };
    let lines: Vec<_> =
        rates.iter().enumerate().map(|(i, r)| Line { name: name(i), points: points(r) }).collect();
    let svg = chart("low_latency: a reader comes at 6 s", "seconds", "MB/s", &lines, true);
    std::fs::write(format!("{dir}/bfq-raising.svg"), svg)
}
