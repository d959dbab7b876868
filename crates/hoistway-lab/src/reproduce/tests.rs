use super::rows::{NoteKind, note, plain};
use super::*;
use crate::result::published;
use crate::world::World;
use hoistway::{Instant, Nanos};
use hoistway_run::{JobError, Outcome};
use hoistway_sim::world::Job;
use std::sync::atomic::Ordering;

/// The experiment with runs that are over at once.
fn tiny(id: &str) -> Experiment {
    let mut e = Experiment::load(id).unwrap().of_document(Procedure::Sound).unwrap();
    e.longer.clear();
    e.workloads.iter_mut().for_each(|w| w.measured = None);
    e.head_start = e.head_start.min(Nanos::ms(20));
    e.window.ramp = e.window.ramp.min(Nanos::ms(20));
    e.window.measured = Nanos::ms(60);
    e
}

/// Every configuration with one workload, every workload with one configuration, every drive: a run of
/// each pair would take minutes, and what can fail alone is in one of the three.
#[test]
fn every_experiment_runs_with_every_configuration_workload_and_drive() {
    for id in ids() {
        let e = tiny(id);
        let drives: Vec<_> = e.drives.iter().map(|d| DriveFile::load(d).unwrap()).collect();
        let configs: Vec<_> = e.configs.iter().map(|c| Config::parse(c).unwrap()).collect();
        let most = configs.len().max(e.default_workloads.len()).max(drives.len());
        for i in 0..most {
            let drive = &drives[i % drives.len()];
            let config = &configs[i % configs.len()];
            let workload = e.workload(&e.default_workloads[i % e.default_workloads.len()]).unwrap();
            let job = e.job(drive, workload, config, 1, &Options::default()).unwrap();
            let done = Sim.run(&job, &mut |_| true);
            let cell = format!("{id}: {}/{}/{}", drive.id, config.id, workload.id);
            assert!(done.is_ok(), "{cell}: {:?}", done.err());
        }
    }
}

/// A figure that nobody looks for would silently be missing from every table.
#[test]
fn every_published_figure_has_one_of_ours_or_a_reason() {
    for row in published::documents() {
        let id = derived::experiment_of(&row[0]);
        let Ok(e) = Experiment::load(id) else { continue };
        let e = e.of_document(Procedure::Sound).unwrap_or_else(|| panic!("{id} has no [document]"));
        let derived = derived::of(&row, &Results::empty(id)).is_some();
        if derived || note(&row, NoteKind::Unjoined).is_some() {
            continue;
        }
        let joined = published::join(&plain(&row)).unwrap_or_else(|| panic!("not joined: {row:?}"));
        let has = |list: &[String], name: &str| list.iter().any(|x| x == name);
        assert!(has(&e.drives, joined.drive), "{id} has no drive {}", joined.drive);
        assert!(has(&e.configs, joined.config), "{id} has no configuration {}", joined.config);
        let phase =
            ["write", "rand-write", "read", "rand-read", "total"].contains(&joined.workload);
        let known = phase || has(&e.default_workloads, joined.workload);
        assert!(known, "{id} has no workload {}", joined.workload);
    }
}

/// What a reproduction is given and what it gives, on an experiment that takes no time.
#[test]
fn a_plan_is_carried_out_and_what_is_there_is_not_run_again() {
    let folder = crate::result::tests::Folder::new("reproduce");
    let ids = ["fairness-2010".to_string()];
    let plan =
        plan(&ids, Procedure::AsPublished, true, None, "hoistway reproduce fairness-2010").unwrap();
    assert_eq!(plan.experiments[0].grid.reps, QUICK_REPS);
    let stop = AtomicBool::new(false);
    let carry_out = |program: &str, fresh| {
        let place = ReproducePlace { out: &folder.0, program, fresh };
        let told = Mutex::new(Vec::new());
        let most = Mutex::new(0);
        let callbacks = PoolCallbacks {
            clock: &|| 0.0,
            progress: &|p: pool::PoolProgress| *most.lock().unwrap() = p.total,
            over: &|_, _| {},
        };
        let note = |text: &str| told.lock().unwrap().push(text.to_string());
        let done = plan.run(&place, 2, &stop, &callbacks, &note).unwrap();
        assert!(done.failed.is_empty(), "{:?}", done.failed);
        let page = tables::markdown(&tables::PublishedComparison::of(&plan, &done));
        (page, told.into_inner().unwrap(), most.into_inner().unwrap())
    };
    let (page, told, runs) = carry_out("one", false);
    assert_eq!((told.len(), runs), (0, plan.experiments[0].grid.len()));
    assert!(page.contains("| Maxtor STM332061 320GB (fast) | cfq | 2 parallel readers"), "{page}");
    assert!(page.contains("conf99_S"), "of the suite, as published");
    let (again, told, runs) = carry_out("one", false);
    assert_eq!((runs, told.len()), (0, 1), "{told:?}");
    assert_eq!(again, page, "what is read back says the same");
    let (other, told, runs) = carry_out("another build", false);
    assert_eq!((other, told.len(), runs), (page, 0, plan.experiments[0].grid.len()));
}

#[test]
fn what_repeats_no_document_is_refused() {
    let wrong = |id: &str| {
        plan(&[id.to_string()], Procedure::Sound, false, None, "").unwrap_err().to_string()
    };
    assert!(wrong("deadline-2009-ablation").contains("hoistway compare deadline-2009-ablation"));
    assert!(wrong("fairness-2011").contains("did you mean 'fairness-2010'?"));
}

/// Breaks off with a failed assertion where eight processes run.
#[derive(Debug)]
struct Breaking;

impl World for Breaking {
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
        assert!(job.procs.len() != 8, "eight processes");
        Sim.run(job, watch)
    }
}

#[test]
fn an_experiment_that_breaks_off_does_not_keep_the_others_from_ending() {
    let folder = crate::result::tests::Folder::new("breaking");
    let ids = ["randread-2018", "fairness-2010"].map(String::from);
    let plan = plan(&ids, Procedure::AsPublished, true, None, "").unwrap();
    let kept: Vec<Kept> =
        ids.iter().map(|id| Kept::open(&folder.0.join(id), "key", false).unwrap().0).collect();
    let entries: Vec<PoolEntry<'_>> = plan
        .experiments
        .iter()
        .zip(&kept)
        .map(|(planned, kept)| PoolEntry { grid: &planned.grid, kept })
        .collect();
    let ends = Mutex::new(Vec::new());
    let over = |n: usize, run: Result<Run, RunError>| {
        ends.lock().unwrap().push((n, run.map(|r| r.cells.len()).map_err(|e| e.to_string())));
    };
    let callbacks = PoolCallbacks { clock: &|| 0.0, progress: &|_| {}, over: &over };
    assert!(pool::run(&entries, &Breaking, 2, &AtomicBool::new(false), &callbacks));
    let mut ends = ends.into_inner().unwrap();
    ends.sort_by_key(|e| e.0);
    let [(0, Err(what)), (1, Ok(cells))] = &ends[..] else { panic!("{ends:?}") };
    assert!(what.contains("randread-2018") || what.contains("8r-rand"), "{what}");
    assert!(what.contains("eight processes") && what.contains("an error in hoistway"), "{what}");
    assert_eq!(*cells, plan.experiments[1].grid.len() / QUICK_REPS as usize);
}

#[test]
fn an_interrupted_reproduction_goes_on_to_the_same_tables() {
    let ids = ["fairness-2010".to_string()];
    let plan = plan(&ids, Procedure::AsPublished, true, None, "").unwrap();
    let carry_out = |folder: &Path, until: usize| {
        let stop = AtomicBool::new(false);
        let progress = |p: pool::PoolProgress| stop.store(p.done >= until, Ordering::Relaxed);
        let callbacks = PoolCallbacks { clock: &|| 0.0, progress: &progress, over: &|_, _| {} };
        let place = ReproducePlace { out: folder, program: "one", fresh: false };
        let done = plan.run(&place, 1, &stop, &callbacks, &|_| {});
        done.map(|done| tables::all_csv(&tables::PublishedComparison::of(&plan, &done)))
    };
    let (whole, cut) = ["whole", "cut"].map(crate::result::tests::Folder::new).into();
    let total = plan.experiments[0].grid.len();
    let expected = carry_out(&whole.0, usize::MAX).unwrap();
    let stopped = carry_out(&cut.0, 2).unwrap_err();
    assert_eq!(stopped, RunError::Interrupted { kept: 2, total });
    assert_eq!(carry_out(&cut.0, usize::MAX).unwrap(), expected);
}
