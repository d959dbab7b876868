//! What a service manager wants of a server: a word when it is ready, a file with its number.

use crate::Failure;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

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
pub struct PidFile(PathBuf);

impl PidFile {
    /// Written in one piece: whoever sees the file can read it.
    pub fn write(path: &Path) -> Result<PidFile, Failure> {
        let lost = |e| Failure::Environment(format!("pid file {}: {e}", path.display()));
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        std::fs::write(&fresh, format!("{}\n", std::process::id())).map_err(lost)?;
        std::fs::rename(&fresh, path).map_err(|e| {
            let _ = std::fs::remove_file(&fresh);
            lost(e)
        })?;
        Ok(PidFile(path.into()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have written its own meanwhile.
        let own = std::process::id().to_string();
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == own) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
