//! Timers on the kernel's timer wheel (specs/groups-and-priorities.md 1.1).

use crate::unit::{Instant, Nanos};

/// How timers on the tick fire (the tunable `tick_timers` of the controllers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TickTimers {
    /// As the kernel's wheel: never early, one unit of the wheel's resolution late. Needed for every
    /// comparison with Linux.
    #[default]
    Kernel,
    /// At the edge of the tick itself, at once if it has passed.
    Ideal,
}

impl TickTimers {
    /// The words of the tunable, in the order of its values.
    pub const WORDS: &'static [&'static str] = &["kernel", "ideal"];

    /// From the value of the tunable.
    pub fn from_value(value: u64) -> TickTimers {
        if value == 1 { TickTimers::Ideal } else { TickTimers::Kernel }
    }

    /// The value of the tunable.
    pub fn value(self) -> u64 {
        u64::from(self == TickTimers::Ideal)
    }

    /// The tick at whose edge a timer set for tick `for_tick`, at a moment in tick `at_tick`, fires.
    pub fn fires(self, at_tick: u64, for_tick: u64) -> u64 {
        match self {
            TickTimers::Ideal => for_tick,
            TickTimers::Kernel if for_tick < at_tick => at_tick + 1,
            TickTimers::Kernel => {
                let grain = resolution(at_tick, for_tick);
                (for_tick / grain + 1) * grain
            }
        }
    }

    /// Where a timer stands among others: edge, then order at the edge. `seq` counts the settings.
    ///
    /// Kernel: coarser resolutions first, within one the latest set first. Ideal: in the order set; a
    /// tick that has passed counts as the current one.
    pub fn place(self, at_tick: u64, for_tick: u64, seq: u64) -> (u64, u64) {
        const SEQ_BITS: u32 = 56;
        let later_first = (1 << SEQ_BITS) - 1 - seq;
        match self {
            TickTimers::Ideal => (for_tick.max(at_tick), seq),
            TickTimers::Kernel => {
                let level = u64::from(resolution(at_tick, for_tick.max(at_tick)).ilog2()) / 3;
                (self.fires(at_tick, for_tick), (15 - level) << SEQ_BITS | later_first)
            }
        }
    }

    /// The tick from which the wheel counts to a timer that is set for `for_tick` in tick `now`: where the wheel has
    /// `run` the timers of that tick, it stands at the next one.
    pub fn wheel(self, now: u64, for_tick: u64, run: bool) -> u64 {
        now + u64::from(run && self == TickTimers::Kernel && for_tick > now)
    }

    /// The instant at which it fires; never before `now`. The wheel has `run` the timers of this tick if this is one.
    pub fn fires_at(self, now: Instant, tick: Nanos, for_tick: u64, run: bool) -> Instant {
        let wheel = self.wheel(tick_of(now, tick), for_tick, run);
        let edge = self.fires(wheel, for_tick).saturating_mul(tick.0);
        Instant::from_nanos(edge).max(now)
    }
}

/// The wheel's resolution in ticks: 1 up to 63 ticks ahead, then times 8 for each factor of 8.
fn resolution(at_tick: u64, for_tick: u64) -> u64 {
    let distance = for_tick - at_tick;
    let (mut reach, mut grain) = (63u64, 1u64);
    while distance >= reach && grain < 1 << 24 {
        reach *= 8;
        grain *= 8;
    }
    grain
}

/// The tick `now` lies in: the number of the last edge.
pub fn tick_of(now: Instant, tick: Nanos) -> u64 {
    now.as_nanos() / tick.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_timers_fire_one_tick_late() {
        let k = TickTimers::Kernel;
        assert_eq!(k.fires(100, 103), 104);
        assert_eq!(k.fires(100, 100), 101);
        assert_eq!(k.fires(100, 90), 101);
        assert_eq!(TickTimers::Ideal.fires(100, 103), 103);
    }

    #[test]
    fn timers_of_one_edge_run_coarse_ones_first_then_the_latest_first() {
        let k = TickTimers::Kernel;
        // All at edge 168; the first two set at tick 80 with resolution 8, the others later with 1.
        let places =
            [k.place(80, 160, 1), k.place(80, 165, 2), k.place(150, 167, 3), k.place(160, 167, 4)];
        assert!(places.iter().all(|p| p.0 == 168));
        let mut order = [0, 1, 2, 3];
        order.sort_by_key(|&i| places[i]);
        assert_eq!(order, [1, 0, 3, 2]);
        let ideal = TickTimers::Ideal;
        assert!(ideal.place(100, 90, 1) < ideal.place(100, 100, 2));
    }

    #[test]
    fn far_timers_fire_at_the_next_coarse_edge() {
        let k = TickTimers::Kernel;
        // Scenario 21 of specs/io-max-throttling.md: timers of resolution 8 at 206, 414 and 518 after T.
        let t = 1_000_250;
        assert_eq!(k.fires(t, t + 200), t + 206);
        assert_eq!(k.fires(t + 206, t + 406), t + 414);
        assert_eq!(k.fires(t + 414, t + 512), t + 518);
        // "1 s" with a 10 ms tick fires after 101 to 108 ticks.
        let late: alloc::vec::Vec<u64> = (1000..1008).map(|j| k.fires(j, j + 100) - j).collect();
        assert_eq!((late.iter().min(), late.iter().max()), (Some(&101), Some(&108)));
    }
}
