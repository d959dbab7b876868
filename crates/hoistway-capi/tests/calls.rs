//! What each call promises, as a program would find out.

use hoistway::sched::{Entry, find};
use hoistway::{Device, GroupId, Input, Instant, Io, IoPrio, Output, Sectors, Stack};
use hoistway_capi::*;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

fn text(at: *const c_char) -> String {
    assert!(!at.is_null());
    // SAFETY: the library's texts end with a zero byte, and nothing is called meanwhile.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().into()
}

fn device() -> hw_device {
    let size = size_of::<hw_device>() as u32;
    hw_device { size, queue_depth: 4, sectors: 1 << 20, ..hw_device::default() }
}

/// The code, the stack, and why there is none.
fn make(device: &hw_device, scheduler: &str, controllers: &str) -> (i32, *mut hw_stack, String) {
    let (mut stack, mut why) = (null_mut(), [0; 200]);
    let [s, c] = [scheduler, controllers].map(|t| CString::new(t).unwrap());
    // SAFETY: all pointers are good for the call.
    let code = unsafe {
        hw_stack_new(device, s.as_ptr(), c.as_ptr(), &mut stack, why.as_mut_ptr(), why.len())
    };
    (code, stack, if code < 0 { text(why.as_ptr()) } else { String::new() })
}

/// A stack with its life.
struct Rig(*mut hw_stack);

impl Drop for Rig {
    fn drop(&mut self) {
        // SAFETY: it lives.
        assert_eq!(unsafe { hw_stack_free(self.0) }, 0);
    }
}

// SAFETY of all calls below: the stack of a rig lives, and what pointers name lives longer than the call.
impl Rig {
    fn new(scheduler: &str, controllers: &str) -> Rig {
        let (code, stack, why) = make(&device(), scheduler, controllers);
        assert_eq!((code, why.as_str()), (0, ""));
        Rig(stack)
    }

    fn events(&self) -> Vec<hw_event> {
        let mut all: Vec<hw_event> = Vec::new();
        loop {
            let mut event = [hw_event::default(); 3];
            let n = unsafe { hw_poll(self.0, event.as_mut_ptr(), 3) };
            assert!(n > 0, "{n}: {}", self.error());
            all.extend(&event[..n as usize]);
            if all.last().unwrap().kind == hw_event_kind::HW_WAIT as u32 {
                return all;
            }
        }
    }

    fn issued(&self) -> Vec<hw_event> {
        let kind = hw_event_kind::HW_ISSUE as u32;
        self.events().into_iter().filter(|e| e.kind == kind).collect()
    }

    fn submit(&self, now: u64, edit: impl FnOnce(&mut hw_io)) -> i32 {
        let mut io = read(0);
        edit(&mut io);
        unsafe { hw_submit(self.0, now, &io) }
    }

    fn proc(&self) -> u32 {
        unsafe { hw_add_proc(self.0, HW_GROUP_ROOT, 0) }.try_into().unwrap()
    }

    fn done(&self, now: u64, req: u64) -> i32 {
        unsafe { hw_done(self.0, now, req, 0) }
    }

    fn get(&self, stage: &CStr, name: &CStr) -> u64 {
        let mut value = 0;
        let code = unsafe { hw_get(self.0, stage.as_ptr(), name.as_ptr(), &mut value) };
        assert_eq!(code, 0, "{}", self.error());
        value
    }

    fn error(&self) -> String {
        text(unsafe { hw_error(self.0) })
    }
}

fn read(sector: u64) -> hw_io {
    hw_io { size: size_of::<hw_io>() as u32, sector, sectors: 8, ..hw_io::default() }
}

fn code(code: hw_code) -> i32 {
    code as i32
}

#[test]
fn an_io_goes_its_way() {
    let rig = Rig::new("mq-deadline", "");
    let proc = rig.proc();
    assert_eq!(rig.submit(1000, |io| (io.id, io.sector, io.proc) = (7, 80, proc)), 0);
    let events = rig.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [2, 1, 0]);
    let issue = events[1];
    assert_eq!((events[0].io, issue.io, issue.pieces), (7, 7, 1));
    assert_eq!((issue.op, issue.sector, issue.sectors, issue.proc), (0, 80, 8, proc));
    assert_eq!(unsafe { hw_done(rig.0, 2000, issue.req, hw_errno::HW_EINVAL as i32) }, 0);
    let events = rig.events();
    let finished = hw_event_kind::HW_FINISHED as u32;
    assert_eq!((events[0].kind, events[0].io, events[0].error), (finished, 7, 22));
    assert_eq!(events[1].until_ns, HW_NEVER);
}

#[test]
fn what_the_core_asserts_is_answered_by_a_code() {
    let rig = Rig::new("bfq", "");
    let proc = rig.proc();
    assert_eq!(rig.submit(5000, |io| io.proc = proc), 0);
    assert_eq!(unsafe { hw_tick(rig.0, 6000) }, code(hw_code::HW_E_UNDRAINED));
    assert!(rig.error().contains("drain"), "{}", rig.error());
    let req = rig.issued()[0].req;
    assert_eq!(unsafe { hw_tick(rig.0, 4999) }, code(hw_code::HW_E_TIME));
    assert!(rig.error().contains("4999"), "{}", rig.error());
    assert_eq!(unsafe { hw_tick(rig.0, HW_TIME_END) }, code(hw_code::HW_E_TIME));
    assert_eq!(rig.done(7000, req + 1), code(hw_code::HW_E_REQUEST));
    rig.events();
    assert_eq!(rig.done(7000, req), 0);
    rig.events();
    assert_eq!(rig.done(8000, req), code(hw_code::HW_E_REQUEST), "done twice");
    assert!(rig.error().contains("not with the device"), "{}", rig.error());
}

#[test]
fn a_bad_io_is_refused_and_nothing_is_done() {
    let rig = Rig::new("none", "");
    let proc = rig.proc();
    let refused = |edit: fn(&mut hw_io)| {
        let answer = rig.submit(0, |io| {
            io.proc = proc;
            edit(io);
        });
        rig.events();
        answer
    };
    assert_eq!(refused(|io| io.sectors = 0), code(hw_code::HW_E_IO));
    assert_eq!(refused(|io| io.sector = 1 << 20), code(hw_code::HW_E_IO), "beyond the end");
    assert_eq!(refused(|io| io.sector = u64::MAX), code(hw_code::HW_E_IO));
    assert_eq!(refused(|io| io.op = 2), code(hw_code::HW_E_IO), "the device knows no discard");
    assert_eq!(refused(|io| io.op = 5), code(hw_code::HW_E_RANGE));
    assert_eq!(refused(|io| io.cpu = HW_CPUS), code(hw_code::HW_E_RANGE));
    assert_eq!(refused(|io| io.flags = 1 << 20), code(hw_code::HW_E_RANGE));
    assert_eq!(refused(|io| io.priority = 4 << 13), code(hw_code::HW_E_RANGE));
    assert_eq!(refused(|io| io.proc = 9), code(hw_code::HW_E_PROC));
    assert_eq!(refused(|io| io.group = 9), code(hw_code::HW_E_GROUP));
    assert_eq!(refused(|io| io.size = 55), code(hw_code::HW_E_SIZE));
    assert_eq!(unsafe { hw_submit(rig.0, 0, null()) }, code(hw_code::HW_E_NULL));
    assert_eq!(unsafe { hw_submit(null_mut(), 0, null()) }, code(hw_code::HW_E_NULL));
    let mut counters = hw_counters { size: size_of::<hw_counters>() as u32, ..Default::default() };
    assert_eq!(unsafe { hw_count(rig.0, &mut counters) }, 0);
    assert_eq!((counters.submitted, counters.issued), (0, 0));
}

/// A caller of a later version has longer structs; what is not known here must be zero.
#[test]
fn structs_may_grow() {
    #[repr(C)]
    struct Longer {
        io: hw_io,
        later: u64,
    }
    let rig = Rig::new("none", "");
    let io = hw_io { size: size_of::<Longer>() as u32, proc: rig.proc(), ..read(0) };
    let mut longer = Longer { io, later: 0 };
    let at = (&raw const longer).cast::<hw_io>();
    assert_eq!(unsafe { hw_submit(rig.0, 0, at) }, 0);
    assert_eq!(rig.issued().len(), 1);
    longer.later = 1;
    let at = (&raw const longer).cast::<hw_io>();
    assert_eq!(unsafe { hw_submit(rig.0, 0, at) }, code(hw_code::HW_E_SIZE));
    assert!(rig.error().contains("older than the header"), "{}", rig.error());
}

#[test]
fn a_step_is_its_inputs_one_by_one_and_goes_on_when_the_room_is_used_up() {
    let rig = Rig::new("none", "");
    let proc = rig.proc();
    let submit = |id| hw_input {
        now_ns: 10 * id,
        kind: hw_input_kind::HW_IN_SUBMIT as u32,
        io: hw_io { id, proc, ..read(1000 * id) },
        ..hw_input::default()
    };
    let bad = hw_input { kind: hw_input_kind::HW_IN_DONE as u32, req: 99, now_ns: 25, ..submit(0) };
    let inputs = [submit(1), submit(2), bad, submit(3)];
    let (mut all, mut from, mut calls) = (Vec::<hw_event>::new(), 0, 0);
    loop {
        let mut events = [hw_event::default(); 2];
        let (mut taken, left) = (0, &inputs[from..]);
        let size = size_of::<hw_input>();
        let n = unsafe {
            let count = left.len() as u32;
            hw_step(rig.0, left.as_ptr(), count, size, events.as_mut_ptr(), 2, &mut taken)
        };
        assert!(n > 0, "{}", rig.error());
        all.extend(&events[..n as usize]);
        from += taken as usize;
        calls += 1;
        if all.last().unwrap().kind == hw_event_kind::HW_WAIT as u32 {
            break;
        }
    }
    assert_eq!((from, calls > 3), (4, true));
    let told: Vec<_> = all.iter().map(|e| (e.kind, e.io)).collect();
    let each = |id| [(1, id), (2, id)];
    let mut expected = [each(1).as_slice(), &each(2), &[(5, 0)], &each(3), &[(0, 0)]].concat();
    let mut got = told.clone();
    // Whether the submission is over before or after the request is issued is the scheduler's matter.
    got.sort_unstable();
    expected.sort_unstable();
    assert_eq!(got, expected, "{told:?}");
    let refused = all.iter().find(|e| e.kind == 5).unwrap();
    assert_eq!((refused.error, refused.req), (code(hw_code::HW_E_REQUEST), 99));
}

#[test]
fn the_pieces_of_a_request_are_named() {
    let rig = Rig::new("mq-deadline", "");
    let proc = rig.proc();
    assert_eq!(unsafe { hw_plug(rig.0, 0, proc) }, 0);
    rig.events();
    for id in 0..3 {
        assert_eq!(rig.submit(0, |io| (io.id, io.sector, io.proc) = (10 + id, 8 * id, proc)), 0);
        rig.events();
    }
    let busy = unsafe { hw_remove_proc(rig.0, 0, proc) };
    assert_eq!(busy, code(hw_code::HW_E_IN_USE), "its section is open");
    assert_eq!(unsafe { hw_unplug(rig.0, 0, proc) }, 0);
    let issued = rig.issued();
    assert_eq!((issued.len(), issued[0].pieces, issued[0].sectors), (1, 3, 24));
    let mut pieces = [hw_piece::default(); 2];
    assert_eq!(unsafe { hw_pieces(rig.0, issued[0].req, pieces.as_mut_ptr(), 2) }, 3);
    assert_eq!(pieces.map(|p| (p.io, p.sector, p.sectors)), [(10, 0, 8), (11, 8, 8)]);
    assert_eq!(unsafe { hw_remove_proc(rig.0, 0, proc) }, 0);
    rig.events();
    assert_eq!(rig.submit(0, |io| io.proc = proc), code(hw_code::HW_E_PROC), "it has gone");
}

#[test]
fn a_stack_is_described_by_text() {
    let rig = Rig::new("bfq{slice_idle=4ms, low_latency=off}", "io.max,wbt{target=3ms}");
    assert_eq!(rig.get(c"bfq", c"low_latency"), 0);
    assert_eq!(rig.get(c"wbt", c"target"), 3000);
    let refused = |scheduler: &str, controllers: &str, what: &str| {
        let (answer, stack, why) = make(&device(), scheduler, controllers);
        assert!(stack.is_null() && why.contains(what), "{why}");
        answer
    };
    assert_eq!(refused("bfg", "", "meant bfq?"), code(hw_code::HW_E_NAME));
    assert_eq!(refused("bfq{slice_idel=0}", "", "meant slice_idle?"), code(hw_code::HW_E_NAME));
    assert_eq!(refused("bfq{slice_idle=soon}", "", "slice_idle"), code(hw_code::HW_E_VALUE));
    assert_eq!(refused("bfq{slice_idle", "", "NAME{"), code(hw_code::HW_E_VALUE));
    assert_eq!(refused("bfq", "io.mix", "meant io.max?"), code(hw_code::HW_E_NAME));
    assert_eq!(refused("bfq", "wbt,wbt", "twice"), code(hw_code::HW_E_VALUE));
    let (answer, _, why) = make(&hw_device { queue_depth: 0, ..device() }, "bfq", "");
    assert_eq!((answer, why.contains("queue_depth")), (code(hw_code::HW_E_RANGE), true));
    let (answer, _, _) = make(&hw_device { size: 8, ..device() }, "bfq", "");
    assert_eq!(answer, code(hw_code::HW_E_SIZE));
    let none = unsafe { hw_stack_new(null(), null(), null(), null_mut(), null_mut(), 0) };
    assert_eq!(none, code(hw_code::HW_E_NULL));
}

#[test]
fn settings_change_while_io_runs() {
    let rig = Rig::new("mq-deadline", "");
    let (proc, queue) = (rig.proc(), c"queue");
    rig.submit(0, |io| io.proc = proc);
    let req = rig.issued()[0].req;
    let set = |stage: &CStr, name: &CStr, value| {
        let answer = unsafe { hw_set(rig.0, 1, stage.as_ptr(), name.as_ptr(), value) };
        rig.events();
        answer
    };
    assert_eq!(set(c"mq-deadline", c"read_expire", 77), 0);
    assert_eq!(rig.get(c"", c"read_expire"), 77);
    assert_eq!(set(queue, c"nomerges", 9), code(hw_code::HW_E_VALUE));
    assert_eq!(set(queue, c"nomergse", 1), code(hw_code::HW_E_NAME));
    assert_eq!(set(c"bfq", c"slice_idle", 1), code(hw_code::HW_E_NAME), "not in force");
    let word =
        unsafe { hw_set_text(rig.0, 1, queue.as_ptr(), c"nomerges".as_ptr(), c"never".as_ptr()) };
    assert_eq!((word, rig.events().len(), rig.get(queue, c"nomerges")), (0, 1, 2));
    // Another scheduler, once the request is done.
    assert_eq!(unsafe { hw_switch(rig.0, 2, c"kyber".as_ptr()) }, 0);
    rig.events();
    assert_eq!(text(unsafe { hw_scheduler(rig.0) }), "mq-deadline");
    assert_eq!(rig.done(3, req), 0);
    rig.events();
    assert_eq!(text(unsafe { hw_scheduler(rig.0) }), "kyber");
}

#[test]
fn groups_have_weights_files_and_an_end() {
    let rig = Rig::new("bfq", "io.max");
    let add = |parent, name: &CStr| {
        let n = unsafe { hw_add_group(rig.0, 0, parent, name.as_ptr()) };
        rig.events();
        n
    };
    let (tenant, below) = (add(0, c"tenant") as u32, add(1, c"below") as u32);
    assert_eq!((tenant, below, add(9, c"x")), (1, 2, code(hw_code::HW_E_GROUP)));
    let proc = unsafe { hw_add_proc(rig.0, below, 0) } as u32;
    let write = |file: &CStr, line: &CStr| {
        let answer = unsafe { hw_write(rig.0, 0, tenant, file.as_ptr(), line.as_ptr()) };
        rig.events();
        answer
    };
    assert_eq!(write(c"io.max", c"8:0 rbps=1048576"), 0, "{}", rig.error());
    assert_eq!(write(c"io.max", c"8:0 rbps=much"), code(hw_code::HW_E_VALUE));
    assert_eq!(write(c"io.cost.qos", c""), code(hw_code::HW_E_NAME), "not installed");
    let mut said = [0; 12];
    let file = c"io.max".as_ptr();
    let length = unsafe { hw_read(rig.0, tenant, file, said.as_mut_ptr(), said.len()) };
    assert!(
        length > 12 && text(said.as_ptr()) == "8:0 rbps=10",
        "{length} {}",
        text(said.as_ptr())
    );
    let remove = |group| {
        let answer = unsafe { hw_remove_group(rig.0, 0, group) };
        if answer != code(hw_code::HW_E_UNDRAINED) {
            rig.events();
        }
        answer
    };
    assert_eq!(remove(0), code(hw_code::HW_E_IN_USE));
    assert_eq!(
        (remove(tenant), remove(below)),
        (code(hw_code::HW_E_IN_USE), code(hw_code::HW_E_IN_USE))
    );
    // The process pays for what it submits as its group does.
    assert_eq!(rig.submit(0, |io| io.proc = proc), 0);
    rig.events();
    let mut stat = [0; 200];
    unsafe { hw_read(rig.0, below, c"io.stat".as_ptr(), stat.as_mut_ptr(), stat.len()) };
    assert!(text(stat.as_ptr()).contains("rbytes=4096"), "{}", text(stat.as_ptr()));
    assert_eq!(unsafe { hw_move_proc(rig.0, 0, proc, 0) }, 0);
    rig.events();
    assert_eq!((remove(below), remove(tenant), remove(tenant)), (0, 0, code(hw_code::HW_E_GROUP)));
}

#[test]
fn what_there_is_is_listed() {
    let schedulers: Vec<_> =
        (0..).map(|n| hw_scheduler_name(n)).take_while(|n| !n.is_null()).collect();
    assert_eq!(schedulers.len(), hoistway::sched::SCHEDULERS.len());
    for (&name, entry) in schedulers.iter().zip(hoistway::sched::SCHEDULERS) {
        assert_eq!(
            (text(name), text(unsafe { hw_summary(name) })),
            (entry.name.into(), entry.summary.into())
        );
        let count = (0..).take_while(|&i| row(name, i).is_some()).count();
        assert_eq!(count, entry.tunables.len());
    }
    let row = row(c"queue".as_ptr(), 1).unwrap();
    assert_eq!((text(row.name), text(row.words)), ("nomerges".into(), "all,simple,never".into()));
    assert_eq!((row.usual, row.min, row.max), (0, 0, 2));
    assert!(!text(row.doc).is_empty() && text(row.effect).contains("decision"));
    assert_eq!((text(hw_version()), hw_abi()), (env!("CARGO_PKG_VERSION").into(), HW_ABI));
    let known = (-16..=0).map(|code| text(hw_code_text(code)));
    assert_eq!(known.collect::<std::collections::BTreeSet<_>>().len(), 17);
    assert!(text(hw_code_text(-17)).contains("no such code"));
    assert!(unsafe { hw_summary(c"nothing".as_ptr()) }.is_null());
}

fn row(stage: *const c_char, index: u32) -> Option<hw_tunable> {
    let mut row = std::mem::MaybeUninit::<hw_tunable>::zeroed();
    unsafe {
        (*row.as_mut_ptr()).size = size_of::<hw_tunable>() as u32;
        (hw_tunable_of(stage, index, row.as_mut_ptr()) == 1).then(|| row.assume_init())
    }
}

/// The core panics in the middle of a call: the process goes on, the stack says so from then on.
#[test]
fn a_stack_whose_core_panicked_is_poisoned() {
    let noop = find("noop").unwrap();
    let broken: &'static Entry = Box::leak(Box::new(Entry {
        stage: noop.stage,
        profile: noop.profile,
        service: noop.service,
        search: noop.search,
        sorted: noop.sorted,
        replaces_wbt: false,
        direct: noop.direct,
        tag_percent_min: noop.tag_percent_min,
        tags_min: noop.tags_min,
        build: &|_| panic!("made to fail"),
    }));
    let mut stack = Stack::new(Device::new(Sectors(1 << 20), 4), noop, 8);
    let proc = stack.add_proc(GroupId::ROOT, IoPrio::NONE);
    stack.handle(Instant::ZERO, Input::Submit(Io::read(1, proc, 0, 8))).unwrap();
    let mut issued = None;
    loop {
        match stack.poll(Instant::ZERO) {
            Output::Issue { req, .. } => issued = Some(req),
            Output::WaitUntil(_) => break,
            _ => {}
        }
    }
    // It comes into force, and is built, with the end of the request.
    stack.handle(Instant::ZERO, Input::SwitchScheduler(broken)).unwrap();
    while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
    let req = issued.unwrap().0;
    let rig = Rig(hw_stack::into_raw(stack));
    let req = u64::from(req.generation) << 32 | u64::from(req.slot);
    assert_eq!(rig.done(1, req), code(hw_code::HW_E_PANIC));
    for _ in 0..2 {
        assert_eq!(unsafe { hw_tick(rig.0, 2) }, code(hw_code::HW_E_PANIC));
        assert!(rig.error().contains("made to fail"), "{}", rig.error());
    }
    let mut event = hw_event::default();
    assert_eq!(unsafe { hw_poll(rig.0, &mut event, 1) }, code(hw_code::HW_E_PANIC));
    assert!(unsafe { hw_scheduler(rig.0) }.is_null());
}

/// Two threads at once: one of them is turned away, nobody is harmed.
#[test]
fn another_thread_is_turned_away() {
    struct Shared(*mut hw_stack);
    // SAFETY: that threads meet is what is tested.
    unsafe impl Sync for Shared {}
    let rig = Rig::new("bfq", "");
    rig.proc();
    let shared = Shared(rig.0);
    let call = |shared: &Shared| {
        let mut event = hw_event::default();
        (0..20_000u64).for_each(|n| {
            let io = read(8 * n);
            let answers = unsafe {
                [
                    hw_submit(shared.0, n, &io),
                    hw_poll(shared.0, &mut event, 1),
                    hw_tick(shared.0, n),
                ]
            };
            let known = [-14, -8, -7, 0, 1];
            assert!(answers.iter().all(|a| known.contains(a)), "{answers:?}");
        });
    };
    std::thread::scope(|s| {
        s.spawn(|| call(&shared));
        call(&shared);
    });
}
