//! `hoistway calibrate --iocost`: a simulated drive measured for a controller's model.

use super::Calibrate;
use crate::common::output::print;
use crate::common::table::Table;
use crate::failure::Failure;
use hoistway::ctl::cost::Rates;
use hoistway::knob::DevNo;
use hoistway::quantity;
use hoistway_sim::calibrate::{Check, Measured, Plan, measure};
use hoistway_sim::drive::DriveFile;

pub fn measure_rates(options: &Calibrate, drive: &str) -> Result<(), Failure> {
    let file = DriveFile::load(drive).map_err(|e| Failure::Usage(e.to_string()))?;
    let duration = quantity::duration(&options.duration)
        .map_err(|e| Failure::Usage(format!("--duration {}: {e}", options.duration)))?;
    if duration.0 == 0 || duration.0 > LONGEST_S * 1_000_000_000 {
        let what = format!("--duration {}: from 1ns to {LONGEST_S}s", options.duration);
        return Err(Failure::Usage(what));
    }
    let plan = Plan { duration, steady: !options.new, seed: options.seed };
    let mut count = 0;
    let measured = measure(&file, &plan, &mut |name| {
        let fill = name == "fill";
        count += u32::from(!fill);
        match (options.quiet, fill, options.new) {
            (true, ..) => {}
            (_, true, _) => eprintln!("the whole drive is written once"),
            (_, _, true) => eprintln!("{count}/6 {name}: {} of simulated time", options.duration),
            _ => eprintln!("{count}/6 {name}: rounds of {} until it is steady", options.duration),
        }
    });
    let rates = measured.rates;
    let c = &file.iocost;
    let stored =
        Rates { read: [c.rbps, c.rseqiops, c.rrandiops], write: [c.wbps, c.wseqiops, c.wrandiops] };
    print(&match options.json {
        true => json(options, &file, &measured, &stored),
        false => text(&measured, &rates, &stored),
    })?;
    if options.new {
        eprintln!("warning: of a new drive; caches and burst credits are in these rates");
    }
    for c in measured.unsteady() {
        let (rounds, of) = (c.rounds, &options.duration);
        eprintln!(
            "warning: {} is not steady after {rounds} rounds of {of}; try a longer --duration",
            c.name
        );
    }
    if measured.unsteady().next().is_some() { Err(Failure::No) } else { Ok(()) }
}

/// A line for `io.cost.model`, for the first disk.
fn line(rates: &Rates) -> String {
    let values = Rates::NAMES.iter().zip(rates.values());
    values.fold(DevNo::default().to_string(), |line, (name, v)| format!("{line} {name}={v}"))
}

fn text(measured: &Measured, rates: &Rates, stored: &Rates) -> String {
    let headings =
        ["rate", "unit", "measured", "drive file", "difference", "rounds", "range", "first round"];
    let mut table = Table::new(&headings, 2);
    let values = Rates::NAMES.iter().zip(rates.values()).zip(stored.values());
    for (((name, new), old), check) in values.zip(&measured.checks) {
        let unit = if name.ends_with("bps") { "bytes/s" } else { "1/s" };
        let apart = match old {
            0 => "-".to_string(),
            _ => format!("{:+.1} %", 100.0 * (new as f64 / old as f64 - 1.0)),
        };
        let over = |r: f64| format!("{:+.1} %", 100.0 * (r / new.max(1) as f64 - 1.0));
        let range = match check.steady {
            None => "one round".to_string(),
            Some(true) => format!("{} to {}", over(check.range.0), over(check.range.1)),
            Some(false) => "not steady".to_string(),
        };
        let (rounds, first) = (check.rounds.to_string(), over(check.first));
        let cells =
            [name, unit, &new.to_string(), &old.to_string(), &apart, &rounds, &range, &first];
        table.row(cells.map(String::from).to_vec());
    }
    let filled = measured.filled.map_or_else(String::new, |t| {
        let seconds = t.0 as f64 / 1e9;
        format!("the drive was written as a whole before the write tests: {seconds:.0} s\n")
    });
    format!("{}\n\n{}{filled}", line(rates), table.render())
}

fn json(options: &Calibrate, file: &DriveFile, measured: &Measured, stored: &Rates) -> String {
    let rates = &measured.rates;
    let check = |c: &Check| {
        serde_json::json!({
            "rate": c.name, "rounds": c.rounds, "first": c.first,
            "low": c.range.0, "high": c.range.1, "steady": c.steady,
        })
    };
    let object = |rates: &Rates| -> serde_json::Value {
        let pairs = Rates::NAMES.iter().zip(rates.values());
        pairs.map(|(name, value)| (name.to_string(), serde_json::Value::from(value))).collect()
    };
    let value = serde_json::json!({
        "schema": 1,
        "drive": file.id,
        "duration": options.duration,
        "new": options.new,
        "filled_s": measured.filled.map(|t| t.0 as f64 / 1e9),
        "checks": measured.checks.iter().map(check).collect::<Vec<_>>(),
        "seed": options.seed,
        "line": line(rates),
        "measured": object(rates),
        "drive_file": object(stored),
    });
    format!("{value:#}\n")
}

/// A day of simulated time per test.
const LONGEST_S: u64 = 86_400;
