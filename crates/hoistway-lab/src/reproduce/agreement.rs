//! How well ours agree with the published figures: by value, and by the order of configurations.

use super::rows::PublishedRow;
use super::value::Value;

/// Values that differ by less have no order.
const APART: f64 = 1.1;

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Those that do.
    pub n: usize,
    /// All.
    pub of: usize,
}

impl Count {
    fn add(&mut self, yes: bool) {
        self.n += usize::from(yes);
        self.of += 1;
    }

    fn join(self, other: Count) -> Count {
        Count { n: self.n + other.n, of: self.of + other.of }
    }

    /// `3 of 4`; a dash of nothing.
    pub fn text(self) -> String {
        if self.of == 0 { "-".into() } else { format!("{} of {}", self.n, self.of) }
    }
}

/// Pairs of configurations that were published apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Apart with us, in the same order.
    pub right: usize,
    /// Not apart with us.
    pub tied: usize,
    /// Apart with us, in the other order.
    pub wrong: usize,
}

impl Pairs {
    /// All of them.
    pub fn all(self) -> usize {
        self.right + self.tied + self.wrong
    }

    fn join(self, other: Pairs) -> Pairs {
        Pairs {
            right: self.right + other.right,
            tied: self.tied + other.tied,
            wrong: self.wrong + other.wrong,
        }
    }

    /// `7 of 9, 2 tied`; a dash of nothing.
    pub fn text(self) -> String {
        let right = Count { n: self.right, of: self.all() }.text();
        if self.tied == 0 { right } else { format!("{right}, {} tied", self.tied) }
    }
}

/// The agreement of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Published figures.
    pub published: usize,
    /// Those that have one of ours beside them.
    pub compared: usize,
    /// Ours within 1.25, 1.5 and 2 times.
    pub within: [usize; 3],
    /// Measured without control: ours within the tolerance.
    pub uncontrolled: Count,
    /// Pairs of configurations that were published apart.
    pub pairs: Pairs,
    /// Settings whose best configuration is the same.
    pub leaders: Count,
}

/// The factors of [`Agreement::within`].
pub const FACTORS: [f64; 3] = [1.25, 1.5, 2.0];

impl Agreement {
    /// Of the rows of one experiment.
    pub fn of(rows: &[&PublishedRow]) -> Agreement {
        let compared: Vec<&PublishedRow> =
            rows.iter().filter(|r| r.ours.is_some()).copied().collect();
        let within =
            FACTORS.map(|f| compared.iter().filter(|r| r.factor().is_some_and(|x| x <= f)).count());
        let mut uncontrolled = Count::default();
        compared
            .iter()
            .filter(|r| r.uncontrolled)
            .for_each(|r| uncontrolled.add(r.within_tolerance()));
        Agreement {
            published: rows.len(),
            compared: compared.len(),
            within,
            uncontrolled,
            pairs: pairs(&compared),
            leaders: leaders(&compared),
        }
    }

    /// Both together. Pairs are formed within experiments alone.
    #[must_use]
    pub fn join(self, other: Agreement) -> Agreement {
        let [a, b, c] = other.within;
        Agreement {
            published: self.published + other.published,
            compared: self.compared + other.compared,
            within: [self.within[0] + a, self.within[1] + b, self.within[2] + c],
            uncontrolled: self.uncontrolled.join(other.uncontrolled),
            pairs: self.pairs.join(other.pairs),
            leaders: self.leaders.join(other.leaders),
        }
    }
}

/// Which of our configurations it is, as far as a document names one in several ways.
fn config(row: &PublishedRow) -> &str {
    match row.words[2].as_str() {
        "cfq low_latency on" => "cfq",
        "deadline-patched (with printks)" => "deadline-patched",
        other => other,
    }
}

/// What is compared: drive, workload, metric; `None`: derived rows form no pairs.
fn setting(row: &PublishedRow) -> Option<[&str; 3]> {
    let [drive, workload, metric, unit] = [1, 3, 4, 5].map(|i| row.words[i].as_str());
    let workload = workload.trim_end_matches(" (low_latency-off paragraph)");
    let single = unit != "x" && (unit != "percent" || metric.contains("share_over"));
    single.then_some([drive, workload, metric])
}

fn apart(p: Value, q: Value) -> bool {
    p.is.max(q.is) > APART * p.is.min(q.is) && !(p.beyond && q.beyond)
}

/// Pairs of configurations whose published values lie apart.
fn pairs(rows: &[&PublishedRow]) -> Pairs {
    let mut count = Pairs::default();
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let same = setting(a).is_some() && setting(a) == setting(b);
            if !same || config(a) == config(b) || !apart(a.published, b.published) {
                continue;
            }
            let (Some(x), Some(y)) = (a.ours, b.ours) else { continue };
            let order = (a.published.is < b.published.is) == (x.is < y.is);
            match (apart(x, y), order) {
                (false, _) => count.tied += 1,
                (true, true) => count.right += 1,
                (true, false) => count.wrong += 1,
            }
        }
    }
    count
}

/// More of it is better.
fn more_is_better(metric: &str) -> bool {
    metric.starts_with("throughput") || metric.starts_with("iops")
}

/// Settings with a published leader, and those of them where it leads with us.
fn leaders(rows: &[&PublishedRow]) -> Count {
    let mut count = Count::default();
    let mut seen: Vec<[&str; 3]> = Vec::new();
    for row in rows {
        let Some(of) = setting(row).filter(|s| !seen.contains(s)) else { continue };
        seen.push(of);
        let here: Vec<&PublishedRow> =
            rows.iter().filter(|r| setting(r) == Some(of)).copied().collect();
        let sign = if more_is_better(of[2]) { -1.0 } else { 1.0 };
        let mut order = here.clone();
        order.sort_by(|a, b| (sign * a.published.is).total_cmp(&(sign * b.published.is)));
        let Some((first, rest)) = order.split_first() else { continue };
        let rivals: Vec<&&PublishedRow> =
            rest.iter().filter(|r| config(r) != config(first)).collect();
        // Without anybody behind it at a distance there is no leader.
        if rivals.is_empty() || !rivals.iter().all(|r| apart(first.published, r.published)) {
            continue;
        }
        let ours = |r: &PublishedRow| r.ours.map(|v| sign * v.is);
        let best = here.iter().filter_map(|r| ours(r)).fold(f64::INFINITY, f64::min);
        count.add(ours(first) == Some(best));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(config: &str, metric: &str, published: &str, ours: &str) -> PublishedRow {
        let words = ["x", "d", config, "w", metric, "s", published, "doc"].map(str::to_string);
        PublishedRow {
            words: words.to_vec(),
            published: Value::parse(published).unwrap(),
            ours: Value::parse(ours),
            note: String::new(),
            uncontrolled: config == "noop",
            cell: None,
        }
    }

    #[test]
    fn order_and_leader_are_counted_where_published_values_lie_apart() {
        let rows = [
            row("noop", "startup_time", "2.0", "2.4"),
            row("deadline", "startup_time", "2.1", "1"),
            row("bfq", "startup_time", "0.2", "1.2"),
            row("cfq", "startup_time", ">60", "15"),
            row("noop", "throughput_total", "10", "20.5"),
            row("bfq", "throughput_total", "20", "22"),
        ];
        let rows: Vec<&PublishedRow> = rows.iter().collect();
        let found = Agreement::of(&rows);
        assert_eq!((found.published, found.compared), (6, 6));
        // noop and deadline lie too near; bfq is behind deadline with us; of the rates ours lie too near.
        assert_eq!(found.pairs, Pairs { right: 4, tied: 1, wrong: 1 });
        assert_eq!(found.pairs.text(), "4 of 6, 1 tied");
        assert_eq!(found.leaders, Count { n: 1, of: 2 });
        assert_eq!(found.uncontrolled, Count { n: 1, of: 2 });
        assert_eq!(found.within, [2, 2, 2]);
        let both = found.join(found);
        assert_eq!((both.within[0], both.pairs), (4, Pairs { right: 8, tied: 2, wrong: 2 }));
    }
}
