//! Workers: the processes of a job as processes of the kernel.
//!
//! The program executes itself, once per process of the job (once per program, where processes of a job have memory in
//! common), so that every one has the identity that schedulers and controllers go by: a process of its own, in its
//! cgroup, with its I/O priority. A worker builds its load as the simulator does ([`order`]), says that it is ready,
//! sleeps until the common start, and carries out what its load asks for ([`process`]), recording every call in memory
//! that the coordinator reads ([`shared`], [`wire`]). It dies with its parent.
//!
//! Some loads act as several processes of the block layer in turns (an application that starts). To the block layer a
//! thread is a process: it has an I/O context of its own, by which schedulers tell processes apart. So each of them is
//! a thread of the worker, and the load goes from thread to thread as it says.

mod charge;
mod descriptors;
pub(super) mod order;
mod process;
mod queue;
pub(super) mod shared;
pub(super) mod wire;

use super::files::FileStore;
use crate::{MachineError, os};
use charge::Charge;
use descriptors::Descriptors;
use hoistway::{Instant, IoPrio, Sectors};
use hoistway_run::{ProcSpec, Role, decode};
use hoistway_serve::system::Clock;
use hoistway_sim::load;
use hoistway_sim::world::{Built, build};
use order::Order;
use process::{BlockIdentity, Flow, Parts, WorkerProcess};
use shared::{SharedMemory, WorkerState};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Largest request the simulated block layer would make: where files lie does not depend on it.
pub(crate) const MAX_REQUEST: Sectors = Sectors(2560);

/// Carries out processes of a job; `args`: path of the order, and numbers of the processes, as a run of
/// [`Machine`](super::Machine) gives them.
///
/// # Errors
///
/// What is wrong with the arguments: somebody else has called it. Once the shared memory is open, errors are told there.
pub fn work(args: &[String]) -> Result<(), MachineError> {
    let refused = |why: String| MachineError::Refused(why);
    let [order, numbers @ ..] = args else { return Err(refused(NOT_FOR_PEOPLE.into())) };
    let numbers: Result<Vec<usize>, _> = numbers.iter().map(|n| n.parse::<usize>()).collect();
    let numbers = numbers.map_err(|_| refused(NOT_FOR_PEOPLE.into()))?;
    die_with_parent();
    let text = std::fs::read_to_string(order).map_err(os(order.as_str()))?;
    let order: Order = decode(&text).map_err(|e| refused(e.to_string()))?;
    let shared = SharedMemory::open(&order.shared, order.job.procs.len())
        .map_err(os(order.shared.as_str()))?;
    let shared = Arc::new(shared);
    let complain = |why: &str| numbers.iter().for_each(|&p| shared.complain(p, why));
    match catch_unwind(AssertUnwindSafe(|| act_all(&order, &numbers, &shared))) {
        Ok(Ok(())) => {}
        Ok(Err(why)) => complain(&why),
        Err(panic) => complain(&told_by(&*panic)),
    }
    Ok(())
}

const NOT_FOR_PEOPLE: &str = "kernel-worker is what `--on kernel` starts by itself";

/// Without its coordinator a worker would go on loading the device for ever.
fn die_with_parent() {
    // SAFETY: it concerns this process alone and takes no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if rustix::process::getppid().is_none_or(|parent| parent.as_raw_nonzero().get() == 1) {
        // The parent died before that; a program that is really started by process 1 is no worker.
        std::process::exit(1);
    }
}

fn told_by(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("broke off: {}; this is an error in hoistway", text.unwrap_or("a panic"))
}

/// Builds everything, waits for the start, and runs.
fn act_all(order: &Order, numbers: &[usize], shared: &Arc<SharedMemory>) -> Result<(), String> {
    let (job, store) = (&order.job, FileStore::decode(&order.store)?);
    let Built { host, loads, owners, .. } = build(job, MAX_REQUEST).map_err(|e| e.to_string())?;
    let layout = host.layout();
    let places = store.places(&layout, host.capacity());
    let unwritten = owners.iter().map(|&p| load::find(&job.procs[p].load).is_ok_and(|l| !l.writes));
    let unwritten: Arc<[bool]> = unwritten.collect();
    let parties: Arc<[u32]> = host.parties().into();
    let mut loads: Vec<Option<_>> = loads.into_iter().map(Some).collect();
    let mut mine = Vec::new();
    for &p in numbers {
        let load = loads.get_mut(p).and_then(Option::take).ok_or("no such process")?;
        let parts = Parts {
            p,
            load,
            shared: Arc::clone(shared),
            files: Descriptors::new(store.clone(), places.clone(), host.capacity()),
            unwritten: Arc::clone(&unwritten),
            parties: Arc::clone(&parties),
            target: job.procs[p].role == Role::Target,
            end: job.measuring_begins() + job.window.measured,
            charge: order.virtual_time.then(|| Charge::on(job)),
        };
        mine.push((parts, job.procs[p].clone()));
    }
    if mine.len() == 1 {
        let (parts, spec) = mine.remove(0);
        return act(parts, &spec);
    }
    let in_thread = |(parts, spec): (Parts, ProcSpec)| {
        std::thread::spawn(move || {
            let (p, shared) = (parts.p, Arc::clone(&parts.shared));
            match catch_unwind(AssertUnwindSafe(|| act(parts, &spec))) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => shared.complain(p, &why),
                Err(panic) => shared.complain(p, &told_by(&*panic)),
            }
        })
    };
    let threads: Vec<JoinHandle<()>> = mine.into_iter().map(in_thread).collect();
    for thread in threads {
        // It has caught its panics.
        let _ = thread.join();
    }
    Ok(())
}

/// One process of the job, from its start on, in the calling thread.
fn act(parts: Parts, spec: &ProcSpec) -> Result<(), String> {
    hoistway_serve::system::thread::precise_timers();
    set_prio(spec.prio)?;
    let (p, shared) = (parts.p, Arc::clone(&parts.shared));
    shared.set_state(p, WorkerState::Ready);
    let start = loop {
        match shared.start() {
            Some(start) => break start,
            None => std::thread::sleep(POLL),
        }
    };
    let clock = Clock::starting_at(start);
    clock.sleep_until(Instant::ZERO + spec.start);
    let state = Crew::new(spec.prio).run(Box::new(WorkerProcess::new(parts, clock)))?;
    shared.set_began(p, None);
    shared.set_state(p, state);
    Ok(())
}

/// How often a worker looks whether the start is decided; it is, some time before it comes.
const POLL: Duration = Duration::from_millis(1);

/// The I/O priority of this thread.
fn set_prio(prio: IoPrio) -> Result<(), String> {
    if prio == IoPrio::NONE {
        return Ok(());
    }
    // SAFETY: it concerns this thread alone and takes no memory of ours.
    let set =
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, u32::from(prio.word())) };
    if set == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(format!("I/O priority {prio}: {error}; the real-time class needs root"))
}

/// IOPRIO_WHO_PROCESS; 0 beside it is the calling thread.
const WHO_PROCESS: libc::c_int = 1;

/// What goes from thread to thread.
#[derive(Debug)]
enum Baton {
    /// Whoever has the process acts.
    Act(Box<WorkerProcess>),
    /// The thread ends.
    End,
}

/// Why the thread that acted no longer does.
#[derive(Debug)]
enum Handed {
    /// Another identity acts, or the first one does again.
    Turn(Box<WorkerProcess>, Flow),
    Failed(String),
}

/// A thread that is a process to the block layer.
#[derive(Debug)]
struct Member {
    inbox: Sender<Baton>,
    thread: JoinHandle<()>,
    lasting: bool,
}

/// The threads of one process, by the load's numbers; whoever called [`Crew::run`] is the process itself and gives the
/// turns.
#[derive(Debug)]
struct Crew {
    prio: IoPrio,
    own: BlockIdentity,
    members: BTreeMap<u32, Member>,
    handed: (Sender<Handed>, Receiver<Handed>),
}

impl Crew {
    fn new(prio: IoPrio) -> Crew {
        let (own, members) = (BlockIdentity::default(), BTreeMap::new());
        Crew { prio, own, members, handed: channel() }
    }

    /// Until the process's end.
    fn run(mut self, mut process: Box<WorkerProcess>) -> Result<WorkerState, String> {
        let mut acting: Option<u32> = None;
        loop {
            let flow = match acting {
                None => turns(&mut process, &mut self.own)?,
                Some(slot) => {
                    let member = &self.members[&slot];
                    member.inbox.send(Baton::Act(process)).map_err(|_| GONE)?;
                    match self.handed.1.recv().map_err(|_| GONE)? {
                        Handed::Turn(back, flow) => {
                            process = back;
                            flow
                        }
                        Handed::Failed(why) => return Err(why),
                    }
                }
            };
            match flow {
                Flow::On => unreachable!("turns end with something else"),
                Flow::Become { slot, lasting } => {
                    self.add(slot, lasting)?;
                    acting = Some(slot);
                }
                Flow::Home => {
                    self.end(false);
                    acting = None;
                }
                Flow::End(state) => {
                    self.end(true);
                    return Ok(state);
                }
            }
        }
    }

    /// The identity exists.
    fn add(&mut self, slot: u32, lasting: bool) -> Result<(), String> {
        if self.members.contains_key(&slot) {
            return Ok(());
        }
        let (inbox, batons) = channel();
        let (handed, prio) = (self.handed.0.clone(), self.prio);
        let thread = std::thread::Builder::new().spawn(move || member(prio, &batons, &handed));
        let thread = thread.map_err(|e| format!("thread: {e}"))?;
        self.members.insert(slot, Member { inbox, thread, lasting });
        Ok(())
    }

    /// Members exit; the lasting ones only if everybody does.
    fn end(&mut self, everyone: bool) {
        let slots: Vec<u32> =
            self.members.iter().filter(|(_, m)| everyone || !m.lasting).map(|(&s, _)| s).collect();
        for slot in slots {
            let Some(member) = self.members.remove(&slot) else { continue };
            // A member that failed is gone already, and has said so.
            let _ = member.inbox.send(Baton::End);
            let _ = member.thread.join();
        }
    }
}

const GONE: &str = "a thread of the process is gone";

/// Operations until something else than this identity is wanted.
fn turns(process: &mut WorkerProcess, identity: &mut BlockIdentity) -> Result<Flow, String> {
    loop {
        match process.turn(identity)? {
            Flow::On => {}
            flow => return Ok(flow),
        }
    }
}

fn member(prio: IoPrio, inbox: &Receiver<Baton>, handed: &Sender<Handed>) {
    hoistway_serve::system::thread::precise_timers();
    let mut identity = BlockIdentity::default();
    let set = set_prio(prio);
    while let Ok(Baton::Act(mut process)) = inbox.recv() {
        let flow = set.clone().and_then(|()| {
            catch_unwind(AssertUnwindSafe(|| turns(&mut process, &mut identity)))
                .unwrap_or_else(|panic| Err(told_by(&*panic)))
        });
        let told = match flow {
            Ok(flow) => handed.send(Handed::Turn(process, flow)),
            Err(why) => handed.send(Handed::Failed(why)),
        };
        if told.is_err() {
            return;
        }
    }
}
