//! Experiments on real storage: what is counted fits together, and data that is not what was written is
//! found.
#![cfg(target_os = "linux")]

use hoistway::sched;
use hoistway::{IoPrio, Nanos};
use hoistway_machine::MachineError;
use hoistway_machine::engine::{Storage, StorageTarget};
use hoistway_run::{
    ControlSpec, JobError, Outcome, ProcSpec, Role, SchedulerSpec, TraceMode, Window,
};
use hoistway_serve::ServeError;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::Job;
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A file of this test alone, deleted at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, size: u64) -> Scratch {
        let path = std::env::temp_dir().join(format!("hoistway-lab-{}-{name}", std::process::id()));
        File::create(&path).unwrap().set_len(size).unwrap();
        Scratch(path)
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.0).unwrap()
    }

    fn storage(&self) -> Storage {
        Storage::open(&StorageTarget::File(self.0.clone()), None).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const MIB: u64 = 1 << 20;

fn process(name: &str, role: Role, load: &str, params: &str) -> ProcSpec {
    ProcSpec {
        name: name.into(),
        role,
        group: None,
        prio: IoPrio::NONE,
        start: Nanos::ZERO,
        load: load.into(),
        params: params.parse().unwrap(),
    }
}

fn job<'a>(drive: &'a DriveFile, scheduler: &str, ms: u64, procs: Vec<ProcSpec>) -> Job<'a> {
    let profile = match hoistway::sched::find(scheduler).unwrap().profile {
        hoistway::Profile::Legacy => "2012",
        hoistway::Profile::MultiQueue => "2019",
    };
    Job {
        drive: Cow::Borrowed(drive),
        host: HostConfig::profile(profile).unwrap(),
        scheduler: SchedulerSpec {
            entry: sched::find(scheduler).expect("it is registered"),
            set: Vec::new(),
            queue: Vec::new(),
        },
        control: ControlSpec::default(),
        groups: Vec::new(),
        procs,
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::ms(ms),
            grace: Nanos::secs(20),
            target_interval: Nanos::ms(100),
            device_interval: Nanos::ms(100),
        },
        seed: 1,
        trace: TraceMode::Off,
    }
}

fn run(storage: &Storage, job: &Job<'_>) -> Result<Outcome, JobError> {
    storage.run(job, &mut |_| true)
}

#[test]
fn every_load_runs_on_a_file_under_schedulers_of_both_generations() {
    let scratch = Scratch::new("loads", 700 * MIB);
    let storage = scratch.storage();
    let drive = storage.drive().unwrap();
    for scheduler in ["none", "bfq", "mq-deadline", "cfq"] {
        let size = "size = \"2 MiB\"";
        let procs = vec![
            process("target", Role::Target, "reader", &format!("pattern = \"rand\"\n{size}")),
            process("seq", Role::Interferer, "reader", size),
            process("direct", Role::Interferer, "reader", &format!("direct = true\n{size}")),
            process("raw", Role::Interferer, "reader", &format!("raw = true\n{size}")),
            process("synced", Role::Interferer, "writer", &format!("dsync = 3\n{size}")),
            process(
                "lazy",
                Role::Interferer,
                "writer",
                &format!("dsync = 0\nbs = \"64k\"\n{size}"),
            ),
            process(
                "fresh",
                Role::Interferer,
                "writer",
                &format!("fsync = true\npattern = \"rand\"\nnew_file = true\n{size}"),
            ),
            process(
                "small",
                Role::Interferer,
                "writer",
                &format!("direct = true\nbs = 512\n{size}"),
            ),
            process(
                "probe",
                Role::Interferer,
                "sporadic_probe",
                &format!("interval = \"5 ms\"\n{size}"),
            ),
            process(
                "deep",
                Role::Interferer,
                "reader",
                &format!("direct = true\ndepth = 8\npattern = \"rand\"\n{size}"),
            ),
            process(
                "deep-writer",
                Role::Interferer,
                "writer",
                &format!("direct = true\ndepth = 4\ndsync = 5\nbs = \"8k\"\n{size}"),
            ),
            process("tester", Role::Interferer, "fsync_tester", "pause = \"5 ms\""),
            process("dd", Role::Interferer, "ddloop", "bs = \"1 MiB\"\nsize = \"4 MiB\""),
        ];
        let job = job(drive, scheduler, 700, procs);
        storage.check(std::slice::from_ref(&job)).unwrap();
        let outcome = run(&storage, &job).unwrap();
        for p in &outcome.procs {
            println!("{scheduler} {}: {} I/Os", p.name, p.ios);
            assert!(p.latency.count() > 0 || p.starved > Nanos::ms(300), "{scheduler} {}", p.name);
            assert_eq!(p.intervals.iter().map(|i| i.bytes).sum::<u64>(), p.bytes);
        }
        let device = &outcome.device;
        assert!(device.read_bytes > 0 && device.written_bytes > 0 && device.flushes > 0);
    }
}

#[test]
fn direct_io_is_counted_alike_by_processes_and_device() {
    let storage = Storage::open(&StorageTarget::Emulated, None).unwrap();
    let drive = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let (bs, n) = (16 * 1024, 4);
    let params = |writes| format!("direct = true\nbs = {bs}\nsize = \"8 MiB\"{writes}");
    let mut procs = vec![process("target", Role::Target, "reader", &params(""))];
    for i in 0..n - 1 {
        let writes = params("\ndsync = 0");
        procs.push(process(&format!("writer{i}"), Role::Interferer, "writer", &writes));
    }
    let job = job(&drive, "mq-deadline", 1000, procs);
    if let Err(error @ MachineError::Serve(ServeError::TooFast { .. })) =
        storage.check(std::slice::from_ref(&job))
    {
        return println!("skipped: {error}");
    }
    let outcome = run(&storage, &job).unwrap();
    let of =
        |role| outcome.procs.iter().filter(move |p| p.role == role).map(|p| p.bytes).sum::<u64>();
    let (read, written) = (of(Role::Target), of(Role::Interferer));
    // At either border of the window one I/O of each process may be done at the device only.
    let slack = 2 * n * bs;
    let device = &outcome.device;
    assert!(read > 0 && read.abs_diff(device.read_bytes) <= slack, "{read} {}", device.read_bytes);
    // The journal writes too.
    let journal = outcome.host_figures.iter().find(|f| f.name == "journal_blocks").unwrap().value;
    let journal = journal as u64 * 4096;
    assert!(device.written_bytes + slack >= written, "{written} {}", device.written_bytes);
    assert!(
        device.written_bytes <= written + journal + slack,
        "{written} {}",
        device.written_bytes
    );
    let figure = |name: &str| {
        let figure = outcome.host_figures.iter().find(|f| f.name == name);
        figure.unwrap_or_else(|| panic!("no figure {name}")).value
    };
    let commands = figure("emulation_commands") as u64;
    assert!(commands > 0 && commands <= outcome.commands_total);
    assert!(figure("emulation_achieved_mean_ns") >= figure("emulation_modelled_mean_ns"));
}

/// Reads all of its file over and over.
fn reader() -> Vec<ProcSpec> {
    vec![process("target", Role::Target, "reader", "size = \"1 MiB\"\nbs = \"64k\"")]
}

/// Overwrites the very file.
fn writer() -> Vec<ProcSpec> {
    vec![process("target", Role::Target, "writer", "size = \"1 MiB\"\nbs = \"64k\"\ndirect = true")]
}

/// Files begin at the start of such a disk.
fn contents(file: &File) -> Vec<u8> {
    let mut all = vec![0; MIB as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    all
}

/// Runs again and again, until the process has had `bytes` done in one run: a window of real time may be
/// over before it has, where the machine is held up.
fn carry_out(storage: &Storage, job: &Job<'_>, bytes: u64) {
    let mut done = 0;
    for _ in 0..20 {
        done = run(storage, job).unwrap().procs[0].bytes;
        if done >= bytes {
            return;
        }
    }
    panic!("{done} of {bytes} bytes in the last of 20 runs");
}

/// What a run that reads all of its file ends with.
fn told(storage: &Storage, reading: &Job<'_>) -> String {
    for _ in 0..20 {
        match run(storage, reading) {
            Err(JobError::Storage { what }) => return what,
            Ok(outcome) if outcome.procs[0].bytes < MIB => {}
            other => panic!("nothing was found: {:?}", other.map(|o| o.procs)),
        }
    }
    panic!("no run of 20 has come to the end of the file");
}

#[test]
fn damaged_and_lost_data_end_a_run_with_the_sector() {
    let scratch = Scratch::new("damage", 400 * MIB);
    let storage = scratch.storage();
    let drive = storage.drive().unwrap();
    let (reading, writing) = (job(drive, "none", 300, reader()), job(drive, "none", 300, writer()));
    carry_out(&storage, &reading, MIB);
    let file = scratch.open();
    let laid_out = contents(&file);
    assert!(laid_out.chunks(512).all(|sector| sector.iter().any(|&b| b != 0)));

    carry_out(&storage, &writing, 1);
    // What was written is read.
    carry_out(&storage, &reading, MIB);
    let good = contents(&file);
    assert_ne!(good, laid_out);

    // One bit.
    let mut bad = good.clone();
    bad[300_000] ^= 4;
    file.write_all_at(&bad, 0).unwrap();
    let what = told(&storage, &reading);
    assert!(
        what.contains(&format!("sector {} of the device holds damaged data", 300_000 / 512)),
        "{what}"
    );

    // A write that never reached the storage.
    file.write_all_at(&laid_out, 0).unwrap();
    let what = told(&storage, &reading);
    assert!(what.contains("sector 0 of the device holds write 4; it must hold write"), "{what}");

    // Two sectors in each other's place.
    let mut bad = good.clone();
    bad[512..1024].copy_from_slice(&good[1024..1536]);
    file.write_all_at(&bad, 0).unwrap();
    let what = told(&storage, &reading);
    assert!(
        what.contains("sector 1 of the device holds write") && what.contains("of sector 2"),
        "{what}"
    );

    file.write_all_at(&good, 0).unwrap();
    carry_out(&storage, &reading, MIB);
}

#[test]
fn a_file_cut_under_a_run_is_an_error_of_the_run() {
    let scratch = Scratch::new("cut", 400 * MIB);
    let storage = scratch.storage();
    let drive = storage.drive().unwrap();
    let reading = job(drive, "none", 300, reader());
    assert!(run(&storage, &reading).is_ok());
    scratch.open().set_len(0).unwrap();
    let what = told(&storage, &reading);
    assert!(what.contains("empty") || what.contains("failed on the storage"), "{what}");
}

#[test]
fn interrupted_runs_end_at_once_and_the_storage_can_be_used_again() {
    let scratch = Scratch::new("interrupt", 400 * MIB);
    let storage = scratch.storage();
    let drive = storage.drive().unwrap();
    let mut procs = writer();
    procs.push(process("lazy", Role::Interferer, "writer", "size = \"4 MiB\"\ndsync = 0"));
    let long = job(drive, "bfq", 3_600_000, procs);
    let mut asked = 0;
    let result = storage.run(&long, &mut |now| {
        asked += 1;
        asked < 3 || now < hoistway::Instant::ZERO + Nanos::ms(100)
    });
    assert_eq!(result.err(), Some(JobError::Interrupted));
    assert!(asked >= 3);
    assert!(run(&storage, &job(drive, "none", 200, reader())).is_ok());
}

#[test]
fn a_file_must_be_empty_or_ours_or_given_up() {
    let scratch = Scratch::new("foreign", 400 * MIB);
    let place = StorageTarget::File(scratch.0.clone());
    let reading = |storage: &Storage| {
        let drive = storage.drive().unwrap().clone();
        run(storage, &job(&drive, "none", 100, reader())).map(drop)
    };
    reading(&scratch.storage()).unwrap();
    // Ours: accepted again, and one at a time.
    let first = scratch.storage();
    let error = Storage::open(&place, None).unwrap_err().to_string();
    assert!(error.contains("another program has locked it"), "{error}");
    drop(first);
    scratch.open().write_all_at(b"a letter", 100 * MIB).unwrap();
    let error = Storage::open(&place, None).unwrap_err().to_string();
    assert!(error.contains("holds data that no run has written"), "{error}");
    let mut letter = [0; 8];
    scratch.open().read_exact_at(&mut letter, 100 * MIB).unwrap();
    assert_eq!(&letter, b"a letter", "nothing was touched");
    let other = std::env::temp_dir();
    let error = Storage::open(&place, Some(&other)).unwrap_err().to_string();
    assert!(error.contains("is not the target"), "{error}");
    reading(&Storage::open(&place, Some(&scratch.0)).unwrap()).unwrap();
    let small = Scratch::new("small", MIB);
    let error = Storage::open(&StorageTarget::File(small.0.clone()), None).unwrap_err().to_string();
    assert!(error.contains("make it at least"), "{error}");
    let error =
        Storage::open(&StorageTarget::Device(small.0.clone()), None).unwrap_err().to_string();
    assert!(error.contains("is not a block device"), "{error}");
}
