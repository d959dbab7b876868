//! The functions that the shim calls, declared in `linux/module/hoistway_core.h`.
//!
//! All take the view of the queue first, and all answer 0, null or false where nothing was done: that is also what the shim
//! gets when the call has ended in a panic.

use crate::choice::{CHOSEN, MARK};
use crate::queue::{Found, Queue, Rq, op_of};
use crate::view::View;
use alloc::boxed::Box;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Release};
use hoistway::device::Tags;
use hoistway::knob::KnobErrorKind;
use hoistway::request::{Side, Told};
use hoistway::sched::{At, Entry, FlushCommand, Open, Search, module_name};
use hoistway::unit::Class;
use hoistway::{
    Device, Flags, GroupId, Instant, Io, IoId, IoPrio, Nanos, ProcId, QueueId, Sectors,
};

/// `struct hw_setup`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HwSetup {
    capacity: u64,
    now: u64,
    tick_ns: u64,
    queue_depth: u32,
    nr_requests: u32,
    slots: u32,
    max_sectors: u32,
    max_segments: u32,
    hw_queues: u16,
    rotational: u8,
    write_cache: u8,
    fua: u8,
    scsi: u8,
    plain_tags: u8,
}

/// `struct hw_io`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HwIo {
    start: u64,
    alloc: u64,
    began: u64,
    issued: u64,
    sectors: u32,
    segments: u32,
    proc: u32,
    group: u32,
    cpu: u32,
    flags: u16,
    prio: u16,
    queue: u16,
    op: u8,
    sync: u8,
}

/// `struct hw_found`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HwFound {
    id: u64,
    open: u32,
    again: u8,
    closed: u8,
}

// What a scheduler is, for the shim: bits of `hw_traits`.
const LIMITS_DEPTH: u32 = 1;
const REPLACES_WBT: u32 = 1 << 1;
const HAS_WEIGHTS: u32 = 1 << 2;
const SEARCHES: u32 = 1 << 3;

const EINVAL: u32 = 22;

fn error_number(kind: KnobErrorKind) -> u32 {
    match kind {
        KnobErrorKind::Invalid => EINVAL,
        KnobErrorKind::NoDevice => 19,
        KnobErrorKind::Range => 34,
        KnobErrorKind::Unsupported => 95,
    }
}

fn prio_of(word: u16) -> IoPrio {
    let class = match word >> 13 {
        1 => Class::Rt,
        2 => Class::Be,
        3 => Class::Idle,
        _ => return IoPrio::NONE,
    };
    IoPrio::new(class, (word & 7) as u8).unwrap_or(IoPrio::NONE)
}

impl HwIo {
    fn io(&self) -> Io {
        Io {
            id: IoId(0),
            proc: ProcId(self.proc),
            group: GroupId(self.group),
            cpu: self.cpu,
            op: op_of(self.op),
            start: Sectors(self.start),
            sectors: Sectors(self.sectors.into()),
            segments: self.segments,
            flags: Flags::from_bits(self.flags),
            prio: prio_of(self.prio),
        }
    }

    #[inline(always)]
    fn told(&self) -> Told {
        Told {
            io: self.io(),
            sync: self.sync != 0,
            queue: QueueId(self.queue),
            alloc: Instant::from_nanos(self.alloc),
            began: Instant::from_nanos(self.began),
        }
    }
}

/// `HW_INSERTED`.
const INSERTED: u32 = 1 << 8;

/// `HW_HEAD`, `HW_ALONE`.
const HEAD: u32 = 1;
const ALONE: u32 = 1 << 1;

fn open_word(open: Open) -> u32 {
    match open {
        Open::Closed => 0,
        Open::ToBios => 1,
        Open::Full => 2,
    }
}

fn at(head: bool) -> At {
    if head { At::Head } else { At::Tail }
}

fn side(back: bool) -> Side {
    if back { Side::Back } else { Side::Front }
}

fn entry(n: usize) -> Option<&'static Entry> {
    CHOSEN.get(n).copied()
}

/// The queue behind a view.
///
/// # Safety
/// The shim holds the queue's lock, `hw_new` has made the queue and `hw_end` has not ended it.
#[allow(clippy::mut_from_ref)]
unsafe fn queue<'a>(view: &'a View) -> &'a mut Queue<'a> {
    // SAFETY: the pointer came from `Box::into_raw` in `hw_new`, and the lock makes this the only reference.
    unsafe { &mut *view.core.load(Acquire).cast::<Queue<'a>>() }
}

fn copy(text: &str, to: &mut [u8]) {
    let n = text.len().min(to.len().saturating_sub(1));
    to[..n].copy_from_slice(&text.as_bytes()[..n]);
    if let Some(end) = to.get_mut(n) {
        *end = 0;
    }
}

/// # Safety
/// `to` has `room` bytes.
unsafe fn room<'a>(to: *mut u8, room: usize) -> &'a mut [u8] {
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts_mut(to, room) }
}

// --- the registry ---------------------------------------------------------------------------------

/// For whoever has this object alone: what it was made of.
#[allow(non_upper_case_globals)]
#[unsafe(no_mangle)]
pub static hw_core_mark: [u8; MARK.len()] = MARK;

/// So many schedulers.
#[unsafe(no_mangle)]
pub extern "C" fn hw_core_count() -> usize {
    CHOSEN.len()
}

/// What scheduler `n` is called in a kernel; false: there is none, or the kernel has it itself.
///
/// # Safety
/// `to` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_name(n: usize, to: *mut u8, size: usize) -> bool {
    let Some(name) = entry(n).and_then(module_name) else { return false };
    // SAFETY: as the caller says.
    copy(name, unsafe { room(to, size) });
    true
}

/// The name of its tunable `t`; false: it has no more.
///
/// # Safety
/// `to` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_tunable(n: usize, t: usize, to: *mut u8, size: usize) -> bool {
    let Some(tunable) = entry(n).and_then(|e| e.tunables.get(t)) else { return false };
    // SAFETY: as the caller says.
    copy(tunable.name, unsafe { room(to, size) });
    true
}

/// The least that `hw_depth` will answer where it counts among `places` places: of a word, or all.
#[unsafe(no_mangle)]
pub extern "C" fn hw_core_depth_min(n: usize, places: u32) -> u32 {
    let percent = entry(n).and_then(|e| e.tag_percent_min);
    percent.map_or(1, |percent| (places * percent / 100).max(1))
}

/// What it is: bits `HW_LIMITS_DEPTH` and so on.
#[unsafe(no_mangle)]
pub extern "C" fn hw_core_traits(n: usize) -> u32 {
    let Some(entry) = entry(n) else { return 0 };
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    bit(entry.tag_percent_min != Some(100), LIMITS_DEPTH)
        | bit(entry.replaces_wbt, REPLACES_WBT)
        | bit(entry.weighs_groups(), HAS_WEIGHTS)
        | bit(entry.search == Search::Own, SEARCHES)
}

// --- a queue's beginning and end ------------------------------------------------------------------

/// Makes the core of a queue; false: not. May sleep.
#[unsafe(no_mangle)]
pub extern "C" fn hw_core_new(view: &'static View, n: usize, setup: &HwSetup) -> bool {
    let Some(entry) = entry(n) else { return false };
    let mut device = Device::new(Sectors(setup.capacity), setup.queue_depth);
    device.rotational = setup.rotational != 0;
    device.hw_queues = setup.hw_queues.max(1);
    device.nr_requests = setup.nr_requests;
    device.max_sectors = Sectors(setup.max_sectors.into());
    device.max_segments = setup.max_segments;
    device.write_cache = setup.write_cache != 0;
    device.fua = setup.fua != 0;
    device.scsi = setup.scsi != 0;
    device.tags = if setup.plain_tags != 0 { Tags::Plain } else { Tags::Words };
    device.tick = Nanos(setup.tick_ns);
    let now = Instant::from_nanos(setup.now);
    let queue = Queue::new(entry, device, setup.slots as usize, now, view);
    view.core.store(Box::into_raw(Box::new(queue)).cast::<c_void>(), Release);
    true
}

/// Ends it: nothing waits in it. May sleep.
///
/// # Safety
/// `hw_new` has made it, and no call comes after this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_end(view: &View) -> bool {
    let core = view.core.swap(null_mut(), Acquire).cast::<Queue<'_>>();
    // SAFETY: it came from `Box::into_raw` and is taken out of the view, so that it is dropped once.
    drop(unsafe { Box::from_raw(core) });
    true
}

// --- requests -------------------------------------------------------------------------------------

/// A request that the core does not know: its handle, 0 if there is no room, and in `open` which merges it is open to and
/// whether it has been taken in already. `how`: bits `HW_HEAD`, it goes first, and `HW_ALONE`, there is nothing that it joins.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_arrive(
    view: &View,
    now: u64,
    io: &HwIo,
    how: u32,
    rq: Rq,
    open: &mut u32,
) -> u64 {
    // SAFETY: the caller's promise.
    let queue = unsafe { queue(view) };
    let (at, alone) = (at(how & HEAD != 0), how & ALONE != 0);
    match queue.arrive(Instant::from_nanos(now), || io.told(), at, alone, rq) {
        Some(arrived) => {
            *open = open_word(arrived.open) | if arrived.inserted { INSERTED } else { 0 };
            arrived.id
        }
        None => 0,
    }
}

/// It is taken in.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_insert(view: &View, now: u64, id: u64, head: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.insert(Instant::from_nanos(now), id, at(head));
    true
}

/// What goes to the device, or (`again`) is to be inserted again before this is asked once more; 0: nothing. `out` is all
/// zeroes before.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_dispatch(view: &View, now: u64, hw: u16, out: &mut HwFound) -> Rq {
    // SAFETY: the caller's promise.
    let queue = unsafe { queue(view) };
    let found = queue.dispatch(Instant::from_nanos(now), QueueId(hw));
    if queue.has_closed() {
        out.closed = 1;
    }
    match found {
        Found::Issue(rq) => rq,
        Found::Nothing => 0,
        Found::Again(id, rq) => {
            (out.id, out.open, out.again) = (id, open_word(queue.open_again(id)), 1);
            rq
        }
    }
}

/// A request that nothing may join any more; 0: no more of them.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_closed(view: &View) -> Rq {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.closed().unwrap_or(0)
}

/// The device has served it.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_complete(view: &View, now: u64, id: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.complete(Instant::from_nanos(now), id);
    true
}

/// A request that has passed the scheduler by is over; `sent`: the device has seen it.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_bypassed(view: &View, now: u64, io: &HwIo, sent: bool) -> bool {
    let issued = sent.then(|| Instant::from_nanos(io.issued));
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.bypassed(Instant::from_nanos(now), io.told(), issued);
    true
}

/// It goes away unserved.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_forget(view: &View, id: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.forget(id);
    true
}

/// Nothing joins it any more: it has grown to a limit of the device.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_unmergeable(view: &View, id: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.unmergeable(id);
    true
}

/// The device gave it back, and it is here again.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_requeue(view: &View, now: u64, id: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.requeue(Instant::from_nanos(now), id);
    true
}

/// What the scheduler is to be told and asked: bits `HW_FLUSHES` and so on.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_wants(view: &View) -> u32 {
    // SAFETY: the caller's promise.
    let wants = unsafe { queue(view) }.wants();
    (0..).zip(wants).map(|(bit, on)| u32::from(on) << bit).sum()
}

/// A flush command goes to the device, or is over.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_flush(view: &View, now: u64, began: bool) -> bool {
    let what = if began { FlushCommand::Began } else { FlushCommand::Ended };
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.flush(Instant::from_nanos(now), what);
    true
}

// --- merges ---------------------------------------------------------------------------------------

/// May this bio join that request?
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_may_merge(view: &View, now: u64, io: &HwIo, into: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.may_merge(Instant::from_nanos(now), &io.io(), into)
}

/// A request that this bio can join; `back`: behind it.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_find_merge(
    view: &View,
    now: u64,
    io: &HwIo,
    back: &mut bool,
) -> Rq {
    // SAFETY: the caller's promise.
    match unsafe { queue(view) }.find_merge(Instant::from_nanos(now), &io.io()) {
        Some((rq, side)) => {
            *back = side == Side::Back;
            rq
        }
        None => 0,
    }
}

/// The request next to it, which has become what is said.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_neighbour(view: &View, id: u64, size: &HwSize, back: bool) -> Rq {
    // SAFETY: the caller's promise.
    let queue = unsafe { queue(view) };
    size.apply(queue, id);
    queue.neighbour(id, side(back)).unwrap_or(0)
}

/// `struct hw_size`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HwSize {
    start: u64,
    sectors: u32,
    segments: u32,
}

impl HwSize {
    fn apply(&self, queue: &mut Queue<'_>, id: u64) {
        queue.update(id, Sectors(self.start), Sectors(self.sectors.into()), self.segments);
    }
}

/// A bio has joined it, which has become what is said.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_merged_bio(
    view: &View,
    now: u64,
    id: u64,
    size: &HwSize,
    back: bool,
) -> bool {
    // SAFETY: the caller's promise.
    let queue = unsafe { queue(view) };
    size.apply(queue, id);
    queue.merged_bio(Instant::from_nanos(now), id, side(back));
    true
}

/// `gone` has joined `kept`, which was `before` and has become `after`; `waited`: it had been inserted.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_merged(
    view: &View,
    now: u64,
    kept: u64,
    gone: u64,
    sizes: &[HwSize; 2],
    waited: bool,
) -> bool {
    // SAFETY: the caller's promise.
    let queue = unsafe { queue(view) };
    sizes[0].apply(queue, kept);
    queue.merged(Instant::from_nanos(now), kept, gone, waited);
    sizes[1].apply(queue, kept);
    true
}

// --- processes and groups -------------------------------------------------------------------------

/// The number of a process that is new here.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_proc(view: &View, prio: u16) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.add_proc(prio_of(prio)).0
}

/// It has this priority and is in this group from now on.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_proc_is(
    view: &View,
    now: u64,
    proc: u32,
    prio: u16,
    group: u32,
) -> bool {
    // SAFETY: the caller's promise.
    let queue = unsafe { queue(view) };
    queue.proc_is(Instant::from_nanos(now), ProcId(proc), prio_of(prio), GroupId(group));
    true
}

/// It has exited.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_proc_exits(view: &View, now: u64, proc: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.proc_exits(Instant::from_nanos(now), ProcId(proc));
    true
}

/// The number of a new group below `parent`.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_group(view: &View, now: u64, parent: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.add_group(Instant::from_nanos(now), GroupId(parent)).0
}

/// A group goes away.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_group_goes(view: &View, now: u64, group: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.remove_group(Instant::from_nanos(now), GroupId(group));
    true
}

/// Its weight; false: refused.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_weight(view: &View, now: u64, group: u32, weight: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.set_weight(Instant::from_nanos(now), GroupId(group), weight)
}

/// Its latency target, as a line of `io.latency` has it behind the device number: 1, or the number of the error.
///
/// # Safety
/// As `queue` says; `text` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_target(
    view: &View,
    now: u64,
    group: u32,
    text: *const u8,
    len: usize,
) -> u32 {
    // SAFETY: the caller's promise.
    let (queue, text) = unsafe { (queue(view), core::slice::from_raw_parts(text, len)) };
    let Ok(text) = core::str::from_utf8(text) else { return EINVAL };
    match queue.set_target(Instant::from_nanos(now), GroupId(group), text) {
        Ok(()) => 1,
        Err(error) => error_number(error.kind),
    }
}

/// The target of a group in the same form; false: it has none.
///
/// # Safety
/// As `queue` says; `to` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_target_of(
    view: &View,
    group: u32,
    to: *mut u8,
    size: usize,
) -> bool {
    // SAFETY: the caller's promise.
    let (queue, to) = unsafe { (queue(view), room(to, size)) };
    let Some(text) = queue.target(GroupId(group)) else { return false };
    copy(&text, to);
    true
}

// --- the rest -------------------------------------------------------------------------------------

/// Places of each word of tags that this I/O may have; 0: all.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_depth(view: &View, now: u64, io: &HwIo) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.depth(Instant::from_nanos(now), &io.io()).unwrap_or(0)
}

/// The timer.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_timer(view: &View, now: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.timer(Instant::from_nanos(now));
    true
}

/// The value of tunable `t`; false: none.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_value(view: &View, t: usize, value: &mut u64) -> bool {
    // SAFETY: the caller's promise.
    match unsafe { queue(view) }.value(t) {
        Some(v) => {
            *value = v;
            true
        }
        None => false,
    }
}

/// Sets it; false: refused.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_set(view: &View, now: u64, t: usize, value: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.set(Instant::from_nanos(now), t, value)
}

/// `nr_requests` has changed.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_resized(view: &View, now: u64, nr_requests: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { queue(view) }.resized(Instant::from_nanos(now), nr_requests);
    true
}

/// Processes alive, processes numbered, groups numbered, requests known.
///
/// # Safety
/// As `queue` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_core_sizes(view: &View, out: &mut [u32; 4]) -> bool {
    // SAFETY: the caller's promise.
    *out = unsafe { queue(view) }.sizes();
    true
}

/// Panics if `now`, where the module is asked to show what happens then. A function that never returns would need to be known as
/// such to the kernel's checker.
#[unsafe(no_mangle)]
pub extern "C" fn hw_core_break(_view: &View, now: bool) -> bool {
    assert!(!now, "asked for by the module's parameter panic_every");
    false
}
