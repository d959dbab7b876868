//! A directory or device of this machine under the kernel's own schedulers.
//!
//! Compared is what somebody can have by choosing: every scheduler that the device's queue offers, as the kernel sets it
//! up, and of hoistway's module, where it is loaded, those that are meant for today's drives. Where write-back throttling
//! is on, as in most kernels, choosing a scheduler other than BFQ leaves it on; so the configurations have it
//! (`mq-deadline+wbt`), and the present one is among them.

use super::Bench;
use crate::common::lists::chosen;
use crate::failure::{Failure, directory_failure, refused};
use hoistway::sched::of_module;
use hoistway_lab::bench::plan::{BenchSubject, Level, Rates};
use hoistway_lab::bench::record::{Carried, SCHEMA, may_write};
use hoistway_lab::bench::setting::{
    Setting, USUAL, also, limited, named, share_configs, usual_place,
};
use hoistway_lab::bench::subject;
use hoistway_lab::bench::suite::{SUITE, Under};
use hoistway_lab::config::{Config, replaces_wbt};
use hoistway_lab::experiment::{Experiment, Options};
use hoistway_lab::recommend::install::kernel_tunables;
use hoistway_lab::world::{Kernel, World, WorldError};
use hoistway_machine::kernel::{
    Machine, MachineOptions, Probed, Queue, Traffic, Volume, VolumeTarget, Watch, resolve,
};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// Others' I/O is looked for so long before anything runs.
const LOOK: Duration = Duration::from_millis(500);

pub fn setting(options: &Bench, path: &Path) -> Result<Setting, Failure> {
    let target = target(path)?;
    let failed = |e: hoistway_machine::MachineError| refused(WorldError::from(e));
    let place = resolve(&target).map_err(failed)?;
    usable(&place)?;
    let watch = Watch::begin(&place);
    let what = crate::common::process::arguments();
    let destroy = options.yes_destroy_data.clone();
    let machine = MachineOptions { destroy, what, ..MachineOptions::default() };
    // What it lacks is found out by trying, which changes the machine for a moment.
    crate::common::process::stop_flag()?;
    let machine = Machine::open(&target, machine).map_err(failed)?;
    let identity = place.queues[0].identity();
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let shown = place.path.display().to_string();
    let name = shown.trim_matches('/').replace('/', "-");
    let target = format!("{shown} {} {identity:?}", place.queues[0].name);
    let carried = match root && !options.dry_run {
        true => Some(carried(options, &machine, &name, &target)?),
        // What a run before has measured, it would not measure again.
        false => known(options, &name, &target),
    };
    let assumed = subject::rates_of(&identity.class);
    let (drive, turns) = match &carried {
        Some(c) => subject::as_it_reads(machine.drive(), c.random_reads),
        None => (machine.drive().clone(), None),
    };
    let subject = BenchSubject {
        drive,
        rates: carried
            .as_ref()
            .map_or(assumed, |c| Rates { read: c.read, write: c.write.unwrap_or(assumed.write) }),
        overhead: hoistway::Nanos::ms(if identity.rotational == Some(true) { 1500 } else { 700 }),
        real: true,
        // There is nothing to wear.
        wears: !is_emulated(&place),
        prepares: place.is_dir || options.yes_destroy_data.is_some(),
    };
    let world = Kernel(machine);
    let throttles = place.queues.iter().all(throttles);
    let present = present(&place.queues[0], throttles);
    let given = chosen(&options.config, &[], "configuration")?;
    let also = More {
        level: options.level(),
        carried: carried.as_ref(),
        changes: !options.dry_run,
        given: &given,
    };
    let (configs, lacks) = configs(&world, &subject, &place, &also, (&present, throttles));
    std::thread::sleep(LOOK);
    let mut rows = vec![("present_config".to_string(), present.clone())];
    rows.extend(carried.iter().flat_map(rates_rows));
    rows.extend(lacks.iter().map(|(id, why)| ("lacking".to_string(), format!("{id}: {why}"))));
    let mut about: Vec<String> = place.describe().lines().map(String::from).collect();
    about.extend(changes(&place, &present));
    about.push(rates_line(carried.as_ref(), &subject));
    about.extend(turns);
    let quiet = watch.end(|| Some(Traffic::default()));
    about.extend(quiet.flags.iter().map(|flag| format!("note: {flag}")));
    let (world, assumed, named) = (Box::new(world), carried.is_none(), shown);
    Ok(Setting {
        name,
        named,
        target,
        about,
        present,
        configs,
        lacks,
        rows,
        root,
        assumed,
        subject,
        world,
    })
}

/// Where the bench is kept.
fn folder(options: &Bench, name: &str) -> std::path::PathBuf {
    let usual = || usual_place("kernel", name, options.level());
    options.out.clone().unwrap_or_else(usual)
}

/// What the place carried when the bench in the folder began.
fn known(options: &Bench, name: &str, target: &str) -> Option<Carried> {
    Carried::read(&folder(options, name), target).filter(|_| !options.fresh)
}

/// What the place carries: as measured when the bench in the folder began, or now.
fn carried(
    options: &Bench,
    machine: &Machine,
    name: &str,
    target: &str,
) -> Result<Carried, Failure> {
    may_write(&folder(options, name)).map_err(directory_failure)?;
    if let Some(known) = known(options, name, target) {
        return Ok(known);
    }
    let out = folder(options, name);
    let Probed { read, write, random_reads } =
        machine.probe().map_err(|e| refused(WorldError::from(e)))?;
    let found = Carried { schema: SCHEMA, target: target.into(), read, write, random_reads };
    found.write(&out).map_err(|e| Failure::Environment(e.to_string()))?;
    Ok(found)
}

fn rates_rows(carried: &Carried) -> Vec<(String, String)> {
    let mut rows = vec![("measured_read".to_string(), format!("{} B/s", carried.read))];
    rows.extend(carried.write.map(|w| ("measured_write".to_string(), format!("{w} B/s"))));
    rows.push(("measured_random_reads".into(), format!("{}/s", carried.random_reads)));
    rows
}

fn rates_line(carried: Option<&Carried>, subject: &BenchSubject) -> String {
    let mb = |rate: u64| format!("{} MB/s", rate.div_ceil(1_000_000));
    let wear = if subject.wears {
        ""
    } else {
        "; an emulated drive does not wear, so writes have no limit"
    };
    match carried {
        Some(c) => format!(
            "measured: reads {}{}, {} random reads/s{wear}",
            mb(c.read),
            c.write.map_or_else(String::new, |w| format!(", writes {}", mb(w))),
            c.random_reads
        ),
        None => format!(
            "assumed for its class: reads {}, writes {}; a run measures them first{wear}",
            mb(subject.rates.read),
            mb(subject.rates.write)
        ),
    }
}

fn target(path: &Path) -> Result<VolumeTarget, Failure> {
    let shown = path.display();
    let meta = std::fs::metadata(path).map_err(|e| {
        Failure::Usage(format!(
            "{shown}: {e}; name a directory, a device, or a simulated drive with --drive"
        ))
    })?;
    match (meta.is_dir(), meta.file_type().is_block_device()) {
        (true, _) => Ok(VolumeTarget::Dir(path.into())),
        (_, true) => Ok(VolumeTarget::Device(path.into())),
        _ => Err(Failure::Usage(format!("{shown} is neither a directory nor a block device"))),
    }
}

/// What does not allow a bench, whatever the rights.
fn usable(place: &Volume) -> Result<(), Failure> {
    let shown = place.path.display();
    if place.read_only() {
        let what = format!("{shown}: its file system is mounted read-only; name another directory");
        return Err(Failure::Environment(what));
    }
    let uses = if place.is_dir { Vec::new() } else { place.in_use() };
    if uses.is_empty() {
        return Ok(());
    }
    Err(Failure::Environment(format!(
        "{shown} is in use: {}; bench a directory on it instead",
        uses.join(", ")
    )))
}

/// Write-back throttling is on.
fn throttles(queue: &Queue) -> bool {
    let target = queue.attribute("wbt_lat_usec").and_then(|v| v.parse::<i64>().ok());
    // BFQ switches it off while it is there.
    target.is_some_and(|us| us > 0)
        || (target.is_some() && queue.scheduler().is_ok_and(|s| replaces_wbt(ours(&s))))
}

/// Our name of a scheduler in a queue. Twins of the kernel's own keep theirs, which is no configuration's.
fn ours(scheduler: &str) -> &str {
    of_module(scheduler).map(|e| e.name).filter(|name| !USUAL.contains(name)).unwrap_or(scheduler)
}

/// What is in force, as a configuration.
fn present(queue: &Queue, throttles: bool) -> String {
    let scheduler = queue.scheduler().unwrap_or_else(|_| "none".into());
    named(ours(&scheduler), throttles)
}

/// What decides about configurations beside the schedulers.
struct More<'a> {
    level: Level,
    carried: Option<&'a Carried>,
    /// The machine may be changed to find out what it has.
    changes: bool,
    /// Configurations that were named.
    given: &'a [String],
}

/// Schedulers of hoistway's module that are compared when none are named: a round of all of them takes longer than a bench.
const OF_MODULE: &[&str] = &["paternoster", "adios"];

/// Of what a queue offers, by our names, what is compared beside the usual.
fn beyond(offered: &[String]) -> Vec<&'static str> {
    let entries = offered.iter().filter_map(|s| of_module(s));
    entries.map(|e| e.name).filter(|name| OF_MODULE.contains(name)).collect()
}

/// The configurations that can run, and those that cannot, with the reason.
fn configs(
    world: &Kernel,
    subject: &BenchSubject,
    place: &Volume,
    more: &More<'_>,
    (present, throttles): (&str, bool),
) -> (Vec<String>, Vec<(String, String)>) {
    let mut wanted: Vec<String> = USUAL.iter().map(|s| named(s, throttles)).collect();
    // What the queue offers beyond.
    let offered = place.queues[0].schedulers().unwrap_or_default();
    wanted.extend(beyond(&offered).into_iter().map(|s| named(s, throttles)));
    wanted.extend(also(more.level));
    let mut lacks = Vec::new();
    match more.carried {
        Some(c) => {
            let write = c.write.unwrap_or(subject.rates.write);
            wanted.extend(limited(more.level, c.read, write, throttles));
        }
        None if more.level != Level::Quick => {
            let why = "its limits are parts of the drive's rates, which a run measures first";
            lacks.push(("max-none".to_string(), why.to_string()));
        }
        None => {}
    }
    let mut can_run =
        |id: &String, under: Under| match lacking(world, subject, id, (under, more.changes)) {
            None => true,
            Some(why) => {
                lacks.push((id.clone(), why));
                false
            }
        };
    wanted.retain(|id| can_run(id, Under::Whole));
    for id in share_configs(present) {
        can_run(&id, Under::Shares);
    }
    // Those that were named are asked last, so that what is said of the others does not depend on them.
    for id in more.given.iter().filter_map(|text| Some(Config::parse(text).ok()?.id)) {
        if !wanted.contains(&id) {
            can_run(&id, Under::Whole);
        }
    }
    lacks.dedup();
    (wanted, lacks)
}

/// Why a configuration cannot run here.
fn lacking(
    world: &Kernel,
    subject: &BenchSubject,
    id: &str,
    (under, changes): (Under, bool),
) -> Option<String> {
    let config = Config::parse(id).ok()?;
    let part = SUITE.iter().find(|p| p.configs == under)?;
    let experiment = Experiment::load(part.experiment).ok()?;
    let workload = experiment.workload(part.workload)?;
    let mut job = experiment.job(&subject.drive, workload, &config, 1, &Options::default()).ok()?;
    // Whether a scheduler has a tunable is found by choosing it. Where nothing may be changed, what Linux is known to
    // have must do.
    if !changes {
        let name = job.scheduler.entry.name;
        // What is not the kernel's is the module's, which has all that ours has.
        let missing = kernel_tunables(name)
            .and_then(|known| job.scheduler.set.iter().find(|(t, _)| !known.contains(&t.as_str())));
        if let Some((missing, _)) = missing {
            return Some(format!("Linux's {name} has no tunable {missing}"));
        }
        job.scheduler.set.clear();
    }
    world.lacks(&job).map(|lack| lack.to_string())
}

/// What is changed and put back.
fn changes(place: &Volume, present: &str) -> Vec<String> {
    let names: Vec<&str> = place.queues.iter().map(|q| q.name.as_str()).collect();
    let mut lines = vec![format!(
        "now: {present}; while it runs the scheduler of {} and its settings change, and groups are made; at the end \
         everything is put back (after a crash: hoistway restore)",
        names.join(", ")
    )];
    lines.push(match place.is_dir {
        true => "files are made in a folder of its own, which is deleted at the end".into(),
        false => "the device is read, and written to only if --yes-destroy-data names it".into(),
    });
    lines
}
/// Whether all storage of a place is drives of emulators. A build without the emulator knows none.
#[cfg(feature = "fuse")]
fn is_emulated(place: &Volume) -> bool {
    hoistway_machine::emulator::is_emulated(place)
}

#[cfg(not(feature = "fuse"))]
fn is_emulated(_place: &Volume) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_s_schedulers_of_today_are_compared_by_our_names() {
        let offered = "none mq-deadline bfq h-bfq zoccolo sio cfq adios paternoster nobody's";
        let offered: Vec<String> = offered.split(' ').map(String::from).collect();
        assert_eq!(beyond(&offered), ["adios", "paternoster"]);
        assert_eq!(beyond(&offered[..3]), Vec::<&str>::new());
        assert_eq!((ours("zoccolo"), ours("paternoster")), ("deadline-zoccolo", "paternoster"));
        assert_eq!((ours("h-bfq"), ours("bfq")), ("h-bfq", "bfq"));
    }
}
