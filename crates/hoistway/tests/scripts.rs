//! Scripts of inputs to a whole stack that broke it once. Each is replayed to its last line, then what is
//! left is served; every I/O finishes exactly once.

use hoistway::request::IoId;
use hoistway::sched;
use hoistway::stack::{IoError, StageName};
use hoistway::stage::Change;
use hoistway::table::Handle;
use hoistway::{
    Class, Device, Flags, GroupId, Input, Instant, Io, IoPrio, Nanos, Op, Output, ProcId, ReqId,
    Sectors, Stack, ctl,
};
use std::collections::BTreeSet;

#[test]
fn nested_groups_go_away_under_bfq_v1() {
    replay(include_str!("data/scripts/bfq-v1-group-removal.txt"));
}

/// The stack of a script and what came out of it.
struct Player {
    stack: Stack,
    now: Instant,
    device: Vec<ReqId>,
    submitted: BTreeSet<u64>,
    finished: BTreeSet<u64>,
    wake: Option<Instant>,
}

fn replay(script: &str) {
    let lines = || script.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    let mut player = Player::new(lines().take_while(|l| !l.starts_with('[')));
    for line in lines().filter(|l| l.starts_with('[')) {
        let (time, operation) = line[1..].split_once(']').expect("a time in brackets");
        player.now = Instant::from_nanos(time.trim().parse().expect("nanoseconds"));
        player.operation(operation.trim());
    }
    player.run_dry();
}

impl Player {
    fn new<'a>(head: impl Iterator<Item = &'a str>) -> Player {
        let mut device = Device::new(Sectors(1 << 22), 1);
        let mut made: Option<Stack> = None;
        for line in head {
            let mut words = line.split_whitespace();
            match words.next().expect("not empty") {
                "device" => words.for_each(|w| set_device(&mut device, w)),
                "start" => {
                    let mut device = device.clone();
                    device.nr_requests = 0;
                    let scheduler = sched::find(words.next().unwrap()).unwrap();
                    let mut stack = Stack::new(device, scheduler, 64);
                    words.for_each(|name| stack.install(ctl::find(name).unwrap()));
                    made = Some(stack);
                }
                "groups" => words.for_each(|parent| {
                    let stack = made.as_mut().expect("`start` comes first");
                    stack.add_group(Instant::ZERO, GroupId(number(parent) as u32), "g");
                    while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
                }),
                "procs" => (0..number(words.next().unwrap()) as u32).for_each(|n| {
                    made.as_mut().unwrap().add_proc(GroupId(n % 4), IoPrio::NONE);
                }),
                "knob" => {
                    let (stack, group) = (made.as_mut().unwrap(), words.next().unwrap());
                    let group = GroupId(number(group) as u32);
                    let file = words.next().unwrap().into();
                    let line = words.collect::<Vec<_>>().join(" ");
                    stack.handle(Instant::ZERO, Input::Write { group, file, line }).unwrap();
                    while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
                }
                other => panic!("no line '{other}'"),
            }
        }
        Player {
            stack: made.expect("a script has a line `start`"),
            now: Instant::ZERO,
            device: Vec::new(),
            submitted: BTreeSet::new(),
            finished: BTreeSet::new(),
            wake: None,
        }
    }

    fn operation(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let group = |at: usize| GroupId(number(words[at]) as u32);
        let proc = |at: usize| ProcId(number(words[at]) as u32);
        match words[0] {
            "time" => return,
            "tick" => self.input(Input::Tick),
            "plug" => self.input(Input::Plug(proc(1))),
            "unplug" => self.input(Input::Unplug(proc(1))),
            "switch" => self.input(Input::SwitchScheduler(sched::find(words[1]).unwrap())),
            "set" => {
                let (name, value) = (words[1].into(), number(words[2]));
                self.input(Input::Set { stage: StageName::Queue, name, value });
            }
            "add" => {
                self.stack.add_group(self.now, group(3), "g");
            }
            "remove" => self.stack.remove_group(self.now, group(1)),
            "move" => {
                let (proc, from, to) = (proc(1), group(2), group(3));
                self.stack.change(self.now, Change::ProcMoved { proc, from, to }, |env| {
                    env.procs.get_mut(proc).unwrap().group = to;
                });
            }
            "prio" => {
                let (proc, prio) = (proc(1), prio(number(words[2])));
                self.stack.change(self.now, Change::ProcPriority(proc), |env| {
                    env.procs.get_mut(proc).unwrap().prio = prio;
                });
            }
            "Done" => {
                let part = |key| number(field(text, key)) as u32;
                let named = ReqId(Handle { slot: part("slot"), generation: part("generation") });
                let error = (!text.contains("error: None")).then_some(IoError::Io);
                // A rule may have changed since the script was written: then the oldest command.
                let at = self.device.iter().position(|&r| r == named).unwrap_or(0);
                if at < self.device.len() {
                    let req = self.device.remove(at);
                    self.input(Input::Done { req, error });
                }
            }
            "submit" => {
                let io = io(text);
                self.submitted.insert(io.id.0);
                self.input(Input::Submit(io));
            }
            other => panic!("no operation '{other}'"),
        }
        self.drain();
    }

    fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).expect("a script was valid when it was written");
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.device.push(req),
                Output::Finished { io, .. } => assert!(self.finished.insert(io.0), "once"),
                Output::WaitUntil(at) => return self.wake = at,
                Output::Accepted { .. } | Output::Delay { .. } => {}
            }
        }
    }

    fn run_dry(&mut self) {
        for proc in 0..self.stack.env().procs.len() as u32 {
            self.input(Input::Unplug(ProcId(proc)));
        }
        for _ in 0..10_000 {
            if self.finished == self.submitted {
                return;
            }
            if let Some(req) = self.device.pop() {
                self.now += Nanos::ms(1);
                self.input(Input::Done { req, error: None });
            } else {
                self.now = self.now.max(self.wake.expect("what is held is timed"));
                self.input(Input::Tick);
            }
        }
        panic!("it does not come to rest");
    }
}

fn set_device(device: &mut Device, setting: &str) {
    let (name, value) = setting.split_once('=').expect("name=value");
    let value = number(value);
    match name {
        "depth" => device.queue_depth = value as u32,
        "hw_queues" => device.hw_queues = value as u16,
        "max_sectors" => device.max_sectors = Sectors(value),
        "max_segments" => device.max_segments = value as u32,
        "chunk_sectors" => device.chunk_sectors = Sectors(value),
        "write_cache" => device.write_cache = value != 0,
        "none_plug_lifo" => device.none_plug_lifo = value != 0,
        other => panic!("no setting '{other}' of a device"),
    }
}

fn io(text: &str) -> Io {
    let part = |key| number(field(text, key));
    let op = match field(text, "op") {
        "Read" => Op::Read,
        "Write" => Op::Write,
        "Flush" => Op::Flush,
        "Discard" => Op::Discard,
        "WriteZeroes" => Op::WriteZeroes,
        other => panic!("no operation '{other}'"),
    };
    Io {
        id: IoId(part("id")),
        proc: ProcId(part("proc") as u32),
        group: GroupId(part("group") as u32),
        cpu: part("cpu") as u32,
        op,
        start: Sectors(part("start")),
        sectors: Sectors(part("sectors")),
        segments: part("segments") as u32,
        flags: Flags::from_bits(part("flags") as u16),
        prio: prio(part("prio")),
    }
}

fn prio(word: u64) -> IoPrio {
    let class = [Class::None, Class::Rt, Class::Be, Class::Idle][word as usize >> 13];
    IoPrio::new(class, (word & 7) as u8).expect("a valid priority")
}

/// The text behind `key: `, up to the next comma or blank.
fn field<'a>(text: &'a str, key: &str) -> &'a str {
    let key = format!(" {key}: ");
    let from = text.find(&key).unwrap_or_else(|| panic!("no '{key}' in {text}")) + key.len();
    let rest = &text[from..];
    &rest[..rest.find([',', ' ']).unwrap_or(rest.len())]
}

/// The digits of `5`, `GroupId(5)`.
fn number(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("'{text}' holds no number"))
}
