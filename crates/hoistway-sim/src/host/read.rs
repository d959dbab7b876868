//! Buffered reads and the read-ahead they cause (specs/host.md 5).

use super::ahead::{Ahead, Limits, Window};
use super::bio::{BioKind, Pending};
use super::cache::PAGE;
use super::kernel::Kernel;
use super::op::{Act, Advice, Ran};
use super::task::{OpStep, Task};
use super::wait::Wait;
use hoistway::{Flags, Instant, Nanos, Op};

/// A run of buffered reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Where the current call begins.
    offset: u64,
    /// Bytes of a call.
    bs: u64,
    /// Calls not over yet, the current one included.
    left: u64,
    /// When the current call began.
    begun: Instant,
    /// First page of the current call that it has not read.
    at: u64,
    /// The current call is under way.
    entered: bool,
}

impl Reading {
    /// `count` calls of `bs` bytes from `offset` on.
    pub fn new(offset: u64, bs: u64, count: u64, now: Instant) -> Reading {
        Reading { offset, bs, left: count, begun: now, at: offset / PAGE, entered: false }
    }

    /// Since when a call has been open.
    pub fn begun(&self) -> Option<Instant> {
        self.entered.then_some(self.begun)
    }

    /// One buffered read, or a run of them (host.md 5.1 and 1.3).
    #[inline]
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let Reading { offset, bs, left, begun, at, entered } = *self;
        if left == 0 {
            return OpStep::Over;
        }
        if !entered && let Some(act) = task.held_back(now) {
            return OpStep::Act(act);
        }
        let open = task.opened();
        let file = open.file;
        debug_assert!(offset + bs * left <= k.files[file].bytes, "a load reads inside its file");
        let (word, bit) = k.cache.at(file, at);
        if word.ready & !word.marker & bit == 0 {
            self.entered = true;
            let page = Standing {
                file,
                page: at,
                want: (offset + bs).div_ceil(PAGE) - at,
                absent: word.cached & bit == 0,
                marked: word.cached & word.marker & bit != 0,
                out: word.out & bit != 0,
            };
            return page.step(now, task, k);
        }
        let cost = k.costs.call(bs);
        let calls = task.run_length(now, left, cost);
        let open = task.opened();
        let end = (offset + bs * calls).div_ceil(PAGE);
        let page = k.cache.find(file, at + 1, end, |w| !(w.ready & !w.marker));
        let done = if page == end { calls } else { (page * PAGE).saturating_sub(offset) / bs };
        if done == 0 {
            // The current call cannot be done at once: it stands at `page`.
            open.ahead.prev = Some(page - 1);
            (self.at, self.entered) = (page, true);
            return OpStep::Again;
        }
        let last = (offset + bs * done - 1) / PAGE;
        k.cache.touch(file, offset / PAGE, last + 1);
        k.reads.hits += last + 1 - offset / PAGE;
        open.ahead.prev = Some(last);
        let until = now + Nanos(cost * done);
        *self = Reading::new(offset + bs * done, bs, left - done, until);
        let first_end = now + Nanos(cost);
        let (first, each) = (first_end - begun, Nanos(cost));
        let (calls, bytes, write) = (done, bs, false);
        k.ran = Ran { first, first_end, each, calls, bytes, write, until };
        OpStep::Act(Act::Ran)
    }
}

/// The reader stands at a page that is absent, marked, or not there yet.
#[derive(Clone, Copy, Debug)]
struct Standing {
    file: u32,
    page: u64,
    /// Pages of the call from this one on.
    want: u64,
    absent: bool,
    marked: bool,
    /// Under write-back.
    out: bool,
}

impl Standing {
    #[inline]
    fn step(&self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let Standing { file, page, absent, marked, .. } = *self;
        if !absent && !marked {
            return OpStep::Act(k.block_on(now, task.p, file, Wait::Page(page)));
        }
        if marked {
            k.cache.unmark(file, page);
        }
        if absent {
            k.reads.misses += 1;
        }
        let before = task.opened().ahead;
        let Some(window) = self.window(task, k) else { return OpStep::Again };
        let whole = request(task, k, file, window, absent);
        if absent && task.submission.is_empty() && !whole {
            // Not one page: it asks for the same again when there may be room.
            task.opened().ahead = before;
            return k.wait_for_memory(now, task.p);
        }
        k.submit(task, true);
        OpStep::Again
    }

    /// The window to request, if any (host.md 5.1).
    fn window(&self, task: &mut Task, k: &Kernel) -> Option<Window> {
        let Standing { file, page, want, absent, .. } = *self;
        // A congested group must not have the device read what nobody has asked for.
        let single = k.config.read_ahead_kb == 0 || task.congested;
        let open = task.opened();
        if open.advice == Advice::Random || single {
            let to = if single { page + 1 } else { page + want };
            return absent.then_some(Window { from: page, to, marker: None });
        }
        if !absent && self.out {
            return None;
        }
        let doubled = if open.advice == Advice::Sequential { 2 } else { 1 };
        let limits = Limits {
            max: k.config.read_ahead_kb / 4 * doubled,
            request: k.request_pages,
            variant: k.config.readahead_variant,
        };
        Ahead::advance(&mut open.ahead, &limits, &k.cache, file, page, want, !absent)
    }
}

/// Requests the absent pages of a window (host.md 5.2 and 5.4); false if memory did not suffice for all
/// of them. `waits`: the reader goes on to wait for the first.
fn request(task: &mut Task, k: &mut Kernel, file: u32, window: Window, waits: bool) -> bool {
    let to = window.to.min(k.cache.pages(file));
    if window.marker.is_some() {
        k.reads.windows += 1;
    }
    let group = task.info.group;
    let mut whole = true;
    let mut at = window.from;
    while at < to {
        let a = k.cache.find(file, at, to, |w| !w.cached);
        if a == to {
            break;
        }
        let f = &k.files[file];
        let most = f.run_end(a, to.min(a + k.bio_pages));
        let (hole, start) = (!f.blocks.has(a), f.place(a));
        // A hole is read without the device.
        let Some(b) = k.cache.insert_absent(file, a, most, hole, group) else {
            // The window ends here.
            whole = false;
            break;
        };
        if let Some(marker) = window.marker
            && a <= marker
            && marker < b
        {
            k.cache.mark(file, marker);
        }
        at = b;
        if hole {
            continue;
        }
        k.reads.ahead_pages += b - a;
        task.submission.push(Pending {
            kind: BioKind::Read,
            op: Op::Read,
            flags: if k.legacy { Flags::NONE } else { Flags::RAHEAD },
            group,
            file,
            first: a,
            seq: 0,
            order: 0,
            start,
            len: (b - a) * PAGE,
            cpu: k.checksum((b - a) * PAGE),
        });
    }
    if k.legacy && waits {
        task.submission.flag_last(Flags::SYNC | Flags::UNPLUG);
    }
    whole
}
