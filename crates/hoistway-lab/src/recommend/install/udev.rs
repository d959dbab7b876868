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

/// A kind of drives.
struct Class {
    name: &'static str,
    /// The kernel's names of them.
    kernel: &'static str,
    /// What else they must say.
    more: &'static str,
    /// Not behind USB: the kernel calls those the same, and udev asks a disk in an enclosure as if it were not in one
    /// (`ata_id`, so that its ID_BUS is `ata` too).
    never_usb: bool,
}

const fn class(name: &'static str, kernel: &'static str, more: &'static str) -> Class {
    Class { name, kernel, more, never_usb: false }
}

const CLASSES: &[Class] = &[
    class("nvme", "nvme[0-9]*n[0-9]*", "ATTR{queue/rotational}==\"0\""),
    Class { never_usb: true, ..class("hdd", "sd[a-z]*", "ATTR{queue/rotational}==\"1\"") },
    Class {
        never_usb: true,
        ..class("sata-ssd", "sd[a-z]*", "ATTR{queue/rotational}==\"0\", ENV{ID_BUS}==\"ata\"")
    },
    class("usb", "sd[a-z]*", "SUBSYSTEMS==\"usb\""),
    class("mmc", "mmcblk[0-9]*", "ATTR{device/type}==\"MMC\""),
    class("sd-card", "mmcblk[0-9]*", "ATTR{device/type}==\"SD\""),
    class("virtio", "vd[a-z]*", "SUBSYSTEMS==\"virtio\""),
];

/// What a rule is about.
struct On {
    /// What a device must be, in the language of udev.
    condition: String,
    /// The same in words.
    words: String,
    /// The same as part of a file's name.
    slug: String,
    never_usb: bool,
}

/// Adds the rule, or says why there is none.
pub(super) fn rule(identity: &Identity, by: Match, set: &[(String, String)], lines: &mut Lines) {
    let on = match on(identity, by) {
        Ok(found) => found,
        Err(why) => return lines.cannot.push(why),
    };
    let writes: Vec<String> =
        set.iter().map(|(name, value)| format!("ATTR{{queue/{name}}}=\"{value}\"")).collect();
    let On { condition, words, slug, never_usb } = on;
    // A parent that is not of USB is found for every device: only what is of USB can be asked for, and left.
    let end = format!("hoistway_{}_end", slug.replace('-', "_"));
    let (skip, label) = match never_usb {
        true => (format!("SUBSYSTEMS==\"usb\", GOTO=\"{end}\"\n"), format!("LABEL=\"{end}\"\n")),
        false => (String::new(), String::new()),
    };
    let text = format!(
        "# For {words}. Undo: delete this file, then udevadm control --reload.\n\
         {skip}ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {condition}, \\\n  {}\n{label}",
        writes.join(", ")
    );
    let path = format!("/etc/udev/rules.d/90-hoistway-{slug}.rules");
    lines.files.push(SystemFile { path, text });
    lines.matched = words;
    if identity.is_simulated() {
        lines.notes.push("a simulated drive has no name in a kernel, so the rule is for its class; for one model write what `cat /sys/block/DEVICE/device/model` prints behind ATTR{device/model}==".into());
    }
}

/// What a rule of this drive is about, or why there can be none.
fn on(identity: &Identity, by: Match) -> Result<On, String> {
    let class = class_of(identity);
    let entry = class.as_deref().and_then(|c| CLASSES.iter().find(|k| k.name == c));
    if let (Match::Model, Some(model)) = (by, &identity.model) {
        let card = matches!(class.as_deref(), Some("mmc" | "sd-card"));
        let attribute = if card { "device/name" } else { "device/model" };
        let kernel = entry.map_or_else(String::new, |k| format!("KERNEL==\"{}\", ", k.kernel));
        let model_pattern = pattern(model.trim());
        return Ok(On {
            condition: format!("{kernel}ATTR{{{attribute}}}==\"{model_pattern}\""),
            words: format!("drives of the model {model_pattern}"),
            slug: slug(model),
            never_usb: false,
        });
    }
    match entry {
        Some(Class { name, kernel, more, never_usb }) => Ok(On {
            condition: format!("KERNEL==\"{kernel}\", {more}"),
            words: format!("every drive of the class {name}"),
            slug: (*name).to_string(),
            never_usb: *never_usb,
        }),
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
pub(in crate::recommend) fn pattern(text: &str) -> String {
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
