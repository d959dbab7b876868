//! Values as fio writes them.

use super::calc;
use super::job::Amount;
use std::cell::Cell;

/// Bytes: a whole number with a unit, or an expression. With `base` 1024, fio's default, `k` is 1024 and `ki` 1000;
/// with 1000 the other way round.
pub fn bytes(text: &str, base: u64) -> Result<u64, String> {
    calculated(text, &|text| plain_bytes(text, base))
}

/// Bytes, or percent of a whole; more than all of it is all.
pub fn amount(text: &str, base: u64) -> Result<Amount, String> {
    match text.trim().strip_suffix('%') {
        Some(percent) => Ok(Amount::Percent(whole(percent)?.min(100))),
        None => bytes(text, base).map(Amount::Bytes),
    }
}

fn plain_bytes(text: &str, base: u64) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let n = plain(number)?;
    let lower = unit.to_ascii_lowercase();
    let unit = lower.strip_suffix('b').unwrap_or(&lower);
    let (letter, binary) = match unit.strip_suffix('i') {
        Some(letter) => (letter, base != 1024),
        None => (unit, base == 1024),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ if unit.contains(['*', '+', '/', '^', '-']) => {
            return Err(format!("'{text}': fio calculates in parentheses; write ({text})"));
        }
        "z" => return Err(format!("'{text}': zones are not modelled; write bytes")),
        _ => return Err(format!("'{text}' is no size; write a number with k, m, g or t")),
    };
    let scale = if binary { 1024u64 } else { 1000 }.pow(power);
    n.checked_mul(scale).ok_or_else(|| format!("'{text}' is too large"))
}

/// Nanoseconds: a whole number with a unit; `unit` ns without one, or microseconds in an expression without any.
pub fn time(text: &str, unit: u64) -> Result<u64, String> {
    if !text.trim_start().starts_with('(') {
        return plain_time(text, unit);
    }
    // In `(2*5s)` the 2 is a number and no time.
    let has_unit = Cell::new(false);
    let factor = |text: &str| match text.parse::<f64>() {
        Ok(n) => Ok(n),
        Err(_) => {
            has_unit.set(true);
            plain_time(text, 1).map(|n| n as f64)
        }
    };
    let value = calc::value(text, &factor)?;
    in_range(text, if has_unit.get() { value } else { value * 1e3 })
}

fn plain_time(text: &str, unit: u64) -> Result<u64, String> {
    let text = text.trim();
    let (number, word) = split(text);
    let n = plain(number)?;
    let scale = match word.to_ascii_lowercase().as_str() {
        "" => unit,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(format!("'{text}' is no time; write a number with us, ms, s, m, h or d")),
    };
    n.checked_mul(scale).ok_or_else(|| format!("'{text}' is too long"))
}

/// A whole number, also in hexadecimal, or an expression.
pub fn whole(text: &str) -> Result<u64, String> {
    calculated(text, &plain)
}

/// Largest whole number below which none is left out.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn calculated(text: &str, plain: &dyn Fn(&str) -> Result<u64, String>) -> Result<u64, String> {
    if !text.trim_start().starts_with('(') {
        return plain(text);
    }
    let unit = |text: &str| match text.parse::<f64>() {
        Ok(n) => Ok(n),
        Err(_) => plain(text).map(|n| n as f64),
    };
    in_range(text, calc::value(text, &unit)?)
}

fn in_range(text: &str, value: f64) -> Result<u64, String> {
    match (0.0..EXACT).contains(&value) {
        true => Ok(value as u64),
        false => Err(format!("'{text}' is {value}: choose a number from 0 to {EXACT}")),
    }
}

fn plain(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let n = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    n.map_err(|_| match text.contains(['(', '*', '+', '/', '^']) {
        true => format!("'{text}': fio calculates in parentheses; write ({text})"),
        false => format!("'{text}' is no whole number"),
    })
}

/// 0 or 1; a key alone is 1.
pub fn flag(text: Option<&str>) -> Result<bool, String> {
    match text.map(str::trim) {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => Err(format!("'{other}': write 0 or 1")),
    }
}

/// A part for reads and one for writes; trims are left out. An empty one is not given.
pub fn sides(text: &str) -> [Option<&str>; 2] {
    let filled = |part: &'_ str| !part.is_empty();
    let mut parts = text.split(',').map(str::trim);
    let reads = parts.next().filter(|p| filled(p));
    match parts.next() {
        // One value is for both.
        None => [reads, reads],
        Some(writes) => [reads, Some(writes).filter(|p| filled(p))],
    }
}

/// Sizes with their weights in hundredths of a percent, `4k/10:64k/50:32k`. What has no share has what is left, in
/// equal parts; what comes to more than 100 percent is cut, and what comes to less is the last one's, as in fio 3.33.
pub fn split_of(text: &str, base: u64) -> Result<String, String> {
    let mut parts: Vec<(u64, Option<u64>)> = Vec::new();
    for part in text.split(':') {
        let (size, share) = match part.split_once('/') {
            Some((size, share)) => (size, Some(share.trim()).filter(|s| !s.is_empty())),
            None => (part, None),
        };
        let share = share.map(whole).transpose()?;
        if share.is_some_and(|s| s > 100) {
            return Err(format!("'{part}': more than 100 percent"));
        }
        parts.push((bytes(size, base)?, share));
    }
    let given: u64 = parts.iter().filter_map(|p| p.1).sum();
    let open = parts.iter().filter(|p| p.1.is_none()).count() as u64;
    let (mut left, last) = (10_000u64, parts.len() - 1);
    let mut text = Vec::new();
    for (i, (size, share)) in parts.into_iter().enumerate() {
        let share = match share {
            None => 100u64.saturating_sub(given) * 100 / open,
            Some(share) => share * 100,
        };
        let share = if i == last && open == 0 { left } else { share.min(left) };
        left -= share;
        text.push(format!("{size}/{share}"));
    }
    Ok(text.join(":"))
}

/// `4k-64k` or `4k:64k`, in any order.
pub fn range_of(text: &str, base: u64) -> Result<String, String> {
    // A second set of ranges is another direction's; fio 3.33 takes the first.
    let text = text.split('/').next().unwrap_or(text);
    match text.split_once(['-', ':']) {
        Some((from, to)) => {
            let (from, to) = (bytes(from, base)?, bytes(to, base)?);
            Ok(format!("{}-{}", from.min(to), from.max(to)))
        }
        None => bytes(text, base).map(|n| n.to_string()),
    }
}

fn split(text: &str) -> (&str, &str) {
    if text.starts_with("0x") || text.starts_with("0X") {
        return (text, "");
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    match end {
        0 => (text, ""),
        end => (&text[..end], text[end..].trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_follow_fio() {
        assert_eq!(bytes("4k", 1024), Ok(4096));
        assert_eq!(bytes("4KiB", 1024), Ok(4000));
        assert_eq!(bytes("4Ki", 1000), Ok(4096));
        assert_eq!(bytes("1MB", 1000), Ok(1_000_000));
        assert_eq!(bytes("0x1000", 1024), Ok(4096));
        assert_eq!(bytes("16p", 1024), Ok(16 << 50));
        assert!(bytes("99999999p", 1024).is_err());
        assert_eq!(time("10", 1_000_000_000), Ok(10_000_000_000));
        assert_eq!(time("10", 1_000), Ok(10_000));
        assert_eq!(time("5m", 1_000), Ok(300_000_000_000));
        assert!(time("5 weeks", 1).is_err());
        assert_eq!(sides("4k"), [Some("4k"), Some("4k")]);
        assert_eq!(sides("4k,8k"), [Some("4k"), Some("8k")]);
        assert_eq!(sides(",8k,"), [None, Some("8k")]);
        assert_eq!(flag(None), Ok(true));
        assert!(flag(Some("yes")).is_err());
    }

    #[test]
    fn expressions_stand_in_parentheses() {
        assert_eq!(bytes("(4*1024*16)", 1024), Ok(65_536));
        assert_eq!(bytes("(1m/16)", 1024), Ok(65_536));
        assert_eq!(bytes("(0.5*1g)", 1024), Ok(512 << 20));
        assert_eq!(time("(2*500)", 1_000_000_000), Ok(1_000_000), "microseconds in an expression");
        assert_eq!(time("(2*5s)", 1_000), Ok(10_000_000_000));
        assert_eq!(whole("(2^10)"), Ok(1024));
        for (text, part) in [
            ("2*1024*1024", "write (2*1024*1024)"),
            ("16k*2", "write (16k*2)"),
            ("(1-2)", "from 0 to"),
            ("(2*16", "not closed"),
            ("4z", "zones"),
            ("12.5k", "is no size"),
        ] {
            let error = bytes(text, 1024).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn shares_and_ranges_follow_fio() {
        let split = |text| split_of(text, 1024).unwrap();
        assert_eq!(split("4k/10:8k/20:16k"), "4096/1000:8192/2000:16384/7000");
        assert_eq!(split("4k/10:8k/20:16k/20"), "4096/1000:8192/2000:16384/7000");
        assert_eq!(split("4k/50:8k/60"), "4096/5000:8192/5000");
        assert_eq!(split("4k:8k"), "4096/5000:8192/5000");
        assert!(split_of("4k/101", 1024).is_err() && split_of("4k/:", 1024).is_err());
        assert_eq!(range_of("16k-4k", 1024), Ok("4096-16384".into()));
        assert_eq!(range_of("16k:32k/4k:8k", 1024), Ok("16384-32768".into()));
    }
}
