//! Settings of the stages, and changes that wait until no request exists
//! (specs/blk-mq-and-noop.md section 13).

use super::*;
use crate::device::{Merging, Tags};
use crate::setting::{self, OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::unit::Sectors;

const NR_REQUESTS: &str = "nr_requests";
const MERGING: [Merging; 3] = [Merging::All, Merging::Simple, Merging::Never];
const TAGS: [Tags; 2] = [Tags::Words, Tags::Plain];

const ROWS: &[Setting<Stack>] = &[
    Tunable::new(
        NR_REQUESTS,
        Unit::Requests,
        0,
        (4, 2048),
        "Requests that may exist per pool (legacy) or hardware queue. Unset, it follows the \
         device: 128 (legacy), twice the depth but at most 256, or the depth itself (none).",
    )
    .on_change(OnChange::Frozen)
    .field(|s| s.env.device.nr_requests.into(), |s, v| s.pending().nr_requests = Some(v as u32)),
    Tunable::choice(
        "nomerges",
        &["all", "simple", "never"],
        0,
        "Which merge look-ups are made: all, one-hit cache and plug only, none.",
    )
    .field(|s| s.env.device.merging as u64, |s, v| s.env.device.merging = MERGING[v as usize]),
    Tunable::new(
        "max_sectors_kb",
        Unit::Kib,
        1280,
        (4, 65536),
        "Largest request built by merging or splitting.",
    )
    .field(|s| s.env.device.max_sectors.0 / 2, |s, v| s.env.device.max_sectors = Sectors(2 * v)),
    Tunable::choice(
        "tags",
        &["words", "plain"],
        0,
        "What a scheduler's depth limit is a part of: each word of tags (Linux up to 6.16), or \
         the tags as a whole (6.17 and later). Multi-queue only.",
    )
    .on_change(OnChange::Frozen)
    .field(|s| s.env.device.tags as u64, |s, v| s.pending().tags = Some(TAGS[v as usize])),
];
static SETTINGS: Settings<Stack> = Settings::new("queue", ROWS);
/// Tunables of the block layer itself.
pub static QUEUE_TUNABLES: &[Tunable] = &listed::<Stack, (), { ROWS.len() }>(ROWS);

impl Stack {
    pub(super) fn set(
        &mut self,
        stage: StageName,
        name: &str,
        value: u64,
    ) -> Result<(), StackError> {
        let now = self.now;
        match stage {
            StageName::Queue => self.set_queue(name, value)?,
            StageName::Scheduler => {
                setting::check(self.entry.tunables, self.entry.name, name, value)
                    .map_err(StackError::Tunable)?;
                let mut cx = self.env.cx();
                self.scheduler.set(now, name, value, &mut cx).map_err(StackError::Tunable)?;
            }
            StageName::Controller(which) => {
                let c = self.controllers.iter_mut().find(|c| c.entry.name == which);
                let c = c.ok_or(StackError::NoSuchStage(which))?;
                setting::check(c.entry.tunables, c.entry.name, name, value)
                    .map_err(StackError::Tunable)?;
                let mut cx = self.env.cx();
                c.stage.set(now, name, value, &mut cx).map_err(StackError::Tunable)?;
            }
        }
        self.ask_legacy_run();
        Ok(())
    }

    pub(super) fn set_group(
        &mut self,
        group: GroupId,
        stage: StageName,
        name: &str,
        value: Option<u64>,
    ) -> Result<(), StackError> {
        self.check_group(group)?;
        let now = self.now;
        let mut cx = self.env.cx();
        match stage {
            StageName::Queue => Err(StackError::NoSuchStage("queue (per group)".into())),
            StageName::Scheduler => self
                .scheduler
                .set_group(now, group, name, value, &mut cx)
                .map_err(StackError::Tunable),
            StageName::Controller(which) => {
                let c = self.controllers.iter_mut().find(|c| c.entry.name == which);
                let c = c.ok_or(StackError::NoSuchStage(which))?;
                c.stage.set_group(now, group, name, value, &mut cx).map_err(StackError::Tunable)
            }
        }
    }

    /// Settings are for groups that exist: what a removed one still has under way is held by no limit of
    /// its own.
    pub(super) fn check_group(&self, group: GroupId) -> Result<(), StackError> {
        let groups = &self.env.groups;
        let exists = group.index() < groups.len() && groups.alive(group);
        if exists { Ok(()) } else { Err(StackError::NoSuchGroup(group)) }
    }

    /// The value in force of a tunable of the block layer; `None` if there is no such tunable.
    pub fn queue_value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(self, name)
    }

    fn set_queue(&mut self, name: &str, value: u64) -> Result<(), StackError> {
        let row = SETTINGS.check(name, value).map_err(StackError::Tunable)?;
        let most = self.most_requests();
        if name == NR_REQUESTS && value > most {
            let (name, min) = (NR_REQUESTS, row.tunable.min.min(most));
            let error = TunableError::OutOfRange { name, got: value, min, max: most };
            return Err(StackError::Tunable(error));
        }
        (row.set)(self, value);
        if row.tunable.on_change == OnChange::Frozen {
            self.hurry();
        }
        Ok(())
    }

    /// The largest `nr_requests` the tables were made for; `none` is bound to the driver tags.
    fn most_requests(&self) -> u64 {
        let slots = self.env.requests.capacity() as u64 - 2;
        match self.env.device.profile {
            // Two pools with an absolute cap of 3/2.
            Profile::Legacy => slots / 3,
            Profile::MultiQueue if self.scheduler_to_come().unwrap_or(self.entry).direct => {
                self.env.device.queue_depth.into()
            }
            Profile::MultiQueue => slots / u64::from(self.env.device.hw_queues),
        }
    }

    /// Another scheduler takes over once no request exists.
    pub(super) fn switch(&mut self, entry: &'static Entry) -> Result<(), StackError> {
        if entry.direct && !self.is_mq() {
            return Err(StackError::WrongProfile(entry.name));
        }
        let mq = self.is_mq();
        let pending = self.pending();
        pending.switch = Some(entry);
        if mq {
            // The tags are made anew for it; the pools of the legacy profile belong to the device.
            pending.nr_requests = None;
        }
        self.hurry();
        Ok(())
    }

    /// From here to the thaw, or from the end on, policy holds nothing up: plugs are emptied, nobody waits
    /// for a tag by the limits of before, and the scheduler is drained (`ask_scheduler`) as fast as the
    /// device has room.
    pub(super) fn hurry(&mut self) {
        self.move_waiters();
        for proc in 0..self.plugs.len() as u32 {
            self.flush_plug(Context::Proc(ProcId(proc)), true);
        }
        self.flush_plug(Context::Worker, true);
        if !self.is_mq() {
            self.drain_legacy();
            self.legacy.unplug();
        }
        self.ask_all_runs();
    }

    /// The bio waits for the end of a change, its carrier with it.
    pub(super) fn freeze(&mut self, bio: BioId, stage: PathStep) {
        self.frozen.push_back((bio, stage));
        self.carrier_sleeps(bio);
    }

    /// Whoever sleeps for a tag is to sleep for the change: it makes no request that the change would wait
    /// for. At the end it asks once more, without a limit.
    fn move_waiters(&mut self) {
        let mut bios = Vec::new();
        self.take_pool_waiters(&mut bios);
        self.tag_sets.iter_mut().for_each(|set| set.take_waiters(&mut bios));
        // In the order in which they asked, which the wait lists keep only within each.
        bios.sort_by_key(|&bio| self.env.requests.bio_ref(bio).alloc);
        let waiting = bios.into_iter().map(|bio| (bio, PathStep::Tag));
        if self.is_changing() {
            self.frozen.extend(waiting);
        } else {
            self.agenda.reenter.extend(waiting);
        }
    }

    fn pending(&mut self) -> &mut PendingChanges {
        self.pending.get_or_insert_default()
    }

    /// Carries out the pending changes when no request exists any more; true if it did.
    pub(super) fn thaw(&mut self) -> bool {
        if !self.is_changing() || !self.env.requests.is_empty() {
            return false;
        }
        let PendingChanges { switch, nr_requests, tags } =
            self.pending.take().expect("a change is pending");
        if let Some(entry) = switch {
            self.swap_scheduler(entry);
        }
        let device = &mut self.env.device;
        if let Some(n) = nr_requests {
            device.nr_requests = n;
            // Room for more tags is made anew; for fewer the words stay.
            device.tags_made_for = device.tags_made_for.max(n);
        }
        device.tags = tags.unwrap_or(device.tags);
        if nr_requests.is_some() || tags.is_some() {
            self.tell(&Change::Device);
        }
        self.elevator = Elevator::new(self.env.requests.capacity());
        self.tag_sets = self.make_tag_sets();
        self.legacy = Legacy::new(self.env.device.nr_requests);
        // Those behind the controllers first: they came before what the gates have not seen yet.
        for behind in [true, false] {
            let these = self.frozen.iter().filter(|(_, stage)| (*stage == PathStep::Tag) == behind);
            self.agenda.reenter.extend(these);
        }
        self.frozen.clear();
        self.find_plain();
        true
    }

    fn swap_scheduler(&mut self, entry: &'static Entry) {
        if self.is_mq() {
            // The tags are made anew; the pools of the legacy profile belong to the device.
            let device = &mut self.env.device;
            device.nr_requests = usual_requests(device, entry);
            device.tags_made_for = device.nr_requests;
        }
        let requests = self.env.requests.capacity();
        let setup = Setup { device: &self.env.device, requests, now: self.now };
        self.scheduler = (entry.build)(&setup);
        self.entry = entry;
        for group in self.env.groups.living() {
            self.scheduler.changed(self.now, &Change::GroupAdded(group), &mut self.env.cx());
        }
    }

    pub(super) fn make_tag_sets(&self) -> Vec<TagSet> {
        let device = &self.env.device;
        let sets = if self.entry.direct { 1 } else { usize::from(device.hw_queues) };
        let (direct, least) = (self.entry.direct, self.entry.tag_percent_min);
        let make = |_| TagSet::new(device, direct, least);
        (0..sets).map(make).collect()
    }
}
