//! Drive files: parameters of one drive, with the origin of each (specs/drives.md section 2).

use super::Drive;
use std::collections::BTreeMap;

/// `[identity]`.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// 512 or 4096.
    pub sector_bytes: u64,
    /// Spinning disk.
    pub rotational: bool,
    /// Year of introduction.
    pub year: u64,
}

/// `[host]`: how the block layer sees the drive.
#[derive(Clone, Debug)]
pub struct HostSide {
    /// sata, pata, nvme, emmc, sd, usb or virtual.
    pub bus: String,
    /// Tags of the whole device.
    pub queue_depth: u32,
    /// Dispatch contexts that share them.
    pub hw_queues: u16,
    /// The block layer splits above it.
    pub max_request_kib: u64,
    /// A flush runs alone.
    pub flush_nonqueued: bool,
    /// Forced unit access.
    pub fua: bool,
    /// Default CPU cost of a buffered reader on the drive's host.
    pub copy_ns_per_kib: u64,
}

/// `[iocost]`: the six coefficients of the linear model (bytes/s and 1/s).
#[derive(Clone, Copy, Debug)]
pub struct IoCost {
    /// Sequential read bytes per second.
    pub rbps: u64,
    /// Sequential 4 KiB reads per second.
    pub rseqiops: u64,
    /// Random 4 KiB reads per second.
    pub rrandiops: u64,
    /// Sequential write bytes per second.
    pub wbps: u64,
    /// Sequential 4 KiB writes per second.
    pub wseqiops: u64,
    /// Random 4 KiB writes per second.
    pub wrandiops: u64,
}

/// One drive file, checked.
#[derive(Clone, Debug)]
pub struct DriveFile {
    /// File name without `.toml`: the id on the command line and in results.
    pub id: String,
    /// Title for people.
    pub name: String,
    /// hdd, flash, card or bucket.
    pub model: String,
    /// Identity.
    pub identity: Identity,
    /// Host side.
    pub host: HostSide,
    /// Published figures and geometry of the reference experiment.
    pub baseline: BTreeMap<String, f64>,
    /// io.cost model.
    pub iocost: IoCost,
    /// The whole file after `base` was resolved, for the manifest and the model's constructor.
    pub table: toml::Table,
}

/// What is wrong with a drive file: message with file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveFileError(pub String);

impl DriveFile {
    /// Ids of the embedded drives, sorted.
    pub fn ids() -> Vec<&'static str> {
        todo!()
    }

    /// An embedded drive by id, or a file by path (contains `/` or ends in `.toml`).
    pub fn load(_id_or_path: &str) -> Result<DriveFile, DriveFileError> {
        todo!()
    }

    /// The device as the block layer sees it (multi-queue profile, usual limits).
    pub fn device(&self) -> hoistway::Device {
        todo!()
    }

    /// The model, seeded.
    pub fn build(&self, _seed: u64) -> Box<dyn Drive> {
        todo!()
    }
}
