//! Watching a running server with real clients: `top`, metrics, `ctl explain`. What is not
//! installed is skipped with a printed reason.
#![cfg(all(feature = "live", target_os = "linux"))]

mod exposition;
mod serving;

use exposition::{Scrape, parse};
use serde_json::Value;
use serving::{Folder, HOISTWAY, LIMIT, Server, installed, run, wait_for};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Two weighted tenants on one device.
struct Watched {
    folder: Folder,
    _server: Server,
}

impl Watched {
    fn start(name: &str, scheduler: &str, target: &str) -> Watched {
        let folder = Folder::new(name);
        let exports = [
            format!("gold={target},weight=300,size=16M"),
            format!("bronze={target},weight=100,offset=16M"),
        ];
        let metrics = format!("unix:{}", folder.path("metrics"));
        let (socket, control) = (folder.path("nbd"), folder.path("control"));
        let mut args = vec!["-s", scheduler, "--socket", &socket, "--control", &control];
        args.extend(["--metrics", &metrics]);
        args.extend(exports.iter().flat_map(|e| ["-e", e]));
        let sign = folder.0.join("metrics");
        let server = Server::start(&args, &sign);
        Watched { folder, _server: server }
    }

    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.folder.path("nbd"))
    }

    /// `top` or `ctl` with these arguments.
    fn ask(&self, verb: &str, args: &[&str]) -> String {
        let control = self.folder.path("control");
        let (code, out, err) = run(HOISTWAY, &[&[verb, "--control", &control], args].concat());
        assert_eq!(code, Some(0), "{verb} {args:?}: {err}");
        out
    }

    fn stats(&self) -> Value {
        let mut stream = UnixStream::connect(self.folder.path("control")).unwrap();
        stream.write_all(b"{\"command\":\"stats\"}\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&answer["ok"], &answer["schema"]), (&true.into(), &1.into()));
        answer
    }

    fn scrape(&self) -> Scrape {
        let (head, body) = get(&self.folder.0.join("metrics"), "/metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
        parse(&body).unwrap_or_else(|e| panic!("{e}\n{body}"))
    }
}

/// Head and body of a page.
fn get(socket: &Path, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (format!("{head}\r\n"), body.to_string())
}

/// fio against an export; the JSON of its only job.
fn fio(uri: &str, args: &[&str]) -> Value {
    let uri = format!("--uri={uri}");
    let common = ["--name=t", "--ioengine=nbd", &uri, "--output-format=json"];
    let (code, out, err) = run("fio", &[&common, args].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    let json: Value = serde_json::from_str(&out[out.find('{').unwrap()..]).unwrap();
    json["jobs"][0].clone()
}

#[test]
fn what_is_counted_is_what_fio_did_and_stays_when_clients_leave() {
    if !installed(&["fio"]) {
        return;
    }
    for (scheduler, name) in [("bfq", "sum-bfq"), ("none", "sum-none"), ("max-kyber", "sum-kyber")]
    {
        let server = Watched::start(name, scheduler, "ram:32M");
        let zero = server.scrape();
        let labels = |export, op| [("export", export), ("op", op)];
        assert_eq!(zero.value("hoistway_requests_total", &labels("gold", "read")), 0.0);
        let gold = fio(
            &server.uri("gold"),
            &["--rw=randrw", "--bs=4k", "--iodepth=16", "--size=8M", "--end_fsync=1"],
        );
        let bronze =
            fio(&server.uri("bronze"), &["--rw=read", "--bs=64k", "--iodepth=4", "--size=8M"]);
        // fio goes away before the server has noticed.
        let left = || server.scrape().sum("hoistway_clients", &[]) == 0.0;
        assert!(wait_for(left), "everybody has left");
        let after = server.scrape();
        let number = |of: &Value| of.as_f64().unwrap();
        for (export, job, op) in
            [("gold", &gold, "read"), ("gold", &gold, "write"), ("bronze", &bronze, "read")]
        {
            let of = labels(export, op);
            let requests = after.value("hoistway_requests_total", &of);
            assert_eq!(requests, number(&job[op]["total_ios"]), "{scheduler} {export} {op}");
            let bytes = after.value("hoistway_bytes_total", &of);
            assert_eq!(bytes, number(&job[op]["io_bytes"]), "{scheduler} {export} {op}");
            let timed = after.value("hoistway_request_duration_seconds_count", &of);
            assert_eq!(timed, requests);
        }
        for export in ["gold", "bronze"] {
            let of = [("export", export)];
            let data = after.sum("hoistway_bytes_total", &of);
            assert!(data > 0.0);
            let ops = ["read", "write"].map(|op| labels(export, op));
            let done: f64 = ops.iter().map(|of| after.sum("hoistway_requests_total", of)).sum();
            assert_eq!(after.value("hoistway_queue_wait_seconds_count", &of), done, "{scheduler}");
            // Little's law: the integral of the depth is the sum of the times, but for when within
            // a turn of the engine each is taken.
            let depth = after.value("hoistway_outstanding_seconds_total", &of);
            let times = after.sum("hoistway_request_duration_seconds_sum", &of);
            assert!((depth - times).abs() < 1e-2 * times, "{scheduler}: {depth} {times}");
            let waits = after.value("hoistway_queue_wait_seconds_sum", &of);
            assert!(waits <= times, "{scheduler}: {waits} of {times}");
        }
        assert_eq!(after.sum("hoistway_request_errors_total", &[]), 0.0);
        let share = |group| after.value("hoistway_class_share_ratio", &[("group", group)]);
        assert!((share("gold") + share("bronze") - 1.0).abs() < 1e-5);
        // The same numbers, asked for in another way.
        let stats = server.stats();
        let sums = stats["devices"][0]["sums"].as_array().unwrap();
        let sum = sums.iter().find(|s| s["export"] == "gold").unwrap();
        assert_eq!(sum["measure"]["ops"]["read"]["count"], gold["read"]["total_ios"]);
        assert_eq!(parse(&server.ask("ctl", &["metrics"])).unwrap().counters(), after.counters());
    }
}

#[test]
fn counters_never_go_back_while_clients_come_and_go() {
    if !installed(&["fio", "nbdcopy"]) {
        return;
    }
    let server = Watched::start("monotone", "bfq", "ram:32M");
    let uri = server.uri("gold");
    let load = ["--rw=randread", "--bs=4k", "--iodepth=8", "--size=16M", "--time_based"];
    let mut fio = Command::new("fio")
        .args(["--name=t", "--ioengine=nbd", &format!("--uri={uri}"), "--runtime=3", "--numjobs=2"])
        .args(load)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let scrapers: Vec<_> = (0..3)
        .map(|_| {
            let socket = server.folder.0.join("metrics");
            std::thread::spawn(move || {
                let mut last = None::<Scrape>;
                for _ in 0..40 {
                    let now = parse(&get(&socket, "/metrics").1).unwrap();
                    if let Some(before) = &last {
                        now.assert_not_before(before);
                    }
                    last = Some(now);
                }
                last.unwrap()
            })
        })
        .collect();
    // Meanwhile clients of the other group come, copy and leave.
    let data = server.folder.path("data");
    std::fs::write(&data, vec![0x5a; 16 << 20]).unwrap();
    for _ in 0..8 {
        let (code, _, err) = run("nbdcopy", &[&data, &server.uri("bronze")]);
        assert_eq!(code, Some(0), "{err}");
    }
    let scrapes: Vec<Scrape> = scrapers.into_iter().map(|s| s.join().unwrap()).collect();
    assert!(fio.wait().unwrap().success());
    let after = server.scrape();
    scrapes.iter().for_each(|scrape| after.assert_not_before(scrape));
    let written = after.value("hoistway_bytes_total", &[("export", "bronze"), ("op", "write")]);
    assert_eq!(written, f64::from(8 * (16 << 20)));
}

#[test]
fn every_scheduler_and_controller_has_metrics_that_parse() {
    let schedulers = [
        "none",
        "mq-deadline",
        "kyber",
        "adios",
        "k2",
        "paternoster",
        "bfq",
        "bfq-v1",
        "cfq",
        "sio",
        "noop",
        "deadline",
    ];
    let controlled = ["max-none", "lat-none", "cost-none", "none+wbt"];
    for scheduler in schedulers.into_iter().chain(controlled) {
        let server = Watched::start(&format!("parse-{scheduler}"), scheduler, "ram:32M");
        let scrape = server.scrape();
        let name = scheduler.trim_end_matches("+wbt");
        let name = name.rsplit_once("max-").or(name.rsplit_once("lat-")).map_or(name, |(_, s)| s);
        let name = name.strip_prefix("cost-").unwrap_or(name);
        assert_eq!(scrape.value("hoistway_scheduler_info", &[("scheduler", name)]), 1.0);
        let frame = server.ask("top", &["--once", "--interval", "20ms"]);
        assert!(frame.contains(name) && frame.contains("no clients"), "{frame}");
    }
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    if !installed(&["promtool"]) {
        return;
    }
    let server = Watched::start("promtool", "bfq", "ram:32M");
    std::fs::write(server.folder.0.join("text"), server.ask("ctl", &["metrics"])).unwrap();
    let script = format!("promtool check metrics <'{}'", server.folder.path("text"));
    let (code, out, err) = run("sh", &["-c", &script]);
    assert_eq!((code, &out[..], &err[..]), (Some(0), "", ""));
}

/// A file that people copy.
fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/serve").join(name)
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_exist() {
    let server = Watched::start("asked", "paternoster", "ram:32M");
    let text = server.ask("ctl", &["metrics"]);
    let exists = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"].map(|part| name.strip_suffix(part));
        let families = parts.into_iter().flatten().chain([name]);
        families.into_iter().any(|family| text.contains(&format!("# TYPE {family} ")))
    };
    let dashboard = std::fs::read_to_string(example("grafana.json")).unwrap();
    let alerts = std::fs::read_to_string(example("alerts.yml")).unwrap();
    let panels: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = panels["panels"].as_array().unwrap();
    let exprs = panels.iter().flat_map(|p| p["targets"].as_array().unwrap()).map(|t| &t["expr"]);
    let exprs: Vec<&str> = exprs.map(|e| e.as_str().unwrap()).chain([&alerts[..]]).collect();
    let mut asked = 0;
    for expr in exprs {
        for word in expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if word.starts_with("hoistway_") {
                assert!(exists(word), "{word} is no metric: {expr}");
                asked += 1;
            }
        }
    }
    assert!(asked >= 2 * panels.len(), "{asked} metrics in {} panels", panels.len());
}

#[test]
fn alerts_fire_when_they_should() {
    if !installed(&["promtool"]) {
        return;
    }
    let folder = Folder::new("alerts");
    let case = include_str!("exposition/alerts.yml");
    let case = case.replace("ALERTS", &example("alerts.yml").display().to_string());
    std::fs::write(folder.0.join("case.yml"), case).unwrap();
    let (code, out, err) = run("promtool", &["test", "rules", &folder.path("case.yml")]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn only_the_metrics_page_exists() {
    let server = Watched::start("pages", "none", "ram:32M");
    let socket = server.folder.0.join("metrics");
    for path in ["/", "/metrics/", "/metricsx", "/favicon.ico"] {
        assert!(get(&socket, path).0.starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(get(&socket, "/metrics?name=x").0.starts_with("HTTP/1.1 200"));
    // Whoever says nothing costs nobody else anything.
    let _silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    server.scrape();
    let (code, _, err) =
        run(HOISTWAY, &["serve", "-e", "ram:1M", "--run", "true", "--metrics", "tcp:0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("reachable from other machines"), "{err}");
    let (code, _, err) =
        run(HOISTWAY, &["serve", "-e", "ram:1M", "--run", "true", "--metrics", "tcp:0"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("metrics: http://127.0.0.1:"), "{err}");
}

/// The load of a test, ended with it.
struct Load(std::process::Child);

impl Load {
    fn start(uri: &str) -> Load {
        let mut fio = Command::new("timeout");
        fio.args([LIMIT, "fio", "--name=t", "--ioengine=nbd", &format!("--uri={uri}")]);
        fio.args(["--rw=randread", "--bs=64k", "--iodepth=16", "--size=16M"]);
        fio.args(["--time_based", "--runtime=1000"]);
        Load(fio.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn top_shows_shares_beside_entitlements() {
    if !installed(&["fio"]) {
        return;
    }
    let server = Watched::start("top", "bfq{low_latency=0}", "ram:32M");
    let _loads = [Load::start(&server.uri("gold")), Load::start(&server.uri("bronze"))];
    let both = || server.scrape().sum("hoistway_clients", &[]) >= 2.0;
    assert!(wait_for(both), "both clients are there");
    let args =
        ["--json", "--count", "3", "--interval", "200ms", "--by", "client", "--sort", "iops"];
    let frames = || -> Vec<Value> {
        let out = server.ask("top", &args);
        out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    // A frame in which the machine served nobody shows no shares.
    let served = |frame: &Value| {
        let rows = frame["devices"][0]["clients"].as_array().unwrap();
        rows.iter().any(|row| row["ios"].as_u64() > Some(0))
    };
    let mut shown = Vec::new();
    assert!(wait_for(|| {
        shown = frames();
        assert_eq!(shown.len(), 3);
        shown.iter().all(served)
    }));
    for frame in &shown {
        assert_eq!(frame["schema"], 1);
        let device = &frame["devices"][0];
        assert_eq!(
            (&device["scheduler"], &device["tunables_changed"]["low_latency"]),
            (&"bfq".into(), &0.into())
        );
        let rows = device["clients"].as_array().unwrap();
        let of = |export: &str| rows.iter().filter(|r| r["export"] == export).collect::<Vec<_>>();
        // fio opens a further connection to look at the size, which has nothing.
        let entitled =
            |rows: &[&Value]| rows.iter().filter_map(|r| r["entitled"].as_f64()).sum::<f64>();
        let (gold, bronze) = (entitled(&of("gold")), entitled(&of("bronze")));
        assert!((gold - 0.75).abs() < 1e-9 && (bronze - 0.25).abs() < 1e-9, "{frame}");
        let sum = |key: &str| rows.iter().filter_map(|r| r[key].as_f64()).sum::<f64>();
        assert!((sum("share_bytes") - 1.0).abs() < 1e-6, "{frame}");
        assert!((sum("share_service") - 1.0).abs() < 1e-6, "{frame}");
        for row in rows.iter().filter(|r| r["ios"].as_u64() > Some(0)) {
            let number = |key: &str| row[key].as_f64().unwrap();
            assert!(number("p50_ms") <= number("p99_ms") && number("p50_ms") > 0.0, "{row}");
            assert!(number("read_mb_per_s") > 0.0 && number("written_mb_per_s") == 0.0, "{row}");
            assert!(number("outstanding") <= 16.0 && number("depth") <= 17.0, "{row}");
        }
    }
    let groups = server.ask("top", &["--once", "--interval", "100ms", "--by", "group"]);
    let line = |name: &str| groups.lines().find(|l| l.starts_with(name)).unwrap().to_string();
    assert!(line("gold ").contains(" 300 ") && line("gold ").contains(" 75.0 "), "{groups}");
    assert!(line("bronze ").contains(" 100 ") && line("bronze ").contains(" 25.0 "), "{groups}");
    assert!(groups.contains("queues_busy"), "{groups}");
    // A reader that has seen enough ends it.
    let control = server.folder.path("control");
    let script = format!("{HOISTWAY} top --control {control} --interval 20ms | head -3");
    let (code, out, err) = run("sh", &["-c", &script]);
    assert_eq!((code, out.lines().count(), &err[..]), (Some(0), 3, ""));
}

/// A target stands in the list, in top and in the metrics, follows a line for its file, and comes back with a
/// scheduler that takes it.
#[test]
fn latency_targets_are_shown_and_changed() {
    let folder = Folder::new("targets");
    let (socket, control) = (folder.path("nbd"), folder.path("control"));
    let metrics = format!("unix:{}", folder.path("metrics"));
    let args =
        ["-s", "paternoster", "--socket", &socket, "--control", &control, "--metrics", &metrics];
    let exports = ["-e", "gold=ram:16M,latency=1ms", "-e", "bulk=ram:16M"];
    let server = Server::start(&[&args[..], &exports].concat(), &folder.0.join("metrics"));
    let watched = Watched { folder, _server: server };
    let list = || watched.ask("ctl", &["list"]);
    assert!(list().contains("target of gold: 1 ms, p99 -: not known yet\n"), "{}", list());
    assert!(!list().contains("io.latency"), "no controller beside a scheduler that takes targets");
    let target = |stats: &Value| stats["devices"][0]["targets"].clone();
    let first = target(&watched.stats());
    assert_eq!(
        (&first[0]["target_ns"], &first[0]["answer"]),
        (&1_000_000.into(), &"unknown".into())
    );
    let top = watched.ask("top", &["--once", "--interval", "100ms"]);
    assert!(top.contains("gold: target 1 ms, p99 -, share 0 %: not known yet"), "{top}");
    let (_, page) = get(&watched.folder.0.join("metrics"), "/metrics");
    assert!(
        page.contains("hoistway_target_seconds{device=\"gold\",group=\"gold\"} 0.001"),
        "{page}"
    );
    let answers = page.lines().filter(|l| l.starts_with("hoistway_target_answer{"));
    let is = |l: &&str| l.ends_with(" 1");
    let answers: Vec<_> = answers.filter(is).collect();
    assert!(matches!(answers[..], [one] if one.contains("answer=\"unknown\"")), "{answers:?}");
    watched.ask("ctl", &["write", "gold", "io.latency", "8:0 target=auto"]);
    assert!(list().contains("target of gold: auto"), "{}", list());
    watched.ask("ctl", &["write", "gold", "io.latency", "8:0 target=0"]);
    assert!(!list().contains("target of gold"), "{}", list());
    watched.ask("ctl", &["scheduler", "none"]);
    watched.ask("ctl", &["scheduler", "paternoster"]);
    assert!(list().contains("target of gold: 1 ms"), "{}", list());
    let nobody = ["serve", "-s", "bfq", "--socket", "/nowhere", "-e", "a=ram:16M,latency=auto"];
    let (code, _, err) = run(HOISTWAY, &nobody);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("latency = auto needs a scheduler that takes latency targets"), "{err}");
}

#[test]
fn without_a_server_top_says_so() {
    let (code, _, err) = run(HOISTWAY, &["top", "--control", "/does/not/exist"]);
    assert_eq!(code, Some(3));
    assert!(err.contains("no hoistway server is listening"), "{err}");
    let (code, _, err) = run(HOISTWAY, &["top", "--control", "/x", "--interval", "1"]);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn a_terminal_is_used_and_given_back() {
    if !installed(&["script", "stty"]) {
        return;
    }
    let server = Watched::start("screen", "bfq", "ram:32M");
    let top = format!("{HOISTWAY} top --control {} --interval 50ms", server.folder.path("control"));
    for key in ["q", "\\003"] {
        // `script` makes a terminal of what it reads; the key comes when there is something to see.
        let inside = format!(
            "stty rows 12 cols 60; stty -a >before; {top}; echo code $?; stty -a >after; touch over"
        );
        let script = format!(
            "cd '{}'; rm -f out over; (until grep -aq 'q quit' out; do sleep 0.05; done; \
             printf '{key}'; \
             until test -e over; do sleep 0.05; done) 2>/dev/null | script -qefc '{inside}' out",
            server.folder.0.display()
        );
        let (status, out, err) = run("sh", &["-c", &script]);
        assert_eq!(status, Some(0), "{out}{err}");
        let read = |name: &str| std::fs::read_to_string(server.folder.0.join(name)).unwrap();
        assert_eq!(read("before"), read("after"), "the terminal is as before");
        for part in ["\u{1b}[?1049h", "\u{1b}[?1049l", "hoistway top", "q quit", "code 0"] {
            assert!(out.contains(part), "'{part}' in {out:?}");
        }
    }
}

#[test]
fn a_story_is_told_while_it_happens() {
    if !installed(&["fio"]) {
        return;
    }
    let server = Watched::start("story", "bfq{low_latency=0}", "ram:32M");
    let nothing = server.ask("ctl", &["explain", "gold", "--for", "50ms"]);
    assert!(nothing.ends_with("nothing happened to it\n"), "{nothing}");
    let _loads = [Load::start(&server.uri("gold")), Load::start(&server.uri("bronze"))];
    let busy = |export| {
        let moved =
            |s: Scrape| s.value("hoistway_bytes_total", &[("export", export), ("op", "read")]);
        moved(server.scrape()) > 0.0
    };
    assert!(wait_for(|| busy("gold") && busy("bronze")), "both clients are busy");
    let short = server.ask("ctl", &["explain", "gold", "--for", "60s", "--limit", "20"]);
    assert!(short.ends_with("\n\n20 lines; --limit N shows more\n"), "{short}");
    // Long enough for the end of a slot: two tenants are never served for more than 125 ms each. Where the
    // machine serves them less, the next story may have all.
    let parts = [" queued: ", " to the drive: read, 64 KiB", " done: ", " expired: ", "others: "];
    let mut story = String::new();
    let whole = (0..10).any(|_| {
        story = server.ask("ctl", &["explain", "gold", "--for", "3s", "--limit", "1000000"]);
        parts.iter().all(|part| story.contains(part))
    });
    assert!(whole, "not all of {parts:?} in {} lines", story.lines().count());
    // Its queue was there before anybody listened; decisions about it come with reasons.
    let first = story.lines().find(|l| l.contains(" has queue ")).expect("the queue is named");
    assert!(first.trim_start().starts_with("0.000 ms"), "{first}");
    // One at a time; the next may listen when it is over.
    let control = server.folder.path("control");
    let mut long = Command::new(HOISTWAY)
        .args(["ctl", "--control", &control, "explain", "bronze"])
        .args(["--for", "600s", "--limit", "1000000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(long.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(first.starts_with("timeline of bronze"), "{first}");
    let rest = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let again =
        || run(HOISTWAY, &["ctl", "--control", &control, "explain", "gold", "--for", "20ms"]);
    let (code, _, err) = again();
    assert_eq!(code, Some(2), "two cannot listen at once");
    assert!(err.contains("somebody listens"), "{err}");
    long.kill().unwrap();
    long.wait().unwrap();
    rest.join().unwrap().unwrap();
    assert!(wait_for(|| again().0 == Some(0)), "who goes away listens no longer");
}
