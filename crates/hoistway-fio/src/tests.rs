//! Job files and what they come to.

use super::*;
use std::collections::BTreeMap;
use std::process::Command;

/// Files and variables in memory.
struct Memory(BTreeMap<&'static str, Vec<u8>>);

impl Source for Memory {
    fn file(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        let path = path.to_str().unwrap();
        self.0.get(path).cloned().ok_or_else(|| format!("{path}: no such file"))
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "8m".into())
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        match name {
            "pagesize" => Some(4096),
            "mb_memory" => Some(1000),
            _ => None,
        }
    }
}

fn memory(text: &[u8]) -> Memory {
    let part = b"[global]\nbs=16k\n".to_vec();
    let other = b"[z]\nsize=2m\n[y]\nsize=3m\n".to_vec();
    let secret = b"[global]\nroot:$6$salt$hash=:19000\nsecret=1\n".to_vec();
    let files = [
        ("a.fio", text.to_vec()),
        ("dir/part.fio", part.clone()),
        ("part.fio", part),
        ("other.fio", other),
        ("secret.fio", secret),
    ];
    Memory(files.into_iter().collect())
}

fn parse(text: &str) -> Result<JobFile, Error> {
    read(Path::new("a.fio"), &mut memory(text.as_bytes()))
}

fn jobs(text: &str) -> Vec<Job> {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).jobs
}

/// The only job.
fn job(text: &str) -> Job {
    jobs(&format!("[a]\n{text}\n")).remove(0)
}

fn words(text: &str) -> Result<JobFile, Error> {
    command_line(text, &mut memory(b"[a]\nrw=write\nsize=1m\n"))
}

/// What a job is told, in lines of its experiment.
fn told(text: &str) -> String {
    let file = parse(&format!("[a]\n{text}\n")).unwrap_or_else(|e| panic!("{text}: {e}"));
    let made = experiment(&file, "a.fio", None).unwrap().text;
    made[made.find("[[workload.jobs.procs]]").unwrap()..].to_string()
}

#[test]
fn globals_hold_for_what_follows_and_the_last_word_counts() {
    let text = "; a comment\n[global]\nsize=${SIZE} # from outside\nrw=randread\n[a]\n[global]\nbs=8k\n[b]\nrw=write\nbs=4k,64k\nbs=32k\n";
    let all = jobs(text);
    assert_eq!(
        (all[0].name.as_str(), all[0].size, all[0].sizes[0].as_str()),
        ("a", Some(Amount::Bytes(8 << 20)), "4096")
    );
    assert!(all[0].random && all[0].direction == Direction::Read);
    assert_eq!((all[1].direction, all[1].sizes[1].as_str()), (Direction::Write, "32768"));
    assert_eq!(jobs("include part.fio\n[a]\nsize=1m")[0].sizes[0], "16384");
    let error = parse("include gone.fio").unwrap_err().to_string();
    assert!(error.starts_with("a.fio:1: gone.fio: no such file"), "{error}");
    assert!(parse("include a.fio").unwrap_err().to_string().contains("include one another"));
}

#[test]
fn comments_have_any_bytes_and_settings_are_text() {
    let latin = b"; gr\xfc\xdfe\n[a]\nsize=1m # \xff\xfe\n";
    let file = read(Path::new("a.fio"), &mut memory(latin)).unwrap();
    assert_eq!(file.jobs[0].size, Some(Amount::Bytes(1 << 20)));
    let bad = read(Path::new("a.fio"), &mut memory(b"[a]\nfilename=\xff\n")).unwrap_err();
    assert!(bad.to_string().starts_with("a.fio:2: is no text in UTF-8"), "{bad}");
}

#[test]
fn what_is_included_is_not_shown() {
    let error = parse("include secret.fio\n[a]\nsize=1m").unwrap_err().to_string();
    assert!(error.starts_with("secret.fio:2: is no setting"), "{error}");
    assert!(!error.contains("root") && !error.contains("salt"), "{error}");
}

#[test]
fn keys_that_are_not_carried_out_are_named_once_with_line_reason_and_count() {
    let text = "[global]\nsize=1m\nthread\nverify=md5\n[a]\nfrobnicate=1\n[b]\ndo_verify=0\nzonemode=none\n";
    let file = parse(text).unwrap();
    let notes: Vec<String> = file.notes.iter().map(Note::to_string).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].starts_with("a.fio:3: thread is ignored: "), "{}", notes[0]);
    assert!(notes[1].starts_with("a.fio:4: verify is not supported: "), "{}", notes[1]);
    assert!(notes[2].starts_with("a.fio:6: frobnicate is not supported: the key is not known"));
    assert_eq!(file.notes[0].weight, Weight::Ignored);
    let many: String =
        (0..2000).map(|i| format!("[j{i}]\nsize=1m\nthread\nverify=md5\n")).collect();
    let notes = parse(&many).unwrap().notes;
    assert_eq!(notes.len(), 2);
    assert!(notes[1].to_string().ends_with(" (and in 1999 further places)"), "{}", notes[1]);
}

#[test]
fn what_a_job_cannot_be_is_an_error_with_its_line() {
    for (text, part) in [
        ("[a]\nsize=1m\nioengine=mmap", "a.fio:3: ioengine: engine 'mmap' is not known here"),
        ("[a]\nsize=1m\nrw=randtrim", "a.fio:3: rw: randtrim: trims are not modelled"),
        ("[a]\nrw=read", "a.fio:1: the job has no size"),
        ("[a]\nsize=0", "a.fio:1: the job has no size"),
        ("[a]\nsize=50%", "a.fio:1: percent of a file whose size is not known"),
        ("[a]\nsize=1m\noffset=50%", "percent of a file"),
        (
            "[a]\nsize=4*1024",
            "a.fio:2: size: '4*1024': fio calculates in parentheses; write (4*1024)",
        ),
        ("[a]\nsize=4*$ncpus", "a.fio:2: size: $ncpus is not known here"),
        ("[a]\nsize=2k", "a.fio:2: size: 2048 bytes are less than a call of 4096"),
        ("[a]\nsize=1m\niodepth=0", "outside 1 to 4096"),
        ("[a]\nsize=1m\nrate=1m\nrate_iops=,100", "a.fio:4: rate_iops: rate is given too"),
        ("size=1m", "stands in no section"),
        ("[a", "a.fio:1: is no section"),
        ("[global]\nsize=1m", "has no job"),
        ("[a]\nsize=1m\nwait_for=b", "a.fio:3: wait_for: no job 'b' stands before it"),
        ("[a]\nsize=1m\nrandom_distribution=zipfian", "choose random"),
        ("[a]\nsize=1m\nrandom_distribution=zoned:50/5:30/15", "come to 80 percent"),
        ("[a]\nsize=1m\nrandom_distribution=zoned_abs:50/1m:50", "has a size"),
        ("[a]\nsize=1m\nrw=", "choose read"),
        ("[a]\nsize=", "has no value"),
        ("[a]\nfilename=/dev/null\n", "no block device"),
        ("[a]\nfilename=/dev/sda:file\nsize=1m", "files and devices in one job"),
        ("[a]\nsize=1m\nnrfiles=60000\nnumjobs=3", "of at most 131072"),
        ("[a]\nsize=1m\nnumjobs=90000\n[b]\nsize=1m\nnumjobs=20000", "of at most 100000"),
    ] {
        let error = parse(text).map(|f| f.jobs.len()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn values_are_read_as_fio_reads_them() {
    let text = "size=1g\nrw=randrw:8\nrwmixwrite=30\nbssplit=4k/50:64k,8k/100\nioengine=libaio\ndirect=1\niodepth=32\n\
        iodepth_batch=8\niodepth_batch_complete=4\niodepth_low=16\nthinktime=100\nthinktime_blocks=4\nrate=1m,500k\nrate_process=poisson\n\
        runtime=10\nramp_time=2s\nstartdelay=500ms\nfsync=32\nsync=0\nprioclass=1\nprio=3\nnumjobs=4\nrandom_distribution=zipf:1.2\n\
        cgroup=/slow\ncgroup_weight=200\n";
    let job = job(text);
    assert_eq!(
        (job.row, job.mix, job.depth, job.batch, job.batch_complete, job.depth_low),
        (8, 70, 32, 8, 4, Some(16))
    );
    assert_eq!(job.sizes, ["4096/5000:65536/5000", "8192/10000"]);
    assert_eq!((job.think, job.think_blocks, job.rate), (100_000, Some(4), [1 << 20, 500 << 10]));
    assert_eq!(
        (job.runtime, job.ramp, job.startdelay),
        (Some(10_000_000_000), 2_000_000_000, 500_000_000)
    );
    assert_eq!(
        (job.prio.as_deref(), job.distribution[0].as_deref()),
        (Some("rt/3"), Some("zipf:1.2"))
    );
    // Buffered or synchronous: one call at a time, and the reason.
    let file = parse("[a]\nsize=1m\nioengine=libaio\niodepth=8").unwrap();
    assert_eq!((file.jobs[0].depth, file.notes.len()), (1, 1));
    assert_eq!(self::job("size=1m\nnice=-20").prio.as_deref(), Some("be/0"));
    assert_eq!(self::job("size=8*$mb_memory\nbs=$pagesize").sizes[0], "4096");
    assert_eq!(self::job("size=(2*8)\nbs=(4*4)\nruntime=(2*1s)").runtime, Some(2_000_000_000));
}

/// Each of these was another load than fio's without a word.
#[test]
fn what_differs_from_the_obvious_is_as_in_fio() {
    let mix = |text: &str| job(&format!("size=1m\nrw=randrw\n{text}")).mix;
    // Of the two the later counts.
    assert_eq!(mix("rwmixread=50\nrwmixwrite=90"), 10);
    assert_eq!(mix("rwmixwrite=90\nrwmixread=50"), 50);
    let both = jobs("[global]\nsize=1m\nrw=rw\nrwmixread=80\n[a]\nrwmixwrite=70\n");
    assert_eq!(both[0].mix, 30);
    assert!(!job("size=1m\ndirect=1\nbuffered=1").direct && job("size=1m\nbuffered=0").direct);
    // Directions apart.
    let sides =
        job("size=1m\nrw=randrw\npercentage_random=100,0\nba=8k,16k\nrate_iops=100,\nbs=,8k");
    assert_eq!(sides.percentage_random, [100, 0]);
    assert_eq!(sides.align, [Some(8192), Some(16_384)]);
    assert_eq!((sides.rate_iops, sides.sizes), ([100, 0], ["4096".into(), "8192".into()]));
    // A map that the generator makes unnecessary.
    assert!(job("size=1m\nnorandommap").repeat_blocks);
    assert!(!job("size=1m\nnorandommap\nrandom_generator=lfsr").repeat_blocks);
    // A size behind a blank has lost its unit in fio.
    let file = parse("[a]\nsize=1m\nbs = 8k\n").unwrap();
    assert_eq!(file.jobs[0].sizes[0], "8192");
    assert!(
        file.notes[0].to_string().contains("a.fio:3: bs is not supported: fio 3.33 reads a blank")
    );
    assert!(parse("[a]\nsize=1m\nruntime= 8\nbs =8k\n").unwrap().notes.is_empty());
    assert!(!job("size=1m\ntime_based").time_based);
    let zones = job("size=1m\nrandom_distribution=zoned:50/5:30/15:20/");
    assert_eq!(zones.distribution[0].as_deref(), Some("zoned:50/5:30/15:20/80"));
    let centre = job("size=1m\nrandom_distribution=zipf:1.2:0.25");
    assert_eq!(centre.distribution[1].as_deref(), Some("zipf:1.2:0.25"));
    assert_eq!(job("size=1m\nrw=read:-8k").hole, -8192);
    // Calls in flight are counted when they are over.
    let queue = "size=1m\nioengine=libaio\ndirect=1\niodepth=8\nthinktime=1ms\n";
    assert_eq!(job(queue).think_first, Some(8));
    assert_eq!(parse(&format!("[a]\n{queue}thinktime_blocks=4")).unwrap().notes.len(), 1);
    assert_eq!(job(&format!("{queue}thinktime_blocks_type=issue")).think_first, None);
}

#[test]
fn files_have_the_sizes_and_names_that_fio_gives_them() {
    // `filesize` is the file, and `size` how much is done in it.
    let small = told("size=8m\nfilesize=64m");
    assert!(
        small.contains("io_size = 8388608\n") && small.contains("file_size = 67108864\n"),
        "{small}"
    );
    assert!(!small.contains("\nsize ="), "{small}");
    let whole = told("size=64m\nfilesize=16m");
    assert!(!whole.contains("io_size =") && whole.contains("file_size = 16777216\n"), "{whole}");
    assert!(told("size=50%\nfilesize=16m").contains("size = \"50%\"\n"));
    let several = told("size=96k\nnrfiles=3\nfile_service_type=random:4\nopenfiles=2");
    for part in
        ["size = 32768\n", "files = 3\n", "turns = \"random\"", "turn_calls = 4", "open_files = 2"]
    {
        assert!(several.contains(part), "{part}: {several}");
    }
    let named = told("size=64k\nfilename=x\\:1:y\nnrfiles=7");
    assert!(named.contains("file = [\"x:1\", \"y\"]\nfile_size = 32768\n"), "{named}");
    let raw = told(
        "filename=/dev/sda\nsize=20%\noffset=1g\noffset_increment=10%\nnumjobs=2\ndirect=1\nnumber_ios=7",
    );
    for part in ["size = \"20%\"", "offset = \"1073741824 + 10%\"", "raw = true", "calls = 7"] {
        assert!(raw.contains(part), "{part}: {raw}");
    }
    assert!(told("filename=/dev/sda\nsize=0").contains("raw = true"));
    assert!(!told("filename=/dev/shm/x\nsize=1m").contains("raw"));
    // Jobs share what has one name, and know its size from one another.
    let text =
        "[global]\nfilename_format=all.$filenum\n[a]\nsize=1m\nrw=write\n[b]\nstonewall\nrw=read\n";
    let file = parse(text).unwrap();
    assert_eq!(
        (&file.jobs[1].files[..], file.jobs[1].filesize),
        (&["all.0".to_string()][..], Some(1 << 20))
    );
    assert!(!told("size=1m\nfilename_format=$jobname.$jobnum.$filenum").contains("new_file"));
    let devices = parse("[a]\nfilename=/dev/sda:/dev/sdb\n[b]\nfilename=/dev/sdc\n").unwrap();
    assert_eq!(devices.notes.len(), 1);
    assert!(
        devices.notes[0]
            .why
            .starts_with("3 devices (/dev/sda, /dev/sdb, /dev/sdc) are put on the one drive")
    );
}

#[test]
fn ramps_that_cannot_be_are_said() {
    let says = |text: &str, part: &str| {
        let notes = parse(text).unwrap().notes;
        assert!(notes.iter().any(|n| n.to_string().contains(part)), "{text}: {notes:?}");
    };
    let short = "[global]\nsize=1m\n[a]\nramp_time=10\nruntime=20\n[b]\nruntime=5\n";
    says(short, "a.fio:6: job 'b' is over after 5 s, before measuring begins");
    says(
        "[a]\nsize=1m\nramp_time=10\n[b]\nsize=1m\nstonewall\n",
        "there is none, and all is measured",
    );
    says("[a]\nsize=1m\nramp_time=10\n[b]\nsize=1m\n", "for all jobs");
    assert!(parse("[a]\nsize=1m\nramp_time=10\nruntime=5\n").unwrap().notes.is_empty());
}

#[test]
fn a_job_that_exits_takes_others_with_it() {
    let text =
        "[global]\nsize=1m\n[a]\nexitall\n[b]\n[c]\nstonewall\nexitall\nexit_what=all\n[d]\n";
    let made = experiment(&parse(text).unwrap(), "a.fio", None).unwrap().text;
    let procs: Vec<&str> = made.split("[[workload.jobs.procs]]").skip(1).collect();
    assert!(procs[0].contains("stops = \"group-0\"\nstopped_by = \"group-0 all\""), "{}", procs[0]);
    assert!(procs[1].contains("stopped_by = \"group-0 all\"") && !procs[1].contains("stops ="));
    assert!(procs[2].contains("stops = \"all\"\nstopped_by = \"all\""), "{}", procs[2]);
}

#[test]
fn a_command_line_is_read_by_fios_rules() {
    let file = words("fio --bs=8k --name=a --rw randread --size=1m --name='b c' --size=2m --stonewall --output=x --minimal").unwrap();
    let [a, b] = &file.jobs[..] else { panic!("two jobs") };
    assert_eq!((a.name.as_str(), a.sizes[0].as_str(), a.random), ("a", "8192", true));
    assert_eq!((b.name.as_str(), b.sizes[0].as_str(), b.stonewall), ("b c", "8192", true));
    let own = [("name", "b c"), ("size", "2m")].map(|(k, v)| (k.to_string(), v.to_string()));
    assert_eq!((&b.options[0][..], &b.options[1][0].0[..]), (&own[..], "bs"));
    // Jobs of files come behind, with what stands before the first name; further files run after.
    let file = words("other.fio --bs=8k a.fio --name=q --size=1m").unwrap();
    let names: Vec<&str> = file.jobs.iter().map(|j| j.name.as_str()).collect();
    assert_eq!(names, ["q", "z", "y", "a"]);
    assert_eq!(
        file.jobs.iter().map(|j| j.stonewall).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    assert!(file.jobs.iter().all(|j| j.sizes[0] == "8192"));
    assert_eq!(words("--section=y other.fio").unwrap().jobs.len(), 1);
    for (text, part) in [
        ("--name=a --size=1m --frob=1", "--fio, word 3: --frob is no option of fio 3.33"),
        ("--name=a --size=1x", "--fio, word 2: size: '1x' is no size"),
        ("--name=a --size", "--fio, word 2: --size needs a value"),
        ("--client=x --name=a", "--fio, word 1: --client: hoistway runs jobs only"),
        ("--name='a", "--fio: a quote ' has no end"),
        ("--bs=4k", "--fio: has no job"),
        ("", "--fio: has no job"),
        ("gone.fio", "--fio, word 1: gone.fio: no such file"),
        ("--section=x other.fio", "no section of the name: x"),
        ("--name=a --rw=read", "--fio, word 1: the job has no size"),
    ] {
        let error = words(text).map(|f| f.jobs.len()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn an_experiment_has_the_processes_their_stages_and_shared_files() {
    let text = "[global]\nsize=8m\nruntime=5\n[lay out]\nrw=write\nfilename=f\n[readers]\nstonewall\nnumjobs=2\nfilename=f\nsize=4m\n\
        [raw]\nfilename=/dev/sda\n[last]\nwait_for=readers\noffset_increment=1m\nnumjobs=2\nsize=1m\nrw=randwrite\n";
    let file = parse(text).unwrap();
    let made = experiment(&file, "a.fio", None).unwrap().text;
    for part in [
        "name = \"lay_out\"\n",
        "name = \"readers-\"\ncount = 2\n",
        "file = \"f\"\nfile_size = 8388608\n",
        "raw = true\n",
        "ends_at = \"stage-1\"",
        "waits_for = \"stage-1\"\nends_at = \"job-1\"",
        "waits_for = \"stage-1 job-1\"",
        "name = \"last--0\"",
        "offset = 1048576\n",
        "new_file = true\n",
    ] {
        assert!(made.contains(part), "{part}\n{made}");
    }
    let target = experiment(&file, "a.fio", Some("raw")).unwrap().text;
    assert!(target.contains("[workload.jobs.target]\nload = \"job\""), "{target}");
    let first = experiment(&file, "a.fio", Some("lay out")).unwrap();
    assert!(first.notes[0].contains("does not run: readers-, raw, last-"), "{:?}", first.notes);
    assert!(first.text.contains("title = \"fio jobs of a.fio, target lay_out\""), "{}", first.text);
    assert!(experiment(&file, "a.fio", Some("raw")).unwrap().notes.is_empty());
    assert!(experiment(&file, "a.fio", Some("readers")).unwrap_err().what.contains("one process"));
    assert!(experiment(&file, "a.fio", Some("x")).unwrap_err().what.contains("no job 'x'"));
}

#[test]
fn every_key_stands_in_the_table_once_and_what_is_carried_out_is_asked_for() {
    let names = || keys::KEYS.iter().flat_map(|k| [k.name, k.other]).filter(|k| !k.is_empty());
    let mut all: Vec<&str> = names().collect();
    let n = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), n);
    let reader = [
        include_str!("read/mod.rs"),
        include_str!("read/what.rs"),
        include_str!("read/how.rs"),
        include_str!("read/places.rs"),
    ]
    .concat();
    for key in keys::KEYS.iter().filter(|k| k.fate == keys::Fate::Carried) {
        assert!(reader.contains(&format!("\"{}\"", key.name)), "nobody asks for {}", key.name);
    }
    assert!(keys::SIZES.iter().all(|key| keys::find(key).is_some()));
}

/// Lines of what fio prints about its keys.
fn cmdhelp(args: &[&str]) -> Option<String> {
    let output = Command::new("fio").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every key of the fio that is installed has a row, and takes what it takes there.
#[test]
fn every_key_of_the_installed_fio_is_known() {
    let Some(all) = cmdhelp(&["--cmdhelp=all"]) else {
        return println!("skipped: fio is not installed");
    };
    let names: Vec<&str> =
        all.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert!(names.len() > 150, "{all}");
    for name in names {
        let Some(row) = keys::find(name) else {
            panic!("{name} of the installed fio is not known")
        };
        let Some(help) = cmdhelp(&[&format!("--cmdhelp={name}")]) else { continue };
        let of = |what: &str| {
            let line = help.lines().find_map(|l| l.trim().strip_prefix(what)?.strip_prefix(':'));
            line.map(str::trim)
        };
        if let Some(alias) = of("alias") {
            assert_eq!(keys::find(alias), Some(row), "{alias} is {name}");
        }
        let switch = of("type").is_some_and(|t| t.starts_with("empty or boolean"));
        assert_eq!(row.takes == keys::Takes::Switch, switch, "{name} takes {:?}", of("type"));
    }
}

/// Whatever stands in a file, the answer is jobs or an error: texts are made from pieces of job files, put
/// together and damaged at random.
#[test]
fn no_text_makes_the_reader_panic() {
    let pieces = [
        "[global]",
        "[a]",
        "[b",
        "]",
        "\n",
        "\n",
        "\n",
        "=",
        "size=1m",
        "size=99999999999t",
        "rw=randrw:8",
        "bs=4k,8k",
        "bssplit=4k/50:8k",
        "bsrange=1k-",
        "iodepth=",
        "0x",
        "%",
        "$jobname",
        "${SIZE}",
        "${",
        "include a.fio",
        "include",
        "runtime=10",
        "time_based",
        ":",
        "zoned:60/10:40/90",
        "random_distribution=",
        "zipf:",
        "numjobs=3",
        "offset_increment=16e",
        "stonewall",
        "wait_for=a",
        "filename=/dev/sda:x",
        "cgroup=/",
        "cgroup_weight=5",
        "prio=7",
        "nice=-20",
        "startdelay=1-2",
        "ß",
        "\0",
        "18446744073709551615",
        "thinktime=",
        "rate=,1m",
        "ioengine=libaio",
        "(2*",
        "^9)",
        "$mb_memory",
        "nrfiles=3",
        "filesize=64k-1m",
        "50%",
        "exitall",
        "zipf:1.2:0.25",
        "--name=a ",
        "'",
        "\\",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let mut text = String::new();
        if below(2) == 0 {
            text.push_str("[a]\nsize=1m\n");
        }
        for _ in 0..below(24) {
            text.push_str(pieces[below(pieces.len())]);
            if below(2) == 0 {
                text.push('\n');
            }
        }
        match parse(&text) {
            Ok(file) => {
                good += 1;
                let _ = experiment(&file, "a.fio", Some("a"));
                assert!(experiment(&file, "a.fio", None).is_ok());
                let _ = words(&text);
            }
            Err(error) => {
                bad += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(good > 200 && bad > 200, "{good} and {bad}");
}
