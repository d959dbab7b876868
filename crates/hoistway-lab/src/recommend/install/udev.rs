//! The udev rule: on which drives, and what is written.

use super::{Lines, SystemFile};
use crate::recommend::identity::Identity;

/// What a rule is matched by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// The model; the class where no model is known.
    #[default]
    Model,
    /// The class of drives.
    Class,
}

/// Kinds of drives: name, the kernel's names of them, and what else they must say.
const CLASSES: &[(&str, &str, &str)] = &[
    ("nvme", "nvme[0-9]*n[0-9]*", "ATTR{queue/rotational}==\"0\""),
    ("hdd", "sd[a-z]*", "ATTR{queue/rotational}==\"1\""),
    ("sata-ssd", "sd[a-z]*", "ATTR{queue/rotational}==\"0\", ENV{ID_BUS}==\"ata\""),
    ("usb", "sd[a-z]*", "ENV{ID_BUS}==\"usb\""),
    ("mmc", "mmcblk[0-9]*", "ATTR{queue/rotational}==\"0\""),
    ("virtio", "vd[a-z]*", "SUBSYSTEMS==\"virtio\""),
];

/// Adds the rule, or says why there is none.
pub(super) fn rule(identity: &Identity, by: Match, set: &[(String, String)], lines: &mut Lines) {
    let (condition, words, slug) = match condition(identity, by) {
        Ok(found) => found,
        Err(why) => return lines.cannot.push(why),
    };
    let writes: Vec<String> =
        set.iter().map(|(name, value)| format!("ATTR{{queue/{name}}}=\"{value}\"")).collect();
    let text = format!(
        "# Made by hoistway recommend for {words}. Undo: delete this file, then udevadm control --reload.\n\
         ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {condition}, \\\n  {}\n",
        writes.join(", ")
    );
    let path = format!("/etc/udev/rules.d/90-hoistway-{slug}.rules");
    lines.files.push(SystemFile { path, text });
    lines.matched = words;
    if identity.is_simulated() {
        lines.notes.push("a simulated drive has no name in a kernel, so the rule is for its class; for one model write what `cat /sys/block/DEVICE/device/model` prints behind ATTR{device/model}==".into());
    }
}

/// What a device must be, in the language of udev; the same in words; and a name for files.
fn condition(identity: &Identity, by: Match) -> Result<(String, String, String), String> {
    let class = class_of(identity);
    let entry = class.as_deref().and_then(|c| CLASSES.iter().find(|k| k.0 == c));
    if let (Match::Model, Some(model)) = (by, &identity.model) {
        let attribute =
            if class.as_deref() == Some("mmc") { "device/name" } else { "device/model" };
        let kernel = entry.map_or_else(String::new, |k| format!("KERNEL==\"{}\", ", k.1));
        let condition = format!("{kernel}ATTR{{{attribute}}}==\"{}\"", pattern(model.trim()));
        return Ok((
            condition,
            format!("drives of the model {}", pattern(model.trim())),
            slug(model),
        ));
    }
    match entry {
        Some((name, kernel, more)) => {
            let condition = format!("KERNEL==\"{kernel}\", {more}");
            Ok((condition, format!("every drive of the class {name}"), (*name).to_string()))
        }
        None => Err(format!(
            "no udev rule: {} tells neither a model nor a class that a rule could be matched by",
            identity.queue.as_deref().unwrap_or(&identity.drive)
        )),
    }
}

/// The class, told or derived.
pub(super) fn class_of(identity: &Identity) -> Option<String> {
    identity.class.clone()
}

/// A text as a pattern that only it matches, but for characters that mean something to udev. It may have come with the
/// run of somebody else: a line end in it would begin a rule of its own.
pub(super) fn pattern(text: &str) -> String {
    let plain = |c: char| if "*?[]|\"\\$%".contains(c) || c.is_control() { '?' } else { c };
    text.chars().map(plain).collect()
}

/// A text as part of a file's name.
pub(super) fn slug(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = text.trim().chars().map(kept).collect();
    let parts: Vec<&str> = text.split('-').filter(|p| !p.is_empty()).collect();
    parts.join("-")
}
