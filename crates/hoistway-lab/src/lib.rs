//! Experiments, statistics, results and reports.
#![forbid(unsafe_code)]

#[cfg(feature = "studies")]
pub mod bench;
#[cfg(feature = "studies")]
pub mod bounds;
#[cfg(feature = "studies")]
pub mod calibrate;
pub mod config;
pub mod diff;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod differ;
pub mod experiment;
#[cfg(feature = "studies")]
pub mod explain;
pub mod grid;
pub mod judge;
#[cfg(feature = "studies")]
pub mod merge;
#[cfg(feature = "studies")]
pub mod oracle;
#[cfg(feature = "studies")]
pub mod population;
#[cfg(feature = "studies")]
pub mod recommend;
pub mod registry;
#[cfg(feature = "studies")]
pub mod replay;
pub mod report;
#[cfg(feature = "studies")]
pub mod reproduce;
pub mod result;
pub mod run;
pub mod stats;
#[cfg(feature = "studies")]
pub mod timeline;
#[cfg(feature = "studies")]
pub mod validate;
#[cfg(feature = "studies")]
pub mod what_if;
pub mod words;
pub mod world;
