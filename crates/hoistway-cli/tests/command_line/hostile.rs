//! Files and arguments as somebody may hand them over who means harm: they end in an error that names them, within little
//! memory, and nothing of what they hold reaches the terminal.

use super::*;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

/// Runs the program with little memory; whoever takes longer than the seconds given to `timeout` hangs.
pub fn confined(folder: &Folder, args: &[OsString]) -> Output {
    let out = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 1500000; exec timeout 240 \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_hoistway"),
        ])
        .args(args)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_ne!(out.status.code(), Some(124), "{args:?} hangs");
    out
}

/// A kind of file: its name here, the most bytes it may have, whether it is text, and the commands that read it.
struct Kind {
    file: &'static str,
    most: u64,
    text: bool,
    commands: &'static [&'static [&'static str]],
}

const KINDS: &[Kind] = &[
    Kind {
        file: "x.toml",
        most: 1 << 20,
        text: true,
        commands: &[
            &["compare", "--drive", "./x.toml", "--dry-run"],
            &["compare", "--drive", "./based.toml", "--dry-run"],
            &["calibrate", "--iocost", "--drive", "./x.toml"],
            &["what-if", "--drive", "./x.toml", "--target", "reader=5ms"],
        ],
    },
    Kind {
        file: "x.toml",
        most: 4 << 20,
        text: true,
        commands: &[&["compare", "./x.toml"], &["run", "./x.toml"], &["show", "./x.toml"]],
    },
    Kind {
        file: "x.fio",
        most: 4 << 20,
        text: true,
        commands: &[&["compare", "--job", "x.fio"], &["run", "--job", "including.fio"]],
    },
    Kind {
        file: "x.csv",
        most: u64::MAX,
        text: false,
        commands: &[&["describe", "x.csv"], &["replay", "x.csv"]],
    },
    Kind {
        file: "hdd.bfq.x.csv",
        most: 128 << 20,
        text: true,
        commands: &[&["replay-decisions", "hdd.bfq.x.csv"]],
    },
    Kind {
        file: "serve.toml",
        most: 4 << 20,
        text: true,
        commands: &[&["serve", "--config", "serve.toml"]],
    },
    Kind {
        file: "groups/io.weight",
        most: 256 << 10,
        text: true,
        commands: &[&["compare", "--groups", "groups", "--dry-run"]],
    },
    Kind {
        file: "dir/run.toml",
        most: 4 << 20,
        text: true,
        commands: &[
            &["report", "dir"],
            &["merge", "dir"],
            &["diff", "dir", "dir"],
            &["recommend", "dir"],
        ],
    },
    Kind {
        file: "whole/records/histograms.json.gz",
        most: 1 << 30,
        text: false,
        commands: &[&["report", "whole"], &["merge", "whole"]],
    },
];

const MANIFEST: &str = "schema = 1\nexperiment = \"x\"\ntitle = \"x\"\nabout = \"x\"\nworld = \"sim\"\n\
    version = \"0.1.0\"\ncommand = \"x\"\nseed = 1\nreps = 1\ndrives = []\nconfigs = []\nworkloads = []\nhost = []\n\
    quick = false\n";

fn prepared(name: &str) -> Folder {
    let folder = Folder::new(name);
    for dir in ["groups", "dir", "whole/records"] {
        fs::create_dir_all(folder.0.join(dir)).unwrap();
    }
    fs::write(folder.0.join("whole/run.toml"), MANIFEST).unwrap();
    fs::write(folder.0.join("including.fio"), "[a]\ninclude x.fio\n").unwrap();
    let based = "schema = 1\nname = \"based\"\nbase = \"./x.toml\"\n";
    fs::write(folder.0.join("based.toml"), based).unwrap();
    folder
}

/// Every command of every kind must end so, and name the file.
fn must_end(folder: &Folder, kind: &Kind, how: &str, said: &str) {
    for command in kind.commands {
        let args: Vec<OsString> = command.iter().map(OsString::from).collect();
        let output = confined(folder, &args);
        let text = stderr(&output);
        let named = kind.file.rsplit('/').next().unwrap();
        let named = named.strip_suffix(".gz").unwrap_or(named);
        assert_eq!(output.status.code(), Some(2), "{command:?} with {how}: {text}");
        assert!(text.contains(named) && text.contains(said), "{command:?} with {how}: {text}");
    }
}

#[test]
fn what_has_no_end_is_refused() {
    let folder = prepared("no-end");
    for kind in KINDS {
        let path = folder.0.join(kind.file);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        must_end(&folder, kind, "/dev/zero", "is a device");
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        must_end(&folder, kind, "a FIFO", "is a FIFO");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_is_too_long_or_no_text_is_refused() {
    let folder = prepared("too-long");
    for kind in KINDS {
        let path = folder.0.join(kind.file);
        if kind.most < u64::MAX {
            fs::File::create(&path).unwrap().set_len(kind.most + 1).unwrap();
            must_end(&folder, kind, "a byte too much", "is longer than");
        }
        if kind.text {
            fs::write(&path, b"# a\n\xff\n").unwrap();
            must_end(&folder, kind, "bytes", ":2: is no text in UTF-8");
        }
        // A trace has neither limit.
        let _ = fs::remove_file(&path);
    }
}

/// Bytes that decompress to `length` bytes of this one.
fn bomb(byte: u8, length: usize) -> Vec<u8> {
    let mut out = Command::new("gzip")
        .args(["-9", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = out.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let block = vec![byte; 1 << 20];
        for _ in 0..length >> 20 {
            input.write_all(&block).unwrap();
        }
    });
    let packed = out.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    packed
}

#[test]
fn what_decompresses_to_too_much_is_refused() {
    let folder = prepared("bomb");
    // Blanks are good JSON, and a line of a trace or a recording does not end.
    let packed = bomb(b' ', 1100 << 20);
    for (file, command, said) in [
        (
            "whole/records/histograms.json.gz",
            &["report", "whole"][..],
            "longer than 128 MiB of text",
        ),
        ("x.csv.gz", &["describe", "x.csv.gz", "--format", "msr"], "has no end within 16 MiB"),
        (
            "hdd.bfq.x.csv.gz",
            &["replay-decisions", "hdd.bfq.x.csv.gz"],
            "is longer than a recording",
        ),
    ] {
        fs::write(folder.0.join(file), &packed).unwrap();
        let args: Vec<OsString> = command.iter().map(OsString::from).collect();
        let output = confined(&folder, &args);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{command:?}: {}", stderr(&output));
    }
}

/// A file that is none of the kind that was asked for is nobody's business.
#[test]
fn what_a_foreign_file_holds_is_not_quoted() {
    let folder = prepared("secret");
    const SECRET: &str = "hunter2";
    let texts = [
        format!("root:{SECRET}:19000:0:99999:7:::\n"),
        format!("{SECRET}\n"),
        format!("\"{SECRET}\"\n"),
        format!("{SECRET} = {SECRET}\n"),
        format!("[{SECRET}\n"),
        format!("{{\"a\": \"{SECRET}\"}}\n"),
    ];
    // Keys of TOML are told, since people misspell them; what is no TOML is not.
    let is_key = |text: &str, kind: &Kind| text.contains(" = ") && kind.file.ends_with(".toml");
    for kind in KINDS.iter().filter(|k| k.text && !k.file.starts_with("groups")) {
        for text in texts.iter().filter(|t| !is_key(t, kind)) {
            fs::write(folder.0.join(kind.file), text).unwrap();
            for command in kind.commands {
                let args: Vec<OsString> = command.iter().map(OsString::from).collect();
                let output = confined(&folder, &args);
                let said = stderr(&output) + &stdout(&output);
                assert!(!said.contains(SECRET), "{command:?} of {text:?}: {said}");
            }
        }
    }
}

#[test]
fn arguments_that_are_no_text_work_or_are_refused() {
    let folder = prepared("bytes");
    let name = OsString::from_vec(b"\xff\xfe".to_vec());
    fs::write(folder.0.join(&name), JOBS).unwrap();
    let mut path = OsString::from("./");
    path.push(&name);
    let verbs: &[&[&str]] = &[
        &["list"],
        &["show"],
        &["compare"],
        &["compare", "--drive"],
        &["compare", "--config"],
        &["compare", "--faults"],
        &["compare", "--on", "kernel", "--target-dir"],
        &["compare", "--dry-run", "--groups"],
        &["run"],
        &["run", "--job"],
        &["bench", "--drive"],
        &["bench"],
        &["recommend"],
        &["merge"],
        &["report"],
        &["diff", "dir"],
        &["reproduce"],
        &["population", "--config"],
        &["oracle"],
        &["oracle", "--drive"],
        &["what-if", "--drive"],
        &["describe"],
        &["replay"],
        &["replay-decisions"],
        &["calibrate", "--dry-run"],
        &["serve", "-e"],
        &["serve", "--config"],
        &["ctl", "--control"],
        &["completions"],
    ];
    for verb in verbs {
        for (file, sort) in
            [(&path, "that is there"), (&OsString::from_vec(b"\xfe".to_vec()), "that is not")]
        {
            let mut args: Vec<OsString> = verb.iter().map(OsString::from).collect();
            args.push(file.clone());
            let output = confined(&folder, &args);
            let said = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(
                matches!(code, Some(0..=3)) && !said.contains("panicked"),
                "{args:?} {sort}: {code:?} {said}"
            );
        }
    }
}

#[test]
fn names_reach_the_terminal_as_letters() {
    let folder = prepared("escapes");
    let evil = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}31m";
    let record = |at: u64| {
        format!("{},{evil},1,Read,{},4096,100\n", 128_166_372_000_000_000 + at * 10_000, at << 12)
    };
    let trace: String = (0..200).map(record).collect();
    fs::write(folder.0.join("t.csv"), trace).unwrap();
    let title = toml_text("=1+1\u{1b}[31m");
    let drive = format!("schema = 1\nname = {title}\nbase = \"null-block\"\n");
    fs::write(folder.0.join("d.toml"), drive).unwrap();
    for args in [
        &["describe", "t.csv", "--format", "msr", "--quiet"][..],
        &["describe", "t.csv", "--format", "msr", "--json", "--quiet"],
        &["replay", "t.csv", "--format", "msr", "-c", "none", "--quiet"],
        &[
            "replay",
            "t.csv",
            "--format",
            "msr",
            "-c",
            "none",
            "--quiet",
            "--json",
            "--split-by",
            "lun",
        ],
        &["replay", "t.csv", "--format", "msr", "-c", "none", "--target", evil, "--csv", "--quiet"],
        &["replay", "t.csv", "--format", "msr", "--target", "\u{1b}[31m"],
        &["show", "./d.toml"],
        &["compare", "\u{1b}[31m"],
        &["compare", "--reps", "\u{1b}[31m"],
        &["report", "\u{1b}[31m"],
    ] {
        let output = folder.run(args);
        let said = stdout(&output) + &stderr(&output);
        let acts = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!said.contains(acts), "{args:?}: {said:?}");
        if args.contains(&"--json") {
            let read: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
            assert!(read.is_ok(), "{args:?}: {said}");
        }
    }
}

/// A text in quotes as TOML has it.
fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}
