//! `hoistway calibrate`: a drive is asked, and a drive file comes out.

#[cfg(all(feature = "live", target_os = "linux"))]
mod device;
mod found;
mod iocost;

use crate::common::known::{Known, drives};
use crate::common::output::{self, print};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway::quantity;
use hoistway_files::Kind;
use hoistway_files::input::{self, Limit};
use hoistway_lab::calibrate::{self, FindOptions, MeasureStep, Raw, SuiteOptions};
use hoistway_lab::report::fit;
use hoistway_lab::words::unquoted;
use hoistway_sim::drive::DriveFile;
use hoistway_sim::probe::{Probe, ProbeError, SimProbe, Subject, Test};
use std::path::{Path, PathBuf};

pub fn calibrate(options: &Calibrate) -> Result<(), Failure> {
    match (&options.drive, &options.target) {
        (Some(drive), _) if options.iocost => iocost::measure_rates(options, drive),
        (Some(drive), _) => of_simulated(options, drive),
        (None, Some(target)) if options.iocost || options.fit => {
            let (task, instead) = match options.iocost {
                true => (
                    "--iocost",
                    "--write measures a device's rates and prints its line of io.cost.model",
                ),
                false => ("--fit", "without it a device's drive file is found"),
            };
            let target = target.display();
            let what =
                format!("{task} is of a simulated drive (--drive), not of {target}; {instead}");
            Err(Failure::Usage(what))
        }
        (None, Some(target)) => of_device(options, target),
        (None, None) => unreachable!("clap asks for one of them"),
    }
}

#[cfg(all(feature = "live", target_os = "linux"))]
use device::of_device;

/// `hoistway calibrate`.
#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("subject").required(true).args(["target", "drive"]))]
pub struct Calibrate {
    /// A block device, read only unless --write; or a folder, in which a scratch file is made and deleted again
    #[arg(value_name = "DEVICE|DIR", conflicts_with = "drive")]
    pub target: Option<PathBuf>,
    /// Instead of a device a simulated drive: name or path. With --iocost or --fit
    #[arg(long, short, value_name = "DRIVE", requires = "task")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Option<String>,
    /// Measure the six rates of io.cost's linear model of --drive
    #[arg(long, group = "task")]
    pub iocost: bool,
    /// Find the drive file of --drive from its answers alone, as that of a device; shows how good the method is
    #[arg(long, group = "task")]
    pub fit: bool,
    /// Where the drive file is written [default: calibrated.toml]. Beside it stand the answers (.answers.json), with
    /// which an interrupted run goes on, and the fit table (.fit.json)
    #[arg(long, short, value_name = "FILE", conflicts_with = "iocost")]
    pub out: Option<PathBuf>,
    /// Also write the fit as a page of charts: the found drive beside the measured one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iocost", "dry_run"])]
    pub report: Option<PathBuf>,
    /// Short tests: 2 to 3 minutes on flash, 6 on a disk
    #[arg(long, conflicts_with = "iocost")]
    pub quick: bool,
    /// Also the tests that write: in a folder into the scratch file; on a device only with --yes-destroy-data
    #[arg(long, conflicts_with = "iocost")]
    pub write: bool,
    /// The device whose data --write may destroy, spelled as DEVICE
    #[arg(long, value_name = "DEVICE", requires = "write")]
    pub yes_destroy_data: Option<PathBuf>,
    /// What the tests may write at most
    #[arg(long, value_name = "BYTES", default_value = "16GiB")]
    pub write_budget: String,
    /// Size of the scratch file in a folder
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    pub size: String,
    /// The drive model, if you know better
    #[arg(long, value_name = "MODEL", value_parser = ["hdd", "flash", "card", "bucket"])]
    pub model: Option<String>,
    /// The transport, if the kernel does not tell (a loop device, a bridge)
    #[arg(long, value_name = "BUS", value_parser = ["sata", "pata", "nvme", "emmc", "sd", "usb", "virtual"])]
    pub bus: Option<String>,
    /// Print the plan and end
    #[arg(long, conflicts_with = "iocost")]
    pub dry_run: bool,
    /// Of --iocost: length of each round of the six tests; the kernel's script has one of 120s
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub duration: String,
    /// Of --iocost: measure the drive as new, one round of each test. Without this flag the whole drive is written
    /// once before the write tests, and each test is repeated until its result is steady, past SLC caches and burst
    /// credits
    #[arg(long)]
    pub new: bool,
    /// Seed of the drive and of the random offsets
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn of_device(_: &Calibrate, target: &Path) -> Result<(), Failure> {
    let shown = target.display();
    Err(Failure::Environment(format!("{shown}: this build knows no devices (feature live, Linux)")))
}

fn usage(flag: &str, e: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{flag}: {e}"))
}

fn wanted(options: &Calibrate, write: bool) -> Result<SuiteOptions, Failure> {
    let write_budget = quantity::bytes(&options.write_budget)
        .map_err(|e| usage(&format!("--write-budget {}", options.write_budget), e))?;
    Ok(SuiteOptions { quick: options.quick, write, write_budget, seed: options.seed })
}

/// The drive that is asked has another seed than those it is compared with: nobody knows a drive's dice.
const OTHER_SEED: u64 = 0x5eed;

fn of_simulated(options: &Calibrate, drive: &str) -> Result<(), Failure> {
    let file = DriveFile::load(drive).map_err(|e| Failure::Usage(e.to_string()))?;
    let probe = SimProbe::new(&file, options.seed.wrapping_add(OTHER_SEED));
    let mut probe = probe.with_places(options.seed);
    let subject = calibrate::subject_of(&file);
    // Nothing is destroyed on a simulated drive.
    let session = Session {
        options,
        wanted: wanted(options, true)?,
        subject,
        exclude: vec![file.id.clone()],
        repetitions: 1,
        notes: vec![format!("a simulated drive: {}", file.id)],
    };
    session.run(&mut probe, options.out.as_deref())
}

/// One calibration.
struct Session<'a> {
    options: &'a Calibrate,
    wanted: SuiteOptions,
    subject: Subject,
    exclude: Vec<String>,
    repetitions: usize,
    notes: Vec<String>,
}

impl Session<'_> {
    /// Without `out` nothing is stored.
    fn run(&self, probe: &mut dyn Probe, out: Option<&Path>) -> Result<(), Failure> {
        if self.options.dry_run {
            return self.plan();
        }
        check_places(self.options, out)?;
        let raw = self.ask(probe, out)?;
        self.answer(&raw, out)
    }

    /// What would be asked.
    fn plan(&self) -> Result<(), Failure> {
        let tests = calibrate::suite(&self.subject, &self.wanted);
        print(&found::plan(&self.subject, &tests, self.repetitions))
    }

    /// Asks the tests that have no answer yet.
    fn ask(&self, probe: &mut dyn Probe, out: Option<&Path>) -> Result<Raw, Failure> {
        let tests = calibrate::suite(&self.subject, &self.wanted);
        let mut raw = self.earlier(out)?;
        raw.notes.clone_from(&self.notes);
        let quiet = self.options.quiet;
        let count = tests.len();
        let left: u64 = tests.iter().map(|t| length(t, self.repetitions)).sum();
        let mut begun = 0;
        let asked = calibrate::measure(probe, &tests, self.repetitions, &mut raw, &mut |step| {
            match step {
                MeasureStep::Begins { number, test } if !quiet => {
                    begun = begun
                        .max(tests[..number].iter().map(|t| length(t, self.repetitions)).sum());
                    let rest = (left - begun) / 1_000_000_000;
                    eprintln!("{}/{count} {}: at most {rest} s left", number + 1, test.name);
                }
                MeasureStep::Begins { .. } => {}
                MeasureStep::Ended { raw } => {
                    if let Some(out) = out {
                        let (path, text) = (answers_file(out), found::raw_text(raw));
                        hoistway_files::write(&path, text.as_bytes(), ANSWERS)
                            .map_err(|e| ProbeError::Failed(e.to_string()))?;
                    }
                }
            }
            Ok(())
        });
        asked.map_err(|e| stopped(e, out))?;
        Ok(raw)
    }

    /// Finds the drive, stores and prints it.
    fn answer(&self, raw: &Raw, out: Option<&Path>) -> Result<(), Failure> {
        if !self.options.quiet {
            eprintln!("looking for the drive that answers so");
        }
        let how = FindOptions {
            id: out.map_or_else(|| "calibrated".into(), stem),
            model: self.options.model.clone(),
            exclude: self.exclude.clone(),
            seed: self.options.seed,
        };
        let found = calibrate::find(raw, &how).map_err(Failure::Failed)?;
        if let Some(out) = out {
            output::write("--out", out, &found.text, Kind::Marked)?;
            output::write("--out", &fit_file(out), &found::json(raw, &found), FIT)?;
        }
        if let Some(page) = &self.options.report {
            let html = fit::render(&raw.subject.title, &found, &raw.notes);
            output::write("--report", page, &html, Kind::Marked)?;
        }
        match self.options.json {
            true => print(&found::json(raw, &found)),
            false => print(&found::text(raw, &found, out)),
        }
    }

    /// The answers of an earlier run of the same device, if there are some.
    fn earlier(&self, out: Option<&Path>) -> Result<Raw, Failure> {
        let fresh = Raw::new(self.subject.clone());
        let Some(path) = out.map(answers_file).filter(|p| p.exists()) else { return Ok(fresh) };
        let bad = |what: String| {
            Failure::Usage(format!("{}: {what}; give another --out or remove it", path.display()))
        };
        let text = input::text(&path, ANSWERS_FILE).map_err(|e| Failure::Usage(e.to_string()))?;
        let raw: Raw = serde_json::from_str(&text).map_err(|e| bad(unquoted(&e.to_string())))?;
        if raw.subject != self.subject || raw.schema != calibrate::SCHEMA {
            return Err(bad("answers of another device or version".into()));
        }
        Ok(raw)
    }
}

/// Answers of an earlier run: some thousand numbers.
const ANSWERS_FILE: Limit = Limit { what: "a file of answers", bytes: 64 << 20 };

fn stopped(e: ProbeError, out: Option<&Path>) -> Failure {
    match (e, out) {
        (ProbeError::Failed(what), _) => Failure::Failed(what),
        (ProbeError::Interrupted, None) => {
            Failure::Interrupted("interrupted; nothing was written".into())
        }
        (ProbeError::Interrupted, Some(out)) => Failure::Interrupted(format!(
            "interrupted; the answers so far are in {}: the same command goes on",
            answers_file(out).display()
        )),
    }
}

/// Longest time of a test, ns.
fn length(test: &Test, repetitions: usize) -> u64 {
    (test.warm_up_ns + test.duration_ns) * calibrate::times(test, repetitions) as u64
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "calibrated".into(), |s| s.to_string_lossy().into_owned())
}

fn answers_file(out: &Path) -> PathBuf {
    out.with_extension("answers.json")
}

fn fit_file(out: &Path) -> PathBuf {
    out.with_extension("fit.json")
}

/// How the fit table begins.
const FIT: Kind = Kind::Begins(&[b"{\n  \"beyond\": "]);

/// How the answers begin.
const ANSWERS: Kind = Kind::Begins(&[b"{\"schema\":1,\"subject\":{\"title\":"]);

/// What is asked before any test: nothing of others stands where the results go.
fn check_places(options: &Calibrate, out: Option<&Path>) -> Result<(), Failure> {
    output::check("--report", options.report.as_deref(), Kind::Marked)?;
    let Some(out) = out else { return Ok(()) };
    output::check("--out", Some(out), Kind::Marked)?;
    output::check("--out", Some(&fit_file(out)), FIT)?;
    output::check("--out", Some(&answers_file(out)), ANSWERS)
}
