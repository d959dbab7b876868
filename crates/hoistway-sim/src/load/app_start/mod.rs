//! The start of an application with cold caches (specs/experiments.md 6): one chain of small reads by a
//! handful of processes that act one after another, again and again with pauses between.
//!
//! *Synthetic form*: the requests lie all over the drive, as an application's do, and the processes
//! compute between them. *Replay form*: as the S suite replays its traces: no computing, and every
//! process reads in one file of 20 MB of its own, so that a rotating drive seeks less than it would. The
//! traces themselves are not there: both forms carry out requests generated from their statistics.
//!
//! Every start has processes of its own, so that a scheduler sees new ones; servers stay. The time from
//! the mark `start` to the mark `done` is the start-up time. A start that takes too long is killed (mark
//! `unfinished after` the limit), and those after it are left out.

pub(super) mod chain;
pub(super) mod player;
pub(super) mod profile;
#[cfg(test)]
mod tests;

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Host, Notice, Operation};
use crate::rng::Rng;
use chain::{ReadKind, Request};
use hoistway::{Flags, Instant, Nanos};
use hoistway_run::JobError;
use player::{Form, Player};
use profile::{PROFILES, Profile};

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "app_start",
    summary: "starts an application with cold caches, again and again; its time is that of the marks",
    writes: false,
    params: &[
        ParamDoc {
            name: "profile",
            default: "xterm",
            doc: "Which application: `bash`, `xterm`, `gnome-terminal`, `konsole` or `lowriter`, or as they \
                  were in 2012: `xterm-2012`, `gnome-terminal-2012`, `konsole-2012`, `oowriter-2012`.",
        },
        ParamDoc {
            name: "form",
            default: "synthetic",
            doc: "`synthetic`: places all over the drive and think times; `replay`: as the S suite \
                  replays traces, in one file per process and without think times.",
        },
        ParamDoc { name: "starts", default: "2", doc: "Number of starts, 1 to 1000." },
        ParamDoc {
            name: "limit",
            default: "60 s",
            doc: "A start that takes longer is killed, and those after it are left out.",
        },
        ParamDoc {
            name: "pause",
            default: "4 s",
            doc: "Before each start, until caches are dropped, 200 ms before it.",
        },
        ParamDoc {
            name: "short",
            default: "2 s",
            doc: "After a start that took less than this, a further pause as long as this.",
        },
        ParamDoc { name: "cpu", default: "the profile's", doc: "Factor on think times." },
    ],
    build: |build| Ok(Box::new(AppStart::new(build)?)),
    ..LoadEntry::USUAL
};

/// Words of the parameter `form`.
const FORMS: &[&str] = &["synthetic", "replay"];
const REPLAY: usize = 1;

/// From dropping caches to the start (specs/experiments.md 6.3).
const QUIET: Nanos = Nanos::ms(200);
/// A direct call before its bio (specs/host.md 2.1), in the replay form.
const DIRECT_CALL: Nanos = Nanos(1500);
/// File of each process of the replay form.
const REPLAY_FILE: u64 = 20_000_000;
/// Longest parameter of time: a day.
const LONGEST: u64 = 24 * 3_600_000_000_000;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppStep {
    Pause,
    DropCaches,
    Quiet,
    Start,
    Chain,
    /// The processes of the application exit.
    End,
    /// A short start is followed by a pause.
    Rest,
    Leave,
}

#[derive(Debug)]
struct AppStart {
    /// What a start does: the same every time.
    player: Player,
    limit: Nanos,
    pause: Nanos,
    short: Nanos,
    /// Starts to come, the current one included.
    left: u64,
    step: AppStep,
    begun: Instant,
    took: Nanos,
}

impl AppStart {
    fn new(build: &mut Build<'_>) -> Result<AppStart, JobError> {
        let names: Vec<&str> = PROFILES.iter().map(|p| p.name).collect();
        let xterm = names.iter().position(|&n| n == "xterm").expect("it is in the list");
        let profile = &PROFILES[build.params.choice("profile", &names)?.unwrap_or(xterm)];
        let replay = build.params.choice("form", FORMS)? == Some(REPLAY);
        let left = build.params.number("starts")?.unwrap_or(2);
        if !(1..=1000).contains(&left) {
            return Err(build.params.wrong(format!("starts = {left}: choose 1 to 1000")));
        }
        let cpu = build.params.real("cpu")?.unwrap_or(profile.cpu);
        if !(0.0..=1000.0).contains(&cpu) {
            return Err(build.params.wrong(format!("cpu = {cpu}: choose a factor in 0 to 1000")));
        }
        let time = |name: &str, default: Nanos| -> Result<Nanos, JobError> {
            let t = build.params.time(name)?.map_or(default, Nanos);
            if t.0 > LONGEST {
                return Err(build.params.wrong(format!("{name} = {} ns: at most 24 h", t.0)));
            }
            Ok(t)
        };
        let (limit, pause) = (time("limit", Nanos::secs(60))?, time("pause", Nanos::secs(4))?);
        let short = time("short", Nanos::secs(2))?;
        let mut rng = build.rng();
        let mut chain = chain::generate(profile, &mut rng);
        let starts = if replay {
            replay_places(&chain, profile, build, &mut rng)?
        } else {
            let capacity = build.host.capacity();
            if capacity < LEAST {
                let what = format!("profile {} needs a drive of at least 1 GiB", profile.name);
                return Err(build.params.wrong(what));
            }
            chain::place(&mut chain, profile, capacity, &mut rng)
        };
        for request in &mut chain {
            request.think = match (replay, request.kind) {
                (true, _) => DIRECT_CALL,
                (false, ReadKind::Ahead) => Nanos::ZERO,
                (false, _) => Nanos((request.think.0 as f64 * cpu) as u64),
            };
        }
        // Direct reads carry no flags (specs/host.md 6).
        let flags = if replay { [Flags::NONE; 3] } else { flags(build.host) };
        let form = if replay { Form::Replay } else { Form::Synthetic };
        Ok(AppStart {
            player: Player::new(profile.actors, form, chain, starts, flags),
            limit,
            pause,
            short,
            left,
            step: AppStep::Pause,
            begun: Instant::ZERO,
            took: Nanos::ZERO,
        })
    }

    /// The next operation of a start that is under way.
    fn go_on(&mut self, now: Instant) -> Operation {
        self.took = now - self.begun;
        if self.took >= self.limit {
            (self.left, self.step) = (0, AppStep::End);
            return Operation::Tell(Notice::GivenUp(self.limit));
        }
        self.player.next(now).unwrap_or_else(|| {
            (self.left, self.step) = (self.left - 1, AppStep::End);
            Operation::Tell(Notice::Mark("done"))
        })
    }
}

/// Flags of data, metadata and read-ahead that go straight to the block layer.
pub(super) fn flags(host: &Host) -> [Flags; 3] {
    [Flags::SYNC, host.meta_flags(), Flags::SYNC | Flags::META | Flags::RAHEAD]
}

/// Smallest drive of the synthetic form.
pub(super) const LEAST: u64 = 1 << 30;

/// Sequential requests go on in their process's file, and again from its start at its end; the others
/// are anywhere in it.
fn replay_places(
    chain: &[Request],
    profile: &Profile,
    build: &mut Build<'_>,
    rng: &mut Rng,
) -> Result<Vec<u64>, JobError> {
    let sector = build.host.sector();
    let mut files = Vec::new();
    for _ in profile.actors {
        let file = build.host.add_file(REPLAY_FILE)?;
        files.push((build.host.place_of(file), 0));
    }
    let mut place = |request: &Request| {
        let (file, offset) = &mut files[request.actor];
        if !request.follows {
            *offset = rng.below((REPLAY_FILE - request.len) / sector + 1) * sector;
        } else if *offset + request.len > REPLAY_FILE {
            *offset = 0;
        }
        let start = *file + *offset;
        *offset += request.len;
        start
    };
    Ok(chain.iter().map(&mut place).collect())
}

impl Load for AppStart {
    fn places(&self) -> Vec<(u64, u64)> {
        self.player.places().collect()
    }

    fn next(&mut self, now: Instant) -> Operation {
        loop {
            match self.step {
                AppStep::Pause => {
                    self.step = AppStep::DropCaches;
                    return Operation::Sleep(now + self.pause);
                }
                AppStep::DropCaches => {
                    self.step = AppStep::Quiet;
                    return Operation::DropCaches;
                }
                AppStep::Quiet => {
                    self.step = AppStep::Start;
                    return Operation::Sleep(now + QUIET);
                }
                AppStep::Start => {
                    self.step = AppStep::Chain;
                    self.begun = now;
                    self.player.rewind();
                    return Operation::Tell(Notice::Mark("start"));
                }
                AppStep::Chain => return self.go_on(now),
                AppStep::End => {
                    self.step = AppStep::Rest;
                    return Operation::Tell(Notice::EndProcs);
                }
                AppStep::Rest => {
                    self.step = if self.left == 0 { AppStep::Leave } else { AppStep::Pause };
                    if self.took < self.short {
                        return Operation::Sleep(now + self.short);
                    }
                }
                AppStep::Leave => return Operation::Exit,
            }
        }
    }
}
