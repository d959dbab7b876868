//! Copy on write with real clients.
#![cfg(all(feature = "live", target_os = "linux"))]

mod serving;

use serving::{Folder, HOISTWAY, Server, installed, run, wait_for};

const MIB: usize = 1 << 20;

/// A base of 16 MiB, of which the first 4 are data.
fn base(folder: &Folder) -> (String, Vec<u8>) {
    let path = folder.file("base", 16 << 20);
    let mut bytes = vec![0; 16 * MIB];
    bytes[..4 * MIB].iter_mut().enumerate().for_each(|(n, b)| *b = (n / 512) as u8 | 1);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[..4 * MIB], 0).unwrap();
    (path, bytes)
}

#[test]
fn clients_write_over_a_base_that_stays_as_it_is() {
    if !installed(&["qemu-io", "nbdcopy", "nbdinfo"]) {
        return;
    }
    let folder = Folder::new("cow");
    let (path, bytes) = base(&folder);
    let back = folder.path("back");
    let script = "set -e; nbdinfo --map --totals \"$uri\"; \
                  qemu-io -f raw -c 'write -P 0x5a 1M 64k' -c 'write -P 0x11 8M 512' -c 'write -zu 2M 1M' \
                    -c 'discard 3M 4k' -c 'read -P 0x5a 1M 64k' -c 'read -P 0 2M 1M' -c flush \"$uri\"; \
                  nbdinfo --map \"$uri\"; nbdcopy \"$uri\" BACK";
    let script = script.replace("BACK", &back);
    let mut expected = bytes.clone();
    expected[MIB..MIB + (64 << 10)].fill(0x5a);
    expected[8 * MIB..8 * MIB + 512].fill(0x11);
    expected[2 * MIB..3 * MIB + 4096].fill(0);
    let overlay = format!("disk=file:{path},overlay={}", folder.path("overlay"));
    for export in [format!("disk=file:{path},cow"), overlay.clone()] {
        let (code, out, err) =
            run(HOISTWAY, &["serve", "-q", "-e", &export, "-s", "bfq", "--run", &script]);
        assert_eq!(code, Some(0), "{export}: {out}\n{err}");
        assert!(std::fs::read(&back).unwrap() == expected, "{export}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{export}: the base");
        // As clients are told before anything is written: the first quarter is data.
        assert!(out.contains("4194304  25.0%   0 data"), "{out}");
        // Afterwards what was zeroed is a hole in the data, and one new block is data in the hole.
        let map: Vec<Vec<u64>> = (out.lines())
            .map(|l| l.split_whitespace().filter_map(|w| w.parse().ok()).collect())
            .filter(|l: &Vec<u64>| l.len() == 3)
            .collect();
        let kind = |at: u64| map.iter().find(|l| l[0] <= at && at < l[0] + l[1]).map(|l| l[2]);
        assert_eq!(kind(MIB as u64), Some(0), "{out}");
        assert_eq!(kind(2 * MIB as u64 + 500_000), Some(3), "{out}");
        assert_eq!(kind(8 * MIB as u64), Some(0), "{out}");
        assert_eq!(kind(12 * MIB as u64), Some(3), "{out}");
    }
    // What is kept is there the next time, what is not is gone.
    let copy = format!("nbdcopy \"$uri\" {back}");
    for (export, expected) in [(overlay, &expected), (format!("disk=file:{path},cow"), &bytes)] {
        let (code, _, err) = run(HOISTWAY, &["serve", "-q", "-e", &export, "--run", &copy]);
        assert_eq!(code, Some(0), "{err}");
        assert!(std::fs::read(&back).unwrap() == *expected, "{export}");
    }
}

#[test]
fn what_was_flushed_survives_the_end_of_the_server() {
    if !installed(&["qemu-io", "nbdcopy"]) {
        return;
    }
    let folder = Folder::new("cow-killed");
    let (path, bytes) = base(&folder);
    let (socket, pid, back) = (folder.path("s"), folder.path("pid"), folder.path("back"));
    let export = format!("disk=file:{path},overlay={}", folder.path("overlay"));
    let uri = format!("nbd+unix:///disk?socket={socket}");
    let mut expected = bytes.clone();
    for round in 0..5 {
        let _ = std::fs::remove_file(&pid);
        let _server = Server::start(&["-e", &export, "-U", &socket, "-P", &pid], pid.as_ref());
        let (code, _, err) = run("nbdcopy", &[&uri, &back]);
        assert_eq!(code, Some(0), "{err}");
        assert!(std::fs::read(&back).unwrap() == expected, "round {round}");
        let (at, fill) = ((round + 5) * MIB, 0x40 + round as u8);
        let write = format!("write -P {fill} {at} 64k");
        let fua = format!("write -f -P {fill} {} 4k", at + (512 << 10));
        let (code, out, err) =
            run("qemu-io", &["-f", "raw", "-c", &write, "-c", "flush", "-c", &fua, &uri]);
        assert_eq!(code, Some(0), "{out}{err}");
        expected[at..at + (64 << 10)].fill(fill);
        expected[at + (512 << 10)..at + (516 << 10)].fill(fill);
        let number = std::fs::read_to_string(&pid).unwrap();
        let (code, _, err) = run("kill", &["-KILL", number.trim()]);
        assert_eq!(code, Some(0), "{err}");
        // Dead, or dying: its files are closed.
        let files = format!("/proc/{}/fd", number.trim());
        assert!(wait_for(|| std::fs::read_dir(&files).map_or(0, Iterator::count) == 0));
    }
    assert!(std::fs::read(&path).unwrap() == bytes, "the base");
}

#[test]
fn exports_in_memory_are_each_ones_own_and_a_base_that_is_written_is_refused() {
    if !installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("cow-own");
    let (path, _) = base(&folder);
    let (a, b) = (format!("a=file:{path},cow"), format!("b=file:{path},cow"));
    let script = "set -e; s=\"socket=$unixsocket\"; \
                  qemu-io -f raw -c 'write -P 0x5a 8M 4k' \"nbd+unix:///a?$s\"; \
                  qemu-io -f raw -c 'read -P 0 8M 4k' \"nbd+unix:///b?$s\"; \
                  qemu-io -f raw -r -c 'read -P 0 8M 4k' \"nbd+unix:///c?$s\"";
    let c = format!("c=file:{path},ro");
    let all = ["serve", "-q", "-e", &a, "-e", &b, "-e", &c, "--run", script];
    let (code, out, err) = run(HOISTWAY, &all);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!out.contains("verification failed"), "{out}");
    let written = format!("c=file:{path}");
    let (code, _, err) = run(HOISTWAY, &["serve", "-e", &a, "-e", &written, "--run", "true"]);
    assert!(code == Some(2) && err.contains("is written by export 'c'"), "{err}");
    let (code, _, err) = run(HOISTWAY, &["serve", "-e", "ram:1M,overlay=x", "--run", "true"]);
    assert!(code == Some(2) && err.contains("file:PATH"), "{err}");
}
