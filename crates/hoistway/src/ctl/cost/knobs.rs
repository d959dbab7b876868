//! `io.cost.model`, `io.cost.qos` and `io.weight`, read and written as the kernel does
//! (specs/groups-and-priorities.md 6.1, 6.6 and 6.7).

use super::model::{Qos, Rates, VRATE_MAX_PPM, VRATE_MIN_PPM};
use super::report::put;
use super::{ENTRY, IoCost, NAME};
use crate::env::Cx;
use crate::group::GroupId;
use crate::knob::{self, Knob, KnobError, KnobOf, body_for, is_blank};
use crate::setting::{self, TunableError};
use crate::unit::Instant;
use alloc::format;
use alloc::string::String;

pub(super) static KNOBS: &[Knob] = &[
    Knob {
        file: "io.cost.model",
        of: KnobOf::Root,
        form: "MAJ:MIN [ctrl=auto|user] [model=linear] [rbps=N] [rseqiops=N] [rrandiops=N] [wbps=N] \
               [wseqiops=N] [wrandiops=N]",
        doc: "What I/O costs: bytes/s and 4 KiB I/O/s of the device, by direction. Any number makes it \
              the user's; ctrl=auto brings the built-in device class back.",
    },
    Knob {
        file: "io.cost.qos",
        of: KnobOf::Root,
        form: "MAJ:MIN [enable=0|1] [ctrl=auto|user] [rpct=P] [rlat=US] [wpct=P] [wlat=US] [min=P] \
               [max=P]",
        doc: "Turns the controller on; percentile (0 to 100 %, two decimals, 0: off) and latency in us \
              by direction; bounds of vrate (1 to 10000 %).",
    },
    Knob {
        file: "io.weight",
        of: KnobOf::Groups,
        form: "N | default N | MAJ:MIN N | MAJ:MIN default",
        doc: "Weight of the group among its siblings, 1 to 10000, default 100; with a device number, on \
              that device only.",
    },
];

pub(super) const WEIGHT_MIN: u32 = 1;
pub(super) const WEIGHT_MAX: u32 = 10_000;

impl IoCost {
    pub(super) fn write(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        match file {
            "io.cost.model" => self.write_model(now, body_for(cx.device.number, line)?, cx)?,
            "io.cost.qos" => self.write_qos(now, body_for(cx.device.number, line)?)?,
            "io.weight" => return self.write_weight(now, group, line, cx),
            _ => return Err(KnobError::unsupported(format!("no file '{file}'"))),
        }
        Ok(())
    }

    /// A file without a value in force prints nothing.
    pub(super) fn read(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        let device = cx.device.number;
        let ctrl = |user| if user { "user" } else { "auto" };
        match file {
            "io.cost.model" if self.created => {
                put(
                    out,
                    format_args!("{device} ctrl={} model=linear", ctrl(self.params.user_model)),
                );
                for (name, value) in Rates::NAMES.iter().zip(self.params.rates.values()) {
                    put(out, format_args!(" {name}={value}"));
                }
                put(out, format_args!("\n"));
            }
            "io.cost.qos" if self.created => {
                let q = &self.params.qos;
                put(
                    out,
                    format_args!(
                        "{device} enable={} ctrl={} rpct={} rlat={} wpct={} wlat={} min={} max={}\n",
                        u8::from(self.enabled),
                        ctrl(self.params.user_qos),
                        percent(q.pct_ppm[0]),
                        q.lat_us[0],
                        percent(q.pct_ppm[1]),
                        q.lat_us[1],
                        percent(q.min_ppm),
                        percent(q.max_ppm)
                    ),
                );
            }
            "io.weight" => {
                let node = self.shares.get(group);
                let default = node.map_or(super::weights::WEIGHT_DEFAULT, |n| n.given.general);
                put(out, format_args!("default {default}\n"));
                if let Some(weight) = node.map(|n| n.given.here).filter(|&w| w != 0) {
                    put(out, format_args!("{device} {weight}\n"));
                }
            }
            _ => {}
        }
    }

    fn write_model(&mut self, now: Instant, body: &str, cx: &Cx<'_>) -> Result<(), KnobError> {
        let rates =
            if self.created { self.params.rates } else { self.class_now(now_us(now)).rates() };
        let (mut user, mut values) = (self.params.user_model, rates.values());
        for token in tokens(body) {
            let (key, value) = knob::pair(token)?;
            match key {
                "ctrl" => user = ctrl(value)?,
                "model" if value == "linear" => {}
                "model" => return Err(KnobError::invalid(format!("no model '{value}'"))),
                _ => {
                    let Some(at) = Rates::NAMES.iter().position(|&n| n == key) else {
                        return Err(knob::unknown_key(key, MODEL_KEYS));
                    };
                    values[at] = knob::number(key, value)?;
                    user = true;
                }
            }
        }
        self.create(now);
        let (before, page) = (self.params.rates.values(), self.price_of_a_page());
        if user {
            self.params.rates = Rates::from_values(values);
        }
        self.params.user_model = user;
        self.refresh(true, now_us(now));
        if self.conf.reprice != 0 && self.params.rates.values() != before {
            self.reprice(now, page, cx);
        }
        self.hasten(now);
        Ok(())
    }

    fn write_qos(&mut self, now: Instant, body: &str) -> Result<(), KnobError> {
        let mut qos =
            if self.created { self.params.qos } else { self.class_now(now_us(now)).qos() };
        let (mut enable, mut user) = (self.enabled, self.params.user_qos);
        for token in tokens(body) {
            let (key, value) = knob::pair(token)?;
            match key {
                "enable" => enable = knob::number(key, value)? != 0,
                "ctrl" => user = ctrl(value)?,
                _ => {
                    set_qos(&mut qos, key, value)?;
                    user = true;
                }
            }
        }
        if qos.min_ppm > qos.max_ppm {
            let (min, max) = (percent(qos.min_ppm), percent(qos.max_ppm));
            return Err(KnobError::invalid(format!("min={min} is above max={max}")));
        }
        self.create(now);
        self.enabled = enable;
        if user {
            self.params.qos = qos;
        }
        self.params.user_qos = user;
        self.refresh(true, now_us(now));
        self.hasten(now);
        Ok(())
    }

    fn write_weight(
        &mut self,
        now: Instant,
        group: GroupId,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        if line.contains(':') {
            let body = body_for(cx.device.number, line)?.trim_end_matches(is_blank);
            let here = if body == "default" { 0 } else { weight(body)? };
            // Deviation: the kernel refuses this before the first root knob created the controller; here
            // the order of the lines of a configuration does not matter.
            self.node_of(now, group, cx);
            self.shares[group].given.here = here;
        } else {
            let text = line.trim_matches(is_blank);
            let text = text.strip_prefix("default").unwrap_or(text).trim_start_matches(is_blank);
            let default = weight(text)?;
            self.node_of(now, group, cx);
            self.shares[group].given.general = default;
        }
        self.weight_changed(now, group);
        Ok(())
    }

    pub(super) fn set_weight(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        let default = ENTRY.stage.group_tunables[0].default;
        setting::check(ENTRY.stage.group_tunables, NAME, name, value.unwrap_or(default))?;
        self.node_of(now, group, cx);
        self.shares[group].given.here = value.unwrap_or(0) as u32;
        self.weight_changed(now, group);
        Ok(())
    }

    fn node_of(&mut self, now: Instant, group: GroupId, cx: &Cx<'_>) {
        let now = self.clock.at(now);
        self.grow(cx);
        self.exist(group, &now);
    }

    /// The weight in force follows the configured one. The shares of others follow with the next commit,
    /// at the end of the period at the latest.
    fn weight_changed(&mut self, now: Instant, group: GroupId) {
        let now = self.clock.at(now);
        let node = &self.shares[group];
        let (weight, inuse, active) =
            (node.given.configured(), node.weights.inuse, node.weights.active != 0);
        if weight == node.given.in_force {
            return;
        }
        if active {
            self.shares.set(group, weight, inuse, Some(now.v));
            self.shares.commit();
        }
        self.shares[group].given.in_force = weight;
    }
}

const MODEL_KEYS: &[&str] =
    &["ctrl", "model", "rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
const QOS_KEYS: &[&str] = &["enable", "ctrl", "rpct", "rlat", "wpct", "wlat", "min", "max"];

fn now_us(now: Instant) -> u64 {
    now.as_nanos() / 1000
}

fn tokens(body: &str) -> impl Iterator<Item = &str> {
    body.split(is_blank).filter(|token| !token.is_empty())
}

/// True for the user's values.
fn ctrl(value: &str) -> Result<bool, KnobError> {
    match value {
        "auto" => Ok(false),
        "user" => Ok(true),
        _ => Err(KnobError::invalid(format!("ctrl={value}; choose auto or user"))),
    }
}

fn set_qos(qos: &mut Qos, key: &str, value: &str) -> Result<(), KnobError> {
    match key {
        "rpct" | "wpct" => {
            let hundredths = hundredths(key, value)?;
            if hundredths > 10_000 {
                return Err(KnobError::invalid(format!("{key}={value} is above 100")));
            }
            qos.pct_ppm[usize::from(key == "wpct")] = hundredths as u32 * 100;
        }
        "rlat" => qos.lat_us[0] = knob::number(key, value)?,
        "wlat" => qos.lat_us[1] = knob::number(key, value)?,
        "min" | "max" => {
            let ppm = hundredths(key, value)?.saturating_mul(100);
            let ppm = ppm.clamp(VRATE_MIN_PPM.into(), VRATE_MAX_PPM.into()) as u32;
            *(if key == "min" { &mut qos.min_ppm } else { &mut qos.max_ppm }) = ppm;
        }
        _ => return Err(knob::unknown_key(key, QOS_KEYS)),
    }
    Ok(())
}

/// A decimal in hundredths; further digits are rounded to the nearest, a 5 up.
fn hundredths(key: &str, value: &str) -> Result<u64, KnobError> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        let what = format!("{key}={value}: '{value}' is not a decimal number such as 95.00");
        return Err(KnobError::invalid(what));
    }
    let digit = |at: usize| fraction.as_bytes().get(at).map_or(0, |b| u64::from(b - b'0'));
    let part = 10 * digit(0) + digit(1) + u64::from(digit(2) >= 5);
    let whole = knob::number(key, whole)?;
    Ok(whole.saturating_mul(100).saturating_add(part))
}

/// As percentages are printed: always with two decimals.
fn percent(ppm: u32) -> String {
    format!("{}.{:02}", ppm / 10_000, ppm / 100 % 100)
}

fn weight(text: &str) -> Result<u32, KnobError> {
    let refused = || {
        let what = format!("weight '{text}'; it is a number from {WEIGHT_MIN} to {WEIGHT_MAX}");
        KnobError::invalid(what)
    };
    let value = knob::number("weight", text).map_err(|_| refused())?;
    u32::try_from(value).ok().filter(|w| (WEIGHT_MIN..=WEIGHT_MAX).contains(w)).ok_or_else(refused)
}
