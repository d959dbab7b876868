//! The loop of a run on real storage: one thread owns host, stack and backend, and waits for the
//! storage, the processes and the time at once.

use super::ledger::Ledger;
use super::platform::Real;
use super::process::{EngineProcess, Inbox, ProcessState, Report, Stamps};
use hoistway::stack::IoError;
use hoistway::{Instant, Nanos, Op};
use hoistway_run::{Histogram, JobError, NamedFigure, Outcome, Role};
use hoistway_serve::storage::{EmulationFigures, Opened};
use hoistway_serve::system::{Clock, timespec};
use hoistway_sim::drive::Command;
use hoistway_sim::host::Host;
use hoistway_sim::load::Load;
use hoistway_sim::world::{Job, Machine, request_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::sync::Arc;
use std::thread::JoinHandle;

/// How often `watch` is asked.
const WATCH: Nanos = Nanos::ms(50);

/// What a run has come to, and how well an emulated drive kept up.
type Over = (Outcome, Option<EmulationFigures>);

/// Runs a job on `opened`, which is called `name` and whose pages hold what the ledger says; also returns what they hold
/// then. At most `most_pages` are kept in memory.
pub(super) fn run(
    job: &Job<'_>,
    (name, opened): (&str, Opened),
    ledger: Ledger,
    most_pages: u64,
    watch: &mut dyn FnMut(Instant) -> bool,
) -> (Result<Over, JobError>, Option<Ledger>) {
    let (mut processes, mut threads) = (Vec::new(), None);
    let inbox = match Inbox::new() {
        Ok(inbox) => Arc::new(inbox),
        Err(error) => return (Err(storage(format!("eventfd: {error}"))), Some(ledger)),
    };
    let Opened { backend, device, .. } = opened;
    let stamps = Arc::new(Stamps::from(ledger.next_stamp()));
    let platform = |loads: Vec<Box<dyn Load>>, host: &Host| {
        let platform = Real::new(backend, ledger, Arc::clone(&stamps), loads.len());
        processes = make_processes(job, loads, host, &platform, &inbox);
        Ok(platform)
    };
    let mut machine = match Machine::new(job, device, platform) {
        Ok(machine) => machine,
        Err(error) => return (Err(error), None),
    };
    machine.watch_pages();
    hoistway_serve::system::thread::precise_timers();
    let clock = Clock::new();
    let begun = Threads::start(processes, clock, &machine.platform).map(|c| threads = Some(c));
    let turns = Histogram::new();
    let mut owner = Owner { name, clock, inbox: &inbox, most_pages, reports: Vec::new(), turns };
    let over = begun
        .map_err(|error| storage(format!("thread: {error}")))
        .and_then(|()| owner.turn(&mut machine, watch));
    // Whatever happened: no thread outlives the run, and what they did last counts.
    drop(threads);
    let over = over.and_then(|()| owner.last_words(&mut machine));
    let emulation = machine.platform.backend.emulation();
    if let Err(error) = over {
        let mut ledger = machine.into_platform().into_ledger();
        ledger.used_stamps(stamps.next());
        return (Err(error), Some(ledger));
    }
    let (mut outcome, platform) = machine.outcome(job);
    let of_turns = [("process_turn_p50_ns", (1, 2)), ("process_turn_p99_ns", (99, 100))];
    outcome.host_figures.extend(of_turns.map(|(name, (n, of))| NamedFigure {
        name: name.into(),
        of: None,
        value: owner.turns.quantile(n, of).map_or(0, |ns| ns as i64),
    }));
    outcome.host_figures.extend(emulation.iter().flat_map(figures));
    let mut ledger = platform.into_ledger();
    ledger.used_stamps(stamps.next());
    (Ok((outcome, emulation)), Some(ledger))
}

fn make_processes(
    job: &Job<'_>,
    loads: Vec<Box<dyn Load>>,
    host: &Host,
    platform: &Real,
    inbox: &Arc<Inbox>,
) -> Vec<EngineProcess> {
    let files: Arc<[u64]> = host.places().iter().map(|&(start, _)| start).collect();
    let end = job.measuring_begins() + job.window.measured;
    let process = |(p, load): (usize, Box<dyn Load>)| EngineProcess {
        p,
        load,
        mailbox: Arc::clone(&platform.processes[p].mailbox),
        inbox: Arc::clone(inbox),
        clock: Clock::new(),
        stamps: Arc::clone(&platform.stamps),
        lender: platform.lender.clone(),
        files: Arc::clone(&files),
        stop: (job.procs[p].role == Role::Target).then_some(end),
        state: ProcessState::default(),
    };
    loads.into_iter().enumerate().map(process).collect()
}

/// The processes' threads; dropped, they have ended.
#[derive(Debug)]
struct Threads {
    threads: Vec<JoinHandle<()>>,
    mailboxes: Vec<Arc<super::process::Mailbox>>,
}

impl Threads {
    fn start(
        processes: Vec<EngineProcess>,
        clock: Clock,
        platform: &Real,
    ) -> std::io::Result<Threads> {
        let mailboxes =
            platform.processes.iter().map(|process| Arc::clone(&process.mailbox)).collect();
        let mut threads = Threads { threads: Vec::new(), mailboxes };
        for mut process in processes {
            process.clock = clock;
            let thread = std::thread::Builder::new().name(format!("hoistway-p{}", process.p));
            threads.threads.push(thread.spawn(move || process.run())?);
        }
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.stop());
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

struct Owner<'a> {
    /// What people call the storage, for messages.
    name: &'a str,
    clock: Clock,
    inbox: &'a Inbox,
    most_pages: u64,
    reports: Vec<Report>,
    /// From when a process could go on until it had something to say.
    turns: Histogram,
}

impl Owner<'_> {
    fn turn(
        &mut self,
        machine: &mut Machine<Real>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<(), JobError> {
        let mut done = Vec::with_capacity(256);
        let mut watch_at = Instant::ZERO;
        loop {
            let now = self.clock.now();
            if machine.advance(now) {
                return Ok(());
            }
            if now >= watch_at {
                watch_at = now + WATCH;
                if !watch(now) {
                    return Err(JobError::Interrupted);
                }
                self.check_memory(machine)?;
            }
            machine.platform.backend.poll(now, &mut done);
            let mut idle = done.is_empty();
            for done in done.drain(..) {
                if let Err(errno) = done.result {
                    return Err(self.request_failed(machine.command(request_of(done.tag)), errno));
                }
                machine.served(request_of(done.tag), None::<IoError>);
            }
            idle &= self.listen(machine, now)?;
            while let (who, at) = machine.due()
                && at <= now
            {
                idle = false;
                machine.go(who)?;
            }
            machine.platform.backend.kick();
            if idle {
                self.wait(machine, now, watch_at);
            }
        }
    }

    /// Takes what processes report; true if nobody reports anything.
    fn listen(&mut self, machine: &mut Machine<Real>, now: Instant) -> Result<bool, JobError> {
        let mut reports = std::mem::take(&mut self.reports);
        self.inbox.take(&mut reports, false);
        let silent = reports.is_empty();
        for report in reports.drain(..) {
            match report {
                Report::Begin { p, begin } => {
                    self.turns.record(now.since(machine.platform.processes[p].told).0);
                    let operation = machine.platform.processes[p].begin(begin);
                    machine.begin(p, operation);
                }
                Report::Did { p, ran, next } => {
                    self.turns.record(now.since(machine.platform.processes[p].told).0);
                    ran.iter().for_each(|ran| machine.ran(p, ran));
                    machine.platform.processes[p].next = next;
                    machine.resume(p);
                }
                Report::Wrong { what } => return Err(storage(format!("{}: {what}", self.name))),
            }
        }
        self.reports = reports;
        Ok(silent)
    }

    /// What processes reported before they ended.
    fn last_words(&mut self, machine: &mut Machine<Real>) -> Result<(), JobError> {
        self.inbox.take(&mut self.reports, false);
        for report in self.reports.drain(..) {
            match report {
                Report::Did { p, ran, .. } => ran.iter().for_each(|ran| machine.ran(p, ran)),
                Report::Begin { .. } => {}
                Report::Wrong { what } => return Err(storage(format!("{}: {what}", self.name))),
            }
        }
        Ok(())
    }

    fn wait(&mut self, machine: &Machine<Real>, now: Instant, watch_at: Instant) {
        self.inbox.take(&mut self.reports, true);
        if !self.reports.is_empty() {
            return;
        }
        let backend = &machine.platform.backend;
        let wake = [Some(machine.due().1), backend.wake_at(), Some(watch_at)];
        let wake = wake.into_iter().flatten().min().expect("one of them is always there");
        let limit = timespec(wake.since(now.max(self.clock.now())));
        let wakeup = PollFd::from_borrowed_fd(self.inbox.fd(), PollFlags::IN);
        let mut fds = [wakeup.clone(), wakeup];
        let mut n = 1;
        if let Some(fd) = backend.fd() {
            fds[1] = PollFd::from_borrowed_fd(fd, PollFlags::IN);
            n = 2;
        }
        match poll(&mut fds[..n], Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll on descriptors of our own: {error}"),
        }
        if fds[0].revents().contains(PollFlags::IN) {
            self.inbox.heard();
        }
    }

    /// Neither the host nor the loads know what to do with such an error: the run is over.
    fn request_failed(&self, command: Command, errno: Errno) -> JobError {
        let Command { start: at, len, .. } = command;
        let op = match command.op {
            Op::Read => "a read",
            Op::Write => "a write",
            Op::Discard => "a discard",
            Op::WriteZeroes => "a write of zeroes",
            Op::Flush => "a flush",
        };
        let what = match command.op {
            Op::Flush => op.to_string(),
            _ => format!("{op} of {len} bytes at {at}"),
        };
        storage(format!("{}: {what} failed: {}", self.name, std::io::Error::from(errno)))
    }

    /// The page cache of the model is real memory here.
    fn check_memory(&self, machine: &Machine<Real>) -> Result<(), JobError> {
        let pages = machine.platform.pages.len();
        if pages <= self.most_pages {
            return Ok(());
        }
        let mb = |pages: u64| pages * 4096 / 1_000_000;
        Err(storage(format!(
            "the page cache of the run needs more than {} MB, of {} MB that this machine has for it; \
             choose smaller files (size), or less memory for the host (ram) in the experiment",
            mb(pages),
            mb(self.most_pages)
        )))
    }
}

fn storage(what: String) -> JobError {
    JobError::Storage { what }
}

/// How well an emulated drive kept up, as figures of the host.
fn figures(e: &EmulationFigures) -> impl Iterator<Item = NamedFigure> + use<> {
    let figures = [
        ("emulation_commands", e.commands),
        ("emulation_modelled_mean_ns", e.modelled_mean.0),
        ("emulation_achieved_mean_ns", e.achieved_mean.0),
        ("emulation_late_p50_ns", e.late_p50.0),
        ("emulation_late_p99_ns", e.late_p99.0),
    ];
    figures.into_iter().map(|(name, value)| NamedFigure {
        name: name.into(),
        of: None,
        value: i64::try_from(value).unwrap_or(i64::MAX),
    })
}
