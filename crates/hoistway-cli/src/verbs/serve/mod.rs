//! `hoistway serve`: exports over NBD. Everything but reading the options is in `hoistway-serve`.

pub mod args;
mod attached;
pub mod control;
mod explain;
#[cfg(test)]
mod fuzz;
mod keeping_up;
mod limits;
mod metrics;
mod service;
mod size;
pub mod spec;
mod stats;
mod tls;

use crate::failure::Failure;
use crate::verbs::serve::args::Serve;
use attached::Places;
use control::ControlService;
use hoistway::quantity;
use hoistway::{IoPrio, Nanos};
use hoistway_files::Scratch;
use hoistway_serve::front::Export;
use hoistway_serve::front::nbd::{ClientRule, Server, ServerOptions};
use hoistway_serve::net::Listen;
use hoistway_serve::net::http::{HttpServer, NoPage, Page};
use hoistway_serve::storage::EmulationFigures;
use hoistway_serve::{Device, DeviceOptions, Group, GroupSpec, ServeError};
use keeping_up::LatenessMonitor;
use limits::Groups;
use service::PidFile;
use spec::{ClientSpec, ExportSpec, ServeOptions};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Signals that come within that time are one: `timeout` and others signal a process and its group.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// `hoistway serve`.
pub fn serve(args: &Serve) -> Result<(), Failure> {
    end_when_a_thread_panics();
    // Where it is refused the server takes as many connections as there are descriptors.
    let _ = hoistway_serve::front::raise_descriptor_limit();
    let settings = configuration(args)?;
    if let Some(path) = &settings.pidfile {
        PidFile::check(path)?;
    }
    // A folder for the socket of `--run`, removed at the end.
    let mut scratch = None;
    let listen = addresses(args, &settings, &mut scratch)?;
    let Opened { exports, devices, of } = open(args, &settings)?;
    warn_of_limits(&settings)?;
    let clients = settings.client.iter().map(rule).collect::<Result<_, _>>()?;
    let security = tls::TlsSettings::of(&settings)?;
    let options = ServerOptions {
        clients,
        tls: security.as_ref().map(tls::TlsSettings::load).transpose()?,
        allow_plain_tcp: settings.allow_plain_tcp,
        connections_max: settings.connections.unwrap_or(0),
        handshake_limit: None,
    };
    let (stop, stopped) = channel();
    let ended = stop.clone();
    catch_signals(stop)?;
    let first = exports[0].name.clone();
    let control = settings.control.as_ref();
    let served = exports.clone();
    let server = Server::start(exports, &listen, &options).map_err(failure)?;
    let control_service = ControlService::new(&served, &devices, &of).map_err(failure)?;
    let control = control.map(|path| control::open(path, control_service.clone()));
    let control = control.transpose().map_err(failure)?;
    let metrics = metrics_at(args, &settings, control_service)?;
    announce(args, &server, &settings, &devices);
    let mut environment = Vec::new();
    let places = Places::open(args, &settings, &served, &server, ended)?;
    environment.extend(places.variables());
    let pidfile = settings.pidfile.as_ref();
    let pidfile = pidfile.map(|path| PidFile::write(path)).transpose()?;
    service::notify("READY=1");
    let monitor = LatenessMonitor::start(&devices);
    let result = match &args.run {
        Some(command) => {
            let uri = server.uri(&first).unwrap_or_default();
            let uri = security.as_ref().map_or(uri.clone(), |tls| tls.with_certificates(&uri));
            environment.push(("uri", uri.into()));
            environment.push(("unixsocket", unix_socket(&server).unwrap_or_default()));
            run(command, &environment, &stopped)
        }
        None => {
            // The sender lives in the handler, for as long as the process.
            let _ = stopped.recv();
            Ok(())
        }
    };
    let figures: Vec<_> = devices.iter().map(Device::emulation).collect();
    drop(monitor);
    service::notify("STOPPING=1");
    let result = result.and(places.close());
    drop((control, metrics));
    let stopped = server.stop();
    drop(pidfile);
    figures.into_iter().filter_map(|f| f.ok().flatten()).for_each(|f| tell(args, &f));
    result.and(stopped.map_err(failure))
}

/// The first signal stops the server in order, a second one, somewhat later, at once.
fn catch_signals(stop: Sender<()>) -> Result<(), Failure> {
    let (mut signalled, patience_over) = (false, Arc::new(AtomicBool::new(false)));
    ctrlc::set_handler(move || {
        if patience_over.load(Ordering::SeqCst) {
            eprintln!("error: stopped at once by a second signal; nothing was flushed");
            exit(1);
        }
        if !std::mem::replace(&mut signalled, true) {
            // Whoever waits is gone only at the very end.
            let _ = stop.send(());
            let over = Arc::clone(&patience_over);
            std::thread::spawn(move || {
                std::thread::sleep(ONE_SIGNAL);
                over.store(true, Ordering::SeqCst);
            });
        }
    })
    .map_err(|e| Failure::Environment(format!("signal handler: {e}")))
}

/// How well the machine kept up with a drive.
fn tell(args: &Serve, figures: &EmulationFigures) {
    let us = |time: Nanos| time.0 as f64 / 1e3;
    say(
        args,
        &format!(
            "emulated drive: {} commands, service time {:.1} us by the model, {:.1} us achieved \
             (late: {:.1} us median, {:.1} us p99)",
            figures.commands,
            us(figures.modelled_mean),
            us(figures.achieved_mean),
            us(figures.late_p50),
            us(figures.late_p99)
        ),
    );
    if !figures.kept_up() {
        eprintln!("warning: the emulated drive answered late, {}", keeping_up::ADVICE);
    }
}

/// Limits that were hardly meant are warned about.
fn warn_of_limits(settings: &ServeOptions) -> Result<(), Failure> {
    let exports =
        settings.export.iter().map(|e| (format!("export '{}'", e.name), e.keys().limits()));
    let clients =
        settings.client.iter().map(|c| (format!("client '{}'", c.group_name()), c.keys().limits()));
    for (who, limits) in exports.chain(clients) {
        let limits = limits.map_err(|e| Failure::Usage(format!("{who}: {e}")))?;
        limits.warnings().iter().for_each(|w| eprintln!("warning: {who}: {w}"));
    }
    Ok(())
}

/// A thread of ours that panics takes its device with it: better the process ends, and is started
/// again, than that it goes on without.
fn end_when_a_thread_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        exit(1);
    }));
}

/// Answers `GET /metrics`, where that is wanted.
fn metrics_at(
    args: &Serve,
    settings: &ServeOptions,
    control_service: ControlService,
) -> Result<Option<HttpServer>, Failure> {
    let Some(text) = &settings.metrics else { return Ok(None) };
    let listen = spec::listen(text).map_err(Failure::Usage)?;
    let allowed = settings.allow_plain_tcp;
    let page = move |path: &str| match path {
        "/metrics" => match control_service.metrics() {
            Ok(text) => Ok(Page { kind: metrics::KIND, text }),
            Err(error) => Err(NoPage::Unavailable(error.to_string())),
        },
        _ => Err(NoPage::NotFound),
    };
    let server = HttpServer::start(&listen, allowed, page).map_err(failure)?;
    match server.address() {
        Listen::Tcp(address) => say(args, &format!("metrics: http://{address}/metrics")),
        Listen::Unix(path) => say(args, &format!("metrics: {}", path.display())),
        Listen::Passed(_) => {}
    }
    Ok(Some(server))
}

fn say(args: &Serve, message: &str) {
    if !args.quiet {
        eprintln!("{message}");
    }
}

/// What the flags say, and the configuration file where they say nothing.
fn configuration(args: &Serve) -> Result<ServeOptions, Failure> {
    let file = match &args.config {
        Some(path) => ServeOptions::read(path).map_err(Failure::Usage)?,
        None => ServeOptions::default(),
    };
    let mut flags = args.options.clone();
    flags.fronts = args.fronts.given.clone();
    for text in &args.export {
        flags.export.push(ExportSpec::parse(text).map_err(Failure::Usage)?);
    }
    let mut all = flags.over(file);
    if args.read_only {
        all.export.iter_mut().for_each(|e| e.read_only = true);
    }
    if all.export.is_empty() {
        return Err(Failure::Usage("nothing to serve; write --export disk=ram:1G".into()));
    }
    let place = match &args.config {
        Some(path) if args.export.is_empty() => path.display().to_string(),
        Some(path) => format!("{} and --export", path.display()),
        None => "--export".into(),
    };
    size::check(&place, &all).map_err(Failure::Usage)?;
    Ok(all)
}

fn addresses(
    args: &Serve,
    settings: &ServeOptions,
    scratch: &mut Option<Scratch>,
) -> Result<Vec<Listen>, Failure> {
    let mut list: Vec<Listen> = args.socket.iter().cloned().map(Listen::Unix).collect();
    let local = |port: &u16| Listen::Tcp((Ipv4Addr::LOCALHOST, *port).into());
    list.extend(args.port.iter().map(local));
    for text in &settings.listen {
        list.push(spec::listen(text).map_err(Failure::Usage)?);
    }
    let passed = hoistway_serve::net::passed().map_err(failure)?;
    list.extend(passed.into_iter().map(Listen::Passed));
    if list.is_empty() && args.run.is_some() {
        let folder = Scratch::new("serve").map_err(|e| Failure::Environment(e.to_string()))?;
        list.push(Listen::Unix(scratch.insert(folder).path().join("nbd.sock")));
    }
    if list.is_empty() && attached::wanted(settings).next().is_none() {
        let message = "no socket; write --socket PATH or --port 10809, or --run COMMAND (no \
                       socket was passed on either)";
        return Err(Failure::Usage(message.into()));
    }
    Ok(list)
}

/// What is there to be served.
struct Opened {
    exports: Vec<Export>,
    devices: Vec<Device>,
    /// The device of each export.
    of: Vec<usize>,
}

/// Opens every device once, and makes the exports.
fn open(args: &Serve, settings: &ServeOptions) -> Result<Opened, Failure> {
    let common = settings.scheduler.as_deref().unwrap_or("none");
    let mut opened: Vec<(String, &str, OneDevice)> = Vec::new();
    let mut exports = Vec::new();
    let mut of = Vec::new();
    for export_spec in &settings.export {
        let usage = |e: String| Failure::Usage(format!("export '{}': {e}", export_spec.name));
        export_spec.check_base(&settings.export).map_err(usage)?;
        let config = export_spec.scheduler.as_deref().unwrap_or(common);
        let key = export_spec.device_key();
        let known = opened.iter().position(|(k, ..)| *k == key);
        let at = known.unwrap_or(opened.len());
        match known.map(|at| &opened[at]) {
            Some((_, other, _)) if *other != config => {
                return Err(usage(format!(
                    "its device runs {other} already; {config} is asked for"
                )));
            }
            Some(_) => {}
            None => opened.push((key, config, open_device(args, settings, export_spec, config)?)),
        }
        let (_, _, OneDevice { device, options, groups }) = &opened[at];
        let group = groups.export(export_spec, options);
        let (offset, size) = export_spec.range().map_err(usage)?;
        exports.push(Export {
            name: export_spec.name.clone(),
            group: group.map_or(Ok(Group::ROOT), |g| set_group(export_spec, &g, device))?,
            prio: priority(export_spec.prio.as_deref())?,
            device: device.clone(),
            offset,
            size,
            read_only: export_spec.read_only,
        });
        of.push(at);
    }
    let devices = opened.into_iter().map(|(.., one)| one.device).collect();
    Ok(Opened { exports, devices, of })
}

/// A device, what it was opened with, and the groups that are asked for on it.
struct OneDevice {
    device: Device,
    options: DeviceOptions,
    groups: Groups,
}

fn open_device(
    args: &Serve,
    settings: &ServeOptions,
    export_spec: &ExportSpec,
    config: &str,
) -> Result<OneDevice, Failure> {
    let usage = |e: String| Failure::Usage(format!("export '{}': {e}", export_spec.name));
    let groups = Groups::of(settings, export_spec).map_err(Failure::Usage)?;
    let mut options = spec::device_options(config).map_err(usage)?;
    if let Some(limit) = &settings.stop_limit {
        options.stop_limit =
            quantity::duration(limit).map_err(|e| Failure::Usage(format!("stop-limit: {e}")))?;
    }
    if let Some(limit) = &settings.stall_limit {
        options.stall_limit =
            quantity::duration(limit).map_err(|e| Failure::Usage(format!("stall-limit: {e}")))?;
    }
    groups.check(&options).map_err(usage)?;
    options.tell = |line| eprintln!("warning: {line}");
    for (controller, group) in groups.complete(&mut options) {
        say(
            args,
            &format!("{controller} is installed on {} for group {group}", export_spec.target),
        );
    }
    for sentence in groups.contradictions(&options) {
        eprintln!("warning: {}: {sentence}", export_spec.target);
    }
    let device =
        Device::open(&settings.target(export_spec).map_err(usage)?, &options).map_err(failure)?;
    if let Some(warning) = &device.facts().warning {
        eprintln!("warning: {warning}");
    }
    Ok(OneDevice { device, options, groups })
}

fn set_group(
    export_spec: &ExportSpec,
    spec: &GroupSpec,
    device: &Device,
) -> Result<Group, Failure> {
    let (group, idle) = device.set_group(spec).map_err(failure)?;
    for sentence in idle {
        eprintln!("warning: export '{}': {sentence}", export_spec.name);
    }
    Ok(group)
}

fn rule(client: &ClientSpec) -> Result<ClientRule, Failure> {
    let name = client.group_name();
    let limits = client.keys().limits();
    let limits = limits.map_err(|e| Failure::Usage(format!("client '{name}': {e}")))?;
    let prio = priority(client.prio.as_deref())?;
    let who = client.who().map_err(Failure::Usage)?;
    Ok(ClientRule { who, group: limits.group(&name), prio })
}

fn priority(text: Option<&str>) -> Result<IoPrio, Failure> {
    text.map_or(Ok(IoPrio::NONE), |t| spec::prio(t).map_err(Failure::Usage))
}

fn announce(args: &Serve, server: &Server, settings: &ServeOptions, devices: &[Device]) {
    for device in devices {
        let scheduler = device.scheduler().unwrap_or("?");
        say(
            args,
            &format!(
                "{} ({} bytes) under {scheduler}",
                device.facts().summary,
                device.facts().size
            ),
        );
    }
    for export in &settings.export {
        if let Some(uri) = server.uri(&export.name) {
            say(args, &format!("export {}: {uri}", export.name));
        }
    }
}

fn unix_socket(server: &Server) -> Option<PathBuf> {
    server.addresses().iter().find_map(|a| match a {
        Listen::Unix(path) => Some(path.clone()),
        Listen::Tcp(_) | Listen::Passed(_) => None,
    })
}

/// Runs a shell command against the server; a signal ends it and the server.
fn run(
    command: &str,
    environment: &[(&str, PathBuf)],
    stopped: &std::sync::mpsc::Receiver<()>,
) -> Result<(), Failure> {
    let mut child = Command::new("sh");
    for name in service::VARIABLES {
        child.env_remove(name);
    }
    let mut child = child
        .args(["-c", command])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .spawn()
        .map_err(|e| Failure::Environment(format!("sh: {e}")))?;
    let status = wait(&mut child, stopped)?;
    match status {
        Some(status) if !status.success() => Err(Failure::Failed(format!("{command}: {status}"))),
        _ => Ok(()),
    }
}

/// `None`: a signal came first.
fn wait(
    child: &mut Child,
    stopped: &std::sync::mpsc::Receiver<()>,
) -> Result<Option<ExitStatus>, Failure> {
    loop {
        let status = child.try_wait().map_err(|e| Failure::Failed(format!("--run: {e}")))?;
        if status.is_some() {
            return Ok(status);
        }
        match stopped.recv_timeout(Duration::from_millis(20)) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
        }
    }
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Os { .. } | ServeError::TooFast { .. } | ServeError::NotADisk(_) => {
            Failure::Environment(error.to_string())
        }
        ServeError::Closed | ServeError::NotFlushed { .. } => Failure::Failed(error.to_string()),
        _ => Failure::Usage(error.to_string()),
    }
}
