//! Traces: read, described, replayed, written for blkparse.

use super::*;

/// A trace of two programs: one reads in sequence in bursts, the other writes at random.
fn trace_text() -> String {
    let mut out = String::new();
    for i in 0..400_u64 {
        let at = |n: u64| format!("{}.{:06}", n / 1_000_000, n % 1_000_000);
        let burst = i / 20 * 100_000 + i % 20;
        let (sector, far) = (i * 8, 1_000_000 + (i * 7919) % 10_007 * 8);
        out += &format!("  8,0 1 {i} {}  10  Q  R {sector} + 8 [copy]\n", at(burst));
        out += &format!("  8,0 1 {i} {}  11  Q WS {far} + 16 [db]\n", at(burst + 30));
        out += &format!("  8,0 1 {i} {}   0  C  R {sector} + 8 [0]\n", at(burst + 500));
    }
    out
}

#[test]
fn describe_tells_what_a_trace_is_made_of() {
    let folder = Folder::new("describe");
    fs::write(folder.0.join("t.txt"), trace_text()).unwrap();
    let output = folder.run(&["describe", "t.txt", "--html", "t.html"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "t.txt: blkparse text",
        "800 requests in 1.9",
        "copy/10",
        "db/11",
        "49.9 % their process's",
        "response of reads on the recorded device: 500 us (mean)",
        "hoistway replay t.txt --split-by process --target",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let html = String::from_utf8(folder.file("t.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("<td>db/11</td>"));
    let json = stdout(&folder.run(&["describe", "t.txt", "--json", "--device", "8,0"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["requests"]), (&1.into(), &800.into()));
    assert_eq!(json["operations"]["write"]["bytes"], 400 * 8192);
    assert_eq!(json["sequential"]["of_process"], 399);
    assert_eq!(json["depth"]["response_read_ns"]["count"], 400);
}

#[test]
fn bad_traces_end_with_exit_2_and_say_where() {
    let folder = Folder::new("bad-traces");
    let mut text = trace_text();
    text.insert_str(text.find('\n').unwrap() + 1, "  8,0 1 x 0.1 10 Q R 0 + 8 [copy]\n");
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let files: &[(&str, &[u8])] = &[
        ("t.txt", text.as_bytes()),
        ("v1", b"0, 4096, 512\n"),
        ("header.csv", header.as_bytes()),
        ("near.csv", b"128166372003061629,usr,0,Trim,0,512,1\n"),
        ("job.fio", b"[a]\nrw=randread\nbs=4k\n"),
        ("junk", &[7; 5000]),
        ("empty", b""),
    ];
    for (name, content) in files {
        fs::write(folder.0.join(name), content).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_hoistway");
    let cases: &[(&[&str], &str)] = &[
        (
            &["near.csv"],
            "near.csv: is no trace of a known format; nearest is msr (has its columns; line 1: Type is neither",
        ),
        (&["header.csv"], "header.csv: the trace has no records (format msr)"),
        (&["job.fio"], "job.fio: is a fio job file, no trace: `hoistway run --job FILE` runs it"),
        (&["junk"], "junk: is no text, no recording of blktrace"),
        (&["empty"], "empty: is empty"),
        (&[program], "is a program (ELF)"),
        (&["/dev/zero"], "/dev/zero: is a device; name a trace"),
        (&["/dev/zero", "--format", "msr"], "/dev/zero: is a device; name a trace"),
        (&["."], "is a folder; name a trace"),
        (&["v1"], "a fio iolog of version 1"),
        (&["t.txt", "--format", "blkparse", "--strict"], "line 2: sequence is not a whole number"),
        (&["t.txt", "--format", "msr"], "none of the first 1000 records"),
        (&["t.txt", "--format", "blkparse", "--device", "8,1"], "no request passes the filters"),
        (&["t.txt", "--from", "5s", "--to", "1s"], "the time range is empty"),
        (&["t.txt", "--offsets", "5"], "two offsets with a minus between"),
        (&["none.txt"], "there is no such file, nor none.txt.blktrace.0"),
    ];
    for (args, message) in cases {
        let output = folder.run(&[&["describe"], *args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
    for name in ["near.csv", "header.csv", "job.fio", "empty", "/dev/zero"] {
        let output = folder.run(&["replay", name, "--quiet"]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", stderr(&output));
        assert!(!folder.0.join("runs").exists(), "{name} left a run behind");
    }
    let output = folder.run(&["describe", "t.txt"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("1 line was left out; the first: line 2: sequence is"));
}

/// A log of fio before 3.31: no time anywhere.
fn log_without_times() -> String {
    let mut out = String::from("fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n");
    for i in 0..2000_u64 {
        out += &format!("/dev/sdb read {} 4096\n", i * 7919 % 100_000 * 4096);
    }
    out + "/dev/sdb close\n"
}

#[test]
fn a_trace_without_times_has_no_rate_and_is_replayed_one_after_another() {
    let folder = Folder::new("no-times");
    fs::write(folder.0.join("v2.log"), log_without_times()).unwrap();
    let output = folder.run(&["describe", "v2.log", "--html", "t.html"]);
    let text = stdout(&output);
    assert!(
        output.status.success() && text.contains("requests in all: 2000, times unknown"),
        "{text}"
    );
    assert!(!text.contains("per second") && text.contains("arrivals: unknown"), "{text}");
    let page = String::from_utf8(folder.file("t.html")).unwrap();
    assert!(page.contains("times unknown") && !page.contains("per second"));
    let json = stdout(&folder.run(&["describe", "v2.log", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let null = serde_json::Value::Null;
    assert_eq!((&json["span_ns"], &json["per_second"], &json["arrivals"]), (&null, &null, &null));
    assert_eq!((&json["times_known"], &json["requests"]), (&false.into(), &2000.into()));

    fs::write(folder.0.join("one.csv"), "128166372003061629,usr,0,Read,0,512,1\n").unwrap();
    let one = stdout(&folder.run(&["describe", "one.csv"]));
    assert!(one.contains("requests in all: 1\n") && !one.contains("per second"), "{one}");

    // By itself in closed loop: a mean latency is one read's, not that of a queue of 2000.
    let output = folder.run(&["replay", "v2.log", "-c", "none,mq-deadline", "--quiet"]);
    let (printed, said) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the trace has no times, so it is replayed in closed loop"), "{said}");
    assert!(
        printed.contains("loop: closed, depth 1") && printed.contains("verdict: "),
        "{printed}"
    );
    let mean = printed.split("mean latency (").nth(1).and_then(|t| t.split(' ').next());
    assert!(mean.is_some_and(|ms| ms.parse::<f64>().unwrap() < 0.5), "{printed}");

    // All at once, because the user says so: told, and no verdict.
    let output = folder.run(&["replay", "v2.log", "--open", "-c", "none,mq-deadline", "--quiet"]);
    let printed = stdout(&output);
    assert!(
        output.status.success() && printed.contains("no verdict: the trace has no times"),
        "{printed}"
    );
    assert!(!printed.contains("\nverdict") && printed.contains("submitted at once"), "{printed}");

    // A pipe can be looked at only once.
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&folder.0);
        command.env("HOISTWAY", env!("CARGO_BIN_EXE_hoistway")).output().unwrap()
    };
    for input in ["-", "/dev/stdin"] {
        let output = shell(&format!(
            "cat v2.log | $HOISTWAY replay {input} -c none --quiet -o piped --fresh"
        ));
        let printed = stdout(&output);
        assert!(output.status.success(), "{input}: {}", stderr(&output));
        assert!(
            printed.contains("no verdict") && printed.contains("trace: 2000 records"),
            "{printed}"
        );
        let output = shell(&format!("cat v2.log | $HOISTWAY replay {input} -c none,bfq --quiet"));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("can be read only once"), "{}", stderr(&output));
    }
}

#[test]
fn a_clock_that_jumps_costs_no_time() {
    let folder = Folder::new("leap");
    // A drive with faults lives through every second of a gap; this one is of 95 years.
    let drive = include_str!("../../../../drives/fixed-100us.toml").to_string()
        + "\n[faults]\npause_every_ms = 2000\npause_ms = \"150ms\"\n";
    fs::write(folder.0.join("p.toml"), drive).unwrap();
    let line = |time: u64| format!("{time},usr,0,Read,{},4096,1000\n", time % 4096 * 4096);
    let trace: String = [128_166_372_003_061_629, 128_166_372_004_061_629, 157_266_372_003_061_629]
        .map(line)
        .concat();
    fs::write(folder.0.join("leap.csv"), trace).unwrap();
    for pace in ["--open", "--closed"] {
        let args =
            ["replay", "leap.csv", "-d", "./p.toml", "-c", "none,cost-none", pace, "--quiet"];
        let output = folder.run(&args);
        let printed = stdout(&output);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            printed.contains("note: 1 gaps of more than an hour without a record"),
            "{printed}"
        );
        assert!(printed.contains("(808332 h in all left out)"), "{printed}");
    }
}

#[test]
fn a_saved_run_is_replayed_compared_and_read_by_blkparse() {
    let folder = Folder::new("replay");
    let saved = folder.run(&[
        "run",
        "latency-2019",
        "none-bfq",
        "--workload",
        "readers",
        "--drive",
        "samsung-970-pro",
        "--duration",
        "300ms",
        "--save-trace",
        "run.blktrace.0",
        "--quiet",
    ]);
    assert!(saved.status.success(), "{}", stderr(&saved));

    let again = folder.run(&["replay", "run.blktrace.0", "--quiet", "--out", "again"]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(stderr(&again).contains("hoistway's own run of none-bfq on samsung-970-pro"));
    let printed = stdout(&again);
    assert!(printed.contains("target") && printed.contains("one configuration was replayed"));
    let manifest = String::from_utf8(folder.file("again/run.toml")).unwrap();
    assert!(manifest.contains("open, every step of a run"), "{manifest}");

    let args = ["replay", "run.blktrace.0", "-c", "none,mq-deadline", "--speed", "2", "--quiet"];
    let others = folder.run(&args);
    let printed = stdout(&others);
    assert!(others.status.success(), "{}", stderr(&others));
    assert!(printed.contains("format blktrace, 0 malformed"), "{printed}");
    assert!(printed.contains("latency by process") && printed.contains("verdict: "), "{printed}");

    // Records of the trace, without what is not an I/O.
    let queued = printed.split("trace: ").nth(1).and_then(|t| t.split(' ').next()).unwrap();
    match Command::new("blkparse").args(["-i", "run"]).current_dir(&folder.0).output() {
        Err(error) => println!("skipped: blkparse: {error}"),
        Ok(output) => {
            let lines = stdout(&output);
            let of = |action: &str| {
                lines.lines().filter(|l| l.split_whitespace().nth(5) == Some(action)).count()
            };
            assert_eq!(of("Q").to_string(), queued);
            assert!(of("D") > 100 && of("C") > 100 && of("m") > 10);
        }
    }
}
