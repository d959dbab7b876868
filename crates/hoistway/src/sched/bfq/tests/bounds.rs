//! Section 13: bounds of fair queueing under random weights and budgets, and the fast tree against a
//! slow model.

extern crate std;

use super::fair_queue::Core;
use super::rig::Rig;
use crate::sched::Dispatch;
use crate::sched::bfq::ids::*;
use crate::sched::bfq::tunables::{Base, SETTINGS};
use crate::sched::bfq::wf2q::*;
use crate::testkit::Rng;
use crate::unit::{Instant, IoPrio, Nanos};
use alloc::vec;
use alloc::vec::Vec;

struct Run {
    weights: Vec<u64>,
    budgets: Vec<u64>,
    /// Service of each queue at the end of each slot; the first entry is zero.
    history: Vec<Vec<u64>>,
}

/// Random scenarios per test, and slots in each.
const SCENARIOS: u64 = 10_000;
const SLOTS: u32 = 200;

/// The fair queue as `base` has it: 6.1 and 6.2+ are the reference, which are alike here.
fn core(reference: bool) -> Core {
    let mut c = Core::new();
    let mut conf = SETTINGS.defaults();
    let base = if reference { Base::V61 } else { Base::Hoistway };
    SETTINGS.set(&mut conf, "base", base as u64).unwrap();
    c.fair.set_rules(conf.fair);
    c
}

/// Always backlogged queues with fixed budgets from a common start.
fn run(seed: u64, mut c: Core) -> Run {
    let mut rng = Rng::new(seed);
    let n = 2 + rng.below(6) as usize;
    let weights: Vec<u64> = (0..n).map(|_| 1 + rng.below(300)).collect();
    let budgets: Vec<u64> = (0..n).map(|_| 100 + rng.below(3901)).collect();
    for i in 0..n {
        c.queue(weights[i] as u32, budgets[i]);
    }
    let mut served = vec![0; n];
    let mut history = vec![served.clone()];
    for _ in 0..SLOTS {
        let before = c.v();
        // One slot; `Core::slot` would check every tree as well, which costs more than the slot.
        let q = c.fair.select(c.now);
        c.fair.serve(q, budgets[q.0 as usize]);
        c.fair.activate_or_requeue(q, false, true, c.now);
        c.fair.clear_in_service(q);
        c.ent(q).service = 0;
        c.fair.clear_ancestor_service(q);
        let q = q.0 as usize;
        assert!(c.v() >= before, "virtual time goes back although no queue is idle");
        served[q] += budgets[q];
        history.push(served.clone());
    }
    Run { weights, budgets, history }
}

impl Run {
    /// Least slack, over all intervals and queues, of `phi_i W - W_i <= bound_i`, in sectors times the
    /// sum of the weights. `from_start`: only intervals from the first slot.
    fn least_slack(&self, from_start: bool, bound: impl Fn(usize) -> i128) -> i128 {
        let wsum: i128 = self.weights.iter().map(|&w| i128::from(w)).sum();
        let mut least = i128::MAX;
        for i in 0..self.weights.len() {
            // Lag: phi_i W - W_i, times wsum, at the end of each slot.
            let lag = |s: &Vec<u64>| {
                let all: u64 = s.iter().sum();
                i128::from(self.weights[i]) * i128::from(all) - wsum * i128::from(s[i])
            };
            let mut lowest = lag(&self.history[0]);
            for s in &self.history {
                if !from_start {
                    lowest = lowest.min(lag(s));
                }
                least = least.min(bound(i) - (lag(s) - lowest));
            }
        }
        least
    }

    /// alpha_i times the sum of weights: `B_i + (B - B_i) phi_i`.
    fn alpha(&self, i: usize) -> i128 {
        let wsum: i128 = self.weights.iter().map(|&w| i128::from(w)).sum();
        let largest = i128::from(*self.budgets.iter().max().unwrap());
        let own = i128::from(self.budgets[i]);
        own * wsum + (largest - own) * i128::from(self.weights[i])
    }

    /// `(1 - phi_i) B_i`, the possible lead, times the sum of weights.
    fn lead(&self, i: usize) -> i128 {
        let others: u64 = self.weights.iter().sum::<u64>() - self.weights[i];
        i128::from(others) * i128::from(self.budgets[i])
    }

    fn largest(&self) -> i128 {
        let wsum: u64 = self.weights.iter().sum();
        i128::from(*self.budgets.iter().max().unwrap()) * i128::from(wsum)
    }

    /// Rounding: each slot truncates a few units of 2^-22 sectors times weight sum.
    fn rounding(&self) -> i128 {
        self.weights.iter().map(|&w| i128::from(w)).sum()
    }
}

#[test]
fn a_backlogged_queue_lags_by_at_most_the_worst_case_fair_index() {
    for seed in 0..SCENARIOS {
        let r = run(seed, core(false));
        let slack = r.least_slack(true, |i| r.alpha(i) + r.rounding());
        assert!(slack >= 0, "seed {seed}: from the start, {slack}");
        let slack = r.least_slack(false, |i| r.alpha(i) + r.lead(i) + r.rounding());
        assert!(slack >= 0, "seed {seed}: any interval, {slack}");
    }
}

#[test]
fn the_reference_costs_at_most_one_budget_more() {
    for exact_pick in [true, false] {
        let mut exceeded = [0; 2];
        let mut worst = [0.0f64; 2];
        for seed in 0..SCENARIOS {
            let mut c = core(true);
            c.fair.set_rules(FairRules { exact_pick, ..c.fair.rules });
            let r = run(seed, c);
            let extra = r.largest() + r.rounding();
            let slack = r.least_slack(true, |i| r.alpha(i) + extra);
            assert!(slack >= 0, "seed {seed}: from the start, {slack}");
            let slack = r.least_slack(false, |i| r.alpha(i) + r.lead(i) + extra);
            assert!(slack >= 0, "seed {seed}: any interval, {slack}");
            let tight = [
                r.least_slack(true, |i| r.alpha(i) + r.rounding()),
                r.least_slack(false, |i| r.alpha(i) + r.lead(i) + r.rounding()),
            ];
            for (at, slack) in tight.into_iter().enumerate() {
                exceeded[at] += u32::from(slack < 0);
                worst[at] = worst[at].max(-slack as f64 / r.largest() as f64);
            }
        }
        std::println!(
            "reference (exact_pick {exact_pick}): over the worst-case fair index in {} of {SCENARIOS} \
             scenarios from the start, by up to {:.3} of the largest budget; over any interval in {}, \
             by {:.3}",
            exceeded[0],
            worst[0],
            exceeded[1],
            worst[1].max(0.0),
        );
        // The looser bound is needed: the tight one does not hold with the shortcut.
        assert!(exceeded[0] > 0);
    }
}

#[test]
fn two_backlogged_queues_never_drift_further_apart_than_their_budgets() {
    for seed in 0..SCENARIOS {
        for reference in [false, true] {
            let r = run(seed, core(reference));
            let wsum: u64 = r.weights.iter().sum();
            let extra = if reference { *r.budgets.iter().max().unwrap() } else { 0 };
            for s in &r.history {
                for i in 0..s.len() {
                    for j in 0..i {
                        // |W_i/w_i - W_j/w_j| <= B_i/w_i + B_j/w_j (+ B / sum), times w_i w_j sum.
                        let big = |x: u64| i128::from(x);
                        let (wi, wj) = (big(r.weights[i]), big(r.weights[j]));
                        let apart = (big(s[i]) * wj - big(s[j]) * wi).abs() * big(wsum);
                        let bound = (big(r.budgets[i]) * wj + big(r.budgets[j]) * wi) * big(wsum)
                            + big(extra) * wi * wj;
                        let rounding = wi * wj * big(wsum) / 1000 + 1;
                        assert!(apart <= bound + rounding, "seed {seed}: {i} and {j}");
                    }
                }
            }
        }
    }
}

/// Weights in the proportion 1:2:...:1000, all budgets alike, watched at every slot end: at any horizon no
/// queue lags its share by more than the worst-case fair index, which with equal budgets is one budget
/// (and one more with the shortcut of the reference), nor leads by more than a budget.
#[test]
fn weights_from_1_to_1000_are_shared_within_the_bound_at_any_horizon() {
    for reference in [false, true] {
        let mut c = core(reference);
        let budget = 1000;
        for weight in 1..=1000 {
            let q = c.fair.add_entity(ROOT, BE, weight).queue();
            c.ent(q).budget = budget;
            c.fair.activate_or_requeue(q, false, false, c.now);
        }
        let wsum: i128 = (1..=1000).sum();
        let mut served = vec![0i128; 1000];
        let (mut lag, mut lead) = (0, 0);
        // Every queue has its share after as many slots as the weights sum up to; watched are the first ones
        // one by one, so that every heavy queue is served tens of times.
        for slot in 1..=40_000i128 {
            let q = c.fair.select(c.now);
            c.fair.serve(q, budget);
            c.fair.activate_or_requeue(q, false, true, c.now);
            c.fair.clear_in_service(q);
            c.ent(q).service = 0;
            c.fair.clear_ancestor_service(q);
            served[q.0 as usize] += i128::from(budget);
            // The one just served may lead; any may lag. All are looked at now and then, the end included.
            let off = |i: usize| (i as i128 + 1) * slot * i128::from(budget) - wsum * served[i];
            lead = lead.max(-off(q.0 as usize));
            if slot % 50 == 0 {
                lag = lag.max((0..1000).map(off).max().unwrap());
            }
        }
        c.fair.check();
        std::println!(
            "weights 1:2:...:1000, reference {reference}: worst lag {:.3} budgets, worst lead \
             {:.3}",
            lag as f64 / (wsum * i128::from(budget)) as f64,
            lead as f64 / (wsum * i128::from(budget)) as f64
        );
        let bound = wsum * i128::from(budget);
        let slack = if reference { 2 } else { 1 };
        assert!(lag <= slack * bound + wsum, "a queue lags");
        assert!(lead <= bound + wsum, "a queue leads");
        assert!(served[999] > 50 * i128::from(budget), "the heaviest was hardly served");
    }
}

/// Section 13, item 2: with `Q_i` sectors waiting, the last of them served not later than
/// `Q_i / phi_i + alpha_i / phi_i` sectors of total service from now, whoever else is busy. A queue that was
/// forgotten comes back at a random moment of the others' backlog, for one budget.
#[test]
fn a_budget_is_served_within_its_bound_of_delay() {
    for reference in [false, true] {
        let (mut worst, mut late) = (0.0f64, 0);
        for seed in 0..SCENARIOS {
            let (took, bound, slack) = delay(seed, core(reference));
            worst = worst.max(took as f64 / bound as f64);
            late += u32::from(took > bound + slack.0);
            let more = if reference { slack.1 } else { 0 };
            assert!(took <= bound + slack.0 + more, "seed {seed}: {took} of {bound}");
        }
        std::println!(
            "delay of one budget, reference {reference}: at worst {worst:.3} of the bound, over it in {late}"
        );
    }
}

/// How long the queue that comes back waits, in sectors of total service, and the bound, both times its
/// weight; the rounding, and the largest budget, in the same unit.
fn delay(seed: u64, mut c: Core) -> (u64, u64, (u64, u64)) {
    let mut rng = Rng::new(seed);
    let n = 2 + rng.below(6) as usize;
    let weights: Vec<u64> = (0..n).map(|_| 1 + rng.below(300)).collect();
    let budgets: Vec<u64> = (0..n).map(|_| 100 + rng.below(3901)).collect();
    for i in 0..n {
        c.queue(weights[i] as u32, budgets[i]);
    }
    // Queue 0 leaves at the end of a slot of its own.
    let mut left = None;
    let mut wait = 1 + rng.below(60);
    let mut arrival = None;
    let mut all = 0u64;
    loop {
        let q = c.select().0 as usize;
        c.fair.serve(QueueNo(q as u32), budgets[q]);
        all += budgets[q];
        if q == 0 && arrival.is_none() {
            c.expire_empty(QueueNo(0));
            left = Some(());
        } else {
            c.requeue(QueueNo(q as u32));
        }
        if let (0, Some(at)) = (q, arrival) {
            let took: u64 = all - at;
            let wsum: u64 = weights.iter().sum();
            let largest = *budgets.iter().max().unwrap();
            // Times the weight of queue 0: Q wsum + B_0 wsum + (B - B_0) w_0.
            let bound = 2 * budgets[0] * wsum + (largest - budgets[0]) * weights[0];
            return (took * weights[0], bound, (wsum, largest * wsum));
        }
        if left.is_some() && arrival.is_none() {
            wait -= 1;
            if wait == 0 {
                c.wake(QueueNo(0), budgets[0], false);
                arrival = Some(all);
            }
        }
    }
}

/// Best-effort queues go before idle ones, yet the idle class gets a look-in every 200 ms, and within each
/// class every queue is served.
#[test]
fn no_queue_starves_the_idle_class_included() {
    let mut longest = [Nanos::ZERO; 2];
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let reference = seed % 2 == 1;
        let mut c = core(reference);
        let n = 4 + rng.below(12) as usize;
        let mut budgets = Vec::new();
        for i in 0..n {
            let class = if i % 2 == 0 { IDLE } else { BE };
            budgets.push(100 + rng.below(3901));
            c.queue_in(ROOT, class, 1 + rng.below(100) as u32, budgets[i]);
        }
        let mut slots = vec![0; n];
        let mut last_idle = Instant::ZERO;
        // 10 ms a slot; a queue of the least share comes round within the sum of weights.
        for _ in 0..40_000 {
            let q = c.select().0 as usize;
            c.now += Nanos::ms(5);
            // Somebody goes away and comes back in the middle of the slot.
            let other = QueueNo(rng.below(n as u64) as u32);
            if other.0 as usize != q && rng.below(3) == 0 {
                c.fair.deactivate(other.into(), true, false, c.now);
                c.fair.activate_or_requeue(other, false, false, c.now);
            }
            c.fair.serve(QueueNo(q as u32), budgets[q]);
            c.now += Nanos::ms(5);
            c.fair.activate_or_requeue(QueueNo(q as u32), false, true, c.now);
            c.fair.clear_in_service(QueueNo(q as u32));
            c.ent(QueueNo(q as u32)).service = 0;
            c.fair.clear_ancestor_service(QueueNo(q as u32));
            slots[q] += 1;
            if q.is_multiple_of(2) {
                last_idle = c.now;
            }
            let longest = &mut longest[usize::from(reference)];
            *longest = (*longest).max(c.now - last_idle);
        }
        assert!(slots.iter().all(|&s| s > 0), "seed {seed}: {slots:?}");
    }
    let [mended, reference] = longest;
    std::println!("longest wait of the idle class: {mended:?}, in the reference {reference:?}");
    // The period, and the slot of the idle class, and another before it is chosen. In the reference a look-up
    // may take the look-in and the choice be replaced before it is served (quirk Q10): then the class waits
    // for the next, several times over.
    assert!(mended <= Nanos::ms(220));
    assert!(reference > Nanos::ms(1_000));
}

/// With idling off a scheduler with requests always gives one, whatever is in the device.
#[test]
fn work_is_conserved_when_idling_is_off() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut rig = if seed % 2 == 0 { Rig::hdd() } else { Rig::ssd() };
        rig.set("slice_idle", 0);
        rig.set("low_latency", seed / 2 % 2);
        let procs: Vec<_> =
            (0..2 + rng.below(6)).map(|_| rig.proc(IoPrio::be(rng.below(8) as u8))).collect();
        let (mut queued, mut device) = (0, Vec::new());
        for step in 0..600 {
            rig.at_us(200 * step + rng.below(200));
            rig.fire_timer_if_due();
            match rng.below(5) {
                0 | 1 => {
                    let proc = procs[rng.below(procs.len() as u64) as usize];
                    let at = rng.below(1 << 24) * 8;
                    if rng.below(4) == 0 {
                        rig.write(proc, at, 8);
                    } else {
                        rig.read(proc, at, 8 << rng.below(6));
                    }
                    queued += 1;
                }
                2 | 3 => match rig.dispatch() {
                    Dispatch::Issue(id) => {
                        device.push(id);
                        queued -= 1;
                    }
                    other => assert_eq!((queued, other), (0, Dispatch::Empty), "seed {seed}"),
                },
                _ if !device.is_empty() => {
                    let id = device.swap_remove(rng.below(device.len() as u64) as usize);
                    rig.complete(id);
                }
                _ => {}
            }
        }
    }
}

/// The definition of 2.2, by looking at everything. Insertion order breaks ties.
fn slow_pick(c: &Core, order: &[QueueNo]) -> QueueNo {
    let active = || order.iter().map(|&q| (q, &c.fair.ents[q])).filter(|(_, e)| e.on == On::Active);
    let Some(least) = active().map(|(_, e)| e.start.0).min() else { return QueueNo::NONE };
    let v = c.v().max(least);
    let eligible = active().filter(|(_, e)| e.start.0 <= v);
    eligible.min_by_key(|(_, e)| e.finish.0).map_or(QueueNo::NONE, |(q, _)| q)
}

#[test]
fn the_tree_picks_what_a_walk_over_all_entities_picks() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut c = Core::new();
        c.fair.rules.exact_candidate = true;
        let n = 3 + rng.below(30) as u32;
        let mut order: Vec<QueueNo> = Vec::new();
        for _ in 0..n {
            order.push(c.queue(1 + rng.below(100) as u32, 1 + rng.below(4) * 500));
        }
        for _ in 0..400 {
            // Somebody may come or go.
            let q = QueueNo(rng.below(n.into()) as u32);
            if c.fair.ents[q].on == On::Active && rng.below(4) == 0 && order.len() > 1 {
                c.fair.deactivate(q.into(), rng.below(2) == 0, false, c.now);
                order.retain(|&o| o != q);
            } else if c.fair.ents[q].on != On::Active {
                c.wake(q, 1 + rng.below(4) * 500, rng.below(2) == 0);
                order.push(q);
            }
            if rng.below(8) == 0 {
                let q = order[rng.below(order.len() as u64) as usize];
                c.ent(q).new_weight = 1 + rng.below(100) as u32;
                c.ent(q).prio_dirty = true;
            }
            c.fair.check();
            c.fair.refresh(ROOT, EntityNo::NONE, false, c.now);
            let expected = slow_pick(&c, &order);
            let got = c.select();
            assert_eq!(got, expected, "seed {seed}");
            let e = &c.fair.ents[got];
            assert!(!e.start.after(VTime(c.v())), "served before it was eligible");
            let part = 1 + rng.below(e.budget);
            c.fair.serve(got, part);
            order.retain(|&o| o != got);
            if rng.below(3) == 0 {
                c.expire_empty(got);
                if order.is_empty() {
                    c.wake(got, 500, false);
                    order.push(got);
                }
            } else {
                c.requeue(got);
                order.push(got);
            }
        }
    }
}
