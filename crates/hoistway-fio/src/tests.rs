//! Job files and what they come to.

use super::*;
use std::collections::BTreeMap;

/// Files and variables in memory.
struct Memory(BTreeMap<&'static str, String>);

impl Source for Memory {
    fn file(&mut self, path: &Path) -> Result<String, String> {
        self.0.get(path.to_str().unwrap()).cloned().ok_or_else(|| "no such file".into())
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "8m".into())
    }
}

fn parse(text: &str) -> Result<JobFile, Error> {
    let part = "[global]\nbs=16k\n";
    let files =
        [("a.fio", text.to_string()), ("dir/part.fio", part.into()), ("part.fio", part.into())];
    read(Path::new("a.fio"), &mut Memory(files.into_iter().collect()))
}

fn jobs(text: &str) -> Vec<Job> {
    parse(text).unwrap_or_else(|e| panic!("{e}")).jobs
}

#[test]
fn globals_hold_for_what_follows_and_the_last_word_counts() {
    let text = "; a comment\n[global]\nsize=${SIZE} # from outside\nrw=randread\n[a]\n[global]\nbs=8k\n[b]\nrw=write\nbs=4k,64k\nbs=32k\n";
    let all = jobs(text);
    assert_eq!(
        (all[0].name.as_str(), all[0].size, all[0].sizes[0].as_str()),
        ("a", Some(8 << 20), "4096")
    );
    assert!(all[0].random && all[0].direction == Direction::Read);
    assert_eq!((all[1].direction, all[1].sizes[1].as_str()), (Direction::Write, "32768"));
    assert_eq!(jobs("include part.fio\n[a]\nsize=1m")[0].sizes[0], "16384");
    let error = parse("include gone.fio").unwrap_err().to_string();
    assert!(error.starts_with("a.fio:1: gone.fio: cannot be read"), "{error}");
    assert!(parse("include a.fio").unwrap_err().to_string().contains("include one another"));
}

#[test]
fn keys_that_are_not_carried_out_are_named_once_with_line_and_reason() {
    let text = "[global]\nsize=1m\nthread\nverify=md5\n[a]\nfrobnicate=1\n[b]\ndo_verify=0\n";
    let file = parse(text).unwrap();
    let notes: Vec<String> = file.notes.iter().map(Note::to_string).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].starts_with("a.fio:3: thread is ignored: "), "{}", notes[0]);
    assert!(notes[1].starts_with("a.fio:4: verify is not supported: "), "{}", notes[1]);
    assert!(notes[2].starts_with("a.fio:6: frobnicate is not supported: the key is not known"));
    assert_eq!(file.notes[0].weight, Weight::Ignored);
}

#[test]
fn what_a_job_cannot_be_is_an_error_with_its_line() {
    for (text, part) in [
        ("[a]\nsize=1m\nioengine=mmap", "a.fio:3: ioengine: engine 'mmap' is not known here"),
        ("[a]\nsize=1m\nrw=randtrim", "a.fio:3: rw: randtrim: trims are not modelled"),
        ("[a]\nrw=read", "a.fio:1: the job has no size"),
        ("[a]\nsize=50%", "a share of a file"),
        ("[a]\nsize=8*$mb_memory", "is no"),
        ("[a]\nsize=1m\niodepth=0", "outside 1 to 4096"),
        ("[a]\nsize=1m\ntime_based", "time_based needs runtime"),
        ("size=1m", "stands in no section"),
        ("[a", "is no section"),
        ("[global]\nsize=1m", "has no job"),
        ("[a]\nsize=1m\nwait_for=b", "no job of that name"),
        ("[a]\nsize=1m\nbssplit=4k/50:8k/40", "come to 90 percent"),
        ("[a]\nsize=1m\nrandom_distribution=zipfian", "choose random"),
        ("[a]\nsize=1m\nrw=", "choose read"),
        ("[a]\nsize=", "has no value"),
    ] {
        let error = parse(text).map(|f| f.jobs.len()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn values_are_read_as_fio_reads_them() {
    let text = "[a]\nsize=1g\nrw=randrw:8\nrwmixwrite=30\nbssplit=4k/50:64k,8k/100\nioengine=libaio\ndirect=1\niodepth=32\n\
        iodepth_batch=8\niodepth_batch_complete=4\niodepth_low=16\nthinktime=100\nthinktime_blocks=4\nrate=1m,500k\nrate_process=poisson\n\
        runtime=10\nramp_time=2s\nstartdelay=500ms\nfsync=32\nsync=0\nprioclass=1\nprio=3\nnumjobs=4\nrandom_distribution=zipf:1.2\n\
        cgroup=/slow\ncgroup_weight=200\n";
    let job = &jobs(text)[0];
    assert_eq!(
        (job.row, job.mix, job.depth, job.batch, job.batch_complete, job.depth_low),
        (8, 70, 32, 8, 4, Some(16))
    );
    assert_eq!(job.sizes, ["4096/5000:65536/5000", "8192/10000"]);
    assert_eq!((job.think, job.think_blocks, job.rate), (100_000, 4, [1 << 20, 500 << 10]));
    assert_eq!(
        (job.runtime, job.ramp, job.startdelay),
        (Some(10_000_000_000), 2_000_000_000, 500_000_000)
    );
    assert_eq!(
        (job.prio.as_deref(), job.distribution.as_deref()),
        (Some("rt/3"), Some("zipf:1.2"))
    );
    // Buffered or synchronous: one call at a time, and the reason.
    let file = parse("[a]\nsize=1m\nioengine=libaio\niodepth=8").unwrap();
    assert_eq!((file.jobs[0].depth, file.notes.len()), (1, 1));
    assert_eq!(jobs("[a]\nsize=1m\nnice=-20")[0].prio.as_deref(), Some("be/0"));
}

#[test]
fn an_experiment_has_the_processes_their_stages_and_shared_files() {
    let text = "[global]\nsize=8m\nruntime=5\n[lay out]\nrw=write\nfilename=f\n[readers]\nstonewall\nnumjobs=2\nfilename=f\nsize=4m\n\
        [raw]\nfilename=/dev/sda\n[last]\nwait_for=readers\noffset_increment=1m\nnumjobs=2\nsize=1m\nrw=randwrite\n";
    let file = parse(text).unwrap();
    let made = experiment(&file, "a.fio", None).unwrap();
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
    let target = experiment(&file, "a.fio", Some("raw")).unwrap();
    assert!(target.contains("[workload.jobs.target]\nload = \"job\""), "{target}");
    assert!(experiment(&file, "a.fio", Some("readers")).unwrap_err().what.contains("one process"));
    assert!(experiment(&file, "a.fio", Some("x")).unwrap_err().what.contains("no job 'x'"));
}

#[test]
fn every_key_stands_in_the_table_once() {
    let mut all: Vec<&str> =
        keys::KEYS.iter().flat_map(|k| [k.0, k.1]).filter(|k| !k.is_empty()).collect();
    let n = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), n);
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
            }
            Err(error) => {
                bad += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(good > 200 && bad > 200, "{good} and {bad}");
}
