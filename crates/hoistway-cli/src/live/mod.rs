//! The verbs that need a real machine (feature `live`, Linux).

mod args;
mod ctl;
pub mod differ;
#[cfg(feature = "fuse")]
mod emulate;
mod linux;
mod record;
mod restore;
mod serve;
mod top;
#[cfg(feature = "fuse")]
mod validate;

use crate::Failure;
pub use args::Verb;

/// Carries out a verb.
pub fn run(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Serve(options) => serve::serve(options),
        Verb::Ctl(options) => ctl::ctl(options),
        Verb::Top(options) => top::top(options),
        Verb::Record(options) => record::record(options),
        #[cfg(feature = "fuse")]
        Verb::Emulate(options) => emulate::emulate(options),
        #[cfg(feature = "fuse")]
        Verb::Validate(options) => validate::validate(options),
        Verb::Linux(options) => linux::linux(options),
        Verb::Differ(options) => differ::differ(options),
        Verb::LinuxActor(options) => differ::act(options),
        Verb::Restore(options) => restore::restore(options),
        Verb::KernelWorker(options) => {
            hoistway_machine::kernel::work(&options.args).map_err(|e| Failure::Usage(e.to_string()))
        }
        Verb::LinuxGuest(options) => {
            hoistway_machine::linux::guest(&options.args).map_err(|e| Failure::Usage(e.to_string()))
        }
    }
}
