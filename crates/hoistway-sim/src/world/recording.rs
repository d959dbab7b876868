//! What is counted of processes that run elsewhere.
//!
//! A world whose processes are not steps of a [`Machine`](super::Machine) hears of their calls afterwards, from each
//! process in the order of its calls, but not in one order of all. It records them here, by the code that counts in
//! every other world: what a metric means does not depend on the world.

use super::Job;
use super::record::ProcStats;
use super::setup::span_of;
use crate::host::{Notice, Ran};
use crate::load;
use hoistway::{Instant, Nanos};
use hoistway_run::{JobError, Mark, ProcRecord, UNFINISHED};

/// Records of the processes of a job.
#[derive(Debug)]
pub struct Recording {
    begin: Instant,
    end: Instant,
    procs: Vec<ProcStats>,
    marks: Vec<(Instant, Mark)>,
}

impl Recording {
    /// Nothing is counted yet.
    ///
    /// # Errors
    ///
    /// A load that does not exist.
    pub fn new(job: &Job<'_>) -> Result<Recording, JobError> {
        let span = span_of(job);
        let mut procs = Vec::with_capacity(job.procs.len());
        for spec in &job.procs {
            let mut stats = ProcStats::new(spec, span, &job.window);
            if load::find(&spec.load)?.directions {
                stats.by_direction();
            }
            procs.push(stats);
        }
        Ok(Recording { begin: span.begin, end: span.end, procs, marks: Vec::new() })
    }

    /// When measuring begins.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// When it ends.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Calls of process `p` are over.
    pub fn ran(&mut self, p: usize, ran: &Ran) {
        self.procs[p].ran(ran);
    }

    /// What process `p` of `job` said at `at`; `moved`: bytes that the device had moved by then since measuring began.
    pub fn told(&mut self, job: &Job<'_>, at: Instant, p: usize, notice: Notice, moved: u64) {
        let mut mark = |text: String| {
            let process = job.procs[p].name.clone();
            self.marks.push((at, Mark { at: at.since(self.begin), process, text, moved }));
        };
        match notice {
            Notice::Mark(text) => mark(text.to_string()),
            Notice::GivenUp(limit) => mark(format!("{UNFINISHED} {}ns", limit.0)),
            Notice::Count { what, n } => self.procs[p].count_of(at, what, n),
            Notice::Phase(name) => self.procs[p].phase(at, Some(name)),
            Notice::PhaseEnd => self.procs[p].phase(at, None),
            // Who does the I/O is nothing that is counted.
            Notice::RunAs { .. } | Notice::EndProcs => {}
        }
    }

    /// The last who is measured has exited at `at`: measuring ends there, unless it has ended. No call that ended
    /// later may have been recorded.
    pub fn cut(&mut self, at: Instant) {
        let end = at.max(self.begin + Nanos(1)).min(self.end);
        self.end = end;
        self.procs.iter_mut().for_each(|p| p.cut(end));
    }

    /// A call of process `p` that began then was open when measuring ended.
    pub fn left_open(&mut self, p: usize, began: Instant) {
        self.procs[p].left_open(self.end, began);
    }

    /// A call of the target `p` that began then was open at `at`, the end of the grace.
    pub fn censored(&mut self, p: usize, began: Instant, at: Instant) {
        self.procs[p].censored = Some(at.since(began));
        self.procs[p].left_open(at, began);
    }

    /// The records of the processes, and the marks in order of time.
    pub fn finish(self, job: &Job<'_>) -> (Vec<ProcRecord>, Vec<Mark>) {
        let procs = self.procs.into_iter().zip(&job.procs).map(|(p, spec)| p.record(spec));
        let mut marks = self.marks;
        marks.sort_by_key(|(at, _)| *at);
        (procs.collect(), marks.into_iter().map(|(_, mark)| mark).collect())
    }
}
