//! `hoistway calibrate`: a drive measured for a controller's model.

use crate::args::Calibrate;
use crate::table::Table;
use crate::{Failure, print};
use hoistway::ctl::cost::Rates;
use hoistway::knob::DevNo;
use hoistway_lab::quantity;
use hoistway_sim::calibrate::{Plan, measure};
use hoistway_sim::drive::DriveFile;

pub fn calibrate(options: &Calibrate) -> Result<(), Failure> {
    let file = DriveFile::load(&options.drive).map_err(|e| Failure::Usage(e.to_string()))?;
    let duration = quantity::duration(&options.duration)
        .map_err(|e| Failure::Usage(format!("--duration {}: {e}", options.duration)))?;
    if duration.0 == 0 || duration.0 > LONGEST_S * 1_000_000_000 {
        let what = format!("--duration {}: from 1ns to {LONGEST_S}s", options.duration);
        return Err(Failure::Usage(what));
    }
    let plan = Plan { duration, steady: options.steady, seed: options.seed };
    let mut count = 0;
    let rates = measure(&file, &plan, &mut |name| {
        count += 1;
        if !options.quiet {
            eprintln!("{count}/6 {name}: {} of simulated time", options.duration);
        }
    });
    let c = &file.iocost;
    let stored =
        Rates { read: [c.rbps, c.rseqiops, c.rrandiops], write: [c.wbps, c.wseqiops, c.wrandiops] };
    if options.json {
        return print(&json(options, &file, &rates, &stored));
    }
    print(&text(&rates, &stored))
}

/// A line for `io.cost.model`, for the first disk.
fn line(rates: &Rates) -> String {
    let values = Rates::NAMES.iter().zip(rates.values());
    values.fold(DevNo::default().to_string(), |line, (name, v)| format!("{line} {name}={v}"))
}

fn text(rates: &Rates, stored: &Rates) -> String {
    let mut table = Table::new(&["rate", "unit", "measured", "drive file", "difference"], 2);
    for ((name, new), old) in Rates::NAMES.iter().zip(rates.values()).zip(stored.values()) {
        let unit = if name.ends_with("bps") { "bytes/s" } else { "1/s" };
        let apart = match old {
            0 => "-".to_string(),
            _ => format!("{:+.1} %", 100.0 * (new as f64 / old as f64 - 1.0)),
        };
        let cells = [name, unit, &new.to_string(), &old.to_string(), &apart];
        table.row(cells.map(String::from).to_vec());
    }
    format!("{}\n\n{}", line(rates), table.render())
}

fn json(options: &Calibrate, file: &DriveFile, rates: &Rates, stored: &Rates) -> String {
    let object = |rates: &Rates| -> serde_json::Value {
        let pairs = Rates::NAMES.iter().zip(rates.values());
        pairs.map(|(name, value)| (name.to_string(), serde_json::Value::from(value))).collect()
    };
    let value = serde_json::json!({
        "schema": 1,
        "drive": file.id,
        "duration": options.duration,
        "steady": options.steady,
        "seed": options.seed,
        "line": line(rates),
        "measured": object(rates),
        "drive_file": object(stored),
    });
    format!("{value:#}\n")
}

/// A day of simulated time per test.
const LONGEST_S: u64 = 86_400;
