//! `hoistway serve --ublk`: the exports as block devices.

use super::attached::leave;
use super::{failure, say};
use crate::Failure;
use crate::live::args::Serve;
use crate::live::serve::spec::File;
use hoistway_live::front::ublk::Disk;
use hoistway_live::front::{Attachment, Export};

/// A block device for each export, if there are to be any.
pub fn open(args: &Serve, wishes: &File, exports: &[Export]) -> Result<Vec<Disk>, Failure> {
    let mut disks = Vec::new();
    for export in exports.iter().filter(|_| wishes.ublk) {
        let disk = Disk::start(export).map_err(failure)?;
        for note in disk.notes() {
            eprintln!("warning: {note}");
        }
        say(args, &format!("export {}: {}", export.name, disk.path().display()));
        disks.push(disk);
    }
    Ok(disks)
}

/// Takes them away, in the end from whoever uses them.
pub fn close(disks: Vec<Disk>) -> Result<(), Failure> {
    let all: Vec<&dyn Attachment> = disks.iter().map(|disk| disk as _).collect();
    leave(&all)
}
