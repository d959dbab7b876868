//! Sizes that change, with real clients and `hoistway ctl`.
#![cfg(all(feature = "live", target_os = "linux"))]

mod serving;

use serving::{Folder, HOISTWAY, Server, installed, run, wait_for};

#[test]
fn new_connections_see_a_file_grow_and_an_operator_may_look_before() {
    if !installed(&["nbdinfo", "truncate"]) {
        return;
    }
    let folder = Folder::new("resize");
    let (socket, control, file) =
        (folder.path("s"), folder.path("ctl"), folder.file("disk", 1 << 20));
    let export = format!("disk=file:{file}");
    let args = ["-e", &export, "-e", "ram=ram:4M", "-U", &socket, "--control", &control];
    let _server = Server::start(&args, control.as_ref());
    let ctl = |args: &[&str]| run(HOISTWAY, &[&["ctl", "--control", &control], args].concat());
    assert!(wait_for(|| ctl(&["list"]).0 == Some(0)));
    let size = || {
        let uri = format!("nbd+unix:///disk?socket={socket}");
        let (code, out, err) = run("nbdinfo", &["--size", &uri]);
        assert_eq!(code, Some(0), "{err}");
        out.trim().parse::<u64>().unwrap()
    };
    assert_eq!(size(), 1 << 20);
    assert_eq!(run("truncate", &["-s", "3M", &file]).0, Some(0));
    assert_eq!(size(), 3 << 20);
    assert_eq!(run("truncate", &["-s", "2M", &file]).0, Some(0));
    let (code, out, err) = ctl(&["resize"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains(&format!("{file}, buffered")) && out.contains(": 2097152 bytes"), "{out}");
    assert!(out.contains("memory: 4194304 bytes"), "{out}");
    let (_, list, _) = ctl(&["list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["devices"][0]["bytes"], 2 << 20);
    assert_eq!(list["devices"][0]["exports"][0]["bytes"], 2 << 20);
    assert_eq!(ctl(&["-e", "ram", "resize"]).1, "memory: 4194304 bytes\n");
    assert_eq!(ctl(&["-e", "rom", "resize"]).0, Some(2));
}

#[test]
fn block_devices_grow_and_shrink_too() {
    if !installed(&["nbdinfo", "losetup", "truncate"]) {
        return;
    }
    let folder = Folder::new("resize-loop");
    let (file, socket) = (folder.file("backing", 1 << 20), folder.path("s"));
    let (code, out, err) = run("losetup", &["-f", "--show", &file]);
    if code != Some(0) {
        return println!("skipped: no loop device here: {}", err.trim());
    }
    let device = Loop(out.trim().to_string());
    let export = format!("disk=file:{}", device.0);
    let _server = Server::start(&["-e", &export, "-U", &socket], socket.as_ref());
    for mib in [1u64, 3, 2] {
        assert_eq!(run("truncate", &["-s", &format!("{mib}M"), &file]).0, Some(0));
        assert_eq!(run("losetup", &["-c", &device.0]).0, Some(0));
        let (_, out, err) =
            run("nbdinfo", &["--size", &format!("nbd+unix:///disk?socket={socket}")]);
        assert_eq!(out.trim(), (mib << 20).to_string(), "{err}");
    }
}

/// Detached at the end.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["-d", &self.0]);
    }
}
