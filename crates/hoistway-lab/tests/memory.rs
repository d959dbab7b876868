//! What one more run of a grid takes in memory at the peak, where the runs are put together and written, and where they
//! are read again and reported: counted by the allocator.

use hoistway::Nanos;
use hoistway_lab::config::Config;
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::report::html;
use hoistway_lab::result::Run;
use hoistway_lab::result::kept::Kept;
use hoistway_lab::run::{Grid, Share};
use hoistway_lab::world::Sim;
use hoistway_sim::drive::DriveFile;
use std::path::Path;
use std::sync::atomic::AtomicBool;

#[path = "../../hoistway-sim/tests/common/peak.rs"]
mod peak;

const CONFIGS: [&str; 2] = ["none-none", "none-bfq"];

fn grid(reps: u32) -> Grid {
    Grid {
        experiment: Experiment::load("latency-2019").unwrap(),
        drives: vec![DriveFile::load("samsung-970-pro").unwrap()],
        workloads: vec!["readers".into()],
        configs: CONFIGS.iter().map(|c| Config::parse(c).unwrap()).collect(),
        reps,
        seed: 1,
        options: Options { duration: Some(Nanos::ms(20)), ..Options::default() },
        command: String::new(),
    }
}

/// The peaks of the two, in bytes.
fn peaks(reps: u32, dir: &Path) -> [usize; 2] {
    let (grid, kept) = (grid(reps), Kept::open(dir, "a test's", true).unwrap().0);
    let whole: Share = "1/1".parse().unwrap();
    grid.keep_share(&Sim, whole, 1, &AtomicBool::new(false), &|_| {}, &kept).unwrap();
    let (written, ()) = peak::of(|| {
        let run = grid.together(&Sim, &kept).unwrap();
        run.write(dir, &html::render(&run)).unwrap();
    });
    let (reported, ()) = peak::of(|| {
        let run = Run::read(dir).unwrap();
        run.write_derived(dir, &html::render(&run)).unwrap();
    });
    kept.remove().unwrap();
    [written, reported]
}

#[test]
fn a_run_of_a_grid_keeps_little_more_than_its_records() {
    // One test alone in its binary: nobody else allocates meanwhile.
    let folder = std::env::temp_dir().join(format!("hoistway-memory-{}", std::process::id()));
    let (few, many) = (10, 40);
    let [less, more] = [few, many].map(|reps| peaks(reps, &folder.join("run")));
    std::fs::remove_dir_all(&folder).unwrap();
    let runs = (many - few) as usize * CONFIGS.len();
    for (what, (less, more)) in ["written", "reported"].iter().zip(less.iter().zip(more)) {
        let each = (more - less) / runs;
        println!("{what}: {each} B a run");
        assert!(each <= BYTES, "{what}: {each} B a run");
    }
}

/// Sixteen processes of some 300 B each, and their latencies. The rows of each repetition in metrics.csv and the names of
/// its figures were 15 KB more.
const BYTES: usize = 14_000;
