//! What a process says to the world, and its end.

use super::{JobProc, Machine, Platform, Step};
use crate::host::{Notice, ProcInfo};
use hoistway::stage::Change;
use hoistway::{Instant, ProcId};
use hoistway_run::{Mark, UNFINISHED};

impl<G: Platform> Machine<G> {
    /// With process `p`, which has just exited, nobody is left to be measured: of the targets, or, where there
    /// are none, of all. Of thousands of processes each exits, and none of them looks at all others.
    pub(super) fn was_last(&mut self, p: usize) -> bool {
        let measured = self.actors[p].target || !self.targeted;
        self.measured -= usize::from(measured);
        measured && self.measured == 0
    }

    /// What a load says to the world.
    pub(super) fn told(&mut self, p: usize, notice: Notice) {
        match notice {
            Notice::RunAs { slot, name, lasting } => {
                let JobProc { name: of, home, prio, .. } = &self.actors[p];
                let id = self.spawned.find(p, slot).unwrap_or_else(|| {
                    let id = self.stack.add_proc(home.group, *prio);
                    self.spawned.add((p, of), slot, name, lasting, id);
                    let (group, prio) = (home.group, *prio);
                    let step = Step::Proc { id, group, prio, role: None, name };
                    self.platform.step(self.now, step);
                    id
                });
                // The priority in force is that of the job's process; so are group and CPU.
                self.host.become_proc(p, ProcInfo { id, ..*home });
                self.ids[p] = id;
            }
            Notice::EndProcs => self.end_procs(p, false),
            Notice::Mark(text) => self.mark(p, text.to_string()),
            Notice::Count { what, n } => self.actors[p].stats.count_of(self.now, what, n),
            Notice::Phase(name) => self.actors[p].stats.phase(self.now, Some(name)),
            Notice::PhaseEnd => self.actors[p].stats.phase(self.now, None),
            Notice::GivenUp(limit) => self.mark(p, format!("{UNFINISHED} {}ns", limit.0)),
        }
    }

    fn mark(&mut self, p: usize, text: String) {
        self.marks.push(Mark {
            at: self.now.since(self.span.begin),
            process: self.actors[p].name.clone(),
            text,
            moved: self.device_stats.moved(),
        });
    }

    /// The processes that `p` made exit; the lasting ones only with it.
    pub(super) fn end_procs(&mut self, p: usize, everyone: bool) {
        let home = self.actors[p].home;
        self.host.become_proc(p, home);
        self.ids[p] = home.id;
        while let Some(id) = self.spawned.end_one(p, everyone) {
            self.exit(id);
        }
    }

    /// A process of the block layer exits.
    pub(super) fn exit(&mut self, id: ProcId) {
        self.platform.step(self.now, Step::Exit(id));
        self.stack.change(self.now, Change::ProcExited(id), |env| {
            if let Some(proc) = env.procs.get_mut(id) {
                proc.alive = false;
            }
        });
        self.drain();
    }

    pub(super) fn retire(&mut self, p: usize) {
        if self.actors[p].target && !self.over[p] {
            self.running -= 1;
            self.quiet = Instant::ZERO;
        }
        self.over[p] = true;
    }
}
