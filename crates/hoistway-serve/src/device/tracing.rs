//! Listening to what a device does and why, while it serves: the trace of its stack, taken out
//! piece by piece. While nobody listens it costs nothing.

use super::Device;
use super::core::Core;
use super::report::group_name;
use crate::error::ServeError;
use hoistway::sched::Entry;
use hoistway::sched::QueueUse;
use hoistway::trace::{Record, Trace};
use hoistway::{Instant, ProcId};

/// Records kept between two looks (56 bytes each).
const RECORDS: usize = 1 << 16;

/// Listens to a device until it is dropped.
#[derive(Debug)]
pub struct TraceReader {
    device: Device,
    begin: Instant,
    queues: Vec<QueueUse>,
    dropped: u64,
}

/// What happened since the last look.
#[derive(Clone, Debug)]
pub struct TraceBatch {
    /// The steps, in their order.
    pub records: Vec<Record>,
    /// Steps after these that did not fit: more than 65,536 happened since the last look.
    pub dropped: u64,
    /// Who is there now.
    pub clients: Vec<TraceClient>,
    /// The scheduler in force now; queues are its own.
    pub scheduler: &'static Entry,
}

/// A client as the trace knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceClient {
    /// Its process; another client may get it when this one has left.
    pub proc: ProcId,
    /// The connection; `None`: a client of this process.
    pub connection: Option<u64>,
    /// Name of its group.
    pub group: String,
}

impl Device {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// When somebody listens already.
    pub fn subscribe(&self) -> Result<TraceReader, ServeError> {
        let (begin, queues) = self.control(subscribe)??;
        Ok(TraceReader { device: self.clone(), begin, queues, dropped: 0 })
    }
}

impl TraceReader {
    /// When it began to listen, on the clock of the records.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// Which queue each process used then.
    pub fn queues(&self) -> &[QueueUse] {
        &self.queues
    }

    /// Takes what happened since the last look.
    pub fn take(&mut self) -> Result<TraceBatch, ServeError> {
        let mut heard = self.device.control(take_batch)?;
        let before = std::mem::replace(&mut self.dropped, heard.dropped);
        heard.dropped -= before;
        Ok(heard)
    }
}

impl Drop for TraceReader {
    fn drop(&mut self) {
        // It can only fail because the device is closed.
        let _ = self.device.control(|core| *core.stack.trace_mut() = Trace::off());
    }
}

pub(super) fn subscribe(core: &mut Core) -> Result<(Instant, Vec<QueueUse>), ServeError> {
    if core.stack.env().trace.is_on() {
        let message = "somebody listens to this device already; wait until that is over";
        return Err(ServeError::Refused(message.into()));
    }
    *core.stack.trace_mut() = Trace::keep(RECORDS);
    let mut queues = Vec::new();
    core.stack.scheduler().queues(&mut |q| queues.push(q));
    Ok((core.now(), queues))
}

/// All steps that were dropped since listening began.
pub(super) fn take_batch(core: &mut Core) -> TraceBatch {
    let trace = core.stack.trace_mut();
    let (records, dropped) = (trace.take(), trace.dropped());
    let who = |t: &super::tenants::Tenant| TraceClient {
        proc: t.proc,
        connection: t.info.as_ref().map(|l| l.connection),
        group: group_name(core, t.group),
    };
    let scheduler = core.stack.scheduler_entry();
    TraceBatch { records, dropped, clients: core.tenants.iter().map(who).collect(), scheduler }
}
