//! The recorded answers of ADIOS's decision logic, every one (`data/adios/README.md`).
//!
//! Around the scheduler stands the merge search of the core.

use flate2::read::GzDecoder;
use hoistway::device::Merging;
use hoistway::merge::{Elevator, Merger, Rules};
use hoistway::sched::{self, At, Dispatch, Open, Scheduler, Search, Setup};
use hoistway::trace::Trace;
use hoistway::{
    Cx, Device, Env, Flags, GroupId, Instant, Io, IoId, IoPrio, Nanos, Op, ProcId, QueueId,
};

use hoistway::request::Side;
use hoistway::{ReqId, Sectors};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

const SLOTS: usize = 4096;
const MAX_SECTORS: Sectors = Sectors(1024);

struct Replay {
    now: Instant,
    env: Env,
    adios: Box<dyn Scheduler>,
    elevator: Elevator,
    proc: ProcId,
    newer: bool,
    /// Ids of the recording, by slot.
    names: BTreeMap<u32, u64>,
    /// Made, and not inserted yet.
    list: Vec<ReqId>,
    /// Handed out, in order.
    out: Vec<ReqId>,
    answers: String,
}

impl Replay {
    fn new(rotational: bool, newer: bool) -> Replay {
        let mut device = Device::new(Sectors(1 << 40), SLOTS as u32);
        device.rotational = rotational;
        device.tick = Nanos::ms(1);
        device.max_sectors = MAX_SECTORS;
        device.max_discard_sectors = MAX_SECTORS;
        device.max_segments = u32::MAX;
        let mut env = Env::new(device, SLOTS, 4 * SLOTS);
        env.trace = Trace::off();
        let proc = env.procs.add(GroupId::ROOT, IoPrio::NONE);
        let entry = sched::find("adios").unwrap();
        let setup = Setup { device: &env.device, requests: SLOTS, now: Instant::ZERO };
        let mut adios = (entry.build)(&setup);
        adios.set(Instant::ZERO, "adios_version", newer.into(), &mut env.cx()).unwrap();
        let elevator = Elevator::new(SLOTS);
        let (names, list, out) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (now, answers) = (Instant::ZERO, String::new());
        Replay { now, env, adios, elevator, proc, newer, names, list, out, answers }
    }

    fn say(&mut self, what: &str) {
        writeln!(self.answers, "<,{what}").unwrap();
    }

    fn name(&self, id: ReqId) -> u64 {
        self.names[&id.slot()]
    }

    fn event(&mut self, line: &str) {
        let f: Vec<&str> = line.split(',').skip(1).collect();
        let n = |i: usize| f[i].parse::<u64>().unwrap();
        let now = Instant::from_nanos(n(1));
        // The recorded timer counts ticks: it is over with the tick in which ours is due.
        let tick = |at: Instant| at.as_nanos() / 1_000_000;
        while let Some(at) = self.adios.next_timer().filter(|&at| tick(at) <= tick(now)) {
            let at = Instant::from_nanos(tick(at) * 1_000_000);
            self.adios.timer(at, &mut self.env.cx());
        }
        match f[0] {
            "S" => self.submit(now, &f),
            "P" => {
                let id = self.make(Instant::from_nanos(n(8)), &f);
                self.list.push(id);
            }
            "F" => {
                let at = if n(2) == 1 { At::Head } else { At::Tail };
                for id in std::mem::take(&mut self.list) {
                    self.give(now, id, at);
                }
            }
            "D" => self.dispatch(now),
            "C" => {
                let Some(id) = self.take_out(n(2)) else { return };
                self.say(&format!("C,{}", self.name(id)));
                self.adios.complete(now, id, &mut self.env.cx());
                self.env.requests.remove(id);
            }
            "R" => {
                let Some(id) = self.take_out(n(2)) else { return };
                self.say(&format!("R,{}", self.name(id)));
                self.adios.requeue(now, id, &mut self.env.cx());
                self.give(now, id, At::Head);
            }
            "W" => self.write(now, &f),
            "Q" => self.print(),
            other => panic!("event {other}"),
        }
    }

    fn io(&self, f: &[&str]) -> Io {
        let n = |i: usize| f[i].parse::<u64>().unwrap();
        let op = match n(3) {
            0 => Op::Read,
            1 => Op::Write,
            3 => Op::Discard,
            // To the older version a zone append is a barrier, as a flush is.
            2 => Op::Flush,
            7 if !self.newer => Op::Flush,
            _ => Op::WriteZeroes,
        };
        Io {
            id: IoId(n(2)),
            op,
            flags: if n(4) == 1 { Flags::SYNC } else { Flags::NONE },
            segments: 1,
            // Whose priority differs does not merge; nothing else depends on it.
            prio: if n(7) == 0 { IoPrio::NONE } else { IoPrio::be(n(7) as u8) },
            ..Io::read(0, self.proc, n(5), n(6))
        }
    }

    fn make(&mut self, began: Instant, f: &[&str]) -> ReqId {
        let io = self.io(f);
        let sync = io.op == Op::Read || io.flags.any(Flags::SYNC);
        let id = self.env.requests.create(io, sync, QueueId(0), began).expect("slots are many");
        self.names.insert(id.slot(), io.id.0);
        id
    }

    fn take_out(&mut self, k: u64) -> Option<ReqId> {
        let n = self.out.len() as u64;
        (n > 0).then(|| self.out.remove((k % n) as usize))
    }

    fn submit(&mut self, now: Instant, f: &[&str]) {
        let io = self.io(f);
        if !self.merge(now, &io) {
            let id = self.make(now, f);
            self.give(now, id, At::Tail);
        }
    }

    fn merge(&mut self, now: Instant, io: &Io) -> bool {
        self.now = now;
        let Some((id, side)) = self.find(io) else { return false };
        let bio = self.env.requests.add_bio(*io, now).expect("bios are many");
        self.join_bio(bio, id, side);
        self.after_bio(id, side);
        let how = if side == Side::Back { "b" } else { "f" };
        self.say(&format!("{how},{}", self.name(id)));
        true
    }

    fn give(&mut self, now: Instant, id: ReqId, at: At) {
        self.adios.prepare(now, id, &mut self.env.cx());
        self.insert(now, id, at);
    }

    fn insert(&mut self, now: Instant, id: ReqId, at: At) {
        self.now = now;
        let open = at == At::Tail && self.adios.open(id, &self.env.cx()) == Open::Full;
        if open && self.merge_at_insertion(id) {
            return;
        }
        self.adios.insert(now, id, at, &mut self.env.cx());
        if open && self.mergeable(id) {
            self.elevator.add(id.slot(), self.env.requests[id].end());
        }
    }

    fn dispatch(&mut self, now: Instant) {
        loop {
            let answer = self.adios.dispatch(now, QueueId(0), &mut self.env.cx());
            while let Some(slot) = self.env.closed.pop() {
                self.elevator.remove(slot);
            }
            match answer {
                Dispatch::Issue(id) => {
                    self.elevator.remove(id.slot());
                    self.env.requests.get_mut(id).issued = now;
                    self.out.push(id);
                    return self.say(&format!("D,{}", self.name(id)));
                }
                Dispatch::Empty => return self.say("D,idle"),
                Dispatch::Idle => {
                    let mut any = false;
                    while let Some(id) = self.adios.reinsert(now, &mut self.env.cx()) {
                        any = true;
                        self.insert(now, id, At::Tail);
                    }
                    assert!(any, "nothing is held back for time");
                }
            }
        }
    }

    fn write(&mut self, now: Instant, f: &[&str]) {
        let n = |i: usize| f[i].parse::<u64>().unwrap();
        let mut set = |name: &str, value| self.adios.set(now, name, value, &mut self.env.cx());
        let ok = match f[2] {
            "reset_lat_model" if f.len() > 4 => {
                ["read", "write", "discard"].iter().enumerate().all(|(i, kind)| {
                    set(&format!("lat_model_{kind}"), n(3 + 2 * i)).is_ok()
                        && set(&format!("lat_model_{kind}_slope"), n(4 + 2 * i)).is_ok()
                })
            }
            name if f.len() > 4 => {
                set(name, n(3)).is_ok() && set(&format!("{name}_slope"), n(4)).is_ok()
            }
            name => set(name, n(3)).is_ok(),
        };
        let ok = if ok { "ok" } else { "err" };
        self.say(&format!("W,{},{ok}", f[2]));
    }

    fn print(&mut self) {
        let mut all = BTreeMap::new();
        self.adios.figures(&mut |f| {
            all.insert((f.name, f.of), f.value);
        });
        let one = |name| all[&(name, None)];
        let of = |name, kind| all[&(name, Some(kind))];
        let bits = [
            ("head_fifo", 1),
            ("plain_fifo", 2),
            ("reads_waiting", 4),
            ("others_waiting", 8),
            ("page_0", 0x10),
            ("page_1", 0x20),
            ("holding", 0x40),
        ];
        let st: i64 = bits.iter().map(|&(name, bit)| if one(name) > 0 { bit } else { 0 }).sum();
        let mut line = format!(
            "Q,c={},p={},bias={},st={st:x},stable={},page={},dir={},head={}",
            one("in_flight"),
            one("predicted_in_flight_ns"),
            one("bias"),
            one("learned"),
            one("page"),
            one("down"),
            one("head_sector"),
        );
        for kind in 0..4 {
            let names = [
                "base_ns",
                "slope_ns_per_kib",
                "small_latency_ns",
                "small_samples",
                "large_latency_ns",
                "large_bytes",
                "updated_tick",
            ];
            let values: Vec<String> = names.iter().map(|n| of(n, kind).to_string()).collect();
            write!(line, ",[{}]", values.join(",")).unwrap();
        }
        write!(line, ",max={}", one("largest_batch")).unwrap();
        for kind in 0..4 {
            write!(line, ",{}", of("largest_batch_of_kind", kind)).unwrap();
        }
        self.say(&line);
    }
}

impl Merger for Replay {
    type Left = ();

    fn now(&self) -> Instant {
        self.now
    }

    fn env(&self) -> &Env {
        &self.env
    }

    fn env_mut(&mut self) -> &mut Env {
        &mut self.env
    }

    fn elevator(&mut self) -> &mut Elevator {
        &mut self.elevator
    }

    fn scheduler(&mut self) -> (&mut dyn Scheduler, Cx<'_>) {
        (self.adios.as_mut(), self.env.cx())
    }

    fn rules(&self) -> Rules {
        Rules { merging: Merging::All, search: Search::Elevator, mq: true }
    }

    fn max_sectors(&self) -> Sectors {
        self.env.device.max_sectors
    }

    fn leaving(&self, _gone: ReqId) {}

    fn absorbed(&mut self, kept: ReqId, gone: ReqId, (): ()) {
        self.say(&format!("M,{}<-{}", self.name(kept), self.name(gone)));
    }
}

fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    match path.extension().is_some_and(|e| e == "gz") {
        true => GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap(),
        false => bytes.as_slice().read_to_string(&mut text).unwrap(),
    };
    text
}

#[test]
fn every_answer_is_the_original_s() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/adios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.to_string_lossy().contains(".csv"));
    files.sort();
    assert_eq!(files.len(), 60);
    let (mut compared, mut wrong) = (0, Vec::new());
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = text(file);
        let mut replay = Replay::new(text.contains("rotational=1"), name.contains("3.2.0"));
        text.lines().filter(|l| l.starts_with('>')).for_each(|l| replay.event(l));
        let theirs: Vec<&str> = text.lines().filter(|l| l.starts_with('<')).collect();
        let ours: Vec<&str> = replay.answers.lines().collect();
        compared += theirs.len();
        let same = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
        if same < theirs.len() || ours.len() != theirs.len() {
            let (t, o) = (theirs.get(same), ours.get(same));
            wrong.push(format!(
                "{name}: answer {} of {}: {t:?}, ours {o:?}",
                same + 1,
                theirs.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    assert!(compared > 20_000, "{compared} answers");
}
