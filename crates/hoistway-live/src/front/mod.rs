//! Front-ends: how clients outside this process reach a device.

pub mod nbd;
