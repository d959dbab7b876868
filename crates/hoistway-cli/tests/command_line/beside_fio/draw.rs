//! A random job, and what of it can be compared.

/// A difference from fio that docs/reference/fio.md names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// With sizes that differ by direction a random pass ends at a point that is chance.
    Apart,
    /// Zipf and Pareto draw the last block too that does not fit: it ends fio's pass.
    Tail,
    /// With `ba` the map counts other blocks than are drawn.
    Aligned,
    /// Sequential calls among random ones that come to the end of a region.
    Rows,
    /// In a mix with a hole one direction comes to the end before the other.
    Holes,
    /// Which of the files that are open is next, and how often the most frequent places of `normal` come.
    Details,
    /// Zones that are larger than the region are refused.
    Zones,
    /// Backwards with an offset fio begins at the end.
    Backwards,
    /// With several calls in flight fio leaves syncs out.
    AsyncSyncs,
}

impl Known {
    pub fn text(self) -> &'static str {
        match self {
            Known::Apart => "sizes differ by direction: where a pass ends is chance",
            Known::Tail => {
                "zipf or pareto, and a last block that does not fit: where a pass ends is chance"
            }
            Known::Aligned => "ba: where a pass ends is chance",
            Known::Rows => "rows, and blocks that do not fit: where a pass ends is chance",
            Known::Holes => "a mix with a hole: where a pass ends is chance",
            Known::Details => "openfiles with rows of calls, or normal: order and shape",
            Known::Zones => "zones larger than the region",
            Known::Backwards => "backwards with an offset",
            Known::AsyncSyncs => "syncs with several calls in flight",
        }
    }
}

/// A job, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    settings: Vec<(&'static str, String)>,
    /// On the device here, on a file of `exists` there.
    pub raw: bool,
    /// Files that exist before fio starts.
    pub exists: Vec<(&'static str, u64)>,
    /// Files of the job, and the size of each.
    pub files: u64,
    pub file_size: u64,
    pub random: bool,
    /// Whether it reads and whether it writes.
    pub sides: [bool; 2],
    /// Smallest and largest size of reads and writes, and whether there is one alone.
    pub sizes: [(u64, u64); 2],
    pub single: bool,
    /// Blocks are not visited twice.
    pub once: bool,
    /// Calls in a row, or a share of sequential ones.
    pub rows: bool,
    /// Sizes are given for each direction.
    apart: bool,
    /// The region.
    region: u64,
    /// Places have a distribution of their own.
    pub skewed: bool,
    pub depth: u64,
    pub known: Vec<Known>,
}

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(n)) >> 64) as u64
    }

    fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

const K: u64 = 1024;

/// The job of a seed.
pub(crate) fn job(seed: u64) -> Drawn {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..4).for_each(|_| {
        dice.below(2);
    });
    let mut drawn = Drawn {
        settings: Vec::new(),
        raw: false,
        exists: Vec::new(),
        files: 1,
        file_size: 0,
        random: dice.percent(60),
        sides: dice.of(&[[true, false], [false, true], [true, true]]),
        sizes: [(4 * K, 4 * K); 2],
        single: true,
        once: false,
        rows: false,
        apart: false,
        region: 0,
        skewed: false,
        depth: 1,
        known: Vec::new(),
    };
    drawn.directions(&mut dice);
    drawn.block_sizes(&mut dice);
    drawn.places(&mut dice);
    if drawn.random {
        drawn.random(&mut dice);
    }
    drawn.rest(&mut dice);
    drawn.find_known();
    drawn
}

impl Drawn {
    fn set(&mut self, key: &'static str, value: impl ToString) {
        self.settings.push((key, value.to_string()));
    }

    fn has(&self, key: &str) -> bool {
        self.settings.iter().any(|(k, _)| *k == key)
    }

    /// Whether the value of a key holds some text.
    fn says(&self, key: &str, part: &str) -> bool {
        self.settings.iter().any(|(k, value)| *k == key && value.contains(part))
    }

    fn find_known(&mut self) {
        // Also where one direction alone is used: the unit of fio's map is the smaller of both.
        if self.apart && self.random {
            self.known.push(Known::Apart);
        }
        let fits =
            |bytes: u64| self.single && bytes.is_multiple_of(self.sizes[0].0.max(self.sizes[1].0));
        let whole =
            !self.says("size", "%") && fits(self.region / self.files) && fits(self.file_size);
        let skewed = ["zipf", "pareto"].iter().any(|k| self.says("random_distribution", k));
        if skewed && !whole {
            self.known.push(Known::Tail);
        }
        if self.has("ba") {
            self.known.push(Known::Aligned);
        }
        if self.rows && (!whole || self.raw) {
            self.known.push(Known::Rows);
        }
        let rows = self.has("openfiles") && self.says("file_service_type", ":");
        let synced =
            self.depth > 1 && self.files > 1 && (self.has("fsync") || self.has("fdatasync"));
        if rows || synced || self.says("random_distribution", "normal") {
            self.known.push(Known::Details);
        }
        if self.sides == [true, true] && !self.random && self.says("rw", ":") {
            self.known.push(Known::Holes);
        }
        if self.says("random_distribution", "zoned_abs") && self.region / self.files < 96 * K {
            self.known.push(Known::Zones);
        }
        if self.says("rw", ":-") && self.has("offset") {
            self.known.push(Known::Backwards);
        }
        if self.depth > 1 && (self.has("fsync") || self.has("fdatasync")) {
            self.known.push(Known::AsyncSyncs);
        }
    }

    /// The job file, for hoistway or for fio.
    pub fn text(&self, ours: bool) -> String {
        let direct = u8::from(ours);
        let mut text = format!("[j]\ndirect={direct}\n");
        if self.raw {
            text.push_str(if ours { "filename=/dev/sda\n" } else { "filename=disk\n" });
        }
        for (key, value) in &self.settings {
            text.push_str(&format!("{key}={value}\n"));
        }
        text
    }

    fn directions(&mut self, dice: &mut Dice) {
        let word = match self.sides {
            [true, false] => "read",
            [false, true] => "write",
            _ => "rw",
        };
        let word = if self.random { format!("rand{word}") } else { word.to_string() };
        let extra = match self.random {
            true if dice.percent(12) => {
                self.rows = true;
                format!(":{}", dice.of(&[2, 4, 8]))
            }
            false if dice.percent(15) => format!(":{}", dice.of(&["4k", "8k", "-8k"])),
            _ => String::new(),
        };
        self.set("rw", word + &extra);
        if self.sides == [true, true] {
            if dice.percent(50) {
                let n = dice.of(&[10, 30, 70, 90]);
                self.set("rwmixread", n);
            }
            if dice.percent(40) {
                let n = dice.of(&[20, 50, 80]);
                self.set("rwmixwrite", n);
            }
        }
    }

    fn block_sizes(&mut self, dice: &mut Dice) {
        let one = [4, 8, 12, 16, 64];
        match dice.below(10) {
            0..5 => {
                let bs = dice.of(&one);
                self.sizes = [(bs * K, bs * K); 2];
                self.set("bs", format!("{bs}k"));
            }
            5..7 => {
                let (a, b) = (dice.of(&one), dice.of(&one));
                self.apart = a != b;
                self.sizes = [(a * K, a * K), (b * K, b * K)];
                self.set("bs", format!("{a}k,{b}k"));
            }
            7..9 => {
                let (from, to) = (dice.of(&[4, 8]), dice.of(&[16, 20, 64]));
                self.sizes = [(from * K, to * K); 2];
                self.single = false;
                self.set("bsrange", format!("{from}k-{to}k"));
            }
            _ => {
                let split = dice.of(&["4k/50:32k/50", "4k/10:8k/20:16k", "8k/30:64k/", "4k:16k"]);
                let ends = match split {
                    "4k/50:32k/50" => (4, 32),
                    "8k/30:64k/" => (8, 64),
                    _ => (4, 16),
                };
                self.sizes = [(ends.0 * K, ends.1 * K); 2];
                self.single = false;
                self.set("bssplit", split);
            }
        }
        match self.sides {
            [true, false] => self.sizes[1] = self.sizes[0],
            [false, true] => self.sizes[0] = self.sizes[1],
            _ => {}
        }
    }

    fn places(&mut self, dice: &mut Dice) {
        // Not always a multiple of the block; the device's sectors are 512 bytes.
        let size = (128 + 64 * dice.below(30) + dice.of(&[0, 0, 0, 2, 6])) * K;
        self.region = size;
        self.raw = dice.percent(25);
        if self.raw {
            // The device is larger: the region is given in bytes.
            self.exists.push(("disk", 64 << 20));
            self.file_size = 64 << 20;
            self.set("size", size);
            let offset = dice.of(&[0, 0, 64, 1000]) * K;
            if offset > 0 {
                self.set("offset", offset);
            }
            return self.extent(dice, size);
        }
        if dice.percent(20) {
            self.files = dice.of(&[2, 3, 4]);
            self.set("nrfiles", self.files);
            if dice.percent(40) {
                let word = dice.of(&["roundrobin:4", "sequential", "random", "roundrobin"]);
                self.set("file_service_type", word);
            }
            if dice.percent(20) {
                self.set("openfiles", 2);
            }
        }
        let each = size / self.files;
        self.file_size = each;
        match dice.below(4) {
            0 => {
                self.file_size = dice.of(&[256 * K, 1024 * K, 4096 * K]);
                self.set("filesize", self.file_size);
                self.set("size", size);
            }
            1 => {
                self.file_size = dice.of(&[512 * K, 1024 * K]);
                self.set("filesize", self.file_size);
                self.set("size", format!("{}%", dice.of(&[25, 50, 100])));
            }
            2 => {
                let offset = dice.of(&[4, 64, 128]) * K;
                self.file_size = each + offset;
                self.set("size", size);
                self.set("offset", offset);
            }
            _ => self.set("size", size),
        }
        self.extent(dice, size);
    }

    fn extent(&mut self, dice: &mut Dice, size: u64) {
        match dice.below(10) {
            0 => self.set("io_size", size / 2 / K * K),
            1 => self.set("io_size", size * 2 + 3 * K),
            2 => {
                let n = dice.of(&[7, 40, 400]);
                self.set("number_ios", n);
            }
            3 => {
                let n = dice.of(&[2, 3]);
                self.set("loops", n);
            }
            _ => {}
        }
    }

    fn random(&mut self, dice: &mut Dice) {
        self.once = true;
        match dice.below(10) {
            0..2 => {
                self.set("norandommap", 1);
                self.once = false;
            }
            2 if self.single => self.set("random_generator", "lfsr"),
            3..5 => {
                let kinds = [
                    "zipf:1.2",
                    "zipf:1.2:0.25",
                    "pareto:0.2",
                    "normal:10",
                    "zoned:60/10:30/20:10/",
                    "zoned_abs:70/32k:30/64k",
                ];
                let kind = dice.of(&kinds);
                self.set("random_distribution", kind);
                (self.once, self.skewed) = (false, true);
            }
            5 => {
                let n = dice.of(&["50", "20", "100,0", "0,100"]);
                self.set("percentage_random", n);
                // All of the one direction that it has.
                let all = [("100,0", [true, false]), ("0,100", [false, true])];
                self.rows = !all.contains(&(n, self.sides));
            }
            6 => {
                let n = dice.of(&["4k", "16k", "8k,4k"]);
                self.set("ba", n);
                self.once = false;
            }
            _ => {}
        }
        if self.rows && dice.percent(20) {
            self.set("rw_sequencer", "identical");
        }
    }

    fn rest(&mut self, dice: &mut Dice) {
        if self.sides[1] {
            if dice.percent(25) {
                let n = dice.of(&[1, 4, 8]);
                self.set("fsync", n);
            }
            if dice.percent(15) {
                let n = dice.of(&[3, 5]);
                self.set("fdatasync", n);
            }
            if dice.percent(15) {
                let key = dice.of(&["end_fsync", "fsync_on_close"]);
                self.set(key, 1);
            }
        }
        match dice.percent(40) {
            true => {
                self.depth = dice.of(&[2, 8, 16]);
                self.set("ioengine", "libaio");
                self.set("iodepth", self.depth);
                if dice.percent(20) {
                    self.set("iodepth_batch", 2);
                }
            }
            false => self.set("ioengine", "psync"),
        }
    }
}
