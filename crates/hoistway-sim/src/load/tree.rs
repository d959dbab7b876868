//! What the loads of development work share: sizes of small files, and trees of many of them.
//!
//! A tree of 12 000 or 60 000 files is not 60 000 regions of 8 MiB: its files lie side by side in room of their own, as a
//! file system's allocator puts the files of one directory. Files that are only read are ranges of one host file, read
//! with the advice `random`, so that each read brings exactly the file's own pages: the read-ahead of a small file ends
//! with the file. Files that are written, created or deleted are host files of their own, so that inodes, allocation and
//! journal do what they do for any other file.

use crate::rng::{Rng, stream};

/// Bytes of a page, the unit of everything here.
pub(super) const PAGE: u64 = crate::host::PAGE;

/// A number between `lo` and `hi`, log-uniform: every octave is as likely as any other.
pub(super) fn log_uniform(rng: &mut Rng, lo: f64, hi: f64) -> f64 {
    lo * libm::exp(rng.unit() * libm::log(hi / lo))
}

/// A size between two multiples of the page, log-uniform, rounded down to a page.
pub(super) fn file_size(rng: &mut Rng, lo: u64, hi: u64) -> u64 {
    (log_uniform(rng, lo as f64, hi as f64) as u64 / PAGE * PAGE).clamp(lo, hi)
}

/// The random choices of one file of a program's work: they belong to the file, not to the process that happens to
/// work on it, so that every configuration has the same work.
pub(super) fn of_file(seed: u64, program: &str, file: u64) -> Rng {
    stream(seed, &format!("{program}/file/{file}"))
}

/// Where the files of a tree lie that is read in the order of its directories: runs of files one behind the other, the
/// runs in random order. Every file follows the one before it with probability `together`. Returns places and sizes in
/// that order, and the size of the whole. The first page of the whole stays free, so that no file begins at page 0 of
/// the range, where read-ahead has rules of its own.
pub(super) fn in_runs(
    count: u64,
    together: f64,
    (lo, hi): (u64, u64),
    rng: &mut Rng,
) -> (Vec<(u64, u64)>, u64) {
    let mut runs: Vec<Vec<u64>> = Vec::new();
    for _ in 0..count {
        let size = file_size(rng, lo, hi);
        match runs.last_mut().filter(|_| rng.unit() < together) {
            Some(run) => run.push(size),
            None => runs.push(vec![size]),
        }
    }
    let mut order: Vec<usize> = (0..runs.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let mut begins = vec![0; runs.len()];
    let mut at = PAGE;
    for run in order {
        begins[run] = at;
        at += runs[run].iter().sum::<u64>();
    }
    let mut places = Vec::with_capacity(count as usize);
    for (run, mut begin) in runs.iter().zip(begins) {
        for &size in run {
            places.push((begin, size));
            begin += size;
        }
    }
    (places, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_log_uniform_over_whole_pages() {
        let mut rng = stream(1, "x");
        let sizes: Vec<u64> = (0..10_000).map(|_| file_size(&mut rng, 4096, 32_768)).collect();
        assert!(sizes.iter().all(|s| s % PAGE == 0 && (4096..=32_768).contains(s)));
        // The geometric mean of 4 and 32 KiB splits them in halves.
        let below = sizes.iter().filter(|&&s| s < 11_585).count();
        assert!((4700..5900).contains(&below), "{below}");
        let mean = sizes.iter().sum::<u64>() / 10_000;
        assert!((mean as f64 / 12_288.0 - 1.0).abs() < 0.1, "about 12 KiB, not {mean}");
        let mut times: Vec<f64> = (0..1001).map(|_| log_uniform(&mut rng, 0.4, 2.5)).collect();
        times.sort_by(f64::total_cmp);
        assert!(
            (times[500] - 1.0).abs() < 0.1,
            "the median of 0.4 to 2.5 is 1, not {}",
            times[500]
        );
    }

    #[test]
    fn a_tree_in_runs_covers_its_range_once_and_two_thirds_follow() {
        let mut rng = stream(3, "x");
        let (places, end) = in_runs(9000, 2.0 / 3.0, (4096, 32_768), &mut rng);
        assert_eq!(places.len(), 9000);
        let follow = places.windows(2).filter(|w| w[0].0 + w[0].1 == w[1].0).count();
        assert!((5850..6150).contains(&follow), "{follow} of 8999 follow");
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0), "side by side, none twice");
        assert_eq!((sorted[0].0, sorted[8999].0 + sorted[8999].1), (PAGE, end));
    }
}
