//! Real drives as probes: a block device, or a scratch file in a folder (specs/drives.md 10.1).
//!
//! **What is touched.** A device is opened for reading only, unless the caller says twice that its data may be destroyed,
//! and then only if nobody uses it. In a folder one file is made, filled with incompressible data and deleted at the end;
//! tests that write stay within it. With the rights for it, the queues below are set to scheduler `none` for the time, by
//! the guard that puts them back on every exit and knows the scratch file too; without them everything is measured as it
//! is, and a note says so.

mod probe;

pub use probe::RealProbe;

use crate::MachineError;
use crate::kernel::{Guard, Queue, SCRATCH, Volume, VolumeTarget, Watch, resolve};
use crate::os;
use hoistway_files::Identity;
use hoistway_serve::system::Buffer;
use hoistway_sim::probe::Subject;
use hoistway_sim::rng;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What the caller allows.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Tests may write.
    pub write: bool,
    /// The device whose data may be destroyed.
    pub destroy: Option<PathBuf>,
    /// Size of the scratch file.
    pub scratch_bytes: u64,
    /// The transport, if the caller knows better.
    pub bus: Option<String>,
}

/// A device or file that is ready to be asked.
#[derive(Debug)]
pub struct Opened {
    /// What is known of it.
    pub subject: Subject,
    /// Conditions worth telling.
    pub notes: Vec<String>,
    /// The chain of devices in words.
    pub chain: String,
    file: File,
    /// The file, if nobody else takes it away.
    _scratch: Option<Scratch>,
    /// Puts everything back when it goes.
    guard: Option<Guard>,
    watch: Option<Watch>,
}

/// Looks at a device or folder without changing anything.
///
/// # Errors
///
/// Nothing schedules there, the device is no block device, or it is in use and shall be written.
pub fn look(
    target: &Path,
    allowed: &Allowed,
) -> Result<(Volume, Subject, Vec<String>), MachineError> {
    let device = std::fs::metadata(target).map_err(os(target.display().to_string()))?;
    let place = if device.file_type().is_block_device() {
        resolve(&VolumeTarget::Device(target.into()))?
    } else {
        resolve(&VolumeTarget::Dir(target.into()))?
    };
    let shown = target.display();
    if !place.is_dir && allowed.write {
        let told = allowed.destroy.as_deref();
        if told != Some(target) {
            return Err(MachineError::Refused(format!(
                "{shown}: --write destroys its data; say --yes-destroy-data {shown}"
            )));
        }
        let uses = place.in_use();
        if !uses.is_empty() {
            return Err(MachineError::Refused(format!("{shown} is in use: {}", uses.join(", "))));
        }
    }
    if place.is_dir && place.read_only() {
        return Err(MachineError::Refused(format!(
            "{shown}: its file system is mounted read-only"
        )));
    }
    let Some(queue) = place.queues.first() else {
        return Err(MachineError::Refused(format!("{shown}: no queue schedules below it")));
    };
    let mut notes = Vec::new();
    if place.queues.len() > 1 {
        let names: Vec<&str> = place.queues.iter().map(|q| q.name.as_str()).collect();
        notes.push(format!(
            "several devices lie below: {}; they are measured as one",
            names.join(", ")
        ));
    }
    let subject = subject(&place, queue, allowed, target)?;
    Ok((place, subject, notes))
}

fn subject(
    place: &Volume,
    queue: &Queue,
    allowed: &Allowed,
    target: &Path,
) -> Result<Subject, MachineError> {
    let identity = queue.identity();
    let number = |name: &str| queue.attribute(name).and_then(|v| v.trim().parse::<u64>().ok());
    let bytes = if place.is_dir { allowed.scratch_bytes / 4096 * 4096 } else { size_of(target)? };
    let bus = match identity.class.as_str() {
        "hdd" | "sata-ssd" | "sata-hdd" => "sata",
        "nvme" | "nvme-of" => "nvme",
        "mmc" => "emmc",
        "sd-card" => "sd",
        "usb" => "usb",
        _ => "virtual",
    };
    let capacity = if place.is_dir { identity.bytes.max(bytes) } else { bytes };
    let title = identity.model.unwrap_or_else(|| format!("{} ({})", queue.name, identity.class));
    let tags = queue.depth().or(identity.tags).unwrap_or(32);
    Ok(Subject {
        title,
        capacity,
        area: (0, bytes / 4096 * 4096),
        sector: if identity.block_bytes == Some(4096) { 4096 } else { 512 },
        rotational: identity.rotational.unwrap_or(false),
        bus: allowed.bus.clone().unwrap_or_else(|| bus.into()),
        queue_depth: tags.clamp(1, 1023) as u32,
        hw_queues: identity.hardware_queues.clamp(1, 1024) as u16,
        max_request_kib: number("max_sectors_kb").unwrap_or(512),
        fua: number("fua") == Some(1),
        write_cache: identity.write_cache.as_deref().is_none_or(|w| w.trim() == "write back"),
        discard: !place.is_dir && allowed.write && number("discard_max_bytes").unwrap_or(0) > 0,
    })
}

/// Bytes of a block device.
fn size_of(device: &Path) -> Result<u64, MachineError> {
    use std::io::{Seek, SeekFrom};
    let shown = || device.display().to_string();
    let mut file = File::open(device).map_err(os(shown()))?;
    file.seek(SeekFrom::End(0)).map_err(os(shown()))
}

/// Opens it, makes the scratch file of a folder, sets the queues to `none` and to merge nothing.
///
/// # Errors
///
/// As [`look`]; or the machine refuses.
pub fn open(
    target: &Path,
    allowed: &Allowed,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Opened, MachineError> {
    let (place, subject, mut notes) = look(target, allowed)?;
    let root = rustix::process::geteuid().is_root();
    let mut guard = match root {
        true => Some(Guard::begin(&format!("calibrate {}", target.display()))?),
        false => None,
    };
    match &mut guard {
        None => {
            let with = place.queues.iter().filter_map(|q| Some((q, q.scheduler().ok()?)));
            let with: Vec<String> = with.map(|(q, s)| format!("{} {s}", q.name)).collect();
            let what = "not root: schedulers stay as they are, and are in these figures";
            notes.push(format!("{what} ({})", with.join(", ")));
        }
        Some(guard) => {
            for queue in place.queues.iter().chain(&place.again) {
                let now = queue.scheduler()?;
                if now != "none" {
                    guard.write(&queue.attribute_file("scheduler"), "none")?;
                    notes.push(format!("{}: scheduler {now} set to none for the time", queue.name));
                }
                // Sequential commands of one submission would otherwise reach the drive as one.
                if queue.attribute("nomerges").is_some_and(|now| now.trim() != "2") {
                    guard.write(&queue.attribute_file("nomerges"), "2")?;
                }
            }
        }
    }
    let (file, scratch) = if place.is_dir {
        let around = place.open_dir(target)?;
        let named = around.place(format!("{SCRATCH}calibrate-{}", std::process::id()))?;
        // From here on the file goes with the guard, or with what takes its place.
        let (file, scratch) = match &mut guard {
            Some(guard) => (guard.make_file(&named)?, None),
            None => Scratch::create(named)?,
        };
        let path = around.path();
        let file = direct(&through(&file), path, true)?;
        progress("the scratch file is filled with incompressible data");
        fill(&file, subject.area.1, stop, path)?;
        notes.push(format!("measured in a file of {} MiB", subject.area.1 >> 20));
        (file, scratch)
    } else {
        (direct(&place.path, &place.path, allowed.write)?, None)
    };
    let chain = place.describe();
    let watch = Some(Watch::begin(&place));
    Ok(Opened { subject, notes, chain, file, _scratch: scratch, guard, watch })
}

/// A scratch file that no guard knows: it goes when this is dropped.
#[derive(Debug)]
struct Scratch {
    place: hoistway_files::Place,
    made: Identity,
}

impl Scratch {
    fn create(place: hoistway_files::Place) -> Result<(File, Option<Scratch>), MachineError> {
        let file = place.create(0o600)?;
        let made = Identity::of(&file).map_err(os(place.path().display().to_string()))?;
        Ok((file, Some(Scratch { place, made })))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.place.remove_made(self.made) {
            eprintln!("warning: {}", hoistway_files::shown::text(&error.to_string()));
        }
    }
}

/// A path that leads to an open file, whatever its name leads to.
fn through(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Opens what is called `shown` past the page cache; a device that is written for this process alone.
fn direct(path: &Path, shown: &Path, write: bool) -> Result<File, MachineError> {
    let alone = if write && path == shown { libc::O_EXCL } else { 0 };
    let mut options = OpenOptions::new();
    options.read(true).write(write).custom_flags(libc::O_DIRECT | alone);
    options.open(path).map_err(os(format!("{} for direct I/O", shown.display())))
}

/// Bytes written at once while the file is filled.
const FILLED_AT_ONCE: usize = 4 << 20;

fn fill(file: &File, bytes: u64, stop: &AtomicBool, path: &Path) -> Result<(), MachineError> {
    let shown = || path.display().to_string();
    let mut buffer = Buffer::zeroed(FILLED_AT_ONCE);
    let mut rng = rng::stream(1, "probe/fill");
    let mut at = 0;
    while at < bytes {
        if stop.load(Ordering::Relaxed) {
            return Err(MachineError::Refused(
                "interrupted while the scratch file was filled".into(),
            ));
        }
        let len = (bytes - at).min(FILLED_AT_ONCE as u64) as usize;
        for chunk in buffer[..len].chunks_mut(8) {
            chunk.copy_from_slice(&rng.bits().to_le_bytes()[..chunk.len()]);
        }
        file.write_all_at(&buffer[..len], at).map_err(os(shown()))?;
        at += len as u64;
    }
    file.sync_all().map_err(os(shown()))
}

impl Opened {
    /// It as a probe.
    ///
    /// # Errors
    ///
    /// No more descriptors.
    pub fn probe<'a>(
        &self,
        seed: u64,
        budget: u64,
        stop: &'a AtomicBool,
    ) -> Result<RealProbe<'a>, MachineError> {
        let file = self.file.try_clone().map_err(os("the device".to_string()))?;
        Ok(RealProbe::new(file, seed, budget, stop))
    }

    /// Deletes the scratch file and puts everything back; what was noticed meanwhile, and what could not be put back.
    ///
    /// # Errors
    ///
    /// What could not be put back; `hoistway restore` knows of it.
    pub fn close(mut self) -> Result<Vec<String>, Vec<String>> {
        let flags = self.watch.take().map_or_else(Vec::new, |watch| watch.end(|| None).flags);
        self.put_back()?;
        Ok(flags)
    }

    fn put_back(&mut self) -> Result<(), Vec<String>> {
        self.guard.take().map_or(Ok(()), |mut guard| guard.restore())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Err(problems) = self.put_back() {
            for problem in problems {
                eprintln!("warning: {}", hoistway_files::shown::text(&problem));
            }
        }
    }
}

#[cfg(test)]
mod tests;
