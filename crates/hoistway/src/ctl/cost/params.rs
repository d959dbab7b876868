//! Parameters in force: from the device's built-in class and from what the user wrote (specs/io-cost.md 4.4, 4.5).

use super::model::{CostModel, DeviceClass, Qos, Rates, VUS};
use super::settings::CostConf;
use crate::device::Device;
use crate::unit::Nanos;

/// vrates in percent beyond which the built-in model of the SSD classes is taken to be the wrong one.
const TOO_FAST_PCT: u64 = 500;
const TOO_SLOW_PCT: u64 = 10;

/// Kind of the device, and parameters that follow.
#[derive(Debug)]
pub(super) struct Params {
    pub tick: Nanos,
    rotational: bool,
    queue_depth: u32,
    /// The user's values stand.
    pub user_qos: bool,
    pub user_model: bool,
    pub class: Option<DeviceClass>,
    pub qos: Qos,
    pub rates: Rates,
    pub model: CostModel,
    pub period_us: u64,
    /// The slack lets one interrupt serve several groups' wakes.
    pub slack_ns: u64,
    /// Since when vrate says that the class is the wrong one.
    too_fast_at: Option<u64>,
    too_slow_at: Option<u64>,
}

impl Params {
    pub fn new(device: &Device) -> Params {
        Params {
            tick: device.tick,
            rotational: device.rotational,
            queue_depth: device.queue_depth,
            user_qos: false,
            user_model: false,
            class: None,
            qos: Qos::default(),
            rates: Rates::default(),
            model: CostModel::default(),
            period_us: 0,
            slack_ns: 0,
            too_fast_at: None,
            too_slow_at: None,
        }
    }

    /// The device has other properties.
    pub fn device_changed(&mut self, device: &Device) {
        self.rotational = device.rotational;
        self.queue_depth = device.queue_depth;
        self.tick = device.tick;
    }

    /// 4.4: everything that follows from that class and from what the user set.
    pub fn derive(&mut self, class: DeviceClass, s: &CostConf) {
        self.class = Some(class);
        self.too_fast_at = None;
        self.too_slow_at = None;
        if !self.user_qos {
            self.qos = class.qos();
        }
        if !self.user_model {
            self.rates = class.rates();
        }
        self.model = CostModel::of(&self.rates);
        self.period_us = self.qos.period_us(s.period_min_us, s.period_max_us);
        self.slack_ns = self.period_us * 1000 * s.timer_slack_pct / 100;
    }

    /// The lowest and the highest vrate, in vtime per us.
    pub fn vrate_bounds(&self) -> [u64; 2] {
        let least = (u64::from(self.qos.min_ppm) * VUS).div_ceil(1_000_000);
        [least, u64::from(self.qos.max_ppm) * VUS / 1_000_000]
    }

    /// The class the device is in now; runs the clocks of the switches between the two SSD classes.
    ///
    /// A class changes after ten seconds of a clear sign, so that it does not flap. Only the SSD classes change: what
    /// the user has set is not outguessed, and a disk is told by its rotation.
    pub fn class_now(&mut self, now_us: u64, base_rate: u64, switch_ms: u64) -> DeviceClass {
        if self.rotational {
            return DeviceClass::Hdd;
        }
        if self.queue_depth == 1 {
            return DeviceClass::SsdQd1;
        }
        let class = match self.class {
            Some(class @ (DeviceClass::SsdDefault | DeviceClass::SsdFast)) => class,
            None | Some(DeviceClass::Hdd | DeviceClass::SsdQd1) => return DeviceClass::SsdDefault,
        };
        if self.user_qos || self.user_model {
            return class;
        }
        let vrate_pct = 100 * base_rate / VUS;
        let (off, clock, other) = match class {
            DeviceClass::SsdFast => {
                (vrate_pct <= TOO_SLOW_PCT, &mut self.too_slow_at, DeviceClass::SsdDefault)
            }
            _ => (vrate_pct >= TOO_FAST_PCT, &mut self.too_fast_at, DeviceClass::SsdFast),
        };
        if !off {
            *clock = None;
            return class;
        }
        let since = *clock.get_or_insert(now_us);
        if now_us - since >= switch_ms * 1000 { other } else { class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::cost::settings::SETTINGS;
    use crate::unit::Sectors;

    fn params(rotational: bool, depth: u32) -> Params {
        let mut device = Device::new(Sectors(1 << 30), depth);
        device.rotational = rotational;
        Params::new(&device)
    }

    #[test]
    fn the_class_follows_from_rotation_and_depth_at_first() {
        let class = |rotational, depth| params(rotational, depth).class_now(0, VUS, 10_000);
        assert_eq!(class(true, 1), DeviceClass::Hdd);
        assert_eq!(class(false, 1), DeviceClass::SsdQd1);
        assert_eq!(class(false, 2), DeviceClass::SsdDefault);
    }

    /// Ten seconds beyond the edge, not a microsecond less; and what lies at the edge is beyond it.
    #[test]
    fn an_ssd_changes_its_class_after_ten_seconds_of_a_clear_sign() {
        let mut p = params(false, 32);
        p.derive(DeviceClass::SsdDefault, &SETTINGS.defaults());
        let fast = VUS.div_ceil(100) * TOO_FAST_PCT;
        assert_eq!(p.class_now(5, fast, 10_000), DeviceClass::SsdDefault);
        assert_eq!(p.class_now(10_000_004, fast, 10_000), DeviceClass::SsdDefault);
        assert_eq!(p.class_now(10_000_005, fast, 10_000), DeviceClass::SsdFast);
        assert_eq!(p.class_now(10_000_006, fast - 2 * VUS / 100, 10_000), DeviceClass::SsdDefault);
        assert_eq!(
            p.class_now(20_000_006, fast, 10_000),
            DeviceClass::SsdDefault,
            "the clock began anew"
        );
        p.derive(DeviceClass::SsdFast, &SETTINGS.defaults());
        let slow = VUS / 100 * TOO_SLOW_PCT;
        assert_eq!(p.class_now(0, slow, 10_000), DeviceClass::SsdFast);
        assert_eq!(p.class_now(10_000_000, slow, 10_000), DeviceClass::SsdDefault);
    }

    #[test]
    fn what_the_user_set_is_not_outguessed() {
        let mut p = params(false, 32);
        p.derive(DeviceClass::SsdDefault, &SETTINGS.defaults());
        for user in [[true, false], [false, true]] {
            [p.user_qos, p.user_model] = user;
            assert_eq!(p.class_now(0, 100 * VUS, 0), DeviceClass::SsdDefault);
        }
        let qos = p.qos;
        p.derive(DeviceClass::SsdFast, &SETTINGS.defaults());
        assert_eq!(
            (p.qos == qos, p.rates),
            (false, DeviceClass::SsdDefault.rates()),
            "the model is the user's"
        );
    }

    #[test]
    fn bounds_of_vrate_are_rounded_inward() {
        let mut p = params(true, 32);
        (p.qos.min_ppm, p.qos.max_ppm) = (1, 999_999);
        assert_eq!(p.vrate_bounds(), [1, VUS * 999_999 / 1_000_000]);
        assert!(p.vrate_bounds()[1] < VUS);
    }
}
