//! `hoistway ctl`: asks a running server over its control socket.

use crate::common::output::print;
use crate::common::table::Table;
use crate::failure::Failure;
use crate::verbs::serve::control::Request;
use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `hoistway ctl`.
#[derive(Debug, ClapArgs)]
pub struct Ctl {
    /// Control socket of the server, as given to `hoistway serve --control`
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// The device of this export; needed if the server has several
    #[arg(long, short, value_name = "NAME", global = true)]
    pub export: Option<String>,
    /// The command.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// Commands for a running server.
#[derive(Clone, Debug, Subcommand)]
pub enum CtlCommand {
    /// List devices, exports, groups and clients, with their I/O totals
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the weight of a group
    SetWeight {
        /// Its name
        group: String,
        /// 1 to 1000
        weight: u64,
    },
    /// Set a tunable of the scheduler, the block layer (nr_requests, ...) or a controller
    Set {
        /// Such as slice_idle=0 or nr_requests=64
        #[arg(value_name = "NAME=VALUE")]
        setting: String,
    },
    /// Write a line to a cgroup file of a group, such as: write gold io.max '8:0 rbps=10000000'
    Write {
        /// Its name; root is the group of everybody in no other group
        group: String,
        /// Such as io.max
        file: String,
        /// In the kernel's syntax
        line: String,
    },
    /// Print a cgroup file of a group
    Read {
        /// Its name; root is the group of everybody in no other group
        group: String,
        /// Such as io.stat
        file: String,
    },
    /// Print Prometheus metrics
    Metrics,
    /// Print a live timeline of a client or group: its requests, and each decision of the scheduler with its
    /// reason
    Explain {
        /// Number of a client, as list shows it, or name of a group
        #[arg(value_name = "CLIENT|GROUP")]
        of: String,
        /// Stop after so many lines
        #[arg(long, value_name = "N", default_value_t = 200)]
        limit: u64,
        /// Stop after this time, such as 5s or 300ms
        #[arg(long = "duration", alias = "for", value_name = "TIME", default_value = "5s")]
        span: String,
    },
    /// Read the sizes of files and block devices again; new connections do so by themselves
    Resize,
    /// Switch to another scheduler; no request is lost
    Scheduler {
        /// Such as bfq{low_latency=0}
        scheduler: String,
    },
}

/// Longest wait for a server that has taken the connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer: the figures of 10,000 exports and 4,096 clients are some MiB. What listens on the socket may be anything.
const ANSWER_MAX: u64 = 64 << 20;

/// `hoistway ctl`.
pub fn ctl(args: &Ctl) -> Result<(), Failure> {
    if let CtlCommand::Explain { of, limit, span } = &args.command {
        return explain(args, of, *limit, span);
    }
    let answer = ask(&args.control, &request(args)?)?;
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        eprintln!("warning: {}", warning.as_str().unwrap_or_default());
    }
    match &args.command {
        CtlCommand::List { json: true } => print(&format!("{answer:#}\n")),
        CtlCommand::List { json: false } => print(&tables(&answer)),
        CtlCommand::Read { .. } | CtlCommand::Metrics => {
            print(answer["text"].as_str().unwrap_or_default())
        }
        CtlCommand::Resize => {
            let devices = answer["devices"].as_array().into_iter().flatten();
            let line = |d: &Value| format!("{}: {} bytes\n", cell(&d["target"]), d["bytes"]);
            print(&devices.map(line).collect::<String>())
        }
        CtlCommand::Scheduler { .. } if answer["done"] == false => {
            let scheduler = answer["scheduler"].as_str().unwrap_or_default();
            let waits = answer["waits_for"].as_str().unwrap_or("pending I/O");
            eprintln!("warning: switching to {scheduler} once pending I/O has completed ({waits})");
            Ok(())
        }
        CtlCommand::Scheduler { .. } => {
            let controllers = answer["controllers"].as_array().into_iter().flatten();
            let names: Vec<&str> = controllers.filter_map(Value::as_str).collect();
            if !names.is_empty() {
                let stay = if names.len() == 1 { "stays" } else { "stay" };
                eprintln!(
                    "{} {stay} in force; controllers change when the server starts",
                    names.join(", ")
                );
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn request(args: &Ctl) -> Result<Request, Failure> {
    let export = args.export.clone();
    Ok(match args.command.clone() {
        CtlCommand::List { .. } => Request::List {},
        CtlCommand::Metrics => Request::Metrics {},
        CtlCommand::Explain { .. } => unreachable!("a timeline is asked for where it is printed"),
        CtlCommand::SetWeight { group, weight } => Request::SetWeight { group, weight, export },
        CtlCommand::Set { setting } => match setting.split_once('=') {
            Some((name, value)) => Request::Set { name: name.into(), value: value.into(), export },
            None => return Err(Failure::Usage(format!("'{setting}': write NAME=VALUE"))),
        },
        CtlCommand::Write { group, file, line } => Request::Write { group, file, line, export },
        CtlCommand::Read { group, file } => Request::Read { group, file, export },
        CtlCommand::Resize => Request::Resize { export },
        CtlCommand::Scheduler { scheduler } => Request::Scheduler { scheduler, export },
    })
}

/// Prints the timeline while it comes in.
fn explain(args: &Ctl, of: &str, limit: u64, span: &str) -> Result<(), Failure> {
    let span = hoistway::quantity::duration(span);
    let span = span.map_err(|e| Failure::Usage(format!("--duration: {e}")))?;
    let seconds = span.0 as f64 / 1e9;
    let request = Request::Explain { of: of.into(), limit, seconds, export: args.export.clone() };
    let lost = |e: std::io::Error| lost(&args.control, &e);
    let stream = send(&args.control, &request)?;
    stream.set_read_timeout(Some(PATIENCE + Duration::from_secs_f64(seconds))).map_err(lost)?;
    let mut lines = BufReader::new(stream);
    let mut next = || -> Result<Option<String>, Failure> {
        let mut line = Vec::new();
        let read =
            lines.by_ref().take(ANSWER_MAX + 1).read_until(b'\n', &mut line).map_err(lost)?;
        let line = within(&args.control, line)?;
        Ok((read > 0).then(|| line.trim_end_matches('\n').to_string()))
    };
    checked(&args.control, &next()?.unwrap_or_default())?;
    print(&format!("timeline of {of}; times since it began\n\n"))?;
    while let Some(line) = next()? {
        let said: Value =
            serde_json::from_str(&line).map_err(|e| no_hoistway(&args.control, &e))?;
        if let Some(text) = said["line"].as_str() {
            print(&format!("{text}\n"))?;
            continue;
        }
        let mut end = match said["end"].as_str() {
            Some("limit") => format!("\n{limit} lines; --limit N shows more\n"),
            Some("gone") => "\nit has left\n".into(),
            _ if said["lines"] == 0 => "nothing happened to it\n".into(),
            _ => String::new(),
        };
        if said["dropped"] != 0 {
            end +=
                &format!("{} events were dropped: too many in too short a time\n", said["dropped"]);
        }
        return print(&end);
    }
    let message = "the server stopped before the end of the timeline";
    Err(Failure::Environment(format!("{}: {message}", args.control.display())))
}

/// One line out, one line in.
pub fn ask(path: &Path, request: &Request) -> Result<Value, Failure> {
    let mut text = Vec::new();
    let mut answer = send(path, request)?.take(ANSWER_MAX + 1);
    answer.read_to_end(&mut text).map_err(|e| lost(path, &e))?;
    checked(path, &within(path, text)?)
}

/// The text of an answer, if it is one.
fn within(path: &Path, answer: Vec<u8>) -> Result<String, Failure> {
    let wrong = |what: String| Failure::Environment(format!("{}: {what}", path.display()));
    if answer.len() as u64 > ANSWER_MAX {
        let what = format!(
            "no hoistway server is listening on this socket: an answer of more than {} MiB",
            ANSWER_MAX >> 20
        );
        return Err(wrong(what));
    }
    let refused =
        |_| wrong("no hoistway server is listening on this socket: no text in UTF-8".into());
    String::from_utf8(answer).map_err(refused)
}

/// Asks, for whatever is answered.
fn send(path: &Path, request: &Request) -> Result<UnixStream, Failure> {
    let lost = |e: std::io::Error| lost(path, &e);
    let mut stream = UnixStream::connect(path).map_err(|e| match e.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => Failure::Environment(format!(
            "{}: no hoistway server is listening on this socket ({e}); start one with `hoistway serve --control {0}`",
            path.display()
        )),
        _ => lost(e),
    })?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
    let line = serde_json::to_string(request).expect("a request is text and numbers") + "\n";
    match stream.write_all(line.as_bytes()) {
        // A server that has heard enough answers nevertheless: the answer says why.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(lost(e)),
        _ => Ok(stream),
    }
}

/// An answer, if it is a good one.
fn checked(path: &Path, text: &str) -> Result<Value, Failure> {
    if text.is_empty() {
        let message = "the server closed the connection without an answer";
        return Err(Failure::Environment(format!("{}: {message}", path.display())));
    }
    let answer: Value = serde_json::from_str(text).map_err(|e| no_hoistway(path, &e))?;
    match (&answer["ok"], answer["error"].as_str()) {
        (Value::Bool(true), _) => Ok(answer),
        (_, error) => Err(Failure::Usage(error.unwrap_or("refused without a reason").into())),
    }
}

fn lost(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Environment(format!("{}: {error}", path.display()))
}

fn no_hoistway(path: &Path, error: &serde_json::Error) -> Failure {
    Failure::Environment(format!(
        "{}: no hoistway server is listening on this socket: {error}",
        path.display()
    ))
}

/// `list` for people.
fn tables(answer: &Value) -> String {
    let mut out = String::new();
    for (n, device) in answer["devices"].as_array().into_iter().flatten().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let changing = match device["waits_for"].as_str() {
            Some(waits) => format!("\nchanging: {waits}"),
            None if device["changing"] == true => ", changing".into(),
            None => String::new(),
        };
        out += &format!(
            "{} ({} bytes): {}, nr_requests {}, controllers: {}, sockets by {}{changing}\n",
            cell(&device["target"]),
            device["bytes"],
            cell(&device["scheduler"]),
            device["nr_requests"],
            names(&device["controllers"], cell),
            cell(&device["sockets"]),
        );
        out += &format!("exports: {}\n", names(&device["exports"], |e| cell(&e["name"])));
        out += &format!("groups: {}\n", names(&device["groups"], group));
        for target in device["targets"].as_array().into_iter().flatten() {
            out += &target_line(target);
        }
        let clients = device["clients"].as_array().map_or(&[][..], |c| c);
        if clients.is_empty() {
            out.push_str("no clients\n");
            continue;
        }
        let mut table = Table::new(COLUMNS, 5);
        for client in clients {
            table.row(KEYS.iter().map(|key| cell(&client[key])).collect());
        }
        out += &table.render();
    }
    out
}

/// How a latency target stands.
fn target_line(target: &Value) -> String {
    let millis = |ns: &Value| ns.as_u64().map(|ns| hoistway::target::millis(hoistway::Nanos(ns)));
    let aim = millis(&target["target_ns"]).unwrap_or_else(|| "auto".into());
    let known = target["p99_ns"].as_u64().is_some_and(|ns| ns > 0);
    let p99 = millis(&target["p99_ns"]).filter(|_| known).unwrap_or_else(|| "-".into());
    format!("target of {}: {aim}, p99 {p99}: {}\n", cell(&target["group"]), cell(&target["words"]))
}

const COLUMNS: &[&str] = &[
    "client",
    "export",
    "group",
    "prio",
    "peer",
    "reads",
    "bytes read",
    "writes",
    "bytes written",
    "others",
    "errors",
    "outstanding",
];
const KEYS: [&str; 12] = [
    "connection",
    "export",
    "group",
    "prio",
    "peer",
    "reads",
    "read_bytes",
    "writes",
    "written_bytes",
    "others",
    "errors",
    "outstanding",
];

fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

fn names(list: &Value, name: impl Fn(&Value) -> String) -> String {
    let names: Vec<_> = list.as_array().into_iter().flatten().map(name).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn group(group: &Value) -> String {
    let set = group["set"].as_object().into_iter().flatten();
    let set: Vec<_> = set.map(|(name, value)| format!("{name}={value}")).collect();
    if set.is_empty() {
        return cell(&group["name"]);
    }
    format!("{} ({})", cell(&group["name"]), set.join(", "))
}
