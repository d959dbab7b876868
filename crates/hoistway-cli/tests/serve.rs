//! `hoistway serve` with real clients. What is not installed is skipped with a printed reason.
#![cfg(all(feature = "live", target_os = "linux"))]

mod serving;

use serving::{Folder, HOISTWAY, LIMIT, Server, begun, installed, run, wait_for};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Serves and runs a shell script against it. `None` where the machine cannot serve it: direct I/O is not
/// everywhere (tmpfs), nor can every machine, and a busy one less, carry every drive.
fn serve_and_run(folder: &Path, args: &[&str], script: &str) -> Option<Output> {
    let script = format!("set -e; cd '{}'; {script}", folder.display());
    let output = Command::new("timeout")
        .args([LIMIT, HOISTWAY, "serve"])
        .args(args)
        .args(["--run", &script])
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let excused = args.iter().any(|a| a.contains("direct") || a.contains("emulate:"));
    if excused && output.status.code() == Some(3) {
        println!("skipped: {}", err.trim());
        return None;
    }
    assert!(output.status.success(), "{args:?}\n{script}\n{out}\n{err}");
    Some(output)
}

/// Targets with their size, all of 24 MiB.
fn targets(folder: &Path) -> Vec<String> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::File::create(&path).unwrap().set_len(24 << 20).unwrap();
        format!("disk=file:{}", path.display())
    };
    let data = folder.join("data");
    vec![
        "disk=ram:24M".into(),
        file("buffered"),
        file("direct") + ",direct",
        file("threads") + ",way=threads",
        "disk=emulate:intel-320-160g:24M".into(),
        format!("disk=emulate:plextor-px-256m5s:24M,data={}", data.display()),
    ]
}

#[test]
fn copies_are_exact_on_every_target() {
    if !installed(&["nbdinfo", "nbdcopy", "cmp"]) {
        return;
    }
    let folder = Folder::new("copy");
    for (n, target) in targets(&folder.0).iter().enumerate() {
        let scheduler = ["none", "bfq", "mq-deadline", "kyber", "bfq", "none"][n];
        let script = "nbdinfo --size \"$uri\"; head -c 20M /dev/urandom >src; head -c 4M /dev/zero >>src; \
                      nbdcopy src \"$uri\"; nbdcopy --flush \"$uri\" back; cmp src back; nbdinfo --map \"$uri\"; \
                      nbdcopy --connections=4 \"$uri\" back4; cmp src back4";
        let args = ["-e", target, "-s", scheduler];
        let Some(output) = serve_and_run(&folder.0, &args, script) else { continue };
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(out.lines().next(), Some("25165824"), "{target}");
        // The zeroes at the end were punched, not written.
        assert!(out.lines().last().unwrap().ends_with("hole,zero"), "{target}: {out}");
    }
}

/// `emulate --nbd`: a drive's model behind the server, for whoever speaks NBD.
#[test]
fn an_emulated_drive_is_exported() {
    if !installed(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let folder = Folder::new("emulated");
    let (socket, src, back) = (folder.path("nbd.sock"), folder.path("src"), folder.path("back"));
    let address = format!("unix:{socket}");
    let drive = ["emulate", "--drive", "cloud-gp3", "--size", "8M", "--nbd", &address];
    let mut command = Command::new("timeout");
    command.args(["--foreground", LIMIT, HOISTWAY]).args(drive).stderr(Stdio::piped());
    let Some(server) = begun(&mut command, || UnixStream::connect(&socket).is_ok()) else { return };
    let mut server = Server(server);
    let uri = format!("nbd+unix:///drive?socket={socket}");
    assert_eq!(run("nbdinfo", &["--size", &uri]).1, "8388608\n");
    let content: Vec<u8> = (0..8u32 << 20).map(|n| (n ^ n >> 11) as u8).collect();
    std::fs::write(&src, &content).unwrap();
    for (from, to) in [(&src, &uri), (&uri, &back)] {
        let (code, _, said) = run("nbdcopy", &["--flush", from, to]);
        assert_eq!(code, Some(0), "{said}");
    }
    assert!(std::fs::read(&back).unwrap() == content, "what was written is read");
    assert_eq!(server.stop(), Some(0));
    let (code, _, said) = run(HOISTWAY, &[&drive[..], &["--memory", "1M"]].concat());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--memory goes with --loop only"), "{said}");
}

#[test]
fn the_server_describes_its_exports() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("info");
    let exports = ["-e", "a=ram:8M,weight=300", "-e", "b=ram:8M,ro,offset=1M,size=2M", "-s", "bfq"];
    let output = serve_and_run(&folder.0, &exports, "nbdinfo --list --json \"$uri\"").unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let exports = json["exports"].as_array().unwrap();
    assert_eq!(json["protocol"], "newstyle-fixed");
    assert_eq!(
        (&exports[0]["export-name"], &exports[0]["export-size"]),
        (&"a".into(), &(8 << 20).into())
    );
    assert_eq!(
        (&exports[1]["export-name"], &exports[1]["export-size"]),
        (&"b".into(), &(2 << 20).into())
    );
    for (key, value) in
        [("can_flush", true), ("can_fua", true), ("can_trim", true), ("can_zero", true)]
    {
        assert_eq!(exports[0][key], value, "{key}");
    }
    assert_eq!(
        (&exports[0]["can_multi_conn"], &exports[1]["is_read_only"]),
        (&true.into(), &true.into())
    );
    assert_eq!(exports[0]["block_size_minimum"], 512);
    assert_eq!(exports[0]["contexts"][0], "base:allocation");
}

#[test]
fn patterns_survive_qemu() {
    if !installed(&["qemu-io", "qemu-img"]) {
        return;
    }
    let folder = Folder::new("qemu");
    for target in &targets(&folder.0) {
        let script = "qemu-io -f raw -c 'write -P 0x5a 1M 64k' -c 'read -P 0x5a 1M 64k' -c 'write -f -P 0x11 3M 512' \
                      -c 'discard 1M 64k' -c 'write -z 2M 1M' -c 'read -P 0 2M 1M' -c 'read -P 0x11 3M 512' \
                      -c 'write -zu 4M 1M' -c flush \"$uri\"; \
                      qemu-img convert -f raw -O raw \"$uri\" image; qemu-img compare -f raw -F raw image \"$uri\"; \
                      qemu-img info \"$uri\"; qemu-img map -f raw \"$uri\" >/dev/null";
        let args = ["-e", target, "-s", "bfq"];
        let Some(output) = serve_and_run(&folder.0, &args, script) else { continue };
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains("Images are identical"), "{target}: {out}");
        assert!(!out.contains("failed"), "{target}: {out}");
    }
}

#[test]
fn fio_verifies_what_eight_connections_wrote_at_depth_64() {
    if !installed(&["fio"]) {
        return;
    }
    let folder = Folder::new("fio");
    for target in ["disk=ram:64M".to_string(), {
        let path = folder.0.join("file");
        std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        format!("disk=file:{}", path.display())
    }] {
        let script = "fio --ioengine=nbd --uri=\"$uri\" --name=v --numjobs=8 --size=8M --offset_increment=8M --rw=randrw \
                      --bsrange=4k-64k --iodepth=64 --verify=crc32c --verify_state_save=0 --do_verify=1 --group_reporting \
                      --output-format=json --output=out.json; grep -c '\"error\" : 0' out.json";
        serve_and_run(&folder.0, &["-e", &target, "-s", "bfq"], script).unwrap();
    }
}

#[test]
fn sigterm_ends_in_order_and_what_was_written_is_there() {
    if !installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("sigterm");
    let (file, socket) = (folder.0.join("disk"), folder.0.join("s.sock"));
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let config = folder.0.join("serve.toml");
    let text = format!(
        "scheduler = \"bfq{{low_latency=0}}\"\nlisten = [\"unix:{}\"]\n\n[[export]]\nname = \"gold\"\n\
         target = \"file:{}\"\nweight = 700\nprio = \"be/2\"\n",
        socket.display(),
        file.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut server = Command::new(HOISTWAY);
    server.args(["serve", "-q", "--config"]).arg(&config);
    // Its file is there a moment before it listens.
    let mut server = begun(&mut server, || UnixStream::connect(&socket).is_ok()).unwrap();
    let uri = format!("nbd+unix:///gold?socket={}", socket.display());
    let write = Command::new("qemu-io")
        .args(["-f", "raw", "-c", "write -P 0x77 4k 4k", &uri])
        .output()
        .unwrap();
    assert!(write.status.success(), "{}", String::from_utf8_lossy(&write.stderr));
    assert!(
        Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(!socket.exists());
    assert_eq!(std::fs::read(&file).unwrap()[4096..8192], [0x77; 4096]);
}

#[test]
fn wrong_wishes_are_refused_before_anything_is_served() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "nothing to serve"),
        (&["-e", "ram:1G"], 2, "no socket"),
        (&["-e", "ram:1x", "--run", "true"], 2, "'1x' is not a size"),
        (&["-e", "ram:1G", "-s", "bfk", "--run", "true"], 2, "bfq"),
        (&["-e", "file:/does/not/exist", "--run", "true"], 3, "/does/not/exist"),
        (&["-e", "file:/tmp/no-such.img", "--run", "true"], 3, "must exist (`truncate -s 8G FILE`"),
        (&["-e", "ram:1M,offset=2M", "--run", "true"], 2, "do not fit"),
        (&["-e", "a=ram:1M", "-e", "a=ram:2M", "--run", "true"], 2, "'a'"),
        (&["-e", "ram:1M", "--listen", "tcp:0.0.0.0:0"], 2, "neither encrypted nor authenticated"),
        (&["-e", "ram:1M", "--run", "exit 7"], 1, "exit"),
        (&["-e", "ram:1M,weight=5000", "-s", "bfq", "--run", "true"], 2, "weight"),
    ];
    for (args, code, message) in cases {
        let output =
            Command::new("timeout").args([LIMIT, HOISTWAY, "serve"]).args(*args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}

/// `hoistway ctl`: exit code, stdout, stderr.
fn ctl(socket: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new("timeout")
        .args([LIMIT, HOISTWAY, "ctl", "--control"])
        .arg(socket)
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_running_server_is_listed_and_changed_over_its_control_socket() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("ctl");
    let (socket, control) = (folder.0.join("nbd.sock"), folder.0.join("ctl.sock"));
    let (code, _, error) = ctl(&control, &["list"]);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("no hoistway server is listening"), "{error}");

    let mut server = Command::new("timeout");
    server
        .args([LIMIT, HOISTWAY, "serve", "-q", "-s", "max-bfq"])
        .args(["-e", "gold=ram:8M,weight=300,size=4M", "-e", "bronze=ram:8M,offset=4M"])
        .arg("--socket")
        .arg(&socket)
        .arg("--control")
        .arg(&control);
    let mut server = begun(&mut server, || ctl(&control, &["list"]).0 == Some(0)).unwrap();
    let mode = std::fs::metadata(&control).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = Command::new("timeout")
        .args([LIMIT, HOISTWAY, "serve", "-q", "-e", "ram:8M", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&second.stderr);
    assert!(error.contains("where another server listens"), "{error}");

    let done: &[&[&str]] = &[
        &["set-weight", "gold", "777"],
        &["write", "gold", "io.max", "8:0 rbps=10000000"],
        &["set", "slice_idle=0"],
        &["set", "nr_requests=64"],
        &["set", "nomerges=simple"],
    ];
    for args in done {
        assert_eq!(ctl(&control, args), (Some(0), String::new(), String::new()), "{args:?}");
    }
    let limit = "8:0 rbps=10000000 wbps=max riops=max wiops=max\n";
    assert_eq!(ctl(&control, &["read", "gold", "io.max"]).1, limit);
    let refused: &[(&[&str], &str)] = &[
        (&["set-weight", "gild", "5"], "no group 'gild'; there are root, gold"),
        (&["set-weight", "gold", "0"], "outside 1..=1000"),
        (&["set", "fifo_batch=4"], "no tunable 'fifo_batch' under bfq"),
        (&["set", "slice_idle"], "NAME=VALUE"),
        (&["write", "gold", "io.max", "8:0 rbps=fast"], "fast"),
        (&["read", "gold", "io.nothing"], "io.max"),
        (&["scheduler", "bfk"], "bfk"),
        (&["-e", "silver", "scheduler", "none"], "there are gold, bronze"),
    ];
    for (args, message) in refused {
        let (code, out, error) = ctl(&control, args);
        assert_eq!((code, &out[..]), (Some(2), ""), "{args:?}: {error}");
        assert!(error.contains(message), "{args:?}: {error}");
    }
    let list = || -> serde_json::Value {
        serde_json::from_str(&ctl(&control, &["list", "--json"]).1).unwrap()
    };
    let before = list();
    let device = &before["devices"][0];
    assert_eq!(device["scheduler"], "bfq");
    assert_eq!(device["tunables"]["slice_idle"], 0);
    assert_eq!(device["nr_requests"], 64);
    assert_eq!(device["groups"][0]["set"]["weight"], 777);
    assert_eq!(device["exports"][1]["name"], "bronze");
    assert_eq!(device["controllers"].as_array().unwrap().len(), 1);
    assert_eq!(ctl(&control, &["scheduler", "mq-deadline{fifo_batch=4}"]).0, Some(0));
    let after = list();
    assert_eq!(after["devices"][0]["scheduler"], "mq-deadline");
    assert_eq!(after["devices"][0]["tunables"]["fifo_batch"], 4);
    let (code, _, warning) = ctl(&control, &["set-weight", "gold", "100"]);
    assert_eq!(code, Some(0));
    assert!(warning.contains("no effect under mq-deadline"), "{warning}");
    assert!(ctl(&control, &["list"]).1.contains("gold (weight=100)"));

    // A second server neither takes the socket over nor disturbs the first.
    let second = Command::new("timeout")
        .args([LIMIT, HOISTWAY, "serve", "-q", "-e", "ram:1M", "--run", "true", "--control"])
        .arg(&control)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    assert_eq!(ctl(&control, &["list"]).0, Some(0));

    // `timeout` passes the signal on.
    let id = server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let _ = server.wait().unwrap();
    assert!(wait_for(|| !control.exists() && !socket.exists()), "both socket files are removed");
}

/// Each device costs a thread and memory: what is too much is refused before the first is opened, within little memory.
#[test]
fn more_exports_than_there_is_room_for_are_refused_at_once() {
    let folder = Folder::new("many");
    let path = folder.path("many.toml");
    let serve = |args: &[String]| {
        let script = "ulimit -v 1500000; exec timeout 60 \"$@\"";
        Command::new("sh")
            .args(["-c", script, "sh", HOISTWAY, "serve"])
            .args(args)
            .output()
            .unwrap()
    };
    let in_file = |exports: usize, target: &dyn Fn(usize) -> String| {
        let one = |i: usize| format!("[[export]]\nname=\"e{i}\"\ntarget=\"{}\"\n", target(i));
        std::fs::write(&path, (0..exports).map(one).collect::<String>()).unwrap();
        let config = ["--config".into(), path.clone()];
        serve(&[&config[..], &["--run".into(), "true".into()]].concat())
    };
    let said = |output: Output, parts: &[&str]| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "'{part}': {text}"));
    };
    let exports = "exports = 90000, at most 10000";
    said(in_file(90_000, &|_| "ram:1M".into()), &["many.toml: ", exports]);
    let devices = "devices = 1001 behind 1001 exports, at most 1000";
    said(in_file(1001, &|i| format!("ram:{}", 512 * (i + 1))), &["many.toml: ", devices]);
    let flags = (0..1001).flat_map(|i| ["-e".into(), format!("e{i}=null:1M,cow")]);
    said(serve(&flags.collect::<Vec<_>>()), &["--export: ", devices]);
    let most = in_file(10_000, &|_| "ram:1M".into());
    assert!(most.status.success(), "{}", String::from_utf8_lossy(&most.stderr));
}
