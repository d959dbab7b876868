//! Values as fio writes them.

/// Bytes: a whole number with a unit. With `base` 1024, fio's default, `k` is 1024 and `ki` 1000; with 1000 the
/// other way round.
pub fn bytes(text: &str, base: u64) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let n = whole(number)?;
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
        _ => return Err(format!("'{text}' is no size; write a number with k, m, g or t")),
    };
    let scale = if binary { 1024u64 } else { 1000 }.pow(power);
    n.checked_mul(scale).ok_or_else(|| format!("'{text}' is too large"))
}

/// Nanoseconds: a whole number with a unit; `unit` ns without one.
pub fn time(text: &str, unit: u64) -> Result<u64, String> {
    let text = text.trim();
    let (number, word) = split(text);
    let n = whole(number)?;
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

/// A whole number, also in hexadecimal.
pub fn whole(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let n = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    n.map_err(|_| match text.contains(['$', '(', '*']) {
        true => format!("'{text}': expressions and $keywords are not calculated; write the number"),
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
        assert!(bytes("8*$mb_memory", 1024).is_err());
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
}
