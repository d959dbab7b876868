//! What a job asks of clock, event queue and block layer before anything runs: refused, or made.

use super::Job;
use super::events::{MOST, NEVER, horizon};
use super::machine::FLUSHERS;
use super::record::Span;
use hoistway::sched::bfq;
use hoistway::setting::TunableError;
use hoistway::stack::{StackError, StageName};
use hoistway::trace::Trace;
use hoistway::{Device, Input, Instant, Nanos, Output, Profile, Stack};
use hoistway_run::{JobError, TraceMode};

/// Numbers for everybody in the event queue: each group may have a flusher; the drive, the journal and the
/// root's flusher have numbers too.
pub(super) fn check_room(procs: usize, groups: usize) -> Result<(), JobError> {
    let room = MOST - (FLUSHERS + 1);
    if procs + groups <= room {
        return Ok(());
    }
    let message = format!(
        "{procs} processes and {groups} groups: more than {room} together; choose fewer of either"
    );
    let of = if groups > procs { "groups" } else { "procs" };
    Err(JobError::Parameter { of: of.into(), message })
}

/// What the clock and the event queue can hold.
pub(super) fn check_limits(job: &Job<'_>) -> Result<(), JobError> {
    let wrong = |of: &str, message: String| Err(JobError::Parameter { of: of.into(), message });
    let (procs, groups) = (job.procs.len(), job.groups.len());
    check_room(procs, groups)?;
    let w = &job.window;
    let latest = job.procs.iter().map(|p| p.start.0).max().unwrap_or(0);
    let end = [w.ramp.0, w.measured.0, w.grace.0].iter().try_fold(latest, |t, &d| t.checked_add(d));
    let limit = horizon(procs + groups + FLUSHERS + 1);
    if end.is_none_or(|end| end >= limit.as_nanos()) {
        let minutes = limit.as_nanos() / Nanos::secs(60).0;
        let most = if limit == NEVER {
            "78 hours".into()
        } else {
            format!("{minutes} minutes, the most for {procs} processes and {groups} groups")
        };
        let message =
            format!("start, ramp, measured time and grace come to more than {most}; choose less");
        return wrong("window", message);
    }
    Ok(())
}

pub(super) fn span_of(job: &Job<'_>) -> Span {
    let begin = job.measuring_begins();
    Span { begin, end: begin + job.window.measured.max(Nanos(1)) }
}

pub(super) fn stack_of(job: &Job<'_>, mut device: Device) -> Result<Stack, JobError> {
    let spec = &job.scheduler;
    let entry = spec.entry;
    device.profile = job.host.block_profile();
    device.run_at_completion = job.host.run_at_completion();
    device.delayed_rerun = job.host.delayed_rerun();
    device.plug_keeps_rerun = job.host.plug_keeps_rerun();
    device.flush_kick_delay = job.host.flush_kick();
    device.nr_requests = 0;
    // Linux gives a device no more queues than there are processors (blk-mq-and-noop.md 6).
    device.hw_queues = device.hw_queues.min(job.host.hw_queues_max());
    if device.profile == Profile::Legacy {
        if entry.direct {
            return Err(JobError::Parameter {
                of: entry.name.to_string(),
                message: "exists in the multi-queue block layer only; choose noop, or a host \
                          profile from 2018 on"
                    .into(),
            });
        }
        device.hw_queues = 1;
    }
    device.max_sectors.0 = device.max_sectors.0.min(job.host.max_request_sectors());
    let mut stack = Stack::new(device, entry, 4096 + 64 * job.procs.len());
    *stack.trace_mut() = match job.trace {
        TraceMode::Off => Trace::off(),
        TraceMode::Digest => Trace::digest_only(),
        TraceMode::Keep(n) => Trace::keep(n),
    };
    // The host's BFQ, unless the configuration says which. Before its other settings, some of which it changes.
    let base = ("base".to_string(), job.host.bfq_base().1);
    let of_host = core::ptr::eq(spec.entry, &bfq::ENTRY) && !spec.set.iter().any(|s| s.0 == base.0);
    let settings = (spec.queue.iter().map(|s| (StageName::Queue, s)))
        .chain(of_host.then_some((StageName::Scheduler, &base)))
        .chain(spec.set.iter().map(|s| (StageName::Scheduler, s)));
    let most_kib = stack.env().device.max_sectors.0 / 2;
    for (stage, (name, value)) in settings {
        if stage == StageName::Queue && name == "max_sectors_kb" && *value > most_kib {
            // The tunable is a soft limit below the device's own (blk-mq-and-noop.md 2).
            let (name, min) = ("max_sectors_kb", 4);
            let error = TunableError::OutOfRange { name, got: *value, min, max: most_kib };
            return Err(JobError::Tunable(error));
        }
        let input = Input::Set { stage, name: name.clone(), value: *value };
        set_up(&mut stack, input, entry.name)?;
    }
    Ok(stack)
}

/// One setting before anything runs; `of`: whose it is, for the message.
pub(super) fn set_up(stack: &mut Stack, input: Input, of: &str) -> Result<(), JobError> {
    stack.handle(Instant::ZERO, input).map_err(|error| match error {
        StackError::Tunable(error) => JobError::Tunable(error),
        other => JobError::Parameter { of: of.into(), message: other.to_string() },
    })?;
    while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
    Ok(())
}
