//! What only debugfs tells.
//!
//! It is mounted for this process alone, without a place in the tree of files, and goes with the last file
//! that is open on it.

use super::System;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::Read;

/// How many of its tags a driver's first hardware queue hands out.
pub(super) fn depth(system: &System, name: &str) -> Option<u64> {
    let path = format!("block/{name}/hctx0/tags");
    parse(&read(system, &path)?)
}

fn parse(text: &str) -> Option<u64> {
    // `bitmap_tags:` precedes those of reserved tags.
    let line = text.lines().find_map(|line| line.trim().strip_prefix("depth="))?;
    line.split(',').next()?.parse().ok()
}

fn read(system: &System, path: &str) -> Option<String> {
    let mut file = match File::open(system.path(&format!("/sys/kernel/debug/{path}"))) {
        Ok(file) => file,
        Err(_) if !system.is_real() => return None,
        Err(_) => {
            let context = fsopen("debugfs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
            fsconfig_create(&context).ok()?;
            let root =
                fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY);
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            File::from(openat(&root.ok()?, path, flags, Mode::empty()).ok()?)
        }
    };
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_that_of_the_first_bitmap() {
        let text = "nr_tags=128\nnr_reserved_tags=1\nactive_queues=0\n\nbitmap_tags:\ndepth=32\nbusy=0\n\
                    bits_per_word=8\n\nbreserved_tags:\ndepth=1\nbusy=0\n";
        assert_eq!(parse(text), Some(32));
        assert_eq!(parse("nr_tags=128\n"), None);
    }
}
