//! Hard disk.
use super::keys::Key;
use super::{Drive, DriveFile, Model, Wrong};

pub(super) const MODEL: Model = Model {
    name: "hdd",
    summary: "hard disk: zones, seeks, rotation, read-ahead, write cache, choice of the next command",
    keys: HDD_KEYS,
    check,
    build,
};

const HDD_KEYS: &[Key] = &[
    Key::int("actuators", 1, 2, "Independent arm assemblies."),
    Key::int("rpm", 1, 1_000_000, "Revolutions per minute."),
    Key::int("heads", 1, 1000, "Surfaces (per actuator)."),
    Key::int("zones", 2, 10_000, "Recording zones, all with equally many tracks."),
    Key::rate("outer_mb_s", "Sustained rate of the outermost zone (per actuator)."),
    Key::rate("inner_mb_s", "Sustained rate of the innermost zone (per actuator)."),
    Key::ms("track_switch_ms", "From one track to the next; the skew between tracks."),
    Key::ms("seek_track_ms", "Seek over one cylinder."),
    Key::ms("seek_avg_ms", "Mean seek over random pairs."),
    Key::ms("seek_full_ms", "Seek over all cylinders."),
    Key::ms("write_settle_ms", "More for a write after a seek."),
    Key::knots("seek_knots", "Measured seek curve, instead of the formula.").or("the formula"),
    Key::us("cmd_overhead_us", "Controller time per command."),
    Key::int("segments", 0, 100_000, "Segments of the read buffer."),
    Key::kib("segment_kib", "Size of a segment."),
    Key::kib("readahead_kib", "How far the drive reads on after a read."),
    Key::kib("skip_gap_kib", "Gap up to which a read still continues the read-ahead."),
    Key::flag("write_cache", "Writes complete when they are in the buffer."),
    Key::kib("write_buffer_kib", "Size of the write buffer."),
    Key::int(
        "destage_high_pct",
        1,
        100,
        "Share of the buffer from which destaging has no penalty.",
    ),
    Key::ms("destage_idle_ms", "Idle time after which the drive destages."),
    Key::ms("destage_penalty_ms", "Handicap of destaging against waiting commands."),
    Key::kib1("destage_chunk_kib", "Most that one destaging operation writes."),
    Key::ms("age_weight_ms_per_s", "Positioning time that one second of waiting outweighs."),
    Key::ms("age_limit_ms", "Waiting time from which a command goes first; 0 = none."),
];

fn check(_file: &DriveFile) -> Result<(), Wrong> {
    Ok(())
}

fn build(_file: &DriveFile, _seed: u64) -> Box<dyn Drive> {
    todo!()
}

/// First byte of the second actuator.
pub(super) fn border(file: &DriveFile) -> u64 {
    let sector = file.identity.sector_bytes;
    file.identity.capacity_bytes / 2 / sector * sector
}
