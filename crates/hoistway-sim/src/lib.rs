//! The deterministic simulator: drives, host, workloads, and the virtual-time loop that turns them.
//!
//! Same seed, same bytes: nothing here reads a clock, spawns a thread, looks at the environment or
//! iterates over a hash map with random state. Randomness comes from named streams ([`rng`]).
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod drive;
pub mod host;
pub mod load;
pub mod probe;
pub mod rng;
pub mod world;
