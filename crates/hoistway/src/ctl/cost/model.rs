//! The linear model: what an I/O costs in device time, and the built-in device classes
//! (specs/io-cost.md section 4).

use crate::request::Dir;

/// vtime units per second at vrate 100 %.
/// 2^37 a second: steps below a nanosecond, and days before it wraps at any vrate.
pub(super) const VSEC: u64 = 1 << 37;
/// vtime units per microsecond at vrate 100 %.
pub(super) const VUS: u64 = VSEC / 1_000_000;
/// vtime units per nanosecond at vrate 100 %.
pub(super) const VNS: u64 = VSEC / 1_000_000_000;
/// Weight and share "1.0".
pub(super) const ONE: u64 = 1 << 16;
/// The size unit of the model.
const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u64 = 8;
/// No charge may bring vtime near the middle of its range, where signed comparison ends: 2^60 is 97 days
/// of device time.
const CHARGE_MAX: u64 = 1 << 60;

/// The six rates of a device, as in `io.cost.model`; 0: that part costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Reads: bytes per second, sequential and random 4 KiB I/Os per second.
    pub read: [u64; 3],
    /// Writes.
    pub write: [u64; 3],
}

impl Rates {
    /// The names of the rates in the order in which they are printed.
    pub const NAMES: [&'static str; 6] =
        ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];

    /// The rates in the order of [`Rates::NAMES`].
    pub fn values(&self) -> [u64; 6] {
        let ([a, b, c], [d, e, f]) = (self.read, self.write);
        [a, b, c, d, e, f]
    }

    /// From values in the order of [`Rates::NAMES`].
    pub fn from_values(values: [u64; 6]) -> Rates {
        let [a, b, c, d, e, f] = values;
        Rates { read: [a, b, c], write: [d, e, f] }
    }
}

/// Cost of a page and of an I/O of one direction, in vtime units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Coefs {
    pub page: u64,
    pub seq: u64,
    pub rand: u64,
}

impl Coefs {
    /// 4.1: from bytes per second, sequential and random I/Os per second.
    ///
    /// Linear, because six numbers are what a user can measure, and one multiplication what an I/O can
    /// afford. An error common to all six does no harm: vrate absorbs it. Wrong *ratios* stay wrong, such as
    /// those of mixed reads and writes or of a cache that fills (Heo et al., IOCost, ASPLOS 2022).
    pub fn of([bps, seqiops, randiops]: [u64; 3]) -> Coefs {
        let page = if bps == 0 { 0 } else { VSEC.div_ceil(bps.div_ceil(PAGE_BYTES)) };
        // An I/O costs its first page too: the base is what is left.
        let base = |iops: u64| if iops == 0 { 0 } else { VSEC.div_ceil(iops).saturating_sub(page) };
        Coefs { page, seq: base(seqiops), rand: base(randiops) }
    }
}

/// Coefficients of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CostModel([Coefs; 2]);

impl CostModel {
    pub fn of(rates: &Rates) -> CostModel {
        CostModel([Coefs::of(rates.read), Coefs::of(rates.write)])
    }

    pub fn coefs(&self, dir: Dir) -> Coefs {
        self.0[dir as usize]
    }

    /// Price of the bytes alone: the whole price of an I/O that joins a request (6.2).
    ///
    /// It saved the device a command, so it pays no base.
    pub fn bytes_cost(&self, dir: Dir, sectors: u64) -> u64 {
        let pages = (sectors / PAGE_SECTORS).max(1);
        pages.saturating_mul(self.coefs(dir).page).min(CHARGE_MAX)
    }

    /// 4.2: absolute cost of an I/O at `start` after one that ended at `cursor` (0: none before).
    /// `far_pages`: beyond this distance it is random.
    ///
    /// A group's first I/O counts as sequential: without a cursor nothing speaks against it.
    pub fn cost(&self, dir: Dir, start: u64, sectors: u64, cursor: u64, far_pages: u64) -> u64 {
        let distance = if cursor == 0 { 0 } else { start.abs_diff(cursor) / PAGE_SECTORS };
        let coefs = self.coefs(dir);
        let base = if distance > far_pages { coefs.rand } else { coefs.seq };
        (self.bytes_cost(dir, sectors) + base).min(CHARGE_MAX)
    }

    /// 6.4: the part of a request's latency that its size explains, in ns.
    pub fn size_ns(&self, dir: Dir, sectors: u64) -> u64 {
        (sectors / PAGE_SECTORS).saturating_mul(self.coefs(dir).page) / VNS
    }
}

/// 4.3: what an absolute cost is in the vtime of a group of share `share`, rounded up.
#[inline]
pub(super) fn cost_of(abs: u64, share: u64) -> u64 {
    debug_assert!(share > 0 && abs <= CHARGE_MAX);
    if abs < 1 << 48 {
        return (abs << 16).div_ceil(share);
    }
    ((u128::from(abs) << 16).div_ceil(u128::from(share))).min(u128::from(CHARGE_MAX)) as u64
}

/// 4.3: the absolute cost of a length of vtime of a group of share `share`, rounded up.
#[inline]
pub(super) fn abs_of(v: u64, share: u64) -> u64 {
    (u128::from(v) * u128::from(share)).div_ceil(u128::from(ONE)) as u64
}

/// Quality of service, as in `io.cost.qos`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Qos {
    /// Percentile by direction in ppm; 0: off.
    pub pct_ppm: [u32; 2],
    /// Latency by direction in us.
    pub lat_us: [u64; 2],
    /// Bounds of vrate in ppm.
    pub min_ppm: u32,
    pub max_ppm: u32,
}

impl Qos {
    /// 4.5: the length of a period in us, from the direction with the larger latency, within bounds.
    pub fn period_us(&self, min_us: u64, max_us: u64) -> u64 {
        let [read, write] = self.lat_us;
        let (ppm, lat) =
            if read >= write { (self.pct_ppm[0], read) } else { (self.pct_ppm[1], write) };
        let factor =
            if ppm == 0 { 2 } else { (u64::from(1_000_000 - ppm) / PPM_PER_PERIOD_STEP).max(2) };
        factor.saturating_mul(lat).max(min_us).min(max_us)
    }
}

/// 4.5: a period is one latency long for every so many ppm that may miss it.
const PPM_PER_PERIOD_STEP: u64 = 50_000;

/// A built-in class of devices (4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceClass {
    Hdd,
    SsdQd1,
    SsdDefault,
    SsdFast,
}

impl DeviceClass {
    pub const ALL: [DeviceClass; 4] =
        [DeviceClass::Hdd, DeviceClass::SsdQd1, DeviceClass::SsdDefault, DeviceClass::SsdFast];

    pub fn name(self) -> &'static str {
        match self {
            DeviceClass::Hdd => "hdd",
            DeviceClass::SsdQd1 => "ssd_qd1",
            DeviceClass::SsdDefault => "ssd_dfl",
            DeviceClass::SsdFast => "ssd_fast",
        }
    }

    pub fn qos(self) -> Qos {
        let lat_us = match self {
            DeviceClass::Hdd => 250_000,
            DeviceClass::SsdQd1 | DeviceClass::SsdDefault => 25_000,
            DeviceClass::SsdFast => 5_000,
        };
        Qos { pct_ppm: [0; 2], lat_us: [lat_us; 2], min_ppm: VRATE_MIN_PPM, max_ppm: VRATE_MAX_PPM }
    }

    pub fn rates(self) -> Rates {
        let (read, write) = match self {
            DeviceClass::Hdd => ([174_019_176, 41_708, 370], [178_075_866, 42_705, 378]),
            DeviceClass::SsdQd1 => ([245_855_193, 61_575, 6_946], [141_365_009, 33_716, 26_796]),
            DeviceClass::SsdDefault => ([488_636_629, 8_932, 8_518], [427_891_549, 28_755, 21_940]),
            DeviceClass::SsdFast => {
                ([3_102_524_156, 724_816, 778_122], [1_742_780_862, 425_702, 443_193])
            }
        };
        Rates { read, write }
    }
}

/// vrate stays between 1 % and 10 000 %.
pub(super) const VRATE_MIN_PPM: u32 = 10_000;
pub(super) const VRATE_MAX_PPM: u32 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario 1: the 24 coefficients of the built-in classes.
    #[test]
    fn the_coefficients_of_the_classes_follow_from_their_rates() {
        let table = [
            (DeviceClass::Hdd, [3_234_924, 60_342, 368_221_708], [3_161_261, 57_074, 360_433_855]),
            (DeviceClass::SsdQd1, [2_289_734, 0, 17_497_044], [3_982_238, 94_134, 1_146_847]),
            (
                DeviceClass::SsdDefault,
                [1_152_074, 14_235_181, 14_983_047],
                [1_315_634, 3_464_021, 4_948_676],
            ),
            (DeviceClass::SsdFast, [181_449, 8_171, 0], [323_018, 0, 0]),
        ];
        for (class, read, write) in table {
            let model = CostModel::of(&class.rates());
            let of = |dir| {
                let c = model.coefs(dir);
                [c.page, c.seq, c.rand]
            };
            assert_eq!((of(Dir::Read), of(Dir::Write)), (read, write), "{}", class.name());
        }
    }

    #[test]
    fn a_rate_of_zero_costs_nothing() {
        assert_eq!(Coefs::of([0, 0, 0]), Coefs::default());
        assert_eq!(Coefs::of([0, 1000, 0]), Coefs { page: 0, seq: 137_438_954, rand: 0 });
    }

    /// Scenario 2, and the periods that the table of 4.4 names.
    #[test]
    fn the_period_follows_from_the_larger_latency() {
        let period = |rpct: u32, rlat, wpct: u32, wlat| {
            let pct_ppm = [rpct * 10_000, wpct * 10_000];
            Qos { pct_ppm, lat_us: [rlat, wlat], ..Qos::default() }.period_us(1_000, 1_000_000)
        };
        assert_eq!(period(0, 250_000, 0, 250_000), 500_000);
        assert_eq!(period(0, 5_000, 0, 5_000), 10_000);
        assert_eq!(period(95, 2_500, 95, 5_000), 10_000);
        assert_eq!(period(50, 40_000, 95, 5_000), 400_000);
        assert_eq!(period(99, 200, 99, 300), 1_000);
        assert_eq!(period(0, 700_000, 0, 0), 1_000_000);
        assert_eq!(period(0, u64::MAX, 0, 0), 1_000_000);
        // A tie is the reads': 50 % would give 10 latencies.
        assert_eq!(period(95, 5_000, 50, 5_000), 10_000);
        let of = |class: DeviceClass| class.qos().period_us(1_000, 1_000_000);
        assert_eq!(DeviceClass::ALL.map(of), [500_000, 50_000, 50_000, 10_000]);
    }

    /// Scenarios 3 and 4.
    #[test]
    fn an_io_costs_its_pages_and_a_base_that_depends_on_the_distance() {
        let hdd = CostModel::of(&DeviceClass::Hdd.rates());
        let read = |start, sectors, cursor| hdd.cost(Dir::Read, start, sectors, cursor, 4096);
        assert_eq!(read(123_456_789, 8, 0), 3_295_266);
        let cursor = 1_000_000;
        assert_eq!(read(cursor + 4096 * 8, 8, cursor), 3_295_266);
        assert_eq!(read(cursor + 4097 * 8, 8, cursor), 371_456_632);
        assert_eq!(read(cursor - 4097 * 8, 8, cursor), 371_456_632);
        assert_eq!(read(cursor, 256, cursor), 103_577_910);
        assert_eq!(read(cursor, 4, cursor), 3_295_266);
        assert_eq!(read(cursor, 12, cursor), 3_295_266);
        assert_eq!(read(cursor, 16, cursor), 3_295_266 + 3_234_924);
        assert_eq!(hdd.bytes_cost(Dir::Read, 256), 32 * 3_234_924);
    }

    /// Scenario 6, and the way back.
    #[test]
    fn a_cost_is_dearer_for_a_smaller_share() {
        assert_eq!(cost_of(371_456_632, 16_384), 1_485_826_528);
        assert_eq!(cost_of(1, ONE), 1);
        assert_eq!(cost_of(1, 3), 21_846);
        assert_eq!(abs_of(1_500_000, 32_768), 750_000);
        assert_eq!(abs_of(1, 1), 1);
        // Far beyond what any device does, without overflow.
        assert_eq!(cost_of(CHARGE_MAX, 1), CHARGE_MAX);
        assert_eq!(abs_of(u64::MAX, ONE), u64::MAX);
    }

    /// Scenario 18.
    #[test]
    fn size_explains_a_part_of_the_latency() {
        assert_eq!(CostModel::of(&DeviceClass::Hdd.rates()).size_ns(Dir::Read, 2048), 6_044_821);
    }
}
