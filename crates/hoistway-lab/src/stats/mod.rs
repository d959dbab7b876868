//! Statistics over repetitions (specs/statistics.md).
