//! The checks of a generated profile (specs/experiments.md 6.2) that need no drive; start-up times:
//! tests/app_start.rs.

use super::chain::{BLOCK, REGION, ReadKind, Request, generate, place};
use super::profile::{PROFILES, Profile};
use crate::rng::stream;

/// Of the trace: requests, bytes, sequential shares of R and RM together and of all.
const TRACES: &[(&str, usize, u64, f64, f64)] = &[
    ("xterm", 718, 6_180_000, 74.0 / 164.0, 0.85),
    ("gnome-terminal", 2781, 21_050_000, 449.0 / 788.0, 0.85),
    ("lowriter", 1268, 48_620_000, 287.0 / 606.0, 0.73),
];

const CAPACITY: u64 = 320_000_000_000;

fn made(profile: &Profile, seed: u64) -> (Vec<Request>, Vec<u64>) {
    let mut rng = stream(seed, "load/0");
    let mut chain = generate(profile, &mut rng);
    let starts = place(&mut chain, profile, CAPACITY, &mut rng);
    (chain, starts)
}

fn share(of: usize, all: usize) -> f64 {
    of as f64 / all as f64
}

#[test]
fn requests_bytes_and_sequential_shares_are_those_of_the_traces() {
    for &(name, requests, bytes, sync_share, share_all) in TRACES {
        let profile = PROFILES.iter().find(|p| p.name == name).unwrap();
        for seed in 1..=20 {
            let (chain, _) = made(profile, seed);
            let n = chain.len();
            let read: u64 = chain.iter().map(|r| r.len).sum();
            let sync: Vec<_> = chain.iter().filter(|r| r.kind != ReadKind::Ahead).collect();
            let follow = share(sync.iter().filter(|r| r.follows).count(), sync.len());
            let all = share(chain.iter().filter(|r| r.follows).count(), n);
            let of = format!("{name}, seed {seed}");
            assert_eq!(sync.len(), profile.reads + profile.metas, "{of}");
            assert!((share(n, requests) - 1.0).abs() < 0.15, "{of}: {n} requests");
            assert!((read as f64 / bytes as f64 - 1.0).abs() < 0.10, "{of}: {read} bytes");
            assert!((follow - sync_share).abs() < 0.05, "{of}: {follow} of R and RM follow");
            assert!((all - share_all).abs() < 0.05, "{of}: {all} of all follow");
        }
    }
}

#[test]
fn no_block_is_read_twice_and_everything_lies_in_the_regions() {
    for profile in PROFILES {
        for seed in 1..=20 {
            let (chain, starts) = made(profile, seed);
            let mut reads: Vec<(u64, u64)> =
                starts.iter().zip(&chain).map(|(&s, r)| (s, s + r.len)).collect();
            reads.sort_unstable();
            assert!(reads.windows(2).all(|w| w[0].1 <= w[1].0), "{}", profile.name);
            assert!(reads.iter().all(|r| r.0 % BLOCK == 0 && r.1 <= CAPACITY));
            let mut jumps: Vec<u64> = starts.iter().map(|s| s / REGION).collect();
            jumps.sort_unstable();
            jumps.dedup();
            assert!(jumps.len() <= 2 * profile.regions + 2, "{} regions", jumps.len());
            // A chain of few reads does not reach all regions: so many it does on average.
            let (n, regions) =
                (chain.iter().filter(|r| !r.follows).count(), profile.regions as f64);
            let reached = regions * (1.0 - libm::pow(1.0 - 1.0 / regions, n as f64));
            let of = format!("{}, seed {seed}: {} regions", profile.name, jumps.len());
            assert!(jumps.len() as f64 > reached / 2.0, "{of}, {reached} expected");
        }
    }
}

#[test]
fn processes_act_in_turns_with_their_shares() {
    for profile in PROFILES {
        let (chain, _) = made(profile, 1);
        let handovers = chain.windows(2).filter(|w| w[0].actor != w[1].actor).count();
        assert_eq!(handovers, profile.handovers, "{}", profile.name);
        let whole: u64 = profile.actors.iter().map(|a| a.share).sum();
        for (i, actor) in profile.actors.iter().enumerate() {
            let mine = share(chain.iter().filter(|r| r.actor == i).count(), chain.len());
            let expected = actor.share as f64 / whole as f64;
            // A turn ends with a whole burst of read-ahead.
            assert!((mine - expected).abs() < 0.2, "{} {}: {mine}", profile.name, actor.name);
            assert!(mine > 0.0, "{} {} acts", profile.name, actor.name);
        }
    }
}

#[test]
fn a_burst_goes_on_behind_a_metadata_read_that_jumped() {
    for profile in PROFILES {
        let (chain, starts) = made(profile, 2);
        let mut bursts = 0;
        for i in 1..chain.len() {
            if chain[i].kind == ReadKind::Ahead {
                assert_eq!(starts[i], starts[i - 1] + BLOCK);
                assert_eq!(chain[i].actor, chain[i - 1].actor);
                bursts += usize::from(chain[i - 1].kind != ReadKind::Ahead);
                assert_ne!(chain[i - 1].kind, ReadKind::Data);
            }
        }
        assert!(bursts.abs_diff(profile.bursts) <= 1, "{}: {bursts} bursts", profile.name);
    }
}
