//! Everything called wrongly: a million calls with random values, good and bad ones mixed, on stacks of all
//! schedulers with all controllers. Each is answered by a code, none ends the process, and no stack fails.

use hoistway_capi::*;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

/// Calls, unless `HOSTILE_CALLS` says another number.
const CALLS: u64 = 1_000_000;
/// Calls that a stack lives for.
const LIFE: u64 = 20_000;

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Any number, with those at borders more often than others.
    fn any(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(u32::MAX),
            3 => 1 << self.below(64),
            4 => (1 << self.below(64)) - 1,
            5 => self.below(16),
            6 => self.below(5000),
            _ => self.next(),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A stack that is called.
struct Victim {
    stack: *mut hw_stack,
    now: u64,
    procs: Vec<u32>,
    groups: Vec<u32>,
    reqs: Vec<u64>,
    wait: u64,
}

const NAMES: &[&CStr] = &[
    c"",
    c"queue",
    c"scheduler",
    c"bfq",
    c"io.max",
    c"io.cost",
    c"io.latency",
    c"wbt",
    c"io.low",
    c"none",
    c"kyber",
    c"weight",
    c"nr_requests",
    c"nomerges",
    c"slice_idle",
    c"io.weight",
    c"io.stat",
    c"io.prio.class",
    c"\xff\xfe",
    c"no-such-thing",
    c"io.cost.qos",
    c"io.cost.model",
    c"low_latency",
];

const LINES: &[&CStr] = &[
    c"",
    c"max",
    c"8:0 rbps=1048576",
    c"8:0 riops=10 wiops=max",
    c"default 100",
    c"200",
    c"idle",
    c"8:0 target=2000",
    c"8:0 enable=1 ctrl=auto",
    c"8:0 enable=1 rpct=95.00 rlat=5000",
    c"\xff",
    c"8:0 rbps=0",
    c"8:0 rbps=18446744073709551615",
    c"1",
    c"promote-to-rt",
    c"8ms",
    c"64KiB",
    c"on",
    c"all",
];

fn name_at(f: extern "C" fn(u32) -> *const c_char, n: u64) -> String {
    let count = (0..).take_while(|&i| !f(i).is_null()).count() as u64;
    // SAFETY: a name lives as long as the program.
    unsafe { CStr::from_ptr(f((n % count) as u32)) }.to_str().unwrap().into()
}

/// A device within its ranges.
fn good_device(r: &mut Random) -> hw_device {
    hw_device {
        size: size_of::<hw_device>() as u32,
        queue_depth: r.pick(&[1, 2, 31, 128]),
        sectors: r.pick(&[1, 1 << 20, 1 << 54]),
        flags: r.below(32) as u32,
        hw_queues: r.pick(&[0, 1, 3]),
        nr_requests: r.pick(&[0, 4, 64]),
        max_sectors: r.pick(&[0, 8, 100]),
        max_segments: r.pick(&[0, 1, 3]),
        chunk_sectors: r.pick(&[0, 8, 72]),
        discard_sectors: r.pick(&[0, 8, 1000]),
        discard_granularity: r.pick(&[0, 1, 16]),
        ..hw_device::default()
    }
}

impl Victim {
    fn new(r: &mut Random) -> Victim {
        let mut stack: *mut hw_stack = null_mut();
        while stack.is_null() {
            let mut device = good_device(r);
            if r.one_in(3) {
                // One field is anything.
                let field = r.below(14) as usize;
                let value = r.any() as u32;
                // SAFETY: the struct is 14 numbers of 32 bits.
                unsafe { (&raw mut device).cast::<u32>().add(field).write(value) };
                // Room for a large device takes time only.
                device.ios = device.ios.min(4096);
                device.hw_queues = device.hw_queues.min(8);
            }
            let scheduler = CString::new(name_at(hw_scheduler_name, r.next())).unwrap();
            let controllers = match r.below(3) {
                0 => String::new(),
                1 => name_at(hw_controller_name, r.next()),
                _ => "io.max,io.cost,wbt,io.latency".into(),
            };
            let controllers = CString::new(controllers).unwrap();
            let mut why = [0; 40];
            // SAFETY: all pointers are good for the call.
            let code = unsafe {
                let (scheduler, controllers) = (scheduler.as_ptr(), controllers.as_ptr());
                hw_stack_new(&device, scheduler, controllers, &mut stack, why.as_mut_ptr(), 40)
            };
            assert_eq!(code == 0, !stack.is_null());
            assert_ne!(code, hw_code::HW_E_PANIC as i32, "{device:?}");
            assert_eq!(*why.last().unwrap(), 0);
        }
        let (procs, groups, reqs) = (vec![0, HW_PROC_NONE], vec![0], Vec::new());
        Victim { stack, now: 0, procs, groups, reqs, wait: 0 }
    }

    /// A time: nearly always a good one.
    fn time(&mut self, r: &mut Random) -> u64 {
        let time = match r.below(200) {
            0 => r.any(),
            1 => self.now.wrapping_sub(1),
            2..20 if self.wait < self.now.saturating_add(1 << 40) => self.wait.max(self.now),
            20..24 => self.now + (1 << r.below(36)),
            _ => self.now + r.below(100_000),
        };
        // One that is far ahead is not used: nothing could follow it.
        let far = time > self.now.saturating_add(1 << 40);
        if far && !r.one_in(100) && time < HW_TIME_END {
            return self.now;
        }
        if time < HW_TIME_END {
            self.now = self.now.max(time);
        }
        time
    }

    fn proc(&mut self, r: &mut Random) -> u32 {
        if r.one_in(20) { r.any() as u32 } else { r.pick(&self.procs) }
    }

    fn group(&mut self, r: &mut Random) -> u32 {
        if r.one_in(20) { r.any() as u32 } else { r.pick(&self.groups) }
    }

    /// A request: mostly one that is with the device, and then no more.
    fn req(&mut self, r: &mut Random) -> u64 {
        if self.reqs.is_empty() || r.one_in(20) {
            return r.any();
        }
        let at = r.below(self.reqs.len() as u64) as usize;
        if r.one_in(20) { self.reqs[at] } else { self.reqs.swap_remove(at) }
    }

    fn io(&mut self, r: &mut Random) -> hw_io {
        let mut io = hw_io {
            size: size_of::<hw_io>() as u32,
            op: r.below(5) as u32,
            id: r.next(),
            sector: r.below(1 << 20) & !7,
            sectors: r.pick(&[0, 1, 8, 64, 300]),
            segments: r.pick(&[0, 1, 9]),
            proc: self.proc(r),
            group: if r.one_in(2) { 0 } else { self.group(r) },
            cpu: r.below(6) as u32,
            flags: if r.one_in(3) { r.below(1 << 13) as u32 } else { 0 },
            priority: r.pick(&[0, 1 << 13, 2 << 13 | 7, 3 << 13 | 7]),
            reserved: 0,
        };
        if r.one_in(20) {
            let field = r.below(14) as usize;
            let value = r.any() as u32;
            // SAFETY: the struct is 14 numbers of 32 bits.
            unsafe { (&raw mut io).cast::<u32>().add(field).write(value) };
            // A size that the struct has not is a lie that nobody can find out.
            io.size = io.size.min(size_of::<hw_io>() as u32);
        }
        io
    }

    fn input(&mut self, r: &mut Random) -> hw_input {
        hw_input {
            now_ns: self.time(r),
            kind: if r.one_in(30) { r.any() as u32 } else { r.below(7) as u32 },
            error: if r.one_in(4) { r.any() as i32 } else { 0 },
            req: self.req(r),
            proc: self.proc(r),
            reserved: u32::from(r.one_in(50)),
            io: self.io(r),
        }
    }

    /// Takes what an event says.
    fn take(&mut self, event: &hw_event) {
        match event.kind {
            0 => self.wait = event.until_ns,
            1 => self.reqs.push(event.req),
            5 => assert!(event.error < 0 && event.error != hw_code::HW_E_PANIC as i32),
            kind => assert!(kind < 5),
        }
    }

    fn poll(&mut self, r: &mut Random) -> i32 {
        let mut events = [hw_event::default(); 8];
        let room = r.below(9) as u32;
        // SAFETY: there is room for eight.
        let n = unsafe { hw_poll(self.stack, events.as_mut_ptr(), room) };
        events.iter().take(n.max(0) as usize).for_each(|e| self.take(e));
        n
    }

    fn drain(&mut self, r: &mut Random) {
        let mut events = [hw_event::default(); 8];
        loop {
            // SAFETY: there is room for eight.
            let n = unsafe { hw_poll(self.stack, events.as_mut_ptr(), 1 + r.below(8) as u32) };
            assert!(n > 0, "{n}: {}", self.error());
            events.iter().take(n as usize).for_each(|e| self.take(e));
            if events[n as usize - 1].kind == 0 {
                return;
            }
        }
    }

    fn step(&mut self, r: &mut Random) -> i32 {
        let count = r.below(9) as u32;
        let inputs: [hw_input; 8] = std::array::from_fn(|_| self.input(r));
        let mut events = [hw_event::default(); 8];
        let mut taken = 0;
        let size = if r.one_in(50) { r.any() as usize } else { size_of::<hw_input>() };
        let size = if size > size_of::<hw_input>() { 0 } else { size };
        // SAFETY: there are eight of both.
        let n = unsafe {
            let (inputs, events) = (inputs.as_ptr(), events.as_mut_ptr());
            hw_step(self.stack, inputs, count.min(8), size, events, r.below(9) as u32, &mut taken)
        };
        assert!(taken <= count);
        events.iter().take(n.max(0) as usize).for_each(|e| self.take(e));
        n
    }

    /// One call of a function that changes what is around the I/O.
    fn control(&mut self, r: &mut Random) -> i32 {
        let (s, now) = (self.stack, self.time(r));
        let (proc, group, other) = (self.proc(r), self.group(r), self.group(r));
        let [stage, name] = [(); 2].map(|()| r.pick(NAMES).as_ptr());
        let stage = if r.one_in(3) { null() } else { stage };
        let line = r.pick(LINES).as_ptr();
        let (value, mut out, mut text) = (r.any(), 0, [0; 64]);
        let prio = r.pick(&[0, 0x2004, 0x4002, 0x6007, u32::MAX]);
        // SAFETY: all pointers are good for the call, or NULL.
        unsafe {
            match r.below(16) {
                0 => {
                    let n = hw_add_group(s, now, group, name);
                    self.groups.extend(u32::try_from(n).ok());
                    n
                }
                1 => hw_remove_group(s, now, group),
                2 => {
                    let n = hw_add_proc(s, group, prio);
                    self.procs.extend(u32::try_from(n).ok());
                    n
                }
                3 if r.one_in(4) => hw_remove_proc(s, now, proc),
                4 => hw_move_proc(s, now, proc, other),
                5 => hw_set_priority(s, now, proc, prio),
                6 => hw_set(s, now, stage, name, value),
                7 => hw_set_text(s, now, stage, name, line),
                8 => hw_get(s, stage, name, if r.one_in(9) { null_mut() } else { &mut out }),
                9 => hw_set_group(s, now, group, stage, name, value),
                10 => hw_reset_group(s, now, group, stage, name),
                11 => hw_write(s, now, group, name, if r.one_in(9) { null() } else { line }),
                12 => hw_read(s, group, name, text.as_mut_ptr(), r.below(65) as usize),
                13 if r.one_in(50) => {
                    let name = CString::new(name_at(hw_scheduler_name, r.next())).unwrap();
                    hw_switch(s, now, name.as_ptr())
                }
                14 => self.setting(r, now),
                15 if r.one_in(500) => hw_end(s, now),
                _ => hw_tick(null_mut(), now),
            }
        }
    }

    /// A setting of the scheduler in force that there is, to a value of its range or beside it.
    fn setting(&mut self, r: &mut Random, now: u64) -> i32 {
        let mut row = std::mem::MaybeUninit::<hw_tunable>::zeroed();
        // SAFETY: a zeroed row has null pointers only; the functions fill it.
        unsafe {
            (*row.as_mut_ptr()).size = size_of::<hw_tunable>() as u32;
            let stage = hw_scheduler(self.stack);
            if hw_tunable_of(stage, r.below(40) as u32, row.as_mut_ptr()) != 1 {
                return 0;
            }
            let row = row.assume_init();
            let value = match r.below(4) {
                0 => row.min,
                1 => row.max,
                2 => row.min + r.next() % (row.max - row.min).saturating_add(1).max(1),
                _ => r.any(),
            };
            hw_set(self.stack, now, stage, row.name, value)
        }
    }

    fn call(&mut self, r: &mut Random) -> i32 {
        let (s, now, proc) = (self.stack, self.time(r), self.proc(r));
        let mut pieces = [hw_piece::default(); 4];
        let mut counters = hw_counters { size: r.pick(&[72, 72, 0, 80]), ..hw_counters::default() };
        // SAFETY: all pointers are good for the call, or NULL; a size of 80 lies within what is written, 72.
        unsafe {
            match r.below(20) {
                0..5 => {
                    let io = self.io(r);
                    hw_submit(s, now, if r.one_in(99) { null() } else { &io })
                }
                5..9 => hw_done(s, now, self.req(r), if r.one_in(5) { r.any() as i32 } else { 0 }),
                9 => hw_requeue(s, now, self.req(r)),
                10 => hw_plug(s, now, proc),
                11 => hw_unplug(s, now, proc),
                12 => hw_sleep(s, now, proc),
                13 => hw_tick(s, now),
                14 => self.poll(r),
                15 => self.step(r),
                16 => hw_pieces(s, self.req(r), pieces.as_mut_ptr(), r.below(5) as u32),
                17 => hw_count(s, &mut counters),
                _ => self.control(r),
            }
        }
    }

    fn error(&self) -> String {
        // SAFETY: the stack lives, and the text until the next call.
        let text = unsafe { CStr::from_ptr(hw_error(self.stack)) };
        text.to_string_lossy().into_owned()
    }

    /// Nearly always the events are taken.
    fn settle(&mut self, r: &mut Random) {
        if !r.one_in(30) {
            self.drain(r);
        }
    }
}

#[test]
fn a_million_calls_with_random_values_are_survived() {
    let mut codes = std::collections::BTreeMap::<i32, u64>::new();
    let calls = std::env::var("HOSTILE_CALLS").map_or(CALLS, |n| n.parse().expect("a number"));
    for life in 0..calls / LIFE {
        let mut r = Random(0x9e37_79b9_7f4a_7c15 ^ (life + 1));
        let mut v = Victim::new(&mut r);
        for call in 0..LIFE {
            let code = v.call(&mut r);
            *codes.entry(code.min(0)).or_default() += 1;
            assert_ne!(code, hw_code::HW_E_PANIC as i32, "life {life}, call {call}: {}", v.error());
            assert!((hw_code::HW_E_PANIC as i32..=i32::MAX).contains(&code));
            v.settle(&mut r);
        }
        // SAFETY: it lives, and is not used again.
        assert_eq!(unsafe { hw_stack_free(v.stack) }, 0);
    }
    println!("codes and how often: {codes:?}");
    let rare = (-13..=0).find(|code| codes.get(code).copied().unwrap_or(0) < 100);
    assert_eq!(rare, None, "each code but for threads and full tables is met often: {codes:?}");
}
