//! What is asked of the operating system besides I/O: clocks, threads, memory, wake-ups.

mod buffer;
mod clock;
mod eventfd;
mod slab;
mod socket_ring;
pub mod thread;

pub use buffer::{ALIGN, Buffer, Part, Pool, advance};
#[cfg(feature = "fuse")]
pub use clock::wall_clock;
pub use clock::{Clock, monotonic, processor_time, timespec, today, until};
pub use eventfd::EventFd;
pub use slab::Slab;
pub use socket_ring::{SocketEvent, SocketRing};
