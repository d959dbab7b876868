//! The way of I/O: inputs in, events out, alone or many at once.

use crate::guard::{Answer, Failure, Inner, OK, hw_stack};
use crate::memory::{check, get_sized, put, room};
use crate::types::*;
use hoistway::request::Flags;
use hoistway::stack::{IoError, StackError};
use hoistway::table::Handle;
use hoistway::{
    Env, GroupId, Input, Instant, Io, IoId, IoPrio, Op, Output, ProcId, ReqId, Sectors, Stack,
};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};

/// Where the I/O of an input begins: an input is at least so long, and one I/O.
const BEFORE_IO: usize = offset_of!(hw_input, io);

impl From<StackError> for Failure {
    #[cold]
    fn from(error: StackError) -> Failure {
        let code = match &error {
            StackError::Undrained => hw_code::HW_E_UNDRAINED,
            StackError::TimeWentBack { .. } => hw_code::HW_E_TIME,
            StackError::Tunable(hoistway::setting::TunableError::Unknown { .. })
            | StackError::NoSuchStage(_) => hw_code::HW_E_NAME,
            StackError::StaleRequest(_) => hw_code::HW_E_REQUEST,
            StackError::BadIo(_) => hw_code::HW_E_IO,
            StackError::NoSuchProcess(_) => hw_code::HW_E_PROC,
            StackError::NoSuchGroup(_) => hw_code::HW_E_GROUP,
            _ => hw_code::HW_E_VALUE,
        };
        Failure::new(code, error.to_string())
    }
}

/// A priority word; `None`: there is no such priority.
pub(crate) fn priority(word: u32) -> Option<IoPrio> {
    use hoistway::Class;
    let class = match word >> 13 {
        0 => Class::None,
        1 => Class::Rt,
        2 => Class::Be,
        3 => Class::Idle,
        _ => return None,
    };
    IoPrio::new(class, u8::try_from(word & 0x1fff).ok()?)
}

#[cold]
pub(crate) fn range(text: &'static str) -> Failure {
    Failure::new(hw_code::HW_E_RANGE, text)
}

#[inline(always)]
fn time(now_ns: u64) -> Result<Instant, Failure> {
    if now_ns >= HW_TIME_END {
        return Err(Failure::new(hw_code::HW_E_TIME, "times are below HW_TIME_END"));
    }
    Ok(Instant::from_nanos(now_ns))
}

/// The process is there and has not gone.
pub(crate) fn check_proc(stack: &Stack, proc: u32) -> Result<ProcId, Failure> {
    let id = ProcId(proc);
    match stack.env().procs.get(id) {
        Some(p) if p.alive => Ok(id),
        _ => Err(no_proc(proc)),
    }
}

#[cold]
fn no_proc(proc: u32) -> Failure {
    let text = format!("process {proc} does not exist or has gone; hw_add_proc makes one");
    Failure::new(hw_code::HW_E_PROC, text)
}

fn operation(op: u32) -> Option<Op> {
    Some(match op {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Discard,
        3 => Op::Flush,
        4 => Op::WriteZeroes,
        _ => return None,
    })
}

/// The I/O in the core's terms. What the core looks at itself is left to it.
#[inline(always)]
fn io_of(stack: &Stack, io: &hw_io) -> Result<Io, Failure> {
    const KNOWN: u32 = 0x1fff | hw_flag::HW_OF_ROOT as u32;
    let strange = (io.flags & !KNOWN) | io.reserved;
    if strange != 0 || io.sectors >= HW_IO_SECTORS_END || io.cpu >= HW_CPUS {
        return Err(no_io(io));
    }
    let Some(op) = operation(io.op) else { return Err(no_io(io)) };
    let (mut group, mut prio) = (GroupId::ROOT, IoPrio::be(4));
    if io.proc != HW_PROC_NONE {
        match stack.env().procs.get(ProcId(io.proc)) {
            Some(p) if p.alive => (group, prio) = (p.group, p.effective()),
            _ => return Err(no_proc(io.proc)),
        }
    }
    if io.priority != 0 {
        let Some(own) = priority(io.priority) else { return Err(no_io(io)) };
        prio = own;
    }
    if io.flags & hw_flag::HW_OF_ROOT as u32 != 0 {
        group = GroupId::ROOT;
    } else if io.group != 0 {
        group = crate::group::check_group(stack, io.group)?;
    }
    Ok(Io {
        id: IoId(io.id),
        proc: ProcId(io.proc),
        group,
        cpu: io.cpu,
        op,
        start: Sectors(io.sector),
        sectors: Sectors(io.sectors.into()),
        segments: if io.segments == 0 { io.sectors.div_ceil(8) } else { io.segments },
        flags: Flags::from_bits(io.flags as u16),
        prio,
    })
}

/// What is wrong with the numbers of an I/O.
#[cold]
fn no_io(io: &hw_io) -> Failure {
    const KNOWN: u32 = 0x1fff | hw_flag::HW_OF_ROOT as u32;
    range(if io.flags & !KNOWN != 0 {
        "hw_io: flags has one that does not exist"
    } else if io.reserved != 0 {
        "hw_io: reserved is not zero"
    } else if io.sectors >= HW_IO_SECTORS_END {
        "hw_io: sectors is not below HW_IO_SECTORS_END"
    } else if io.cpu >= HW_CPUS {
        "hw_io: cpu is not below HW_CPUS"
    } else if operation(io.op).is_none() {
        "hw_io: op is none of hw_op"
    } else {
        "hw_io: priority is class << 13 | level, class 0 to 3, level 0 to 7"
    })
}

fn id_of(req: ReqId) -> u64 {
    u64::from(req.0.generation) << 32 | u64::from(req.0.slot)
}

fn req_of(id: u64) -> ReqId {
    ReqId(Handle { slot: id as u32, generation: (id >> 32) as u32 })
}

fn failure_of(error: i32) -> Option<IoError> {
    match error {
        0 => None,
        22 => Some(IoError::Invalid),
        95 => Some(IoError::NotSupported),
        _ => Some(IoError::Io),
    }
}

/// Fills an event, which is all zero.
#[inline(always)]
fn tell(env: &Env, output: Output, event: &mut hw_event) {
    match output {
        Output::Issue { req, queue } => tell_issue(env, req, queue.0, event),
        Output::Accepted { io } => {
            event.kind = hw_event_kind::HW_ACCEPTED as u32;
            event.io = io.0;
        }
        Output::Finished { io, result } => {
            event.kind = hw_event_kind::HW_FINISHED as u32;
            event.io = io.0;
            event.error = errno_of(result);
        }
        Output::Delay { proc, until } => {
            event.kind = hw_event_kind::HW_DELAY as u32;
            event.proc = proc.0;
            event.until_ns = until.as_nanos();
        }
        // Ends a drain, and is told by whoever drains.
        Output::WaitUntil(_) => {}
    }
}

#[inline(always)]
fn tell_issue(env: &Env, req: ReqId, queue: u16, event: &mut hw_event) {
    let requests = &env.requests;
    let r = &requests[req];
    event.kind = hw_event_kind::HW_ISSUE as u32;
    event.req = id_of(req);
    event.sector = r.start.0;
    event.sectors = r.sectors.0 as u32;
    event.op = r.op as u32;
    event.flags = r.flags.bits().into();
    event.queue = queue.into();
    event.proc = r.proc.0;
    if let Some(first) = r.first_io {
        event.io = requests.bio(first).id.0;
        let alone = r.last_io == r.first_io;
        event.pieces = if alone { 1 } else { requests.bios(req).count() as u32 };
    }
}

fn errno_of(result: Result<(), IoError>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(IoError::Invalid) => hw_errno::HW_EINVAL as i32,
        Err(IoError::NotSupported) => hw_errno::HW_EOPNOTSUPP as i32,
        Err(_) => hw_errno::HW_EIO as i32,
    }
}

impl Inner {
    /// The call may be made at this time; the time itself.
    pub fn at(&mut self, now_ns: u64) -> Result<Instant, Failure> {
        let now = time(now_ns)?;
        self.stack.ready(now)?;
        Ok(now)
    }

    /// One input of the core, if it may be made at this time.
    pub fn handle(&mut self, now_ns: u64, input: Input) -> Answer {
        let now = self.at(now_ns)?;
        self.stack.handle(now, input)?;
        OK
    }

    /// As in `hw_submit`. Of the I/O's size at most `within` bytes are there.
    #[inline(always)]
    unsafe fn submit(&mut self, now_ns: u64, io: *const hw_io, within: usize) -> Answer {
        check(io, "io is NULL")?;
        // SAFETY: the caller's struct begins with its size.
        let size = unsafe { io.cast::<u32>().read() } as usize;
        let io = if size == size_of::<hw_io>() {
            // SAFETY: the caller says that there are so many bytes; they are numbers only.
            io_of(&self.stack, unsafe { &*io })
        } else if size <= within {
            // SAFETY: as above.
            io_of(&self.stack, &unsafe { get_sized(io, "io is NULL") }?)
        } else {
            Err(Failure::new(hw_code::HW_E_SIZE, "io.size is not sizeof(struct hw_io)"))
        }?;
        match self.stack.try_submit(time(now_ns)?, io) {
            Ok(()) => OK,
            Err(error) => Err(error.into()),
        }
    }

    #[inline(always)]
    fn done(&mut self, now_ns: u64, req: u64, error: i32) -> Answer {
        match self.stack.try_done(time(now_ns)?, req_of(req), failure_of(error)) {
            Ok(()) => OK,
            Err(error) => Err(error.into()),
        }
    }

    fn plug(&mut self, now_ns: u64, proc: u32, open: bool) -> Answer {
        let id = check_proc(&self.stack, proc)?;
        let input = if open { Input::Plug(id) } else { Input::Unplug(id) };
        self.handle(now_ns, input)?;
        let at = proc as usize;
        if self.plugged.len() <= at {
            self.plugged.resize(at + 1, false);
        }
        self.plugged[at] = open;
        OK
    }

    fn sleep(&mut self, now_ns: u64, proc: u32) -> Answer {
        let id = check_proc(&self.stack, proc)?;
        self.handle(now_ns, Input::Sleep(id))
    }

    /// Takes events while there is room. `Some`: there are no more, and room for one is left; the time to call
    /// again.
    #[inline(always)]
    fn drain(&mut self, events: &mut Events<'_>) -> Option<u64> {
        while events.left() > 0 {
            match self.stack.poll(self.stack.now()) {
                Output::WaitUntil(at) => return Some(at.map_or(HW_NEVER, Instant::as_nanos)),
                output => tell(self.stack.env(), output, events.next()),
            }
        }
        None
    }

    /// Settings of a stack without I/O have no events but the wait.
    pub fn forget_events(&mut self) {
        while !matches!(self.stack.poll(self.stack.now()), Output::WaitUntil(_)) {}
    }

    #[inline(always)]
    unsafe fn input(&mut self, at: *const hw_input, io_size: usize) -> Answer {
        // SAFETY: as in `Inputs::new`.
        let input = unsafe { &*at };
        let now = input.now_ns;
        if input.reserved != 0 {
            return Err(range("hw_input: reserved is not zero"));
        }
        match input.kind {
            0 => self.handle(now, Input::Tick),
            // SAFETY: the I/O is the end of the input, which has `io_size` bytes for it.
            1 => unsafe { self.submit(now, &raw const (*at).io, io_size) },
            2 => self.done(now, input.req, input.error),
            3 => self.handle(now, Input::Requeue(req_of(input.req))),
            4 => self.plug(now, input.proc, true),
            5 => self.plug(now, input.proc, false),
            6 => self.sleep(now, input.proc),
            _ => Err(range("hw_input: kind is none of hw_input_kind")),
        }
    }

    /// What [`hw_step`] does. How many inputs were taken.
    fn step(&mut self, inputs: Inputs<'_>, events: &mut Events<'_>) -> u32 {
        let (mut taken, io_size) = (0, inputs.size - BEFORE_IO);
        // What the call before had no room for comes first.
        let Some(mut until_ns) = self.drain(events) else { return taken };
        for input in inputs {
            if events.left() == 0 {
                return taken;
            }
            taken += 1;
            // SAFETY: as in `Inputs::new`.
            if let Err(failure) = unsafe { self.input(input, io_size) } {
                // SAFETY: as above.
                *events.next() = self.refused(failure, unsafe { &*input });
            }
            match self.drain(events) {
                Some(at) => until_ns = at,
                None => return taken,
            }
        }
        if events.left() > 0 {
            events.next().until_ns = until_ns;
        }
        taken
    }

    #[cold]
    fn refused(&mut self, failure: Failure, input: &hw_input) -> hw_event {
        let kind = hw_event_kind::HW_REFUSED as u32;
        let error = self.refuse(failure);
        match input.kind == hw_input_kind::HW_IN_SUBMIT as u32 {
            true => hw_event { kind, error, io: input.io.id, ..hw_event::NONE },
            false => hw_event { kind, error, req: input.req, ..hw_event::NONE },
        }
    }
}

/// Room for events.
struct Events<'a> {
    rest: std::slice::IterMut<'a, MaybeUninit<hw_event>>,
    room: usize,
}

impl Events<'_> {
    #[inline(always)]
    fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next one, all zero; there must be one left.
    #[inline(always)]
    fn next(&mut self) -> &mut hw_event {
        self.rest.next().expect("there is room").write(hw_event::NONE)
    }

    fn used(&self) -> usize {
        self.room - self.rest.len()
    }
}

/// Submits an I/O. Then poll.
///
/// Its process should submit nothing before HW_ACCEPTED: until then its task would sleep in Linux.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_submit(stack: *mut hw_stack, now_ns: u64, io: *const hw_io) -> i32 {
    // SAFETY: the caller's promises are passed on, here and in all functions of this crate.
    unsafe { hw_stack::enter(stack, |s| s.submit(now_ns, io, usize::MAX)) }
}

/// The device has completed `req`: `error` 0, or why it failed (hw_errno). Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_done(stack: *mut hw_stack, now_ns: u64, req: u64, error: i32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.done(now_ns, req, error)) }
}

/// The device gives `req` back unserved; it will be issued again. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_requeue(stack: *mut hw_stack, now_ns: u64, req: u64) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.handle(now_ns, Input::Requeue(req_of(req)))) }
}

/// Time has passed: due when HW_WAIT said so, harmless at any other time. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_tick(stack: *mut hw_stack, now_ns: u64) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.handle(now_ns, Input::Tick)) }
}

/// A process is about to submit several I/Os: they are collected, and merged, until hw_unplug. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_plug(stack: *mut hw_stack, now_ns: u64, proc: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.plug(now_ns, proc, true)) }
}

/// The process has submitted them. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_unplug(stack: *mut hw_stack, now_ns: u64, proc: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.plug(now_ns, proc, false)) }
}

/// The process goes to sleep: what it has collected goes on, the section stays open. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_sleep(stack: *mut hw_stack, now_ns: u64, proc: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.sleep(now_ns, proc)) }
}

/// Whatever there is and whatever still comes goes to the device as soon as that has room, without limits,
/// idling and delays. There is no way back. Then poll, and go on until nothing is with the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_end(stack: *mut hw_stack, now_ns: u64) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { hw_stack::enter(stack, |s| s.handle(now_ns, Input::End)) }
}

/// Takes the next events, at most `room`; how many. There are no more when the last is HW_WAIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_poll(stack: *mut hw_stack, events: *mut hw_event, count: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let mut events = room_for(events, count)?;
            if let Some(until_ns) = s.drain(&mut events) {
                // The drain ends while there is room.
                events.next().until_ns = until_ns;
            }
            Ok(events.used() as i32)
        })
    }
}

/// Many inputs and their events in one call: each input is made and all its events are taken before the
/// next one. How many events; `taken` is how many inputs were made.
///
/// The last event is HW_WAIT if all was done. Otherwise the room was used up: call again with the inputs
/// that are left, perhaps none. An input that is refused gives HW_REFUSED, and the next one follows.
/// `input_size` is sizeof(struct hw_input).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_step(
    stack: *mut hw_stack,
    inputs: *const hw_input,
    count: u32,
    input_size: usize,
    events: *mut hw_event,
    event_room: u32,
    taken: *mut u32,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            put(taken, 0, "taken is NULL")?;
            let mut events = room_for(events, event_room)?;
            let inputs = Inputs::new(inputs, count, input_size)?;
            let n = s.step(inputs, &mut events);
            put(taken, n, "taken is NULL")?;
            Ok(events.used() as i32)
        })
    }
}

#[inline(always)]
unsafe fn room_for<'a>(events: *mut hw_event, count: u32) -> Result<Events<'a>, Failure> {
    if count == 0 {
        return Err(range("there is no room for a single event"));
    }
    // SAFETY: as in `hw_submit`.
    let room = unsafe { room(events, count, "events is NULL") }?;
    Ok(Events { room: room.len(), rest: room.iter_mut() })
}

/// Inputs of the caller, `size` bytes apart: a later version of the struct may be longer.
struct Inputs<'a> {
    next: *const hw_input,
    left: u32,
    size: usize,
    of: PhantomData<&'a hw_input>,
}

impl<'a> Inputs<'a> {
    /// As in `hw_submit`: the caller has `left` of them, and writes to none during the call.
    unsafe fn new(next: *const hw_input, left: u32, size: usize) -> Result<Inputs<'a>, Failure> {
        if left > 0 {
            check(next, "inputs is NULL")?;
        }
        if !(size_of::<hw_input>()..=4096).contains(&size) || !size.is_multiple_of(8) {
            let text = "input_size is not sizeof(struct hw_input)";
            return Err(Failure::new(hw_code::HW_E_SIZE, text));
        }
        Ok(Inputs { next, left, size, of: PhantomData })
    }
}

impl Iterator for Inputs<'_> {
    type Item = *const hw_input;

    #[inline(always)]
    fn next(&mut self) -> Option<*const hw_input> {
        if self.left == 0 {
            return None;
        }
        let input = self.next;
        self.next = self.next.wrapping_byte_add(self.size);
        self.left -= 1;
        Some(input)
    }
}

/// The I/Os, or parts of them, that a request with the device is made of, in the order of their sectors: at
/// most `count` are written; how many there are. The number is that of `hw_event.pieces`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_pieces(
    stack: *mut hw_stack,
    req: u64,
    pieces: *mut hw_piece,
    count: u32,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let room = room(pieces, count, "pieces is NULL")?;
            let requests = &s.stack.env().requests;
            let id = req_of(req);
            if requests.get(id).is_none() {
                return Err(StackError::StaleRequest(id).into());
            }
            let mut there = 0;
            for (n, (_, io)) in requests.bios(id).enumerate() {
                let (sector, sectors) = (io.start.0, io.sectors.0 as u32);
                if let Some(place) = room.get_mut(n) {
                    place.write(hw_piece { io: io.id.0, sector, sectors, reserved: 0 });
                }
                there += 1;
            }
            Ok(there)
        })
    }
}
