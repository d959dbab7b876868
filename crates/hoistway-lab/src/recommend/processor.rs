//! What decisions would cost a processor. The simulator takes no time for them, so that a scheduler which decides
//! about every request looks as fast there as none at all.
//!
//! The estimate: instructions per request of each scheduler alone, as they are counted for `benches/instructions.txt`
//! (100 busy queues, four requests of each), at `PER_MICROSECOND`. It is one of this project's code, not of the
//! kernel's, and of a core that does nothing else: BFQ decides under one lock, so that a second core does not help.
//! The kernel's own documentation gives BFQ about 500,000 requests per second (1.9 us each), this estimate 580,000.

use super::install::Install;
use hoistway::sched::INSTRUCTIONS;

/// Busy queues of the row that is taken.
const QUEUES: &str = "100";
/// Requests of each.
const REQUESTS: &str = "4";

/// Instructions in a microsecond: code of a kernel at 3 GHz, which waits for memory most of the time.
const PER_MICROSECOND: u64 = 1000;

/// Drives with fewer requests per second leave every scheduler time enough.
pub const MATTERS: u64 = 100_000;

/// A scheduler and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name.
    pub scheduler: String,
    /// Instructions per request.
    pub instructions: u64,
}

/// What decisions would cost where the runs took no time for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// Most requests per second in any run.
    pub requests: u64,
    /// The schedulers of the runs of which it is known, the dearest first.
    pub costs: Vec<Cost>,
}

impl Cost {
    /// Of a scheduler; `None`: it is not in the table.
    pub fn of(scheduler: &str) -> Option<Cost> {
        let row = INSTRUCTIONS.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut row = row.filter(|w| w.len() == 9 && w[0] == scheduler && w[3] == "root");
        let row = row.find(|w| w[1] == QUEUES && w[2] == REQUESTS)?;
        Some(Cost { scheduler: scheduler.into(), instructions: row[7].parse().ok()? })
    }

    /// Requests per second that keep a core busy, to two digits.
    pub fn busy_at(&self) -> u64 {
        let exact = PER_MICROSECOND * 1_000_000 / self.instructions.max(1);
        let unit = 10_u64.pow(exact.max(1).ilog10().saturating_sub(1));
        (exact + unit / 2) / unit * unit
    }
}

impl Decisions {
    /// Of the configurations that were compared.
    pub fn of<'a>(requests: u64, installs: impl Iterator<Item = &'a Install>) -> Decisions {
        let mut costs: Vec<Cost> = Vec::new();
        for cost in installs.filter_map(|i| Cost::of(i.scheduler()?)) {
            if !costs.contains(&cost) {
                costs.push(cost);
            }
        }
        costs.sort_by(|a, b| {
            b.instructions.cmp(&a.instructions).then(a.scheduler.cmp(&b.scheduler))
        });
        Decisions { requests, costs }
    }

    /// Is the drive fast enough for it to matter?
    pub fn matter(&self) -> bool {
        self.requests > MATTERS
    }

    /// Would they speak against a scheduler? Not against the cheapest of those compared.
    pub fn speak_against(&self, scheduler: Option<&str>) -> bool {
        let cheapest = self.costs.last().map(|c| c.scheduler.as_str());
        self.matter() && (scheduler.is_none() || scheduler != cheapest)
    }

    /// `bfq would keep a core busy at 580,000 requests per second (1724 instructions each), ...`.
    pub fn words(&self) -> String {
        let of = |(i, cost): (usize, &Cost)| {
            let busy = grouped(cost.busy_at());
            match i {
                0 => format!(
                    "{} would keep a core busy at {busy} requests per second ({} instructions each, {PER_MICROSECOND} a \
                     microsecond)",
                    cost.scheduler, cost.instructions
                ),
                _ => format!("{} at {busy}", cost.scheduler),
            }
        };
        let all: Vec<String> = self.costs.iter().enumerate().map(of).collect();
        all.join(", ")
    }
}

/// `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_every_scheduler_that_linux_has_is_in_the_table() {
        for name in ["none", "mq-deadline", "kyber", "bfq"] {
            let cost = Cost::of(name).unwrap();
            let line = INSTRUCTIONS
                .lines()
                .find(|l| l.split_whitespace().take(4).eq([name, "100", "4", "root"]));
            let alone = line.unwrap().split_whitespace().nth(7).unwrap();
            assert_eq!(cost.instructions.to_string(), alone, "{name}");
        }
        assert_eq!(Cost::of("no such one"), None);
    }

    #[test]
    fn a_core_is_busy_at_what_its_instructions_allow() {
        let of = |instructions| Cost { scheduler: "x".into(), instructions }.busy_at();
        assert_eq!(
            (of(1560), of(2000), of(226), of(0)),
            (640_000, 500_000, 4_400_000, 1_000_000_000)
        );
        assert_eq!(
            (grouped(999), grouped(1000), grouped(1_234_567)),
            ("999".into(), "1,000".into(), "1,234,567".into())
        );
    }

    #[test]
    fn decisions_speak_against_all_but_the_cheapest_on_a_fast_drive() {
        let installs = ["bfq", "none+wbt", "bfq{low_latency=0}"].map(Install::of);
        let of = |requests| Decisions::of(requests, installs.iter());
        let fast = of(891_000);
        assert_eq!(
            fast.costs.iter().map(|c| c.scheduler.as_str()).collect::<Vec<_>>(),
            ["bfq", "none"]
        );
        assert!(fast.speak_against(Some("bfq")) && !fast.speak_against(Some("none")));
        assert!(fast.speak_against(None), "nobody knows what it is");
        assert!(!of(MATTERS).speak_against(Some("bfq")));
        assert!(fast.words().starts_with("bfq would keep a core busy at "), "{}", fast.words());
    }
}
