//! Weights, latency targets and limits that exports and client rules begin with.
#![cfg(all(feature = "live", target_os = "linux"))]

mod serving;

use serving::{Folder, HOISTWAY, Server, run, wait_for};

#[test]
fn exports_and_clients_begin_with_their_limits_and_controllers_come_by_themselves() {
    let folder = Folder::new("limits");
    let (socket, control, config) = (folder.path("s"), folder.path("ctl"), folder.path("toml"));
    let text = "[[export]]\nname = \"gold\"\ntarget = \"ram:8M\"\nlatency = \"5ms\"\nweight = 300\n\
                [[export]]\nname = \"iron\"\ntarget = \"ram:8M\"\nrbps = \"10M\"\nwiops = 500\n\
                [[export]]\nname = \"tin\"\ntarget = \"ram:8M\"\n\
                [[export]]\nname = \"own\"\ntarget = \"ram:4M\"\nscheduler = \"cost-none\"\nweight = 250\n\
                [[client]]\nuid = 4000\nriops = \"1k\"\nlatency = \"20ms\"\n";
    std::fs::write(&config, text).unwrap();
    let args = ["--config", &config, "-s", "bfq", "-U", &socket, "--control", &control];
    let mut server = Server::start(&args, control.as_ref());
    let ctl = |args: &[&str]| run(HOISTWAY, &[&["ctl", "--control", &control][..], args].concat());
    assert!(wait_for(|| ctl(&["list"]).0 == Some(0)));
    let cases = [
        ("gold", "gold", "io.latency", "8:0 target=5000\n"),
        ("gold", "gold", "io.max", ""),
        ("iron", "gold", "io.max", "8:0 rbps=10485760 wbps=max riops=max wiops=500\n"),
        ("iron", "gold", "io.latency", ""),
        ("tin", "gold", "io.latency", ""),
        ("uid-4000", "gold", "io.max", "8:0 rbps=max wbps=max riops=1000 wiops=max\n"),
        ("uid-4000", "own", "io.latency", "8:0 target=20000\n"),
    ];
    for (group, export, file, line) in cases {
        let (code, out, err) = ctl(&["-e", export, "read", group, file]);
        assert_eq!((code, &out[..]), (Some(0), line), "{group} {file}: {err}");
    }
    // io.cost shares by the same weight.
    let (_, weight, _) = ctl(&["-e", "own", "read", "own", "io.weight"]);
    assert!(weight.contains("250"), "{weight}");
    assert_eq!(
        ctl(&["-e", "own", "set-weight", "own", "400"]),
        (Some(0), String::new(), String::new())
    );
    assert!(ctl(&["-e", "own", "read", "own", "io.weight"]).1.contains("400"));
    let (_, list, _) = ctl(&["list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["devices"][0]["controllers"], serde_json::json!(["io.max", "io.latency"]));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn what_was_installed_is_said_and_contradictions_are_refused() {
    let (code, _, err) = run(HOISTWAY, &["serve", "-e", "a=ram:1M,riops=9", "--run", "true"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("io.max is installed on ram:1M for group a"), "{err}");
    let cases: &[(&[&str], &str)] = &[
        (
            &["-e", "a=ram:1M,group=g,weight=5", "-e", "b=ram:1M,group=g,weight=6"],
            "weight = 5 and 6",
        ),
        (&["-e", "a=ram:1M,latency=5"], "latency = '5' is not a time"),
        (&["-e", "a=ram:1M", "-s", "lat-none{target=5ms}"], "each export has its own latency"),
    ];
    for (args, message) in cases {
        let (code, _, err) = run(HOISTWAY, &[&["serve"], *args, &["--run", "true"]].concat());
        assert_eq!(code, Some(2), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}
