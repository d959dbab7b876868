//! Experiments, statistics, results and reports.
#![forbid(unsafe_code)]

pub mod bench;
pub mod bounds;
pub mod calibrate;
pub mod config;
pub mod diff;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod differ;
pub mod experiment;
pub mod explain;
pub mod grid;
pub mod judge;
pub mod merge;
pub mod oracle;
pub mod population;
pub mod recommend;
pub mod registry;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod run;
pub mod stats;
pub mod timeline;
pub mod validate;
pub mod what_if;
pub mod words;
pub mod world;
