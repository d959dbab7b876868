use super::*;
use crate::config::tests::ENTRIES;
use crate::registry::Registry;

fn latency() -> Experiment {
    Experiment::load("latency-2019").unwrap()
}

fn config(text: &str) -> Config {
    Config::parse_with(text, ENTRIES).unwrap()
}

#[test]
fn every_embedded_experiment_is_valid() {
    for id in Experiment::ids() {
        let e = Experiment::load(id).unwrap();
        assert_eq!(e.id, id);
        let document = e.document.iter().flat_map(|d| &d.drives);
        for drive in e.drives.iter().chain(document) {
            DriveFile::load(drive).unwrap();
        }
    }
}

#[test]
fn latency_2019_is_the_published_setup() {
    let e = latency();
    let plextor = DriveFile::load("plextor-px-256m5s").unwrap();
    let workload = e.workload("writers").unwrap();
    let job = e.job(&plextor, workload, &config("none-bfq"), 3, &Options::default()).unwrap();
    assert_eq!((job.procs.len(), job.seed), (16, 3));
    let target = &job.procs[0];
    assert_eq!((target.role, target.prio), (Role::Target, IoPrio::rt(4)));
    assert_eq!(target.start, Nanos::ms(200));
    assert_eq!((job.procs[1].name.as_str(), job.procs[15].name.as_str()), ("writer0", "writer14"));
    assert_eq!(job.procs[15].start, Nanos::us(42), "3 us apart");
    assert_eq!(job.procs[15].prio, IoPrio::NONE);
    assert_eq!((job.window.measured, job.window.grace), (Nanos::secs(2), Nanos::secs(60)));
}

#[test]
fn the_hard_disk_without_control_is_measured_for_ten_seconds() {
    let e = latency();
    let hdd = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let readers = e.workload("readers").unwrap();
    let window = |c: &str, o: Options| e.window(&hdd, readers, &config(c), &o).measured;
    assert_eq!(window("none-none", Options::default()), Nanos::secs(10));
    assert_eq!(window("none-bfq", Options::default()), Nanos::secs(2));
    assert_eq!(window("mq-deadline{fifo_batch=8}", Options::default()), Nanos::secs(10));
    let quick = Options { quick: true, ..Options::default() };
    assert_eq!(window("none-none", quick), Nanos::ms(2500));
    assert_eq!(window("none-bfq", quick), Nanos::secs(1), "not below 1 s");
    let minute = Options { duration: Some(Nanos::secs(60)), ..Options::default() };
    assert_eq!(window("none-none", minute), Nanos::secs(60));
}

/// The class that the file gives holds under any configuration, none-bfq's own rule included.
#[test]
fn a_file_gives_any_process_an_io_class() {
    let own = |target: &str, writer: &str| {
        let text = latency().text.replacen("[target]", &format!("[target]\n{target}"), 1);
        let text = text.replacen("name = \"writer\"", &format!("name = \"writer\"\n{writer}"), 1);
        Experiment::parse("own.toml", &text).unwrap()
    };
    let plextor = DriveFile::load("plextor-px-256m5s").unwrap();
    let prios = |e: &Experiment, c: &str| {
        let workload = e.workload("writers").unwrap();
        let job = e.job(&plextor, workload, &config(c), 1, &Options::default()).unwrap();
        assert!(job.procs[1..].iter().all(|p| p.prio == job.procs[1].prio));
        (job.procs[0].prio, job.procs[1].prio)
    };
    for c in ["none-none", "none-bfq", "mq-deadline"] {
        let e = own("prio = \"idle\"", "prio = \"rt/2\"");
        assert_eq!(prios(&e, c), (IoPrio::idle(), IoPrio::rt(2)), "{c}");
    }
    let e = own("", "prio = \"be/7\"");
    assert_eq!(
        prios(&e, "none-bfq"),
        (IoPrio::rt(4), IoPrio::be(7)),
        "the policy's where none is given"
    );
    assert_eq!(prios(&own("prio = \"rt\"", ""), "none-none"), (IoPrio::rt(4), IoPrio::NONE));
    assert_eq!(prios(&own("prio = \"none\"", ""), "none-bfq"), (IoPrio::NONE, IoPrio::NONE));
}

#[test]
fn a_workload_may_bring_its_own_target() {
    let e = latency();
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let sporadic = e.workload("sporadic").unwrap();
    let job = e.job(&drive, sporadic, &config("none"), 1, &Options::default()).unwrap();
    assert_eq!(job.procs[0].load, "sporadic_probe");
    assert_eq!(job.window.measured, Nanos::secs(10));
}

/// Replaces one piece of the embedded file and returns the complaint.
fn complaint(from: &str, to: &str) -> String {
    let text = latency().text;
    assert!(text.contains(from), "{from}");
    let error = Experiment::parse("my/own.toml", &text.replacen(from, to, 1)).unwrap_err();
    error.to_string()
}

#[test]
fn every_mistake_has_file_line_and_advice() {
    let text = latency().text;
    let line = |of: &str| 1 + text[..text.find(of).unwrap()].matches('\n').count();
    let cases = [
        ("reps = 10", "reps = 0", "reps = 10", "reps = 0 must be a whole number in 1..=10000"),
        ("reps = 10", "rep = 10", "reps = 10", "unknown key 'rep'; did you mean 'reps'?"),
        ("ramp = \"0s\"", "ramp = \"5 m\"", "ramp =", "'5 m' is not a time"),
        ("ramp = \"0s\"", "ramp = 5", "ramp =", "must be a time in quotes"),
        ("[\"readers\", \"writers\"]", "[\"reader\"]", "workloads =", "did you mean 'readers'?"),
        ("\"none-bfq\"]", "\"none-bfk\"]", "configs =", "did you mean 'none-bfq'?"),
        ("count = 15", "count = 0", "count = 15", "count = 0 must be a whole number in 1..=100000"),
        ("load = \"writer\"", "load = \"writr\"", "load = \"writer\"", "did you mean 'writer'?"),
        ("dsync = 1", "prio = \"rt/8\"", "dsync = 1", "prio = \"rt/8\" must be a class alone"),
        ("dsync = 1", "prio = \"idle/3\"", "dsync = 1", "must be a class alone"),
        ("dsync = 1", "prio = 3", "dsync = 1", "prio = 3 must be text in quotes"),
        ("dsync = 1", "prio = \"rt/+1\"", "dsync = 1", "with a level 0 to 7"),
        ("dsync = 1", "prio = \"fast\"", "dsync = 1", "must be a class alone"),
        ("dsync = 1", "dsinc = 1", "dsync = 1", "did you mean 'dsync'?"),
        ("measured = \"2s\"", "measured = \"0s\"", "measured = \"2s\"", "above 0"),
        ("schema = 1", "schema = 2", "schema = 1", "schema = 2 must be"),
        ("profile = \"2019\"", "profile = \"2020\"", "profile =", "no host profile '2020'"),
        ("reps = 10", "reps = = 10", "reps = 10", "my/own.toml"),
    ];
    for (from, to, at, expected) in cases {
        let message = complaint(from, to);
        let place = format!("my/own.toml:{}: ", line(at));
        assert!(message.starts_with(&place), "{to}: {message}, expected {place}");
        assert!(message.contains(expected), "{to}: {message}");
    }
    assert!(complaint("title = ", "#").contains("missing key 'title'"));
    let nowhere = Experiment::load("nowhere/x.toml").unwrap_err().to_string();
    assert!(nowhere.starts_with("nowhere/x.toml: cannot be read"), "{nowhere}");
    let near = Experiment::load("latency-2018").unwrap_err().to_string();
    assert!(near.contains("did you mean 'latency-2019'?"), "{near}");
}

#[test]
fn without_a_target_measuring_begins_after_the_ramp() {
    let e = Experiment::load("throughput-ssd-2012").unwrap();
    let drive = DriveFile::load("intel-320-160g").unwrap();
    let workload = e.workload("10r-rawrand").unwrap();
    let noop = Config::parse("noop").unwrap();
    let job = e.job(&drive, workload, &noop, 1, &Options::default()).unwrap();
    assert!(job.procs.iter().all(|p| p.role == Role::Interferer && p.start == Nanos::ZERO));
    assert_eq!(job.measuring_begins(), hoistway::Instant::ZERO + Nanos::ms(300));
    assert_eq!((job.window.measured, job.window.grace), (Nanos::secs(10), Nanos::ZERO));
    assert_eq!(job.host.block_profile(), Profile::Legacy);
}

#[test]
fn what_only_a_target_has_is_refused_without_one() {
    let text = Experiment::load("throughput-ssd-2012").unwrap().text;
    let complaint = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Experiment::parse("x.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let grace = complaint("ramp =", "grace = \"60s\"\nramp =");
    assert!(grace.contains("grace is about the target, and there is none"), "{grace}");
    let idle = "[workload.idle]\nsummary = \"nobody\"\n\n[workload.10r-rawrand]";
    let idle = complaint("[workload.10r-rawrand]", idle);
    assert!(idle.contains("workload 'idle' has no process"), "{idle}");
}

const TREE: &str = r#"
[[group]]
path = "/batch/nightly"
procs = ["reader1", "reader"]
write = ["io.bfq.weight: 30", "io.max: drive rbps=1000000"]

[[group]]
path = "/"
write = ["io.prio.class: idle"]

[[files]]
configs = ["prop-bfq"]
of = "reader"
write = ["io.bfq.weight: 40"]

[[files]]
of = "target"
write = ["io.bfq.weight: 300"]
"#;

fn with_tree(text: &str) -> Result<Experiment, ExperimentError> {
    let base = Experiment::load("latency-2019").unwrap().text;
    Experiment::parse("my.toml", &format!("{base}\n{text}"))
}

fn job_of<'a>(e: &Experiment, drive: &'a DriveFile, config: &str) -> Job<'a> {
    let config = Config::parse(config).unwrap();
    e.job(drive, e.workload("readers").unwrap(), &config, 1, &Options::default()).unwrap()
}

#[test]
fn processes_stand_where_the_tree_says_and_the_files_get_their_lines() {
    let e = with_tree(TREE).unwrap();
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let job = job_of(&e, &drive, "prop-bfq");
    let names: Vec<&str> = job.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["batch", "nightly", "target"]);
    assert_eq!(job.groups[1].parent, Some(0));
    let line = |f: &str, l: &str| (f.to_string(), l.to_string());
    // io.max is left out: no stage of prop-bfq has it. The rule comes once per process.
    assert_eq!(job.groups[1].write[0], line("io.bfq.weight", "30"));
    assert!(job.groups[1].write[1..].iter().all(|l| *l == line("io.bfq.weight", "40")));
    assert_eq!(job.groups[2].write, [line("io.bfq.weight", "300")]);
    assert_eq!(job.control.root, [line("io.prio.class", "idle")]);
    assert_eq!(job.procs[0].group, Some(2));
    assert!(job.procs[1..].iter().all(|p| p.group == Some(1)));
    let job = job_of(&e, &drive, "max-none");
    assert_eq!(job.groups[1].write.last(), Some(&line("io.max", "8:0 rbps=1000000")));
    let job = job_of(&e, &drive, "none-bfq");
    assert!(job.groups.is_empty() && job.procs.iter().all(|p| p.group.is_none()));
}

#[test]
fn a_directory_is_the_same_tree() {
    let dir = std::env::temp_dir().join(format!("hoistway-tree-{}", std::process::id()));
    let folder = dir.join("batch/nightly");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cgroup.procs"), "reader1\nreader # all of them\n").unwrap();
    std::fs::write(folder.join("io.bfq.weight"), "30\n").unwrap();
    std::fs::write(folder.join("io.max"), "drive rbps=1000000\n").unwrap();
    std::fs::write(folder.join("memory.high"), "1\n").unwrap();
    std::fs::write(dir.join("io.prio.class"), "idle\n").unwrap();
    let (mut tree, listed) = read_directory(&dir, Registry::shipped()).unwrap();
    let procs = folder.join("cgroup.procs");
    let line = |n: usize, name: &str| {
        let place = format!("{}:{n}", procs.display());
        Listed { place, name: name.into() }
    };
    assert_eq!(listed, [line(1, "reader1"), line(2, "reader")]);
    let mut e = with_tree(TREE).unwrap();
    e.set_groups((tree.clone(), listed)).unwrap();
    let wrong = |name: &str| {
        let listed = vec![line(2, name)];
        let mut e = with_tree(TREE).unwrap();
        e.set_groups((Vec::new(), listed)).unwrap_err().to_string()
    };
    let said = wrong("raeder");
    assert!(said.contains("cgroup.procs:2: ") && said.contains("did you mean 'reader'?"), "{said}");
    assert!(wrong("reader99").contains("has a process 'reader99'"), "only so many of a kind");
    tree.retain(|g| g.path != "/batch");
    tree.sort_by(|a, b| b.path.cmp(&a.path));
    assert_eq!(tree, with_tree(TREE).unwrap().tree);
    std::fs::write(folder.join("io.wait"), "1\n").unwrap();
    let error = read_directory(&dir, Registry::shipped()).unwrap_err().to_string();
    assert!(error.contains("io.wait") && error.contains("no scheduler or controller"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(
        read_directory(&dir, Registry::shipped())
            .unwrap_err()
            .to_string()
            .contains("give a directory")
    );
}

#[test]
fn mistakes_in_groups_are_named_with_their_line() {
    let cases = [
        ("[[group]]\npath = \"a\"", "'a' is not a path such as /batch/nightly"),
        ("[[group]]\npath = \"/a/../b\"", "is not a path"),
        ("[[group]]\npath = \"/a\"\n[[group]]\npath = \"/a\"", "is defined twice"),
        ("[[files]]\nof = \"target\"\nwrite = [\"io.wait: 1\"]", "no scheduler or controller has"),
        ("[[files]]\nof = \"target\"\nwrite = [\"io.weight 1\"]", "is not a line for a file"),
        ("[[files]]\nof = \"target\"\nconfigs = [\"x\"]\nwrite = []", "no configuration 'x'"),
    ];
    for (text, expected) in cases {
        let error = with_tree(text).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:") && error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn the_load_settles_as_long_as_the_scheduler_needs() {
    let e = Experiment::load("startup-ssd-2012").unwrap();
    let drive = DriveFile::load("intel-320-160g").unwrap();
    let workload = e.workload("lowriter+10r-rawseq").unwrap();
    let start = |config: &str, options: &Options| {
        let config = Config::parse(config).unwrap();
        let job = e.job(&drive, workload, &config, 1, options).unwrap();
        let target = job.procs.iter().find(|p| p.role == Role::Target).unwrap();
        assert_eq!((target.load.as_str(), job.procs.len()), ("app_start", 11));
        target.start
    };
    let usual = Options::default();
    assert_eq!(start("cfq", &usual), Nanos::secs(7));
    assert_eq!(start("bfq-v1", &usual), Nanos::secs(10));
    assert_eq!(start("bfq{low_latency=0}", &usual), Nanos::secs(29));
    let quick = Options { quick: true, ..usual };
    assert_eq!(start("cfq", &quick), Nanos::ms(1750));
}

/// A film plays before the readers start; a compilation proper begins before the load, which settles behind that.
#[test]
fn a_target_with_a_lead_starts_first_and_the_load_settles_behind_it() {
    let job = |id: &str, drive: &str, workload: &str, config: &str, quick: bool| {
        let e = Experiment::load(id).unwrap();
        let drive = DriveFile::load(drive).unwrap();
        let config = Config::parse(config).unwrap();
        let options = Options { quick, ..Options::default() };
        let workload = e.workload(workload).unwrap();
        let job = e.job(&drive, workload, &config, 1, &options).unwrap();
        let start = |role| job.procs.iter().find(|p| p.role == role).unwrap().start;
        let targets = job.procs.iter().filter(|p| p.role == Role::Target);
        let names: Vec<String> = targets.map(|p| p.name.clone()).collect();
        (start(Role::Target), start(Role::Interferer), job.window.ramp, names.join(" "))
    };
    let s = Nanos::secs;
    let film = |quick| job("video-2010", "maxtor-6l080l0", "film8+10r-seq", "cfq", quick);
    assert_eq!(film(false), (s(0), s(10), s(10), "target".into()));
    assert_eq!(film(true), (s(0), Nanos::ms(2500), Nanos::ms(2500), "target".into()));
    let task = |w, config| job("devtasks-2010", "maxtor-6l080l0", w, config, false);
    let workers = "target0 target1 target2 target3 target4";
    assert_eq!(task("make+10r-seq", "cfq"), (s(0), s(2), s(13), workers.into()));
    assert_eq!(task("make+10r-seq", "bfq"), (s(0), s(2), s(31), workers.into()));
    assert_eq!(task("merge+10r-seq", "cfq"), (s(11), s(0), s(0), "target".into()));
}

#[test]
fn a_lead_is_the_targets() {
    let e = Experiment::load("fairness-2010").unwrap();
    let text = e.text.replacen("[workload.2r-seq]", "[workload.2r-seq]\nlead = \"1s\"", 1);
    let line = 1 + text.split("lead =").next().unwrap().matches('\n').count();
    let wrong = Experiment::parse("my/own.toml", &text).unwrap_err().to_string();
    assert!(wrong.starts_with(&format!("my/own.toml:{line}: lead is about the target")), "{wrong}");
}

#[test]
fn every_embedded_experiment_says_what_it_judges_by() {
    for id in Experiment::ids() {
        let e = Experiment::load(id).unwrap();
        // Start-ups beside a film, a search beside a compiler, the decisions of a scheduler: each workload has its own.
        let mixed = ["kernel-devel-s", "scheduler-patch", "startup-blkmq-2018"].contains(&id);
        assert_eq!(e.judge.is_none(), mixed, "{id}");
    }
    let shares = Experiment::load("bandwidth-2019").unwrap();
    assert_eq!(shares.judge, Some(Judge::Share));
    assert!(shares.weights.is_empty() && shares.weights_of("randr+7r-seq").is_empty());
    assert_eq!(Experiment::load("multiclient-2018").unwrap().guarantee, Some(10_000_000));
}

#[test]
fn mistakes_in_what_is_judged_are_named_with_their_line() {
    let judged = "judge = \"latency\"";
    let line = 1 + latency().text.split(judged).next().unwrap().matches('\n').count();
    let at = |text: &str, line: usize, expected: &str| {
        assert!(text.starts_with(&format!("my/own.toml:{line}: ")), "{text}");
        assert!(text.contains(expected), "{text}");
    };
    let wrong = complaint(judged, "judge = \"latnecy\"");
    at(&wrong, line, "no quantity to judge by 'latnecy'; did you mean 'latency'?");
    let wrong = complaint(judged, "judge = \"beauty\"");
    at(&wrong, line, "there are: latency, share, throughput, startup, count");
    let wrong = complaint(judged, "judge = \"startup\"");
    at(&wrong, line, "needs a target with load 'app_start', 'boot' or 'git_grep', and workload");
    let wrong = complaint(judged, "judge = \"count\"");
    at(&wrong, line, "needs a target whose load counts something");
    let wrong = complaint("[target]", "[target]\ncount = 2");
    at(&wrong, line, "judge = 'latency' needs a target of one process");
    let with = |table: &str| {
        let text = latency().text.replacen(judged, "judge = \"share\"", 1);
        let lines = text.matches('\n').count();
        let parsed = Experiment::parse("my/own.toml", &format!("{text}\n{table}"));
        (parsed.map_err(|e| e.to_string()), lines + 2)
    };
    for (table, below, expected) in [
        ("[share]\nweight = 1", 1, "unknown key 'weight' in [share]; did you mean 'weights'?"),
        ("[share]\nweights = { raeder = 300 }", 1, "did you mean 'reader'?"),
        ("[share]\nweights = { target = 0 }", 1, "must be a whole number in 1..=10000"),
        ("[share]\nguarantee = \"10 apples\"", 1, "'10 apples' is not a rate"),
        ("[share]\nguarantee = \"0MB/s\"", 1, "guarantee must be above 0"),
        (
            "[share]\nweights = { target = 2 }\nguarantee = \"1MB/s\"",
            2,
            "either weights or a guarantee",
        ),
    ] {
        let (parsed, first) = with(table);
        at(&parsed.unwrap_err(), first + below, expected);
    }
    let (parsed, _) = with("[share]\nweights = { reader = 200, reader3 = 50, target = 300 }");
    let weights = parsed.unwrap().weights_of("readers");
    let of = |name: &str| weights.iter().find(|w| w.0 == name).unwrap().1;
    assert_eq!((weights.len(), of("target"), of("reader2"), of("reader3")), (16, 300, 200, 50));
    let wrong = complaint("[target]", "[share]\n[target]");
    assert!(wrong.contains("[share] is for experiments with judge = \"share\""), "{wrong}");
}

#[test]
fn a_procedure_replaces_what_it_names_and_nothing_else() {
    let e = latency();
    let disk = DriveFile::load("hitachi-hts727550a9e364").unwrap();
    let window = |e: &Experiment| {
        e.window(&disk, e.workload("readers").unwrap(), &config("none-none"), &Options::default())
    };
    let sound = e.of_document(Procedure::Sound).unwrap();
    assert_eq!(sound.drives.len(), 3, "of the document, not the default");
    assert_eq!(sound.configs, ["none-none", "lat-none", "none-bfq"]);
    assert_eq!((window(&sound).ramp, window(&sound).measured), (Nanos::secs(5), Nanos::secs(60)));
    assert_eq!(sound.head_start, e.head_start);
    let own = e.of_document(Procedure::AsPublished).unwrap();
    assert_eq!((window(&own).ramp, window(&own).measured), (Nanos::ZERO, Nanos::secs(10)));
    assert_eq!((own.reps, window(&own).device_interval), (10, Nanos::secs(3)));
    let writers = Experiment::load("throughput-2010").unwrap();
    let measured = |e: &Experiment| {
        let workload = e.workload("5r5w-seq").unwrap();
        e.window(&disk, workload, &config("none-bfq"), &Options::default()).measured
    };
    assert_eq!(measured(&writers), Nanos::secs(60), "a workload's own time");
    let own = writers.of_document(Procedure::AsPublished).unwrap();
    assert_eq!(measured(&own), Nanos::secs(10), "the document's time holds for all");
    let ours = Experiment::load("deadline-2009-ablation").unwrap();
    assert!(ours.of_document(Procedure::Sound).is_none(), "no document asked this");
}

#[test]
fn what_a_document_is_said_to_have_measured_must_exist() {
    let wrong = |from: &str, to: &str| {
        let text = latency().text.replacen(from, to, 1);
        Experiment::parse("x.toml", &text).unwrap_err().0
    };
    let error = wrong("source = \"R0\"", "source = \"R9\"");
    assert!(error.contains("no document 'R9'; there are: R0, R1"), "{error}");
    assert!(error.starts_with("x.toml:"), "{error}");
    let error =
        wrong("workloads = [\"readers\", \"writers\", \"spora", "workloads = [\"reader\", \"spora");
    assert!(error.contains("did you mean 'readers'?"), "{error}");
    let error =
        wrong("configs = [\"none-none\", \"lat-none\"", "configs = [\"none-none\", \"late-none\"");
    assert!(error.contains("late-none"), "{error}");
    let error = wrong("ramp = \"5s\"", "rampe = \"5s\"");
    assert!(error.contains("rampe"), "{error}");
}

#[test]
fn a_workload_may_say_what_it_stands_for() {
    let with = |word: &str| {
        let by = format!("[workload.readers]\nkind = \"{word}\"");
        Experiment::parse("a.toml", &latency().text.replacen("[workload.readers]", &by, 1))
    };
    for kind in Kind::ALL {
        let e = with(kind.name()).unwrap();
        assert_eq!(e.workload("readers").unwrap().kind, Some(kind));
        assert_eq!(e.workload("writers").unwrap().kind, None);
    }
    let message = with("interactiv").unwrap_err().to_string();
    assert!(message.contains("did you mean 'interactive'?"), "{message}");
    assert!(message.starts_with("a.toml:"), "{message}");
}

#[test]
fn a_file_of_published_values_has_the_title_of_its_document() {
    let title = |file| Source::of_file(file).map(|d| d.title);
    assert_eq!(
        title("001_007797704118b08f.txt"),
        Some("2019 slides: BFQ against io.latency and io.cost")
    );
    assert_eq!([title("9_other.txt"), title("sim"), title("000_0b255632a2c04b0c")], [None; 3]);
}
