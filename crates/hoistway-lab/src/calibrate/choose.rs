//! Which drive model, and which shipped drive is most alike (specs/drives.md 10.3).

use super::FindOptions;
use super::candidate::Candidate;
use super::fit::Fit;
use hoistway_sim::drive::DriveFile;

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenModel {
    /// Drive model.
    pub model: &'static str,
    /// Because of what.
    pub why: String,
    /// The shipped drive that the values come from which no test tells.
    pub class: String,
}

/// IOPS that grow less than by this factor from depth 1 to the deepest: one command at a time.
const SERIAL: f64 = 1.2;
/// A volume's latency at depth 1 grows less than by this factor from 4 to 64 KiB.
const FLAT_SIZE: f64 = 1.05;
/// Its plateau at depth: IOPS of 4 and 8 KiB, and of the two largest depths, agree to this part.
const FLAT_DEPTH: f64 = 0.02;

/// The model and why, and the shipped drives to begin with, the most alike first.
pub(super) fn choose(
    fit: &Fit<'_>,
    how: &FindOptions,
) -> Result<(&'static str, String, Vec<String>), String> {
    let (model, why) = match &how.model {
        Some(told) => {
            let known = ["hdd", "flash", "card", "bucket"].into_iter().find(|m| m == told);
            let model = known.ok_or_else(|| format!("no drive model '{told}'"))?;
            (model, format!("{model}, as told"))
        }
        None => model(fit),
    };
    let classes = nearest(fit, model, &how.exclude);
    match classes.is_empty() {
        true => Err(format!("no shipped drive of the model {model} is left to start from")),
        false => Ok((model, why, classes)),
    }
}

fn model(fit: &Fit<'_>) -> (&'static str, String) {
    if fit.raw.subject.rotational {
        return ("hdd", "hdd, because it rotates".into());
    }
    let depths = fit.tests(&["F1", "F2"]);
    let iops: Vec<f64> = depths.iter().map(|(_, o)| o.iops(0)).collect();
    let most = iops.iter().copied().fold(0.0, f64::max);
    if let Some(first) = iops.first()
        && most < SERIAL * first
    {
        let why = format!(
            "card, because more commands at once are no faster ({most:.0} against {first:.0} per second)"
        );
        return ("card", why);
    }
    let latency = |name| fit.answer(name).map(|o| o.first().commands.mean_ns);
    let sizes = latency("F1").zip(latency("F3/64k")).map(|(small, large)| large / small);
    let low_depth = depths.iter().find(|(t, _)| t.name == "F2/depth 4").map(|(_, o)| o.iops(0));
    let scales = low_depth.zip(iops.first()).is_some_and(|(four, one)| {
        // No collisions: four at once are four times as fast, unless a limit holds.
        four > (4.0 * one).min(most) * (1.0 - FLAT_DEPTH)
    });
    if sizes.is_some_and(|s| s < FLAT_SIZE) && scales {
        let why = "bucket, because the latency does not depend on the size and commands do not get in each other's way";
        return ("bucket", why.into());
    }
    (
        "flash",
        "flash, because it neither rotates nor serves one command at a time nor is metered".into(),
    )
}

/// The shipped drives of a model by how alike they answer the tests of reads; the same bus is preferred.
fn nearest(fit: &Fit<'_>, model: &str, exclude: &[String]) -> Vec<String> {
    let tests = fit.tests(&["F1", "F2", "F3", "F4", "H1/0", "H3", "H6"]);
    let mut known: Vec<(f64, String)> = Vec::new();
    for id in DriveFile::ids() {
        let file = DriveFile::load(id).expect("a shipped drive");
        // A variant of another file is no class of its own.
        let text = DriveFile::embedded(id).unwrap_or_default();
        let derived = text.lines().any(|line| line.starts_with("base"));
        if file.model != model || derived || exclude.iter().any(|e| e == id) {
            continue;
        }
        // The class with the size of this drive, so that the same places can be asked.
        let as_this = Candidate::new(id, &fit.raw.subject, &file);
        let other_bus = f64::from(u8::from(file.host.bus != fit.raw.subject.bus));
        let error = fit.error_of(&as_this, &tests) + OTHER_BUS * other_bus;
        known.push((error, id.to_string()));
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    known.into_iter().map(|(_, id)| id).collect()
}

/// Mean squared logarithm that the same bus is worth: a factor of two in every figure.
const OTHER_BUS: f64 = 0.48;
