//! A scheduler of your own, as one file. The algorithm is `rr.rs`, its name and settings are `about.toml`, and `module.rs` makes
//! a module of them. Three commands, in this folder, with a `hoistway` that has the feature `plugin`:
//!
//! ```text
//! cargo test                                              # natively: the contract of schedulers, and a run beside the module
//! cargo module                                            # target/wasm32-unknown-unknown/release/rr.wasm
//! hoistway compare mine.toml --scheduler target/wasm32-unknown-unknown/release/rr.wasm    # beside bfq
//! ```
//!
//! The interface: docs/reference/plugin.md of hoistway.
#![cfg_attr(target_family = "wasm", no_std)]
extern crate alloc;

#[cfg(target_family = "wasm")]
mod module;
pub mod rr;

/// Name, settings and their ranges.
pub const ABOUT: &str = include_str!("about.toml");
