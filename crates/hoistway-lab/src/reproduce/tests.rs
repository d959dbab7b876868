use super::rows::{NoteKind, note, plain};
use super::*;
use crate::result::published;
use crate::world::World;
use hoistway::Nanos;

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
        let place = Place { out: &folder.0, program, fresh };
        let told = Mutex::new(Vec::new());
        let most = Mutex::new(0);
        let ears = Ears {
            clock: &|| 0.0,
            progress: &|p: pool::Progress| *most.lock().unwrap() = p.total,
            over: &|_, _| {},
        };
        let note = |text: &str| told.lock().unwrap().push(text.to_string());
        let done = plan.run(&place, 2, &stop, &ears, &note).unwrap();
        assert!(done.failed.is_empty(), "{:?}", done.failed);
        let page = tables::markdown(&tables::Comparison::of(&plan, &done));
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
