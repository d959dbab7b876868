//! What the cells of a grid say of their settings, for the manifest: the same hundred texts in thousands of cells, so
//! that each is kept once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A drive's place in the grid, a name and its value.
type SettingRow = (usize, String, String);

/// Settings of one kind; rows that are known already take no room.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Each with its place in the order of first appearance.
    rows: BTreeMap<SettingRow, usize>,
}

impl Settings {
    /// Adds those of a run on a drive.
    pub(super) fn add(&mut self, drive: usize, all: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in all {
            let next = self.rows.len();
            if let Entry::Vacant(new) = self.rows.entry((drive, name, value)) {
                new.insert(next);
            }
        }
    }

    /// (name, value): one line for what is the same on every drive, else one per drive as `name[drive]`. Order of first
    /// appearance.
    pub(super) fn united(&self, drive_name: &dyn Fn(usize) -> String) -> Vec<(String, String)> {
        let mut rows: Vec<(&SettingRow, usize)> =
            self.rows.iter().map(|(row, at)| (row, *at)).collect();
        rows.sort_unstable_by_key(|(_, at)| *at);
        let mut names: Vec<&String> = Vec::new();
        for ((_, name, _), _) in &rows {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut all: Vec<(String, String)> = Vec::new();
        for name in names {
            let of_name: Vec<&SettingRow> =
                rows.iter().map(|(r, _)| *r).filter(|r| r.1 == *name).collect();
            if of_name.iter().all(|r| r.2 == of_name[0].2) {
                all.push((name.clone(), of_name[0].2.clone()));
                continue;
            }
            for (drive, _, value) in of_name {
                let key = format!("{name}[{}]", drive_name(*drive));
                if !all.iter().any(|(known, _)| *known == key) {
                    all.push((key, value.clone()));
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_drives_has_a_line_each_and_what_is_known_takes_no_room() {
        let mut settings = Settings::default();
        for _ in 0..3 {
            for (drive, depth) in [(0, "32"), (1, "64")] {
                let rows = [("depth", depth), ("slice", "8")];
                settings.add(drive, rows.map(|(name, value)| (name.into(), value.into())));
            }
        }
        assert_eq!(settings.rows.len(), 4);
        let all = settings.united(&|drive| ["ssd", "disk"][drive].into());
        let said = [("depth[ssd]", "32"), ("depth[disk]", "64"), ("slice", "8")];
        assert_eq!(all, said.map(|(name, value)| (name.to_string(), value.to_string())));
    }
}
