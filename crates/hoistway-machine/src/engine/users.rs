//! Who else uses a file as a disk: loop devices, swap, targets of the kernel, programs that have it open or locked.

use crate::kernel::loopdev;
use rustix::fs::{Stat, fstat, major, minor, stat};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What tells the file from others: device and inode.
type Inode = (u64, u64);

fn inode(stat: &Stat) -> Inode {
    (stat.st_dev, stat.st_ino)
}

fn is_at(path: &Path, file: Inode) -> bool {
    stat(path).is_ok_and(|found| inode(&found) == file)
}

/// Who uses an open file, as phrases; nobody if there are none. Programs that this one was started by do not count: it is
/// on their behalf.
///
/// # Errors
///
/// The system's, of the file itself.
pub(crate) fn of(file: &File) -> io::Result<Vec<String>> {
    let stat = fstat(file)?;
    let file = inode(&stat);
    let mut users = loop_devices(file);
    users.extend(swap(&text("/proc/swaps"), file));
    for (user, path) in targets(Path::new("/sys/kernel/config")) {
        users.extend(is_at(&path, file).then_some(user));
    }
    let mut busy = openers(file);
    let number = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
    for pid in lockers(&text("/proc/locks"), &number) {
        if !busy.contains(&pid) {
            busy.push(pid);
        }
    }
    let ours = ancestors();
    busy.retain(|pid| !ours.contains(pid));
    users.extend(busy.into_iter().map(|pid| match pid {
        0 => "a program that has locked it".to_string(),
        pid => format!("process {pid} ({})", text(&format!("/proc/{pid}/comm")).trim_end()),
    }));
    Ok(users)
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn loop_devices(file: Inode) -> Vec<String> {
    let numbers = names(Path::new("/sys/block"))
        .filter_map(|name| name.strip_prefix("loop")?.parse::<u32>().ok());
    let ours = |number: &u32| match loopdev::backing_inode(*number) {
        Some(known) => known == file,
        // Without rights to ask the device, by the name of its file.
        None => loopdev::backing_file(*number).is_some_and(|path| is_at(&path, file)),
    };
    numbers
        .filter(ours)
        .map(|number| match &loopdev::users_of(number)[..] {
            [] => format!("/dev/loop{number}"),
            users => format!("/dev/loop{number}, {}", users.join(", ")),
        })
        .collect()
}

/// By the lines of `/proc/swaps`.
fn swap(swaps: &str, file: Inode) -> Option<String> {
    let mut names = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let unescaped =
        |name: &str| name.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    names.any(|name| is_at(Path::new(&unescaped(name)), file)).then(|| "swap".to_string())
}

/// Where targets of the kernel that may have a file behind them say which: folders by their beginnings, and the file.
const TARGETS: &[(&str, &[&str], &str)] = &[
    ("the SCSI target", &["target", "core", "fileio_", ""], "udev_path"),
    ("the NVMe target", &["nvmet", "subsystems", "", "namespaces", ""], "device_path"),
    ("the USB gadget", &["usb_gadget", "", "functions", "mass_storage.", "lun."], "file"),
];

/// Targets of the kernel, and their files.
fn targets(config: &Path) -> Vec<(String, PathBuf)> {
    let mut all = Vec::new();
    for (what, way, name) in TARGETS {
        let mut folders = vec![config.to_path_buf()];
        for part in *way {
            let below = |folder: &PathBuf| {
                let named = names(folder).filter(|name| name.starts_with(part));
                named.map(|name| folder.join(name)).collect::<Vec<_>>()
            };
            folders = folders.iter().flat_map(below).collect();
        }
        for folder in folders {
            let path = fs::read_to_string(folder.join(name)).unwrap_or_default();
            let own = folder.file_name().unwrap_or_default().to_string_lossy();
            all.push((format!("{what} ({own})"), PathBuf::from(path.trim_end())));
        }
    }
    all
}

/// Processes that have it open for writing. Those of others can only be seen by root.
fn openers(file: Inode) -> Vec<u32> {
    let pids = names(Path::new("/proc")).filter_map(|name| name.parse::<u32>().ok());
    let has = |pid: &u32| {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        names(&proc.join("fd")).any(|fd| {
            is_at(&proc.join("fd").join(&fd), file)
                && writes(&text(&format!("/proc/{pid}/fdinfo/{fd}")))
        })
    };
    pids.filter(has).collect()
}

/// Whether a descriptor is open for writing, by its `fdinfo`; where that cannot be read it may be.
fn writes(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32)
}

/// Who has locked `file` (`fe:00:1234`), by the lines of `/proc/locks`; 0: nobody says.
fn lockers<'a>(locks: &'a str, file: &'a str) -> impl Iterator<Item = u32> + 'a {
    locks.lines().filter_map(move |line| {
        let mut words = line.split_whitespace().skip(1).filter(|word| *word != "->");
        let (pid, at) = (words.nth(3)?, words.next()?);
        (at == file).then(|| pid.parse().unwrap_or(0))
    })
}

/// This process and those it was started by.
fn ancestors() -> Vec<u32> {
    let mut all = vec![std::process::id()];
    while let Some(parent) = all.last().and_then(|pid| parent(&text(&format!("/proc/{pid}/stat"))))
        && parent > 1
        && all.len() < DEEPEST
    {
        all.push(parent);
    }
    all
}

/// By the line of `/proc/PID/stat`; the name in it may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Processes from this one up.
const DEEPEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn locks_swaps_and_parents_are_read_as_the_kernel_writes_them() {
        let locks = "1: FLOCK  ADVISORY  WRITE 18815 fe:00:3088599 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 18816 fe:00:3088599 0 EOF\n\
                     2: OFDLCK ADVISORY  READ -1 fe:00:3088599 100 101\n\
                     3: POSIX  ADVISORY  WRITE 7 08:01:3088599 0 EOF\n";
        let who: Vec<u32> = lockers(locks, "fe:00:3088599").collect();
        assert_eq!(who, [18815, 18816, 0]);
        assert_eq!(parent("71 (a b) S) S 42 71 71 0"), Some(42));
        assert!(writes("pos:\t0\nflags:\t0100002\n") && writes("") && !writes("flags:\t0100000\n"));
        let file = std::env::temp_dir().join(format!("hoistway users {}", std::process::id()));
        fs::write(&file, "x").unwrap();
        let of = inode(&stat(&file).unwrap());
        let line = file.display().to_string().replace(' ', "\\040");
        let swaps = format!("Filename Type Size Used Priority\n{line} file 1 0 -2\n");
        assert_eq!(swap(&swaps, of).as_deref(), Some("swap"));
        assert_eq!(swap(&swaps, (0, 0)), None);
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn targets_of_the_kernel_say_which_file_is_behind_them() {
        let config = std::env::temp_dir().join(format!("hoistway-targets-{}", std::process::id()));
        for (file, path) in [
            ("target/core/fileio_0/disk/udev_path", "/srv/a"),
            ("target/core/alua/lu_gps/udev_path", "/srv/none"),
            ("nvmet/subsystems/n/namespaces/1/device_path", "/srv/b"),
            ("usb_gadget/g/functions/mass_storage.0/lun.0/file", "/srv/c"),
        ] {
            let file = config.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{path}\n")).unwrap();
        }
        let mut found = targets(&config);
        found.sort();
        let told: Vec<(&str, &str)> =
            found.iter().map(|(who, path)| (&who[..], path.to_str().unwrap())).collect();
        assert_eq!(
            told,
            [
                ("the NVMe target (1)", "/srv/b"),
                ("the SCSI target (disk)", "/srv/a"),
                ("the USB gadget (lun.0)", "/srv/c"),
            ]
        );
        fs::remove_dir_all(&config).unwrap();
    }

    #[test]
    fn a_program_that_has_it_open_is_a_user_and_who_started_us_is_none() {
        let path = std::env::temp_dir().join(format!("hoistway-users-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        assert!(of(&file).unwrap().is_empty(), "this process itself");
        let opened = File::options().append(true).open(&path).unwrap();
        let mut other =
            Command::new("sleep").arg("600").stdin(Stdio::from(opened)).spawn().unwrap();
        assert_eq!(of(&file).unwrap(), [format!("process {} (sleep)", other.id())]);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(of(&file).unwrap().is_empty());
        fs::remove_file(&path).unwrap();
    }
}
