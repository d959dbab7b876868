//! `hoistway emulate`: a drive's model as a block device of this machine. Everything but options and words is in
//! `hoistway_machine::emulator`.

use crate::common::known::{Known, drives};
use crate::common::output::print;
use crate::failure::{Failure, machine_failure};
use clap::Args as ClapArgs;
use hoistway::{Nanos, quantity};
use hoistway_machine::MachineError;
use hoistway_machine::emulator::{self, Emulator, EmulatorOptions};
use hoistway_serve::ServeError;
use hoistway_sim::drive::DriveFile;
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// `hoistway emulate`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Prints the block device, then serves until Ctrl-C or SIGTERM. Exit codes: 0 done, 1 failed, 2 wrong \
                  usage, 3 this machine lacks something or is slower than the drive."
)]
pub struct Emulate {
    /// Drive: name, or path of a drive file
    #[arg(long, short, value_name = "DRIVE", required_unless_present_any = ["list", "cleanup"])]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Option<String>,
    /// Size, from the beginning of the drive [default: all of it]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// As a loop device
    #[arg(long = "loop")]
    pub loop_device: bool,
    /// As an NBD export: unix:PATH, tcp:PORT (this machine only) or tcp:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["loop_device", "ublk"])]
    pub nbd: Option<String>,
    /// As a block device of the ublk driver
    #[arg(long, conflicts_with = "loop_device")]
    pub ublk: bool,
    /// Keep the data in this sparse file, which stays [default: in memory]. New, empty, or of the drive's size
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Memory that the data may take; writes beyond it fail [default: half of what is free]
    #[arg(long, value_name = "SIZE", conflicts_with = "store")]
    pub memory: Option<String>,
    /// Seed of the model
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Start also if this machine does not keep up with the drive
    #[arg(long)]
    pub anyway: bool,
    /// Return when the device is there, and serve in the background
    #[arg(long)]
    pub background: bool,
    /// List the emulated drives of this machine
    #[arg(long, exclusive = true)]
    pub list: bool,
    /// Take away what emulators left that were killed
    #[arg(long, exclusive = true)]
    pub cleanup: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// What a background process is told by the one that started it.
    #[arg(long, hide = true)]
    pub detached: bool,
    /// End when standard input does: with the program that holds its other end.
    #[arg(long, hide = true, conflicts_with = "background")]
    pub attended: bool,
}

/// How long a user of the device is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn emulate(args: &Emulate) -> Result<(), Failure> {
    if args.list {
        return list();
    }
    if args.cleanup {
        return cleanup();
    }
    if !args.loop_device {
        if args.nbd.is_none() && !args.ublk {
            let message = "say how: --loop (a block device), --nbd ADDRESS, or --ublk";
            return Err(Failure::Usage(message.into()));
        }
        return by_server(args);
    }
    let options = options(args)?;
    if args.background {
        return background();
    }
    if args.detached {
        // It already leads a group then, or a session: both leave it alone when a terminal closes.
        let _ = rustix::process::setsid();
    }
    end_when_a_thread_panics();
    let (stop, stopped) = channel();
    if args.attended {
        let stop = stop.clone();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = stop.send(());
        });
    }
    ctrlc::set_handler(move || {
        let _ = stop.send(());
    })
    .map_err(|e| Failure::Environment(format!("signal handler: {e}")))?;
    let emulator = Emulator::start(&options).map_err(failure)?;
    announce(args, &emulator, &options)?;
    // The sender lives in the handler, for as long as the process.
    let _ = stopped.recv();
    let users = emulator.users();
    if !users.is_empty() && !args.detached {
        eprintln!("still used: {}; waiting up to {} s", users.join(", "), PATIENCE.as_secs());
    }
    let (last, used) = (figures(&emulator), emulator.used());
    let users = emulator.stop(PATIENCE).map_err(failure)?;
    farewell(args, &last, used, &users)
}

/// Over NBD or ublk: as `hoistway serve` does, with scheduler `none`.
fn by_server(args: &Emulate) -> Result<(), Failure> {
    let only_loop = [
        ("--memory", args.memory.is_some()),
        ("--anyway", args.anyway),
        ("--background", args.background),
        ("--json", args.json),
    ];
    if let Some((flag, _)) = only_loop.iter().find(|(_, given)| *given) {
        return Err(Failure::Usage(format!("{flag} goes with --loop only")));
    }
    let mut fronts = super::serve::args::FrontArgs::default();
    if args.ublk {
        let front = hoistway_serve::front::FRONTS.iter().find(|front| front.name == "ublk");
        let Some(front) = front else {
            let message = "this program was built without its feature ublk; use --loop";
            return Err(Failure::Environment(message.into()));
        };
        if let Some(missing) = (front.missing)() {
            return Err(Failure::Environment(missing));
        }
        fronts.given.insert("ublk".into(), String::new());
    }
    let drive = args.drive.as_deref().expect("clap asks for it");
    let mut export = format!("drive=emulate:{drive}");
    for (before, value) in
        [(":", &args.size), (",data=", &args.store.as_ref().map(|p| p.display().to_string()))]
    {
        export += &value.as_ref().map_or(String::new(), |value| format!("{before}{value}"));
    }
    super::serve::serve(&super::serve::args::Serve {
        export: vec![format!("{export},seed={}", args.seed)],
        socket: Vec::new(),
        port: Vec::new(),
        options: super::serve::spec::ServeOptions {
            scheduler: Some("none".into()),
            listen: args.nbd.iter().cloned().collect(),
            ..Default::default()
        },
        fronts,
        read_only: false,
        config: None,
        run: None,
        quiet: false,
    })
}

/// A drive without one of its threads would never answer; so it goes as a killed one does.
fn end_when_a_thread_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        eprintln!("error: `hoistway emulate --cleanup` takes away what is left");
        std::process::exit(1);
    }));
}

fn options(args: &Emulate) -> Result<EmulatorOptions, Failure> {
    let name = args.drive.as_deref().expect("clap asks for it");
    let drive = DriveFile::load(name).map_err(|e| Failure::Usage(e.to_string()))?;
    let size = |flag: &str, text: &Option<String>| {
        let bytes = text.as_deref().map(quantity::bytes).transpose();
        bytes.map_err(|e| Failure::Usage(format!("--{flag}: {e}")))
    };
    Ok(EmulatorOptions {
        size: size("size", &args.size)?,
        memory: size("memory", &args.memory)?,
        store: args.store.clone(),
        seed: args.seed,
        anyway: args.anyway,
        ..EmulatorOptions::new(drive)
    })
}

fn failure(error: MachineError) -> Failure {
    match error {
        MachineError::Serve(ServeError::TooFast { .. }) => {
            Failure::Environment(format!("{error}, or add --anyway"))
        }
        MachineError::Serve(ServeError::Target(_)) => Failure::Usage(error.to_string()),
        error => machine_failure(error),
    }
}

fn us(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

fn announce(args: &Emulate, emulator: &Emulator, options: &EmulatorOptions) -> Result<(), Failure> {
    if args.json {
        return print(&format!("{}\n", facts(emulator, options)));
    }
    let (carried, drive) = (emulator.carried(), &options.drive);
    eprintln!("{}: {} of {}", emulator.device().display(), size(emulator.size()), drive.name);
    for row in emulator.rows() {
        match row.holds() {
            true => eprintln!("  {:<19} {}", row.name, row.found),
            false => eprintln!(
                "  {:<19} {} (the drive: {}): {}",
                row.name, row.found, row.wanted, row.note
            ),
        }
    }
    eprintln!(
        "  this machine carries {} random reads/s and {} MB/s; its path of {:.0} us (and {:.2} us for each KiB, and \
         {:.0} us after a pause) and {:.0} us of its timer are taken off",
        carried.iops,
        carried.bytes_per_second / 1_000_000,
        us(carried.path.fixed),
        carried.path.per_kib / 1e3,
        us(carried.path.cold),
        us(carried.path.wake),
    );
    emulator.notes().iter().for_each(|note| eprintln!("warning: {note}"));
    match &options.store {
        Some(file) => eprintln!("  data: {}, at most {}", file.display(), size(emulator.room())),
        None => {
            eprintln!("  data: memory, at most {}; writes beyond it fail", size(emulator.room()))
        }
    }
    print(&format!("{}\n", emulator.device().display()))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

fn facts(emulator: &Emulator, options: &EmulatorOptions) -> Value {
    let carried = emulator.carried();
    let rows = emulator.rows().iter().map(
        |row| json!({"name": row.name, "drive": row.wanted, "device": row.found, "note": row.note}),
    );
    json!({
        "device": emulator.device().display().to_string(),
        "pid": std::process::id(),
        "drive": options.drive.id,
        "size": emulator.size(),
        "queue_depth": options.drive.host.queue_depth,
        "data_limit": emulator.room(),
        "queue": rows.collect::<Vec<_>>(),
        "carried_iops": carried.iops,
        "carried_bytes_per_second": carried.bytes_per_second,
        "path_us": us(carried.path.fixed),
        "path_us_after_pause": us(carried.path.cold),
        "timer_us": us(carried.path.wake),
        "path_us_per_kib": carried.path.per_kib / 1e3,
        "warnings": emulator.notes(),
    })
}

/// How it went.
struct Last {
    figures: hoistway_serve::storage::EmulationFigures,
    most: u32,
}

fn figures(emulator: &Emulator) -> Last {
    Last { figures: emulator.figures(), most: emulator.most_under_way() }
}

fn farewell(args: &Emulate, last: &Last, used: u64, users: &[String]) -> Result<(), Failure> {
    let f = &last.figures;
    if args.json {
        let value = json!({
            "commands": f.commands,
            "most_under_way": last.most,
            "modelled_mean_us": us(f.modelled_mean),
            "achieved_mean_us": us(f.achieved_mean),
            "late_p50_us": us(f.late_p50),
            "late_p99_us": us(f.late_p99),
            "kept_up": f.kept_up(),
            "data_bytes": used,
            "pulled_from": users,
        });
        return print(&format!("{value}\n"));
    }
    if args.detached {
        return Ok(());
    }
    eprintln!(
        "{} commands, at most {} at a time; service time {:.1} us by the model, {:.1} us achieved (late: {:.1} us \
         median, {:.1} us p99); {} of data",
        f.commands,
        last.most,
        us(f.modelled_mean),
        us(f.achieved_mean),
        us(f.late_p50),
        us(f.late_p99),
        size(used),
    );
    if f.commands > 0 && !f.kept_up() {
        eprintln!(
            "warning: the drive answered late: what was measured on it is not what the drive would give"
        );
    }
    if !users.is_empty() {
        eprintln!("warning: pulled from under {}", users.join(", "));
    }
    Ok(())
}

/// Starts this program anew with the same arguments, and waits until it says what device there is.
fn background() -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    let cannot = |e: std::io::Error| Failure::Environment(format!("background process: {e}"));
    let arguments = std::env::args_os().skip(1).filter(|a| a != "--background");
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(arguments).arg("--detached").process_group(0);
    // Both sides have it without a name in a folder of everybody.
    let log =
        memfd_create("hoistway-emulate", MemfdFlags::CLOEXEC).map_err(|e| cannot(e.into()))?;
    let log = File::from(log);
    let errors = log.try_clone().map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(cannot)?;
    let mut said = String::new();
    let stdout = child.stdout.take().expect("it was asked for");
    let heard = BufReader::new(stdout).read_line(&mut said);
    // The position is the child's as well: read from the beginning without moving it.
    let mut errors = vec![0; log.metadata().map_or(0, |meta| meta.len() as usize)];
    let read = log.read_at(&mut errors, 0).unwrap_or(0);
    let errors = String::from_utf8_lossy(&errors[..read]);
    eprint!("{errors}");
    if heard.is_ok_and(|n| n > 0) {
        return print(&said);
    }
    // It has said why itself.
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(1);
    std::process::exit(code);
}

fn list() -> Result<(), Failure> {
    let mut text = String::new();
    let (all, refused) = emulator::known().map_err(failure)?;
    for known in all {
        let device = known.device.map_or("no device".into(), |d| d.display().to_string());
        let state = if known.alive { "" } else { ", dead: `hoistway emulate --cleanup`" };
        text += &format!("{device}  {}  process {}{state}\n", known.drive, known.pid);
    }
    if text.is_empty() && refused.is_empty() {
        eprintln!("no emulated drives");
    }
    print(&text)?;
    refused.into_iter().next().map_or(Ok(()), |error| Err(failure(error)))
}

fn cleanup() -> Result<(), Failure> {
    let said = emulator::cleanup().map_err(failure)?;
    if said.is_empty() {
        eprintln!("nothing to clean up");
    }
    print(&said.into_iter().map(|line| line + "\n").collect::<String>())
}
