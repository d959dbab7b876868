//! Arguments of the verbs that need a real machine.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve exports over NBD, scheduled
    Serve(Box<Serve>),
    /// Ask a running server, or change it
    Ctl(Ctl),
    /// Watch a running server: who gets what, how fast, and what the scheduler does
    Top(Top),
}

/// `hoistway serve`.
#[derive(Debug, ClapArgs)]
pub struct Serve {
    /// An export: NAME=TARGET,KEY=VALUE,... with target ram:SIZE, null:SIZE, file:PATH or
    /// emulate:DRIVE or emulate:DRIVE:SIZE, and keys ro, direct, cow, overlay, weight, group, prio, latency, rbps, wbps, riops,
    /// wiops, offset, size, way, data, seed. Exports of one target share a device. May be repeated
    #[arg(long, short, value_name = "EXPORT")]
    pub export: Vec<String>,
    /// Configuration of the devices, such as bfq{low_latency=0}; none if not given
    #[arg(long, short, value_name = "CONFIG")]
    #[arg(value_parser = crate::args::Known(crate::args::configs), hide_possible_values = true)]
    pub scheduler: Option<String>,
    /// Unix socket to listen on. None is needed where a socket is passed on (systemd, libnbd)
    #[arg(long, short = 'U', value_name = "PATH")]
    pub socket: Vec<PathBuf>,
    /// TCP port to listen on, for this machine only
    #[arg(long, short, value_name = "PORT")]
    pub port: Vec<u16>,
    /// Further addresses: unix:PATH, tcp:PORT (this machine only) or tcp:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// Serve unencrypted beyond this machine
    #[arg(long)]
    pub allow_plain_tcp: bool,
    /// off, on (clients may do without) or require; off if not given, require with --tls-certificates
    #[arg(long, value_name = "MODE")]
    pub tls: Option<String>,
    /// Folder with server-cert.pem and server-key.pem, and to verify clients ca-cert.pem and, if there is one,
    /// ca-crl.pem
    #[arg(long, value_name = "DIR")]
    pub tls_certificates: Option<PathBuf>,
    /// Let in only clients with a certificate of the authority in ca-cert.pem
    #[arg(long)]
    pub tls_verify_peer: bool,
    /// Show the exports as files of this folder, by FUSE: for losetup, mkfs and mount
    #[cfg(feature = "fuse")]
    #[arg(long, value_name = "FOLDER")]
    pub fuse: Option<PathBuf>,
    /// Let other users look into that folder, as far as the files' mode (0600) lets them
    #[cfg(feature = "fuse")]
    #[arg(long)]
    pub fuse_allow_other: bool,
    /// Show each export as a block device, by the kernel's ublk driver
    #[cfg(feature = "ublk")]
    #[arg(long)]
    pub ublk: bool,
    /// Nothing may be written
    #[arg(long, short)]
    pub read_only: bool,
    /// Configuration file (TOML) with the same wishes
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Unix socket for `hoistway ctl`, for this user alone
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// File for the number of the process, written when clients may come, removed at the end
    #[arg(long, short = 'P', value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// How long the end may take, such as 10s; then the storage is given up, with exit code 1. 60s if not given
    #[arg(long, value_name = "TIME")]
    pub stop_limit: Option<String>,
    /// How long I/O may wait while the device has nothing to do before a warning is printed; 0s: never. 5s if
    /// not given
    #[arg(long, value_name = "TIME")]
    pub stall_limit: Option<String>,
    /// Serve Prometheus metrics at http://ADDRESS/metrics: tcp:PORT (this machine only), tcp:ADDRESS:PORT or
    /// unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Run this shell command with $uri, $unixsocket and $fuse, then stop
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// Only warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `hoistway top`.
#[derive(Debug, ClapArgs)]
pub struct Top {
    /// Control socket of the server, as given to `hoistway serve --control`
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// Time between two looks, such as 1s or 200ms
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: String,
    /// One line per client or per group
    #[arg(long, value_name = "WHAT", default_value = "client", value_parser = ["client", "group"])]
    pub by: String,
    /// Order of the lines: throughput, iops, p99, share or name
    #[arg(long, value_name = "KEY", default_value = "throughput",
          value_parser = ["throughput", "iops", "p99", "share", "name"])]
    pub sort: String,
    /// Stop after that many frames
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// One frame, as --count 1
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// One JSON object per frame instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `hoistway ctl`.
#[derive(Debug, ClapArgs)]
pub struct Ctl {
    /// Control socket of the server, as given to `hoistway serve --control`
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// The device of this export; needed where there are several
    #[arg(long, short, value_name = "NAME", global = true)]
    pub export: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// What a running server can be asked.
#[derive(Clone, Debug, Subcommand)]
pub enum CtlCommand {
    /// Devices, exports, groups and clients, with what each has had done
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the weight of a group
    SetWeight {
        /// Its name
        group: String,
        /// 1 to 1000
        weight: u64,
    },
    /// Set a tunable of the scheduler, the block layer (nr_requests, ...) or a controller
    Set {
        /// Such as slice_idle=0 or nr_requests=64
        #[arg(value_name = "NAME=VALUE")]
        setting: String,
    },
    /// Write a line to a cgroup file of a group, such as: write gold io.max '8:0 rbps=10000000'
    Write {
        /// Its name; root is everybody who is in no other
        group: String,
        /// Such as io.max
        file: String,
        /// In the kernel's own syntax
        line: String,
    },
    /// Print a cgroup file of a group
    Read {
        /// Its name; root is everybody who is in no other
        group: String,
        /// Such as io.stat
        file: String,
    },
    /// Print Prometheus metrics
    Metrics,
    /// Tell the requests of a client or a group, and what the scheduler decides about them and why, while
    /// it happens
    Explain {
        /// Number of a client, as list shows it, or name of a group
        #[arg(value_name = "CLIENT|GROUP")]
        of: String,
        /// Lines at most
        #[arg(long, value_name = "N", default_value_t = 200)]
        limit: u64,
        /// How long to listen, such as 5s or 300ms
        #[arg(long = "for", value_name = "TIME", default_value = "5s")]
        span: String,
    },
    /// Look how large files and block devices are now; new connections do so by themselves
    Resize,
    /// Let another scheduler take over; nothing is lost
    Scheduler {
        /// Such as bfq{low_latency=0}
        scheduler: String,
    },
}
