//! What a scheduler of this interface is told and asked.

use std::fmt::Debug;

/// A request as it is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number in this run, from 1; one that the device gave back keeps it.
    pub number: u64,
    /// Number of the process that asked for it.
    pub process: u32,
    /// 0 read, 1 write, 2 discard, 3 flush, 4 write zeroes.
    pub op: u32,
    /// [`Request::SYNC`] and [`Request::RETURNED`].
    pub flags: u32,
    /// Priority as the kernel writes it: class << 13 | level.
    pub prio: u32,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Length in sectors, at most 2^32 - 1.
    pub sectors: u32,
}

impl Request {
    /// Somebody waits for it.
    pub const SYNC: u32 = 1;
    /// The device gave it back: it is to go before all others.
    pub const RETURNED: u32 = 2;
}

/// A scheduler of the interface of docs/reference/plugin.md: a module, a class of Python, or the same algorithm compiled into
/// the program. Times
/// are ns from the start of the run, and never go back.
pub trait Guest: Debug + Send {
    /// Sets row `row` of the settings, counted from 0. Called for each row before anything else.
    fn set(&mut self, row: u32, value: u64);

    /// A request waits from now on.
    fn insert(&mut self, now: u64, request: &Request);

    /// The number of the request that goes to the device next; it waits no longer. 0: none now, ask again after 3 ms at the
    /// latest. Asked only while requests wait.
    fn dispatch(&mut self, now: u64) -> u64;

    /// A request waits no longer: it was merged into another, or taken by the stack.
    fn gone(&mut self, now: u64, number: u64);

    /// The device has served a request.
    fn done(&mut self, _now: u64, _number: u64) {}

    /// A request that waits is now this one: something was merged into it, which gave it another beginning or length.
    fn grown(&mut self, _now: u64, _request: &Request) {}
}
