//! Latency targets, and what a scheduler says of each: kept, or why not.
//!
//! A target that is missed has one of a few causes, and each asks for another decision of whoever set it. The
//! *device* alone may take longer: no scheduler helps. The drive may have to be left partly empty: then the
//! target has a price in throughput (*loss*). The group may ask for more than its part of the drive (*share*),
//! or for more changes of place than its part pays for (*place*). So a scheduler that takes targets names the
//! cause with the figures that a decision needs; the words are the same wherever they are printed.

use crate::group::GroupId;
use crate::unit::Nanos;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A latency target of a group and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// Group that has it.
    pub group: GroupId,
    /// 99 % of its I/Os are to be over within this; `None`: as low as goes without loss of throughput.
    pub target: Option<Nanos>,
    /// The 99th percentile lately, from arrival at the scheduler to completion; zero: not known yet.
    pub p99: Nanos,
    /// The mean lately.
    pub mean: Nanos,
    /// Part of the device's service that the group has had lately, in thousandths.
    pub share_permille: u32,
    /// Whether it is kept, and why not.
    pub answer: Answer,
}

impl TargetState {
    /// The answer in words, with its figures.
    pub fn words(&self) -> String {
        self.answer.words(self.target)
    }
}

/// Whether a target is kept, and if not, what stands in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Too few I/Os yet, or the scheduler is still finding out.
    Unknown,
    /// It is kept; of a target without a number: latency is as low as goes without loss of throughput.
    Met,
    /// The device alone takes longer.
    Device {
        /// The least time an I/O of the group has taken in the device.
        least: Nanos,
    },
    /// The throughput that must not be lost stands against it.
    Loss {
        /// The best 99th percentile without that loss.
        best_p99: Nanos,
        /// Price of keeping the target in throughput, in thousandths; `None`: not known.
        cost_permille: Option<u32>,
    },
    /// The group asks for more than its part of the device.
    Share {
        /// Part of the device that the target needs, in thousandths.
        needs_permille: u32,
        /// Part that the group has, or may take from the others, in thousandths.
        has_permille: u32,
        /// With that part no scheduler makes its mean latency lower; `None`: not known.
        least_mean: Option<Nanos>,
    },
    /// The group asks for more changes of place than its part of the device pays for.
    Place {
        /// Changes of place a second that the target needs.
        needs_per_s: u32,
        /// Changes of place a second that its part pays for.
        may_per_s: u32,
    },
}

impl Answer {
    /// One word for each, as metrics and records have it, in the order of the variants.
    pub const NAMES: [&'static str; 6] = ["unknown", "met", "device", "loss", "share", "place"];

    /// Its word.
    pub fn name(self) -> &'static str {
        let at = match self {
            Answer::Unknown => 0,
            Answer::Met => 1,
            Answer::Device { .. } => 2,
            Answer::Loss { .. } => 3,
            Answer::Share { .. } => 4,
            Answer::Place { .. } => 5,
        };
        Answer::NAMES[at]
    }

    /// Its figures by name; the name ends in the unit.
    pub fn figures(self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        let mut add = |name, value: u64| all.push((name, value));
        match self {
            Answer::Unknown | Answer::Met => {}
            Answer::Device { least } => add("least_ns", least.0),
            Answer::Loss { best_p99, cost_permille } => {
                add("best_p99_ns", best_p99.0);
                if let Some(cost) = cost_permille {
                    add("cost_permille", cost.into());
                }
            }
            Answer::Share { needs_permille, has_permille, least_mean } => {
                add("needs_permille", needs_permille.into());
                add("has_permille", has_permille.into());
                if let Some(least) = least_mean {
                    add("least_mean_ns", least.0);
                }
            }
            Answer::Place { needs_per_s, may_per_s } => {
                add("needs_per_s", needs_per_s.into());
                add("may_per_s", may_per_s.into());
            }
        }
        all
    }

    /// The answer with that word and those figures; `None`: there is none such.
    pub fn read(name: &str, figure: impl Fn(&str) -> Option<u64>) -> Option<Answer> {
        let small = |name: &str| u32::try_from(figure(name)?).ok();
        Some(match name {
            "unknown" => Answer::Unknown,
            "met" => Answer::Met,
            "device" => Answer::Device { least: Nanos(figure("least_ns")?) },
            "loss" => Answer::Loss {
                best_p99: Nanos(figure("best_p99_ns")?),
                cost_permille: small("cost_permille"),
            },
            "share" => Answer::Share {
                needs_permille: small("needs_permille")?,
                has_permille: small("has_permille")?,
                least_mean: figure("least_mean_ns").map(Nanos),
            },
            "place" => {
                Answer::Place { needs_per_s: small("needs_per_s")?, may_per_s: small("may_per_s")? }
            }
            _ => return None,
        })
    }

    /// In words, of a target of so much.
    pub fn words(self, target: Option<Nanos>) -> String {
        match self {
            Answer::Unknown => "not known yet".to_string(),
            Answer::Met if target.is_none() => "as low as goes without loss".to_string(),
            Answer::Met => "met".to_string(),
            Answer::Device { least } => {
                format!("device: the drive alone takes {} at the least", millis(least))
            }
            Answer::Loss { best_p99, cost_permille } => {
                let best = format!("loss: the best p99 without loss is {}", millis(best_p99));
                match (cost_permille, target) {
                    (Some(cost), Some(target)) => {
                        let (target, cost) = (millis(target), percent(cost));
                        format!("{best}; {target} would cost {cost} of the throughput")
                    }
                    _ => best,
                }
            }
            Answer::Share { needs_permille, has_permille, least_mean } => {
                let (needs, has) = (percent(needs_permille), percent(has_permille));
                match least_mean {
                    None => format!("share: needs {needs} of the drive, has {has}"),
                    Some(least) => {
                        let least = millis(least);
                        format!(
                            "share: needs {needs} of the drive, may take {has}: a mean of {least} at the least"
                        )
                    }
                }
            }
            Answer::Place { needs_per_s, may_per_s } => format!(
                "place: needs {needs_per_s} changes of place a second, may have {may_per_s}"
            ),
        }
    }
}

/// Three significant digits in milliseconds: `0.168 ms`, `2.6 ms`, `176 ms`.
pub fn millis(time: Nanos) -> String {
    let (mut digits, mut unit) = (6, 1);
    while digits > 0 && time.0 / unit >= 1000 {
        unit *= 10;
        digits -= 1;
    }
    let value = time.0.saturating_add(unit / 2) / unit;
    if digits == 0 {
        return format!("{value} ms");
    }
    let (scale, width) = (10u64.pow(digits), digits as usize);
    let text = format!("{}.{:0width$}", value / scale, value % scale);
    format!("{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Thousandths in percent: `12 %`, `0.5 %`.
pub fn percent(permille: u32) -> String {
    match permille % 10 {
        0 => format!("{} %", permille / 10),
        tenth => format!("{}.{tenth} %", permille / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Answer; 8] = [
        Answer::Unknown,
        Answer::Met,
        Answer::Device { least: Nanos(900_000) },
        Answer::Loss { best_p99: Nanos(400_000), cost_permille: Some(120) },
        Answer::Loss { best_p99: Nanos(400_000), cost_permille: None },
        Answer::Share { needs_permille: 120, has_permille: 65, least_mean: None },
        Answer::Share { needs_permille: 220, has_permille: 50, least_mean: Some(Nanos(801_000)) },
        Answer::Place { needs_per_s: 50, may_per_s: 2 },
    ];

    #[test]
    fn every_answer_is_read_back_from_its_word_and_figures() {
        for answer in ALL {
            let figures = answer.figures();
            let look = |name: &str| figures.iter().find(|f| f.0 == name).map(|f| f.1);
            assert_eq!(Answer::read(answer.name(), look), Some(answer));
        }
        assert_eq!(Answer::read("device", |_| None), None, "a figure is missing");
        assert_eq!(Answer::read("maybe", |_| Some(1)), None);
    }

    #[test]
    fn words_have_the_figures_a_decision_needs() {
        let target = Some(Nanos(200_000));
        let words: Vec<_> = ALL.iter().map(|a| a.words(target)).collect();
        assert_eq!(
            words,
            [
                "not known yet",
                "met",
                "device: the drive alone takes 0.9 ms at the least",
                "loss: the best p99 without loss is 0.4 ms; 0.2 ms would cost 12 % of the throughput",
                "loss: the best p99 without loss is 0.4 ms",
                "share: needs 12 % of the drive, has 6.5 %",
                "share: needs 22 % of the drive, may take 5 %: a mean of 0.801 ms at the least",
                "place: needs 50 changes of place a second, may have 2",
            ]
        );
        assert_eq!(Answer::Met.words(None), "as low as goes without loss");
    }

    #[test]
    fn milliseconds_have_three_digits() {
        let cases = [
            (0, "0 ms"),
            (999, "0.000999 ms"),
            (168_400, "0.168 ms"),
            (2_600_000, "2.6 ms"),
            (9_999_999, "10 ms"),
            (17_640_000, "17.6 ms"),
            (176_400_000, "176 ms"),
            (100_000_000, "100 ms"),
            (2_034_400_000, "2034 ms"),
        ];
        for (ns, text) in cases {
            assert_eq!(millis(Nanos(ns)), text);
        }
    }
}
