//! The file systems: where the blocks of dirty pages go, what makes them durable, and who writes that
//! (specs/host.md 10, 11 and 14).
//!
//! ```text
//!               blocks of a page         fsync                     thread of the file system
//!   ext3, ext4  stay where they are      commit of the journal     [`ext`]: the journal's commits
//!   btrfs       new ones each time       log tree, superblock      [`btrfs`]: commits of the trees
//!   nilfs2      the next of the log      a log write               [`nilfs2`]: writes the log, all of it
//! ```
//!
//! What they share is with the [`Kernel`](super::kernel::Kernel): changes of inodes join a transaction
//! ([`super::journal`]), which is what a caller of fsync or sync waits for; the map of a file
//! ([`super::file`]) says where its pages lie. A device opened as one file (raw) belongs to no file system.

pub(super) mod btrfs;
pub(super) mod ext;
pub(super) mod nilfs2;

use super::config::{Fs, HostConfig};
use super::file::Files;
use super::kernel::Kernel;
use super::op::Act;
use super::task::{OpStep, Task};
use btrfs::{Btrfs, TreeCommit};
use ext::Commit;
use hoistway::Instant;
use hoistway_run::NamedFigure;
use nilfs2::{LogWriter, Nilfs2};

/// What a file system remembers beside its transactions.
#[derive(Debug)]
pub(super) enum FileSystem {
    /// ext3 or ext4: its files lie where they were laid out.
    Ext,
    Btrfs(Btrfs),
    Nilfs2(Nilfs2),
}

impl FileSystem {
    /// The one that `config` names, on a rotating drive or another, with no file yet.
    pub fn new(config: &HostConfig, rotational: bool) -> FileSystem {
        match config.fs {
            Fs::Ext3 | Fs::Ext4 => FileSystem::Ext,
            Fs::Btrfs => FileSystem::Btrfs(Btrfs::new(rotational)),
            Fs::Nilfs2 => FileSystem::Nilfs2(Nilfs2::default()),
        }
    }

    /// Its thread, at rest.
    pub fn thread(&self) -> FsThread {
        match self {
            FileSystem::Ext => FsThread::Ext(Commit::Rest),
            FileSystem::Btrfs(_) => FsThread::Btrfs(TreeCommit::Rest),
            FileSystem::Nilfs2(_) => FsThread::Nilfs2(LogWriter::Rest),
        }
    }

    /// Nobody but its thread writes data: flushers and writers can only ask for it.
    pub fn writes_alone(&self) -> bool {
        matches!(self, FileSystem::Nilfs2(_))
    }

    /// The blocks of all pages of a file are given up.
    pub fn emptied(&mut self, files: &Files, file: u32) {
        match self {
            FileSystem::Ext => {}
            FileSystem::Btrfs(fs) => fs.emptied(&files[file]),
            FileSystem::Nilfs2(fs) => fs.emptied(&files[file]),
        }
    }

    /// Figures of the whole run, of those that have any beside the journal's.
    pub fn figures(&self) -> Vec<NamedFigure> {
        let named: &[(&str, u64)] = match self {
            FileSystem::Ext => &[],
            FileSystem::Btrfs(fs) => &[("log_writes", fs.logs), ("log_blocks", fs.log_blocks)],
            FileSystem::Nilfs2(fs) => &[("log_writes", fs.logs), ("log_blocks", fs.log_blocks)],
        };
        let figure = |&(name, value): &(&str, u64)| NamedFigure {
            name: name.to_string(),
            of: None,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        };
        named.iter().map(figure).collect()
    }
}

/// Freezes the running transaction, if it is old enough or wanted; otherwise what the thread of the file
/// system does meanwhile.
fn begin_commit(now: Instant, k: &mut Kernel) -> Option<OpStep> {
    let act = match k.journal.due(now) {
        None => Act::Block,
        Some(due) if now < due => Act::WaitUntil(due),
        Some(_) => {
            k.journal.freeze(now);
            return None;
        }
    };
    k.journal.resting = true;
    Some(OpStep::Act(act))
}

/// The thread of the file system.
#[derive(Debug)]
pub(super) enum FsThread {
    Ext(Commit),
    Btrfs(TreeCommit),
    Nilfs2(LogWriter),
}

impl FsThread {
    /// What the thread does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        match self {
            FsThread::Ext(commit) => commit.step(now, task, k),
            FsThread::Btrfs(commit) => commit.step(now, task, k),
            FsThread::Nilfs2(writer) => writer.step(now, task, k),
        }
    }
}
