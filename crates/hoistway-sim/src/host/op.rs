//! The vocabulary between the host and its caller: what a process asks for ([`Operation`]), what it does
//! next ([`Act`]), what calls took ([`Ran`]).

use hoistway::{Flags, GroupId, Instant, IoPrio, Nanos, ProcId};

/// A file of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(pub u32);

/// A rendezvous of processes ([`super::Host::barrier`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierId(pub u32);

/// A process's advice on the file it has opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// None.
    #[default]
    Normal,
    /// The read-ahead limit is doubled.
    Sequential,
    /// No read-ahead.
    Random,
}

/// What follows a buffered write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncKind {
    /// Nothing.
    #[default]
    No,
    /// fdatasync, which counts into the call's latency.
    Data,
    /// fsync, which counts into the call's latency.
    Full,
    /// fsync, and only its time counts as the call's latency.
    FullAlone,
}

/// What a process asks of its host, one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// Opens a file afresh: forgets the read-ahead state.
    Open {
        /// Which.
        file: FileId,
        /// What it will do.
        advice: Advice,
    },
    /// Turns to the other file of the process, which has room for two: the one that was open before the last
    /// time it turned, with its read-ahead state. A copy reads one and writes the other.
    TurnOver,
    /// Turns to one of any number of files of the process, each with the read-ahead state that it was left with.
    TurnTo {
        /// Which.
        file: FileId,
        /// What it will do, if the file is opened.
        advice: Advice,
        /// It is opened afresh; one that has not been opened is so anyway.
        afresh: bool,
    },
    /// Starts the write-back of the file's dirty pages and drops the clean ones (host.md 4.3).
    DontNeed(FileId),
    /// The same for the pages of a part of it.
    DontNeedPart {
        /// Which file.
        file: FileId,
        /// From where; a multiple of the page.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// `count` buffered calls of `bs` bytes, one behind the other, from `offset` on. The file is open.
    Read {
        /// From where.
        offset: u64,
        /// Bytes of a call.
        bs: u64,
        /// Number of calls.
        count: u64,
    },
    /// The same with writes, into blocks that exist; whole pages only.
    Write {
        /// From where.
        offset: u64,
        /// Bytes of a call, a multiple of the page.
        bs: u64,
        /// Number of calls.
        count: u64,
        /// What follows the last call.
        sync: SyncKind,
    },
    /// One direct call (host.md 6). The file is open.
    Direct {
        /// A write into blocks that exist, instead of a read.
        write: bool,
        /// From where; a multiple of the sector size.
        offset: u64,
        /// How much; a multiple of the sector size.
        len: u64,
        /// When it was meant to be issued, if not now: latency counts from there.
        since: Option<Instant>,
        /// It is followed by an fdatasync, which counts into its latency.
        sync: bool,
    },
    /// One direct call that the process does not wait for (host.md 6, asynchronous). The file is open.
    Queue {
        /// A write into blocks that exist, instead of a read.
        write: bool,
        /// From where; a multiple of the sector size.
        offset: u64,
        /// How much; a multiple of the sector size.
        len: u64,
        /// When it was meant to be issued, if not now: latency counts from there.
        since: Option<Instant>,
        /// How many calls may be open.
        room: Room,
    },
    /// Waits for all calls of [`Operation::Queue`] and collects them.
    Collect,
    /// fdatasync of a file.
    Fdatasync(FileId),
    /// fsync of a file.
    Fsync(FileId),
    /// sync(): everything dirtied so far, of all files.
    Sync,
    /// Makes a declared file, or empties it if it exists.
    Create(FileId),
    /// Deletes it: its pages and blocks are gone, dirty or not.
    Unlink(FileId),
    /// Drops all clean pages of all files.
    DropCaches,
    /// Straight to the block layer.
    Block(BlockIo),
    /// Waits until every process that has joined this barrier has come to it.
    Barrier(BarrierId),
    /// Nothing that the host does itself; takes no time.
    Tell(Notice),
    /// Computes for so long on a processor of its own, longer where processors are shared (`cpus`).
    Compute(Nanos),
    /// Nothing until then.
    Sleep(Instant),
    /// The process ends.
    Exit,
}

/// How a process keeps its queue of asynchronous calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Calls open at most; at least 1.
    pub depth: u32,
    /// A full queue is emptied until so many are open, below `depth`.
    pub low: u32,
    /// It waits for at least so many calls at a time.
    pub batch: u32,
    /// The call is held back and goes to the block layer together with the one that follows.
    pub more: bool,
}

impl Room {
    /// A queue that is filled again whenever a call is over.
    pub fn of(depth: u32) -> Room {
        Room { depth, low: depth - 1, batch: 1, more: false }
    }
}

/// Calls that are over: the first took `first` and ended at `first_end`, each further one took `each`
/// and followed at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    /// Latency of the first call.
    pub first: Nanos,
    /// When it ended.
    pub first_end: Instant,
    /// Latency of each further call.
    pub each: Nanos,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of one call.
    pub bytes: u64,
    /// They write.
    pub write: bool,
    /// When the process goes on; ask again then.
    pub until: Instant,
}

impl Ran {
    /// No calls.
    pub(super) const NONE: Ran = Ran {
        first: Nanos::ZERO,
        first_end: Instant::ZERO,
        each: Nanos::ZERO,
        calls: 0,
        bytes: 0,
        write: false,
        until: Instant::ZERO,
    };
}

/// What a process does next. An act is two words: what belongs to it besides a time the [`super::Host`] keeps until the
/// next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It opens a plug section. Ask again at once.
    Plug,
    /// It opens a plug section, and is busy. Ask again then.
    PlugUntil(Instant),
    /// It closes the plug section. Ask again at once.
    Unplug,
    /// As `Submit`, of the only I/O of a plug section: the caller may close that, too ([`super::Host::passed`]).
    SubmitAlone,
    /// It submits an I/O ([`super::Host::submitted`]). Ask again when the submission is over (accepted).
    Submit,
    /// It is busy. Ask again then.
    WaitUntil(Instant),
    /// Calls are over ([`super::Host::ran`]).
    Ran,
    /// It pauses until then, because too much is dirty.
    Throttled(Instant),
    /// Calls are over ([`super::Host::ran`]), and behind them it pauses until then, because too much is dirty. Only if the
    /// caller has said that nobody else acts until they end ([`super::Host::alone_until`]).
    RanThrottled(Instant),
    /// It waits for I/O; [`super::Host::woken`] says when it goes on.
    Block,
    /// It has nothing to do; [`super::Host::woken`] says when it goes on.
    Rest,
    /// Something for the caller to carry out ([`super::Host::notice`]). Ask again at once.
    Tell,
    /// The operation is over: [`super::Host::begin`] another one, at this instant.
    Finished,
    /// It has reached its stop time between two calls.
    Stopped,
    /// It has exited.
    Exited,
    /// The model cannot do that ([`super::Host::fault`]).
    Fault,
}

/// Who a process is to the host.
#[derive(Clone, Copy, Debug)]
pub struct ProcInfo {
    /// Its id in the block layer.
    pub id: ProcId,
    /// Its group.
    pub group: GroupId,
    /// Its effective I/O priority.
    pub prio: IoPrio,
    /// Its CPU.
    pub cpu: u32,
}

/// A block I/O of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockIo {
    /// A write instead of a read.
    pub write: bool,
    /// First byte on the device, a multiple of 512.
    pub start: u64,
    /// Bytes, a multiple of 512, above 0.
    pub len: u64,
    /// Flags of the bios, as given.
    pub flags: Flags,
    /// The process waits: first for everything this identity has under way, then for this I/O. Without
    /// it the I/O is only submitted.
    pub wait: bool,
}

/// What a load says to the caller of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// What follows is done by another process of the block layer: the load's own of that slot, made when
    /// it is first named. [`super::Host::become_proc`] is to follow.
    RunAs {
        /// Number among the processes of this load.
        slot: u32,
        /// Its name, for the record.
        name: &'static str,
        /// It outlives [`Notice::EndProcs`].
        lasting: bool,
    },
    /// The load's processes of the block layer exit, but for the lasting ones.
    EndProcs,
    /// A mark for the record.
    Mark(&'static str),
    /// The mark of something that was given up: it took longer than this.
    GivenUp(Nanos),
    /// So many more of what the load counts, one of the names its registry entry declares. Counted while
    /// measuring goes on.
    Count {
        /// Which count.
        what: &'static str,
        /// How many.
        n: u64,
    },
    /// A phase of the load begins, or goes on; another one that was on is over. Calls of this process
    /// count also into the phase.
    Phase(&'static str),
    /// The phase is over, and no other begins.
    PhaseEnd,
}

/// What happened to pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// The page is no longer cached.
    Dropped {
        /// Its file.
        file: FileId,
        /// Its number in the file.
        page: u64,
    },
    /// A process has written pages.
    Dirtied {
        /// The process, by its number at the host.
        p: usize,
        /// The file.
        file: FileId,
        /// The first page.
        from: u64,
        /// The page behind the last.
        to: u64,
    },
}

/// What a bio moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bio {
    /// Pages of a file's cache.
    Cached {
        /// The file.
        file: FileId,
        /// The first page.
        first: u64,
        /// How many.
        pages: u64,
    },
    /// Data of a process's own, past the cache: by its number at the host.
    Own(usize),
}
