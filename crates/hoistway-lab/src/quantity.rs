//! Quantities with units as people write them: `4k`, `10MB/s`, `8ms`.

use hoistway::Nanos;
use hoistway::tunable::{Tunable, Unit};

/// A length of time: a number with ns, us, ms, s, min or h. A bare number has no unit and is refused.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let (number, unit) = parts(text);
    let scale: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => {
            return Err(format!("'{text}' is not a time; write a number and ns, us, ms, s or min"));
        }
    };
    scaled(number, scale)
        .map(Nanos)
        .ok_or_else(|| format!("'{text}' is not a time; write for instance 8ms or 2.5s"))
}

/// A number of bytes: k, M, G and KiB, MiB, GiB are powers of 1024; kB, MB, GB powers of 1000.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = parts(text);
    let refused = || format!("'{text}' is not a size; write for instance 4k, 500MiB or 10MB");
    let scale: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(refused()),
    };
    scaled(number, scale).ok_or_else(refused)
}

/// Bytes per second: a size followed by `/s`.
pub fn rate(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s");
    size.and_then(|s| bytes(s.trim_end()).ok())
        .ok_or_else(|| format!("'{text}' is not a rate; write for instance 10MB/s or 4000KiB/s"))
}

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

/// Number and unit, without the blank between them.
fn parts(text: &str) -> (&str, &str) {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..split], text[split..].trim_start())
}

/// A decimal number times a whole scale, exactly; `None` if malformed, too large or finer than 1.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 12 {
        return None;
    }
    let tenths = 10u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let total = digits.checked_mul(u128::from(scale))?;
    if !total.is_multiple_of(tenths) {
        return None;
    }
    u64::try_from(total / tenths).ok()
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
    fn quantities_are_read_exactly() {
        assert_eq!(duration("8ms"), Ok(Nanos::ms(8)));
        assert_eq!(duration("2.5 s"), Ok(Nanos::ms(2500)));
        assert!(duration("8").is_err());
        assert!(duration("1.5ns").is_err());
        assert_eq!(bytes("4k"), Ok(4096));
        assert_eq!(bytes("500 MiB"), Ok(500 << 20));
        assert_eq!(bytes("1.5MB"), Ok(1_500_000));
        assert!(bytes("99999999999999 T").is_err());
        assert_eq!(rate("10MB/s"), Ok(10_000_000));
        assert!(rate("10MB").is_err());
        assert!(bytes("4 parsec").unwrap_err().contains("4 parsec"));
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
