//! A machine that boots (specs/experiments.md 7.4): sixty processes that start one after another and beside each other.
//!
//! *Problem.* A boot is many small starts with cold caches, ordered by what depends on what. Its time is that of the
//! longest chain, so that a drive that serves one start quickly and lets another wait can boot faster or slower than one
//! that serves both alike; and meanwhile somebody writes logs.
//!
//! *Model.* The job's processes with this load are the places in which something can start: four of them, four at a
//! time. The units form a tree of depth 8: the first of each depth is the parent of the first of the next, every other unit
//! has a depth from 2 to 8 and a parent one level above it, both at random. A unit may start when its parent is there.
//! Each place takes the first unit, in order, that may start, and starts it: an `app_start` of the profile bash (40 of
//! them), xterm (15) or gnome-terminal at half its size (5), in processes of its own, with computing `cpu` times as long as
//! the profile's, on the processors of the host (`cpus`). A place without a unit looks again every millisecond.
//!
//! *Figure.* The time from the mark `start` to the mark `done`, when the last unit is there. The first process of the
//! job sets them.
//!
//! *Weaknesses.* No kernel, no boot loader, no reading ahead by a boot service; units share no files, so that a library
//! is read once for each of them.

use super::app_start::player::{Form, Player};
use super::app_start::profile::{PROFILES, Profile};
use super::app_start::{self, chain};
use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{BarrierId, Host, Notice, Operation};
use crate::rng::{Rng, stream};
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "boot",
    summary: "a place in which the processes of a boot start; its time is that of the marks (7.4)",
    params: &[
        ParamDoc { name: "bash", default: "40", doc: "Units that start as `bash` does." },
        ParamDoc { name: "xterm", default: "15", doc: "Units that start as `xterm` does." },
        ParamDoc {
            name: "gnome",
            default: "5",
            doc: "Units that start as `gnome-terminal` does, with half its reads.",
        },
        ParamDoc {
            name: "depth",
            default: "8",
            doc: "Depth of the tree of what depends on what, 1 to the number of units.",
        },
        ParamDoc { name: "cpu", default: "2", doc: "Factor on the profiles' computing." },
        ParamDoc { name: "limit", default: "120 s", doc: "No unit is started after so long." },
    ],
    work: &["bash", "xterm", "gnome"],
    build: |build| Ok(Box::new(Boot::new(build)?)),
    ..LoadEntry::USUAL
};

const PROGRAM: &str = "boot";
/// A place that has nothing to do looks again after this; what it can cost a unit is below 1 % of a start.
const LOOK_AGAIN: Nanos = Nanos::ms(1);

/// What is started.
#[derive(Debug)]
struct Unit {
    parent: Option<usize>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waits(Box<Player>),
    Starts,
    There,
}

/// What the places have in common.
#[derive(Debug)]
struct Units(Mutex<Vec<Unit>>);

impl Units {
    /// The first unit that may start.
    fn take(&self) -> Taken {
        let mut units = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = |i: usize| matches!(units[i].state, State::There);
        let may = |u: &Unit| matches!(u.state, State::Waits(_)) && u.parent.is_none_or(there);
        if let Some(i) = units.iter().position(may) {
            let State::Waits(player) = std::mem::replace(&mut units[i].state, State::Starts) else {
                unreachable!("it waits");
            };
            return Taken::Unit(i, player);
        }
        match units.iter().any(|u| matches!(u.state, State::Waits(_))) {
            true => Taken::Later,
            false => Taken::None,
        }
    }

    fn is_there(&self, i: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[i].state = State::There;
    }

    fn all_are_there(&self) -> bool {
        let units = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        units.iter().all(|u| matches!(u.state, State::There))
    }
}

/// What a place is given to do.
enum Taken {
    Unit(usize, Box<Player>),
    /// Every unit that is left waits for its parent.
    Later,
    /// None is left.
    None,
}

#[derive(Clone, Copy, Debug)]
enum BootStep {
    Start,
    Take,
    Play,
    End,
    Meet,
    Tell,
    Leave,
}

#[derive(Debug)]
struct Boot {
    units: Arc<Units>,
    barrier: BarrierId,
    /// It sets the marks.
    first: bool,
    /// Places that all units read, for worlds that check data.
    places: Vec<(u64, u64)>,
    begun: Instant,
    limit: Nanos,
    /// The unit that starts.
    unit: Option<(usize, Box<Player>)>,
    step: BootStep,
}

impl Boot {
    fn new(build: &mut Build<'_>) -> Result<Boot, JobError> {
        let params = &build.params;
        let number = |name: &str, usual: u64| -> Result<u64, JobError> {
            let n = params.number(name)?.unwrap_or(usual);
            match n <= 10_000 {
                true => Ok(n),
                false => Err(params.wrong(format!("{name} = {n}: choose at most 10000 units"))),
            }
        };
        let kinds = [number("bash", 40)?, number("xterm", 15)?, number("gnome", 5)?];
        let count = kinds.iter().sum::<u64>();
        let depth = params.number("depth")?.unwrap_or(8);
        if count == 0 || !(1..=count).contains(&depth) {
            let what = format!(
                "{count} units of depth {depth}: choose at least as many units as the depth"
            );
            return Err(params.wrong(what));
        }
        let cpu = params.real("cpu")?.unwrap_or(2.0);
        if !(0.0..=1000.0).contains(&cpu) {
            return Err(params.wrong(format!("cpu = {cpu}: choose a factor from 0 to 1000")));
        }
        let limit = Nanos(params.time("limit")?.unwrap_or(120_000_000_000));
        if build.host.capacity() < app_start::LEAST {
            return Err(params.wrong("it needs a drive of at least 1 GiB".into()));
        }
        let (mut first, mut places) = (false, Vec::new());
        let units = build.host.shared_memory(PROGRAM, |host| {
            first = true;
            let mut rng = stream(build.seed, PROGRAM);
            let parents = dependencies(count as usize, depth as usize, &mut rng);
            let profiles = profiles(kinds, &mut rng);
            let units =
                parents.into_iter().zip(profiles).enumerate().map(|(i, (parent, profile))| {
                    let player = player(
                        host,
                        profile,
                        cpu,
                        &mut stream(build.seed, &format!("{PROGRAM}/{i}")),
                    );
                    places.extend(player.places());
                    Unit { parent, state: State::Waits(Box::new(player)) }
                });
            Ok(Units(Mutex::new(units.collect())))
        })?;
        let barrier = build.host.barrier(PROGRAM);
        let (begun, unit, step) = (Instant::ZERO, None, BootStep::Start);
        Ok(Boot { units, barrier, first, places, begun, limit, unit, step })
    }
}

/// The parent of each of `count` units: a tree of that depth.
fn dependencies(count: usize, depth: usize, rng: &mut Rng) -> Vec<Option<usize>> {
    let mut levels: Vec<Vec<usize>> = vec![Vec::new(); depth];
    let mut parents = Vec::with_capacity(count);
    for i in 0..count {
        let (level, parent) = match i.checked_sub(depth) {
            None => (i, i.checked_sub(1)),
            // Depth 1: everybody is a root.
            Some(_) if depth == 1 => (0, None),
            Some(_) => {
                let level = 1 + rng.below(depth as u64 - 1) as usize;
                let above = &levels[level - 1];
                (level, Some(above[rng.below(above.len() as u64) as usize]))
            }
        };
        levels[level].push(i);
        parents.push(parent);
    }
    parents
}

/// As many of each kind as asked for, in random order.
fn profiles([bash, xterm, gnome]: [u64; 3], rng: &mut Rng) -> Vec<(&'static Profile, f64)> {
    let find = |name| PROFILES.iter().find(|p| p.name == name).expect("it is in the list");
    let kinds = [(bash, "bash", 1.0), (xterm, "xterm", 1.0), (gnome, "gnome-terminal", 0.5)];
    let mut all: Vec<_> = kinds
        .iter()
        .flat_map(|&(n, name, scale)| (0..n).map(move |_| (find(name), scale)))
        .collect();
    for i in (1..all.len()).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
    all
}

/// The start of one unit.
fn player(
    host: &Host,
    (profile, scale): (&'static Profile, f64),
    cpu: f64,
    rng: &mut Rng,
) -> Player {
    let profile = profile.scaled(scale);
    let mut requests = chain::generate(&profile, rng);
    let starts = chain::place(&mut requests, &profile, host.capacity(), rng);
    for request in &mut requests {
        request.think = match request.kind {
            chain::ReadKind::Ahead => Nanos::ZERO,
            _ => Nanos((request.think.0 as f64 * profile.cpu * cpu) as u64),
        };
    }
    Player::new(profile.actors, Form::Shared, requests, starts, app_start::flags(host))
}

impl Load for Boot {
    fn places(&self) -> Vec<(u64, u64)> {
        self.places.clone()
    }

    fn next(&mut self, now: Instant) -> Operation {
        loop {
            match self.step {
                BootStep::Start => {
                    self.step = BootStep::Take;
                    self.begun = now;
                    if self.first {
                        return Operation::Tell(Notice::Mark("start"));
                    }
                }
                BootStep::Take if now - self.begun >= self.limit => self.step = BootStep::Meet,
                BootStep::Take => match self.units.take() {
                    Taken::Unit(i, player) => {
                        self.unit = Some((i, player));
                        self.step = BootStep::Play;
                    }
                    Taken::Later => return Operation::Sleep(now + LOOK_AGAIN),
                    Taken::None => self.step = BootStep::Meet,
                },
                BootStep::Play => match self.unit.as_mut().and_then(|(_, player)| player.next(now))
                {
                    Some(operation) => return operation,
                    None => {
                        let (i, _) = self.unit.take().expect("a unit starts");
                        self.units.is_there(i);
                        self.step = BootStep::End;
                    }
                },
                BootStep::End => {
                    self.step = BootStep::Take;
                    return Operation::Tell(Notice::EndProcs);
                }
                BootStep::Meet => {
                    self.step = BootStep::Tell;
                    return Operation::Barrier(self.barrier);
                }
                BootStep::Tell => {
                    self.step = BootStep::Leave;
                    if self.first {
                        let notice = match self.units.all_are_there() {
                            true => Notice::Mark("done"),
                            false => Notice::GivenUp(self.limit),
                        };
                        return Operation::Tell(notice);
                    }
                }
                BootStep::Leave => return Operation::Exit,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::HostConfig;
    use crate::load::params::Params;
    use hoistway::Sectors;

    #[test]
    fn the_tree_has_its_depth_and_parents_come_before_their_children() {
        for seed in 1..=20 {
            let parents = dependencies(60, 8, &mut stream(seed, "x"));
            let depth = |mut i: usize| {
                let mut depth = 1;
                while let Some(parent) = parents[i] {
                    assert!(parent < i);
                    (i, depth) = (parent, depth + 1);
                }
                depth
            };
            let depths: Vec<usize> = (0..60).map(depth).collect();
            assert_eq!(depths.iter().max(), Some(&8));
            assert_eq!(depths.iter().filter(|&&d| d == 1).count(), 1, "one root");
            assert!((2..=8).all(|d| depths.iter().filter(|&&x| x == d).count() >= 2), "{depths:?}");
        }
        assert_eq!(dependencies(3, 1, &mut stream(1, "x")), [None; 3]);
        assert_eq!(dependencies(3, 3, &mut stream(1, "x")), [None, Some(0), Some(1)]);
    }

    fn places(params: &str, n: usize) -> Result<Vec<Boot>, JobError> {
        let drive = DriveFile::load("sd-card-2009").unwrap();
        let config = HostConfig::profile("netbook-2009").unwrap();
        let mut host = Host::new(config, &drive, Sectors(1024), 1);
        let table: toml::Table = params.parse().unwrap();
        (0..n)
            .map(|index| {
                let params = Params::new("target", &table, ENTRY.params).unwrap();
                let start = Instant::ZERO;
                Boot::new(&mut Build { params, host: &mut host, index, seed: 1, start })
            })
            .collect()
    }

    #[test]
    fn sixty_units_start_each_behind_its_parent_and_the_first_place_tells_the_end() {
        let mut all = places("", 4).unwrap();
        let (mut marks, mut begun, mut ended) = (Vec::new(), 0, 0);
        let mut computed = Nanos::ZERO;
        let mut left: Vec<usize> = (0..4).collect();
        let (mut now, mut turn) = (Instant::ZERO, 0);
        while !left.is_empty() {
            turn = (turn + 1) % left.len();
            now += Nanos::us(100);
            let p = left[turn];
            match all[p].next(now) {
                Operation::Tell(Notice::Mark(mark)) => marks.push((p, mark)),
                Operation::Tell(Notice::RunAs { lasting, .. }) => assert!(!lasting),
                Operation::Tell(Notice::EndProcs) => ended += 1,
                Operation::Compute(t) => computed += t,
                Operation::Block(io) => assert!(!io.write),
                Operation::Sleep(_) => {}
                Operation::Barrier(_) => begun += 1,
                Operation::Exit => drop(left.remove(turn)),
                other => panic!("{other:?}"),
            }
            let units = all[0].units.0.lock().unwrap();
            let there = |i: usize| matches!(units[i].state, State::There);
            let waits = |u: &Unit| matches!(u.state, State::Waits(_));
            assert!(units.iter().all(|u| waits(u) || u.parent.is_none_or(there)));
            assert!(units.iter().filter(|u| matches!(u.state, State::Starts)).count() <= 4);
        }
        assert_eq!((ended, begun), (60, 4));
        assert_eq!(marks, [(0, "start"), (0, "done")]);
        // 40 x 23, 15 x 164 and 5 x 394 synchronous reads with 0.87 ms before each on average, twice as long.
        let seconds = computed.0 as f64 / 1e9;
        assert!((7.0..12.0).contains(&seconds), "{seconds} s");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (params, word) in [
            ("depth = 61", "depth"),
            ("bash = 0\nxterm = 0\ngnome = 0", "0 units"),
            ("cpu = -1", "cpu"),
            ("bash = 100000", "10000"),
        ] {
            let error = places(params, 1).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
