//! The file system: a folder with one file per export. Nothing can be made, removed or renamed.
//!
//! The methods run on the threads that read the kernel's requests. What concerns the folder they answer;
//! everything about a file goes to its inbox.
//!
//! Files are opened with direct I/O for everybody (`FOPEN_DIRECT_IO`): the kernel keeps no pages of them.
//! A cache there would serve reads that the scheduler never sees and write back later on behalf
//! of nobody; file systems on a loop device have their own cache above it. Writes to one file run in
//! parallel (`FOPEN_PARALLEL_DIRECT_WRITES`), since the session of the file orders what must be ordered, and
//! asynchronous requests of a loop device stay asynchronous (`FUSE_ASYNC_DIO`).

use super::inbox::{FileRequest, FuseInbox, FuseReply, Operation};
use super::range::Span;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// One file.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: String,
    pub inbox: Arc<FuseInbox>,
    pub size: u64,
    pub block: u64,
    pub read_only: bool,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Tree {
    pub entries: Vec<Entry>,
    pub uid: u32,
    pub gid: u32,
    pub born: SystemTime,
}

/// Number of the first file; the folder is 1.
const FIRST: u64 = 2;
/// Longest read or write the kernel sends (chosen: a request of a loop device is at most 1280 KiB and
/// comes in three pieces, which merge again below; with [`BACKGROUND`] it bounds the memory of an export
/// to 128 MiB of asynchronous I/O).
const REQUEST_MAX: u32 = 512 << 10;
/// Asynchronous requests per export that the kernel sends before it makes them wait (chosen: twice the
/// queue of a loop device). They wait in one line per mount, where weights mean nothing.
const BACKGROUND: usize = 256;
/// Names of a folder do not change.
const FOREVER: Duration = Duration::from_secs(3600);

impl Tree {
    pub fn inode(index: usize) -> u64 {
        FIRST + index as u64
    }

    fn entry(&self, ino: INodeNo) -> Option<&Entry> {
        self.entries.get(usize::try_from(ino.0.checked_sub(FIRST)?).ok()?)
    }

    fn folder(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo::ROOT,
            size: 0,
            blocks: 0,
            atime: self.born,
            mtime: self.born,
            ctime: self.born,
            crtime: self.born,
            kind: FileType::Directory,
            perm: 0o700,
            nlink: 2,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// Puts a request into the inbox of a file; a folder has none.
macro_rules! lay {
    ($tree:ident, $ino:expr, $what:expr, $reply:expr) => {
        match $tree.entry($ino) {
            Some(entry) => entry.inbox.push(FileRequest { what: $what, reply: $reply }),
            None => $reply.error(libc::EISDIR),
        }
    };
}

impl Filesystem for Tree {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let most = BACKGROUND * self.entries.len();
        // Neither can be refused: both are within the limits of the protocol.
        let _ = config.set_max_background(u16::try_from(most).unwrap_or(u16::MAX));
        let _ = config.set_max_write(REQUEST_MAX);
        // Without it (Linux before 3.13) a loop device has one request under way.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.entries.iter().find(|e| name == e.name.as_str());
        match found {
            Some(entry) if parent == INodeNo::ROOT => {
                entry.inbox.push(FileRequest {
                    what: Operation::Attributes,
                    reply: FuseReply::Entry(reply),
                });
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        if ino == INodeNo::ROOT {
            return reply.attr(&FOREVER, &self.folder());
        }
        lay!(self, ino, Operation::Attributes, FuseReply::Attributes(reply));
    }

    /// As with a block device: opening with O_TRUNC (size 0 without a handle) leaves the size alone, any
    /// other size is an error. Owner and mode are the server's to say.
    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let other = mode.is_some() || uid.is_some() || gid.is_some();
        let (Some(entry), false, None, None) = (self.entry(ino), other, atime, mtime) else {
            return reply.error(Errno::EPERM);
        };
        match size {
            Some(size) if size != entry.size && (size, handle) != (0, None) => {
                reply.error(Errno::EINVAL);
            }
            _ => lay!(self, ino, Operation::Attributes, FuseReply::Attributes(reply)),
        }
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some(entry) = self.entry(ino) else { return reply.error(Errno::EISDIR) };
        if entry.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
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
        lay!(self, ino, Operation::Read { offset, len: size.into() }, FuseReply::Data(reply));
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(entry) = self.entry(ino) else { return reply.error(Errno::EISDIR) };
        // What crosses the end is written up to there, as on a block device.
        let end = entry.size.min(offset.saturating_add(data.len() as u64));
        if data.is_empty() || offset >= end {
            return match data.is_empty() {
                true => reply.written(0),
                false if entry.read_only => reply.error(Errno::EROFS),
                false => reply.error(Errno::ENOSPC),
            };
        }
        let (len, span) = (end - offset, Span { start: offset, end, block: entry.block });
        let (first, room) = (span.outer_start(), span.outer_end() - span.outer_start());
        let mut buffer = entry.inbox.buffer(room as usize);
        let (at, bytes) = ((offset - first) as usize, &data[..len as usize]);
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
        // O_SYNC contains O_DSYNC.
        let durable = flags.0 & libc::O_DSYNC != 0;
        let what = Operation::Write { offset, len, buffer, durable };
        entry.inbox.push(FileRequest { what, reply: FuseReply::Written(reply) });
    }

    fn fsync(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        lay!(self, ino, Operation::Flush, FuseReply::Empty(reply));
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(entry) = self.entry(ino) else { return reply.error(Errno::EISDIR) };
        let keep = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let hole = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE => true,
            libc::FALLOC_FL_ZERO_RANGE => false,
            // Whether a device has room for all of itself is not ours to promise.
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        if !keep && offset.saturating_add(len) > entry.size {
            return reply.error(Errno::ENOSPC);
        }
        let what = Operation::Zero { offset, len, hole };
        entry.inbox.push(FileRequest { what, reply: FuseReply::Empty(reply) });
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let hole = match whence {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        lay!(self, ino, Operation::Seek { offset, hole }, FuseReply::Seek(reply));
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let dots = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        let files = self.entries.iter().enumerate();
        let files = files.map(|(n, e)| (INodeNo(Tree::inode(n)), FileType::RegularFile, &*e.name));
        let all = dots.into_iter().chain(files).zip(1..);
        for ((ino, kind, name), next) in all.skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    /// Its block size is what a loop device takes as the granularity of discards.
    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let block = self.entries.iter().map(|e| e.block).max().unwrap_or(0).max(4096);
        let blocks = self.entries.iter().map(|e| e.size / block).sum();
        reply.statfs(blocks, 0, 0, self.entries.len() as u64, 0, block as u32, 255, block as u32);
    }

    // What there is not. ENOSYS tells the kernel not to ask again.

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }
}
