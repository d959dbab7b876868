//! hoistway's own schedulers in this kernel: what its module calls them, and where their groups have their files.

use super::System;
use hoistway::sched::{find_or_twin, module_name};
use hoistway_sim::world::Job;
use std::borrow::Cow;

/// What the kernel module is called.
pub(crate) const MODULE: &str = "hoistway";
/// Schedulers of the kernel's own: their names never mean the module's.
const KERNELS: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];

/// Whether a name means a scheduler of the kernel's own.
pub(crate) fn is_kernels(scheduler: &str) -> bool {
    KERNELS.contains(&scheduler)
}

/// What the module calls a scheduler; `None`: it has none that the name could mean.
fn in_module(scheduler: &str) -> Option<&'static str> {
    if is_kernels(scheduler) {
        return None;
    }
    module_name(find_or_twin(scheduler)?)
}

/// Whether a scheduler of that name would be the module's.
pub(crate) fn has(scheduler: &str) -> bool {
    in_module(scheduler).is_some()
}

/// The name by which a queue that offers these has a scheduler: its own, or the module's.
pub(crate) fn name_here<'a>(scheduler: &'a str, offered: &[String]) -> Option<&'a str> {
    let there = |name: &&str| offered.iter().any(|o| o == name);
    Some(scheduler).filter(there).or_else(|| in_module(scheduler).filter(there))
}

/// How the module comes to offer a scheduler; `None`: it does not have it.
pub(super) fn remedy(system: &System, scheduler: &str) -> Option<String> {
    in_module(scheduler)?;
    Some(match super::queue::has_module(system, is_ours) {
        true => format!("modprobe {MODULE}"),
        false => {
            "`hoistway module build` and `hoistway module install` put it into this kernel".into()
        }
    })
}

/// What the module is called that is loaded: `hoistway`, or with some of the schedulers `hoistway-NAMES`.
pub(crate) fn loaded(system: &System) -> Option<String> {
    let entries = std::fs::read_dir(system.path("/sys/module")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| of_sys(&entry.file_name().to_string_lossy()))
        .filter(|name| is_ours(name))
        .collect();
    names.sort();
    names.into_iter().next()
}

/// The name of a module by its folder in /sys.
fn of_sys(folder: &str) -> String {
    folder.replace('_', "-")
}

/// The folder in /sys of a module of ours: no name of them has an underscore.
pub(crate) fn in_sys(name: &str) -> String {
    name.replace('-', "_")
}

/// Whether a module of that name is ours.
pub(crate) fn is_ours(name: &str) -> bool {
    name.strip_prefix(MODULE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether the module is loaded.
pub(crate) fn is_loaded(system: &System) -> bool {
    loaded(system).is_some()
}

/// The file of a group that a scheduler's setting goes to: `weight` of bfq is `io.bfq.weight`.
pub(crate) fn group_file(scheduler: &str, name: &str) -> String {
    match in_module(scheduler) {
        Some(_) => format!("io.{MODULE}.{name}"),
        None => format!("io.{scheduler}.{name}"),
    }
}

/// The file of a group that a job writes to. The same name may be the scheduler's word and a controller's, whose file it is here;
/// the module has its own.
pub(super) fn file_of<'a>(job: &Job<'_>, file: &'a str) -> Cow<'a, str> {
    let controlled = job.control.controllers.iter().any(|c| c.name == file);
    let knows = job.scheduler.entry.knobs.iter().any(|knob| knob.file == file);
    match (in_module(job.scheduler.entry.name), file.strip_prefix("io.")) {
        (Some(_), Some(word)) if knows && !controlled => format!("io.{MODULE}.{word}").into(),
        _ => file.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_the_kernels_or_the_modules() {
        let offered = ["none", "mq-deadline", "h-bfq", "h-deadline", "zoccolo", "paternoster"];
        let offered = offered.map(str::to_string);
        let here = |name| name_here(name, &offered);
        assert_eq!(here("mq-deadline"), Some("mq-deadline"));
        assert_eq!(here("paternoster"), Some("paternoster"));
        assert_eq!(here("deadline-zoccolo"), Some("zoccolo"));
        assert_eq!(here("deadline"), Some("h-deadline"));
        // Whoever says bfq means the kernel's, and h-bfq ours.
        assert_eq!((here("h-bfq"), here("h-kyber")), (Some("h-bfq"), None));
        assert_eq!((here("bfq"), here("sio"), here("nobody's")), (None, None, None));
    }

    #[test]
    fn weights_go_to_the_file_of_who_shares_by_them() {
        assert_eq!(group_file("bfq", "weight"), "io.bfq.weight");
        assert_eq!(group_file("paternoster", "weight"), "io.hoistway.weight");
        assert_eq!(group_file("h-bfq", "weight"), "io.hoistway.weight");
        assert_eq!(group_file("cfq", "weight"), "io.hoistway.weight");
    }
}
