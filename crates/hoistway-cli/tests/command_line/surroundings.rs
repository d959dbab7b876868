//! What the program is given without asking for it: variables of its environment, and a server behind a control socket. Neither
//! makes it panic, fill the memory, or send to the terminal what that would obey.

use super::hostile::confined;
use super::*;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::time::Duration;

/// What a terminal would obey.
fn acts(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}'
}

#[test]
fn folders_that_the_environment_names_may_be_any_bytes() {
    let folder = Folder::new("environment");
    let name = OsString::from_vec([folder.0.as_os_str().as_bytes(), b"/\xff\xfe\x1b[31m"].concat());
    fs::create_dir(&name).unwrap();
    let commands: &[&[&str]] = &[
        &["restore"],
        &["emulate", "--list"],
        &["emulate", "--cleanup"],
        &["serve", "-e", "a=null:1M", "--run", "true"],
        &["compare", "latency-2019", "--on", "linux", "--reps", "1"],
        &["compare", "latency-2019", "--on", "kernel", "--device", "/dev/null"],
        &[
            "run",
            "latency-2019",
            "none",
            "-d",
            "null-block",
            "-w",
            "readers",
            "--reps",
            "1",
            "--duration",
            "1ms",
        ],
    ];
    let variables = [
        "HOME",
        "XDG_STATE_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_CACHE_HOME",
        "HOISTWAY_STATE_DIR",
        "HOISTWAY_CACHE_DIR",
        "TMPDIR",
    ];
    for variable in variables {
        for command in commands {
            let mut program = Command::new("timeout");
            program
                .args(["60", env!("CARGO_BIN_EXE_hoistway")])
                .args(*command)
                .env(variable, &name);
            if variable.starts_with("XDG") {
                program.env_remove("HOISTWAY_STATE_DIR").env_remove("HOISTWAY_CACHE_DIR");
            }
            let output = program.current_dir(&folder.0).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            let code = output.status.code();
            assert!(
                matches!(code, Some(0..=3)) && !said.contains("panicked") && !said.contains(acts),
                "{variable}, {command:?}: {code:?} {said:?}"
            );
        }
    }
}

/// Hands each request to a real server, and its answer back with other names in it.
fn forward(mut client: UnixStream, server: &Path, evil: &str) {
    let mut request = String::new();
    BufReader::new(&client).read_line(&mut request).unwrap();
    let mut asked = UnixStream::connect(server).unwrap();
    asked.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    // Whoever has read enough is gone.
    let _ = client.write_all(answer.replace("name-to-replace", evil).as_bytes());
}

#[test]
fn names_of_a_control_server_reach_the_terminal_as_letters() {
    let folder = Folder::new("control");
    let mut served = Command::new(env!("CARGO_BIN_EXE_hoistway"))
        .args(["serve", "-e", "name-to-replace=null:1M,weight=7", "-s", "bfq", "--quiet"])
        .args(["--socket", "nbd.sock", "--control", "real.sock"])
        .current_dir(&folder.0)
        .spawn()
        .unwrap();
    let real = folder.0.join("real.sock");
    for _ in 0..300 {
        if UnixStream::connect(&real).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let listener = UnixListener::bind(folder.0.join("evil.sock")).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            forward(client, &real, "\\u001b]0;owned\\u0007\\u202e\\u009b31m");
        }
    });
    let mut seen = Vec::new();
    for args in [
        &["ctl", "--control", "evil.sock", "list"][..],
        &["ctl", "--control", "evil.sock", "list", "--json"],
        &["ctl", "--control", "evil.sock", "metrics"],
        &["ctl", "--control", "evil.sock", "set-weight", "\u{1b}[31m", "5"],
        &["top", "--control", "evil.sock", "--once", "--by", "group"],
        &["top", "--control", "evil.sock", "--once", "--json"],
    ] {
        let output = folder.run(args);
        let said = stdout(&output) + &stderr(&output);
        seen.push((args, output.status.code(), said));
    }
    served.kill().unwrap();
    served.wait().unwrap();
    for (args, code, said) in seen {
        assert!(matches!(code, Some(0 | 2)) && !said.contains(acts), "{args:?}: {code:?} {said:?}");
        assert!(said.contains("\\u001b"), "{args:?} shows the name: {said:?}");
    }
}

#[test]
fn an_answer_without_end_is_refused() {
    let folder = Folder::new("endless");
    let listener = UnixListener::bind(folder.0.join("evil.sock")).unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // Blanks are good JSON; writing ends when the program has read enough.
            while client.write_all(&[b' '; 1 << 16]).is_ok() {}
        }
    });
    let of = ["explain", "1"];
    for command in [
        &["ctl", "--control", "evil.sock", "list"][..],
        &["top", "--control", "evil.sock", "--once"],
        &["ctl", "--control", "evil.sock", of[0], of[1]],
    ] {
        let args: Vec<OsString> = command.iter().map(OsString::from).collect();
        let output = confined(&folder, &args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {said}");
        assert!(
            said.contains("evil.sock: ") && said.contains("more than 64 MiB"),
            "{command:?}: {said}"
        );
    }
}
