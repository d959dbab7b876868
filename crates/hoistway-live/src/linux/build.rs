//! Builds a kernel.
