//! How a job does it: the engine and its queue, syncs, pace.

use super::{MICROSECOND, Reader, Result, Weight, bytes, whole};
use crate::keys::ENGINES;

pub(super) struct How {
    pub direct: bool,
    pub depth: u64,
    pub depth_low: Option<u64>,
    pub batch: u64,
    pub batch_complete: u64,
    pub sync: bool,
}

pub(super) struct Pace {
    pub think: u64,
    pub think_blocks: Option<u64>,
    pub think_first: Option<u64>,
    pub rate: [u64; 2],
    pub rate_iops: [u64; 2],
    pub poisson: bool,
}

impl Reader<'_> {
    pub(super) fn how(&mut self) -> Result<How> {
        // The later of the two ways of saying it counts.
        let last = super::settings(self.section).map(|s| s.name());
        let last = last.into_iter().find(|name| ["direct", "buffered"].contains(name));
        let (direct, buffered) = (self.flag("direct")?, self.flag("buffered")?);
        let direct = match last {
            Some("buffered") => !buffered.unwrap_or(true),
            _ => direct.unwrap_or(false),
        };
        let depth = self.depth(direct)?;
        let batch = self.number("iodepth_batch", 0..=4096)?.unwrap_or(1);
        let complete = self.number("iodepth_batch_complete_min", 0..=4096)?.unwrap_or(1);
        let low = self.number("iodepth_low", 0..=4096)?;
        Ok(How {
            direct,
            depth,
            depth_low: low.filter(|&low| low < depth),
            // 0: as many as there are.
            batch: if batch == 0 { depth } else { batch.min(depth) },
            batch_complete: complete.clamp(1, depth),
            sync: self.synced(depth)?,
        })
    }

    /// Calls in flight: those of an asynchronous engine, past the page cache.
    fn depth(&mut self, direct: bool) -> Result<u64> {
        let wanted = self.number("iodepth", 1..=4096)?.unwrap_or(1);
        let engine = self.setting("ioengine");
        let name = engine.map_or("psync", |e| e.value.as_deref().unwrap_or(""));
        let asynchronous = match (ENGINES.iter().find(|e| e.0 == name), engine) {
            (Some(&(_, asynchronous)), _) => asynchronous,
            (None, Some(setting)) => {
                let known: Vec<&str> = ENGINES.iter().map(|e| e.0).collect();
                let what = format!(
                    "engine '{name}' is not known here; choose one of {}",
                    known.join(", ")
                );
                return self.wrong(setting, what);
            }
            (None, None) => false,
        };
        let why = match (asynchronous, direct) {
            (true, true) => return Ok(wanted),
            (false, _) => {
                "a synchronous engine has one call in flight; give ioengine=libaio or io_uring"
            }
            (true, false) => "buffered calls are carried out one after another; give direct=1",
        };
        if wanted > 1
            && let Some(setting) = self.setting("iodepth")
        {
            // libaio and the synchronous engines are the same in the kernel; io_uring hands buffered calls to
            // workers, which is not modelled.
            let workers = asynchronous && name == "io_uring";
            let weight = if workers { Weight::Unsupported } else { Weight::Ignored };
            self.note(setting, weight, why);
        }
        Ok(1)
    }

    fn synced(&mut self, depth: u64) -> Result<bool> {
        let Some(setting) = self.setting("sync") else { return Ok(false) };
        match setting.value.as_deref() {
            Some("0" | "none") => Ok(false),
            None | Some("1" | "sync" | "dsync") if depth > 1 => {
                self.note(
                    setting,
                    Weight::Unsupported,
                    "synced writes are waited for; they need iodepth=1",
                );
                Ok(false)
            }
            None | Some("1" | "sync" | "dsync") => Ok(true),
            Some(other) => self.wrong(setting, format!("'{other}': choose none, sync or dsync")),
        }
    }

    pub(super) fn pace(&mut self, depth: u64) -> Result<Pace> {
        let base = self.base;
        let rate = self.both("rate", |t| bytes(t, base))?.map(|r| r.unwrap_or(0));
        let rate_iops = self.both("rate_iops", whole)?.map(|r| r.unwrap_or(0));
        if rate != [0, 0]
            && rate_iops != [0, 0]
            && let Some(setting) = self.setting("rate_iops")
        {
            return self.wrong(setting, "rate is given too; fio takes one of them");
        }
        let poisson = self.value("rate_process", |text| match text {
            "linear" => Ok(false),
            "poisson" => Ok(true),
            other => Err(format!("'{other}': choose linear or poisson")),
        })?;
        let think = self.time("thinktime", MICROSECOND)?;
        let blocks = self.number("thinktime_blocks", 0..=u64::from(u32::MAX))?.filter(|&n| n > 0);
        Ok(Pace {
            think,
            think_first: self.think_first(think, blocks, depth)?,
            think_blocks: blocks,
            rate,
            rate_iops,
            poisson: poisson.unwrap_or(false),
        })
    }

    /// By default calls are counted when they are over, and fio looks when its queue is full: a whole queue is made
    /// before the first pause.
    fn think_first(&mut self, think: u64, blocks: Option<u64>, depth: u64) -> Result<Option<u64>> {
        let issued = self.value("thinktime_blocks_type", |word| match word {
            "complete" => Ok(false),
            "issue" => Ok(true),
            other => Err(format!("'{other}': choose complete or issue")),
        })?;
        if think == 0 || depth == 1 || issued == Some(true) {
            return Ok(None);
        }
        let timed = self.setting("thinktime_iotime").is_some();
        match (blocks, self.setting("thinktime")) {
            (None | Some(1), _) if !timed => Ok(Some(depth)),
            (Some(2..), Some(setting)) => {
                let why = "several calls are in flight, and fio counts them when it sees that they are over; here \
                           they are counted as with thinktime_blocks_type=issue";
                self.note(setting, Weight::Unsupported, why);
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}
