//! The drive as a file of a folder (FUSE), with its figures as another. Reads, writes, flushes and discards go straight to the drive.
//!
//! Direct I/O for everybody and parallel writes, as for exports (`front::fuse`): whatever caches lie above
//! belong to who uses the loop device.

use super::acting::{Acting, Arrival, Reply};
use super::figures;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, WriteFlags,
};
use hoistway::Op;
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The folder is inode 1.
const INODE: INodeNo = INodeNo(2);
/// The file of figures.
const FIGURES: INodeNo = INodeNo(3);
/// Nothing about the file changes.
const FOREVER: Duration = Duration::from_secs(3600);
/// Asynchronous requests under way: eight for each tag a loop device may have, more than one request of it
/// is ever cut into.
const BACKGROUND: u16 = 1024;

/// The folder with the drive's file.
#[derive(Debug)]
pub(super) struct DriveFolder {
    pub name: String,
    pub size: u64,
    /// Bytes of a sector of the drive.
    pub sector: u64,
    /// Discards are taken; their granularity in bytes.
    pub discard: Option<u64>,
    /// Longest request in bytes.
    pub longest: u32,
    pub drive: Arc<Acting>,
    pub born: SystemTime,
    pub owner: (u32, u32),
}

impl DriveFolder {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let file = ino == INODE || ino == FIGURES;
        // The figures have no size: they are made when they are read.
        let size = if ino == INODE { self.size } else { 0 };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: self.born,
            mtime: self.born,
            ctime: self.born,
            crtime: self.born,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o700 },
            nlink: if file { 1 } else { 2 },
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// A command for which nothing is to be stored.
    fn take(&self, op: Op, range: Range<u64>, reply: Reply) {
        let (at, len) = (range.start, range.end - range.start);
        let came = self.drive.now();
        self.drive.take(Arrival { came, op, at, len, fua: false, failed: false }, reply);
    }

    /// Only the loop device is to use the file, and it asks for whole sectors.
    fn in_sectors(&self, offset: u64, end: u64) -> bool {
        offset.is_multiple_of(self.sector) && end.is_multiple_of(self.sector)
    }
}

impl Filesystem for DriveFolder {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Neither can be refused: both are within the limits of the protocol.
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_max_write(self.longest);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = match parent == INodeNo::ROOT {
            true if name == self.name.as_str() => INODE,
            true if name == figures::FILE => FIGURES,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&FOREVER, &self.attributes(found), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if ino == FIGURES && flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
            return reply.error(Errno::EACCES);
        }
        if ino != INODE && ino != FIGURES {
            return reply.error(Errno::EISDIR);
        }
        let how = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), how);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if ino == FIGURES {
            let text = figures::text(&self.drive.told());
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
            return reply.data(&text.as_bytes()[from..text.len().min(from + size as usize)]);
        }
        let end = offset.saturating_add(size.into()).min(self.size);
        if offset >= end {
            return reply.data(&[]);
        }
        if !self.in_sectors(offset, end) {
            return reply.error(Errno::EINVAL);
        }
        self.take(Op::Read, offset..end, Reply::Data(reply));
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return reply.written(0);
        }
        if end > self.size {
            return reply.error(Errno::ENOSPC);
        }
        if !self.in_sectors(offset, end) {
            return reply.error(Errno::EINVAL);
        }
        let came = self.drive.now();
        let failed = self.drive.store().write(offset, data).is_err();
        let fua = flags.0 & libc::O_DSYNC != 0;
        let len = end - offset;
        let arrival = Arrival { came, op: Op::Write, at: offset, len, fua, failed };
        self.drive.take(arrival, Reply::Written(reply));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.take(Op::Flush, 0..0, Reply::Empty(reply));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let hole = mode == libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // Without an offer of the drive the block layer writes zeroes itself, as it does for such drives.
        if !hole || self.discard.is_none() {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return reply.ok();
        }
        if !self.in_sectors(offset, end) {
            return reply.error(Errno::EINVAL);
        }
        let came = self.drive.now();
        let failed = self.drive.store().discard(offset, end - offset).is_err();
        let len = end - offset;
        let arrival = Arrival { came, op: Op::Discard, at: offset, len, fua: false, failed };
        self.drive.take(arrival, Reply::Empty(reply));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let all = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (INODE, FileType::RegularFile, self.name.as_str()),
            (FIGURES, FileType::RegularFile, figures::FILE),
        ];
        let rest = all.into_iter().zip(1..).skip(usize::try_from(offset).unwrap_or(usize::MAX));
        for ((ino, kind, name), next) in rest {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    /// Its block size is what a loop device takes as the granularity of discards.
    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let block = self.discard.unwrap_or(4096).max(4096);
        reply.statfs(self.size / block, 0, 0, 1, 0, block as u32, 255, block as u32);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}
