//! Every key that is known, and what becomes of it.

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Carried out.
    Carried,
    /// It cannot matter here, for this reason.
    Ignored(&'static str),
    /// It would matter; why it is not carried out.
    Unsupported(&'static str),
}

/// What stands behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A value.
    Value,
    /// Nothing, or 0 or 1.
    Switch,
}

/// A key.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its other name, or nothing.
    pub other: &'static str,
    /// What stands behind it.
    pub takes: Takes,
    /// What becomes of it.
    pub fate: Fate,
}

/// A key is its row.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        std::ptr::eq(self, other)
    }
}

use Fate::{Carried, Ignored, Unsupported};

const fn key(name: &'static str, other: &'static str, fate: Fate) -> Key {
    Key { name, other, takes: Takes::Value, fate }
}

const fn switch(name: &'static str, other: &'static str, fate: Fate) -> Key {
    Key { name, other, takes: Takes::Switch, fate }
}

/// Values with which a key asks for nothing.
pub const NOTHING: &[&str] = &["0", "none", "inline"];

/// Keys of sizes.
pub const SIZES: &[&str] = &[
    "bs",
    "bsrange",
    "ba",
    "size",
    "filesize",
    "io_size",
    "offset",
    "offset_increment",
    "offset_align",
    "rate",
];

const REPORT: &str = "results are in the run directory and in --output-format=fio-json";
const CONTENT: &str = "models do not look at contents, and worlds with data write their own";
const CPU: &str =
    "what the interface costs the processor is one figure of the host (direct_call_ns, submit_ns)";
const PLACE: &str = "each process has a processor of its own";
const SEED: &str = "--seed decides all random choices; repetitions use seeds one behind the other";
const LAYOUT: &str = "files that are read exist before the run; how they were made does not matter";
const VERIFY: &str =
    "reading back to verify is not part of the load; worlds with data check all that they read";
const TARGET: &str = "depth is not searched for; compare several depths instead";
const COMMANDS: &str = "no commands are run";
const ERRORS: &str = "the first error ends the run";
const TRIMS: &str = "trims are not modelled";
const ZONES: &str = "zoned drives and zones of a file are not modelled";
const RECORDED: &str = "`hoistway replay` takes recorded I/O";
const ONE_PRIO: &str = "a process has one priority";
const FLOW: &str = "jobs do not wait for each other's calls";
const STEADY: &str = "give runtime and ramp_time";
const CPUIO: &str = "engine cpuio is not known";

/// Every key, by subject.
pub static KEYS: &[Key] = &[
    // What it does.
    key("rw", "readwrite", Carried),
    key("rwmixread", "", Carried),
    key("rwmixwrite", "", Carried),
    key("bs", "blocksize", Carried),
    key("bsrange", "blocksize_range", Carried),
    key("bssplit", "", Carried),
    key("ba", "blockalign", Carried),
    switch(
        "bs_unaligned",
        "blocksize_unaligned",
        Unsupported("sizes of a range are multiples of its smallest"),
    ),
    key("bs_is_seq_rand", "", Unsupported("sizes are by direction")),
    key("percentage_random", "", Carried),
    switch("norandommap", "", Carried),
    key("softrandommap", "", Ignored("the map of visited blocks always fits")),
    key("random_distribution", "", Carried),
    key("random_generator", "", Carried),
    key("randrepeat", "", Ignored(SEED)),
    key("allrandrepeat", "", Ignored(SEED)),
    key("randseed", "", Ignored(SEED)),
    key("unified_rw_reporting", "", Ignored(REPORT)),
    key("rw_sequencer", "", Carried),
    // Where.
    key("filename", "", Carried),
    key("lockfile", "", Unsupported("jobs do not lock files against each other")),
    key("directory", "", Ignored("files lie on the drive that --drive, --file or --device names")),
    key("filename_format", "", Carried),
    key("unique_filename", "", Ignored("there are no clients")),
    key("opendir", "", Unsupported("files are not looked for")),
    key("size", "", Carried),
    key("filesize", "", Carried),
    key("io_size", "io_limit", Carried),
    key("offset", "fileoffset", Carried),
    key("offset_increment", "", Carried),
    key("offset_align", "", Carried),
    key("number_ios", "", Carried),
    key("nrfiles", "nr_files", Carried),
    key("openfiles", "", Carried),
    key("file_service_type", "", Carried),
    key(
        "fill_device",
        "fill_fs",
        Unsupported("a run does not end by itself when a file system is full"),
    ),
    key("overwrite", "", Carried),
    key("file_append", "", Unsupported("writes begin at the offset")),
    key("fallocate", "", Ignored(LAYOUT)),
    key("fadvise_hint", "", Carried),
    key("write_hint", "", Ignored("no drive model looks at hints of how long data lives")),
    key("invalidate", "", Carried),
    key("pre_read", "", Unsupported("caches are cold when a run begins")),
    key("create_serialize", "", Ignored(LAYOUT)),
    key("create_fsync", "", Ignored(LAYOUT)),
    key("create_on_open", "", Ignored(LAYOUT)),
    key("create_only", "", Unsupported("files need not be made beforehand")),
    key("allow_file_create", "", Ignored(LAYOUT)),
    key(
        "allow_mounted_write",
        "",
        Ignored("hoistway has rules of its own for devices that are in use"),
    ),
    key("unlink", "", Ignored("files are gone behind the run")),
    key("unlink_each_loop", "", Unsupported("a file is kept for all loops")),
    key("zonemode", "", Unsupported(ZONES)),
    key("zonesize", "", Unsupported(ZONES)),
    key("zonecapacity", "", Unsupported(ZONES)),
    key("zonerange", "", Unsupported(ZONES)),
    key("zoneskip", "", Unsupported(ZONES)),
    key("read_beyond_wp", "", Unsupported(ZONES)),
    key("max_open_zones", "", Unsupported(ZONES)),
    key("job_max_open_zones", "", Unsupported(ZONES)),
    key("ignore_zone_limits", "", Unsupported(ZONES)),
    key("zone_reset_threshold", "", Unsupported(ZONES)),
    key("zone_reset_frequency", "", Unsupported(ZONES)),
    // How.
    key("ioengine", "", Carried),
    key("direct", "", Carried),
    key("buffered", "", Carried),
    key("atomic", "", Unsupported("atomic writes are not modelled")),
    key("iodepth", "", Carried),
    key("iodepth_batch", "iodepth_batch_submit", Carried),
    key("iodepth_batch_complete_min", "iodepth_batch_complete", Carried),
    key("iodepth_batch_complete_max", "", Ignored("all calls that are over are taken")),
    key("iodepth_low", "", Carried),
    key("serialize_overlap", "", Unsupported("calls that overlap are not held back")),
    key("io_submit_mode", "", Unsupported("calls are submitted by the process itself")),
    switch("hipri", "", Ignored(CPU)),
    key("hipri_percentage", "", Ignored(CPU)),
    switch("registerfiles", "", Ignored(CPU)),
    switch("fixedbufs", "", Ignored(CPU)),
    switch("sqthread_poll", "", Ignored(CPU)),
    key("sqthread_poll_cpu", "", Ignored(CPU)),
    key("nonvectored", "", Ignored(CPU)),
    key("uncached", "", Unsupported("RWF_UNCACHED is not modelled")),
    key("nowait", "", Unsupported("RWF_NOWAIT is not modelled")),
    key("force_async", "", Ignored(CPU)),
    switch("userspace_reap", "", Ignored(CPU)),
    key("iomem", "mem", Ignored(CPU)),
    key("iomem_align", "mem_align", Ignored(CPU)),
    key("hugepage-size", "", Ignored(CPU)),
    key("lockmem", "", Unsupported("set ram in the experiment's [host]")),
    key("gtod_reduce", "", Ignored(REPORT)),
    key("gtod_cpu", "", Ignored(REPORT)),
    key("disable_lat", "", Ignored(REPORT)),
    key("disable_clat", "", Ignored(REPORT)),
    key("disable_slat", "", Ignored(REPORT)),
    key("disable_bw_measurement", "disable_bw", Ignored(REPORT)),
    key("clocksource", "", Ignored(REPORT)),
    // Syncs.
    key("fsync", "", Carried),
    key("fdatasync", "", Carried),
    key("end_fsync", "", Carried),
    key("fsync_on_close", "", Carried),
    key("sync", "", Carried),
    key("sync_file_range", "", Unsupported("sync_file_range is not modelled")),
    key("write_barrier", "", Unsupported("barriers are flushes; give fdatasync")),
    // Pace.
    key("thinktime", "", Carried),
    key("thinktime_spin", "", Carried),
    key("thinktime_blocks", "", Carried),
    key("thinktime_blocks_type", "", Carried),
    key("thinktime_iotime", "", Carried),
    key("rate", "", Carried),
    key("rate_iops", "", Carried),
    key("rate_process", "", Carried),
    key("rate_min", "ratemin", Unsupported("a job that falls below it goes on")),
    key("rate_iops_min", "", Unsupported("a job that falls below it goes on")),
    key("rate_cycle", "ratecycle", Ignored("the rate is kept from call to call")),
    key("rate_ignore_thinktime", "", Carried),
    key("latency_target", "", Unsupported(TARGET)),
    key("latency_window", "", Unsupported(TARGET)),
    key("latency_percentile", "", Unsupported(TARGET)),
    key("latency_run", "", Unsupported(TARGET)),
    key(
        "max_latency",
        "",
        Unsupported("a slow call does not end the run; its latency is in the results"),
    ),
    // Time and order.
    key("runtime", "timeout", Carried),
    switch("time_based", "", Carried),
    key("startdelay", "", Carried),
    key("ramp_time", "", Carried),
    key("loops", "", Carried),
    switch("stonewall", "wait_for_previous", Carried),
    key("wait_for", "", Carried),
    switch("exitall", "", Carried),
    switch("exitall_on_error", "", Ignored(ERRORS)),
    key("exit_what", "", Carried),
    switch("new_group", "", Carried),
    switch("group_reporting", "", Ignored(REPORT)),
    key("stats", "", Ignored(REPORT)),
    key("numjobs", "", Carried),
    switch("thread", "", Ignored("threads and processes are one to the block layer")),
    key("flow", "", Unsupported(FLOW)),
    key("flow_id", "", Unsupported(FLOW)),
    key("flow_sleep", "", Unsupported(FLOW)),
    // Priorities and groups.
    key("prio", "", Carried),
    key("prioclass", "", Carried),
    key("priohint", "", Unsupported("hints are not modelled")),
    key("cmdprio_percentage", "", Unsupported(ONE_PRIO)),
    key("cmdprio_class", "", Unsupported(ONE_PRIO)),
    key("cmdprio", "", Unsupported(ONE_PRIO)),
    key("cmdprio_bssplit", "", Unsupported(ONE_PRIO)),
    key("nice", "", Carried),
    key("cgroup", "", Carried),
    key("cgroup_weight", "", Carried),
    key("cgroup_nodelete", "", Ignored("groups are those of the run")),
    key("cpus_allowed", "", Ignored(PLACE)),
    key("cpumask", "", Ignored(PLACE)),
    key("cpus_allowed_policy", "", Ignored(PLACE)),
    key("numa_cpu_nodes", "", Ignored(PLACE)),
    key("numa_mem_policy", "", Ignored(PLACE)),
    key("uid", "", Ignored("there are no users")),
    key("gid", "", Ignored("there are no users")),
    key("ioscheduler", "", Unsupported("--config says which schedulers are compared")),
    // Contents.
    switch("zero_buffers", "", Ignored(CONTENT)),
    switch("refill_buffers", "", Ignored(CONTENT)),
    key("scramble_buffers", "", Ignored(CONTENT)),
    key("buffer_compress_percentage", "", Ignored(CONTENT)),
    key("buffer_compress_chunk", "", Ignored(CONTENT)),
    key("buffer_pattern", "", Ignored(CONTENT)),
    key("dedupe_percentage", "", Ignored(CONTENT)),
    key("dedupe_mode", "", Ignored(CONTENT)),
    key("dedupe_working_set_percentage", "", Ignored(CONTENT)),
    key("dedupe_global", "", Ignored(CONTENT)),
    key("verify", "", Unsupported(VERIFY)),
    key("do_verify", "", Unsupported(VERIFY)),
    switch("verify_only", "", Unsupported(VERIFY)),
    key("experimental_verify", "", Unsupported(VERIFY)),
    key("verifysort", "", Ignored(VERIFY)),
    key("verify_offset", "", Ignored(VERIFY)),
    key("verify_interval", "", Ignored(VERIFY)),
    key("verify_pattern", "", Ignored(VERIFY)),
    key("verify_fatal", "", Ignored(VERIFY)),
    key("verify_dump", "", Ignored(VERIFY)),
    key("verify_async", "", Unsupported(VERIFY)),
    key("verify_async_cpus", "", Ignored(VERIFY)),
    key("verify_backlog", "", Unsupported(VERIFY)),
    key("verify_backlog_batch", "", Unsupported(VERIFY)),
    key("verify_state_load", "", Ignored(VERIFY)),
    key("verify_state_save", "", Ignored(VERIFY)),
    key("trim_percentage", "", Unsupported(TRIMS)),
    key("trim_verify_zero", "", Unsupported(TRIMS)),
    key("trim_backlog", "", Unsupported(TRIMS)),
    key("trim_backlog_batch", "", Unsupported(TRIMS)),
    // Recordings and logs.
    key("read_iolog", "", Unsupported(RECORDED)),
    key("read_iolog_chunked", "", Unsupported(RECORDED)),
    key("write_iolog", "", Ignored("`hoistway run --save-trace` writes the I/O down")),
    key("replay_no_stall", "", Unsupported(RECORDED)),
    key("replay_time_scale", "", Unsupported(RECORDED)),
    key("replay_redirect", "", Unsupported(RECORDED)),
    key("replay_scale", "", Unsupported(RECORDED)),
    key("replay_align", "", Unsupported(RECORDED)),
    key("replay_skip", "", Unsupported(RECORDED)),
    key("merge_blktrace_file", "", Unsupported(RECORDED)),
    key("merge_blktrace_scalars", "", Unsupported(RECORDED)),
    key("merge_blktrace_iters", "", Unsupported(RECORDED)),
    key("write_lat_log", "", Ignored(REPORT)),
    key("write_bw_log", "", Ignored(REPORT)),
    key("write_iops_log", "", Ignored(REPORT)),
    key("write_hist_log", "", Ignored(REPORT)),
    key("log_entries", "", Ignored(REPORT)),
    key("log_avg_msec", "", Ignored(REPORT)),
    key("log_hist_msec", "", Ignored(REPORT)),
    key("log_hist_coarseness", "", Ignored(REPORT)),
    key("log_max_value", "", Ignored(REPORT)),
    key("log_offset", "", Ignored(REPORT)),
    key("log_prio", "", Ignored(REPORT)),
    key("log_compression", "", Ignored(REPORT)),
    key("log_compression_cpus", "", Ignored(REPORT)),
    key("log_store_compressed", "", Ignored(REPORT)),
    key("log_unix_epoch", "", Ignored(REPORT)),
    key("log_alternate_epoch", "", Ignored(REPORT)),
    key("log_alternate_epoch_clock_id", "", Ignored(REPORT)),
    key("block_error_percentiles", "", Ignored(REPORT)),
    key("per_job_logs", "", Ignored(REPORT)),
    key("bwavgtime", "", Ignored(REPORT)),
    key("iopsavgtime", "", Ignored(REPORT)),
    key("clat_percentiles", "", Ignored(REPORT)),
    key("lat_percentiles", "", Ignored(REPORT)),
    key("slat_percentiles", "", Ignored(REPORT)),
    key("percentile_list", "", Ignored(REPORT)),
    key("significant_figures", "", Ignored(REPORT)),
    key("disk_util", "", Ignored(REPORT)),
    key("steadystate", "ss", Unsupported(STEADY)),
    key("steadystate_duration", "ss_dur", Unsupported(STEADY)),
    key("steadystate_ramp_time", "ss_ramp", Unsupported(STEADY)),
    // The file itself.
    key("description", "", Carried),
    key("name", "", Carried),
    key("kb_base", "", Carried),
    key("unit_base", "", Ignored(REPORT)),
    key("continue_on_error", "", Ignored(ERRORS)),
    key("ignore_error", "", Ignored(ERRORS)),
    key("error_dump", "", Ignored(ERRORS)),
    key("exec_prerun", "", Unsupported(COMMANDS)),
    key("exec_postrun", "", Unsupported(COMMANDS)),
    key("profile", "", Unsupported("profiles of fio are not known")),
    key("cpuload", "", Unsupported(CPUIO)),
    key("cpuchunks", "", Unsupported(CPUIO)),
    key("cpumode", "", Unsupported(CPUIO)),
    key("exit_on_io_done", "", Unsupported(CPUIO)),
];

/// The row of a key under any of its names.
pub fn find(key: &str) -> Option<&'static Key> {
    KEYS.iter().find(|row| row.name == key || (!row.other.is_empty() && row.other == key))
}

/// Engines, and whether they have several calls in flight.
pub static ENGINES: &[(&str, bool)] = &[
    ("sync", false),
    ("psync", false),
    ("vsync", false),
    ("pvsync", false),
    ("pvsync2", false),
    ("libaio", true),
    ("io_uring", true),
    ("posixaio", true),
    ("solarisaio", true),
    ("windowsaio", true),
];
