//! What a job does: directions, sizes, and where random calls go.

use super::{Direction, Reader, Result, Weight, bytes, whole};
use crate::value::{range_of, sides, split_of};

pub(super) struct What {
    pub direction: Direction,
    pub random: bool,
    pub mix: u64,
    pub percentage_random: [u64; 2],
    pub row: u64,
    pub row_stays: bool,
    pub hole: i64,
    pub sizes: [String; 2],
    pub align: [Option<u64>; 2],
    pub repeat_blocks: bool,
    pub distribution: [Option<String>; 2],
}

type Parse<'p> = &'p dyn Fn(&str) -> std::result::Result<String, String>;

impl Reader<'_> {
    pub(super) fn what(&mut self) -> Result<What> {
        let base = self.base;
        let (direction, random, extra) = self.kind()?;
        let (row, hole) = self.sequence(random, extra.as_deref())?;
        let percentage = self.percent("percentage_random")?;
        let align = self.both("ba", |t| bytes(t, base))?;
        Ok(What {
            direction,
            random,
            mix: self.mix()?,
            percentage_random: percentage.map(|p| p.unwrap_or(100)),
            row,
            row_stays: self.sequencer()? && random,
            hole,
            sizes: self.sizes()?,
            align: align.map(|n| n.filter(|&n| n > 0)),
            repeat_blocks: self.repeats()?,
            distribution: self.distribution()?,
        })
    }

    fn kind(&self) -> Result<(Direction, bool, Option<String>)> {
        let Some(setting) = self.setting("rw") else { return Ok((Direction::Read, false, None)) };
        let text = setting.value.as_deref().unwrap_or("");
        let (word, extra) = match text.split_once(':') {
            Some((word, extra)) => (word.trim(), Some(extra.trim().to_string())),
            None => (text, None),
        };
        let (direction, random) = match word {
            "read" => (Direction::Read, false),
            "write" => (Direction::Write, false),
            "randread" => (Direction::Read, true),
            "randwrite" => (Direction::Write, true),
            "rw" | "readwrite" => (Direction::Mixed, false),
            "randrw" => (Direction::Mixed, true),
            "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
                return self.wrong(setting, format!("{word}: trims are not modelled"));
            }
            _ => {
                let what =
                    format!("'{word}': choose read, write, randread, randwrite, rw or randrw");
                return self.wrong(setting, what);
            }
        };
        Ok((direction, random, extra))
    }

    /// `rw=randread:8`: calls in a row; `rw=read:64k`: bytes left out, `rw=read:-8k`: backwards.
    fn sequence(&self, random: bool, extra: Option<&str>) -> Result<(u64, i64)> {
        let (Some(extra), Some(setting)) = (extra, self.setting("rw")) else { return Ok((1, 0)) };
        let hole = || {
            let (sign, text) = match extra.strip_prefix('-') {
                Some(text) => (-1, text),
                None => (1, extra),
            };
            let n = i64::try_from(bytes(text, self.base)?);
            n.map(|n| sign * n).map_err(|_| format!("'{extra}' is too large"))
        };
        let read = match random {
            true => whole(extra).map(|n| (n.max(1), 0)),
            false => hole().map(|n| (1, n)),
        };
        match read {
            Ok(both) => Ok(both),
            Err(what) => self.wrong(setting, what),
        }
    }

    /// Calls of a row stay at their place.
    fn sequencer(&self) -> Result<bool> {
        let stays = self.value("rw_sequencer", |word| match word {
            "sequential" => Ok(false),
            "identical" => Ok(true),
            other => Err(format!("'{other}': choose sequential or identical")),
        })?;
        Ok(stays.unwrap_or(false))
    }

    /// Percent of reads. Of the two keys the one that stands behind the other counts.
    fn mix(&self) -> Result<u64> {
        let read = self.number("rwmixread", 0..=100)?;
        let write = self.number("rwmixwrite", 0..=100)?.map(|percent| 100 - percent);
        let last = super::settings(self.section).map(|s| s.name());
        let last = last.into_iter().find(|name| ["rwmixread", "rwmixwrite"].contains(name));
        Ok(match last {
            Some("rwmixwrite") => write,
            _ => read,
        }
        .unwrap_or(50))
    }

    fn sizes(&self) -> Result<[String; 2]> {
        let base = self.base;
        let plain = |text: &str| bytes(text, base).map(|n| n.to_string());
        let range = |text: &str| range_of(text, base);
        let split = |text: &str| split_of(text, base);
        let kinds: [(&str, Parse<'_>); 3] =
            [("bssplit", &split), ("bsrange", &range), ("bs", &plain)];
        for (key, parse) in kinds {
            // A list of sizes is separated by commas for directions as well.
            let given = self.value(key, |text| {
                let side = |text: Option<&str>| text.map_or(Ok("4096".into()), parse);
                let [reads, writes] = sides(text);
                Ok([side(reads)?, side(writes)?])
            })?;
            if let Some(given) = given {
                return Ok(given);
            }
        }
        Ok(["4096".into(), "4096".into()])
    }

    /// Random blocks may repeat: without a map, unless the generator itself has no repetition.
    fn repeats(&mut self) -> Result<bool> {
        let lfsr = self.value("random_generator", |word| match word {
            "tausworthe" | "tausworthe64" => Ok(false),
            "lfsr" => Ok(true),
            other => Err(format!("'{other}': choose tausworthe, tausworthe64 or lfsr")),
        })?;
        let without = self.flag("norandommap")?.unwrap_or(false);
        if let Some(setting) = self.setting("random_generator") {
            let why = "--seed decides all random choices; what matters of a generator is whether blocks repeat";
            self.note(setting, Weight::Ignored, why);
        }
        Ok(without && !lfsr.unwrap_or(false))
    }

    /// In the words of load `job`.
    fn distribution(&mut self) -> Result<[Option<String>; 2]> {
        let Some(setting) = self.setting("random_distribution") else { return Ok([None, None]) };
        let text = setting.value.as_deref().unwrap_or("").trim();
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let given = |usual: &str| match rest {
            "" => Ok(Some(format!("{kind}:{usual}"))),
            _ if rest.split(':').all(|n| n.parse::<f64>().is_ok()) => Ok(Some(text.to_string())),
            _ => Err(format!("'{rest}': write {kind}:NUMBER or {kind}:NUMBER:CENTRE")),
        };
        // fio's own defaults.
        let both = match kind {
            "random" => Ok([None, None]),
            "zipf" => given("1.1").map(|d| [d.clone(), d]),
            "pareto" => given("0.2").map(|d| [d.clone(), d]),
            "normal" => given("0").map(|d| [d.clone(), d]),
            "zoned" | "zoned_abs" => zones(kind, rest, self.base),
            _ => Err(format!(
                "'{text}': choose random, zipf:T, pareto:H, normal:D, zoned:... or zoned_abs:..."
            )),
        };
        match both {
            Ok(both) => Ok(both),
            Err(what) => self.wrong(setting, what),
        }
    }
}

/// `60/10:30/20:10/`: a blank size is what is left.
fn zones(kind: &str, text: &str, base: u64) -> std::result::Result<[Option<String>; 2], String> {
    let side = |text: &str| -> std::result::Result<String, String> {
        let mut parts: Vec<(u64, Option<u64>)> = Vec::new();
        // A second direction may name the kind again.
        let text = text.strip_prefix(kind).and_then(|t| t.strip_prefix(':')).unwrap_or(text);
        for part in text.split(':') {
            let (access, size) = part.split_once('/').unwrap_or((part, ""));
            let size = match (size.trim(), kind) {
                ("", _) => None,
                (size, "zoned_abs") => Some(bytes(size, base)?),
                (size, _) => Some(whole(size.trim_end_matches('%'))?),
            };
            parts.push((whole(access)?, size));
        }
        let sum: u64 = parts.iter().map(|p| p.0.min(1000)).sum();
        if sum != 100 {
            return Err(format!("the accesses of the zones come to {sum} percent, not to 100"));
        }
        let open = parts.iter().filter(|p| p.1.is_none()).count() as u64;
        if open > 0 && kind == "zoned_abs" {
            return Err("a zone of zoned_abs has a size".into());
        }
        let given: u64 = parts.iter().filter_map(|p| p.1.map(|n| n.min(1000))).sum();
        if given > 100 && kind == "zoned" {
            return Err(format!("the sizes of the zones come to {given} percent"));
        }
        let left = 100u64.saturating_sub(given).checked_div(open).unwrap_or(0);
        let one =
            |(access, size): &(u64, Option<u64>)| format!("{access}/{}", size.unwrap_or(left));
        Ok(format!("{kind}:{}", parts.iter().map(one).collect::<Vec<_>>().join(":")))
    };
    let [reads, writes] = sides(text);
    let reads = reads.ok_or("the zones of reads are missing")?;
    Ok([Some(side(reads)?), Some(side(writes.unwrap_or(reads))?)])
}
