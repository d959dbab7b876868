//! The watchdog: I/O is there, the device has nothing to do, and nothing is over for a while.
//!
//! Policies may hold I/O back on purpose; a policy that never lets it go again looks the same. After
//! the limit the device says so once, with what is known about who waits for what; how long it
//! lasts and how often it happened is part of what it tells about itself.

use hoistway::{Instant, Nanos};

/// I/O that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// For how long the device has had nothing to do.
    pub lasts: Nanos,
    /// I/Os that are not over.
    pub unfinished: u64,
    /// What is waited for, as far as scheduler, stack and controllers tell.
    pub reason: String,
}

#[derive(Debug)]
pub(super) struct Watchdog {
    /// [`Nanos::ZERO`]: it does not watch.
    limit: Nanos,
    /// Since when nothing has moved, and how many I/Os were over by then.
    still: Option<(Instant, u64)>,
    told: bool,
    stalls: u64,
}

impl Watchdog {
    pub fn new(limit: Nanos) -> Watchdog {
        Watchdog { limit, still: None, told: false, stalls: 0 }
    }

    /// Looks at the end of a turn. `moves`: the device has something to do, or nobody waits; `finished`: I/Os
    /// that are over. True once per stall: something is to be said.
    pub fn look(&mut self, now: Instant, moves: bool, finished: u64) -> bool {
        match self.still {
            Some((_, before)) if !moves && before == finished => {}
            _ => {
                self.still = (!moves).then_some((now, finished));
                self.told = false;
            }
        }
        let due = self.due().is_some_and(|at| at <= now);
        self.told |= due;
        due
    }

    /// What was said: it counts.
    pub fn count(&mut self) {
        self.stalls += 1;
    }

    /// When something is to be said, unless something moves.
    pub fn due(&self) -> Option<Instant> {
        let (since, _) = self.still?;
        (self.limit > Nanos::ZERO && !self.told).then(|| since + self.limit)
    }

    /// Since when I/O stands still, from the limit on.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.still.filter(|_| self.told).map(|(since, _)| since)
    }

    /// How often I/O stood still for as long as the limit allows.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Client, Device, DeviceOptions, DeviceStats, GroupSpec, Pending};
    use crate::system::Buffer;
    use crate::{ServeError, Target};
    use hoistway::stack::StageName;
    use hoistway::{IoPrio, sched};
    use std::sync::Mutex;

    fn device(options: DeviceOptions) -> Device {
        Device::open(&Target::Ram { size: 1 << 20 }, &options).unwrap()
    }

    fn bfq(set: &[(&str, u64)]) -> DeviceOptions {
        let mut options = DeviceOptions::new(sched::find("bfq").unwrap());
        options.set = set.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        options
    }

    fn read(client: &Client, offset: u64) -> Pending {
        client.start_read(offset, Buffer::zeroed(4096))
    }

    /// Looks until something holds of what the device tells, about a minute at most.
    fn wait_for(device: &Device, holds: impl Fn(&DeviceStats) -> bool) -> DeviceStats {
        for _ in 0..60_000 {
            let stats = device.stats().unwrap();
            if holds(&stats) {
                return stats;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("it does not come to that: {:?}", device.counters());
    }

    /// What the device of the first test said.
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn io_that_stands_still_is_told_once_with_its_reason() {
        // Ten minutes for the next request of a client that has none.
        let mut options =
            bfq(&[("strict_guarantees", 1), ("stable_merge", 0), ("slice_idle", 600_000)]);
        options.stall_limit = Nanos::ms(50);
        options.tell = |line| TOLD.lock().unwrap().push(line.to_string());
        let device = device(options);
        let [one, other] = [(); 2].map(|()| device.client(IoPrio::NONE).unwrap());
        read(&one, 0).wait().unwrap();
        assert_eq!(device.stats().unwrap().stall, None, "nobody waits");
        let waits = [read(&other, 4096), read(&other, 65536)];
        let stats = wait_for(&device, |stats| stats.stall.is_some());
        let stall = stats.stall.unwrap();
        assert!(stall.lasts >= Nanos::ms(50), "{stall:?}");
        assert_eq!((stall.unfinished, stats.stalls), (2, 1));
        let holds = "bfq holds 2 requests back";
        assert!(stall.reason.starts_with(holds) && stall.reason.contains("due in"), "{stall:?}");
        // Another scheduler gets them going; the same stall is not told again meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(200));
        device.switch_scheduler(sched::find("none").unwrap(), &[]).unwrap();
        waits.into_iter().for_each(|read| drop(read.wait().unwrap()));
        let stats = device.stats().unwrap();
        assert_eq!((stats.stall, stats.stalls), (None, 1));
        let told = TOLD.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("memory: 2 I/Os wait and the device has had nothing to do for")
        );
        assert!(told[0].contains(holds), "{told:?}");
    }

    #[test]
    fn who_is_held_by_a_controller_is_told_of_it() {
        let mut options = DeviceOptions::default();
        options.controllers.push(("io.max".into(), Vec::new()));
        options.stall_limit = Nanos::ms(20);
        let device = device(options);
        let (group, _) = device.set_group(&GroupSpec::new("slow").limit("rbps", 100)).unwrap();
        let client = device.client_of(group, IoPrio::NONE).unwrap();
        let _reads: Vec<_> = (0..4).map(|n| read(&client, n * 65536)).collect();
        let stall = wait_for(&device, |stats| stats.stall.is_some()).stall.unwrap();
        assert!(stall.reason.contains("io.max"), "{stall:?}");
        // It goes on as soon as it may.
        device.write_knob(group, "io.max", "8:0 rbps=max").unwrap();
        wait_for(&device, |stats| stats.stall.is_none());
    }

    #[test]
    fn a_pending_change_says_for_whom_it_waits() -> Result<(), ServeError> {
        let file = std::env::temp_dir().join(format!("hoistway-waits-{}", std::process::id()));
        // An hour for a read.
        let text = "schema = 1\nname = \"slow\"\nbase = \"fixed-100us\"\n[bucket]\n\
                    read_us = 3600000000\n[iocost]\nrrandiops = 1\n";
        let path = file.with_extension("toml");
        std::fs::write(&path, text).unwrap();
        let drive = hoistway_sim::drive::DriveFile::load(path.to_str().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let target = Target::emulated(drive);
        let options = DeviceOptions { stop_limit: Nanos::ms(50), ..bfq(&[]) };
        let device = match Device::open(&target, &options) {
            Err(error @ ServeError::TooFast { .. }) => {
                println!("skipped: {error}");
                return Ok(());
            }
            device => device?,
        };
        let client = device.client(IoPrio::NONE)?;
        let _read = read(&client, 0);
        wait_for(&device, |stats| stats.in_flight == 1);
        device.switch_scheduler(sched::find("kyber").unwrap(), &[])?;
        let report = device.report()?;
        assert!(report.changing);
        let waits_for = report.waits_for.unwrap();
        assert!(waits_for.starts_with("1 request at the device"), "{waits_for}");
        let _behind = read(&client, 65536);
        let behind = |stats: &DeviceStats| {
            let waits = stats.report.waits_for.as_ref();
            waits.is_some_and(|text| text.contains("1 I/O waits until the change is made"))
        };
        wait_for(&device, behind);
        // A setting of the scheduler that goes is refused meanwhile, by name.
        let refused = device.set(StageName::Scheduler, "slice_idle", 0).unwrap_err().to_string();
        assert!(refused.contains("about to take over"), "{refused}");
        Ok(())
    }
}
