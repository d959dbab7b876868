//! Listening sockets, and the operator's protocols on them: a page by HTTP, a question by line.

pub mod http;
pub mod line;
pub(crate) mod listen;
mod passed;
pub(crate) mod server;
pub(crate) mod socket_file;

pub use listen::Listen;
pub use passed::{Passed, passed};
