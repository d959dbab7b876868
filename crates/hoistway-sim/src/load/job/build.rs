//! A job from its parameters.

use super::super::Build;
use super::pace::{CallRate, ThinkTime};
use super::places::{JobPlaces, Once, PlacePlan};
use super::popularity::Popularity;
use super::region::{Amount, Regions, Shape, unit};
use super::sizes::Sizes;
use super::stop::Stop;
use super::turns::FileTurns;
use super::{Advice, Done, JobAmount, JobLoad, JobStage, Room, Syncs};
use crate::host::BarrierId;
use crate::rng::{Rng, stream};
use hoistway::Nanos;
use hoistway_run::JobError;
use std::collections::VecDeque;

/// Words of `rw`.
const KINDS: &[&str] = &["read", "write", "randread", "randwrite", "rw", "randrw", "readwrite"];

/// Blocks that a map has at most: 128 MiB of memory for a process that visits them all. Beyond that a draw hits what has
/// been visited less often than once in a thousand calls until a million are made.
const MAP: u64 = 1 << 30;

impl JobLoad {
    pub fn new(build: &mut Build<'_>) -> Result<JobLoad, JobError> {
        let p = &build.params;
        let kind = KINDS[p.choice("rw", KINDS)?.unwrap_or(0)];
        let mix = match kind {
            "read" | "randread" => 100,
            "write" | "randwrite" => 0,
            _ => percent(build, "mix", 50)?,
        };
        let direct = p.flag("direct")?.unwrap_or(false);
        let sizes = sizes(build, direct, mix)?;
        let shape = shape(build, &sizes, direct, mix);
        let regions = Regions::new(build, shape)?;
        let random = kind.starts_with("rand");
        let plan = plan(build, &sizes, shape, random, regions.all[0].size)?;
        let turns = turns(build, regions.all.len())?;
        let (rng_calls, rng_places) = (rng(build, "calls")?, rng(build, "places")?);
        let (room, batch) = room(build, direct)?;
        let whole = regions.all[0].size.saturating_mul(regions.all.len() as u64);
        let extent = extent(build, whole)?;
        let stop = Stop::new(build)?;
        let (waits_for, ends_at) = (barriers(build, "waits_for")?, barriers(build, "ends_at")?);
        let p = &build.params;
        let sync = p.flag("sync")?.unwrap_or(false);
        if sync && room.depth > 1 {
            return Err(p.wrong("sync: a synced write is waited for; set depth = 1".into()));
        }
        let advice = match (p.flag("advice")?.unwrap_or(true), random) {
            (false, _) => Advice::Normal,
            (true, true) => Advice::Random,
            (true, false) => Advice::Sequential,
        };
        let number = |name: &str| Ok::<u64, JobError>(p.number(name)?.unwrap_or(0));
        let (full, data) = (number("fsync")?, number("fdatasync")?);
        Ok(JobLoad {
            opened: vec![false; regions.all.len()],
            current: None,
            creates: regions.creates,
            keep_cache: p.flag("keep_cache")?.unwrap_or(false),
            advice,
            mix,
            largest: shape.largest,
            places: JobPlaces::new(plan, &regions.all, turns, rng_places),
            regions: regions.all,
            direct,
            room,
            batch,
            batched: 0,
            queued: false,
            pace: paces(build, &sizes)?,
            catch_up: p.flag("catch_up")?.unwrap_or(true),
            held: None,
            think: think(build)?,
            pausing: None,
            syncs: Syncs { full, data, ..Syncs::default() },
            sync,
            end_fsync: p.flag("end_fsync")?.unwrap_or(false),
            sizes,
            extent,
            done: Done::default(),
            deadline: None,
            delay: p.time("delay")?.map(Nanos).unwrap_or_default(),
            waits_for,
            ends_at,
            stop,
            next: VecDeque::new(),
            at: JobStage::Barriers(0),
            first: rng_calls.clone(),
            rng: rng_calls,
        })
    }
}

fn rng(build: &Build<'_>, what: &str) -> Result<Rng, JobError> {
    Ok(match build.params.number("seed")? {
        Some(seed) => stream(seed, &format!("job/{what}")),
        None => stream(build.seed, &format!("load/{}/{what}", build.index)),
    })
}

fn barriers(build: &mut Build<'_>, name: &str) -> Result<Vec<BarrierId>, JobError> {
    let names = build.params.text(name)?.unwrap_or_default();
    Ok(names.split_whitespace().map(|name| build.host.barrier(name)).collect())
}

fn percent(build: &Build<'_>, name: &str, usual: u64) -> Result<u64, JobError> {
    match build.params.number(name)?.unwrap_or(usual) {
        n @ 0..=100 => Ok(n),
        n => Err(build.params.wrong(format!("{name} = {n}: choose 0 to 100 percent"))),
    }
}

/// Sizes of reads and of writes, in units that the calls can have.
fn sizes(build: &Build<'_>, direct: bool, mix: u64) -> Result<[Sizes; 2], JobError> {
    let p = &build.params;
    let read = |name: &str| -> Result<Option<Sizes>, JobError> {
        let sizes = match p.bytes(name) {
            Ok(None) => return Ok(None),
            Ok(Some(n)) => Sizes::parse(&n.to_string()),
            // No quantity: several sizes.
            Err(_) => Sizes::parse(p.text(name)?.unwrap_or_default()),
        };
        sizes.map(Some).map_err(|e| p.wrong(format!("{name}: {e}")))
    };
    let reads = read("bs")?.unwrap_or(Sizes::One(4096));
    let writes = read("bs_write")?.unwrap_or_else(|| reads.clone());
    for (sizes, writing, used) in [(&reads, false, mix > 0), (&writes, true, mix < 100)] {
        let unit = unit(build, direct, writing);
        if let Some(odd) = sizes.all().find(|size| used && size % unit != 0) {
            let kind = match (direct, writing) {
                (true, _) => "direct calls",
                (false, true) => "buffered writes",
                (false, false) => "buffered reads",
            };
            return Err(p.wrong(format!("bs = {odd}: {kind} are multiples of {unit} bytes here")));
        }
    }
    Ok(sides([reads, writes], mix))
}

/// A pair of which a direction that the job does not have is like the other one.
fn sides<T: Clone>([reads, writes]: [T; 2], mix: u64) -> [T; 2] {
    match mix {
        100 => [reads.clone(), reads],
        0 => [writes.clone(), writes],
        _ => [reads, writes],
    }
}

fn shape(build: &Build<'_>, sizes: &[Sizes; 2], direct: bool, mix: u64) -> Shape {
    let smallest = sizes.each_ref().map(Sizes::smallest);
    Shape {
        unit: unit(build, direct, mix < 100),
        smallest: smallest[0].min(smallest[1]),
        least: smallest[0].max(smallest[1]),
        largest: sizes[0].largest().max(sizes[1].largest()),
        mix,
        direct,
    }
}

fn plan(
    build: &Build<'_>,
    sizes: &[Sizes; 2],
    shape: Shape,
    random: bool,
    size: u64,
) -> Result<PlacePlan, JobError> {
    let p = &build.params;
    let reads = p.bytes("align")?;
    let given = sides([reads, p.bytes("align_write")?.or(reads)], shape.mix);
    let align = [0, 1].map(|side| given[side].unwrap_or(sizes[side].smallest()));
    if let Some(odd) = given.iter().flatten().find(|&&n| n == 0 || n % shape.unit != 0) {
        return Err(p.wrong(format!("align = {odd}: choose a multiple of {}", shape.unit)));
    }
    let reads = percent(build, "random", 100)?;
    let random = match random {
        true => sides([reads, percent(build, "random_write", reads)?], shape.mix),
        false => [0, 0],
    };
    let popularity = sides(popularity(build, size)?, shape.mix);
    let run = p.number("row")?.unwrap_or(1).max(1);
    let repeats = p.flag("repeat_blocks")?.unwrap_or(false)
        || given != [None, None]
        || popularity != [Popularity::Uniform, Popularity::Uniform];
    let alike = sizes[0] == sizes[1] && matches!(sizes[0], Sizes::One(_));
    let blocks = size / shape.smallest;
    let once = match alike && random == [100, 100] && run == 1 {
        _ if repeats => Once::No,
        true => Once::Permuted,
        false if blocks <= MAP => Once::Mapped(blocks),
        false => Once::No,
    };
    Ok(PlacePlan {
        sizes: sizes.clone(),
        align,
        random,
        run,
        same: p.flag("row_stays")?.unwrap_or(false),
        hole: hole(build)?,
        popularity,
        once,
        endless: p.flag("time_based")?.unwrap_or(false),
    })
}

fn popularity(build: &Build<'_>, size: u64) -> Result<[Popularity; 2], JobError> {
    let p = &build.params;
    let read = |name: &str| -> Result<Option<Popularity>, JobError> {
        let Some(text) = p.text(name)? else { return Ok(None) };
        let popularity = Popularity::parse(text).and_then(|p| p.check(size).map(|()| p));
        popularity.map(Some).map_err(|e| p.wrong(format!("{name} = {text}: {e}")))
    };
    let reads = read("distribution")?.unwrap_or(Popularity::Uniform);
    let writes = read("distribution_write")?.unwrap_or_else(|| reads.clone());
    Ok([reads, writes])
}

/// Bytes left out, with a sign.
fn hole(build: &Build<'_>) -> Result<i64, JobError> {
    let p = &build.params;
    let unit = build.host.sector() as i64;
    let hole = p.signed("hole")?.unwrap_or(0);
    match hole % unit.min(512) {
        0 => Ok(hole),
        _ => Err(p.wrong(format!("hole = {hole}: choose a multiple of 512"))),
    }
}

fn turns(build: &Build<'_>, files: usize) -> Result<FileTurns, JobError> {
    let p = &build.params;
    let open = p.number("open_files")?.map_or(files, |n| usize::try_from(n).unwrap_or(files));
    let each = p.number("turn_calls")?.unwrap_or(1).max(1);
    let turns = FileTurns::new(files).open(open).each(each);
    Ok(match p.choice("turns", &["roundrobin", "random", "sequential"])? {
        Some(1) => turns.at_random(),
        Some(2) => turns.open(1),
        _ => turns,
    })
}

/// `whole`: bytes of all regions.
fn extent(build: &Build<'_>, whole: u64) -> Result<JobAmount, JobError> {
    let p = &build.params;
    let given = Amount::of(p, "io_size")?.and_then(|amount| amount.take(Some(whole), 1));
    let calls = p.number("calls")?.unwrap_or(u64::MAX);
    let run = p.time("run")?.map(Nanos);
    let endless = p.flag("time_based")?.unwrap_or(false);
    if endless && run.is_none() {
        return Err(p.wrong("time_based needs run, the time".into()));
    }
    if given == Some(0) {
        return Err(p.wrong("io_size = 0: choose at least a call".into()));
    }
    if calls == 0 {
        return Err(p.wrong("calls = 0: choose at least a call".into()));
    }
    let bytes = given.unwrap_or(whole);
    let loops = p.number("loops")?.unwrap_or(1).max(1);
    Ok(JobAmount { bytes, given: given.is_some(), calls, loops, run, endless })
}

fn think(build: &Build<'_>) -> Result<Option<ThinkTime>, JobError> {
    let p = &build.params;
    let time = |name| p.time(name).map(|t| t.map(Nanos));
    let every = time("think_every")?.filter(|&t| t > Nanos::ZERO);
    let usual = if every.is_some() { u64::MAX } else { 1 };
    let blocks = p.number("think_blocks")?.unwrap_or(usual).max(1);
    let first = p.number("think_first")?.unwrap_or(blocks).max(1);
    let pause = time("think")?.unwrap_or_default();
    let spin = time("think_spin")?.unwrap_or_default();
    Ok((pause > Nanos::ZERO).then(|| ThinkTime::new(pause, spin, blocks, first, every)))
}

/// The queue, and how many calls go together.
fn room(build: &Build<'_>, direct: bool) -> Result<(Room, u32), JobError> {
    let p = &build.params;
    let depth = build.depth(direct)?;
    let upto = |name: &str, usual: u64, low: u64, most: u32| match p.number(name)?.unwrap_or(usual)
    {
        n if (low..=u64::from(most)).contains(&n) => Ok(n as u32),
        n => Err(p.wrong(format!("{name} = {n}: choose {low} to {most}"))),
    };
    let low = upto("depth_low", u64::from(depth) - 1, 0, depth - 1)?;
    let batch = upto("batch", 1, 1, depth)?;
    let complete = upto("batch_complete", 1, 1, depth)?;
    Ok((Room { depth, low, batch: complete, more: false }, batch))
}

/// A number of calls per second is one of bytes where sizes differ: fio counts in the smallest size.
fn paces(build: &Build<'_>, sizes: &[Sizes; 2]) -> Result<[Option<CallRate>; 2], JobError> {
    let p = &build.params;
    let poisson = p.flag("poisson")?.unwrap_or(false);
    let of = |bytes: &str, calls: &str, sizes: &Sizes| -> Result<Option<CallRate>, JobError> {
        let (bytes, calls) = (p.bytes(bytes)?.unwrap_or(0), p.number(calls)?.unwrap_or(0));
        Ok(match (calls, sizes) {
            (0, _) | (_, Sizes::One(_)) => CallRate::new(bytes, calls, poisson),
            _ => {
                let of_calls = calls.saturating_mul(sizes.smallest());
                let least = if bytes == 0 { of_calls } else { bytes.min(of_calls) };
                CallRate::new(least, 0, poisson)
            }
        })
    };
    Ok([of("rate", "rate_iops", &sizes[0])?, of("rate_write", "rate_iops_write", &sizes[1])?])
}
