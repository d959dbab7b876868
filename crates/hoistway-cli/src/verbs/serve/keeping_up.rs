//! Warns while the server runs when an emulated drive or the machine does not keep up: who is held up
//! loses shares and latencies that no scheduler can give back, and nothing else tells.

use hoistway_machine::engine::Processors;
use hoistway_serve::Device;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What it means and what helps.
pub const ADVICE: &str = "and shares and latencies are not what the drive would give: leave the machine to the \
                          server, or give it priority (chrt -r 1)";

/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);
/// Commands after which an emulation is judged.
const COMMANDS: u64 = 1000;
/// Share of stolen time from which results are doubtful, as in the lab.
const STOLEN: f64 = 0.01;

/// Looks until it is dropped.
#[derive(Debug)]
pub struct LatenessMonitor {
    _stop: Sender<()>,
}

impl LatenessMonitor {
    /// The thread is not waited for at the end: a device that hangs may have it in hand.
    pub fn start(devices: &[Device]) -> LatenessMonitor {
        let (stop, stopped) = channel::<()>();
        let devices = devices.to_vec();
        let mut watch = Told { told: vec![false; devices.len()], stolen: false };
        let look = move || {
            let mut then = Processors::now();
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let now = Processors::now();
                if let (Some(then), Some(now)) = (then, now) {
                    watch.processors(now.stolen_since(&then));
                }
                then = now;
                watch.devices(&devices);
            }
        };
        // A machine without room for a thread more has other troubles.
        let _ = std::thread::Builder::new().name("hoistway-monitor".into()).spawn(look);
        LatenessMonitor { _stop: stop }
    }
}

/// What was said already.
struct Told {
    told: Vec<bool>,
    stolen: bool,
}

impl Told {
    fn processors(&mut self, stolen: f64) {
        if stolen >= STOLEN && !std::mem::replace(&mut self.stolen, true) {
            let percent = stolen * 100.0;
            eprintln!(
                "warning: other guests of this machine's host took {percent:.1} % of the processors' time in \
                 the last {} s, {ADVICE}",
                LOOK.as_secs()
            );
        }
    }

    fn devices(&mut self, devices: &[Device]) {
        for (device, told) in devices.iter().zip(&mut self.told) {
            let Ok(Some(figures)) = device.emulation() else { continue };
            if figures.commands >= COMMANDS && !figures.kept_up() && !*told {
                *told = true;
                let us = |time: hoistway::Nanos| time.0 as f64 / 1e3;
                eprintln!(
                    "warning: {} answers late ({:.1} us median, {:.1} us p99, of {:.1} us by the model), {ADVICE}",
                    device.facts().summary,
                    us(figures.late_p50),
                    us(figures.late_p99),
                    us(figures.modelled_mean)
                );
            }
        }
    }
}
