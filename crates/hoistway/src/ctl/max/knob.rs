//! Lines of `io.max` and `io.low` (specs/groups-and-priorities.md 6.3 and 6.4).

use super::low::LowSetting;
use super::slice::{BPS_MAX, IOPS_MAX, Rate};
use crate::knob::{self, DevNo, KnobError};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// Limits of both directions, read first.
pub(super) type DirRates = [Rate; 2];

/// The keys of the file.
pub(super) const KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];

/// Reads a line: `old` with what the line names changed.
///
/// # Errors
///
/// Range for 0, invalid for 1 and for whatever is no number, the errors of [`knob::body_for`].
pub(super) fn parse(device: DevNo, line: &str, old: DirRates) -> Result<DirRates, KnobError> {
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
pub(super) fn set(rates: &mut DirRates, key: &str, value: u64) {
    match key {
        "rbps" => rates[0].bps = value,
        "wbps" => rates[1].bps = value,
        "riops" => rates[0].iops = value.min(IOPS_MAX),
        _ => rates[1].iops = value.min(IOPS_MAX),
    }
}

/// Reads a line of `io.low`; errors as for `io.max`, but `idle` and `latency` may be 0 and 1.
pub(super) fn parse_low(
    device: DevNo,
    line: &str,
    old: LowSetting,
) -> Result<LowSetting, KnobError> {
    const ALL: [&str; 6] = ["rbps", "wbps", "riops", "wiops", "idle", "latency"];
    let body = knob::body_for(device, line)?;
    let mut setting = old;
    for token in body.split(knob::is_blank).filter(|t| !t.is_empty()) {
        let (key, text) = knob::pair(token)?;
        let value = |of: fn(&str, &str) -> Result<u64, KnobError>| match text {
            "max" => Ok(u64::MAX),
            _ => of(key, text),
        };
        match key {
            "idle" => setting.idle = value(knob::number)?,
            "latency" => setting.latency = value(knob::number)?,
            _ if KEYS.contains(&key) => set(&mut setting.rates, key, value(rate)?),
            _ => return Err(knob::unknown_key(key, &ALL)),
        }
    }
    Ok(setting)
}

/// Lines that `io.low` prints; nothing at the defaults.
pub(super) fn print_low(device: DevNo, setting: LowSetting, out: &mut String) {
    if setting == LowSetting::DEFAULT {
        return;
    }
    write!(out, "{device}").expect("a string takes everything");
    print_rates(setting.rates, out);
    for (key, value) in [("idle", setting.idle), ("latency", setting.latency)] {
        match value {
            u64::MAX => write!(out, " {key}=max"),
            _ => write!(out, " {key}={value}"),
        }
        .expect("a string takes everything");
    }
    out.push('\n');
}

/// Line that the file prints for a device; nothing without a limit.
pub(super) fn print(device: DevNo, rates: DirRates, out: &mut String) {
    if rates == [Rate::MAX; 2] {
        return;
    }
    write!(out, "{device}").expect("a string takes everything");
    print_rates(rates, out);
    out.push('\n');
}

/// The four keys, each behind a blank.
pub(super) fn print_rates(rates: DirRates, out: &mut String) {
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
