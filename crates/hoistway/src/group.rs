//! The group tree and the processes in it.
//!
//! Both live beside the pipeline: a stage keeps its own state in tables indexed by [`GroupId`] or
//! [`ProcId`] and is told of changes ([`crate::stage::Change`]).

use crate::unit::{Class, IoPrio};
use alloc::string::String;
use alloc::vec::Vec;

/// A group (a cgroup in the kernel). Dense: ids count up from the root's 0 and are not reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The root of the tree.
    pub const ROOT: GroupId = GroupId(0);

    /// The same as a table index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One thread, client or tenant with a priority of its own (an io context in the kernel). Dense, not
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcId(pub u32);

impl ProcId {
    /// Nobody: BFQ serves such a request at once, outside its queues.
    pub const NONE: ProcId = ProcId(u32::MAX);

    /// The same as a table index; must not be called on [`ProcId::NONE`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
struct Group {
    parent: Option<GroupId>,
    name: String,
    level: u32,
    alive: bool,
    children: Vec<GroupId>,
}

/// The tree of groups.
#[derive(Clone, Debug)]
pub struct Groups {
    all: Vec<Group>,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups::new()
    }
}

impl Groups {
    /// A tree that holds the root only.
    pub fn new() -> Groups {
        let root = Group {
            parent: None,
            name: String::new(),
            level: 0,
            alive: true,
            children: Vec::new(),
        };
        Groups { all: alloc::vec![root] }
    }

    /// Number of groups ever made; ids are below it.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Never: the root always exists.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Adds a child of `parent`.
    pub fn add(&mut self, parent: GroupId, name: &str) -> GroupId {
        let id = GroupId(self.all.len() as u32);
        let level = self.all[parent.index()].level + 1;
        self.all[parent.index()].children.push(id);
        self.all.push(Group {
            parent: Some(parent),
            name: name.into(),
            level,
            alive: true,
            children: Vec::new(),
        });
        id
    }

    /// Marks a group as removed; the root cannot be.
    pub fn remove(&mut self, id: GroupId) {
        assert!(id != GroupId::ROOT, "the root group cannot be removed");
        self.all[id.index()].alive = false;
        if let Some(parent) = self.all[id.index()].parent {
            // Children are in order of creation, so in that of their numbers: removing all of very many
            // would be quadratic if each looked at the rest.
            let children = &mut self.all[parent.index()].children;
            if let Ok(at) = children.binary_search(&id) {
                children.remove(at);
            }
        }
    }

    /// The living groups below the root, parents before their children.
    pub fn living(&self) -> impl Iterator<Item = GroupId> + use<> {
        let alive: Vec<GroupId> =
            (1..self.all.len() as u32).map(GroupId).filter(|&g| self.alive(g)).collect();
        alive.into_iter()
    }

    /// The parent, `None` for the root.
    pub fn parent(&self, id: GroupId) -> Option<GroupId> {
        self.all[id.index()].parent
    }

    /// The living children in order of creation.
    pub fn children(&self, id: GroupId) -> &[GroupId] {
        &self.all[id.index()].children
    }

    /// The last component of the path; empty for the root.
    pub fn name(&self, id: GroupId) -> &str {
        &self.all[id.index()].name
    }

    /// 0 for the root, 1 for its children, and so on.
    pub fn level(&self, id: GroupId) -> u32 {
        self.all[id.index()].level
    }

    /// False once removed.
    pub fn alive(&self, id: GroupId) -> bool {
        self.all[id.index()].alive
    }
}

/// CPU scheduling policy, from which an unset I/O priority is derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuPolicy {
    /// The ordinary policy; the level follows the nice value.
    #[default]
    Normal,
    /// A real-time policy.
    RealTime,
    /// The idle policy.
    Idle,
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub struct Proc {
    /// Its own I/O priority; [`IoPrio::NONE`] if never set.
    pub prio: IoPrio,
    /// CPU policy.
    pub policy: CpuPolicy,
    /// -20 to 19.
    pub nice: i8,
    /// Its group.
    pub group: GroupId,
    /// False once it has exited.
    pub alive: bool,
}

impl Proc {
    /// The priority in force: its own, or derived from CPU scheduling (specs/groups-and-priorities.md 4,
    /// steps 2 and 3). Never of class none.
    pub fn effective(&self) -> IoPrio {
        if self.prio.class() != Class::None {
            return self.prio;
        }
        let level = ((i32::from(self.nice) + 20) / 5) as u8;
        match self.policy {
            CpuPolicy::Normal => IoPrio::be(level),
            CpuPolicy::RealTime => IoPrio::rt(level),
            CpuPolicy::Idle => IoPrio::idle(),
        }
    }
}

/// All processes.
#[derive(Clone, Debug, Default)]
pub struct Procs {
    all: Vec<Proc>,
}

impl Procs {
    /// No processes.
    pub fn new() -> Procs {
        Procs::default()
    }

    /// Number of processes ever made; ids are below it.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True before the first.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a process with nice 0.
    pub fn add(&mut self, group: GroupId, prio: IoPrio) -> ProcId {
        self.all.push(Proc { prio, policy: CpuPolicy::Normal, nice: 0, group, alive: true });
        ProcId(self.all.len() as u32 - 1)
    }

    /// `None` for [`ProcId::NONE`] and unknown ids.
    pub fn get(&self, id: ProcId) -> Option<&Proc> {
        self.all.get(id.index())
    }

    /// `None` for [`ProcId::NONE`] and unknown ids.
    pub fn get_mut(&mut self, id: ProcId) -> Option<&mut Proc> {
        self.all.get_mut(id.index())
    }

    /// The priority in force; best-effort 4 for nobody.
    pub fn prio(&self, id: ProcId) -> IoPrio {
        self.get(id).map_or(IoPrio::be(4), Proc::effective)
    }

    /// The process's group; the root for nobody.
    pub fn group(&self, id: ProcId) -> GroupId {
        self.get(id).map_or(GroupId::ROOT, |p| p.group)
    }
}
