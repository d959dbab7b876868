//! Quantities with units: those of [`hoistway_sim::quantity`], and values of tunables.

pub use hoistway_sim::quantity::{bytes, count, duration, rate};

use hoistway::tunable::{Tunable, Unit};

/// The value of a tunable: a plain number in its own unit, a quantity with a unit, a word of a choice,
/// on or off for a switch. The range is not checked here.
pub fn tunable_value(tunable: &Tunable, text: &str) -> Result<u64, String> {
    let refused = |what: &str| Err(format!("{} = '{text}': {what}", tunable.name));
    if let Ok(plain) = text.parse::<u64>() {
        return Ok(plain);
    }
    let exactly = |total: u64, unit: u64| {
        if total.is_multiple_of(unit) {
            Ok(total / unit)
        } else {
            let suffix = tunable.unit.suffix();
            Err(format!("{} = '{text}': not a whole number of {suffix}", tunable.name))
        }
    };
    let with_name = |e: String| format!("{} = {e}", tunable.name);
    let time = |unit: u64| exactly(duration(text).map_err(with_name)?.0, unit);
    let size = |unit: u64| exactly(bytes(text).map_err(with_name)?, unit);
    match tunable.unit {
        Unit::Nanos => time(1),
        Unit::Micros => time(1_000),
        Unit::Millis => time(1_000_000),
        Unit::Secs => time(1_000_000_000),
        Unit::Sectors => size(512),
        Unit::Kib => size(1024),
        Unit::BytesPerSec => rate(text).map_err(with_name),
        Unit::Switch => match text {
            "on" | "true" => Ok(1),
            "off" | "false" => Ok(0),
            _ => refused("a switch is 0 or 1"),
        },
        Unit::Choice(words) => match words.iter().position(|w| *w == text) {
            Some(index) => Ok(index as u64),
            None => refused(&format!("choose one of {}", words.join(", "))),
        },
        Unit::Requests | Unit::Count | Unit::Factor | Unit::Weight => {
            refused("write a whole number")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunable(unit: Unit) -> Tunable {
        Tunable {
            name: "x",
            unit,
            default: 0,
            min: 0,
            max: 10,
            doc: "",
            on_change: hoistway::tunable::OnChange::Decides,
        }
    }

    #[test]
    fn tunables_take_numbers_units_and_words() {
        assert_eq!(tunable_value(&tunable(Unit::Millis), "500"), Ok(500));
        assert_eq!(tunable_value(&tunable(Unit::Millis), "2s"), Ok(2000));
        assert!(tunable_value(&tunable(Unit::Millis), "5us").is_err());
        assert_eq!(tunable_value(&tunable(Unit::Sectors), "4k"), Ok(8));
        assert_eq!(tunable_value(&tunable(Unit::Switch), "on"), Ok(1));
        let choice = tunable(Unit::Choice(&["direction", "sync", "full"]));
        assert_eq!(tunable_value(&choice, "full"), Ok(2));
        assert!(tunable_value(&choice, "ful").unwrap_err().contains("direction, sync, full"));
        assert!(tunable_value(&tunable(Unit::Count), "8ms").is_err());
    }
}
