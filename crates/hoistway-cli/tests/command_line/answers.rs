//! What is made of many runs: `reproduce`, `recommend`, `merge`, `calibrate`.

use super::*;

/// What it writes and prints; what is there already is not run again.
#[test]
fn reproduce_puts_published_values_beside_ours() {
    let folder = Folder::new("reproduce");
    let args = ["reproduce", "fairness-2010", "--quick", "--out", "out", "--markdown", "page.md"];
    let first = folder.run(&args);
    let text = stdout(&first);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(text.contains("2 parallel readers of files 500 MB apart"), "{text}");
    assert!(text.contains("agreement with published figures"), "{text}");
    for file in ["reproduction.html", "reproduction.csv", "published.csv", "fairness-2010/run.toml"]
    {
        assert!(!folder.file(&format!("out/{file}")).is_empty(), "{file}");
    }
    assert_eq!(folder.file("page.md"), folder.file("out/reproduction.md"));
    let csv = String::from_utf8(folder.file("out/reproduction.csv")).unwrap();
    let published = csv.lines().filter(|l| l.contains(",cfq,2r-seq,") && l.contains(",34.1,"));
    assert_eq!(published.count(), 1, "the published value stands beside ours");
    let again = folder.run(&args);
    assert!(stderr(&again).contains("1 of 1 experiments are there already"), "{}", stderr(&again));
    assert_eq!(stdout(&again), text);
    let json = folder.run(&["reproduce", "fairness-2010", "--quick", "--out", "out", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["agreement"]["compared"], 4, "{}", json["agreement"]);
    let dry = stdout(&folder.run(&["reproduce", "all", "--as-published", "--dry-run"]));
    assert!(dry.contains("latency-2019") && dry.contains("nothing was run or written"), "{dry}");
}

/// The same runs give the same answer and the same bytes; the rules that it writes undo themselves.
#[test]
fn recommend_answers_from_runs_and_merge_counts_machines() {
    let folder = Folder::new("recommend");
    let common = ["compare", "latency-2019", "-c", "none,mq-deadline,bfq", "--quick", "--quiet"];
    let run = |reps: &str, out: &str| {
        let done = folder.run(&[&common[..], &["-r", reps, "-o", out]].concat());
        assert!(done.status.success(), "{}", stderr(&done));
    };
    run("3", "three");
    run("2", "two");
    let args = ["recommend", "three", "--rules", "rules"];
    let (once, again) = (folder.run(&args), folder.run(&args));
    let text = stdout(&once);
    assert_eq!((once.status.code(), &once.stdout), (Some(0), &again.stdout));
    // It was measured without the throttling that Linux has on, and writers were among the loads.
    assert!(text.contains("for desktop: bfq instead of mq-deadline, likely"), "{text}");
    assert!(text.contains("mq-deadline+wbt, which Linux chooses for such a drive"), "{text}");
    assert!(text.contains("\nthrottling  "), "{text}");
    assert!(text.contains("simulated") && text.contains("undo:"), "{text}");
    let rule = String::from_utf8(folder.file("rules/90-hoistway-sata-ssd.rules")).unwrap();
    assert!(rule.contains("ENV{ID_BUS}==\"ata\"") && rule.contains("=\"bfq\""), "{rule}");
    let (install, undo) = (folder.file("rules/install.sh"), folder.file("rules/undo.sh"));
    let lines = |script: Vec<u8>| String::from_utf8(script).unwrap();
    assert!(lines(install).contains("/etc/udev/rules.d/90-hoistway-sata-ssd.rules"));
    assert!(lines(undo).contains("rm -f /etc/udev/rules.d/90-hoistway-sata-ssd.rules"));

    assert!(
        rule.starts_with("# Made by hoistway ") && rule.contains("\n# Measured: 3 rounds of "),
        "{rule}"
    );

    // A page to paste, and all goals in one table.
    let page = stdout(&folder.run(&["recommend", "three", "--markdown"]));
    for part in [
        "# PLEXTOR SATA PX-256M5S, for desktop\n\n**bfq instead of mq-deadline, likely",
        " Against mq-deadline: reads ",
        "\n| config | latency | ",
        "\n- *throttling*: ",
        "\n## To install\n\n```text\n",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let matrix = folder.run(&["recommend", "three", "--for", "all", "--markdown"]);
    let rows = stdout(&matrix);
    assert!(rows.starts_with("| class | drive | desktop | "), "{rows}");
    assert!(rows.contains("| sata-ssd | plextor-px-256m5s | bfq, likely |"), "{rows}");
    assert!(stderr(&matrix).contains("left out: share: "), "{}", stderr(&matrix));
    let matrix = folder.run(&["recommend", "three", "--for", "all", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&matrix.stdout).unwrap();
    assert_eq!(value["goals"]["desktop"][0]["config"], "bfq");
    let refused = folder.run(&["recommend", "three", "--for", "all", "--rules", "x"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));

    let few = folder.run(&["recommend", "two", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&few.stdout).unwrap();
    assert_eq!(few.status.code(), Some(1));
    assert_eq!(value["drives"][0]["answer"], "not enough data");
    assert_eq!(value["drives"][0]["rounds_more"], 1);

    let merged = folder.run(&["merge", "three", "--out", "page.html"]);
    let text = stdout(&merged);
    assert!(merged.status.success() && text.contains("1 of at least 3 machines"), "{text}");
    assert!(folder.file("page.html").starts_with(b"<!doctype html>"));
    for (args, said) in [
        (&["merge", "three", "nowhere"][..], "nowhere"),
        (&["recommend", "three", "--for", "dekstop"], "there are: desktop"),
        (&["recommend", "three", "--for", "share"], "choose another goal"),
        (&["recommend", "three", "--present", "kyber"], "there are: none, mq-deadline, bfq"),
    ] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

/// What was measured is installed as a whole or not at all: a scheduler without its weights is something else.
#[test]
fn rules_hold_all_of_what_was_chosen_or_nothing() {
    let folder = Folder::new("recommend-share");
    let run = ["compare", "bench-share", "-d", "samsung-970-pro", "-c", "none,prop-bfq", "-r", "3"];
    let run = [&run[..], &["--duration", "1s", "--quiet", "-j", "1", "-o", "r"]].concat();
    let done = folder.run(&run);
    assert!(done.status.success(), "{}", stderr(&done));
    let ask =
        |more: &[&str]| folder.run(&[&["recommend", "r", "--for", "share"][..], more].concat());
    let text = stdout(&ask(&[]));
    assert!(text.contains("for share: prop-bfq"), "{text}");
    assert!(text.contains("systemctl set-property SERVICE IOWeight=2300"), "{text}");
    assert!(text.contains("io.bfq.weight 300"), "{text}");
    for (more, said) in [
        (&[][..], "name each with --service NAME=WEIGHT (measured: 100, 300)"),
        (&["--service", "web=400"], "one of those that were measured: 100, 300"),
        (&["--service", "bulk=100"], "of weight 300"),
    ] {
        let refused = ask(&[&["--rules", "rules"][..], more].concat());
        assert_eq!(refused.status.code(), Some(1), "{more:?}");
        assert!(stderr(&refused).contains(said), "{more:?}: {}", stderr(&refused));
        assert!(!folder.0.join("rules").exists(), "{more:?}");
    }
    let wrong = ask(&["--rules", "rules", "--service", "a b=1"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let whole = ask(&["--rules", "rules", "--service", "web=300", "--service", "bulk.slice=100"]);
    assert!(whole.status.success(), "{}", stderr(&whole));
    let text = |file: &str| String::from_utf8(folder.file(file)).unwrap();
    let (install, undo) = (text("rules/install.sh"), text("rules/undo.sh"));
    assert!(install.contains("systemctl set-property web.service IOWeight=2300\n"), "{install}");
    assert!(install.contains("systemctl set-property bulk.slice IOWeight=100\n"), "{install}");
    assert!(undo.contains("systemctl set-property web.service IOWeight=\n"), "{undo}");
    let rule = text("rules/90-hoistway-nvme.rules");
    assert!(rule.contains("ATTR{queue/iosched/low_latency}=\"0\""), "as it was measured: {rule}");
}

/// A device with a fixed latency is found, its file can be used, and the same command asks nothing twice.
#[test]
fn calibrate_finds_the_file_of_a_drive_that_it_only_asks() {
    let folder = Folder::new("calibrate");
    let args = ["calibrate", "--drive", "fixed-100us", "--fit", "--quick", "--out", "mine.toml"];
    let args = [&args[..], &["--report", "fit.html"]].concat();
    let first = folder.run(&args);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(
        stdout(&first).contains("F2/depth 64") && stdout(&first).contains("Drive model: bucket")
    );
    let text = String::from_utf8(folder.file("mine.toml")).unwrap();
    assert!(text.contains("read_us = 100.0") && text.contains("# measured: F1"), "{text}");
    assert!(folder.0.join("mine.answers.json").exists() && folder.0.join("mine.fit.json").exists());
    let page = String::from_utf8(folder.file("fit.html")).unwrap();
    assert!(page.contains("Random reads by depth") && page.contains("F2/depth 64"), "a chart");
    let again = folder.run(&args);
    assert_eq!(stdout(&again), stdout(&first));
    assert!(!stderr(&again).contains("F1"), "nothing is asked twice: {}", stderr(&again));
    let used = folder.run(&["compare", "latency-2019", "--drive", "mine.toml", "--dry-run"]);
    assert!(used.status.success(), "{}", stderr(&used));
    for bad in [
        &["calibrate", "--drive", "fixed-100us"][..],
        &["calibrate", "/dev/null", "--drive", "fixed-100us", "--fit"],
        &["calibrate", "nowhere"],
        &["calibrate", ".", "--size", "4k"],
    ] {
        let output = folder.run(bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", stderr(&output));
    }
}
