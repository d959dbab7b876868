//! The way of I/O: inputs in, events out, alone or many at once.

use crate::guard::{Answer, Failure, Inner, OK, hw_stack};
use crate::memory::{check, get_sized, put, room};
use crate::types::*;
use hoistway::request::Flags;
use hoistway::stack::{IoError, StackError};
use hoistway::table::Handle;
use hoistway::{Input, Instant, Io, IoId, IoPrio, Op, Output, ProcId, ReqId, Sectors, Stack};
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
fn io_of(stack: &Stack, io: &hw_io) -> Result<Io, Failure> {
    const KNOWN: u32 = 0x1fff | hw_flag::HW_OF_ROOT as u32;
    if io.flags & !KNOWN != 0 || io.reserved != 0 {
        return Err(range("hw_io: a flag that does not exist, or reserved is not zero"));
    }
    if io.sectors >= HW_IO_SECTORS_END || io.cpu >= HW_CPUS {
        return Err(range("hw_io: sectors are below HW_IO_SECTORS_END, cpu below HW_CPUS"));
    }
    let Some(op) = operation(io.op) else { return Err(range("hw_io: op is none of hw_op")) };
    let Some(prio) = priority(io.priority) else {
        return Err(range("hw_io: priority is class << 13 | level, class 0 to 3, level 0 to 7"));
    };
    let env = stack.env();
    let (mut group, mut usual) = (hoistway::GroupId::ROOT, IoPrio::be(4));
    if io.proc != HW_PROC_NONE {
        match env.procs.get(ProcId(io.proc)) {
            Some(p) if p.alive => (group, usual) = (p.group, p.effective()),
            _ => return Err(no_proc(io.proc)),
        }
    }
    if io.flags & hw_flag::HW_OF_ROOT as u32 != 0 {
        group = hoistway::GroupId::ROOT;
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
        prio: if prio == IoPrio::NONE { usual } else { prio },
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
        if now_ns >= HW_TIME_END {
            return Err(Failure::new(hw_code::HW_E_TIME, "times are below HW_TIME_END"));
        }
        let now = Instant::from_nanos(now_ns);
        self.stack.ready(now)?;
        self.now = now;
        Ok(now)
    }

    /// One input of the core, if it may be made at this time.
    #[inline]
    pub fn handle(&mut self, now_ns: u64, input: Input) -> Answer {
        let now = self.at(now_ns)?;
        self.stack.handle(now, input)?;
        OK
    }

    #[inline]
    fn submit(&mut self, now_ns: u64, io: &hw_io) -> Answer {
        let io = io_of(&self.stack, io)?;
        self.handle(now_ns, Input::Submit(io))
    }

    #[inline]
    fn done(&mut self, now_ns: u64, req: u64, error: i32) -> Answer {
        self.handle(now_ns, Input::Done { req: req_of(req), error: failure_of(error) })
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

    /// Takes events while there is room. `Some`: there are no more; the time to call again.
    #[inline]
    fn drain(&mut self, events: &mut Events<'_>) -> Option<u64> {
        while events.left() {
            let event = match self.stack.poll(self.now) {
                Output::WaitUntil(at) => return Some(at.map_or(HW_NEVER, Instant::as_nanos)),
                Output::Issue { req, queue } => issue_event(&self.stack, req, queue.0),
                Output::Accepted { io } => hw_event {
                    kind: hw_event_kind::HW_ACCEPTED as u32,
                    io: io.0,
                    ..hw_event::default()
                },
                Output::Finished { io, result } => hw_event {
                    kind: hw_event_kind::HW_FINISHED as u32,
                    error: errno_of(result),
                    io: io.0,
                    ..hw_event::default()
                },
                Output::Delay { proc, until } => hw_event {
                    kind: hw_event_kind::HW_DELAY as u32,
                    proc: proc.0,
                    until_ns: until.as_nanos(),
                    ..hw_event::default()
                },
            };
            events.push(event);
        }
        None
    }

    /// Settings of a stack without I/O have no events but the wait.
    pub fn forget_events(&mut self) {
        while !matches!(self.stack.poll(self.now), Output::WaitUntil(_)) {}
    }

    fn input(&mut self, input: &hw_input, io_size: usize) -> Answer {
        let now = input.now_ns;
        if input.reserved != 0 {
            return Err(range("hw_input: reserved is not zero"));
        }
        match input.kind {
            0 => self.handle(now, Input::Tick),
            1 if input.io.size as usize == size_of::<hw_io>() => self.submit(now, &input.io),
            1 if input.io.size as usize <= io_size => {
                // SAFETY: so many bytes of the I/O are within the input.
                let io = unsafe { get_sized(&raw const input.io, "io") }?;
                self.submit(now, &io)
            }
            1 => Err(Failure::new(hw_code::HW_E_SIZE, "io.size is not sizeof(struct hw_io)")),
            2 => self.done(now, input.req, input.error),
            3 => self.handle(now, Input::Requeue(req_of(input.req))),
            4 => self.plug(now, input.proc, true),
            5 => self.plug(now, input.proc, false),
            6 => self.sleep(now, input.proc),
            _ => Err(range("hw_input: kind is none of hw_input_kind")),
        }
    }

    /// What [`hw_step`] does. How many inputs were taken.
    fn step<'a>(
        &mut self,
        inputs: impl ExactSizeIterator<Item = &'a hw_input>,
        io_size: usize,
        events: &mut Events<'_>,
    ) -> u32 {
        let (count, mut taken) = (inputs.len() as u32, 0);
        let mut wait = self.drain(events);
        for input in inputs {
            if wait.is_none() || !events.left() {
                return taken;
            }
            taken += 1;
            if let Err(failure) = self.input(input, io_size) {
                events.push(self.refused(failure, input));
            }
            wait = self.drain(events);
        }
        if let Some(until_ns) = wait
            && taken == count
            && events.left()
        {
            events.push(wait_event(until_ns));
        }
        taken
    }

    #[cold]
    fn refused(&mut self, failure: Failure, input: &hw_input) -> hw_event {
        let kind = hw_event_kind::HW_REFUSED as u32;
        let error = self.refuse(failure);
        match input.kind == hw_input_kind::HW_IN_SUBMIT as u32 {
            true => hw_event { kind, error, io: input.io.id, ..hw_event::default() },
            false => hw_event { kind, error, req: input.req, ..hw_event::default() },
        }
    }
}

fn wait_event(until_ns: u64) -> hw_event {
    hw_event { kind: hw_event_kind::HW_WAIT as u32, until_ns, ..hw_event::default() }
}

#[inline]
fn issue_event(stack: &Stack, req: ReqId, queue: u16) -> hw_event {
    let r = stack.request(req);
    let requests = &stack.env().requests;
    let (pieces, io) = match (r.first_io, r.last_io) {
        (Some(first), Some(last)) if first == last => (1, requests.bio(first).id.0),
        (Some(first), _) => (requests.bios(req).count() as u32, requests.bio(first).id.0),
        (None, _) => (0, 0),
    };
    hw_event {
        kind: hw_event_kind::HW_ISSUE as u32,
        error: 0,
        req: id_of(req),
        io,
        until_ns: 0,
        sector: r.start.0,
        sectors: r.sectors.0 as u32,
        op: r.op as u32,
        flags: r.flags.bits().into(),
        pieces,
        queue: queue.into(),
        proc: r.proc.0,
    }
}

/// Room for events, and how much of it is used.
struct Events<'a> {
    room: &'a mut [MaybeUninit<hw_event>],
    used: usize,
}

impl Events<'_> {
    fn left(&self) -> bool {
        self.used < self.room.len()
    }

    #[inline]
    fn push(&mut self, event: hw_event) {
        self.room[self.used].write(event);
        self.used += 1;
    }
}

/// Submits an I/O. Then poll.
///
/// Its process should submit nothing before HW_ACCEPTED: until then its task would sleep in Linux.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_submit(stack: *mut hw_stack, now_ns: u64, io: *const hw_io) -> i32 {
    // SAFETY: the caller's promises are passed on, here and in all functions of this crate.
    unsafe {
        hw_stack::enter(stack, |s| {
            let io = get_sized(io, "io is NULL")?;
            s.submit(now_ns, &io)
        })
    }
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
                events.push(wait_event(until_ns));
            }
            Ok(events.used as i32)
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
            let inputs = inputs_at(inputs, count, input_size)?;
            let n = s.step(inputs, input_size.saturating_sub(BEFORE_IO), &mut events);
            put(taken, n, "taken is NULL")?;
            Ok(events.used as i32)
        })
    }
}

unsafe fn room_for<'a>(events: *mut hw_event, count: u32) -> Result<Events<'a>, Failure> {
    if count == 0 {
        return Err(range("there is no room for a single event"));
    }
    // SAFETY: as in `hw_submit`.
    Ok(Events { room: unsafe { room(events, count, "events is NULL") }?, used: 0 })
}

/// The inputs, `size` bytes apart.
unsafe fn inputs_at<'a>(
    first: *const hw_input,
    count: u32,
    size: usize,
) -> Result<impl ExactSizeIterator<Item = &'a hw_input>, Failure> {
    if count > 0 {
        check(first, "inputs is NULL")?;
    }
    // A later version may have more behind what is known here.
    if !(size_of::<hw_input>()..=4096).contains(&size) || !size.is_multiple_of(8) {
        let text = "input_size is not sizeof(struct hw_input)";
        return Err(Failure::new(hw_code::HW_E_SIZE, text));
    }
    // SAFETY: the caller has `count` of them, and writes to none during the call.
    Ok((0..count as usize).map(move |n| unsafe { &*first.byte_add(n * size) }))
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
