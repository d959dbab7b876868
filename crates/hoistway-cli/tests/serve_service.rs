//! `hoistway serve` under a service manager: sockets that are passed on, readiness, the pid file.
#![cfg(all(feature = "live", target_os = "linux"))]

mod serving;

use serving::{Folder, HOISTWAY, Server, installed, run, wait_for};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn libnbd_starts_its_own_server_by_socket_activation() {
    if !installed(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let (code, out, err) =
        run("nbdinfo", &["--size", "--", "[", HOISTWAY, "serve", "-q", "-e", "ram:32M", "]"]);
    assert_eq!((code, out.trim()), (Some(0), "33554432"), "{err}");
    // From one server to another, neither with an address.
    let folder = Folder::new("activated");
    let (from, to) = (folder.path("from"), folder.file("to", 1 << 20));
    std::fs::write(&from, [0x5a; 1 << 20]).unwrap();
    let (from_export, to_export) = (format!("file:{from},ro"), format!("file:{to}"));
    let server = |export| ["[", HOISTWAY, "serve", "-q", "-e", export, "]"];
    let args = [&["--"], &server(&from_export)[..], &server(&to_export)].concat();
    let (code, _, err) = run("nbdcopy", &args);
    assert_eq!(code, Some(0), "{err}");
    assert!(std::fs::read(&to).unwrap() == [0x5a; 1 << 20]);
}

/// A command whose descriptor 3 is that, and which is who is meant by LISTEN_PID.
fn with_descriptor_3(socket: impl Into<OwnedFd>, args: &str) -> Command {
    let script = format!(
        "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES=nbd exec {HOISTWAY} serve {args}"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::from(socket.into()));
    command
}

#[test]
fn a_socket_that_is_passed_on_is_served_readiness_is_told_and_the_file_stays() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("passed");
    let (socket, notify, pid) = (folder.path("s"), folder.path("notify"), folder.path("pid"));
    let listener = UnixListener::bind(&socket).unwrap();
    let ear = UnixDatagram::bind(&notify).unwrap();
    ear.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let hear = || {
        let mut text = [0; 100];
        let len = ear.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    let mut command = with_descriptor_3(listener, &format!("-q -e disk=ram:1M -P {pid}"));
    let mut server = command.env("NOTIFY_SOCKET", &notify).spawn().unwrap();
    assert_eq!(hear(), "READY=1");
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), format!("{}\n", server.id()));
    let uri = format!("nbd+unix:///disk?socket={socket}");
    for _ in 0..3 {
        let (code, out, err) = run("nbdinfo", &["--size", &uri]);
        assert_eq!((code, out.trim()), (Some(0), "1048576"), "{err}");
    }
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let there = |path: &str| std::fs::exists(path).unwrap();
    assert!(there(&socket) && !there(&pid), "the socket is not ours");
}

#[test]
fn what_is_no_listening_socket_is_refused_and_what_is_meant_for_others_is_left() {
    let folder = Folder::new("refused");
    let file = std::fs::File::open(folder.file("file", 10)).unwrap();
    let output = with_descriptor_3(file, "-e ram:1M --run true").output().unwrap();
    let (code, _, err) = serving::texts(&output);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("descriptor 3 ('nbd')"), "{err}");
    let talking = UnixDatagram::unbound().unwrap();
    let output = with_descriptor_3(talking, "-e ram:1M --run true").output().unwrap();
    let (code, _, err) = serving::texts(&output);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("not a listening stream socket"), "{err}");
    let other = Command::new(HOISTWAY)
        .args(["serve", "-q", "-e", "ram:1M"])
        .envs([("LISTEN_FDS", "1"), ("LISTEN_PID", "1")])
        .output()
        .unwrap();
    let (code, _, err) = serving::texts(&other);
    assert!(code == Some(2) && err.contains("no socket"), "{err}");
    let command = "test -z \"$LISTEN_FDS$LISTEN_PID$NOTIFY_SOCKET\"";
    let listener = UnixListener::bind(folder.0.join("s")).unwrap();
    let script = format!("-q -e ram:1M --run '{command}'");
    let status = with_descriptor_3(listener, &script).status().unwrap();
    assert!(status.success(), "the command is not the service");
}

#[test]
fn systemd_socket_activate_starts_the_server_for_its_first_client() {
    if !installed(&["systemd-socket-activate", "nbdinfo"]) {
        return;
    }
    let folder = Folder::new("systemd");
    let socket = folder.path("s");
    let mut activator = Command::new("systemd-socket-activate")
        .args(["-l", &socket, HOISTWAY, "serve", "-q", "-e", "disk=ram:2M"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_for(|| std::fs::exists(&socket).unwrap()));
    let (code, out, err) =
        run("nbdinfo", &["--size", &format!("nbd+unix:///disk?socket={socket}")]);
    assert_eq!((code, out.trim()), (Some(0), "2097152"), "{err}");
    // It has become the server.
    assert!(Command::new("kill").arg(activator.id().to_string()).status().unwrap().success());
    assert_eq!(activator.wait().unwrap().code(), Some(0));
}

#[test]
fn the_pid_file_says_when_clients_may_come() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("pidfile");
    let (socket, pid, config) = (folder.path("s"), folder.path("pid"), folder.path("toml"));
    let text = format!(
        "listen = [\"unix:{socket}\"]\npidfile = \"{pid}\"\n[[export]]\nname = \"a\"\ntarget = \"ram:1M\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut server = Server::start(&["--config", &config], pid.as_ref());
    let (code, _, err) = run("nbdinfo", &["--size", &format!("nbd+unix:///a?socket={socket}")]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(server.stop(), Some(0));
    assert!(!std::fs::exists(&pid).unwrap());
    let nowhere = folder.path("nowhere/pid");
    let (code, _, err) = run(HOISTWAY, &["serve", "-e", "ram:1M", "--run", "true", "-P", &nowhere]);
    assert!(code == Some(3) && err.contains("pid file"), "{err}");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_that_people_copy() {
    if !installed(&["systemd-analyze"]) {
        return;
    }
    let folder = Folder::new("units");
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/serve");
    for name in ["hoistway.service", "hoistway.socket"] {
        let text = std::fs::read_to_string(examples.join(name)).unwrap();
        let text = text.replace("/usr/bin/hoistway", HOISTWAY);
        std::fs::write(folder.0.join(name), text).unwrap();
    }
    let (code, out, err) = run("systemd-analyze", &["verify", &folder.path("hoistway.service")]);
    assert_eq!((code, &out[..], &err[..]), (Some(0), "", ""));
}
