use super::*;
use crate::config::Config;
use crate::experiment::{Experiment, Options};
use crate::result::tests::Folder;
use crate::world::Sim;
use hoistway_run::{JobError, Outcome};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use std::sync::Mutex;

/// The simulator, taken for a world on the wall clock: it says in which order it was asked.
#[derive(Debug, Default)]
struct Slow(Mutex<Vec<(String, u64)>>);

impl World for Slow {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn alone(&self) -> bool {
        true
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(hoistway::Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        self.0.lock().unwrap().push((job.scheduler.entry.name.to_string(), job.seed));
        Sim.run(job, watch)
    }
}

fn grid(configs: &[&str]) -> Grid {
    let mut grid = Grid {
        experiment: Experiment::load("validation").unwrap(),
        drives: vec![DriveFile::load("plextor-px-256m5s").unwrap()],
        workloads: vec!["readers-direct".into(), "shares".into()],
        configs: configs.iter().map(|c| Config::parse(c).unwrap()).collect(),
        reps: 3,
        seed: 1,
        options: Options { quick: false, duration: Some(hoistway::Nanos::ms(200)), trace: None },
        command: String::new(),
    };
    grid.configs.iter_mut().for_each(|c| c.id.clone_from(&c.base));
    grid
}

#[test]
fn worlds_take_turns_and_what_differs_is_found() {
    let dir = Folder::new("validate-turns");
    let kept = |name: &str| Kept::open(&dir.0.join(name), "key", false).unwrap().0;
    let (slow, ours, theirs) = (Slow::default(), grid(&["none", "bfq"]), grid(&["none", "bfq"]));
    // The same name, and another configuration behind it.
    let mut other = grid(&["none", "bfq{low_latency=0,slice_idle=0}"]);
    other.configs[1].id = "bfq".into();
    let keeps = [kept("a"), kept("b"), kept("c")];
    let sides = [
        WorldSide { world: &slow, grid: &ours, kept: &keeps[0] },
        WorldSide { world: &Sim, grid: &theirs, kept: &keeps[1] },
        WorldSide { world: &Sim, grid: &other, kept: &keeps[2] },
    ];
    let told = Mutex::new((0, 0));
    let progress = |done, total| *told.lock().unwrap() = (done, total);
    let runs = carry_out(&sides, 2, &AtomicBool::new(false), &progress).unwrap();
    assert_eq!(*told.lock().unwrap(), (36, 36));
    let order = slow.0.lock().unwrap().clone();
    let seeds: Vec<u64> = order.iter().map(|o| o.1).collect();
    let rounds: Vec<u64> = (1..=3).flat_map(|seed| [seed; 4]).collect();
    assert_eq!(seeds, rounds, "every cell once, then every cell again");
    let names = |round: usize| order[4 * round..][..4].iter().map(|o| &o.0).collect::<Vec<_>>();
    assert!((1..3).any(|round| names(round) != names(0)), "{order:?}");

    let all = rows(&runs[0], &[&runs[1], &runs[2]]);
    let same =
        |r: &ValidationRow| r.others[0].ratio.is_some_and(|ratio| (ratio.mean - 1.0).abs() < 1e-9);
    assert!(all.iter().all(|r| same(r) && r.holds(0) == Some(true)), "{all:#?}");
    let bfq = |quantity: &str| {
        all.iter().find(|r| r.config == "bfq" && r.quantity == quantity).expect("it is a row")
    };
    assert_eq!(bfq("latency").limit, LIMIT_BFQ);
    assert_eq!(bfq("latency").holds(1), Some(false), "{:?}", bfq("latency"));
    let shares: f64 = ["target", "level2", "level4", "level7"]
        .iter()
        .map(|p| bfq(&format!("share of {p}")).reference.unwrap().value)
        .sum();
    assert!((shares - 100.0).abs() < 1e-6, "{shares}");
    let by_chance = |r: &&ValidationRow| r.config == "none" && r.quantity.starts_with("share");
    assert!(!all.iter().any(|r| by_chance(&r)), "none divides nothing: {all:#?}");
}

#[test]
fn what_is_kept_is_not_run_again() {
    let dir = Folder::new("validate-kept");
    let kept = || Kept::open(&dir.0.join("a"), "key", false).unwrap().0;
    let (slow, grid) = (Slow::default(), grid(&["none"]));
    let stop = AtomicBool::new(false);
    let first = kept();
    let side = [WorldSide { world: &slow, grid: &grid, kept: &first }];
    // It is stopped when the second run is over.
    let progress = |done, _| stop.store(done >= 2, Ordering::Relaxed);
    let error = carry_out(&side, 1, &stop, &progress).unwrap_err();
    assert_eq!(error, RunError::Interrupted { kept: 2, total: 6 });
    let again = kept();
    let side = [WorldSide { world: &slow, grid: &grid, kept: &again }];
    carry_out(&side, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    assert_eq!(slow.0.lock().unwrap().len(), 6);
}
