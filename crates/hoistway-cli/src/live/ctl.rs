//! `hoistway ctl`: asks a running server over its control socket.

use crate::live::args::{Ctl, CtlCommand};
use crate::live::serve::control::Request;
use crate::table::Table;
use crate::{Failure, print};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest wait for a server that has taken the connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// `hoistway ctl`.
pub fn ctl(args: &Ctl) -> Result<(), Failure> {
    let answer = ask(&args.control, &request(args)?)?;
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        eprintln!("warning: {}", warning.as_str().unwrap_or_default());
    }
    match &args.command {
        CtlCommand::List { json: true } => print(&format!("{answer:#}\n")),
        CtlCommand::List { json: false } => print(&tables(&answer)),
        CtlCommand::Read { .. } => print(answer["text"].as_str().unwrap_or_default()),
        CtlCommand::Scheduler { .. } if answer["done"] == false => {
            let scheduler = answer["scheduler"].as_str().unwrap_or_default();
            eprintln!("warning: {scheduler} takes over when what is under way is done");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn request(args: &Ctl) -> Result<Request, Failure> {
    let export = args.export.clone();
    Ok(match args.command.clone() {
        CtlCommand::List { .. } => Request::List {},
        CtlCommand::SetWeight { group, weight } => Request::SetWeight { group, weight, export },
        CtlCommand::Set { setting } => match setting.split_once('=') {
            Some((name, value)) => Request::Set { name: name.into(), value: value.into(), export },
            None => return Err(Failure::Usage(format!("'{setting}': write NAME=VALUE"))),
        },
        CtlCommand::Write { group, file, line } => Request::Write { group, file, line, export },
        CtlCommand::Read { group, file } => Request::Read { group, file, export },
        CtlCommand::Scheduler { scheduler } => Request::Scheduler { scheduler, export },
    })
}

/// One line out, one line in.
fn ask(path: &Path, request: &Request) -> Result<Value, Failure> {
    let lost = |e: std::io::Error| Failure::Environment(format!("{}: {e}", path.display()));
    let mut stream = UnixStream::connect(path).map_err(|e| match e.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => Failure::Environment(format!(
            "{}: no server answers there ({e}); start one with `hoistway serve --control {0}`",
            path.display()
        )),
        _ => lost(e),
    })?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
    let line = serde_json::to_string(request).expect("a request is text and numbers") + "\n";
    // A server that has heard enough answers nevertheless: the answer says why.
    let sent = stream.write_all(line.as_bytes());
    let mut text = String::new();
    let got = stream.read_to_string(&mut text);
    if text.is_empty() {
        sent.and(got.map(drop)).map_err(lost)?;
        let message = "the server went away without an answer";
        return Err(Failure::Environment(format!("{}: {message}", path.display())));
    }
    let answer: Value = serde_json::from_str(&text).map_err(|e| {
        Failure::Environment(format!("{}: no hoistway answers there: {e}", path.display()))
    })?;
    match (&answer["ok"], answer["error"].as_str()) {
        (Value::Bool(true), _) => Ok(answer),
        (_, error) => Err(Failure::Usage(error.unwrap_or("refused without a reason").into())),
    }
}

/// `list` for people.
fn tables(answer: &Value) -> String {
    let mut out = String::new();
    for (n, device) in answer["devices"].as_array().into_iter().flatten().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let changing = if device["changing"] == true { ", changing" } else { "" };
        out += &format!(
            "{} ({} bytes): {}, nr_requests {}, controllers: {}{changing}\n",
            cell(&device["target"]),
            device["bytes"],
            cell(&device["scheduler"]),
            device["nr_requests"],
            names(&device["controllers"], cell),
        );
        out += &format!("exports: {}\n", names(&device["exports"], |e| cell(&e["name"])));
        out += &format!("groups: {}\n", names(&device["groups"], group));
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
