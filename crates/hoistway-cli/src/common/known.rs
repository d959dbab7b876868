//! Values of options that completion scripts know.

use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;

/// Any text; completion scripts know these names. What is accepted is decided where it is read: paths, lists
/// and names with settings in braces are more than the names.
#[derive(Clone)]
pub struct Known(pub fn() -> Vec<&'static str>);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let not_text = || clap::Error::new(clap::error::ErrorKind::InvalidUtf8).with_cmd(command);
        value.to_str().map(str::to_string).ok_or_else(not_text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Experiments of the program.
pub fn experiments() -> Vec<&'static str> {
    hoistway_lab::experiment::Experiment::ids().collect()
}

/// Experiments that repeat a document, and all of them.
#[cfg(feature = "studies")]
pub fn documented() -> Vec<&'static str> {
    std::iter::once("all").chain(hoistway_lab::reproduce::ids()).collect()
}

/// Drives of the program.
pub fn drives() -> Vec<&'static str> {
    hoistway_sim::drive::DriveFile::ids()
}

/// Configurations: those with a name, and schedulers alone.
pub fn configs() -> Vec<&'static str> {
    hoistway_lab::config::all_names(hoistway::sched::SCHEDULERS).collect()
}
