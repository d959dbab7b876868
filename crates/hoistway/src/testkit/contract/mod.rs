//! The contract of `Scheduler`: nothing is lost, nothing is issued twice, `Empty` changes nothing, early timers do no
//! harm, tunables keep to their ranges, and nothing allocates in steady state. Every entry of the registry keeps it; a
//! scheduler outside the tree is held to it by [`check`]:
//!
//! ```
//! # let entry = hoistway::sched::SCHEDULERS[0];
//! hoistway::testkit::contract::check(entry);
//! ```
//!
//! The rules the traits state, and what checks them here (`H`: the harness, at each of its steps):
//!
//! | rule | by |
//! |---|---|
//! | every insertion is answered by one `Issue` or by being merged away | `H::dispatch`, `H::absorb`, `random_loads_*`, `a_full_table_empties` |
//! | `prepare`, then `insert` or `merged(kept, Request(this))` | `H::submit`, `H::join_at_insertion` |
//! | what is given back is prepared and inserted at the head, and goes first | `H::give_back`, `insertion_at_the_head_*` |
//! | `Empty` says that nothing waits and changes nothing; `Idle` that something does | `H::dispatch`, `an_empty_scheduler_says_so` |
//! | who waits for time says until when; nothing waits for ever | `H::run_dry` |
//! | after `timer` the next one lies in the future; an early call does no harm | `H::pass`, `an_early_timer_changes_no_order` |
//! | `drain` hands over everything at once | `draining_hands_over_everything_at_once` |
//! | `depth_limit` allows at least what the registry line announces | `H::submit` |
//! | `find_merge` names a request that waits beside the bio, `neighbour` another that waits | `H::join`, `H::join_neighbour` |
//! | `changed` may come at any time: priorities, exits, moves, groups, the device | `H::step` |
//! | `set` and `set_group` take their ranges and, on an error, change nothing; `None` is the default | `tunables_*`, `a_groups_tunable_*`, `an_unknown_tunable_*` |
//! | `write_knob` takes a line whole or not at all | `a_file_of_a_group_*` |
//! | `queues` tells what the trace told | `queues_of_processes_*` |
//! | the same calls, the same answers; no allocation in steady state | `the_same_seed_*`, `steady_state_*` |

mod harness;

pub use harness::Harness;

use crate::sched::{At, Dispatch, Entry};
use crate::setting::TunableError;
use crate::trace::{Event, Trace};
use crate::{GroupId, Io, IoPrio, Nanos, ProcId, QueueId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use harness::{DEPTH, SLOTS, assert_same, state};

/// A rule, and the check that panics where a scheduler does not keep it.
pub type Rule = (&'static str, fn(&'static Entry));

/// Every rule but that of allocations ([`steady_state_allocates_nothing`]).
pub const RULES: &[Rule] = &[
    ("an_empty_scheduler_says_so", an_empty_scheduler_says_so),
    ("one_request_comes_out_once", one_request_comes_out_once),
    ("a_full_table_empties", a_full_table_empties),
    ("draining_hands_over_everything_at_once", draining_hands_over_everything_at_once),
    ("random_loads_lose_nothing_and_repeat_nothing", random_loads_lose_nothing_and_repeat_nothing),
    ("the_same_seed_gives_the_same_run", the_same_seed_gives_the_same_run),
    ("an_early_timer_changes_no_order", an_early_timer_changes_no_order),
    ("tunables_take_their_ends_and_nothing_beyond", tunables_take_their_ends_and_nothing_beyond),
    ("a_fresh_instance_has_its_defaults", a_fresh_instance_has_its_defaults),
    ("an_unknown_tunable_is_refused_by_name", an_unknown_tunable_is_refused_by_name),
    (
        "insertion_at_the_head_goes_before_all_that_waits",
        insertion_at_the_head_goes_before_all_that_waits,
    ),
    (
        "a_groups_tunable_takes_its_ends_and_goes_back_to_its_default",
        a_groups_tunable_takes_its_ends_and_goes_back_to_its_default,
    ),
    (
        "a_file_of_a_group_takes_a_line_whole_or_not_at_all",
        a_file_of_a_group_takes_a_line_whole_or_not_at_all,
    ),
    (
        "queues_of_processes_are_those_the_trace_has_told",
        queues_of_processes_are_those_the_trace_has_told,
    ),
];

/// Holds a scheduler to every rule of [`RULES`].
///
/// # Panics
///
/// At the first rule that it does not keep, with what was seen.
pub fn check(entry: &'static Entry) {
    RULES.iter().for_each(|(_, rule)| rule(entry));
}

fn an_empty_scheduler_says_so(entry: &'static Entry) {
    Harness::new(entry, 1, 1).assert_empty();
}

fn one_request_comes_out_once(entry: &'static Entry) {
    let mut h = Harness::new(entry, 1, 2);
    assert!(h.submit());
    h.run_dry();
    assert_eq!(h.issued, 1, "{}", entry.name);
}

fn a_full_table_empties(entry: &'static Entry) {
    for seed in 0..4 {
        let mut h = Harness::new(entry, 1, seed);
        while h.submit() {}
        assert_eq!(h.env.requests.len(), SLOTS);
        h.run_dry();
        assert_eq!(h.issued, SLOTS as u64, "{}", entry.name);
    }
}

fn draining_hands_over_everything_at_once(entry: &'static Entry) {
    let mut h = Harness::new(entry, 1, 5);
    while h.submit() {}
    let mut seen = [false; SLOTS];
    while let Some(id) = h.sched.drain(h.now, &mut h.env.cx()) {
        assert!(!core::mem::replace(&mut seen[id.index()], true), "{} twice", entry.name);
    }
    assert!(seen.iter().all(|&s| s), "{} kept something", entry.name);
}

fn random_loads_lose_nothing_and_repeat_nothing(entry: &'static Entry) {
    for queues in [1, 3] {
        let (mut joined, mut issued) = (0, 0);
        for seed in 0..12 {
            let mut h = Harness::new(entry, queues, seed);
            for _ in 0..4000 {
                h.step(true);
            }
            h.run_dry();
            (joined, issued) = (joined + h.joined, issued + h.issued);
        }
        assert!(issued > 5000, "{}: the load issued only {issued}", entry.name);
        // `none` merges least: requests of six CPUs never meet.
        assert!(joined > 30, "{}: the load merged only {joined}", entry.name);
    }
}

fn the_same_seed_gives_the_same_run(entry: &'static Entry) {
    let run = || {
        let mut h = Harness::new(entry, 1, 77);
        (0..3000).for_each(|_| h.step(true));
        format!("{:?} {} {}", h.sched, h.joined, h.issued)
    };
    assert_eq!(run(), run(), "{}", entry.name);
}

/// Nothing is allocated once a load has gone on for a while. `allocations` counts those of this thread: only a program
/// can have an allocator that does.
///
/// # Panics
///
/// If the scheduler does not keep the rule.
pub fn steady_state_allocates_nothing(entry: &'static Entry, allocations: &dyn Fn() -> u64) {
    let mut h = Harness::new(entry, 1, 9);
    (0..20_000).for_each(|_| h.step(false));
    let before = allocations();
    (0..50_000).for_each(|_| h.step(false));
    let n = allocations() - before;
    assert_eq!(n, 0, "{} allocated {n} times in 50000 steps", entry.name);
    h.run_dry();
}

fn an_early_timer_changes_no_order(entry: &'static Entry) {
    let run = |early: bool| {
        let mut h = Harness::new(entry, 1, 21);
        let mut order = Vec::new();
        for turn in 0..3000u64 {
            h.pass(Nanos::us(150));
            if early && h.sched.next_timer().is_none_or(|at| at > h.now) {
                h.sched.timer(h.now, &mut h.env.cx());
            }
            h.submit();
            if turn % 2 == 0 && h.flying.len() < DEPTH {
                order.push(h.dispatch(0));
            }
            if turn % 3 == 0 && !h.flying.is_empty() {
                h.finish(0);
            }
        }
        h.run_dry();
        order
    };
    assert_eq!(run(false), run(true), "{}", entry.name);
}

fn tunables_take_their_ends_and_nothing_beyond(entry: &'static Entry) {
    for t in entry.tunables {
        for value in [t.min, t.max] {
            let mut h = Harness::new(entry, 1, 3);
            h.sched.set(h.now, t.name, value, &mut h.env.cx()).unwrap();
            assert_eq!(h.sched.value(t.name), Some(value), "{} {}", entry.name, t.name);
            while h.submit() {}
            (0..1000).for_each(|_| h.step(false));
            h.run_dry();
        }
        let mut h = Harness::new(entry, 1, 3);
        let before = state(&*h.sched);
        for value in [t.min.checked_sub(1), t.max.checked_add(1)].into_iter().flatten() {
            let got = h.sched.set(h.now, t.name, value, &mut h.env.cx());
            let want =
                Err(TunableError::OutOfRange { name: t.name, got: value, min: t.min, max: t.max });
            assert_eq!(got, want, "{}", entry.name);
        }
        assert_same(&before, &state(&*h.sched), "refused or Empty, but changed");
    }
}

fn a_fresh_instance_has_its_defaults(entry: &'static Entry) {
    let h = Harness::new(entry, 1, 3);
    for t in entry.tunables {
        assert!((t.min..=t.max).contains(&t.default), "{} {}", entry.name, t.name);
        // async_depth follows the device (specs/deadline.md C2).
        let want = if t.name == "async_depth" { SLOTS as u64 } else { t.default };
        assert_eq!(h.sched.value(t.name), Some(want), "{} {}", entry.name, t.name);
    }
}

fn an_unknown_tunable_is_refused_by_name(entry: &'static Entry) {
    let mut h = Harness::new(entry, 1, 3);
    let before = state(&*h.sched);
    let error = h.sched.set(h.now, "no_such_thing", 1, &mut h.env.cx()).unwrap_err();
    let known = matches!(&error, TunableError::Unknown { name, stage }
        if name == "no_such_thing" && *stage == entry.name);
    assert!(known, "{}: {error}", entry.name);
    assert_eq!(h.sched.value("no_such_thing"), None);
    let group = h.sched.set_group(h.now, GroupId(1), "no_such_thing", None, &mut h.env.cx());
    assert!(group.is_err());
    assert_same(&before, &state(&*h.sched), "refused or Empty, but changed");
}

/// A request that the device gave back goes before those that came later, wherever they lie.
fn insertion_at_the_head_goes_before_all_that_waits(entry: &'static Entry) {
    let mut h = Harness::new(entry, 1, 4);
    if entry.name == "adios" {
        // While it has learned nothing all waits in one FIFO, and that goes first (specs/adios.md Q2).
        for model in ["lat_model_read", "lat_model_write"] {
            h.sched.set(h.now, model, 100_000, &mut h.env.cx()).unwrap();
        }
    }
    let make = |h: &mut Harness, start: u64| {
        let io = Io { cpu: 0, prio: IoPrio::be(4), ..Io::read(0, ProcId(0), start, 8) };
        let id = h.env.requests.create(io, true, QueueId(0), h.now).unwrap();
        h.sched.prepare(h.now, id, &mut h.env.cx());
        h.insert(id, At::Tail);
        id
    };
    let first = make(&mut h, 1000);
    let next = |h: &mut Harness| {
        for _ in 0..100 {
            if let Dispatch::Issue(id) = h.dispatch(0) {
                return id;
            }
            h.pass(Nanos::ms(5));
        }
        panic!("{}: nothing comes", entry.name)
    };
    assert_eq!(next(&mut h), first);
    // Ahead of it in the direction of the head, and older when it comes back.
    let others = [make(&mut h, 1016), make(&mut h, 1032)];
    h.pass(Nanos::us(100));
    h.give_back(0);
    if entry.name == "k2" {
        // It makes no difference to k2 where a request is inserted (specs/k2.md section 5).
        assert!([next(&mut h), next(&mut h)].iter().all(|id| others.contains(id)));
        assert_eq!(next(&mut h), first);
        return;
    }
    assert_eq!(next(&mut h), first, "{}: the one given back", entry.name);
    let rest = [next(&mut h), next(&mut h)];
    assert!(others.iter().all(|id| rest.contains(id)), "{}", entry.name);
}

fn a_groups_tunable_takes_its_ends_and_goes_back_to_its_default(entry: &'static Entry) {
    for t in entry.group_tunables {
        let mut h = Harness::new(entry, 1, 3);
        let fresh = state(&*h.sched);
        for value in [t.min.checked_sub(1), t.max.checked_add(1)].into_iter().flatten() {
            let got = h.sched.set_group(h.now, GroupId(1), t.name, Some(value), &mut h.env.cx());
            assert!(matches!(got, Err(TunableError::OutOfRange { .. })), "{}", entry.name);
        }
        assert_same(&fresh, &state(&*h.sched), "refused, but changed");
        for value in [Some(t.min), Some(t.max), None] {
            let got = h.sched.set_group(h.now, GroupId(1), t.name, value, &mut h.env.cx());
            assert_eq!(got, Ok(()), "{} {value:?}", entry.name);
            (0..200).for_each(|_| h.step(false));
            h.run_dry();
        }
        let mut h = Harness::new(entry, 1, 3);
        h.sched.set_group(h.now, GroupId(1), t.name, None, &mut h.env.cx()).unwrap();
        let default = state(&*h.sched);
        h.sched.set_group(h.now, GroupId(1), t.name, Some(t.default), &mut h.env.cx()).unwrap();
        assert_same(&default, &state(&*h.sched), "unset is the default");
    }
}

fn a_file_of_a_group_takes_a_line_whole_or_not_at_all(entry: &'static Entry) {
    let mut h = Harness::new(entry, 1, 3);
    let before = state(&*h.sched);
    let files = entry.knobs.iter().map(|k| k.file).chain(["io.no_such_file"]);
    for file in files {
        for line in ["8:0 bogus=1", "-1", "9:9 1x", "8:0 ="] {
            let got = h.sched.write_knob(h.now, GroupId(1), file, line, &mut h.env.cx());
            assert!(got.is_err(), "{} {file}: {line}", entry.name);
        }
    }
    assert_same(&before, &state(&*h.sched), "refused, but changed");
}

/// `queues` tells what the trace has told, so that one may begin to listen at any time: a process has the queue that
/// was named last, or the one that came of it by merges and splits.
fn queues_of_processes_are_those_the_trace_has_told(entry: &'static Entry) {
    let mut h = Harness::new(entry, 1, 5);
    h.env.trace = Trace::keep(1_000_000);
    let mut told = BTreeMap::new();
    let mut became: Vec<(i64, i64)> = Vec::new();
    for _ in 0..2000 {
        h.step(true);
        for record in h.env.trace.take() {
            let Event::Why(why) = record.event else { continue };
            let of = i64::from(why.of);
            match why.what {
                "queue of process" => {
                    told.insert((why.a, why.b != 0), of);
                }
                "queues merged" => became.push((of, why.a)),
                "split off a shared queue" => became.push((why.a, of)),
                _ => {}
            }
        }
        h.sched.queues(&mut |q| {
            // BFQ gives a process that changes its priority another shared async queue without a word.
            if !q.sync {
                return;
            }
            let named = told.get(&(i64::from(q.proc.0), q.sync)).copied();
            let mut reached: BTreeSet<i64> = named.into_iter().collect();
            for _ in 0..if reached.contains(&q.queue.into()) { 0 } else { became.len() } {
                let next = became.iter().filter(|(from, _)| reached.contains(from));
                let more: Vec<i64> = next.map(|&(_, to)| to).collect();
                reached.extend(more);
                if reached.contains(&q.queue.into()) {
                    break;
                }
            }
            assert!(reached.contains(&q.queue.into()), "{}: {q:?}, named {named:?}", entry.name);
        });
    }
}
