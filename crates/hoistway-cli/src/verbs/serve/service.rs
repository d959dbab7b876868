//! What a service manager wants of a server: a word when it is ready, a file with its number.

use crate::failure::Failure;
use hoistway_files::{Identity, Place, PlaceError};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Variables of the service manager, which a command that we start must not take for its own.
pub const VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"];

/// Tells the service manager something, as `sd_notify(3)`: `READY=1`, `STOPPING=1`. Nothing happens where
/// there is none.
pub fn notify(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let place = place.to_string_lossy().into_owned();
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let sent = UnixDatagram::unbound().and_then(|s| s.send_to_addr(state.as_bytes(), &address?));
    if let Err(e) = sent {
        eprintln!("warning: NOTIFY_SOCKET {place}: {e}");
    }
}

/// A file with the number of this process, removed at the end.
#[derive(Debug)]
pub struct PidFile {
    place: Place,
    made: Identity,
}

impl PidFile {
    /// Whether it can be written: nothing stands there, or the pid file of a server that does not run any more.
    pub fn check(path: &Path) -> Result<(), Failure> {
        Place::of(path).and_then(|place| stale(&place)).map_err(lost).map(drop)
    }

    /// Written in one piece: whoever sees the file can read it.
    pub fn write(path: &Path) -> Result<PidFile, Failure> {
        let place = Place::of(path).map_err(lost)?;
        if let Some(old) = stale(&place).map_err(lost)? {
            place.remove_made(old).map_err(lost)?;
        }
        let (fresh, mut file) =
            place.new_beside("part", |place| place.create(0o644)).map_err(lost)?;
        let io = |error| PlaceError::Io { path: path.into(), error };
        let text = format!("{}\n", std::process::id());
        let written = file.write_all(text.as_bytes()).map_err(io);
        let made = written.and_then(|()| Identity::of(&file).map_err(|e| io(e.into())));
        let named = made.and_then(|made| fresh.rename_new(&place).map(|()| made));
        if named.is_err() {
            // The error that led here is the one to report.
            let _ = fresh.remove_file();
        }
        Ok(PidFile { made: named.map_err(lost)?, place })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have written its own meanwhile: only this one goes.
        let _ = self.place.remove_made(self.made);
    }
}

fn lost(error: PlaceError) -> Failure {
    crate::common::output::failure("pid file", error)
}

/// The pid file of a server that is gone, if one stands there.
fn stale(place: &Place) -> Result<Option<Identity>, PlaceError> {
    let foreign = |is| PlaceError::Foreign { path: place.path(), is };
    match place.what()? {
        None => return Ok(None),
        Some(("a file", _)) => {}
        Some((is, _)) => return Err(foreign(is)),
    }
    let file = place.open()?;
    let io = |error: std::io::Error| PlaceError::Io { path: place.path(), error };
    let identity = Identity::of(&file).map_err(|e| io(e.into()))?;
    let mut text = String::new();
    let read = file.take(PID_MAX).read_to_string(&mut text);
    if text.is_empty() && read.is_ok() {
        // As `mktemp` makes them: there is nothing to lose.
        return Ok(Some(identity));
    }
    let pid = read.ok().and_then(|_| text.strip_suffix('\n')?.parse::<i32>().ok());
    let Some(pid) = pid.filter(|pid| *pid > 0 && text.len() < PID_MAX as usize) else {
        return Err(foreign("a file"));
    };
    // After a restart of its container a server has the number that it had before.
    let runs = pid.unsigned_abs() != std::process::id() && runs(pid);
    if runs { Err(foreign("the pid file of a process that runs,")) } else { Ok(Some(identity)) }
}

fn runs(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid).expect("it is positive");
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// More than a number and the end of its line.
const PID_MAX: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_the_pid_file_of_a_process_that_is_gone_is_replaced() {
        let folder = std::env::temp_dir().join(format!("hoistway-pidfile-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("pid");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            let before = fs::metadata(&path).unwrap();
            for failure in [PidFile::check(&path).unwrap_err(), PidFile::write(&path).unwrap_err()]
            {
                let Failure::Usage(what) = failure else { panic!("{failure:?}") };
                let told = what.starts_with(&format!("pid file {}: is ", path.display()));
                assert!(told, "{text:?}: {what}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let after = fs::metadata(&path).unwrap();
            assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        };
        let parent = format!("{}\n", std::os::unix::process::parent_id());
        let long = format!("{}4194304\n", "0".repeat(20));
        for text in ["4194305", "-4194305\n", "0\n", "4194305\n\n", "12 monkeys\n", &parent, &long]
        {
            refused(text);
        }
        // Above the largest number there is.
        for gone in ["", "4194305\n"] {
            fs::write(&path, gone).unwrap();
            PidFile::check(&path).unwrap();
            drop(PidFile::write(&path).unwrap());
        }
        let own = format!("{}\n", std::process::id());
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), own);
        drop(file);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        // Somebody else's by the time it ends.
        let file = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, &own).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), own);
        fs::remove_dir_all(&folder).unwrap();
    }
}
