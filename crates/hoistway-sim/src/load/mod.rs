//! Workloads (specs/experiments.md section 5).
