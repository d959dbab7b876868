//! A replay as people ask for it: words become a plan, a grid, and the command that repeats it.

use super::{
    Loop, OffsetMapping, Probe, ReplayError, ReplayPlan, ReplayWorld, Split, experiment, is_saved,
    members, probe, saved_from, wrong,
};
use crate::grid::{Plan, parts};
use crate::registry::Registry;
use crate::run::Grid;
use crate::words::shell_word;
use hoistway::quantity;
use hoistway::setting::nearest;
use hoistway_trace::FORMATS;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Configurations, if none are named.
const CONFIGS: &[&str] = &["none", "mq-deadline", "bfq"];
/// Drive, if none is named and the trace is not of a run of ours.
const DRIVE: &str = "samsung-970-pro";
/// Steps that may wait before an open loop is given up, where nothing is said.
pub const BACKLOG: u32 = 1_000_000;

/// What is asked for. What nothing is said of follows from the trace.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// The trace: a file, `-`, or the common name of blktrace's files.
    pub trace: PathBuf,
    /// Configurations.
    pub configs: Vec<String>,
    /// Drives: names, or paths of drive files.
    pub drives: Vec<String>,
    /// Submit at the recorded times, even if there are none.
    pub open: bool,
    /// Submit after what an I/O had waited for.
    pub closed: bool,
    /// In closed loop: most I/Os of a process under way.
    pub depth: Option<u32>,
    /// So many times as fast as recorded.
    pub speed: f64,
    /// What becomes a process.
    pub split: Split,
    /// The process that is judged.
    pub target: Option<String>,
    /// Only these devices of the trace.
    pub devices: Vec<String>,
    /// Only from this time of the trace on, with its unit.
    pub from: Option<String>,
    /// Only up to this time of the trace.
    pub to: Option<String>,
    /// Only the first records.
    pub limit: Option<u64>,
    /// Scale offsets from a device of this size.
    pub scale: Option<String>,
    /// Count writes as synchronous that the trace does not mark.
    pub sync_writes: bool,
    /// Format of the trace.
    pub format: Option<String>,
    /// Stop at the first malformed record.
    pub strict: bool,
    /// Steps that may wait in open loop.
    pub backlog: u32,
    /// A directory of cgroups.
    pub groups: Option<PathBuf>,
    /// Repetitions.
    pub reps: u32,
    /// First seed.
    pub seed: Option<u64>,
    /// What names stand for.
    pub registry: Registry,
}

impl ReplayRequest {
    /// The trace under the usual configurations on the usual drive, once.
    pub fn of(trace: PathBuf) -> ReplayRequest {
        ReplayRequest {
            trace,
            configs: Vec::new(),
            drives: Vec::new(),
            open: false,
            closed: false,
            depth: None,
            speed: 1.0,
            split: Split::Process,
            target: None,
            devices: Vec::new(),
            from: None,
            to: None,
            limit: None,
            scale: None,
            sync_writes: false,
            format: None,
            strict: false,
            backlog: BACKLOG,
            groups: None,
            reps: 1,
            seed: None,
            registry: Registry::default(),
        }
    }

    /// The grid, with the command that repeats it, and the world that runs it. `note` hears what was assumed, `warn` what
    /// has no effect.
    ///
    /// # Errors
    ///
    /// A trace that is not there or cannot be read, a value out of its range, a name that is not known.
    pub fn grid(
        &self,
        note: &mut dyn FnMut(&str),
        warn: &mut dyn FnMut(&str),
    ) -> Result<(Grid, ReplayWorld), ReplayError> {
        let mut plan = self.plan()?;
        let name = plan.path.display().to_string();
        if plan.path != Path::new("-") && !plan.path.exists() && !has_files(&plan.path) {
            return Err(ReplayError(format!("{name}: there is no such file")));
        }
        let origin = if plan.exact { saved_from(&plan.path) } else { None };
        let (mut drives, mut seed) = (parts(&self.drives), self.seed.unwrap_or(1));
        let mut configs = parts(&self.configs);
        let mut defaults = CONFIGS.iter().map(ToString::to_string).collect::<Vec<String>>();
        if let Some([drive, of_run, config]) = &origin {
            if drives.is_empty() {
                drives = vec![drive.clone()];
            }
            if self.seed.is_none() {
                seed = of_run.parse().unwrap_or(1);
            }
            defaults = vec![config.clone()];
            note(&format!(
                "the trace is of hoistway's own run of {config} on {drive} with seed {of_run}; every step of it is \
                 replayed, and under the same settings the drive does the same to the nanosecond"
            ));
        }
        if drives.is_empty() {
            drives = vec![DRIVE.into()];
        }
        if configs.is_empty() {
            configs = defaults;
        }
        let once = is_read_once(&plan.path)?;
        let runs = configs.len() * drives.len() * self.reps as usize;
        let groups = configs.iter().any(|c| self.registry.config(c).is_ok_and(|c| c.groups));
        let ahead = plan.target.is_some() || groups;
        if once && (runs > 1 || ahead) {
            return Err(only_once(&plan.path, runs));
        }
        if !plan.exact {
            self.pace(&mut plan, once, note)?;
        }
        let members = match ahead && !plan.exact {
            true => members(&plan)?,
            false => Vec::new(),
        };
        let of_trace = experiment(&plan, &members)?;
        let of_grid =
            Plan::of(of_trace).named("replay", &shell_word(&name)).configs(configs).drives(drives);
        let of_grid = of_grid.reps(self.reps).seed(seed).groups(self.groups.clone());
        let of_grid = of_grid.registry(&self.registry);
        let mut grid = of_grid.grid(warn).map_err(wrong)?;
        grid.command = self.command(&grid.command);
        Ok((grid, ReplayWorld(plan)))
    }

    /// Decides when I/Os are submitted, where the trace does not say it: without times in closed loop, and without times or
    /// ends one after another.
    fn pace(
        &self,
        plan: &mut ReplayPlan,
        once: bool,
        note: &mut dyn FnMut(&str),
    ) -> Result<(), ReplayError> {
        if once {
            // Nothing is known before; what turns out to have no times gets no verdict.
            if plan.by == Loop::Closed && plan.depth.is_none() {
                plan.depth = Some(1);
                note(&format!("whether the trace says when I/Os ended is not known before; {ONE}"));
            }
            return Ok(());
        }
        let Probe { ends, timed } = probe(plan)?;
        if !timed && plan.by == Loop::Open && !self.open {
            plan.by = Loop::Closed;
            note(
                "the trace has no times, so it is replayed in closed loop (--closed): a process submits an I/O when its \
                 last one has ended; throughput and order mean something, rate and bursts do not",
            );
        }
        if plan.by == Loop::Closed && plan.depth.is_none() && !(ends && timed) {
            plan.depth = Some(1);
            let what = if ends { "when I/Os were submitted" } else { "when I/Os ended" };
            note(&format!("the trace does not say {what}; {ONE}"));
        }
        Ok(())
    }

    /// The flags as a plan.
    fn plan(&self) -> Result<ReplayPlan, ReplayError> {
        let usage = |flag: &str, e: &dyn std::fmt::Display| ReplayError(format!("{flag}: {e}"));
        let time = |flag: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => quantity::duration(text).map(|d| Some(d.0)).map_err(|e| usage(flag, &e)),
        };
        let format = match &self.format {
            None => None,
            Some(name) => {
                Some(FORMATS.iter().copied().find(|f| f.name == *name).ok_or_else(|| {
                    let known = FORMATS.iter().map(|f| f.name);
                    let hint = match nearest(name, known.clone()) {
                        Some(near) => format!("did you mean '{near}'?"),
                        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
                    };
                    ReplayError(format!("--format {name}: no such format; {hint}"))
                })?)
            }
        };
        if !(self.speed.is_finite() && (1e-3..=1e6).contains(&self.speed)) {
            let what = format!("--speed {}: choose a number from 0.001 to 1000000", self.speed);
            return Err(ReplayError(what));
        }
        let place = match &self.scale {
            None => OffsetMapping::Wrap,
            Some(text) => match quantity::bytes(text).map_err(|e| usage("--scale", &e))? {
                0 => return Err(ReplayError("--scale: the size of a device is above 0".into())),
                bytes => OffsetMapping::Scale(bytes),
            },
        };
        let by = if self.closed { Loop::Closed } else { Loop::Open };
        let reader = hoistway_trace::Options {
            format,
            strict: self.strict,
            devices: parts(&self.devices),
            from: time("--from", &self.from)?.unwrap_or(0),
            to: time("--to", &self.to)?,
            limit: self.limit,
            ..hoistway_trace::Options::default()
        };
        let whole = !is_read_once(&self.trace)?
            && reader.devices.is_empty()
            && reader.from == 0
            && reader.to.is_none();
        let plain = whole && reader.limit.is_none() && by == Loop::Open && self.speed == 1.0;
        let usual =
            format.is_none() && place == OffsetMapping::Wrap && !self.sync_writes && !self.open;
        let exact = plain
            && usual
            && self.split == Split::Process
            && self.target.is_none()
            && is_saved(&self.trace);
        Ok(ReplayPlan {
            path: self.trace.clone(),
            reader,
            by,
            depth: self.depth,
            speed: self.speed,
            split: self.split,
            target: self.target.as_ref().map(|t| t.replace('/', ":")),
            place,
            backlog: self.backlog as usize,
            sync_writes: self.sync_writes,
            exact,
        })
    }

    /// The command that repeats the replay: the grid's, without what a replay does not have, and with its own flags.
    fn command(&self, of_grid: &str) -> String {
        let mut text = of_grid.replace(" --workload trace", "");
        let mut flag = |name: &str, value: &str| {
            let _ = write!(text, " {name} {}", shell_word(value));
        };
        if let Some(name) = &self.format {
            flag("--format", name);
        }
        if self.speed != 1.0 {
            flag("--speed", &self.speed.to_string());
        }
        if self.split != Split::Process {
            flag("--split-by", &format!("{:?}", self.split).to_lowercase());
        }
        let texts = [
            ("--target", &self.target),
            ("--from", &self.from),
            ("--to", &self.to),
            ("--scale", &self.scale),
        ];
        for (name, value) in texts {
            value.iter().for_each(|v| flag(name, v));
        }
        self.limit.iter().for_each(|n| flag("--limit", &n.to_string()));
        self.depth.iter().for_each(|n| flag("--depth", &n.to_string()));
        self.devices.iter().for_each(|d| flag("--device", d));
        if self.backlog != BACKLOG {
            flag("--backlog", &self.backlog.to_string());
        }
        let switches = [
            ("--closed", self.closed),
            ("--open", self.open),
            ("--strict", self.strict),
            ("--sync-writes", self.sync_writes),
        ];
        for (name, _) in switches.iter().filter(|s| s.1) {
            let _ = write!(text, " {name}");
        }
        text
    }
}

/// A trace that can be read once is asked for more than once.
fn only_once(path: &Path, runs: usize) -> ReplayError {
    let why = match runs {
        0 | 1 => "groups and --target need the processes before".to_string(),
        _ => format!("there are {runs} runs"),
    };
    let name = match path == Path::new("-") {
        true => "standard input".to_string(),
        false => path.display().to_string(),
    };
    ReplayError(format!("{name} can be read only once, and {why}; give the trace as a file"))
}

/// Whether a trace can be read a single time: standard input, or a pipe that was handed over.
fn is_read_once(path: &Path) -> Result<bool, ReplayError> {
    // The files of a blktrace may lie there under a common name that is none of them.
    let named = path == Path::new("-") || path.exists();
    Ok(named && hoistway_trace::comes_once(path).map_err(wrong)?)
}

const ONE: &str = "at most one of a process is under way (--closed --depth N sets another number)";

/// The per-CPU files of `blktrace -o NAME`.
fn has_files(path: &Path) -> bool {
    let mut first = path.as_os_str().to_owned();
    first.push(".blktrace.0");
    Path::new(&first).exists()
}
