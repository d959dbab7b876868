//! Socket files: made where nothing stands, or where a server has ended; removed only if they are those that were made.

use crate::error::{ServeError, os};
use hoistway_files::{Identity, Place, PlaceError};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A socket file of ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    place: Place,
    made: Identity,
}

impl SocketFile {
    /// Makes one by `bind`, which is given a path to bind to. `what`: whose it is, for messages.
    ///
    /// # Errors
    ///
    /// When a server answers there already, or when something stands there that is no socket of this user or root.
    pub fn bind<T>(
        path: &Path,
        what: &str,
        bind: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<(T, SocketFile), ServeError> {
        let place = Place::of(path).map_err(|e| named(what, e))?;
        // Whoever can change the folder could lead a path elsewhere.
        let through = match place.dir().is_shared()? && rustix::process::geteuid().is_root() {
            true => descriptor(&place),
            false => path.to_path_buf(),
        };
        clear(&place, &through).map_err(|e| named(what, e))?;
        let bound =
            bind(&through).map_err(|e| os(busy(&e, format!("{what} {}", path.display())))(e))?;
        let made = place.identity()?;
        let made = made.ok_or_else(|| gone(&place))?;
        Ok((bound, SocketFile { place, made }))
    }

    /// Removes it; what stands in its place by now is left alone.
    pub fn remove(&self) {
        let ours = self.place.identity().is_ok_and(|now| now.is_some_and(|now| now.is(&self.made)));
        if ours {
            // Nothing depends on it: the next server replaces what is left.
            let _ = self.place.remove_file();
        }
    }
}

/// Takes a socket away that nobody listens to.
fn clear(place: &Place, through: &Path) -> Result<(), PlaceError> {
    let foreign = |is| Err(PlaceError::Foreign { path: place.path(), is });
    match place.what()? {
        None => Ok(()),
        Some(("a socket", owner)) => {
            let refused = io::ErrorKind::ConnectionRefused;
            if !UnixStream::connect(through).is_err_and(|e| e.kind() == refused) {
                // Somebody answers; to bind there says so.
                return Ok(());
            }
            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                return foreign("a socket of another user");
            }
            place.remove_file()
        }
        Some((is, _)) => foreign(is),
    }
}

/// Its path by the descriptor of its folder.
fn descriptor(place: &Place) -> PathBuf {
    let fd = place.dir().as_fd().as_raw_fd();
    let name = place.path();
    PathBuf::from(format!("/proc/self/fd/{fd}")).join(name.file_name().unwrap_or_default())
}

fn named(what: &str, error: PlaceError) -> ServeError {
    match error {
        PlaceError::Io { path, error } => os(format!("{what} {}", path.display()))(error),
        error => ServeError::Refused(format!("{what} {error}")),
    }
}

fn gone(place: &Place) -> ServeError {
    os(place.path().display().to_string())(io::Error::from(io::ErrorKind::NotFound))
}

/// What failed, with what to do where somebody else listens there.
pub(crate) fn busy(error: &std::io::Error, what: String) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{what}, where another server listens (end it, or choose another address)")
        }
        _ => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ServeError> {
        SocketFile::bind(path, "listen on", |path| UnixListener::bind(path))
    }

    #[test]
    fn only_a_dead_socket_is_replaced_and_only_the_own_one_removed() {
        let folder = std::env::temp_dir().join(format!("hoistway-socket-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("s");
        drop(bind(&path).unwrap());
        assert!(path.exists(), "as of a killed server");
        let (alive, file) = bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(ServeError::Os { .. })), "somebody listens");
        assert!(UnixStream::connect(&path).is_ok());
        // Another server took the place.
        fs::remove_file(&path).unwrap();
        let (_other, _) = bind(&path).unwrap();
        file.remove();
        drop(alive);
        assert!(UnixStream::connect(&path).is_ok());
        let (target, link, dir) = (folder.join("t"), folder.join("l"), folder.join("d"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        fs::create_dir(&dir).unwrap();
        for (path, is) in [(&target, "a file"), (&link, "a link"), (&dir, "a folder")] {
            let error = bind(path).unwrap_err();
            assert!(matches!(error, ServeError::Refused(_)), "{error}");
            let told = format!("listen on {}: is {is} that hoistway did not write", path.display());
            assert!(error.to_string().starts_with(&told), "{error}");
        }
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        let nowhere = bind(&folder.join("no/s")).unwrap_err().to_string();
        assert!(nowhere.contains("/no: No such file"), "{nowhere}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn root_binds_in_the_folder_that_was_looked_at() {
        use std::os::unix::fs::{PermissionsExt, chown};
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make a folder of another user");
            return;
        }
        let folder =
            std::env::temp_dir().join(format!("hoistway-socket-of-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&folder, Some(65534), Some(65534)).unwrap();
        let moved = folder.with_extension("moved");
        let made = SocketFile::bind(&folder.join("s"), "listen on", |path| {
            // Its owner exchanges the folder for a link in between.
            fs::rename(&folder, &moved)?;
            std::os::unix::fs::symlink("/var", &folder)?;
            UnixListener::bind(path)
        });
        let (_listener, file) = made.unwrap();
        assert!(moved.join("s").exists() && !Path::new("/var/s").exists());
        file.remove();
        assert!(!moved.join("s").exists());
        fs::remove_file(&folder).unwrap();
        fs::remove_dir(&moved).unwrap();
    }
}
