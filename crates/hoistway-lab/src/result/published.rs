//! Published values of drives without I/O control, and the table by which their long names are joined
//! with ours (specs/experiments.md 9).

use super::csv;
use std::sync::OnceLock;

/// The published table as it stands in the repository.
const TEXT: &str = include_str!("../../../../data/published-uncontrolled.csv");

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
    /// The value.
    pub value: f64,
    /// The document it comes from.
    pub source: &'static str,
}

/// Published name, ours.
type Names = &'static [(&'static str, &'static str)];

const DRIVES: Names = &[
    ("Samsung NVMe 970 PRO", "samsung-970-pro"),
    ("Plextor SATA PX-256M5S", "plextor-px-256m5s"),
    ("Hitachi HDD HTS72755", "hitachi-hts727550a9e364"),
    ("Intel SSD 320 160G", "intel-320-160g"),
    ("HDD (2009, unnamed)", "laptop-hdd-2009"),
    ("SD card (2009, unnamed)", "sd-card-2009"),
    ("Maxtor 6L080L0 82GB (slow)", "maxtor-6l080l0"),
    ("Maxtor 7L250S0 250GB (medium)", "maxtor-7l250s0"),
    ("Maxtor STM332061 320GB (fast)", "maxtor-stm3320613as"),
];

const CONFIGS: Names = &[
    ("none-none", "none-none"),
    ("noop", "noop"),
    ("deadline", "deadline"),
    ("deadline-original", "deadline"),
    ("raw", "none-none"),
    ("any", "none-none"),
    // The default scheduler then.
    ("idle disk", "cfq"),
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
    ("throughput-ssd-2012", "10 raw seq readers", "10r-rawseq"),
    ("throughput-ssd-2012", "10 raw rand readers", "10r-rawrand"),
];

/// (published metric, published unit, ours, our unit, factor).
const METRICS: &[(&str, &str, &str, &str, f64)] = &[
    ("throughput", "MB/s", "throughput_total", "MB/s", 1.0),
    ("throughput_total", "MB/s", "throughput_total", "MB/s", 1.0),
    ("throughput_total", "MiB/s", "throughput_total", "MB/s", 1.048_576),
    ("iops", "kIOPS", "iops", "1/s", 1000.0),
    ("latency_avg", "ms", "latency_avg", "ms", 1.0),
    ("latency_max", "ms", "latency_max", "ms", 1.0),
    ("startup_time", "s", "startup_time", "s", 1.0),
];

/// Every published value that has a place among our names.
pub fn rows() -> &'static [Published] {
    static ROWS: OnceLock<Vec<Published>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let all = csv::parse(TEXT).expect("the published table is well-formed (tested)");
        all.into_iter().skip(1).filter_map(|row| join(&row)).collect()
    })
}

/// The published values of one cell. A bare `none` is the same as `none-none` to this purpose.
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

fn join(row: &[String]) -> Option<Published> {
    let [experiment, drive, config, workload, metric, unit, value, source] = row else {
        return None;
    };
    let ours = |names: Names, name: &str| names.iter().find(|n| n.0 == name).map(|n| n.1);
    let &(experiment, _, workload) =
        WORKLOADS.iter().find(|w| w.0 == experiment && w.1 == workload)?;
    let &(_, _, metric, unit, factor) = METRICS.iter().find(|m| m.0 == metric && m.1 == unit)?;
    Some(Published {
        experiment,
        drive: ours(DRIVES, drive)?,
        config: ours(CONFIGS, config)?,
        workload,
        metric,
        unit,
        value: value.parse::<f64>().ok()? * factor,
        source: source_of(source)?,
    })
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
        assert_eq!(rows_of("latency-2019", "samsung-970-pro", "none-bfq", "readers").count(), 0);
    }

    #[test]
    fn every_drive_of_the_table_exists() {
        for row in rows() {
            let known = hoistway_sim::drive::DriveFile::ids();
            assert!(known.contains(&row.drive), "{}", row.drive);
        }
        let iops = rows_of("drive-2018", "plextor-px-256m5s", "none-none", "rand-read").next();
        assert_eq!(iops.map(|r| (r.metric, r.value)), Some(("iops", 73_000.0)));
    }
}
