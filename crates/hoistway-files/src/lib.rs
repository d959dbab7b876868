//! Files that others may have made, or may change while we use them.
//!
//! **Input** ([`input`]) is bounded: a file is looked at before it is opened for long, its size is held
//! against a limit that the error names, and what cannot end (a device, a FIFO) is refused.
//!
//! **Shown** ([`shown`]): their text reaches no terminal as commands.
//!
//! **Output** ([`Place`], [`Dir`]) replaces only what hoistway has written, and is reached by descriptors. hoistway runs
//! as root in folders of other users, who can exchange any name in them at any moment. Three rules:
//!
//! 1. In a folder that somebody else can change, root follows no link, and does not go up by `..`. In folders
//!    that only root (or this user) can change, links are followed as everywhere.
//! 2. The last component is never followed. A new file is made exclusively; an existing one is replaced as a whole, by
//!    a new file that is renamed over it, and only if its first bytes say that hoistway wrote it.
//! 3. What is removed is removed below a descriptor of the folder that was made, whatever its path leads to by now.
//!
//! A folder of output (a bench, rules to install) is written into if it is new, empty or hoistway's own, which the file
//! `.hoistway` in it says.
//!
//! Somebody else can change a folder that belongs neither to root nor to this user, that everybody may write, or
//! that another group may write. In a folder with the sticky bit, as `/tmp`, a link or a folder of
//! root's or this user's own can be trusted, and nothing else.
#![forbid(unsafe_code)]

pub mod input;
mod mark;
#[cfg(unix)]
mod place;
#[cfg(not(unix))]
mod plain;
pub mod shown;

pub use input::{Limit, ReadError};
pub use mark::Kind;
#[cfg(unix)]
pub use place::{Dir, Draft, Identity, Output, Place, PlaceError, Scratch, may_write, write};
#[cfg(not(unix))]
pub use plain::{Dir, Draft, Identity, Output, Place, PlaceError, may_write, write};

/// What other systems do is tried here, too.
#[cfg(all(test, unix))]
#[allow(dead_code)]
mod plain;
