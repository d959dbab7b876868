//! Which schedulers a module has, and what it is called after them.
//!
//! `hoistway.ko` has all, `hoistway-paternoster.ko` one. All are one module to the machine: one at a time is in place or loaded,
//! since the names of schedulers and the files of groups are the same, and each answers to `modprobe hoistway`.

use crate::MachineError;
use crate::kernel::{MODULE, is_ours};
use hoistway::sched::{CORE_OF, SCHEDULERS, find, module_name, of_module, twin};

/// The kernel takes names of modules up to here.
const NAME_MOST: usize = 55;

/// Schedulers of a module, in the order of the registry; none named: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    names: Vec<&'static str>,
}

impl Choice {
    /// Of names with commas between them, as the registry has them or as the module calls them.
    ///
    /// # Errors
    ///
    /// A name means no scheduler that a module has; they are too many for a name.
    pub fn parse(list: &str) -> Result<Choice, MachineError> {
        let refused = |what: String| Err(MachineError::Refused(format!("--only {list}: {what}")));
        let mut asked = Vec::new();
        for name in list.split(',').map(str::trim) {
            let entry = find(name).or_else(|| of_module(name)).or_else(|| twin(name));
            match entry.filter(|entry| module_name(entry).is_some()) {
                Some(entry) => asked.push(entry.name),
                None => {
                    let all: Vec<&str> = SCHEDULERS.iter().filter_map(|e| module_name(e)).collect();
                    return refused(format!("'{name}' is none of {}", all.join(", ")));
                }
            }
        }
        let names = SCHEDULERS.iter().map(|e| e.name).filter(|name| asked.contains(name));
        let choice = Choice { names: names.collect() };
        if choice.module().len() > NAME_MOST {
            return refused(
                "the module's name would be too long; name fewer, or leave --only out for all"
                    .into(),
            );
        }
        Ok(choice)
    }

    /// What a core was made of.
    ///
    /// # Errors
    ///
    /// It does not say so, or names what this program does not know.
    pub fn of_core(core: &[u8]) -> Result<Choice, MachineError> {
        let refused = |what: &str| {
            MachineError::Refused(format!(
                "the core {what}; make it anew with `hoistway module core`"
            ))
        };
        let mark = CORE_OF.as_bytes();
        let at = core.windows(mark.len()).position(|window| window == mark);
        let at = at.ok_or_else(|| refused("does not say which schedulers it has"))? + mark.len();
        let names = core[at..].split(|&byte| byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(names) {
            Ok("") => Ok(Choice::default()),
            names => names
                .ok()
                .and_then(|names| Choice::parse(names).ok())
                .ok_or_else(|| refused("names schedulers that this version does not have")),
        }
    }

    /// Names of the registry with commas between them; empty: all.
    pub(super) fn list(&self) -> String {
        self.names.join(",")
    }

    /// What the module is called, and its file without `.ko`. The kernel writes `_` for each `-`: there is no other `_`.
    pub fn module(&self) -> String {
        let names = self.names.iter().filter_map(|name| module_name(find(name)?));
        std::iter::once(MODULE).chain(names).collect::<Vec<_>>().join("-").replace('.', "-")
    }

    /// A scheduler of it, as sysfs calls it: the one that Linux lacks, where it has that.
    pub(super) fn example(&self) -> &'static str {
        const LACKS: &str = "paternoster";
        let first = self.names.first().filter(|_| !self.names.contains(&LACKS));
        first.and_then(|name| module_name(find(name)?)).unwrap_or(LACKS)
    }

    /// The module's file.
    pub(super) fn file(&self) -> String {
        format!("{}.ko", self.module())
    }
}

/// Whether a file, without what it may be compressed with, is a module of ours.
pub(super) fn is_file(name: &str) -> bool {
    name.strip_suffix(".ko").is_some_and(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_called_after_what_it_has() {
        let name = |list: &str| Choice::parse(list).map(|choice| choice.module());
        assert_eq!(Choice::default().module(), "hoistway");
        assert_eq!(name("paternoster").unwrap(), "hoistway-paternoster");
        // The same schedulers are the same module, whatever they were called and in which order.
        assert_eq!(name("adios,h-bfq").unwrap(), name("bfq, adios,bfq").unwrap());
        assert_eq!(name("cfq-2.6.30").unwrap(), "hoistway-cfq-2-6-30");
        for (list, why) in [
            ("none", "'none' is none of noop, h-deadline"),
            ("", "'' is none of"),
            ("bfq,x", "'x'"),
        ] {
            assert!(name(list).unwrap_err().to_string().contains(why), "{list}");
        }
        let all: Vec<&str> = SCHEDULERS.iter().filter_map(|e| module_name(e)).collect();
        assert!(name(&all.join(",")).unwrap_err().to_string().contains("too long"));
        assert!(all.iter().all(|one| !name(one).unwrap().contains(['_', '.'])), "the kernel's own");
        for (list, example) in [("bfq", "h-bfq"), ("adios,paternoster", "paternoster")] {
            assert_eq!(Choice::parse(list).unwrap().example(), example);
        }
        assert_eq!(Choice::default().example(), "paternoster");
    }

    #[test]
    fn a_core_says_what_it_has() {
        let of = |text: &[u8]| Choice::of_core(text).map(|choice| choice.module());
        assert_eq!(of(b"\x7fELF..hoistway core of:\0.").unwrap(), "hoistway");
        assert_eq!(of(b"\x7fELF..hoistway core of:bfq\0.").unwrap(), "hoistway-h-bfq");
        for unknown in [&b"\x7fELF"[..], b"hoistway core of:nobody\0", b"hoistway core of:\xff\0"] {
            assert!(of(unknown).unwrap_err().to_string().contains("module core"));
        }
    }

    #[test]
    fn files_of_ours_are_told_by_their_names() {
        for (name, ours) in [
            ("hoistway.ko", true),
            ("hoistway-h-bfq.ko", true),
            ("hoistwayd.ko", false),
            ("hoistway", false),
        ] {
            assert_eq!(is_file(name), ours, "{name}");
        }
    }
}
