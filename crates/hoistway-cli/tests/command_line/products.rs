//! Numbers that are small by themselves and large together: each product ends in an error that names the file, its line and
//! the limit, or stays within little memory.

use super::hostile::confined;
use super::*;

fn args(list: &[&str]) -> Vec<std::ffi::OsString> {
    list.iter().map(std::ffi::OsString::from).collect()
}

fn refused(output: &Output, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "'{part}': {said}"));
}

#[test]
fn tags_of_a_drive_are_few_enough_for_memory() {
    let folder = Folder::new("tags");
    let run = |depth: u64, queues: u64, config: &str| {
        let text = format!(
            "schema = 1\nname = \"x\"\nbase = \"null-block\"\n[host]\nqueue_depth = {depth}\nhw_queues = {queues}\n"
        );
        fs::write(folder.0.join("x.toml"), text).unwrap();
        let command =
            ["run", "latency-2019", config, "-d", "./x.toml", "-w", "readers", "--reps", "1"];
        confined(&folder, &args(&[&command[..], &["--duration", "10ms", "--quiet"]].concat()))
    };
    refused(&run(10_241, 1, "none"), &["x.toml:5: ", "queue_depth = 10241 is outside 1..=10240"]);
    refused(&run(1, 4097, "none"), &["x.toml:6: ", "hw_queues = 4097 is outside 1..=4096"]);
    let tags = "hw_queues = 4096 with queue_depth = 10240 make 41943040 tags, at most 1048576";
    refused(&run(10_240, 4096, "none"), &["x.toml:6: ", tags]);
    for (depth, queues, config) in [(10_240, 102, "none"), (256, 4096, "kyber")] {
        let output = run(depth, queues, config);
        assert!(output.status.success(), "{depth} x {queues} {config}: {}", stderr(&output));
    }
}

/// An experiment with two groups of processes of load `job`.
fn experiment(first: &str, second: &str) -> String {
    format!(
        "schema = 1\ntitle = \"x\"\nabout = \"x\"\ndrives = [\"null-block\"]\nconfigs = [\"none\"]\nworkloads = [\"w\"]\nreps = 1\n\
         [host]\nprofile = \"2019\"\n[window]\nramp = \"0s\"\nmeasured = \"1ms\"\n\
         target_interval = \"1ms\"\ndevice_interval = \"1ms\"\n\
         [workload.w]\nsummary = \"x\"\n\
         [[workload.w.procs]]\nname = \"a\"\nload = \"job\"\nsize = \"4k\"\n{first}\n\
         [[workload.w.procs]]\nname = \"b\"\nload = \"job\"\nsize = \"4k\"\n{second}\n"
    )
}

#[test]
fn files_of_all_processes_are_counted_together() {
    let folder = Folder::new("files");
    let run = |text: String| {
        fs::write(folder.0.join("x.toml"), text).unwrap();
        confined(&folder, &args(&["run", "./x.toml", "--quiet"]))
    };
    let one = "files = 7 for each of 18725 processes: with them the workload has 131075 files, at most 131072";
    refused(&run(experiment("", "count = 18725\nfiles = 7")), &["x.toml:27: ", one]);
    let two = "files = 2 for each of 1 processes: with them the workload has 131073 files, at most 131072";
    refused(&run(experiment("files = 131071", "files = 2")), &["x.toml:26: ", two]);
    let names: Vec<String> = (0..101).map(|i| format!("\"f{i}\"")).collect();
    let shared = format!("count = 9999\nfile = [{}]", names.join(", "));
    let uses = "with them the workload has 1009899 uses of files, at most 1000000";
    refused(
        &run(experiment("", &shared)),
        &["x.toml:27: ", "file: 101 files, each used by 9999", uses],
    );
    fs::write(folder.0.join("x.fio"), "[a]\nsize=4k\nnrfiles=65536\nnumjobs=10000\n").unwrap();
    let output = confined(&folder, &args(&["run", "--job", "x.fio"]));
    refused(&output, &["x.fio:1: nrfiles", "655360000 files, of at most 131072"]);
}

/// Each directory stays within its own limit; what counts is what all take together.
#[test]
fn run_directories_are_merged_within_one_limit_for_all() {
    let folder = Folder::new("together");
    let command =
        "run latency-2019 none -d null-block -w readers --duration 10ms --reps 1 --quiet --out r0";
    let made = folder.run(&command.split(' ').collect::<Vec<_>>());
    assert!(made.status.success(), "{}", stderr(&made));
    // A comment costs the file's size, and nothing else.
    let manifest = String::from_utf8(folder.file("r0/run.toml")).unwrap();
    let padded = format!("{manifest}\n# {}\n", "x".repeat((4 << 20) - manifest.len() - 10));
    fs::write(folder.0.join("r0/run.toml"), &padded).unwrap();
    let all: Vec<String> = (0..20).map(|i| format!("r{i}")).collect();
    for dir in &all[1..] {
        std::os::unix::fs::symlink("r0", folder.0.join(dir)).unwrap();
    }
    for verb in ["merge", "recommend"] {
        let all: Vec<&str> = [verb].into_iter().chain(all.iter().map(String::as_str)).collect();
        let what = "with it the records of all runs so far take more than 512 MiB of memory; give fewer run directories";
        refused(&confined(&folder, &args(&all)), &["/run.toml: ", what]);
        let few = confined(&folder, &args(&all[..3]));
        assert!(matches!(few.status.code(), Some(0 | 1)), "{verb}: {}", stderr(&few));
    }
}
