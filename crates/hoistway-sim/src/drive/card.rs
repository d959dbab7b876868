//! SD cards and USB sticks (specs/drives.md section 5).
//!
//! One command at a time in order of arrival. Such a device maps whole *allocation units* and keeps
//! only a few of them open for appending; a write behind a unit's pointer or outside the open units
//! makes it copy the rest of a unit. Hence sequential writers run at full rate and 4 KiB random
//! writers at a few per second.

use super::keys::Key;
use super::rate::{Coming, Rate, us};
use super::{Command, Drive, DriveFile, DriveOutput, Model, Wrong};
use crate::rng::{self, Rng};
use hoistway::{Instant, Op};
use std::collections::BTreeSet;

/// The entry in the list of models.
pub const MODEL: Model = Model {
    name: "card",
    summary: "SD card, USB stick: one command at a time, a few open allocation units",
    keys: CARD_KEYS,
    check,
    build: |file, seed| Box::new(Card::new(&CardParams::from_file(file), seed, &file.id)),
};

/// Keys of `[card]`.
pub const CARD_KEYS: &[Key] = &[
    Key::us("cmd_us", "Time per command."),
    Key::us("read_access_us", "More for a read that does not continue the last one."),
    Key::us("flush_us", "A flush."),
    Key::ms("erase_ms", "Opening an allocation unit."),
    Key::rate("read_mb_s", "Read rate."),
    Key::rate("write_mb_s", "Write rate."),
    Key::rate("copy_mb_s", "Rate at which the card copies the rest of a unit."),
    Key::int("allocation_unit_kib", 1, 1 << 30, "Size of an allocation unit."),
    Key::int("write_unit_kib", 1, 1 << 30, "Writes are rounded up to it."),
    Key::int("open_units", 1, 1 << 16, "Units open at the same time."),
    Key::num("jitter", 0.0, 1.0, "Relative spread of all durations."),
];

fn check(file: &DriveFile) -> Result<(), Wrong> {
    let (au, unit) = (file.u64("card", "allocation_unit_kib"), file.u64("card", "write_unit_kib"));
    if au % unit == 0 {
        return Ok(());
    }
    let what = format!("write_unit_kib = {unit} does not divide allocation_unit_kib = {au}");
    Err(Wrong { table: "card", key: "write_unit_kib", what })
}

/// `[card]` in ns, bytes, and 10^6 bytes/s.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the keys of the drive file, see CARD_KEYS")]
pub struct CardParams {
    pub cmd: u64,
    pub read_access: u64,
    pub flush: u64,
    pub erase: u64,
    pub read_mb_s: f64,
    pub write_mb_s: f64,
    pub copy_mb_s: f64,
    pub allocation_unit: u64,
    pub write_unit: u64,
    pub open_units: usize,
    pub jitter: f64,
}

impl CardParams {
    /// From a checked file.
    pub fn from_file(file: &DriveFile) -> CardParams {
        let num = |key| file.f64("card", key);
        CardParams {
            cmd: us(num("cmd_us")),
            read_access: us(num("read_access_us")),
            flush: us(num("flush_us")),
            erase: us(num("erase_ms") * 1e3),
            read_mb_s: num("read_mb_s"),
            write_mb_s: num("write_mb_s"),
            copy_mb_s: num("copy_mb_s"),
            allocation_unit: file.u64("card", "allocation_unit_kib") << 10,
            write_unit: file.u64("card", "write_unit_kib") << 10,
            open_units: file.u64("card", "open_units") as usize,
            jitter: num("jitter"),
        }
    }
}

/// An allocation unit that takes writes.
#[derive(Clone, Copy, Debug)]
struct Open {
    unit: u64,
    /// p: bytes written from its start.
    pointer: u64,
    /// It was discarded: there is nothing to copy from its old block.
    blank: bool,
}

/// A card. Nothing depends on what comes later, so a command's completion is known on arrival.
#[derive(Debug)]
pub struct Card {
    params: CardParams,
    read_rate: Rate,
    write_rate: Rate,
    copy_rate: Rate,
    rng: Rng,
    busy_until: u64,
    /// Least recently used first.
    open: Vec<Open>,
    /// Discarded units that are not open.
    discarded: BTreeSet<u64>,
    last_read_end: Option<u64>,
    coming: Coming,
}

impl Card {
    /// The drive called `name`.
    pub fn new(params: &CardParams, seed: u64, name: &str) -> Card {
        Card {
            read_rate: Rate::mb_s(params.read_mb_s),
            write_rate: Rate::mb_s(params.write_mb_s),
            copy_rate: Rate::mb_s(params.copy_mb_s),
            rng: rng::stream(seed, &format!("drive/{name}/latency")),
            busy_until: 0,
            open: Vec::with_capacity(params.open_units + 1),
            discarded: BTreeSet::new(),
            last_read_end: None,
            coming: Coming::default(),
            params: params.clone(),
        }
    }

    /// Time of a command and how much of it is transfer, before jitter.
    fn work(&mut self, command: &Command) -> (u64, u64) {
        let p = &self.params;
        match command.op {
            Op::Read => {
                let continues = self.last_read_end == Some(command.start);
                self.last_read_end = Some(command.start + command.len);
                let transfer = self.read_rate.dur(command.len);
                (p.cmd + if continues { 0 } else { p.read_access } + transfer, transfer)
            }
            Op::Write => {
                let mut time = p.cmd;
                let mut transfer = 0;
                let mut at = command.start;
                let end = command.start + command.len;
                while at < end {
                    let unit = at / self.params.allocation_unit;
                    let n = ((unit + 1) * self.params.allocation_unit).min(end) - at;
                    time += self.place(unit, at % self.params.allocation_unit, n);
                    transfer += self.write_rate.dur(n.next_multiple_of(self.params.write_unit));
                    at += n;
                }
                (time + transfer, transfer)
            }
            Op::Flush => (p.flush, 0),
            // Deviation: writing zeroes is taken as a discard.
            Op::Discard | Op::WriteZeroes => {
                let time = p.cmd;
                self.discard(command.start, command.len);
                (time, 0)
            }
        }
    }

    /// What `n` bytes at `offset` of `unit` cost besides their transfer.
    fn place(&mut self, unit: u64, offset: u64, n: u64) -> u64 {
        let (au, write_unit) = (self.params.allocation_unit, self.params.write_unit);
        let mut time = 0;
        let mut open = match self.open.iter().position(|o| o.unit == unit) {
            Some(index) => self.open.remove(index),
            None => {
                if self.open.len() == self.params.open_units {
                    let oldest = self.open.remove(0);
                    if !oldest.blank {
                        time += self.copy_rate.dur(au - oldest.pointer);
                    }
                }
                time += self.params.erase;
                Open { unit, pointer: 0, blank: self.discarded.remove(&unit) }
            }
        };
        // A start inside the write unit of the pointer continues it: the unit is written whole.
        if offset / write_unit != open.pointer / write_unit {
            if offset < open.pointer {
                if !open.blank {
                    time += self.copy_rate.dur(au - open.pointer);
                }
                time += self.params.erase;
                // What was written so far is old data now.
                open = Open { pointer: 0, blank: false, ..open };
            }
            if offset > open.pointer && !open.blank {
                time += self.copy_rate.dur(offset - open.pointer);
            }
        }
        open.pointer = offset + n;
        if open.pointer < au {
            self.open.push(open);
        }
        time
    }

    /// Units that lie wholly in the range need no copying any more.
    fn discard(&mut self, start: u64, len: u64) {
        let au = self.params.allocation_unit;
        for unit in start.div_ceil(au)..(start + len) / au {
            match self.open.iter_mut().find(|o| o.unit == unit) {
                Some(open) => open.blank = true,
                None => {
                    self.discarded.insert(unit);
                }
            }
        }
    }
}

impl Drive for Card {
    fn handle(&mut self, now: Instant, command: Command) {
        let now = now.as_nanos();
        let (mut time, mut transfer) = self.work(&command);
        if self.params.jitter > 0.0 {
            let factor = self.rng.range(1.0 - self.params.jitter, 1.0 + self.params.jitter);
            time = (time as f64 * factor + 0.5) as u64;
            transfer = (transfer as f64 * factor + 0.5) as u64;
        }
        let begun = now.max(self.busy_until);
        self.busy_until = begun + time;
        self.coming.push(command.tag, now, begun, self.busy_until, transfer);
    }

    fn poll(&mut self, now: Instant) -> DriveOutput {
        self.coming.poll(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn card() -> Card {
        let file = DriveFile::load("sd-card-2009").unwrap();
        let params = CardParams { jitter: 0.0, ..CardParams::from_file(&file) };
        Card::new(&params, 1, "t")
    }

    fn run(card: &mut Card, op: Op, start: u64, len: u64) -> u64 {
        card.work(&Command { tag: 0, op, start, len, fua: false }).0
    }

    fn write(card: &mut Card, start: u64, len: u64) -> u64 {
        run(card, Op::Write, start, len)
    }

    // 300 us per command, 2 ms erase, 8 MB/s copy, 6.2 MB/s write, units of 4 MiB and 16 KiB.
    const CMD: u64 = 300_000;
    const ERASE: u64 = 2_000_000;

    fn copy(bytes: u64) -> u64 {
        Rate::mb_s(8.0).dur(bytes)
    }

    fn moved(bytes: u64) -> u64 {
        Rate::mb_s(6.2).dur(bytes)
    }

    #[test]
    fn a_read_pays_access_unless_it_continues_the_last() {
        let mut c = card();
        let transfer = Rate::mb_s(12.0).dur(65536);
        assert_eq!(run(&mut c, Op::Read, 0, 65536), 800_000 + transfer);
        assert_eq!(run(&mut c, Op::Read, 65536, 65536), CMD + transfer);
        assert_eq!(run(&mut c, Op::Read, 0, 65536), 800_000 + transfer);
        assert_eq!(run(&mut c, Op::Flush, 0, 0), 200_000);
    }

    #[test]
    fn a_unit_written_through_costs_one_erase() {
        let mut c = card();
        assert_eq!(write(&mut c, 0, MIB), CMD + ERASE + moved(MIB));
        for i in 1..4 {
            assert_eq!(write(&mut c, i * MIB, MIB), CMD + moved(MIB));
        }
        assert!(c.open.is_empty());
    }

    #[test]
    fn small_sequential_writes_are_no_rewrites() {
        let mut c = card();
        write(&mut c, 0, 4096);
        for i in 1..64 {
            assert_eq!(write(&mut c, i * 4096, 4096), CMD + moved(16384));
        }
    }

    #[test]
    fn rewriting_and_gaps_copy() {
        let mut c = card();
        assert_eq!(write(&mut c, MIB, 65536), CMD + ERASE + copy(MIB) + moved(65536));
        let rest = copy(4 * MIB - MIB - 65536);
        assert_eq!(write(&mut c, 0, 65536), CMD + rest + ERASE + moved(65536));
    }

    #[test]
    fn one_writer_more_than_open_units_closes_the_oldest() {
        let mut c = card();
        for unit in 0..5 {
            assert_eq!(write(&mut c, unit * 4 * MIB, 65536), CMD + ERASE + moved(65536));
        }
        let closing = copy(4 * MIB - 65536);
        assert_eq!(write(&mut c, 20 * MIB, 65536), CMD + closing + ERASE + moved(65536));
        // A discarded unit needs no copying when it is closed, nor when it is opened with a gap.
        run(&mut c, Op::Discard, 4 * MIB, 4 * MIB);
        run(&mut c, Op::Discard, 40 * MIB, 4 * MIB);
        assert_eq!(write(&mut c, 41 * MIB, 65536), CMD + ERASE + moved(65536));
    }
}
