//! Lines of `io.max` (specs/groups-and-priorities.md 6.3).

use super::slice::{BPS_MAX, IOPS_MAX, Rate};
use crate::knob::{self, DevNo, KnobError};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// Limits of both directions, read first.
pub(super) type Rates = [Rate; 2];

/// The keys of the file.
pub(super) const KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];

/// Reads a line: `old` with what the line names changed.
///
/// # Errors
///
/// Range for 0, invalid for 1 and for whatever is no number, the errors of [`knob::body_for`].
pub(super) fn parse(device: DevNo, line: &str, old: Rates) -> Result<Rates, KnobError> {
    let body = knob::body_for(device, line)?;
    let mut rates = old;
    for token in body.split(knob::is_blank).filter(|t| !t.is_empty()) {
        let (key, text) = knob::pair(token)?;
        if !KEYS.contains(&key) {
            return Err(knob::unknown_key(key, &KEYS));
        }
        let value = if text == "max" { u64::MAX } else { rate(key, text)? };
        set(&mut rates, key, value);
    }
    Ok(rates)
}

fn rate(key: &str, text: &str) -> Result<u64, KnobError> {
    match knob::number(key, text)? {
        0 => {
            Err(KnobError::range(format!("{key}=0 would stop the group; write 2 or more, or max")))
        }
        1 => Err(KnobError::invalid(format!("{key}=1 is below the least rate, 2 per second"))),
        n => Ok(n),
    }
}

/// Puts the value of a key in its place; rates of I/Os are 32 bits wide.
pub(super) fn set(rates: &mut Rates, key: &str, value: u64) {
    match key {
        "rbps" => rates[0].bps = value,
        "wbps" => rates[1].bps = value,
        "riops" => rates[0].iops = value.min(IOPS_MAX),
        _ => rates[1].iops = value.min(IOPS_MAX),
    }
}

/// What the file prints for a device; nothing without a limit.
pub(super) fn print(device: DevNo, rates: Rates, out: &mut String) {
    if rates == [Rate::MAX; 2] {
        return;
    }
    write!(out, "{device}").expect("a string takes everything");
    print_rates(rates, out);
    out.push('\n');
}

/// The four keys, each behind a blank.
pub(super) fn print_rates(rates: Rates, out: &mut String) {
    let values = [rates[0].bps, rates[1].bps, rates[0].iops, rates[1].iops];
    let most = [BPS_MAX, BPS_MAX, IOPS_MAX, IOPS_MAX];
    for ((key, value), most) in KEYS.iter().zip(values).zip(most) {
        match value == most {
            true => write!(out, " {key}=max"),
            false => write!(out, " {key}={value}"),
        }
        .expect("a string takes everything");
    }
}
