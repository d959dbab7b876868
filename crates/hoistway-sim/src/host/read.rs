//! Buffered reads and the read-ahead they cause (specs/host.md 5).

use super::ahead::{Limits, Window};
use super::process::{Reading, Stage, Wait};
use super::submit::{Kind, Pending};
use super::{Act, Advice, Host, PAGE, Ran};
use hoistway::{Flags, Instant, Nanos, Op, Profile};

impl Host {
    /// One buffered read, or a run of them (host.md 5.1 and 1.3).
    pub(super) fn read(&mut self, now: Instant, p: usize, reading: Reading) -> Option<Act> {
        let Reading { offset, bs, left, begun, at, entered } = reading;
        if left == 0 {
            self.procs[p].stage = Stage::Over;
            return None;
        }
        if !entered && let Some(act) = self.held_back(now, p) {
            return Some(act);
        }
        let cost = self.call_cost(bs);
        let calls = self.run_length(now, p, left, cost);
        let open = self.procs[p].open.expect("a load opens its file before it reads");
        let file = &mut self.files[open.file as usize];
        debug_assert!(offset + bs * left <= file.bytes, "a load reads inside its file");
        let end = (offset + bs * calls).div_ceil(PAGE);
        let page = file.cache.find(at, end, |w| !(w.ready & !w.marker));
        let done = if page == end { calls } else { (page * PAGE).saturating_sub(offset) / bs };
        if done > 0 {
            let last = (offset + bs * done - 1) / PAGE;
            file.cache.touch(offset / PAGE, last + 1);
            self.counts.hits += last + 1 - offset / PAGE;
            if let Some(open) = &mut self.procs[p].open {
                open.ahead.prev = Some(last);
            }
            let until = now + Nanos(cost * done);
            let offset = offset + bs * done;
            self.procs[p].stage = Stage::Read(Reading {
                offset,
                bs,
                left: left - done,
                begun: until,
                at: offset / PAGE,
                entered: false,
            });
            let first_end = now + Nanos(cost);
            let first = first_end - begun;
            let each = Nanos(cost);
            return Some(Act::Ran(Ran { first, first_end, each, calls: done, bytes: bs, until }));
        }
        // The current call cannot be done at once: it stands at `page`.
        if let Some(open) = &mut self.procs[p].open
            && page > offset / PAGE
        {
            open.ahead.prev = Some(page - 1);
        }
        self.procs[p].stage = Stage::Read(Reading { at: page, entered: true, ..reading });
        let want = (offset + bs).div_ceil(PAGE) - page;
        self.stand(now, p, open.file, page, want)
    }

    /// The reader stands at a page that is absent, marked, or not there yet.
    fn stand(&mut self, now: Instant, p: usize, file: u32, page: u64, want: u64) -> Option<Act> {
        let cache = &mut self.files[file as usize].cache;
        let absent = !cache.is(page, |w| w.cached);
        let marked = !absent && cache.is(page, |w| w.marker);
        if !absent && !marked {
            return Some(self.block(now, p, file, Wait::Page(page)));
        }
        let single = self.config.read_ahead_kb == 0 || self.procs[p].congested;
        let open = self.procs[p].open.as_mut().expect("it is reading");
        let plain = open.advice == Advice::Random || single;
        let mut window = None;
        let before = open.ahead;
        if marked {
            cache.unmark(page);
        }
        if absent {
            self.counts.misses += 1;
        }
        if plain && absent {
            let to = if single { page + 1 } else { page + want };
            window = Some(Window { from: page, to, marker: None });
        } else if !plain && (absent || !cache.is(page, |w| w.out)) {
            let doubled = if open.advice == Advice::Sequential { 2 } else { 1 };
            let limits = Limits {
                max: self.config.read_ahead_kb / 4 * doubled,
                request: self.request_pages,
                variant: self.config.readahead_variant,
            };
            window = open.ahead.advance(&limits, cache, page, want, marked);
        }
        if let Some(window) = window {
            self.request(p, file, window, absent);
            if absent && self.procs[p].batch.is_empty() && self.short_of_memory {
                // Not one page: it asks for the same again when there may be room.
                if let Some(open) = &mut self.procs[p].open {
                    open.ahead = before;
                }
                return self.wait_for_memory(now, p);
            }
            self.submit(p, true);
        }
        None
    }

    /// Requests the absent pages of a window (host.md 5.2 and 5.4).
    fn request(&mut self, p: usize, file: u32, window: Window, waits: bool) {
        let to = window.to.min(self.files[file as usize].cache.pages());
        if window.marker.is_some() {
            self.counts.windows += 1;
        }
        let legacy = self.config.block_profile == Profile::Legacy;
        let group = self.procs[p].info.group;
        self.short_of_memory = false;
        let mut at = window.from;
        loop {
            let cache = &self.files[file as usize].cache;
            let a = cache.find(at, to, |w| !w.cached);
            if a >= to {
                break;
            }
            let mut b = cache.find(a, to.min(a + self.bio_pages), |w| w.cached);
            // A hole is read without the device.
            let hole = self.files[file as usize].sparse && !cache.is(a, |w| w.mapped);
            if self.files[file as usize].sparse {
                b = cache.find(a, b, |w| if hole { w.mapped } else { !w.mapped });
            }
            if !self.memory.insert(&mut self.files, file, a, b, hole, group) {
                // The window ends here.
                self.short_of_memory = true;
                break;
            }
            let f = &mut self.files[file as usize];
            if let Some(marker) = window.marker
                && a <= marker
                && marker < b
            {
                f.cache.mark(marker);
            }
            at = b;
            if hole {
                continue;
            }
            self.counts.ahead_pages += b - a;
            self.procs[p].batch.push(Pending {
                kind: Kind::Read,
                op: Op::Read,
                flags: if legacy { Flags::NONE } else { Flags::RAHEAD },
                group,
                file,
                first: a,
                seq: 0,
                order: 0,
                start: f.start + a * PAGE,
                len: (b - a) * PAGE,
            });
        }
        if legacy
            && waits
            && let Some(last) = self.procs[p].batch.last_mut()
        {
            last.flags |= Flags::SYNC | Flags::UNPLUG;
        }
    }
}
