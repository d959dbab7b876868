//! TLS with real clients: libnbd and QEMU, both on GnuTLS.
#![cfg(all(feature = "tls", target_os = "linux"))]

#[path = "../../hoistway-serve/tests/certs/mod.rs"]
mod certs;
mod serving;

use certs::Authority;
use serving::{Folder, HOISTWAY, Server, installed, run, wait_for};

/// TLS of libnbd may have been left out of the build.
fn libnbd_has_tls(folder: &Folder) -> bool {
    let (_, _, err) = run("nbdinfo", &["nbds://localhost:1/"]);
    let missing = err.contains("TLS") && err.contains("not supported");
    if missing {
        println!("skipped: libnbd without TLS ({})", folder.0.display());
    }
    !missing
}

#[test]
fn data_goes_through_tls_both_ways_unharmed() {
    if !installed(&["nbdcopy", "nbdinfo", "sha256sum"]) {
        return;
    }
    let folder = Folder::new("tls-copy");
    if !libnbd_has_tls(&folder) {
        return;
    }
    let ca = Authority::new("authority");
    let pki = ca.server(&folder.0.join("pki")).display().to_string();
    let image = folder.path("image");
    let noise: Vec<u8> =
        (0..24u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&image, noise).unwrap();
    let script = "set -e; case \"$uri\" in nbds://*) ;; *) exit 9;; esac; nbdinfo \"$uri\"; \
                  nbdcopy \"$image\" \"$uri\"; nbdcopy --connections=4 \"$uri\" \"$image.back\"; \
                  cmp \"$image\" \"$image.back\"; nbdinfo --map --totals \"$uri\"";
    let script = script.replace("$image", &image);
    let args = [
        "serve",
        "-e",
        "disk=ram:24M",
        "-s",
        "bfq",
        "--listen",
        "tcp:0",
        "--tls-certificates",
        &pki,
    ];
    let (code, out, err) = run(HOISTWAY, &[&args[..], &["--run", &script]].concat());
    assert_eq!(code, Some(0), "{out}\n{err}");
    assert!(out.contains("with TLS"), "{out}");
}

#[test]
fn qemu_writes_and_reads_under_tls_with_its_certificate() {
    if !installed(&["qemu-io", "qemu-img"]) {
        return;
    }
    let folder = Folder::new("tls-qemu");
    let ca = Authority::new("authority");
    let pki = ca.server(&folder.0.join("pki")).display().to_string();
    let client = ca.client(&folder.0.join("client"), "qemu", 7).display().to_string();
    let nobody = ca.trust(&folder.0.join("nobody")).display().to_string();
    let port = folder.path("port");
    // TCP, as machines are served; the port is told by the URI.
    let script = format!(
        "echo \"$uri\" | sed 's/.*:\\([0-9]*\\)\\/.*/\\1/' > {port}.new; mv {port}.new {port}; exec sleep 1000"
    );
    let args =
        ["-e", "disk=ram:8M", "--listen", "tcp:0", "--tls=require", "--tls-certificates", &pki];
    let args = [&args[..], &["--tls-verify-peer", "--run", &script]].concat();
    let _server = Server::start(&args, port.as_ref());
    let port = std::fs::read_to_string(port).unwrap();
    let image =
        format!("driver=nbd,host=localhost,port={},tls-creds=tls0,export=disk", port.trim());
    let io = |dir: &str| {
        let object = format!("tls-creds-x509,id=tls0,endpoint=client,dir={dir}");
        let args = ["--object", &object, "--image-opts", "-c", "write -P 0x5a 1M 64k"];
        let args = [&args[..], &["-c", "read -P 0x5a 1M 64k", "-c", "flush", &image]].concat();
        run("qemu-io", &args)
    };
    let (code, out, err) = io(&client);
    assert!(code == Some(0) && out.matches("65536/65536").count() == 2, "{out}{err}");
    assert_ne!(io(&nobody).0, Some(0), "no certificate");
    // Not a word without TLS.
    let (code, _, err) =
        run("qemu-img", &["info", &format!("nbd://localhost:{}/disk", port.trim())]);
    assert!(code != Some(0) && err.contains("TLS"), "{err}");
}

#[test]
fn rules_by_certificate_choose_the_group_and_others_stay_outside() {
    if !installed(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let folder = Folder::new("tls-rules");
    if !libnbd_has_tls(&folder) {
        return;
    }
    let ca = Authority::new("authority");
    let pki = ca.server(&folder.0.join("pki"));
    ca.revoke(&pki, &[13]);
    let dir = |name: &str, serial: u64| {
        ca.client(&folder.0.join(name), name, serial).display().to_string()
    };
    let (alice, revoked) = (dir("alice", 3), dir("revoked", 13));
    let nobody = ca.trust(&folder.0.join("nobody")).display().to_string();
    let other = Authority::new("another");
    let stranger = other.client(&folder.0.join("stranger"), "alice", 4);
    ca.trust(&stranger);
    let (control, config) = (folder.path("ctl"), folder.path("toml"));
    let text = format!(
        "listen = [\"tcp:0\"]\ncontrol = \"{control}\"\ntls = \"require\"\ntls-certificates = \"{}\"\n\
         tls-verify-peer = true\n[[export]]\nname = \"disk\"\ntarget = \"ram:8M\"\n\
         [[client]]\ncertificate = \"alice\"\nweight = 700\n",
        pki.display()
    );
    std::fs::write(&config, text).unwrap();
    let uri = folder.path("uri");
    let script =
        format!("echo \"${{uri%%\\?*}}\" > {uri}.new; mv {uri}.new {uri}; exec sleep 1000");
    let _server =
        Server::start(&["--config", &config, "-s", "bfq", "--run", &script], uri.as_ref());
    let uri = std::fs::read_to_string(&uri).unwrap().trim().replace("127.0.0.1", "localhost");
    let info = |dir: &str| run("nbdinfo", &["--size", &format!("{uri}?tls-certificates={dir}")]);
    let (code, out, err) = info(&alice);
    assert_eq!((code, out.trim()), (Some(0), "8388608"), "{err}");
    let stranger = stranger.display().to_string();
    for dir in [&revoked, &nobody, &stranger] {
        let (code, out, _) = info(dir);
        assert!(code != Some(0) && out.is_empty(), "{dir}");
    }
    let (code, _, err) = run("nbdinfo", &["--size", &uri.replace("nbds:", "nbd:")]);
    assert!(code != Some(0) && err.to_lowercase().contains("tls"), "{err}");
    // Who is being served is seen with the name of its certificate.
    let copy = format!("{uri}?tls-certificates={alice}");
    let mut reader = std::process::Command::new("nbdcopy")
        .args(["--flush", "--", &copy, "-"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let seen = wait_for(|| {
        let (_, list, _) = run(HOISTWAY, &["ctl", "--control", &control, "list", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let clients = list["devices"][0]["clients"].as_array().unwrap().clone();
        clients.iter().any(|c| {
            c["group"] == "alice" && c["peer"].as_str().unwrap().ends_with(" tls cn=alice")
        })
    });
    let _ = reader.kill();
    let _ = reader.wait();
    assert!(seen, "in its own group");
}

#[test]
fn tls_that_cannot_be_is_refused_at_the_start() {
    let folder = Folder::new("tls-wishes");
    let ca = Authority::new("authority");
    let pki = ca.server(&folder.0.join("pki")).display().to_string();
    let empty = folder.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--tls=sometimes", "--tls-certificates", &pki], 2, "write off, on or require"),
        (&["--tls=require"], 2, "--tls-certificates DIR"),
        (&["--tls-verify-peer"], 2, "--tls=require"),
        (&["--tls=on", "--tls-certificates", &empty], 3, "server-cert.pem"),
        (&["--tls=on", "--tls-certificates", &pki, "--listen", "tcp:0.0.0.0:0"], 2, "require TLS"),
    ];
    for (args, code, message) in cases {
        let all = [&["serve", "-e", "ram:1M", "--run", "true"], *args].concat();
        let (got, _, err) = run(HOISTWAY, &all);
        assert_eq!(got, Some(*code), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
    let beyond = ["serve", "-e", "ram:1M", "--run", "true", "--listen", "tcp:0.0.0.0:0"];
    let (code, _, err) = run(HOISTWAY, &[&beyond[..], &["--tls-certificates", &pki]].concat());
    assert_eq!(code, Some(0), "where TLS is required other machines may come: {err}");
}
