//! The inbox between the threads that read the kernel's requests and the owner thread of a device: one
//! per export, from which requests are taken in batches.
//!
//! How many requests there are is bounded by the kernel: each waiting thread has one, and all asynchronous
//! I/O of a mount together `max_background`; each is at most `max_write` long (`tree`).

use crate::system::EventFd;
use crate::system::{Buffer, Pool};
use fuser::{
    Errno, FileAttr, Generation, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyWrite,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// How long the kernel may believe size, times and allocated blocks.
const TTL: Duration = Duration::from_secs(1);

/// One request for a file.
#[derive(Debug)]
pub(super) struct FileRequest {
    pub what: Operation,
    pub reply: FuseReply,
}

#[derive(Debug)]
pub(super) enum Operation {
    /// `len` bytes from there.
    Read { offset: u64, len: u64 },
    /// `len` bytes from there. The buffer begins and ends at borders of blocks; the bytes lie in it at
    /// their place.
    Write { offset: u64, len: u64, buffer: Buffer, durable: bool },
    /// The range is to read as zeroes; `hole`: and need not stay allocated.
    Zero { offset: u64, len: u64, hole: bool },
    /// What was written before is to be durable.
    Flush,
    /// The next data (or hole) at or behind the offset.
    Seek { offset: u64, hole: bool },
    /// Size, times, blocks.
    Attributes,
}

/// What is owed to the kernel. Dropped without an answer, it is EIO.
#[derive(Debug)]
pub(super) enum FuseReply {
    Data(ReplyData),
    Written(ReplyWrite),
    Empty(ReplyEmpty),
    Seek(ReplyLseek),
    Attributes(ReplyAttr),
    Entry(ReplyEntry),
    #[cfg(test)]
    Test(std::sync::mpsc::Sender<Result<Vec<u8>, i32>>),
}

impl FuseReply {
    pub fn data(self, bytes: &[u8]) {
        match self {
            FuseReply::Data(reply) => reply.data(bytes),
            #[cfg(test)]
            FuseReply::Test(reply) => reply.send(Ok(bytes.to_vec())).unwrap(),
            other => other.error(libc::EIO),
        }
    }

    /// Done; that many bytes of a write.
    pub fn done(self, written: u64) {
        match self {
            // A request is at most `max_write` long.
            FuseReply::Written(reply) => reply.written(written as u32),
            FuseReply::Empty(reply) => reply.ok(),
            FuseReply::Seek(reply) => reply.offset(written as i64),
            #[cfg(test)]
            FuseReply::Test(reply) => reply.send(Ok(written.to_le_bytes().to_vec())).unwrap(),
            other => other.error(libc::EIO),
        }
    }

    pub fn attributes(self, attr: &FileAttr) {
        match self {
            FuseReply::Attributes(reply) => reply.attr(&TTL, attr),
            FuseReply::Entry(reply) => reply.entry(&TTL, attr, Generation(0)),
            #[cfg(test)]
            FuseReply::Test(reply) => reply.send(Ok(attr.blocks.to_le_bytes().to_vec())).unwrap(),
            other => other.error(libc::EIO),
        }
    }

    pub fn error(self, errno: i32) {
        let error = Errno::from_i32(errno);
        match self {
            FuseReply::Data(reply) => reply.error(error),
            FuseReply::Written(reply) => reply.error(error),
            FuseReply::Empty(reply) => reply.error(error),
            FuseReply::Seek(reply) => reply.error(error),
            FuseReply::Attributes(reply) => reply.error(error),
            FuseReply::Entry(reply) => reply.error(error),
            #[cfg(test)]
            FuseReply::Test(reply) => reply.send(Err(errno)).unwrap(),
        }
    }
}

#[derive(Debug)]
pub(super) struct FuseInbox {
    wakeup: EventFd,
    state: Mutex<InboxState>,
    /// Buffers of writes; apart from the owner's, whose pool is its own.
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct InboxState {
    requests: VecDeque<FileRequest>,
    /// The owner was told and has not looked yet.
    signalled: bool,
    /// No further requests.
    closed: bool,
}

impl FuseInbox {
    pub fn new() -> io::Result<FuseInbox> {
        Ok(FuseInbox {
            wakeup: EventFd::new()?,
            state: Mutex::default(),
            pool: Mutex::new(Pool::new()),
        })
    }

    /// Puts a request into the inbox; one that comes too late is refused.
    pub fn push(&self, request: FileRequest) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return request.reply.error(libc::ESHUTDOWN);
        }
        state.requests.push_back(request);
        let ring = !std::mem::replace(&mut state.signalled, true);
        drop(state);
        if ring {
            self.wakeup.signal();
        }
    }

    /// Takes what is there; at most `most` requests. True if more are left.
    pub fn take(&self, into: &mut Vec<FileRequest>, most: usize) -> bool {
        self.wakeup.clear();
        let mut state = self.lock();
        state.signalled = false;
        let some = state.requests.len().min(most);
        into.extend(state.requests.drain(..some));
        !state.requests.is_empty()
    }

    /// Takes no further requests; those in it can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wakeup.signal();
    }

    /// Nobody will take anything any more: what is there is refused.
    pub fn shut(&self) {
        let mut state = self.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.requests);
        drop(state);
        left.into_iter().for_each(|request| request.reply.error(libc::ESHUTDOWN));
    }

    /// A buffer for a write that covers whole blocks; its content is anything.
    pub fn buffer(&self, len: usize) -> Buffer {
        self.pool.lock().expect("nobody panics while holding the lock").take(len)
    }

    pub fn give_back(&self, buffer: Buffer) {
        self.pool.lock().expect("nobody panics while holding the lock").give(buffer);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().expect("nobody panics while holding the lock")
    }
}
