//! The flash itself: dies, channels, write buffer, and what programs cost (specs/drives.md 4.1, 4.3
//! to 4.5). A die is the smallest unit that reads independently.

use super::FlashParams;
use super::releases::Releases;
use crate::drive::rate::{Divisor, Rate};
use crate::drive::reserve;
use crate::rng::{self, Rng};

/// Pending bytes that stay longer are programmed as a partial unit, ns (specs/drives.md 4.4).
const PARTIAL_AFTER: u64 = 10_000_000;
/// The drive is idle when no program has run for this long, ns (specs/drives.md 4.5).
const IDLE_AFTER: u64 = 1_000_000;
/// Length of the moving average of the share of non-sequential writes, bytes (specs/drives.md 4.5).
const RANDOM_SHARE_BYTES: f64 = 1_048_576.0;

/// Of the hash that gives stripes their dies.
const SPREAD: u64 = 0x9e37_79b1;

/// What reads a die gives, apart from its programs: large reads go over many dies.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    /// R: reads until then.
    free: u64,
    channel: usize,
}

/// What a die programs.
#[derive(Clone, Copy, Debug, Default)]
struct Programs {
    /// G: programs until then.
    free: u64,
    /// Length of one program of the current kind, ns.
    time: u64,
}

impl Programs {
    /// A read, which takes `read`, comes to the die at `t0`: from when on it can read. Only the program in progress is
    /// waited for, no longer than `suspend` if that is not 0; queued programs are overtaken. `last` is the latest end of
    /// all programs.
    #[inline(always)]
    fn overtaken(&mut self, t0: u64, suspend: u64, read: u64, last: &mut u64) -> u64 {
        if self.free <= t0 {
            return t0;
        }
        let rest = (self.free - t0) % self.time.max(1);
        self.free += read;
        *last = self.free.max(*last);
        t0 + if suspend > 0 { rest.min(suspend) } else { rest }
    }
}

/// Where all numbers are powers of two, a page's die takes no division.
#[derive(Clone, Copy, Debug)]
struct Powers {
    /// Bytes of a page, as a shift.
    page: u32,
    /// Pages of a stripe, as a shift.
    stripe: u32,
    /// Dies, as a shift.
    dies: u32,
}

impl Powers {
    fn of(params: &FlashParams) -> Option<Powers> {
        let FlashParams { stripe, page, dies, .. } = *params;
        let all = [stripe, page, dies].iter().all(|n| n.is_power_of_two());
        (all && stripe >= page).then(|| Powers {
            page: page.trailing_zeros(),
            stripe: (stripe / page).trailing_zeros(),
            dies: dies.trailing_zeros(),
        })
    }
}

/// Dies, channels, buffer.
#[derive(Debug)]
pub(super) struct Array {
    /// By die.
    reads: Vec<Reads>,
    programs: Vec<Programs>,
    /// K: channels are free from then on.
    channels: Vec<u64>,
    powers: Option<Powers>,
    by_dies: Divisor,
    by_stripe: Divisor,
    by_page: Divisor,
    page: u64,
    channel_rate: Rate,
    page_on_channel: u64,
    suspend: u64,
    read: u64,
    read_times: ReadTimes,

    params: FlashParams,
    fold_rate: Option<Rate>,
    reclaim_rate: Option<Rate>,
    /// Units that are programmed or wait for it.
    buffer: Releases,
    /// When the last write fitted.
    admitted: u64,
    /// Bytes that do not fill a unit yet, and since when.
    pending: u64,
    pending_since: u64,
    next_die: usize,
    /// Latest end of a program so far, as it was when it was planned.
    programmed_until: u64,
    /// The same with the reads that overtook them.
    programs_end: u64,
    /// Up to then idle time was turned into clean blocks.
    reclaimed_until: u64,
    slc_used: u64,
    clean_pool: u64,
    /// f: moving share of non-sequential writes.
    random_share: f64,
}

impl Array {
    pub fn new(params: &FlashParams, seed: u64, name: &str) -> Array {
        let channel_rate = Rate::mb_s(params.channel_mb_s);
        let reads = |d: u64| Reads { channel: (d % params.channels) as usize, free: 0 };
        let rate = |mb_s: f64| (mb_s > 0.0).then(|| Rate::mb_s(mb_s));
        Array {
            reads: (0..params.dies).map(reads).collect(),
            programs: vec![Programs::default(); params.dies as usize],
            channels: vec![0; params.channels as usize],
            powers: Powers::of(params),
            by_dies: Divisor::new(params.dies),
            by_stripe: Divisor::new(params.stripe),
            by_page: Divisor::new(params.page),
            page: params.page,
            channel_rate,
            page_on_channel: channel_rate.dur(params.page),
            suspend: params.suspend,
            read: params.read,
            read_times: ReadTimes::new(params, rng::stream(seed, &format!("drive/{name}/read"))),
            fold_rate: rate(params.slc_fold_mb_s),
            reclaim_rate: rate(params.idle_reclaim_mb_s),
            buffer: Releases::new(params.dies, params.program),
            admitted: 0,
            pending: 0,
            pending_since: 0,
            next_die: 0,
            programmed_until: 0,
            programs_end: 0,
            reclaimed_until: 0,
            slc_used: 0,
            clean_pool: params.clean_pool,
            random_share: 0.0,
            params: params.clone(),
        }
    }

    /// hash(s) mod dies with hash = s xor (s / dies * 0x9E3779B1): runs of consecutive stripes lie on
    /// different dies, but not every file begins on die 0.
    #[inline]
    fn die_of(&self, stripe: u64) -> usize {
        let hash = |round: u64| stripe ^ round.wrapping_mul(SPREAD);
        match self.powers {
            Some(powers) => hash(stripe >> powers.dies) as usize & (self.reads.len() - 1),
            None => self.by_dies.div_rem(hash(self.by_dies.div_rem(stripe).0)).1 as usize,
        }
    }

    /// Reads the pages of a command that the controller has worked off at `t0`; when the earliest and
    /// the latest of them have passed their channel.
    pub fn read(&mut self, t0: u64, start: u64, len: u64) -> (u64, u64) {
        let (mut at, end, page) = (start, start + len, self.page);
        let mut ends = (u64::MAX, t0);
        if let Some(powers) = self.powers {
            let head = start.wrapping_neg() & (page - 1);
            if head > 0 && len > 0 {
                at = end.min(start + head);
                self.read_part(t0, start, at - start, &mut ends);
            }
            let whole = (end - at) >> powers.page;
            if whole > 0 {
                let number = at >> powers.page;
                if self.programs_end <= t0 {
                    self.read_pages::<false>(t0, number, whole, powers, &mut ends);
                } else {
                    self.read_pages::<true>(t0, number, whole, powers, &mut ends);
                }
                at += whole << powers.page;
            }
        }
        while at < end {
            let part = (page - self.by_page.div_rem(at).1).min(end - at);
            self.read_part(t0, at, part, &mut ends);
            at += part;
        }
        (ends.0.min(ends.1), ends.1)
    }

    /// Reads so many bytes of one page.
    #[inline]
    fn read_part(&mut self, t0: u64, at: u64, bytes: u64, ends: &mut (u64, u64)) {
        let die = self.die_of(self.by_stripe.div_rem(at).0);
        let mut from = t0;
        if self.programs_end > t0 {
            let end = &mut self.programs_end;
            from = self.programs[die].overtaken(t0, self.suspend, self.read, end);
        }
        let time = self.read_times.next();
        let die = &mut self.reads[die];
        reserve(&mut die.free, from, time);
        let on_channel = self.channel_rate.dur(bytes);
        let passed = reserve(&mut self.channels[die.channel], die.free, on_channel);
        *ends = (ends.0.min(passed), ends.1.max(passed));
    }

    /// The same for so many whole pages from page `number` on; `PROGRAMS`: some die may program at `t0`. Large reads
    /// spend their time here.
    #[inline(never)]
    fn read_pages<const PROGRAMS: bool>(
        &mut self,
        t0: u64,
        mut number: u64,
        pages: u64,
        powers: Powers,
        ends: &mut (u64, u64),
    ) {
        let (on_channel, suspend, read) = (self.page_on_channel, self.suspend, self.read);
        let (mut first, mut last) = *ends;
        let end = number + pages;
        while number < end {
            // As in `die_of`: all stripes of a round have one key.
            let round = (number >> powers.stripe) >> powers.dies;
            let key = round.wrapping_mul(SPREAD);
            let round_end = end.min((round + 1) << powers.dies << powers.stripe);
            let Array { reads, programs, channels, read_times, programs_end, .. } = self;
            for &time in read_times.some((round_end - number) as usize) {
                let at = ((number >> powers.stripe) ^ key) as usize & (reads.len() - 1);
                let from = match PROGRAMS {
                    true => programs[at].overtaken(t0, suspend, read, programs_end),
                    false => t0,
                };
                let die = &mut reads[at];
                reserve(&mut die.free, from, time);
                let passed = reserve(&mut channels[die.channel], die.free, on_channel);
                (first, last) = (first.min(passed), last.max(passed));
                number += 1;
            }
        }
        *ends = (first, last);
    }

    /// A write of `len` bytes that came over the link at `t` is taken into the buffer; when it fits.
    /// Programs begin at `now` at the earliest.
    ///
    /// Deviation: the text frees the space of a release that a write waits for, and what is left of it serves the
    /// next write at once, before that release: with a full buffer seven of eight small writes would not wait at
    /// all, and overtake all that do. Writes are admitted in their order.
    pub fn accept(&mut self, now: u64, moved: u64, len: u64) -> u64 {
        let room = self.params.write_buffer.saturating_sub(self.pending + len);
        let t = moved.max(self.admitted).max(self.buffer.shrink(room));
        self.admitted = t;
        if self.pending == 0 {
            self.pending_since = now;
        }
        self.pending += len;
        if self.pending >= self.params.program_unit {
            self.pending_since = now;
            self.program_units(now);
        }
        t
    }

    /// Counts a write as sequential or not.
    pub fn observe(&mut self, sequential: bool, len: u64) {
        let v = if sequential { 0.0 } else { 1.0 };
        let weight = (len as f64 / RANDOM_SHARE_BYTES).min(1.0);
        self.random_share += (v - self.random_share) * weight;
    }

    /// Programs all whole units that are pending.
    fn program_units(&mut self, now: u64) {
        let unit = self.params.program_unit;
        self.program(now, unit);
        // With the first the drive has ceased to be idle. While the pool lasts, and no unit may go to the SLC
        // cache, all that follow take the same time.
        let whole = self.pending / unit;
        if self.slc_used + unit > self.params.slc_cache && self.clean_pool > whole * unit {
            self.clean_pool -= whole * unit;
            self.pending -= whole * unit;
            self.program_run(now, self.params.program, whole, unit);
        }
        while self.pending >= unit {
            self.program(now, unit);
        }
    }

    /// Programs one unit, or what is pending if that is less.
    fn program(&mut self, now: u64, unit: u64) {
        let bytes = unit.min(self.pending);
        self.idle_work(now);
        let time = self.program_time(bytes);
        self.pending -= bytes;
        self.program_run(now, time, 1, bytes);
    }

    /// Programs `units` of so many bytes, each in `time`, on the next dies.
    #[inline]
    fn program_run(&mut self, now: u64, time: u64, units: u64, bytes: u64) {
        let Array { reads, programs, buffer, next_die, programmed_until, .. } = self;
        let all = programs.len();
        let mut until = *programmed_until;
        let mut left = units as usize;
        buffer.pass(now);
        while left > 0 {
            // Up to the last die, behind which the first comes.
            let run = left.min(all - *next_die);
            let dies = *next_die..*next_die + run;
            let programs = &mut programs[dies.clone()];
            for (die, reads) in programs.iter_mut().zip(&reads[dies]) {
                let release = die.free.max(reads.free).max(now) + time;
                *die = Programs { free: release, time };
                until = until.max(release);
            }
            // Deviation: "oldest" is taken as the earliest release, so that a unit delayed by reads does not hold back the
            // space of later ones.
            buffer.reach(until);
            programs.iter().for_each(|die| buffer.push(die.free, bytes));
            *next_die = if *next_die + run == all { 0 } else { *next_die + run };
            left -= run;
        }
        buffer.count(units, bytes);
        *programmed_until = until;
        self.programs_end = self.programs_end.max(until);
    }

    /// SLC cache, clean pool, write amplification.
    fn program_time(&mut self, bytes: u64) -> u64 {
        let p = &self.params;
        let mut time = p.program;
        if self.slc_used + bytes <= p.slc_cache {
            time = p.slc_program;
            self.slc_used += bytes;
        }
        if self.clean_pool > bytes {
            self.clean_pool -= bytes;
            return time;
        }
        let amplification = p.wa_seq + (p.wa_rand - p.wa_seq) * self.random_share;
        let erase = p.erase as f64 * bytes as f64 / p.block as f64;
        (time as f64 * amplification + erase + 0.5) as u64
    }

    /// What the drive does when no program has run for a while: it reclaims blocks and empties the
    /// SLC cache. Computed when somebody asks.
    ///
    /// Deviation: specs/drives.md 4.5 lets the SLC cache empty "in time". Here it is emptied in idle
    /// time only, because copying needs the dies that the programs occupy: emptied beside a saturated
    /// stream of writes the QLC drive would sustain 130 MB/s, and 80 MB/s is published.
    fn idle_work(&mut self, now: u64) {
        let from = (self.programmed_until + IDLE_AFTER).max(self.reclaimed_until);
        if now <= from {
            return;
        }
        self.reclaimed_until = now;
        let worked_off = |rate: Option<Rate>| rate.map_or(0, |rate| rate.bytes_in(now - from));
        self.slc_used = self.slc_used.saturating_sub(worked_off(self.fold_rate));
        self.grow_pool(worked_off(self.reclaim_rate));
    }

    fn grow_pool(&mut self, bytes: u64) {
        self.clean_pool = self.clean_pool.saturating_add(bytes).min(self.params.clean_pool);
    }

    /// A discard of `bytes` makes blocks clean.
    pub fn discard(&mut self, now: u64, bytes: u64) {
        self.idle_work(now);
        self.grow_pool(bytes);
    }

    /// Programs what is pending at once.
    pub fn program_pending(&mut self, now: u64) {
        while self.pending > 0 {
            self.program(now, self.params.program_unit);
        }
    }

    /// The program of the last unit ends then.
    pub fn last_program_end(&self) -> u64 {
        let last = if self.next_die == 0 { self.programs.len() - 1 } else { self.next_die - 1 };
        self.programs[last].free
    }

    /// The latest end of all programs, overtaking reads included.
    pub fn programs_end(&self) -> u64 {
        self.programs_end
    }

    /// Works off the timer of partial units up to and including `now`. It produces nothing that the
    /// host sees at that moment, so it is done when the state is needed next, at its own time.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        if self.pending > 0 && self.pending_since + PARTIAL_AFTER <= now {
            self.program_pending(self.pending_since + PARTIAL_AFTER);
        }
    }

    /// Bytes accepted that no program holds.
    #[cfg(test)]
    pub fn pending_bytes(&self) -> u64 {
        self.pending
    }
}

/// How long array reads take, uniform about the mean. Four of them from each output of the generator: 16 bits resolve
/// the spread to a fraction of a nanosecond, far below the 1 ns of the clock.
#[derive(Debug)]
struct ReadTimes {
    rng: Rng,
    least: u64,
    spread: u64,
    /// Drawn already; used up to `at`.
    drawn: [u64; DRAWN],
    at: usize,
}

/// So many read times are drawn at once.
const DRAWN: usize = 64;

impl ReadTimes {
    fn new(params: &FlashParams, rng: Rng) -> ReadTimes {
        let least = params.read as f64 * (1.0 - params.read_jitter);
        let spread = 2.0 * params.read as f64 * params.read_jitter;
        let whole = |x: f64| (x + 0.5) as u64;
        ReadTimes { rng, least: whole(least), spread: whole(spread), drawn: [0; DRAWN], at: DRAWN }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.some(1)[0]
    }

    /// The next ones, at least one and at most `most`, which is not 0.
    #[inline(always)]
    fn some(&mut self, most: usize) -> &[u64] {
        if self.at == DRAWN {
            self.draw();
        }
        let from = self.at;
        self.at = DRAWN.min(from + most);
        &self.drawn[from..self.at]
    }

    #[inline(never)]
    fn draw(&mut self) {
        let (least, spread) = (self.least, self.spread);
        for four in self.drawn.chunks_exact_mut(4) {
            let bits = self.rng.bits();
            for (n, time) in four.iter_mut().enumerate() {
                *time = least + (((bits >> (16 * n) & 0xffff) * spread) >> 16);
            }
        }
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;

    fn array(id: &str) -> Array {
        Array::new(&FlashParams::from_file(&DriveFile::load(id).unwrap()), 1, "t")
    }

    #[test]
    fn die_numbers_equal_the_formula_of_the_specification() {
        for id in ["samsung-970-pro", "intel-320-160g"] {
            let array = array(id);
            let dies = array.reads.len() as u64;
            for s in (0..5000).chain((0..5000).map(|i| (1 << 26) + i * 977)) {
                let hash = s ^ (s / dies).wrapping_mul(0x9e37_79b1);
                assert_eq!(array.die_of(s) as u64, hash % dies);
            }
        }
    }

    #[test]
    fn whole_pages_in_a_row_are_read_as_single_ones_are() {
        for id in ["samsung-970-pro", "plextor-px-256m5s"] {
            let (mut row, mut single) = (array(id), Array { powers: None, ..array(id) });
            assert!(row.powers.is_some());
            let mut rng = rng::stream(1, "test");
            for t in 1..2000 {
                let (now, at, len) =
                    (t * 100_000, rng.below(1 << 30) * 512, rng.below(1 << 10) * 512);
                // The dies program in one part of the time.
                if t % 400 < 100 {
                    let write = |a: &mut Array| a.accept(now, now, 1 << 18);
                    assert_eq!(write(&mut row), write(&mut single));
                }
                assert_eq!(row.read(now, at, len + 512), single.read(now, at, len + 512));
            }
            assert_eq!(row.programs_end(), row.programs.iter().map(|d| d.free).max().unwrap());
        }
    }

    #[test]
    fn a_partial_unit_is_programmed_after_ten_milliseconds() {
        let mut array = array("samsung-970-pro");
        array.accept(1_000, 2_000, 4096);
        array.advance(10_000_999);
        assert_eq!(array.pending_bytes(), 4096);
        array.advance(20_000_000);
        assert_eq!(array.pending_bytes(), 0);
        assert_eq!(array.programs_end(), 10_001_000 + 900_000);
    }

    #[test]
    fn with_a_full_buffer_small_writes_keep_their_turn() {
        let mut array = array("samsung-970-pro");
        let (unit, buffer) = (array.params.program_unit, array.params.write_buffer);
        // Full: all programs end in the future.
        (0..buffer / unit).for_each(|_| assert_eq!(array.accept(0, 0, unit), 0));
        // Each waits for a release that frees more than it needs, and none fits before the one ahead of it.
        let small: Vec<_> = (0..300).map(|i| array.accept(0, i, 8192)).collect();
        let (first, last) = (small[0], small[299]);
        assert!(first == array.params.program && last > first && small.is_sorted(), "{small:?}");
        // Behind the releases the buffer has room again, and nobody waits.
        assert_eq!(array.accept(last, last + 5, 4096), last + 5);
    }

    #[test]
    fn the_clean_pool_runs_dry_and_idle_time_and_discards_fill_it() {
        let mut array = array("samsung-970-pro");
        array.clean_pool = 65536;
        array.observe(false, 1 << 20);
        assert_eq!(array.program_time(65536), 900_000 * 3 + 3_500_000 / 64 + 1);
        array.accept(0, 0, 65536);
        let end = array.programs_end();
        array.idle_work(end + 1_000_000);
        assert_eq!(array.clean_pool, 65536);
        array.idle_work(end + 2_000_000);
        assert_eq!(array.clean_pool, 65536 + 400_000);
        array.discard(end + 2_000_000, 1 << 50);
        assert_eq!(array.clean_pool, 32768 << 20);
    }
}
