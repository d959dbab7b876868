//! Seeded runs of everything at once.

use super::*;

/// Random loads on random devices under every scheduler: what goes in comes out once, and the stack
/// comes to rest.
#[test]
fn everything_submitted_is_finished_once_under_every_scheduler() {
    for seed in 0..300u64 {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut draw = move |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        for entry in sched::SCHEDULERS {
            let legacy = !entry.direct && draw(3) == 0;
            let mut rig = Rig::new(entry.name, |d| {
                if legacy {
                    d.profile = Profile::Legacy;
                } else {
                    d.profile = Profile::MultiQueue;
                    d.hw_queues = 1 + draw(3) as u16;
                }
                d.queue_depth = 1 + draw(8) as u32;
                d.rotational = draw(2) == 0;
                d.write_cache = draw(2) == 0;
                d.fua = draw(2) == 0;
                d.flush_nonqueued = draw(2) == 0;
                d.overask = draw(2) == 0;
                if draw(4) == 0 {
                    d.tag_wait = crate::device::TagWait::Fifo;
                }
            });
            let mut blocked = [None; 8];
            for _ in 0..400 {
                rig.now += Nanos::us(draw(3000));
                let proc = draw(8) as u32;
                match draw(12) {
                    0 if !legacy => rig.input(Input::Plug(ProcId(proc))),
                    1 => rig.input(Input::Unplug(ProcId(proc))),
                    2 => rig.input(Input::Sleep(ProcId(proc))),
                    3..=5 if !rig.device.is_empty() => {
                        let at = draw(rig.device.len() as u64) as usize;
                        let req = rig.device.remove(at);
                        if draw(10) == 0 {
                            rig.input(Input::Requeue(req));
                        } else {
                            rig.input(Input::Done { req, error: None });
                        }
                    }
                    6 => {
                        if let Some(at) = rig.wake {
                            rig.now = rig.now.max(at);
                            rig.tick();
                        }
                    }
                    7 if draw(8) == 0 => {
                        let to = sched::SCHEDULERS[draw(sched::SCHEDULERS.len() as u64) as usize];
                        if !(to.direct && legacy) {
                            rig.input(Input::SwitchScheduler(to));
                        }
                    }
                    _ => {
                        let slot = &mut blocked[proc as usize];
                        if slot.is_some_and(|io| !rig.accepted.contains(&io)) {
                            continue;
                        }
                        let (start, len) = (draw(4000) * 8, 8 * (1 + draw(4)));
                        let kind = draw(10);
                        let id = rig.submit_as(proc, |io| {
                            *io = match kind {
                                0..=5 => Io::read(io.id.0, io.proc, start, len),
                                _ => Io::write(io.id.0, io.proc, start, len),
                            };
                            io.cpu = proc;
                            if kind == 7 {
                                io.flags = Flags::SYNC;
                            } else if kind == 8 {
                                io.flags = Flags::SYNC | Flags::PREFLUSH | Flags::FUA;
                            } else if kind == 9 {
                                io.op = Op::Flush;
                                io.sectors = Sectors(0);
                            } else if legacy && kind == 6 {
                                io.flags = Flags::BARRIER;
                            }
                        });
                        *slot = Some(id);
                    }
                }
            }
            for proc in 0..8 {
                rig.input(Input::Unplug(ProcId(proc)));
            }
            rig.run_dry();
            let mut finished = core::mem::take(&mut rig.finished);
            finished.sort_unstable();
            if finished.len() as u64 != rig.next_io {
                panic!("{} seed {seed}: {:#?}", entry.name, rig.stack);
            }
            let all: Vec<u64> = (1..=rig.next_io).collect();
            assert_eq!(finished, all, "{} seed {seed}", entry.name);
            assert_eq!(rig.requests(), 0, "{} seed {seed}", entry.name);
            assert_eq!(rig.stack.in_flight(), 0);
        }
    }
}
