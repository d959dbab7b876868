//! What crosses the border: codes, constants and structs, as the header has them.
//!
//! Structs hold plain numbers, never a Rust `enum`: any number may come from C. Those that may grow begin
//! with their size, which the caller sets to `sizeof`. What an older caller does not know is zero, and zero
//! stands for the usual.

use std::ffi::c_char;

/// Version of the binary interface: a program built for one works with each library of the same.
pub const HW_ABI: u32 = 1;
/// The root group. In hw_io: the group of the process.
pub const HW_GROUP_ROOT: u32 = 0;
/// Nobody, in hw_io: an I/O of no process.
pub const HW_PROC_NONE: u32 = u32::MAX;
/// No time at all: a stack that waits for the next input only.
pub const HW_NEVER: u64 = u64::MAX;
/// Times are below this (9 years), so that nothing that is calculated from them overflows: CLOCK_MONOTONIC, or
/// the time since the program began, not that of the calendar.
pub const HW_TIME_END: u64 = 0x0400_0000_0000_0000;
/// One I/O has fewer sectors than this (4 GiB).
pub const HW_IO_SECTORS_END: u32 = 8_388_608;
/// CPUs are numbered below this.
pub const HW_CPUS: u32 = 4096;
/// A stack knows at most so many processes, those that have gone included.
pub const HW_PROCS: u32 = 1_048_576;
/// A stack knows at most so many groups, those that are removed included.
pub const HW_GROUPS: u32 = 65_536;
/// Groups lie at most so deep below the root.
pub const HW_GROUP_DEPTH: u32 = 64;
/// Texts are at most so many bytes long.
pub const HW_TEXT: u32 = 4096;

/// What calls return: HW_OK or a count, or one of the errors, which are negative. A refused call has done
/// nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_code {
    /// Done.
    HW_OK = 0,
    /// A pointer is null that must not be, or is not aligned.
    HW_E_NULL = -1,
    /// The size field of a struct is none that this library knows.
    HW_E_SIZE = -2,
    /// A text is not UTF-8, or too long.
    HW_E_TEXT = -3,
    /// A number is outside its range.
    HW_E_RANGE = -4,
    /// There is no scheduler, controller, stage, setting or file of that name.
    HW_E_NAME = -5,
    /// A value or a line is not what the setting or the file takes.
    HW_E_VALUE = -6,
    /// The time is earlier than that of the call before, or beyond HW_TIME_END.
    HW_E_TIME = -7,
    /// Events wait: poll until HW_WAIT first.
    HW_E_UNDRAINED = -8,
    /// The device does not take this I/O: empty, beyond its end, or of a kind it does not know.
    HW_E_IO = -9,
    /// The request is not with the device: never issued, or done already.
    HW_E_REQUEST = -10,
    /// There is no such process, or it has gone.
    HW_E_PROC = -11,
    /// There is no such group, or it was removed.
    HW_E_GROUP = -12,
    /// A group still has groups or processes, or a process has not closed its plug section.
    HW_E_IN_USE = -13,
    /// Another thread is in a call with this stack.
    HW_E_THREAD = -14,
    /// The stack has all the processes or groups it can have.
    HW_E_FULL = -15,
    /// The core has failed: a bug of hoistway. The stack is good for hw_error and hw_stack_free only.
    HW_E_PANIC = -16,
}

/// What an I/O does (hw_io.op, hw_event.op).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_op {
    /// Read.
    HW_READ = 0,
    /// Write.
    HW_WRITE = 1,
    /// Discard.
    HW_DISCARD = 2,
    /// Flush the device's cache; no sectors.
    HW_FLUSH = 3,
    /// Write zeroes.
    HW_WRITE_ZEROES = 4,
}

/// Flags of an I/O (hw_io.flags, hw_event.flags).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_flag {
    /// Somebody waits for this write.
    HW_SYNC = 1,
    /// Metadata.
    HW_META = 2,
    /// Preferred.
    HW_PRIO = 4,
    /// No I/O that depends on this one will follow.
    HW_NOIDLE = 8,
    /// More I/O will follow soon.
    HW_IDLE = 16,
    /// Read-ahead.
    HW_RAHEAD = 32,
    /// Starts the queue of the device at once (legacy).
    HW_UNPLUG_NOW = 64,
    /// Full ordering point (legacy).
    HW_BARRIER = 128,
    /// Flush the device's cache first.
    HW_PREFLUSH = 256,
    /// On the medium before it is done.
    HW_FUA = 512,
    /// Never merge.
    HW_NOMERGE = 1024,
    /// Write-back in the background.
    HW_BACKGROUND = 2048,
    /// Swapping.
    HW_SWAP = 4096,
    /// The root group pays, whatever group the process is in (hw_io only).
    HW_OF_ROOT = 65536,
}

/// Flags of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_device_flag {
    /// A spinning disk.
    HW_ROTATIONAL = 1,
    /// It has a volatile write cache: flushes reach it.
    HW_WRITE_CACHE = 2,
    /// It knows HW_FUA itself; otherwise a flush follows the write.
    HW_HAS_FUA = 4,
    /// A flush runs alone.
    HW_FLUSH_ALONE = 8,
    /// The single-queue block layer of Linux 2.6 around the scheduler: large I/O is refused, not split.
    HW_LEGACY = 16,
}

/// How an I/O failed: the numbers of Linux. Every other error that hw_done is told counts as HW_EIO.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_errno {
    /// Medium or transport error.
    HW_EIO = 5,
    /// Beyond the end, or misaligned.
    HW_EINVAL = 22,
    /// The device cannot do it.
    HW_EOPNOTSUPP = 95,
}

/// What an event says (hw_event.kind).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_event_kind {
    /// Nothing more: call again at `until_ns` (hw_tick), or with the next input. HW_NEVER: no time.
    HW_WAIT = 0,
    /// Hand request `req` to the device: `op`, `sector`, `sectors`, `flags`, `queue`. `pieces` is the number
    /// of I/Os or parts of them that it is made of (hw_pieces names them); `io` is the first one's id. With 0
    /// pieces it is a flush of the stack's own.
    HW_ISSUE = 1,
    /// The submission of `io` is over: its process may submit the next one.
    HW_ACCEPTED = 2,
    /// `io` is finished; `error` is 0 or one of hw_errno.
    HW_FINISHED = 3,
    /// A controller wants process `proc` to submit nothing before `until_ns`.
    HW_DELAY = 4,
    /// hw_step only: an input was refused with code `error`; `io` or `req` says which.
    HW_REFUSED = 5,
}

/// What an input of hw_step is (hw_input.kind): the function that does the same alone.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hw_input_kind {
    /// hw_tick.
    HW_IN_TICK = 0,
    /// hw_submit: `io`.
    HW_IN_SUBMIT = 1,
    /// hw_done: `req`, `error`.
    HW_IN_DONE = 2,
    /// hw_requeue: `req`.
    HW_IN_REQUEUE = 3,
    /// hw_plug: `proc`.
    HW_IN_PLUG = 4,
    /// hw_unplug: `proc`.
    HW_IN_UNPLUG = 5,
    /// hw_sleep: `proc`.
    HW_IN_SLEEP = 6,
}

/// A device. Zero is the usual in every field but the first three.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hw_device {
    /// sizeof(struct hw_device).
    pub size: u32,
    /// Requests it takes at a time: 1 to 16384.
    pub queue_depth: u32,
    /// Its size in sectors of 512 bytes: 1 to 2^54.
    pub sectors: u64,
    /// hw_device_flag, added up.
    pub flags: u32,
    /// I/Os for which there is room from the start, up to 65536; 0: 256. More may be submitted.
    pub ios: u32,
    /// Hardware queues, up to 256; 0: 1. With the larger of queue_depth, nr_requests and 256 not above 65536.
    pub hw_queues: u32,
    /// Requests that may exist for each hardware queue, 4 to 2048; 0: by depth and scheduler, as in Linux.
    pub nr_requests: u32,
    /// Largest request in sectors, 8 to 131072; 0: 2560.
    pub max_sectors: u32,
    /// Most segments of a request, up to 65535; 0: 128.
    pub max_segments: u32,
    /// No request crosses a multiple of so many sectors, at least 8; 0: no such rule.
    pub chunk_sectors: u32,
    /// Largest discard in sectors, below HW_IO_SECTORS_END; 0: it knows no discard.
    pub discard_sectors: u32,
    /// Unit of discards in sectors, up to 65536; 0: 8.
    pub discard_granularity: u32,
    /// Zero.
    pub reserved: u32,
}

/// An I/O. Zero is the usual in every field but size, id, sector and sectors.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hw_io {
    /// sizeof(struct hw_io).
    pub size: u32,
    /// hw_op.
    pub op: u32,
    /// The caller's name for it, which events repeat; need not be unique for the stack.
    pub id: u64,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors: 1 to HW_IO_SECTORS_END - 1; HW_FLUSH: 0.
    pub sectors: u32,
    /// Segments of memory; 0: one for 8 sectors.
    pub segments: u32,
    /// Who submits it (hw_add_proc), or HW_PROC_NONE.
    pub proc: u32,
    /// Who pays (hw_add_group); 0: the group of the process.
    pub group: u32,
    /// Where it is submitted, below HW_CPUS; chooses the hardware queue.
    pub cpu: u32,
    /// hw_flag, added up.
    pub flags: u32,
    /// Its priority, class << 13 | level as for ioprio_set; 0: that of the process.
    pub priority: u32,
    /// Zero.
    pub reserved: u32,
}

/// One input of hw_step.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hw_input {
    /// When, as in all calls; not earlier than the input before.
    pub now_ns: u64,
    /// hw_input_kind.
    pub kind: u32,
    /// HW_IN_DONE: 0, or how it failed.
    pub error: i32,
    /// HW_IN_DONE, HW_IN_REQUEUE: the request.
    pub req: u64,
    /// HW_IN_PLUG, HW_IN_UNPLUG, HW_IN_SLEEP: the process.
    pub proc: u32,
    /// Zero.
    pub reserved: u32,
    /// HW_IN_SUBMIT: the I/O.
    pub io: hw_io,
}

/// One event. Fields that its kind does not name are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hw_event {
    /// hw_event_kind.
    pub kind: u32,
    /// HW_FINISHED: 0 or hw_errno; HW_REFUSED: hw_code.
    pub error: i32,
    /// The request, for hw_done. Its number comes again only after 2^32 others in the same place.
    pub req: u64,
    /// The caller's id of the I/O.
    pub io: u64,
    /// HW_WAIT, HW_DELAY: a time.
    pub until_ns: u64,
    /// HW_ISSUE: first sector.
    pub sector: u64,
    /// HW_ISSUE: length in sectors.
    pub sectors: u32,
    /// HW_ISSUE: hw_op.
    pub op: u32,
    /// HW_ISSUE: hw_flag of the first piece.
    pub flags: u32,
    /// HW_ISSUE: I/Os, or parts of them, that the request is made of.
    pub pieces: u32,
    /// HW_ISSUE: hardware queue.
    pub queue: u32,
    /// HW_ISSUE: who submitted the first piece; HW_DELAY: who is to wait.
    pub proc: u32,
}

impl hw_event {
    /// All zero, which is HW_WAIT until 0.
    pub(crate) const NONE: hw_event = hw_event {
        kind: 0,
        error: 0,
        req: 0,
        io: 0,
        until_ns: 0,
        sector: 0,
        sectors: 0,
        op: 0,
        flags: 0,
        pieces: 0,
        queue: 0,
        proc: 0,
    };
}

/// A part of a request that belongs to one I/O.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hw_piece {
    /// The caller's id of the I/O.
    pub io: u64,
    /// First sector on the device.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Zero.
    pub reserved: u32,
}

/// What a stack has done so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hw_counters {
    /// sizeof(struct hw_counters).
    pub size: u32,
    /// Requests with the device now.
    pub in_flight: u32,
    /// I/Os submitted.
    pub submitted: u64,
    /// I/Os finished.
    pub finished: u64,
    /// I/Os that joined a request.
    pub merged: u64,
    /// Requests that joined another request.
    pub joined: u64,
    /// Requests handed to the device, flushes of the stack's own included.
    pub issued: u64,
    /// Requests that the device has completed.
    pub completed: u64,
    /// Times a submitter had to wait for a free request.
    pub tag_waits: u64,
    /// Requests that the scheduler chose among at least two.
    pub chosen: u64,
}

/// A setting. Its texts live as long as the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hw_tunable {
    /// sizeof(struct hw_tunable).
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Its name.
    pub name: *const c_char,
    /// The unit of its value, empty for a plain number, a switch or a choice.
    pub unit: *const c_char,
    /// The words of a choice, separated by commas; the value is the index of one. NULL: no choice.
    pub words: *const c_char,
    /// What it does.
    pub doc: *const c_char,
    /// What a change does to what is under way.
    pub effect: *const c_char,
    /// Value of a new stack.
    pub usual: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
}
