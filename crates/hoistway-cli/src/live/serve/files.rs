//! `hoistway serve --fuse`: the exports as files of a folder.

use super::{failure, say};
use crate::Failure;
use crate::live::args::Serve;
use crate::live::serve::spec::File;
use hoistway_live::front::fuse::{FuseOptions, Mount};
use hoistway_live::front::nbd::{Export, Server};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often a folder that is in use is tried again (chosen: 10 s, as long as NBD clients have to take
/// their last answers); it is served until then.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// The mounted folder.
#[derive(Debug)]
pub struct Files {
    mount: Mount,
    /// That it is unmounted is our own doing.
    closing: Arc<AtomicBool>,
}

/// Mounts the folder if there is to be one. Whoever unmounts it also ends a server that serves nothing
/// else.
pub fn open(
    args: &Serve,
    wishes: &File,
    exports: &[Export],
    server: &Server,
    stop: Sender<()>,
) -> Result<Option<Files>, Failure> {
    let Some(folder) = &wishes.fuse else { return Ok(None) };
    let closing = Arc::new(AtomicBool::new(false));
    let (ours, alone) = (Arc::clone(&closing), server.addresses().is_empty());
    let place = folder.display().to_string();
    let ended = move || {
        if ours.load(Ordering::SeqCst) {
            return;
        }
        if alone {
            eprintln!("{place} was unmounted");
            // Whoever waits is gone only at the very end.
            let _ = stop.send(());
        } else {
            eprintln!("warning: {place} was unmounted; the sockets are served on");
        }
    };
    let options = FuseOptions { allow_other: wishes.fuse_allow_other };
    let mount = Mount::start(exports, folder, options, ended).map_err(failure)?;
    if let Some(note) = mount.note() {
        eprintln!("warning: {note}");
    }
    for export in exports {
        say(args, &format!("export {}: {}", export.name, mount.file(&export.name).display()));
    }
    Ok(Some(Files { mount, closing }))
}

impl Files {
    /// The folder, absolute.
    pub fn folder(&self) -> PathBuf {
        self.mount.folder().into()
    }

    /// Unmounts; waits for users for a while, then cuts them off after what they asked for is done and
    /// flushed.
    pub fn close(self) -> Result<(), Failure> {
        self.closing.store(true, Ordering::SeqCst);
        let place = self.mount.folder().display();
        for attempt in 0..=TRIES {
            match self.mount.unmount() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    eprintln!("warning: {error}");
                    break;
                }
            }
            if attempt == 0 {
                eprintln!(
                    "warning: {place} is in use by {}; it is served for another {} s, then cut off",
                    self.users(),
                    (TRIES * PAUSE).as_secs()
                );
            }
            std::thread::sleep(PAUSE);
        }
        eprintln!("warning: {place} is cut off from {}", self.users());
        self.mount.sever().map_err(failure)
    }

    fn users(&self) -> String {
        let users = self.mount.users();
        if users.is_empty() { "somebody".into() } else { users.join("; ") }
    }
}
