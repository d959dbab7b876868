use super::*;
use crate::result::tests::Folder;
use crate::world::Sim;

/// How a run ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Error,
    Panic,
    /// With an error, of Ctrl-C.
    Stopped,
}

/// The simulator, of which the runs with these numbers end otherwise than they should. It notes who they were.
#[derive(Debug)]
struct Failing<'a> {
    alone: bool,
    end: End,
    from: usize,
    begun: AtomicUsize,
    failed: Mutex<Vec<(String, u64)>>,
    stop: &'a AtomicBool,
}

impl World for Failing<'_> {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        if self.begun.fetch_add(1, Ordering::Relaxed) < self.from {
            return Sim.run(job, watch);
        }
        let name = job.scheduler.entry.name.to_string();
        self.failed.lock().unwrap().push((name, job.seed));
        let what = "/dev/sdx: Input/output error (os error 5)".to_string();
        match self.end {
            End::Panic => panic!("{what}"),
            End::Stopped => self.stop.store(true, Ordering::Relaxed),
            End::Error => {}
        }
        Err(JobError::Storage { what })
    }
}

fn grid(reps: u32) -> Grid {
    Grid {
        experiment: Experiment::load("validation").unwrap(),
        drives: vec![DriveFile::load("plextor-px-256m5s").unwrap()],
        workloads: vec!["readers-direct".into()],
        configs: ["none", "mq-deadline", "bfq"].map(|c| Config::parse(c).unwrap()).into(),
        reps,
        seed: 1,
        options: Options { quick: false, duration: Some(Nanos::ms(50)), trace: None },
        command: String::new(),
    }
}

/// What a grid says whose runs fail from number `from` on, and which run the first of them was.
fn outcome(
    grid: &Grid,
    (alone, end, from): (bool, End, usize),
    kept: Option<&Kept>,
) -> (RunError, String) {
    let stop = AtomicBool::new(false);
    let (begun, failed) = (AtomicUsize::new(0), Mutex::default());
    let world = Failing { alone, end, from, begun, failed, stop: &stop };
    let error = grid.run_kept(&world, 2, &stop, &|_| {}, kept).unwrap_err();
    let failed = world.failed.into_inner().unwrap();
    let name = |(scheduler, seed): &(String, u64)| match grid.reps {
        1 => format!("plextor-px-256m5s/{scheduler}/readers-direct"),
        _ => format!("plextor-px-256m5s/{scheduler}/readers-direct, repetition {seed}"),
    };
    let is_one = |cell: &str| failed.iter().any(|f| name(f) == cell);
    if let RunError::Job { cell, .. } | RunError::Broken { cell, .. } = &error {
        assert!(is_one(cell), "{cell} is none of {failed:?}");
    }
    (error, name(&failed[0]))
}

#[test]
fn the_run_that_failed_is_named_and_nobody_is_said_to_have_interrupted_it() {
    // On the wall clock runs take turns in an order of their own: others of the grid's order are missing.
    for reps in [1, 3] {
        let grid = grid(reps);
        for from in 0..grid.len() {
            let (error, first) = outcome(&grid, (true, End::Error, from), None);
            assert_eq!(
                error.to_string(),
                format!("{first}: /dev/sdx: Input/output error (os error 5)")
            );
        }
        for from in 0..grid.len() {
            let (error, _) = outcome(&grid, (false, End::Error, from), None);
            assert!(matches!(error, RunError::Job { .. }), "{error:?}");
        }
    }
}

#[test]
fn what_is_finished_when_a_run_fails_is_kept() {
    let folder = Folder::new("failed-run");
    let kept = |fresh| Kept::open(&folder.0.join("runs"), "hoistway", fresh).unwrap().0;
    let grid = grid(3);
    let (error, first) = outcome(&grid, (true, End::Error, 4), Some(&kept(false)));
    assert!(matches!(&error, RunError::Job { cell, .. } if *cell == first), "{error:?}");
    let kept = kept(false);
    assert_eq!(kept.count(), 4);
    let run = grid.run_kept(&Sim, 1, &AtomicBool::new(false), &|_| {}, Some(&kept));
    assert_eq!(run.unwrap().cells.len(), 3);
}

#[test]
fn a_run_that_breaks_off_is_an_error_of_this_program() {
    for alone in [true, false] {
        let (error, _) = outcome(&grid(3), (alone, End::Panic, 5), None);
        let RunError::Broken { what, .. } = &error else { panic!("{error:?}") };
        assert!(what.starts_with("/dev/sdx"), "{what}");
    }
}

/// The process goes on, and so do the other cells: the same command runs the broken one alone again.
#[test]
fn a_scheduler_that_panics_ends_its_own_cell_only() {
    let folder = Folder::new("broken-run");
    let open = || Kept::open(&folder.0.join("runs"), "hoistway", false).unwrap().0;
    for threads in [1, 2] {
        let mut grid = grid(2);
        grid.configs.insert(0, Config::parse_with("breaks", &[&super::breaks::BREAKS]).unwrap());
        let (kept, stop) = (open(), AtomicBool::new(false));
        let error = grid.run_kept(&Sim, threads, &stop, &|_| {}, Some(&kept)).unwrap_err();
        let RunError::Broken { cell, what } = &error else { panic!("{error:?}") };
        assert_eq!(cell, "plextor-px-256m5s/breaks/readers-direct, repetition 1");
        assert_eq!(what, "a scheduler of somebody else breaks off");
        assert_eq!((kept.count(), grid.len()), (6, 8));
        kept.remove().unwrap();
    }
}

#[test]
fn one_run_at_a_time_needs_no_thread_of_its_own() {
    /// The simulator, which notes where it ran.
    #[derive(Debug)]
    struct Here(Mutex<Vec<std::thread::ThreadId>>);

    impl World for Here {
        fn name(&self) -> &'static str {
            "sim"
        }

        fn alone(&self) -> bool {
            false
        }

        fn run(
            &self,
            job: &Job<'_>,
            watch: &mut dyn FnMut(Instant) -> bool,
        ) -> Result<Outcome, JobError> {
            self.0.lock().unwrap().push(std::thread::current().id());
            Sim.run(job, watch)
        }
    }

    let (world, grid) = (Here(Mutex::default()), grid(1));
    grid.run(&world, 1, &AtomicBool::new(false), &|_| {}).unwrap();
    let ran = world.0.into_inner().unwrap();
    assert_eq!(ran, vec![std::thread::current().id(); 3]);
}

/// What tasks on many machines need: each run alone, by its number, and all of them put together again.
#[test]
fn runs_one_by_one_are_the_run_of_the_whole_grid() {
    let (grid, stop) = (grid(2), AtomicBool::new(false));
    let whole = grid.run(&Sim, 1, &stop, &|_| {}).unwrap();
    let each = |i| FinishedRun::decode(&grid.encoded(&Sim, i, &stop).unwrap()).unwrap();
    let number = |workload: &str, config: &str, rep: u32| {
        let cell = format!("plextor-px-256m5s/{config}/{workload}");
        let first = (0..grid.len()).find(|&i| grid.cell_of(i) == cell)?;
        Some(each(first + rep as usize))
    };
    let gathered = grid.gathered(&Sim, &number).unwrap();
    assert_eq!(gathered.metrics, whole.metrics);
    assert_eq!(grid.lengths().unwrap().len(), grid.len());
    assert_eq!(grid.with(vec!["readers-direct".into()], 1).len(), 3);
}

#[test]
fn a_run_that_fails_of_ctrl_c_was_interrupted() {
    for alone in [true, false] {
        let (error, _) = outcome(&grid(3), (alone, End::Stopped, 5), None);
        assert_eq!(error, RunError::Interrupted { kept: 0, total: 9 });
    }
}
