//! What the block layer knows about a device, and in which generation of it the device lives.

use crate::knob::DevNo;
use crate::request::{Flags, Op};
use crate::unit::{Nanos, QueueId, Sectors};
use alloc::vec::Vec;

/// Which block layer surrounds the scheduler (specs/blk-mq-and-noop.md: legacy and modern).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The single-queue request layer of 2.6.30 to 2.6.34.
    Legacy,
    /// blk-mq as of Linux 6.1.
    #[default]
    MultiQueue,
}

/// How a task that finds no free tag waits (specs/blk-mq-and-noop.md section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagWait {
    /// Eight wait lists and batched wake-ups, as in Linux 6.1.
    #[default]
    Kernel,
    /// The oldest waiter whose depth limit allows it is handed the freed tag.
    Fifo,
}

/// Whole of which a scheduler's depth limit is a part (specs/blk-mq-and-noop.md section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// Each word of tags: a limited submitter sees the first places of every word (Linux up to 6.16).
    #[default]
    Words,
    /// The tags as a whole: it sees the first places of the set (Linux 6.17 and later).
    Plain,
}

/// Hardware queues that are run at the end of every request (specs/blk-mq-and-noop.md 7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAtCompletion {
    /// Nobody's: Linux from 5.10.
    #[default]
    Never,
    /// Those of drives behind the SCSI layer ([`Device::scsi`]): Linux before 5.10.
    Scsi,
}

/// Which bios merge (the `nomerges` file of sysfs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merging {
    /// All look-ups.
    #[default]
    All,
    /// The one-hit cache and the plug only.
    Simple,
    /// None.
    Never,
}

/// One block device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its number in the lines of cgroup files.
    pub number: DevNo,
    /// Generation of the block layer.
    pub profile: Profile,
    /// Spinning disk.
    pub rotational: bool,
    /// Size.
    pub capacity: Sectors,
    /// Number of hardware queues.
    pub hw_queues: u16,
    /// Driver tags of the whole device (drives.md 1.2).
    pub queue_depth: u32,
    /// Requests that may exist: per pool (legacy), scheduler tags per hardware queue (multi-queue), or
    /// the driver tags when there is no scheduler.
    pub nr_requests: u32,
    /// Largest request built by merging or splitting.
    pub max_sectors: Sectors,
    /// Largest number of scatter-gather segments of a request.
    pub max_segments: u32,
    /// Requests must not cross multiples of this; 0 = no such rule.
    pub chunk_sectors: Sectors,
    /// Largest discard; 0 = discards are not supported.
    pub max_discard_sectors: Sectors,
    /// Granularity of discards.
    pub discard_granularity: Sectors,
    /// Ranges per discard command.
    pub max_discard_segments: u32,
    /// Volatile write cache present.
    pub write_cache: bool,
    /// The device knows forced unit access.
    pub fua: bool,
    /// A flush runs alone (SATA, PATA, SD, eMMC, USB).
    pub flush_nonqueued: bool,
    /// `nomerges`.
    pub merging: Merging,
    /// `overask`: a scheduler may be asked for one request more than there are driver tags.
    pub overask: bool,
    /// `none` hands a flushed plug over newest first, as Linux 5.16 to about 6.12 did
    /// (specs/blk-mq-and-noop.md section 4).
    pub none_plug_lifo: bool,
    /// How tasks wait for tags.
    pub tag_wait: TagWait,
    /// Whole of which depth limits are a part.
    pub tags: Tags,
    /// `nr_requests` when the scheduler tags were made, which fixes the size of their words: a smaller
    /// number later keeps it. The stack keeps this; 0: the present number.
    pub tags_made_for: u32,
    /// Where every CPU first looks for a scheduler tag, modulo their number. The kernel draws it at
    /// random.
    pub tag_hint: u32,
    /// The driver wants its tags in turn (libata: SATA drives).
    pub tags_round_robin: bool,
    /// Behind the SCSI layer: SATA (through libata) and USB.
    pub scsi: bool,
    /// Queues that are run at the end of every request.
    pub run_at_completion: RunAtCompletion,
    /// After a run in which the scheduler withheld everything all queues are run again some milliseconds
    /// later (younger than Linux 5.3).
    pub delayed_rerun: bool,
    /// Who closes a plug runs the queue itself, and a delayed rerun stays pending; otherwise that run replaces it, as one
    /// by the queue's work item does.
    pub plug_keeps_rerun: bool,
    /// Length of the kernel's tick.
    pub tick: Nanos,
    /// Delay between the completion that makes a flush possible and its issue (drives.md 1.2).
    pub flush_kick_delay: Nanos,
    /// Sector ranges of independent actuators; empty or one entry for a single one.
    pub actuators: Vec<(Sectors, Sectors)>,
}

impl Device {
    /// A multi-queue device with one hardware queue and the usual limits.
    pub fn new(capacity: Sectors, queue_depth: u32) -> Device {
        let mut device = Device {
            number: DevNo::default(),
            profile: Profile::MultiQueue,
            rotational: false,
            capacity,
            hw_queues: 1,
            queue_depth,
            nr_requests: 0,
            max_sectors: Sectors(2560),
            max_segments: 128,
            chunk_sectors: Sectors(0),
            max_discard_sectors: Sectors(0),
            discard_granularity: Sectors(8),
            max_discard_segments: 1,
            write_cache: false,
            fua: false,
            flush_nonqueued: false,
            merging: Merging::All,
            overask: false,
            none_plug_lifo: false,
            tag_wait: TagWait::Kernel,
            tags: Tags::Words,
            tags_made_for: 0,
            tag_hint: 0,
            tags_round_robin: false,
            scsi: false,
            run_at_completion: RunAtCompletion::Never,
            delayed_rerun: true,
            plug_keeps_rerun: true,
            tick: Nanos::ms(4),
            flush_kick_delay: Nanos::us(20),
            actuators: Vec::new(),
        };
        device.nr_requests = device.default_nr_requests(true);
        device
    }

    /// The usual number of requests (specs/blk-mq-and-noop.md sections 5 and 6).
    pub fn default_nr_requests(&self, with_scheduler: bool) -> u32 {
        match (self.profile, with_scheduler) {
            (Profile::Legacy, _) => 128,
            (Profile::MultiQueue, true) => 2 * self.queue_depth.min(128),
            (Profile::MultiQueue, false) => self.queue_depth,
        }
    }

    /// The places among which a [`Depth::Word`](crate::sched::Depth::Word) counts: those of a word of
    /// tags, or all requests where there are no words.
    pub fn tag_word(&self) -> u32 {
        match (self.profile, self.tags) {
            (Profile::MultiQueue, Tags::Words) => {
                word_places(self.tags_made_for.max(self.nr_requests))
            }
            (Profile::MultiQueue, Tags::Plain) | (Profile::Legacy, _) => self.nr_requests.max(1),
        }
    }

    /// Somebody waits for it. Legacy: a read, or SYNC. Modern: a read, or any of SYNC, FUA, PREFLUSH.
    #[inline]
    pub fn is_sync(&self, op: Op, flags: Flags) -> bool {
        let waits = match self.profile {
            Profile::Legacy => Flags::SYNC,
            Profile::MultiQueue => Flags::SYNC | Flags::FUA | Flags::PREFLUSH,
        };
        op == Op::Read || flags.any(waits)
    }

    /// The hardware queue of a CPU.
    #[inline]
    pub fn queue_of(&self, cpu: u32) -> QueueId {
        let queues = u32::from(self.hw_queues);
        // A division is dear, and most CPUs have a queue of their own.
        QueueId(if cpu < queues { cpu } else { cpu % queues } as u16)
    }
}

/// Places of a word in a set of `tags`: the largest power of two up to 64 of which four are not more than
/// `tags`; a set of fewer than four is one word.
pub(crate) fn word_places(tags: u32) -> u32 {
    if tags < 4 { 64 } else { 1 << (tags / 4).ilog2().min(6) }
}
