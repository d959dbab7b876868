//! `hoistway serve --fuse`: the exports as files of a folder.

use super::attached::leave;
use super::{failure, say};
use crate::Failure;
use crate::live::args::Serve;
use crate::live::serve::spec::File;
use hoistway_live::front::Export;
use hoistway_live::front::fuse::{FuseOptions, Mount};
use hoistway_live::front::nbd::Server;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

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

    /// Unmounts, in the end from whoever uses it.
    pub fn close(self) -> Result<(), Failure> {
        self.closing.store(true, Ordering::SeqCst);
        leave(&[&self.mount])
    }
}
