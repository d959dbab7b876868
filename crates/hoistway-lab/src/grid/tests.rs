use super::*;
use crate::registry::Registry;
use crate::run::breaks::BREAKS;

fn silent(_: &str) {}

fn validation() -> Plan {
    Plan::of(Experiment::load("validation").unwrap())
        .drives(["plextor-px-256m5s"])
        .workloads(["readers-direct"])
        .reps(2)
}

fn command(plan: &Plan) -> String {
    plan.grid(&mut silent).unwrap().command
}

fn error(plan: &Plan) -> String {
    plan.grid(&mut silent).unwrap_err().to_string()
}

#[test]
fn the_command_names_everything_that_matters() {
    let plan = validation().configs(["none,bfq"]).seed(7);
    assert_eq!(
        command(&plan),
        "hoistway compare validation --config none,bfq --drive plextor-px-256m5s --workload readers-direct --reps 2 \
         --seed 7"
    );
    let plan = plan.configs(["bfq{low_latency=0}"]).named("run", "./my.toml");
    let plan = plan.duration(Some("1s")).faults(["pause_every_ms=2s", "pause_ms=200ms"]);
    assert_eq!(
        command(&plan),
        "hoistway run ./my.toml 'bfq{low_latency=0}' --drive plextor-px-256m5s --faults \
         pause_every_ms=2s,pause_ms=200ms --workload readers-direct --reps 2 --seed 1 --duration '1s'"
            .replace("--seed 1", "--seed 7")
    );
}

#[test]
fn a_world_with_a_drive_of_its_own_is_named_in_place_of_drives() {
    let drive = DriveFile::load("samsung-970-pro").unwrap();
    let plan = validation().configs(["none"]).quick(true);
    let plan = plan.world(" --on kernel --device '/dev/sdx'".into(), Some(drive));
    let grid = plan.grid(&mut silent).unwrap();
    assert_eq!(grid.drives[0].id, "samsung-970-pro");
    assert_eq!(
        grid.command,
        "hoistway compare validation --config none --on kernel --device '/dev/sdx' --workload readers-direct --reps 2 \
         --seed 1 --quick"
    );
    assert!(error(&plan.faults(["pause_ms=1"])).starts_with("faults are of simulated drives"));
}

#[test]
fn what_is_not_said_is_the_experiments() {
    let experiment = Experiment::load(USUAL).unwrap();
    let grid = Plan::of(experiment.clone()).grid(&mut silent).unwrap();
    assert_eq!((grid.reps, grid.seed), (experiment.reps, 1));
    assert_eq!(grid.workloads, experiment.default_workloads);
    assert_eq!(grid.configs.len(), experiment.configs.len());
    let first = Plan::of(experiment).first_look().grid(&mut silent).unwrap();
    let ids: Vec<&str> = first.configs.iter().map(|c| c.id.as_str()).collect();
    assert_eq!((first.reps, &ids[..]), (FIRST_REPS, FIRST));
}

#[test]
fn what_cannot_be_is_told_before_anything_runs() {
    let plan = validation().configs(["none"]);
    for (plan, told) in [
        (plan.clone().configs(["none,none"]), "configuration 'none' is given twice"),
        (plan.clone().configs(["bfq,bfq+wbt"]).wbt(true), "configuration 'bfq+wbt' is given twice"),
        (plan.clone().configs(["bqf"]), "no configuration 'bqf'; did you mean 'bfq'?"),
        (plan.clone().workloads(["readers-direct,"]), "an empty workload name in the list"),
        (plan.clone().workloads(["readers-dirct"]), "did you mean 'readers-direct'?"),
        (plan.clone().drives(["samsung"]), "samsung"),
        (plan.clone().faults(["pause_ms"]), "--faults: 'pause_ms' has no '='"),
        (plan.clone().duration(Some("25h")), "--duration: 25h must be above 0 and at most 24h"),
        (plan.clone().duration(Some("0s")), "--duration: 0s must be above 0 and at most 24h"),
    ] {
        let error = error(&plan);
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn configurations_name_the_schedulers_that_are_known() {
    let plan = validation().configs(["breaks"]);
    assert!(error(&plan).starts_with("no configuration 'breaks'"));
    let mut registry = Registry::default();
    registry.add_scheduler(&BREAKS).unwrap();
    let grid = plan.registry(&registry).grid(&mut silent).unwrap();
    assert_eq!(grid.configs[0].scheduler.name, "breaks");
}
