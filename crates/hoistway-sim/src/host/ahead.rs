//! Read-ahead: which window of pages to request next (specs/host.md 5.2 and 5.3).
//!
//! A reader that goes on where it left off is given windows that grow up to a limit. The first page of
//! the newest window carries a *marker*: touching it requests the next window before the reader has to
//! wait for it. Sources: F. Wu, H. Xi, C. Xu, "On the Design of a New Linux Readahead Framework", ACM
//! SIGOPS OSR 42(5), 2008; specs/host.md 5.

use super::cache::PageCache;

/// Which generation of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Linux 6.1; `large_requests`: the rule for requests above the window limit (host.md 5.2, step 0),
    /// which 2.6.31 to 2.6.36 did not have.
    Ra61 {
        /// Step 0 applies.
        large_requests: bool,
    },
    /// Linux 2.6.30.
    Ra30,
}

impl Default for Variant {
    fn default() -> Variant {
        Variant::Ra61 { large_requests: true }
    }
}

/// State of one open file: the window requested last, and the page read last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    start: u64,
    size: u64,
    /// Distance of the marker from the window's end.
    lag: u64,
    /// The page read last.
    pub prev: Option<u64>,
}

/// Limits in force, in pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest window.
    pub max: u64,
    /// Largest request of the device.
    pub request: u64,
    /// The rules.
    pub variant: Variant,
}

/// Pages to request: [from, to), with a marker on one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub from: u64,
    pub to: u64,
    pub marker: Option<u64>,
}

impl Ahead {
    /// The reader stands at page `p` of a call that still wants `req` pages; the page is absent, or
    /// (`marked`) carries the marker.
    pub fn advance(
        &mut self,
        limits: &Limits,
        cache: &PageCache,
        file: u32,
        p: u64,
        req: u64,
        marked: bool,
    ) -> Option<Window> {
        match limits.variant {
            Variant::Ra61 { large_requests } => {
                let mut m = limits.max;
                if large_requests && req > m && limits.request > m {
                    m = req.min(limits.request);
                }
                self.ra61(m, cache, file, p, req, marked)
            }
            Variant::Ra30 => self.ra30(limits.max, cache, file, p, req, marked),
        }
    }

    /// True when the stored window says that `p` continues it.
    fn continues(&self, p: u64) -> bool {
        p != 0 && (p == self.start + self.size - self.lag || p == self.start + self.size)
    }

    fn ra61(
        &mut self,
        m: u64,
        cache: &PageCache,
        file: u32,
        p: u64,
        req: u64,
        marked: bool,
    ) -> Option<Window> {
        if p == 0 {
            return Some(self.initial(m, p, req, true));
        }
        // The usual case: the stored window says what comes next, whatever other readers of the file do.
        if self.continues(p) {
            self.start += self.size;
            self.size = self.size.max(next(self.size, m));
            self.lag = self.size;
            return Some(self.submit(m, p, true));
        }
        // A marker of somebody else's window: several readers of one file share what is read ahead, and the
        // one that meets the marker goes on from where the cache ends.
        if marked {
            let s = first_absent(cache, file, p + 1, p + 1 + m)?;
            self.start = s;
            self.size = next(s - p + req, m);
            self.lag = self.size;
            return Some(self.submit(m, p, true));
        }
        if req > m || self.follows(p) {
            return Some(self.initial(m, p, req, true));
        }
        // What is cached before the page is the only history of a reader whose own state was lost or mixed up
        // with another's on the same open file.
        let mut before = cache.present_before(file, p, m);
        if before > req {
            if before >= p {
                // Read from the start of the file: long sequential reads begin there.
                before *= 2;
            }
            self.start = p;
            self.size = (before + req).min(m);
            self.lag = 1;
            return Some(self.submit(m, p, true));
        }
        Some(Window { from: p, to: p + req, marker: None })
    }

    // Deviation: host.md 5.3 lets a marker pass without effect while the device's sync request pool is
    // congested; the host does not see the pools, so it never is.
    fn ra30(
        &mut self,
        m: u64,
        cache: &PageCache,
        file: u32,
        p: u64,
        req: u64,
        marked: bool,
    ) -> Option<Window> {
        let grow = |s: u64| (if s < m / 16 { 4 * s } else { 2 * s }).min(m);
        if self.continues(p) {
            self.start += self.size;
            self.size = grow(self.size);
            self.lag = self.size;
            return Some(self.submit(m, p, false));
        }
        if !marked {
            // A fresh file counts as read up to the page before its first.
            let sequential = self.follows(p) || (self.prev.is_none() && p == 0) || req > m;
            if !sequential {
                return Some(Window { from: p, to: p + req, marker: None });
            }
            return Some(self.initial(m, p, req, false));
        }
        let s = first_absent(cache, file, p, p + m)?;
        self.start = s;
        self.size = grow(s - p);
        self.lag = self.size;
        Some(self.submit(m, p, false))
    }

    /// `p` is the page read last, or the one behind it.
    fn follows(&self, p: u64) -> bool {
        self.prev.is_some_and(|prev| p.checked_sub(prev).is_some_and(|d| d <= 1))
    }

    fn initial(&mut self, m: u64, p: u64, req: u64, own_marker_rule: bool) -> Window {
        self.start = p;
        self.size = first(req, m);
        self.lag = if self.size > req { self.size - req } else { self.size };
        self.submit(m, p, own_marker_rule)
    }

    fn submit(&mut self, m: u64, p: u64, own_marker_rule: bool) -> Window {
        if own_marker_rule && p == self.start && self.size == self.lag {
            // The reader would hit its own marker at once: ask for two windows in one go.
            let more = next(self.size, m);
            if self.size + more <= m {
                self.lag = more;
                self.size += more;
            } else {
                self.size = m;
                self.lag = m / 2;
            }
        }
        let to = self.start + self.size;
        Window { from: self.start, to, marker: Some(to - self.lag) }
    }
}

/// Size of a first window for a request of `r` pages: up to four times what was asked for. A guess about a
/// reader of whom one request is known; too large a one would be read in vain.
fn first(r: u64, m: u64) -> u64 {
    let n = r.next_power_of_two();
    if n <= m / 32 {
        4 * n
    } else if n <= m / 4 {
        2 * n
    } else {
        m
    }
}

/// Size of the window after one of `s` pages: it doubles with each proof that the reader goes on, and faster
/// while it is small, so that a few requests lead to the full window.
fn next(s: u64, m: u64) -> u64 {
    if s < m / 16 {
        4 * s
    } else if s <= m / 2 {
        2 * s
    } else {
        m
    }
}

fn first_absent(cache: &PageCache, file: u32, from: u64, to: u64) -> Option<u64> {
    let to = to.min(cache.pages(file));
    let s = cache.find(file, from, to, |w| !w.cached);
    (s < to).then_some(s)
}
