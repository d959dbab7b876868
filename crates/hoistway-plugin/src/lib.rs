//! Schedulers that people bring at run time. `load` (feature `wasm`) makes a registry entry of a WebAssembly module; [`entry`]
//! makes one of any other [`Guest`], such as a class of Python.
//!
//! The interface is docs/reference/plugin.md. A module has no way out: it imports nothing, its memory and the steps of each
//! call are bounded ([`limits`]), and its answers are checked. It has no floating-point numbers, no threads, no clock and no
//! random numbers, so the same calls have the same answers everywhere. What it does wrong before a run is a [`PluginError`];
//! what it does wrong in a run ends that run alone ([`hoistway_run::end_run`]).
//!
//! The same algorithm runs natively as a [`Guest`], behind the same adapter: [`native`] makes the entry.
//!
//! ```no_run
//! # #[cfg(feature = "wasm")]
//! # {
//! let entry = hoistway_plugin::load("mine.wasm".as_ref())?;
//! println!("{}: {}", entry.name, entry.summary);
//! # }
//! # Ok::<(), hoistway_plugin::PluginError>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod about;
mod adapter;
mod error;
mod guest;
pub mod limits;
#[cfg(feature = "wasm")]
mod module;

pub use adapter::{Description, entry};
pub use error::PluginError;
pub use guest::{Guest, Request};

use about::About;
use hoistway::sched::Entry;
#[cfg(feature = "wasm")]
use hoistway_files::{Limit, input};
#[cfg(feature = "wasm")]
use module::Compiled;
#[cfg(feature = "wasm")]
use std::path::Path;

/// A module.
#[cfg(feature = "wasm")]
const MODULE: Limit = Limit { what: "a module", bytes: limits::FILE_BYTES };

/// The registry entry of a module, under the name of its file without the ending. It lives as long as the process: jobs
/// refer to it.
///
/// # Errors
///
/// A file that cannot be read or is too long, a name that is none, and whatever of the module the interface does not allow.
#[cfg(feature = "wasm")]
pub fn load(path: &Path) -> Result<&'static Entry, PluginError> {
    let bytes = input::bytes(path, MODULE).map_err(PluginError::Read)?;
    let wrong = |what: String| PluginError::Wrong { path: path.into(), what };
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = checked_name(&stem).map_err(wrong)?;
    let who = format!("scheduler '{name}' ({})", path.display());
    let compiled = Compiled::new(&bytes, who.clone()).map_err(wrong)?;
    let about = About::parse(&compiled.about().map_err(wrong)?).map_err(wrong)?;
    compiled.check_settings(&about.defaults()).map_err(wrong)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{file}, {} bytes, digest {:016x}", bytes.len(), digest(&bytes));
    let ((summary, tunables), name) = (about.rows(), name.to_string());
    let description = Description { name, summary, source, who, tunables };
    Ok(entry(description, move || compiled.instance()))
}

/// The registry entry of a scheduler of this interface that is compiled into the program. `about`: as the module's.
///
/// # Errors
///
/// A name that is none, and errors in `about`.
pub fn native<G: Guest + 'static>(
    name: &str,
    about: &str,
    make: impl Fn() -> G + Send + Sync + 'static,
) -> Result<&'static Entry, PluginError> {
    let wrong = |what: String| PluginError::Wrong { path: name.into(), what };
    let about = About::parse(about).map_err(wrong)?;
    let name = checked_name(name).map_err(wrong)?;
    let (summary, tunables) = about.rows();
    let (source, who) = ("compiled into the program".into(), format!("scheduler '{name}'"));
    Ok(entry(Description { name: name.into(), summary, source, who, tunables }, make))
}

/// Names stand in configurations, in file names and in tables.
fn checked_name(name: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    match name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits) {
        true => Ok(name),
        false => Err(format!(
            "'{name}' is no name of a scheduler; call the file by small letters, digits, - and _, a letter first"
        )),
    }
}

/// FNV-1a, 64 bits.
#[cfg(feature = "wasm")]
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
