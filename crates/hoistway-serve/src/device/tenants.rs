//! Submitters: who may go on, who waits for what, and what each has waiting behind it.
//!
//! A *tenant* is a process of the stack with its group and priority. As in the kernel, one whose I/O has to
//! wait for a tag or a controller is stopped; what it submits meanwhile waits in its own backlog, not
//! in the shared queue of the tag.

use super::core::{TenantId, TenantRequest};
use super::counters::IoCounters;
use super::report::ConnectionInfo;
use hoistway::table::{Handle, Table};
use hoistway::{GroupId, Instant, IoId, IoPrio, ProcId};
use std::collections::VecDeque;

/// A submitter.
#[derive(Debug)]
pub(super) struct Tenant {
    pub proc: ProcId,
    pub group: GroupId,
    pub prio: IoPrio,
    /// Who it is, if it came from outside.
    pub info: Option<ConnectionInfo>,
    /// Its last I/O is not accepted yet.
    pub blocked: Option<IoId>,
    /// A controller holds it: nothing before then.
    delay: Instant,
    /// Requests and when they were taken.
    backlog: VecDeque<(Instant, TenantRequest)>,
    pub in_flight: u32,
    pub closing: bool,
    /// Failed flushes it knows of, or that were before its time.
    pub sync_failures: u64,
    pub counters: IoCounters,
}

impl Tenant {
    /// It submits from now on.
    pub fn new(proc: ProcId, group: GroupId, prio: IoPrio, sync_failures: u64) -> Tenant {
        Tenant {
            proc,
            group,
            prio,
            info: None,
            blocked: None,
            delay: Instant::ZERO,
            backlog: VecDeque::new(),
            in_flight: 0,
            closing: false,
            sync_failures,
            counters: IoCounters::default(),
        }
    }

    /// It submits nothing now.
    fn is_held(&self, now: Instant) -> bool {
        self.blocked.is_some() || self.delay > now
    }

    /// Gives the request back if it may start at once; else it waits its turn.
    pub fn take(&mut self, now: Instant, request: TenantRequest) -> Option<TenantRequest> {
        if self.is_held(now) || !self.backlog.is_empty() {
            self.backlog.push_back((now, request));
            return None;
        }
        Some(request)
    }

    /// The next request that may start, and when it was taken.
    pub fn next(&mut self, now: Instant) -> Option<(Instant, TenantRequest)> {
        if self.is_held(now) { None } else { self.backlog.pop_front() }
    }

    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    fn is_over(&self) -> bool {
        self.closing && self.in_flight == 0 && self.backlog.is_empty()
    }

    /// Name of its export; empty for a client of this process.
    pub fn export(&self) -> &str {
        self.info.as_ref().map_or("", |info| &info.export)
    }
}

/// All submitters of a device.
#[derive(Debug)]
pub(super) struct Tenants {
    table: Table<Tenant>,
    /// Process ids of tenants that left, by group and priority.
    procs: Vec<(GroupId, IoPrio, ProcId)>,
    /// Tenants that may go on.
    ready: VecDeque<TenantId>,
    /// Tenants a controller delays.
    delayed: Vec<TenantId>,
}

impl Tenants {
    pub fn new() -> Tenants {
        Tenants {
            table: Table::with_capacity(16),
            procs: Vec::new(),
            ready: VecDeque::new(),
            delayed: Vec::new(),
        }
    }

    /// The process of a tenant of that kind that left.
    pub fn spare_proc(&mut self, group: GroupId, prio: IoPrio) -> Option<ProcId> {
        let known = self.procs.iter().position(|&(g, p, _)| (g, p) == (group, prio))?;
        Some(self.procs.swap_remove(known).2)
    }

    pub fn add(&mut self, tenant: Tenant) -> TenantId {
        if self.table.len() == self.table.capacity() {
            self.table.grow(2 * self.table.capacity());
        }
        TenantId(self.table.insert(tenant).expect("the table has just grown"))
    }

    pub fn get(&self, id: TenantId) -> Option<&Tenant> {
        self.table.get(id.0)
    }

    pub fn get_mut(&mut self, id: TenantId) -> Option<&mut Tenant> {
        self.table.get_mut(id.0)
    }

    /// Takes it out if it submits no more and its last I/O is over; its process is free again.
    pub fn remove_if_over(&mut self, id: TenantId) -> Option<Tenant> {
        if !self.table.get(id.0).is_some_and(Tenant::is_over) {
            return None;
        }
        let tenant = self.table.remove(id.0)?;
        self.procs.push((tenant.group, tenant.prio, tenant.proc));
        Some(tenant)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tenant> {
        let handles = self.handles();
        handles.filter_map(|at| self.table.get(at))
    }

    fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        (0..self.table.capacity() as u32).filter_map(|slot| self.table.handle(slot))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tenant> {
        self.table.iter_mut()
    }

    /// That I/O does not stop it any more.
    pub fn unblock(&mut self, id: TenantId, io: IoId) {
        if let Some(tenant) = self.table.get_mut(id.0)
            && tenant.blocked == Some(io)
        {
            tenant.blocked = None;
            if tenant.backlog() > 0 {
                self.ready.push_back(id);
            }
        }
    }

    /// A controller holds a process until then.
    pub fn delay(&mut self, proc: ProcId, until: Instant) {
        // Rare: a controller does not delay every I/O.
        for slot in 0..self.table.capacity() as u32 {
            if let Some(at) = self.table.handle(slot)
                && let Some(tenant) = self.table.get_mut(at)
                && tenant.proc == proc
            {
                tenant.delay = until;
                self.delayed.push(TenantId(at));
            }
        }
    }

    /// Those whose delay is over may go on.
    pub fn end_delays(&mut self, now: Instant) {
        if self.delayed.is_empty() {
            return;
        }
        let (table, ready) = (&self.table, &mut self.ready);
        self.delayed.retain(|id| match table.get(id.0) {
            Some(t) if t.delay > now => true,
            Some(_) => {
                ready.push_back(*id);
                false
            }
            None => false,
        });
    }

    /// When the next delay is over.
    pub fn next_delay(&self) -> Option<Instant> {
        self.delayed.iter().filter_map(|id| self.table.get(id.0)).map(|t| t.delay).min()
    }

    pub fn any_delayed(&self) -> bool {
        !self.delayed.is_empty()
    }

    pub fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn next_ready(&mut self) -> Option<TenantId> {
        self.ready.pop_front()
    }

    /// Requests in backlogs.
    pub fn backlogs(&self) -> usize {
        self.iter().map(Tenant::backlog).sum()
    }

    /// I/Os that wait for a request, and those behind them.
    pub fn held(&self) -> usize {
        self.iter().map(|t| t.backlog() + usize::from(t.blocked.is_some())).sum()
    }
}
