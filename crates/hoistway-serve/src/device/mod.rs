//! A device: a stack on real storage, in a thread of its own.
//!
//! [`Device`] is the handle, [`Client`] the way in for threads of this program; sessions of the front-ends
//! live on the owner thread itself (`Session`). On that thread, the *reactor* waits for everything at once,
//! and the *core* is the stack, the backend and the I/Os between them.

mod client;
mod core;
mod counters;
mod flush;
mod handle;
mod in_flight;
mod lookups;
mod pending;
mod reactor;
mod report;
mod retry;
mod ring;
mod settings;
mod stats;
mod streams;
mod tenants;
#[cfg(test)]
mod tests;
mod tracing;
mod watchdog;

pub(crate) use self::core::{Core, ExtentsRequest, Finished, IoRequest, ReplyTo, TenantId};
pub use client::Client;
pub(crate) use client::WRITE;
pub use counters::{IoCounters, LatencyHistogram, OPS, OpCounters};
pub use handle::{Device, Group};
pub use pending::Pending;
pub(crate) use reactor::{BUFFERS_MAX, Session, SessionState, Stream};
pub(crate) use report::ConnectionInfo;
pub use report::{ClientReport, DeviceReport, GroupReport, IoTotals, ROOT_NAME, TargetReport};
pub(crate) use ring::Message;
pub use settings::{DeviceOptions, GroupSetting, GroupSpec, LATENCY_AUTO, SocketWay};
pub use stats::{ClientStats, DeviceStats, GroupSum, StateFigure};
pub use tracing::{TraceBatch, TraceClient, TraceReader};
pub use watchdog::Stall;
