//! Which drive model, and which shipped drive is most alike (specs/drives.md 10.3).

use super::Finding;
use super::candidate::Candidate;
use super::fit::Fit;
use hoistway_sim::drive::DriveFile;

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Drive model.
    pub model: &'static str,
    /// Because of what.
    pub why: String,
    /// The shipped drive that answers most alike.
    pub class: String,
}

/// IOPS that grow less than by this factor from depth 1 to the deepest: one command at a time.
const SERIAL: f64 = 1.2;
/// A volume's latency at depth 1 grows less than by this factor from 4 to 64 KiB.
const FLAT_SIZE: f64 = 1.05;
/// Its plateau at depth: IOPS of 4 and 8 KiB, and of the two largest depths, agree to this part.
const FLAT_DEPTH: f64 = 0.02;

pub(super) fn choose(fit: &Fit<'_>, how: &Finding) -> Result<Choice, String> {
    let (model, why) = match &how.model {
        Some(told) => {
            let known = ["hdd", "flash", "card", "bucket"].into_iter().find(|m| m == told);
            let model = known.ok_or_else(|| format!("no drive model '{told}'"))?;
            (model, format!("{model}, as told"))
        }
        None => model(fit),
    };
    let class = nearest(fit, model, &how.exclude)
        .ok_or_else(|| format!("no shipped drive of the model {model} is left to start from"))?;
    Ok(Choice { model, why, class })
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

/// The shipped drive of a model that answers most alike, by the tests of reads; the same bus is preferred.
pub fn nearest(fit: &Fit<'_>, model: &str, exclude: &[String]) -> Option<String> {
    let tests = fit.tests(&["F1", "F2", "F3", "F4", "H1/0", "H3", "H6"]);
    let mut best: Option<(f64, String)> = None;
    for id in DriveFile::ids() {
        let file = DriveFile::load(id).ok()?;
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
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, id.to_string()));
        }
    }
    best.map(|(_, id)| id)
}

/// Mean squared logarithm that the same bus is worth: a factor of two in every figure.
const OTHER_BUS: f64 = 0.48;
