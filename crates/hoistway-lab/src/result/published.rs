//! Published values, with and without I/O control, and the table by which their long names are joined
//! with ours (specs/experiments.md 9).

use super::{Metric, csv};
use std::sync::OnceLock;

/// The published table as it stands in the repository.
const TEXT: &str = include_str!("../../data/published.csv");

/// One published value in our words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Experiment id.
    pub experiment: &'static str,
    /// Drive id.
    pub drive: &'static str,
    /// Configuration id.
    pub config: &'static str,
    /// Workload id.
    pub workload: &'static str,
    /// Metric id.
    pub metric: &'static str,
    /// Unit of the metric.
    pub unit: &'static str,
    /// The value; of a bound, the bound.
    pub value: f64,
    /// Our unit over the document's: `value` is so many times what the document says.
    pub factor: f64,
    /// All that is known is that it lies above `value`: `>60`.
    pub beyond: bool,
    /// The document it comes from.
    pub source: &'static str,
}

impl Published {
    /// The value, unless only a bound is known.
    pub fn exactly(&self) -> Option<f64> {
        (!self.beyond).then_some(self.value)
    }
}

/// Published name, ours.
type Names = &'static [(&'static str, &'static str)];

const DRIVES: Names = &[
    ("Samsung NVMe 970 PRO", "samsung-970-pro"),
    ("Plextor SATA PX-256M5S", "plextor-px-256m5s"),
    ("Hitachi HDD HTS72755", "hitachi-hts727550a9e364"),
    ("Intel SSD 320 160G", "intel-320-160g"),
    // Its figures are those of a disk that was not given more than one command (drives/README.md).
    ("HDD (2009, unnamed)", "laptop-hdd-2009-noncq"),
    ("SD card (2009, unnamed)", "sd-card-2009"),
    ("netbook flash drive (2009, unnamed)", "netbook-flash-2009"),
    ("Maxtor 6L080L0 82GB (slow)", "maxtor-6l080l0"),
    ("Maxtor 7L250S0 250GB (medium)", "maxtor-7l250s0"),
    ("Maxtor STM332061 320GB (fast)", "maxtor-stm3320613as"),
];

/// Holds for every experiment that has no rule of its own.
const ANY: &str = "";

/// (experiment, published configuration, ours). The first that fits holds.
const CONFIGS: &[(&str, &str, &str)] = &[
    (ANY, "none-none", "none-none"),
    (ANY, "lat-none", "lat-none"),
    (ANY, "none-bfq", "none-bfq"),
    (ANY, "prop-bfq", "prop-bfq"),
    (ANY, "throttling (low limits)", "low-none"),
    (ANY, "noop", "noop"),
    (ANY, "sio", "sio"),
    (ANY, "deadline", "deadline"),
    (ANY, "deadline-original", "deadline"),
    (ANY, "deadline-patched", "deadline-zoccolo"),
    (
        ANY,
        "deadline-sync-async (second patch of the series)",
        "deadline-zoccolo{preset=sync-async}",
    ),
    (ANY, "raw", "none-none"),
    (ANY, "any", "none-none"),
    // The default scheduler then.
    (ANY, "idle disk", "cfq"),
    ("deadline-2009-fsync", "cfq 2.6.30-rc2", "cfq-2.6.30"),
    ("deadline-2009-tiotest", "cfq", "cfq-2.6.30"),
    ("deadline-2009-tiotest-sd", "cfq", "cfq-2.6.30"),
    (ANY, "cfq", "cfq"),
    (ANY, "cfq low_latency on", "cfq"),
    (ANY, "cfq 2.6.34", "cfq"),
    ("startup-ssd-2012", "bfq", "bfq-v4"),
    ("throughput-ssd-2012", "bfq", "bfq-v4"),
    ("fairness-2010", "bfq", "bfq-v1"),
    (ANY, "bfq 2.6.34", "bfq-v1"),
    (ANY, "bfq low_latency on", "bfq-v1"),
    (ANY, "bfq low_latency off", "bfq-v1{low_latency=0}"),
];

/// (experiment, published workload, ours). The sporadic row of `latency-2019` is a mean over both loads
/// and belongs to no single run of ours, so it is not joined.
const WORKLOADS: &[(&str, &str, &str)] = &[
    ("latency-2019", "1 target 4KiB randread vs 15 seq readers", "readers"),
    ("latency-2019", "1 target 4KiB randread vs 15 seq writers fdatasync", "writers"),
    ("drive-2018", "sequential read", "seq-read"),
    ("drive-2018", "random read", "rand-read"),
    ("drive-2010", "hdparm peak sequential read", "seq-read"),
    ("randread-2018", "buffered sync 4KiB random reads, several processes", "8r-rand"),
    ("multiclient-2018", "4 seq reader clients + 1 random reader client", "4r-seq+1r-rand"),
    (
        "startup-ssd-2012",
        "gnome-terminal start-up vs 10 raw seq readers",
        "gnome-terminal+10r-rawseq",
    ),
    ("startup-ssd-2012", "konsole start-up vs 10 raw seq readers", "konsole+10r-rawseq"),
    ("startup-ssd-2012", "xterm start-up vs 10 raw seq readers", "xterm+10r-rawseq"),
    ("startup-ssd-2012", "oowriter start-up vs 10 raw seq readers", "lowriter+10r-rawseq"),
    (
        "startup-ssd-2012",
        "gnome-terminal start-up vs 10 raw rand readers",
        "gnome-terminal+10r-rawrand",
    ),
    ("startup-ssd-2012", "konsole start-up vs 10 raw rand readers", "konsole+10r-rawrand"),
    ("startup-ssd-2012", "xterm start-up vs 10 raw rand readers", "xterm+10r-rawrand"),
    ("startup-ssd-2012", "oowriter start-up vs 10 raw rand readers", "lowriter+10r-rawrand"),
    ("startup-hdd-2010", "konsole -e /bin/true, cold cache", "konsole+idle"),
    ("startup-hdd-2010", "konsole vs 10r-seq", "konsole+10r-seq"),
    ("startup-hdd-2010", "konsole vs 10r-rand", "konsole+10r-rand"),
    ("startup-hdd-2010", "konsole vs 5r5w-seq", "konsole+5r5w-seq"),
    ("startup-hdd-2010", "konsole vs 5r5w-rand", "konsole+5r5w-rand"),
    ("shortcmd-2010", "bash -c exit vs 10r-seq", "bash+10r-seq"),
    ("shortcmd-2010", "bash -c exit vs 10r-rand", "bash+10r-rand"),
    ("shortcmd-2010", "bash -c exit vs 5r5w-seq", "bash+5r5w-seq"),
    ("shortcmd-2010", "bash -c exit vs 5r5w-rand", "bash+5r5w-rand"),
    ("shortcmd-2010", "10r-seq while bash -c exit is started once a second", "bash+10r-seq"),
    ("shortcmd-2010", "10r-rand while bash -c exit is started once a second", "bash+10r-rand"),
    ("shortcmd-2010", "5r5w-seq while bash -c exit is started once a second", "bash+5r5w-seq"),
    ("shortcmd-2010", "5r5w-rand while bash -c exit is started once a second", "bash+5r5w-rand"),
    ("throughput-2010", "10r-seq", "10r-seq"),
    ("throughput-2010", "10r-rand", "10r-rand"),
    ("throughput-2010", "5r5w-seq", "5r5w-seq"),
    ("throughput-2010", "5r5w-rand", "5r5w-rand"),
    ("fairness-2010", "2 parallel readers of files 500 MB apart", "2r-seq"),
    ("throughput-ssd-2012", "10 raw seq readers", "10r-rawseq"),
    ("throughput-ssd-2012", "10 raw rand readers", "10r-rawrand"),
    ("deadline-2009-fsync", "fsync-tester vs dd bs=8M count=256; sync; rm loop", "fsync-tester"),
    ("deadline-2009-tiotest", "write phase, 32 threads, total 2560 MiB", "write"),
    ("deadline-2009-tiotest", "write phase, 32 threads", "write"),
    ("deadline-2009-tiotest", "random write phase, 32 threads, total 125 MiB", "rand-write"),
    ("deadline-2009-tiotest", "random write phase, 32 threads", "rand-write"),
    ("deadline-2009-tiotest", "read phase, 32 threads, total 2560 MiB", "read"),
    ("deadline-2009-tiotest", "read phase, 32 threads", "read"),
    ("deadline-2009-tiotest", "random read phase, 32 threads, total 125 MiB", "rand-read"),
    ("deadline-2009-tiotest", "random read phase, 32 threads", "rand-read"),
    ("deadline-2009-tiotest", "total phase, 32 threads", "total"),
    ("deadline-2009-tiotest-sd", "write phase, 16 threads, total 1280 MiB", "write"),
    ("deadline-2009-tiotest-sd", "write phase, 16 threads", "write"),
    ("deadline-2009-tiotest-sd", "random write phase, 16 threads, total 62.5 MiB", "rand-write"),
    ("deadline-2009-tiotest-sd", "random write phase, 16 threads", "rand-write"),
    ("deadline-2009-tiotest-sd", "read phase, 16 threads, total 1280 MiB", "read"),
    ("deadline-2009-tiotest-sd", "read phase, 16 threads", "read"),
    ("deadline-2009-tiotest-sd", "random read phase, 16 threads, total 62.5 MiB", "rand-read"),
    ("deadline-2009-tiotest-sd", "random read phase, 16 threads", "rand-read"),
    ("deadline-2009-tiotest-sd", "total phase, 16 threads", "total"),
    ("deadline-2009-fio", "seqwrite: 1 process, 4KiB buffered sequential write, psync", "seqwrite"),
    ("netboot-2009", "netbook boot", "boot"),
];

/// (published metric, published unit, ours, our unit, factor).
const METRICS: &[(&str, &str, &str, &str, f64)] = &[
    ("throughput", "MB/s", "throughput_total", "MB/s", 1.0),
    ("throughput_total", "MB/s", "throughput_total", "MB/s", 1.0),
    ("throughput_total", "MiB/s", "throughput_total", "MB/s", 1.048_576),
    // What one process was given: the writer of `seqwrite`, the readers of `2r-seq`.
    ("throughput", "KiB/s", "throughput_interferer_max", "MB/s", 1.024e-3),
    ("throughput_reader1", "MB/s", "throughput_interferer_max", "MB/s", 1.0),
    ("throughput_reader2", "MB/s", "throughput_interferer_min", "MB/s", 1.0),
    ("iops", "kIOPS", "iops", "1/s", 1000.0),
    ("latency_avg", "ms", "latency_avg", "ms", 1.0),
    ("latency_max", "ms", "latency_max", "ms", 1.0),
    ("latency_share_over_2s", "percent", "latency_share_over_2s", "percent", 1.0),
    ("latency_share_over_10s", "percent", "latency_share_over_10s", "percent", 1.0),
    ("time", "s", "phase_time", "s", 1.0),
    ("fsync_time mean of samples", "s", "latency_avg", "ms", 1000.0),
    ("fsync_time median of samples", "s", "latency_p50", "ms", 1000.0),
    ("fsync_time max of samples", "s", "latency_max", "ms", 1000.0),
    ("startup_time", "s", "startup_time", "s", 1.0),
    ("boot_time", "s", "startup_time", "s", 1.0),
];

/// Every published value that has a place among our names.
pub fn rows() -> &'static [Published] {
    static ROWS: OnceLock<Vec<Published>> = OnceLock::new();
    ROWS.get_or_init(|| documents().iter().filter_map(|row| join(row)).collect())
}

/// Every row in the words of its document: experiment, drive, configuration, workload, metric, unit,
/// value, document.
pub fn documents() -> Vec<Vec<String>> {
    let mut all = csv::parse(TEXT).expect("the published table is well-formed (tested)");
    all.remove(0);
    all
}

/// The published values of one cell.
pub fn rows_of(
    experiment: &str,
    drive: &str,
    config: &str,
    workload: &str,
) -> impl Iterator<Item = &'static Published> {
    rows().iter().filter(move |r| {
        r.experiment == experiment
            && r.drive == drive
            && r.config == config
            && r.workload == workload
    })
}

/// The bound behind a published metric without a value: 60 of a start-up published as `>60`.
pub fn bound_of(metric: &Metric) -> Option<f64> {
    let of_cell = rows_of(&metric.experiment, &metric.drive, &metric.config, &metric.workload);
    let mut bounds = of_cell.filter(|r| r.beyond && metric.metric == r.metric);
    bounds.next().filter(|_| metric.value.is_none()).map(|r| r.value)
}

/// A row of [`documents`] in our words, if it has a place among our names.
pub fn join(row: &[String]) -> Option<Published> {
    let [experiment, drive, config, workload, metric, unit, value, source] = row else {
        return None;
    };
    let &(experiment, _, workload) =
        WORKLOADS.iter().find(|w| w.0 == experiment && w.1 == workload)?;
    let &(_, _, metric, unit, factor) = METRICS.iter().find(|m| m.0 == metric && m.1 == unit)?;
    let (value, beyond) = match value.strip_prefix('>') {
        Some(bound) => (bound, true),
        None => (value.as_str(), false),
    };
    Some(Published {
        experiment,
        drive: drive_of(drive)?,
        config: config_of(experiment, config)?,
        workload,
        metric,
        unit,
        value: value.parse::<f64>().ok()? * factor,
        factor,
        beyond,
        source: source_of(source)?,
    })
}

/// Our id of a published drive.
pub fn drive_of(name: &str) -> Option<&'static str> {
    DRIVES.iter().find(|n| n.0 == name).map(|n| n.1)
}

/// Our name of a published configuration.
fn config_of(experiment: &str, config: &str) -> Option<&'static str> {
    let fits = |c: &&(&str, &str, &'static str)| (c.0 == ANY || c.0 == experiment) && c.1 == config;
    CONFIGS.iter().find(fits).map(|c| c.2)
}

/// The document's name as a part of the embedded text.
fn source_of(name: &str) -> Option<&'static str> {
    let at = TEXT.find(name)?;
    TEXT.get(at..at + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_six_averages_of_latency_2019_are_joined() {
        let expected = [
            ("samsung-970-pro", "readers", 2.0),
            ("samsung-970-pro", "writers", 3.0),
            ("plextor-px-256m5s", "readers", 39.0),
            ("plextor-px-256m5s", "writers", 3.0),
            ("hitachi-hts727550a9e364", "readers", 4500.0),
            ("hitachi-hts727550a9e364", "writers", 56.0),
        ];
        for (drive, workload, value) in expected {
            let rows: Vec<_> = rows_of("latency-2019", drive, "none-none", workload).collect();
            assert_eq!(rows.len(), 1, "{drive} {workload}");
            assert_eq!((rows[0].metric, rows[0].value), ("latency_avg", value));
            assert!(rows[0].source.ends_with(".txt"));
        }
    }

    /// A cell has one published value of a metric: what is joined twice would be shown twice.
    #[test]
    fn rows_with_control_are_joined_and_none_twice() {
        let one = |e: &str, d: &str, c: &str, w: &str, m: &str| {
            let mut found = rows_of(e, d, c, w).filter(|r| r.metric == m);
            let first = found.next().map(|r| (r.value, r.beyond));
            assert_eq!(found.next(), None, "{e} {d} {c} {w} {m}");
            first
        };
        let maxtor = "maxtor-stm3320613as";
        let konsole = |c| one("startup-hdd-2010", maxtor, c, "konsole+10r-seq", "startup_time");
        assert_eq!(konsole("bfq-v1"), Some((2.88, false)));
        assert_eq!(konsole("bfq-v1{low_latency=0}"), Some((19.9, false)));
        assert_eq!(konsole("cfq"), Some((26.03, false)));
        let start =
            |c| one("startup-ssd-2012", "intel-320-160g", c, "xterm+10r-rawseq", "startup_time");
        assert_eq!((start("cfq"), start("bfq-v4")), (Some((60.0, true)), Some((0.3, false))));
        assert_eq!(start("bfq"), None, "today's is ours to add");
        for r in rows() {
            assert!(one(r.experiment, r.drive, r.config, r.workload, r.metric).is_some());
        }
        const LAPTOP: &str = "laptop-hdd-2009-noncq";
        let fsync = |c, m| one("deadline-2009-fsync", LAPTOP, c, "fsync-tester", m);
        assert_eq!(fsync("deadline", "latency_p50"), Some((2518.9, false)));
        assert_eq!(fsync("cfq-2.6.30", "latency_max"), Some((572.0, false)));
    }

    #[test]
    fn every_drive_of_the_table_exists() {
        for row in rows() {
            let known = hoistway_sim::drive::DriveFile::ids();
            assert!(known.contains(&row.drive), "{}", row.drive);
        }
        assert_eq!(rows().len(), 165, "rows of data/published.csv that have a place with us");
        let peak = |drive| rows_of("drive-2010", drive, "none-none", "seq-read").next();
        let peaks = ["maxtor-6l080l0", "maxtor-7l250s0", "maxtor-stm3320613as"].map(peak);
        assert_eq!(peaks.map(|r| r.map(|r| r.value)), [Some(55.0), Some(61.0), Some(89.0)]);
        let iops = rows_of("drive-2018", "plextor-px-256m5s", "none-none", "rand-read").next();
        assert_eq!(iops.map(|r| (r.metric, r.value)), Some(("iops", 73_000.0)));
    }
}
