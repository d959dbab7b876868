//! Tables, lists, help and JSON.

use super::*;

/// Without a terminal 100 columns are there.
#[test]
fn tables_lose_columns_rather_than_wrap() {
    let folder = Folder::new("width");
    let args = |more: &[&str]| {
        let text = "compare latency-2019 --quick --reps 3 --drive hitachi-hts727550a9e364 --out x";
        let output = folder.run(&text.split(' ').chain(more.iter().copied()).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let rows = |text: &str| -> Vec<String> {
        let table = text.lines().filter(|l| l.starts_with("drive ") || l.starts_with("hitachi"));
        table.map(str::to_string).collect()
    };
    let usual = args(&[]);
    assert!(rows(&usual).iter().all(|l| l.chars().count() <= 100), "{usual}");
    assert!(usual.contains("(--wide adds: "), "{usual}");
    let wide = args(&["--wide"]);
    assert!(rows(&wide)[0].len() > 100 && !wide.contains("--wide adds"), "{wide}");
    let report = stdout(&folder.run(&["report", "x", "--wide"]));
    assert_eq!(rows(&report), rows(&wide));
}

#[test]
fn a_process_that_does_not_exist_is_an_error_of_its_line() {
    let folder = Folder::new("groups");
    fs::create_dir_all(folder.0.join("g/batch")).unwrap();
    fs::write(folder.0.join("g/batch/cgroup.procs"), "reader1\n# two\nraeder\n").unwrap();
    let args = ["compare", "--config", "prop-bfq", "--groups", "g", "--dry-run"];
    let output = folder.run(&args);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("g/batch/cgroup.procs:3: no workload of latency-2019"), "{text}");
    assert!(text.contains("did you mean 'reader'?"), "{text}");
    fs::write(folder.0.join("g/batch/cgroup.procs"), "reader1\nreader\ntarget\n").unwrap();
    assert_eq!(folder.run(&args).status.code(), Some(0));
}

/// A weight or a limit that nobody heeds is told, with what heeds it.
#[test]
fn files_of_groups_that_do_nothing_are_told() {
    let folder = Folder::new("idle-files");
    fs::create_dir_all(folder.0.join("g/batch")).unwrap();
    fs::write(folder.0.join("g/batch/cgroup.procs"), "reader\n").unwrap();
    fs::write(folder.0.join("g/batch/io.weight"), "200\n").unwrap();
    fs::write(folder.0.join("g/batch/io.max"), "drive rbps=1048576\n").unwrap();
    let told = |configs: &str| {
        let args = ["compare", "--config", configs, "--groups", "g", "--dry-run"];
        let output = folder.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    let text = told("none,mq-deadline,cost-none,max-none");
    let weight = "warning: io.weight of group /batch does nothing under none, mq-deadline, max-none; it takes cost-NAME";
    let limit = "warning: io.max of group /batch does nothing under none, mq-deadline, cost-none; it takes max-NAME";
    assert!(text.contains(weight) && text.contains(limit), "{text}");
    fs::remove_file(folder.0.join("g/batch/io.max")).unwrap();
    assert_eq!(told("cost-none,cost-bfq"), "");
}

/// One grammar on flags, in experiment files and in drive files.
#[test]
fn quantities_are_read_alike_everywhere() {
    let folder = Folder::new("quantities");
    let drive = stdout(&folder.run(&["show", "plextor-px-256m5s"]));
    let rate = drive.lines().find(|l| l.starts_with("rate_mb_s")).unwrap().to_string();
    let with = |text: &str| {
        fs::write(folder.0.join("d.toml"), drive.replace(&rate, &format!("rate_mb_s = {text}")))
            .unwrap();
        folder.run(&["compare", "--drive", "d.toml", "--dry-run"])
    };
    assert_eq!(with("\"0.5GB/s\"").status.code(), Some(0));
    let refused = with("\"0.5 parsec\"");
    let text = stderr(&refused);
    assert!(refused.status.code() == Some(2) && text.contains("d.toml:"), "{text}");
    assert!(text.contains("rate_mb_s = '0.5 parsec' is not a rate; write a size"), "{text}");
    let flag = folder.run(&["compare", "--duration", "1.5min", "--dry-run"]);
    assert!(stdout(&flag).contains("90 s"), "{}", stderr(&flag));
}

#[test]
fn dry_run_says_what_would_run_and_writes_nothing() {
    let folder = Folder::new("dry-run");
    let hdd = "hitachi-hts727550a9e364";
    let output = folder.run(&["compare", "latency-2019", "--drive", hdd, "--dry-run"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("40 runs: 10 repetitions of each, seeds 1 to 10"), "{text}");
    assert!(text.contains(&format!("{hdd}/none-none/readers")) && text.contains("10 s"), "{text}");
    assert_eq!(folder.entries(), 0);
    assert!(
        text.contains("I/O classes:") && text.contains("target rt/4"),
        "none-bfq's rule: {text}"
    );
    let none = stdout(&folder.run(&["compare", "--config", "none-none", "--dry-run"]));
    assert!(!none.contains("I/O classes"), "nobody has one: {none}");
    // Nothing named: what people choose between, in as many runs as the experiment's own two take.
    let first = stdout(&folder.run(&["compare", "--dry-run"]));
    assert!(first.contains("40 runs: 4 repetitions of each"), "{first}");
    for config in ["none", "mq-deadline", "kyber", "bfq", "slo-paternoster"] {
        assert!(first.contains(&format!("plextor-px-256m5s/{config}/writers")), "{first}");
    }
    let named = stdout(&folder.run(&["compare", "latency-2019", "--dry-run"]));
    assert!(named.contains("40 runs: 10 repetitions of each"), "{named}");
}

#[test]
fn everything_listed_can_be_shown() {
    let folder = Folder::new("list");
    for kind in ["schedulers", "models", "drives", "experiments", "loads"] {
        let listed = stdout(&folder.run(&["list", kind]));
        let names = listed.lines().skip(2).filter_map(|l| l.split_whitespace().next());
        let names: Vec<&str> = names.collect();
        assert!(!names.is_empty(), "{kind}: {listed}");
        for name in names {
            let output = folder.run(&["show", name]);
            assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
            assert!(stdout(&output).contains(name), "{name}");
        }
    }
    let json = stdout(&folder.run(&["list", "--json"]));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed["schema"], 1);
    assert!(parsed["configs"].as_array().unwrap().len() > 5);
}

#[test]
fn settings_say_in_a_word_what_a_change_does_and_explain_each_word_once() {
    let folder = Folder::new("settings");
    let text = stdout(&folder.run(&["show", "cfq"]));
    let row = |name: &str| text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
    assert!(row("slice_idle").contains("0..=600000      waits           How long"), "{text}");
    assert!(row("quantum").contains("1..=2147483647  at once         Most requests"), "{text}");
    assert_eq!(text.matches("looked at in each decision").count(), 1, "{text}");
    assert!(text.contains("\nif changed while running:\n"), "{text}");
    assert!(text.contains("\n  waits           an armed wait is shortened to it"), "{text}");
    assert!(!text.contains("later samples"), "cfq has no such setting: {text}");

    let text = stdout(&folder.run(&["show", "cfq", "--markdown"]));
    assert!(text.contains("| `slice_idle` | 8 ms | 0 to 600000 | How long"), "{text}");
    assert!(text.contains("| setting of a group | default |"), "{text}");
    assert!(text.contains("| `weight` | 500 | 100 to 1000 |"), "{text}");
    assert!(text.contains("*waits*: an armed wait is shortened"), "{text}");
    let words = stdout(&folder.run(&["show", "mq-deadline", "--markdown"]));
    assert!(words.contains("| `full` | `full`, `three_quarters` |"), "{words}");
    assert_eq!(stdout(&folder.run(&["show", "noop", "--markdown"])), "No settings.\n");
}

#[test]
fn json_is_one_document_with_all_metrics() {
    let folder = Folder::new("json");
    let output = folder.run(&["compare", "--quick", "--reps", "1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let parsed: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&parsed["schema"], &parsed["seed"]), (&1.into(), &1.into()));
    let metrics = parsed["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|m| m["metric"] == "latency_avg" && m["rep"].is_null()));
}

#[test]
fn help_fits_a_screen_and_completions_exist() {
    let folder = Folder::new("help");
    // A verb is a line of the first page, and none can be left out of it; nor can the heads of their groups. 46: `module` is the
    // 28th verb.
    for (args, most) in
        [(&["-h"][..], 46), (&["compare", "-h"], 30), (&["run", "-h"], 30), (&["list", "-h"], 30)]
    {
        let text = stdout(&folder.run(args));
        assert!(text.lines().count() <= most, "{args:?}: {} lines", text.lines().count());
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(&folder.run(&["completions", shell]));
        assert!(text.contains("hoistway") && text.contains("compare"), "{shell}");
        // The scripts of fish know the values of options alone.
        let names = ["samsung-970-pro", "mq-deadline", "cost-none", "startup-s"];
        for name in &names[..if shell == "fish" { 3 } else { 4 }] {
            assert!(text.contains(name), "{shell} does not know {name}");
        }
    }
}
