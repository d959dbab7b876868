//! What verbs share.

#[macro_use]
pub mod terminal;
pub mod asked;
pub mod baseline;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod beside;
pub mod grid;
pub mod jobs;
pub mod known;
pub mod lists;
pub mod modules;
pub mod options;
pub mod output;
pub mod process;
pub mod results;
pub mod run_dirs;
pub mod runs;
pub mod table;
#[cfg(feature = "studies")]
pub mod trace_args;
pub mod worlds;
