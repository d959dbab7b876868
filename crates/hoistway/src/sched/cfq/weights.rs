//! The cgroup file of a group's weight (specs/cfq.md 2).

use super::Cfq;
use super::group::{ROOT_WEIGHT, WEIGHT};
use super::tunables::GROUP_TUNABLES;
use crate::group::GroupId;
use crate::knob::{Knob, KnobError, KnobOf, is_blank, number};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// The kernel's file, of cgroup v1.
pub(super) static KNOBS: &[Knob] = &[Knob {
    file: FILE,
    of: KnobOf::All,
    form: "N",
    doc: "Share of the group among the groups with requests, 100 to 1000; 500, of the root 1000, where nothing \
          is written (specs/cfq.md 2).",
}];

const FILE: &str = "blkio.weight";

impl Cfq {
    pub(super) fn write_weight(
        &mut self,
        group: GroupId,
        file: &str,
        line: &str,
    ) -> Result<(), KnobError> {
        if file != FILE || self.kernel.entry.knobs.is_empty() {
            return Err(KnobError::unsupported(format!("no file '{file}'")));
        }
        let weight = number("weight", line.trim_matches(is_blank))?;
        let range = GROUP_TUNABLES[0].min..=GROUP_TUNABLES[0].max;
        if !range.contains(&weight) {
            return Err(KnobError::range(format!("weight {weight} is outside 100 to 1000")));
        }
        self.groups.set_weight(group, weight as i64);
        Ok(())
    }

    pub(super) fn read_weight(&self, group: GroupId, file: &str, out: &mut String) {
        if file != FILE {
            return;
        }
        let usual = if group == GroupId::ROOT { ROOT_WEIGHT } else { WEIGHT };
        let known = self.groups.rows.len() > group.index();
        let weight = if known { self.groups.rows[group].new_weight } else { usual };
        writeln!(out, "{weight}").expect("a String takes everything");
    }
}
