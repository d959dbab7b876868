//! The host model: page cache, read-ahead, write-back, journal (specs/host.md).

use crate::world::JobError;

/// Parameters of the host: an era's profile (host.md 1.4) and what differs from it (host.md 15).
#[derive(Clone, Debug)]
pub struct HostConfig {}

impl HostConfig {
    /// A profile by name: `2019`, `2018`, `today`, `2012`, `2010`, `2009`, `netbook-2009`.
    pub fn profile(_name: &str) -> Result<HostConfig, JobError> {
        todo!()
    }

    /// Sets one parameter by its name in host.md 15.
    pub fn set(&mut self, _name: &str, _value: &toml::Value) -> Result<(), JobError> {
        todo!()
    }
}
