//! The first runs of an answer, and the bounds that follow from them before any means of control is tried.

use super::{OTHERS, Point, Wanted, Way, WhatIfQuestion, time_text};
use crate::bounds::{LatencyBound, LatencyBounds, LatencyDemand, Measures, VISIT, others_loss};
use crate::run::RunError;
use hoistway::Nanos;
use hoistway::target::{millis, percent};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mean latency that a target without a number is judged by, in lone ones.
const FACTOR: f64 = 4.0;
/// The drive must move what the target asks for, but for so much of it: else some of it comes from memory or is
/// read ahead.
const APART: f64 = 0.1;

/// The runs without any control.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Each target alone on the drive.
    pub alone: Vec<Point>,
    /// The load without control.
    pub none: Point,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBound {
    /// The target had no I/O alone.
    NoIo,
    /// The drive moved nothing under the load.
    NoRate,
    /// The drive moves another number of bytes than the target asks for.
    Cached,
}

impl NoBound {
    fn words(self) -> &'static str {
        match self {
            NoBound::NoIo => "it had no I/O alone",
            NoBound::NoRate => "the drive moved nothing under the load",
            NoBound::Cached => {
                "alone it does not move what it asks for, as some comes from memory or is read ahead"
            }
        }
    }
}

/// The bounds for a target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetBounds {
    /// The target.
    pub wanted: Wanted,
    /// The bounds, or why there are none.
    pub bounds: Result<LatencyBounds, NoBound>,
}

impl WhatIfQuestion {
    /// Runs the targets alone and the load without control.
    ///
    /// # Errors
    ///
    /// A run that cannot be made, or that it was stopped.
    pub fn basis(
        &self,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Basis, RunError> {
        let mut ways: Vec<Way> = (0..self.wanted.len()).map(Way::Alone).collect();
        ways.push(Way::Other(OTHERS[0]));
        // Behind these come the other means and the scheduler.
        let total = self.wanted.len() + OTHERS.len() + 1;
        progress(0, total);
        let done = AtomicUsize::new(0);
        let over = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        let mut alone = self.points(&ways, threads, stop, &over)?;
        let none = alone.pop().expect("the last way is no control");
        Ok(Basis { alone, none })
    }

    /// What no scheduler can do, by target.
    pub fn bounds(&self, basis: &Basis) -> Vec<TargetBounds> {
        let rotates = self.drive.identity.rotational;
        let of = |(n, wanted): (usize, &Wanted)| {
            let bounds = measures(n, basis).map(|of| {
                let target = wanted.target.map(|t| t.0 as f64 / 1e9 / of.lone);
                let demand =
                    LatencyDemand { loss: others_loss(), factor: target.unwrap_or(FACTOR) };
                LatencyBounds::new(of, demand, rotates)
            });
            TargetBounds { wanted: wanted.clone(), bounds }
        };
        self.wanted.iter().enumerate().map(of).collect()
    }
}

fn measures(n: usize, basis: &Basis) -> Result<Measures, NoBound> {
    let alone = &basis.alone[n];
    let own = alone.targets[n].as_ref().filter(|m| m.ios > 0 && m.bytes > 0 && m.mean.0 > 0);
    let own = own.ok_or(NoBound::NoIo)?;
    if basis.none.total <= 0.0 {
        return Err(NoBound::NoRate);
    }
    if (alone.total - own.mb_s).abs() > APART * own.mb_s {
        return Err(NoBound::Cached);
    }
    let block = own.bytes as f64 / own.ios as f64;
    Ok(Measures {
        rate: basis.none.total * 1e6,
        lone: own.mean.0 as f64 / 1e9,
        block,
        ios: own.mb_s * 1e6 / block,
    })
}

impl TargetBounds {
    /// In words.
    pub fn words(&self) -> String {
        let bounds = match &self.bounds {
            Ok(bounds) => bounds,
            Err(why) => return format!("no bound is known: {}", why.words()),
        };
        let of = &bounds.of;
        let mut out = format!(
            "R = {:.1} MB/s, L0 = {}, b = {:.1} KiB, R L0 = {:.1} blocks; ",
            of.rate / 1e6,
            millis(nanos(of.lone)),
            of.block / 1024.0,
            of.blocks()
        );
        if bounds.demand.factor < 1.0 {
            return out + &format!("{} is less than L0", self.demanded());
        }
        out += &self.sentence("B1", bounds, bounds.b1);
        if let Some(b2) = bounds.b2 {
            out += &format!("; beside streams, if a visit costs {VISIT} L0 (assumed), ");
            out += &self.sentence("B2", bounds, b2);
        }
        out
    }

    /// `1ms`, or `4x`.
    fn demanded(&self) -> String {
        self.wanted.target.map_or_else(|| format!("{FACTOR}x"), time_text)
    }

    fn sentence(&self, name: &str, bounds: &LatencyBounds, bound: LatencyBound) -> String {
        let loss = percent((bounds.demand.loss * 1000.0).round() as u32);
        let verdict = if bound.allows { "do not exclude" } else { "exclude" };
        let least = millis(nanos(bound.factor * bounds.of.lone));
        let times = bound.factor;
        let demanded = self.demanded();
        format!(
            "{loss} and {demanded} {verdict} each other ({name}: mean at least {least}, {times:.1}x)"
        )
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let name = &self.wanted.name;
        let bounds = match &self.bounds {
            Ok(bounds) => bounds,
            Err(why) => return json!({ "name": name, "unknown": why.words() }),
        };
        let (of, demand) = (&bounds.of, &bounds.demand);
        let bound = |b: LatencyBound| {
            json!({
                "least_mean_ns": nanos(b.factor * of.lone).0,
                "least_factor": b.factor,
                "allows": b.allows,
            })
        };
        json!({
            "name": name,
            "rate_bytes_per_s": of.rate,
            "lone_ns": nanos(of.lone).0,
            "block_bytes": of.block,
            "rate_lone_blocks": of.blocks(),
            "others_loss_permille": (demand.loss * 1000.0).round() as u64,
            "factor": demand.factor,
            "least_loss_permille": of.least_loss(demand.factor.max(1.0)) * 1000.0,
            "b1": bound(bounds.b1),
            "b2": bounds.b2.map(bound),
            "b2_visit_lone": bounds.b2.map(|_| VISIT),
        })
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
