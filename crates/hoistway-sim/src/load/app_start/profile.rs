//! What applications read while they start (specs/experiments.md 6.1 and 6.2).

/// One of the processes that act in turns.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// Its name in the record.
    pub name: &'static str,
    /// Its share of the requests, relative to the others'.
    pub share: u64,
    /// It was there before the application and stays: a server.
    pub lasting: bool,
}

const fn own(name: &'static str, share: u64) -> Actor {
    Actor { name, share, lasting: false }
}

const fn server(name: &'static str, share: u64) -> Actor {
    Actor { name, share, lasting: true }
}

/// Sizes of data reads: KiB from, KiB to (uniform over the multiples of 4 between), share in percent.
pub type SizeShares = &'static [(u64, u64, u64)];

/// The statistics a start-up is generated from.
#[derive(Debug)]
pub struct Profile {
    /// Its name in experiment files.
    pub name: &'static str,
    /// Who acts, in the order of first acts.
    pub actors: &'static [Actor],
    /// How often one hands over to another.
    pub handovers: usize,
    /// Data reads.
    pub reads: usize,
    /// Metadata reads, 4 KiB each.
    pub metas: usize,
    /// Metadata reads that pull a burst of read-ahead.
    pub bursts: usize,
    /// Sizes of the data reads.
    pub sizes: SizeShares,
    /// Percent of the data and metadata reads that go on where the last one of their process ended.
    pub follow_percent: u64,
    /// Regions of 128 MiB that hold everything.
    pub regions: usize,
    /// Factor on think times.
    pub cpu: f64,
}

const LARGE: SizeShares = &[(4, 4, 11), (8, 16, 11), (20, 64, 9), (68, 124, 22), (128, 128, 47)];

impl Profile {
    /// The same application with so many times its reads, rounded; it keeps its processes and their hand-overs.
    pub fn scaled(&self, by: f64) -> Profile {
        let times = |n: usize| ((n as f64 * by).round() as usize).max(1);
        let (reads, metas, bursts) = (times(self.reads), times(self.metas), times(self.bursts));
        Profile { reads, metas, bursts, ..*self }
    }
}

/// Every profile. Processes and hand-overs of the traced three are those of the traces, apart from two
/// requests of the file system's journal in gnome-terminal's; those of `bash` and `konsole` are assumed.
pub static PROFILES: &[Profile] = &[
    // Deviation: the text has 20 reads, 15 of metadata and 5 bursts, and asks for 0.1 to 0.2 s on the
    // idle fast HDD; there that takes 0.25 s. Scaled to two thirds.
    Profile {
        name: "bash",
        actors: &[own("bash", 1)],
        handovers: 0,
        reads: 13,
        metas: 10,
        bursts: 3,
        sizes: &[(4, 4, 50), (16, 16, 30), (64, 64, 15), (128, 128, 5)],
        follow_percent: 45,
        regions: 8,
        cpu: 1.0,
    },
    Profile {
        name: "xterm",
        actors: &[own("xterm", 632), server("x-server", 86)],
        handovers: 6,
        reads: 97,
        metas: 67,
        bursts: 19,
        sizes: &[(4, 4, 23), (8, 16, 38), (20, 64, 15), (68, 124, 15), (128, 128, 9)],
        follow_percent: 45,
        regions: 25,
        cpu: 1.0,
    },
    Profile {
        name: "gnome-terminal",
        actors: &[
            own("launcher", 40),
            own("gnome-terminal", 852),
            server("message-bus", 100),
            own("terminal-server", 1087),
            own("settings", 667),
            own("true", 33),
        ],
        handovers: 10,
        reads: 433,
        metas: 355,
        bursts: 67,
        sizes: &[(4, 4, 46), (8, 16, 24), (20, 64, 12), (68, 124, 13), (128, 128, 5)],
        follow_percent: 57,
        regions: 50,
        cpu: 1.0,
    },
    // Deviation: the text has 350 reads, 120 of metadata and 45 bursts, calibrated to 2 s on the idle fast
    // HDD; on the model of that drive they take 3.7 s. Scaled.
    Profile {
        name: "konsole",
        actors: &[own("konsole", 70), own("kdeinit", 20), server("x-server", 10)],
        handovers: 4,
        reads: 190,
        metas: 65,
        bursts: 24,
        sizes: LARGE,
        follow_percent: 47,
        regions: 40,
        cpu: 1.0,
    },
    Profile {
        name: "lowriter",
        actors: &[
            own("script", 72),
            own("splash", 389),
            own("java-probe", 164),
            own("soffice", 643),
        ],
        handovers: 3,
        reads: 528,
        metas: 78,
        bursts: 24,
        sizes: LARGE,
        follow_percent: 47,
        regions: 34,
        cpu: 3.0,
    },
    // The applications as they were in 2012. The traces are of later ones and other machines, so these four
    // are scaled: number of reads and processor time so that both starts published without I/O control
    // (noop, Intel SSD 320, beside ten raw sequential and ten raw random readers) come out: the first is
    // nearly all waiting for reads, the second nearly all computing. Kinds and sizes are those of the trace
    // of the same program.
    Profile {
        name: "xterm-2012",
        actors: &[own("xterm", 632), server("x-server", 86)],
        handovers: 6,
        reads: 49,
        metas: 34,
        bursts: 10,
        sizes: &[(4, 4, 23), (8, 16, 38), (20, 64, 15), (68, 124, 15), (128, 128, 9)],
        follow_percent: 45,
        regions: 25,
        cpu: 0.78,
    },
    Profile {
        name: "gnome-terminal-2012",
        actors: &[own("gnome-terminal", 852), server("message-bus", 100), server("x-server", 100)],
        handovers: 6,
        reads: 52,
        metas: 43,
        bursts: 8,
        sizes: &[(4, 4, 46), (8, 16, 24), (20, 64, 12), (68, 124, 13), (128, 128, 5)],
        follow_percent: 57,
        regions: 50,
        cpu: 1.34,
    },
    Profile {
        name: "konsole-2012",
        actors: &[own("konsole", 70), own("kdeinit", 20), server("x-server", 10)],
        handovers: 4,
        reads: 467,
        metas: 160,
        bursts: 59,
        sizes: LARGE,
        follow_percent: 47,
        regions: 40,
        cpu: 0.5,
    },
    Profile {
        name: "oowriter-2012",
        actors: &[own("script", 72), own("splash", 389), own("soffice", 643)],
        handovers: 2,
        reads: 429,
        metas: 64,
        bursts: 19,
        sizes: LARGE,
        follow_percent: 47,
        regions: 34,
        cpu: 1.36,
    },
];
