//! The scheduler whose decisions are compared, and what a recording needs to know of it.

use hoistway::device::Device;
use hoistway::sched::bfq::probe::{Expiry, Probe};
use hoistway::sched::{self, Entry, SCHEDULERS, Scheduler, Search, Setup, module_name};
use hoistway::unit::Instant;

/// How the kernel's scheduler reads time: ours is given the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Nanoseconds, and some instants in ticks, which the scheduler itself keeps apart (BFQ).
    Both,
    /// Ticks alone: every call in a tick is at the same instant (mq-deadline).
    Ticks,
    /// Nanoseconds alone (kyber, but for its timer).
    Exact,
}

/// A scheduler of ours.
#[derive(Debug)]
pub enum Subject {
    /// With its slots laid open.
    Bfq(Box<Probe>, Time),
    /// Another one.
    Other(Box<dyn Scheduler>, Time, &'static Entry),
}

impl Subject {
    /// A fresh one; `created` is the instant of creation as its tick counter has it, `exact` as the clock has it.
    pub fn new(
        name: &str,
        device: &Device,
        requests: usize,
        created: Instant,
        exact: Instant,
    ) -> Result<Subject, String> {
        let setup = Setup { device, requests, now: Instant::ZERO };
        // Ours in the kernel read no ticks, and are told when they were made.
        let (entry, time, now) = match name {
            "bfq" => return Ok(Subject::Bfq(Box::new(Probe::new(&setup, created)), Time::Both)),
            "h-bfq" => return Ok(Subject::Bfq(Box::new(Probe::new(&setup, exact)), Time::Exact)),
            "mq-deadline" => (sched::find(name), Time::Ticks, Instant::ZERO),
            "kyber" => (sched::find(name), Time::Exact, Instant::ZERO),
            _ => (sched::of_module(name), Time::Exact, exact),
        };
        let entry = entry.ok_or_else(|| {
            let ours = SCHEDULERS.iter().filter_map(|e| module_name(e)).collect::<Vec<_>>();
            format!(
                "no decisions of '{name}' can be compared; there are bfq, mq-deadline, kyber, and of hoistway's module {}",
                ours.join(", ")
            )
        })?;
        Ok(Subject::Other((entry.build)(&Setup { now, ..setup }), time, entry))
    }

    /// The scheduler.
    pub fn scheduler(&mut self) -> &mut dyn Scheduler {
        match self {
            Subject::Bfq(probe, _) => probe.scheduler(),
            Subject::Other(scheduler, ..) => scheduler.as_mut(),
        }
    }

    /// How it is given the time.
    pub fn time(&self) -> Time {
        match self {
            Subject::Bfq(_, time) => *time,
            Subject::Other(_, time, _) => *time,
        }
    }

    /// Who searches for merges.
    pub fn search(&self) -> Search {
        match self {
            Subject::Bfq(..) => Search::Elevator,
            Subject::Other(_, _, entry) => entry.search,
        }
    }

    /// Whether its groups have weights.
    pub fn weighs_groups(&self) -> bool {
        match self {
            Subject::Bfq(..) => true,
            Subject::Other(_, _, entry) => entry.weighs_groups(),
        }
    }

    /// The tick of the calls from here on.
    pub fn set_tick(&mut self, tick: Instant) {
        if let Subject::Bfq(probe, Time::Both) = self {
            probe.set_tick(tick);
        }
    }

    /// The slots that have ended since they were forgotten.
    pub fn expiries(&self) -> &[Expiry] {
        match self {
            Subject::Bfq(probe, _) => probe.expiries(),
            Subject::Other(..) => &[],
        }
    }

    /// Starts a new list of slots that ended.
    pub fn forget_expiries(&mut self) {
        if let Subject::Bfq(probe, _) = self {
            probe.forget_expiries();
        }
    }

    /// Its state, a line for each part.
    pub fn describe(&self) -> String {
        match self {
            Subject::Bfq(probe, _) => probe.describe(),
            Subject::Other(scheduler, ..) => {
                let mut text = String::new();
                scheduler.figures(&mut |f| {
                    let of = f.of.map_or(String::new(), |of| format!("[{of}]"));
                    text += &format!("{}{of} = {}\n", f.name, f.value);
                });
                text
            }
        }
    }
}
