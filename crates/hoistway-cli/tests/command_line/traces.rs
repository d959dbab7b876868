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
    fs::write(folder.0.join("t.txt"), &text).unwrap();
    fs::write(folder.0.join("v1"), "0, 4096, 512\n").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["t.txt"], "t.txt: is no trace of a known format"),
        (&["v1"], "a fio iolog of version 1"),
        (&["t.txt", "--format", "blkparse", "--strict"], "line 2: sequence is not a whole number"),
        (&["t.txt", "--format", "msr"], "none of the first 100 records"),
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
    let output = folder.run(&["describe", "t.txt", "--format", "blkparse"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("1 malformed records were left out; the first: line 2"));
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
