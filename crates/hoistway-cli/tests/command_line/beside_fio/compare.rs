//! What two programs did, side by side.

use super::draw::{Drawn, Known};
use super::{Call, Did};
use std::collections::{BTreeMap, BTreeSet};

/// Where a pass ends is chance.
const ENDS: &[Known] = &[Known::Apart, Known::Tail, Known::Aligned, Known::Rows, Known::Holes];

/// Everything that does not agree.
pub(crate) fn differences(drawn: &Drawn, fio: &Did, ours: &Did) -> Vec<String> {
    let mut found = Vec::new();
    let known = |which: &[Known]| drawn.known.iter().any(|k| which.contains(k));
    if known(&[Known::Backwards]) {
        return found;
    }
    let exact = drawn.single && drawn.sizes[0] == drawn.sizes[1];
    let one_way = drawn.sides != [true, true];
    let details = known(&[Known::Details]);
    if exact && one_way && !drawn.random && !random_files(drawn) && !details {
        in_order(&fio.calls, &ours.calls, &mut found);
    }
    if !known(ENDS) {
        totals(drawn, fio, ours, exact, &mut found);
    }
    mix(fio, ours, &mut found);
    sizes(drawn, fio, ours, &mut found);
    sequences(drawn, fio, ours, &mut found);
    if drawn.random {
        span(drawn, fio, ours, &mut found);
        repetition(drawn, fio, ours, exact, &mut found);
        if !details {
            skew(drawn, fio, ours, &mut found);
        }
    }
    if !known(ENDS) && !known(&[Known::AsyncSyncs]) {
        syncs(drawn, fio, ours, &mut found);
    }
    depth(drawn, fio, ours, &mut found);
    found
}

/// Which file is next is chance.
fn random_files(drawn: &Drawn) -> bool {
    drawn.files > 1 && drawn.text(true).contains("file_service_type=random")
}

/// Five standard deviations of the difference between two shares of samples of a common probability.
fn far(a: f64, n: usize, b: f64, m: usize) -> bool {
    if n == 0 || m == 0 {
        return false;
    }
    let (n, m) = (n as f64, m as f64);
    let p = ((a * n + b * m) / (n + m)).clamp(0.0, 1.0);
    let sd = (p * (1.0 - p) * (1.0 / n + 1.0 / m)).sqrt();
    // A call more or less is no difference.
    (a - b).abs() > 5.0 * sd + 1.5 / n.min(m)
}

fn in_order(fio: &[Call], ours: &[Call], found: &mut Vec<String>) {
    if let Some(i) = fio.iter().zip(ours).position(|(a, b)| a != b) {
        found.push(format!("order: call {i}: fio {:?}, ours {:?}", fio[i], ours[i]));
    }
}

fn bytes(calls: &[Call]) -> u64 {
    calls.iter().map(|c| c.len).sum()
}

fn totals(drawn: &Drawn, fio: &Did, ours: &Did, exact: bool, found: &mut Vec<String>) {
    let (a, b) = (bytes(&fio.calls), bytes(&ours.calls));
    let largest = drawn.sizes[0].1.max(drawn.sizes[1].1);
    let text = drawn.text(true);
    // The last call of sizes that are drawn may go over the end, by chance; a number of calls says nothing of bytes.
    // Where the sizes are drawn, a number of calls may end a job or not.
    let counted = text.contains("number_ios");
    let room = match (exact, counted) {
        (true, _) => 0,
        (false, true) => u64::MAX,
        (false, false) => largest * if text.contains("loops") { 3 } else { 2 },
    };
    if a.abs_diff(b) > room {
        found.push(format!("bytes: fio {a}, ours {b}"));
    }
    if exact && fio.calls.len() != ours.calls.len() {
        found.push(format!("calls: fio {}, ours {}", fio.calls.len(), ours.calls.len()));
    }
}

fn mix(fio: &Did, ours: &Did, found: &mut Vec<String>) {
    let share = |did: &Did| {
        did.calls.iter().filter(|c| c.write).count() as f64 / did.calls.len().max(1) as f64
    };
    let (a, b) = (share(fio), share(ours));
    if far(a, fio.calls.len(), b, ours.calls.len()) {
        found.push(format!("mix: {a:.3} of fio's calls write, {b:.3} of ours"));
    }
}

fn sizes(drawn: &Drawn, fio: &Did, ours: &Did, found: &mut Vec<String>) {
    for write in [false, true] {
        let count = |did: &Did| -> (BTreeMap<u64, usize>, usize) {
            let mut sizes = BTreeMap::new();
            let of = did.calls.iter().filter(|c| c.write == write);
            let n = of.map(|c| *sizes.entry(c.len).or_insert(0) += 1).count();
            (sizes, n)
        };
        let ((a, n), (b, m)) = (count(fio), count(ours));
        let (low, high) = drawn.sizes[usize::from(write)];
        if let Some(len) = b.keys().find(|&&len| len < low || len > high) {
            found.push(format!("sizes: a call of {len}, outside {low} to {high}"));
        }
        let all: BTreeSet<u64> = a.keys().chain(b.keys()).copied().collect();
        for len in all {
            let share = |of: &BTreeMap<u64, usize>, n: usize| {
                of.get(&len).copied().unwrap_or(0) as f64 / n.max(1) as f64
            };
            let (x, y) = (share(&a, n), share(&b, m));
            // Where sizes are cut, one cut makes others likely.
            let cut = drawn.once && drawn.random && !drawn.single;
            if far(x, if cut { n / 4 } else { n }, y, if cut { m / 4 } else { m }) {
                found.push(format!(
                    "sizes: {x:.3} of fio's calls have {len} bytes, {y:.3} of ours (write: {write})"
                ));
            }
        }
    }
}

/// How many calls begin where the last one of their direction in their file ended.
fn sequences(drawn: &Drawn, fio: &Did, ours: &Did, found: &mut Vec<String>) {
    let share = |did: &Did| {
        let mut last: BTreeMap<(usize, bool), (u64, u64)> = BTreeMap::new();
        let (mut follows, mut stays) = (0, 0);
        for c in &did.calls {
            if let Some((offset, len)) = last.insert((c.file, c.write), (c.offset, c.len)) {
                follows += usize::from(offset + len == c.offset);
                stays += usize::from(offset == c.offset);
            }
        }
        let n = did.calls.len().max(1) as f64;
        (follows as f64 / n, stays as f64 / n)
    };
    let ((a, x), (b, y)) = (share(fio), share(ours));
    let (n, m) = (fio.calls.len(), ours.calls.len());
    // Towards the end of a map free blocks are neighbours of one another; a permutation has none of that.
    let tail = drawn.random && drawn.once && !drawn.rows;
    if !tail && (far(a, n, b, m) || far(x, n, y, m)) {
        found.push(format!(
            "sequence: {a:.3} of fio's calls follow and {x:.3} stay, {b:.3} and {y:.3} of ours"
        ));
    }
}

fn span(drawn: &Drawn, fio: &Did, ours: &Did, found: &mut Vec<String>) {
    let ends = |did: &Did| {
        let begin = did.calls.iter().map(|c| c.offset).min().unwrap_or(0);
        (begin, did.calls.iter().map(|c| c.offset + c.len).max().unwrap_or(0))
    };
    let (a, b) = (ends(fio), ends(ours));
    let n = fio.calls.len().min(ours.calls.len()) / if drawn.rows { 8 } else { 1 };
    let whole = drawn.once && !drawn.rows && drawn.known.is_empty() && n > 30;
    // Samples come close to the ends of their region; a round comes to them.
    let room = (a.1 - a.0) * if whole { 1 } else { 3 } / 8 + drawn.sizes[0].1.max(drawn.sizes[1].1);
    if n >= 20 && !drawn.skewed && (a.0.abs_diff(b.0) > room || a.1.abs_diff(b.1) > room) {
        found.push(format!("span: fio {a:?}, ours {b:?}"));
    }
    if drawn.raw || drawn.skewed {
        let reach = a.1.max(a.0 + 64) + drawn.sizes[0].1.max(drawn.sizes[1].1);
        if n >= 200 && b.1 > reach * 2 {
            found.push(format!("span: fio ends at {}, ours at {}", a.1, b.1));
        }
    }
}

/// Places that come more than once.
fn repetition(drawn: &Drawn, fio: &Did, ours: &Did, exact: bool, found: &mut Vec<String>) {
    let distinct = |did: &Did| {
        let places: BTreeSet<(usize, u64)> = did.calls.iter().map(|c| (c.file, c.offset)).collect();
        places.len() as f64 / did.calls.len().max(1) as f64
    };
    let (a, b) = (distinct(fio), distinct(ours));
    let (n, m) = (fio.calls.len(), ours.calls.len());
    let same = exact && drawn.once && !drawn.rows;
    let differ = if same { (a - b).abs() > 1e-9 } else { !drawn.skewed && far(a, n, b, m) };
    if differ && drawn.known.is_empty() {
        found.push(format!("repetition: {a:.3} of fio's places are new, {b:.3} of ours"));
    }
}

/// How often the most frequent places come.
fn skew(drawn: &Drawn, fio: &Did, ours: &Did, found: &mut Vec<String>) {
    if !drawn.skewed {
        return;
    }
    let top = |did: &Did| {
        let mut counts: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        did.calls.iter().for_each(|c| *counts.entry((c.file, c.offset)).or_insert(0) += 1);
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let sum: usize = counts.iter().take(3).sum();
        sum as f64 / did.calls.len().max(1) as f64
    };
    let (a, b) = (top(fio), top(ours));
    let (n, m) = (fio.calls.len(), ours.calls.len());
    if n.min(m) >= 60 && far(a, n, b, m) && (a - b).abs() > 0.1 {
        found
            .push(format!("distribution: three places have {a:.3} of fio's calls, {b:.3} of ours"));
    }
}

fn syncs(drawn: &Drawn, fio: &Did, ours: &Did, found: &mut Vec<String>) {
    let (a, b) = (fio.syncs as f64, ours.syncs as f64);
    let exact = drawn.sides == [false, true] && drawn.single;
    let room = match exact {
        // A pass that has nothing more to do closes its files too.
        true if drawn.text(true).contains("fsync_on_close") => 2.0,
        true => 0.0,
        // They come in rows, one behind each read while the number of writes stands.
        false => 4.0 + 8.0 * a.max(b).sqrt(),
    };
    if (a - b).abs() > room {
        found.push(format!("syncs: fio {a}, ours {b}"));
    }
}

/// Calls in flight, where enough of them of one size are made. Writes may be over before the next one is made.
fn depth(drawn: &Drawn, fio: &Did, ours: &Did, found: &mut Vec<String>) {
    // A sync waits for all calls, and is itself one for fio.
    let synced = fio.syncs > 0 || ours.syncs > 0;
    let one_size =
        drawn.single && drawn.sizes[0] == drawn.sizes[1] && !synced && drawn.sides == [true, false];
    let enough = fio.calls.len() as u64 >= 40 * drawn.depth;
    if one_size && enough && fio.depth != ours.depth {
        found.push(format!("depth: fio {}, ours {}, asked {}", fio.depth, ours.depth, drawn.depth));
    }
}
