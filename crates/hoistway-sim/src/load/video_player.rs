//! A video player without a cache of its own (specs/experiments.md 7.1).
//!
//! *Problem.* A film needs little of a drive, 1 MB/s, but on time: a frame that is not there when the next one is due is
//! not shown. Mean latency and throughput say nothing about that; the number of frames dropped does.
//!
//! *Model.* Frame k of the film is due at t0 + k/fps, t0 being the moment at which the first frame was ready. One thread
//! reads the film in sequence in calls of 2 KiB through the page cache, so that read-ahead (128 KiB) is all the buffer it
//! has. It goes on to frame k when frame k-1 is shown or dropped: it reads the bytes that are missing, decodes (a random
//! time), and shows the frame when it is due. A frame that is ready more than one period after it was due is dropped:
//! its bytes are consumed and its decoding paid, and the next follows at once, so that a player that was held up for S
//! seconds catches up at the speed at which it reads and decodes.
//!
//! *Sound.* With `sound` the clock is that of the sound, which is in the same file: the player keeps so much of it decoded
//! ahead. When that is used up the clock stops until the film goes on, so that no frame is later than that, however long
//! the player was held up.
//!
//! *Frames.* Groups of 12: one large frame and eleven small ones, six times smaller; each times a log-normal factor of
//! mean 1 and 20 % spread; the mean is the bit rate over 8 fps. Sizes and decoding times depend on seed and process alone.
//!
//! *Counts.* Frames due, shown and dropped in the measured window, each at the moment its fate is decided. What is overdue
//! when measuring ends, because the player still waits for its bytes, counts as due and dropped then.
//!
//! *Weakness.* No decoder that skips frames without decoding them, and no second thread: later players read ahead of
//! their decoder and drop less.

use super::params::ParamDoc;
use super::{Better, Build, CountDoc, Load, LoadEntry};
use crate::host::{Advice, FileId, Notice, Operation, PAGE};
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "video_player",
    summary: "plays a film from a file, and drops the frames that come too late (7.1)",
    params: &[
        ParamDoc {
            name: "bitrate",
            default: "8",
            doc: "Megabits (10^6) of film per second, above 0.",
        },
        ParamDoc { name: "fps", default: "25", doc: "Frames per second, above 0." },
        ParamDoc {
            name: "length",
            default: "120 s",
            doc: "Length of the film; the player exits after it.",
        },
        ParamDoc {
            name: "chunk",
            default: "2 KiB",
            doc: "Bytes of a read call; a power of two up to 1 MiB.",
        },
        ParamDoc { name: "group", default: "12", doc: "Frames from one large frame to the next." },
        ParamDoc {
            name: "large",
            default: "6",
            doc: "Size of a large frame over that of a small one, at least 1.",
        },
        ParamDoc {
            name: "spread",
            default: "0.2",
            doc: "Spread of the log-normal factor on each frame's size, 0 to 2.",
        },
        ParamDoc {
            name: "decode",
            default: "5 ms",
            doc: "Mean of the exponential time it takes to decode a frame.",
        },
        ParamDoc {
            name: "sound",
            default: "none",
            doc: "Length of the sound that is decoded ahead; the film's clock stops when it is used up.",
        },
    ],
    counts: &[
        CountDoc {
            name: "frames_dropped",
            unit: "frames",
            better: Better::Lower,
            of: Some("frames_due"),
            doc: "Frames that were ready more than one frame period after they were due, or not at all.",
        },
        CountDoc {
            name: "frames_shown",
            unit: "frames",
            better: Better::Higher,
            of: None,
            doc: "Frames that were shown.",
        },
        CountDoc {
            name: "frames_due",
            unit: "frames",
            better: Better::Neither,
            of: None,
            doc: "Frames whose time came: shown and dropped ones.",
        },
    ],
    build: |build| Ok(Box::new(VideoPlayer::new(build)?)),
    ..LoadEntry::USUAL
};

/// One frame.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where its bytes end in the film.
    end: u64,
    decode: Nanos,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlayerStep {
    Open,
    Read,
    Decode,
    /// The frame is ready.
    Ready,
    /// Its time has come.
    Show,
    /// The frame is counted.
    Count {
        dropped: bool,
    },
    Next,
}

#[derive(Debug)]
struct VideoPlayer {
    file: FileId,
    chunk: u64,
    period: Nanos,
    /// The sound decoded ahead; `None`: the film's clock is the wall's.
    sound: Option<Nanos>,
    frames: Vec<Frame>,
    /// When frame 0 was ready.
    t0: Option<Instant>,
    /// The frame that is being worked on.
    at: usize,
    /// Bytes of the film that have been read.
    read: u64,
    step: PlayerStep,
}

/// Longest film.
const LONGEST: u64 = 24 * 3600;

impl VideoPlayer {
    fn new(build: &mut Build<'_>) -> Result<VideoPlayer, JobError> {
        let params = &build.params;
        let real =
            |name: &str, usual: f64, (lo, hi): (f64, f64)| -> Result<f64, JobError> {
                let value = params.real(name)?.unwrap_or(usual);
                match (lo..=hi).contains(&value) {
                    true => Ok(value),
                    false => Err(params
                        .wrong(format!("{name} = {value}: choose a number from {lo} to {hi}"))),
                }
            };
        let fps = real("fps", 25.0, (0.1, 1000.0))?;
        let bitrate = real("bitrate", 8.0, (0.001, 10_000.0))?;
        let (large, spread) =
            (real("large", 6.0, (1.0, 1000.0))?, real("spread", 0.2, (0.0, 2.0))?);
        let seconds = params.time("length")?.map_or(120.0, |ns| ns as f64 / 1e9);
        let count = (seconds * fps) as u64;
        if count == 0 || seconds > LONGEST as f64 {
            return Err(
                params.wrong(format!("length = {seconds} s: choose one frame to {LONGEST} s"))
            );
        }
        let group = params.number("group")?.unwrap_or(12);
        if !(1..=1_000_000).contains(&group) {
            return Err(params.wrong(format!("group = {group}: choose 1 to 1000000 frames")));
        }
        let chunk = params.bytes("chunk")?.unwrap_or(2048);
        if !chunk.is_power_of_two() || !(512..=1 << 20).contains(&chunk) {
            return Err(
                params.wrong(format!("chunk = {chunk}: choose a power of two from 512 to 1 MiB"))
            );
        }
        let decode = params.time("decode")?.unwrap_or(5_000_000) as f64;
        let mean = bitrate * 1e6 / 8.0 / fps;
        // One frame of `large` units and the others of one make `group` frames of the mean size.
        let unit = mean * group as f64 / (large + (group - 1) as f64);
        let mut rng = build.rng();
        let mut end = 0.0;
        let frame = |k: u64| {
            let size = if k.is_multiple_of(group) { unit * large } else { unit };
            let factor = libm::exp(spread * rng.normal() - spread * spread / 2.0);
            end += (size * factor).max(1.0);
            Frame { end: end as u64, decode: Nanos(rng.exponential(decode) as u64) }
        };
        let frames: Vec<Frame> = (0..count).map(frame).collect();
        let bytes = (end as u64).next_multiple_of(chunk.max(PAGE));
        Ok(VideoPlayer {
            file: build.host.add_file(bytes)?,
            chunk,
            period: Nanos((1e9 / fps) as u64),
            sound: params.time("sound")?.map(Nanos),
            frames,
            t0: None,
            at: 0,
            read: 0,
            step: PlayerStep::Open,
        })
    }

    /// When frame `k` is due.
    fn due(&self, k: usize) -> Option<Instant> {
        self.t0.map(|t0| t0 + self.period * k as u64)
    }

    /// When the film's clock stops if frame `at` is not read before.
    fn stops(&self) -> Option<Instant> {
        Some(self.due(self.at)? + self.sound?)
    }
}

impl Load for VideoPlayer {
    fn next(&mut self, now: Instant) -> Operation {
        loop {
            let Some(&frame) = self.frames.get(self.at) else { return Operation::Exit };
            match self.step {
                PlayerStep::Open => {
                    self.step = PlayerStep::Read;
                    return Operation::Open { file: self.file, advice: Advice::Normal };
                }
                PlayerStep::Read => {
                    self.step = PlayerStep::Decode;
                    let (offset, to) = (self.read, frame.end.next_multiple_of(self.chunk));
                    if to > offset {
                        self.read = to;
                        let (bs, count) = (self.chunk, (to - offset) / self.chunk);
                        return Operation::Read { offset, bs, count };
                    }
                }
                PlayerStep::Decode => {
                    self.step = PlayerStep::Ready;
                    if let (Some(stopped), Some(t0)) = (self.stops(), &mut self.t0)
                        && now > stopped
                    {
                        *t0 += now - stopped;
                    }
                    return Operation::Compute(frame.decode);
                }
                PlayerStep::Ready => {
                    self.t0.get_or_insert(now);
                    let due = self.due(self.at).expect("the clock of the film runs");
                    let dropped = now > due + self.period;
                    self.step =
                        if dropped { PlayerStep::Count { dropped } } else { PlayerStep::Show };
                    if now < due {
                        return Operation::Sleep(due);
                    }
                }
                PlayerStep::Show => self.step = PlayerStep::Count { dropped: false },
                PlayerStep::Count { dropped } => {
                    self.step = PlayerStep::Next;
                    let what = if dropped { "frames_dropped" } else { "frames_shown" };
                    return Operation::Tell(Notice::Count { what, n: 1 });
                }
                PlayerStep::Next => {
                    self.step = PlayerStep::Read;
                    self.at += 1;
                    return Operation::Tell(Notice::Count { what: "frames_due", n: 1 });
                }
            }
        }
    }

    fn closing(&self, now: Instant) -> Vec<(&'static str, u64)> {
        // A frame that is counted as shown or dropped is not overdue.
        let from = self.at + usize::from(self.step == PlayerStep::Next);
        // What waits for its bytes holds the clock up.
        let stops = self.stops().filter(|_| self.step == PlayerStep::Decode);
        let now = stops.map_or(now, |stops| now.min(stops));
        let overdue = |&k: &usize| self.due(k).is_some_and(|due| due + self.period < now);
        let late = (from..self.frames.len()).take_while(overdue).count() as u64;
        // Its due count follows the count of its fate at the same instant.
        let counted = u64::from(self.step == PlayerStep::Next);
        vec![("frames_dropped", late), ("frames_due", late + counted)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::{Host, HostConfig};
    use crate::load::params::Params;
    use hoistway::Sectors;

    fn player(params: &str) -> VideoPlayer {
        let drive = DriveFile::load("maxtor-6l080l0").unwrap();
        let mut host = Host::new(HostConfig::profile("2010").unwrap(), &drive, Sectors(1024), 1);
        let table: toml::Table = params.parse().unwrap();
        let params = Params::new("target", &table, ENTRY.params).unwrap();
        let start = Instant::ZERO;
        let mut build = Build { params, host: &mut host, index: 0, seed: 1, start };
        VideoPlayer::new(&mut build).unwrap()
    }

    fn ms(t: u64) -> Instant {
        Instant::ZERO + Nanos::ms(t)
    }

    /// Plays to the end of the film: reads take `read` (by frame), decoding what it takes. Returns shown, dropped,
    /// due, and when each frame was decided.
    fn play(player: &mut VideoPlayer, read: impl Fn(usize) -> Nanos) -> ([u64; 3], Vec<Instant>) {
        let (mut now, mut counts, mut decided) = (Instant::ZERO, [0; 3], Vec::new());
        let mut bytes = 0;
        loop {
            match player.next(now) {
                Operation::Open { .. } => {}
                Operation::Read { offset, bs, count } => {
                    assert_eq!(offset, bytes, "one call behind the other");
                    bytes += bs * count;
                    now += read(player.at);
                }
                Operation::Compute(d) => now += d,
                Operation::Sleep(until) => now = until,
                Operation::Tell(Notice::Count { what, n: 1 }) => {
                    let i = ["frames_shown", "frames_dropped", "frames_due"]
                        .iter()
                        .position(|&w| w == what);
                    counts[i.unwrap()] += 1;
                    if what != "frames_due" {
                        decided.push(now);
                    }
                }
                Operation::Exit => return (counts, decided),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_film_has_the_bit_rate_and_its_large_frames() {
        let film = player("length = \"600s\"");
        assert_eq!(film.frames.len(), 15_000);
        let bytes = film.frames.last().unwrap().end as f64;
        assert!((bytes / 600e6 - 1.0).abs() < 0.01, "8 Mbit/s for 600 s are 600 MB, not {bytes}");
        let size = |k: usize| film.frames[k].end - if k == 0 { 0 } else { film.frames[k - 1].end };
        let mean = |of: &dyn Fn(usize) -> bool| {
            let all: Vec<u64> = (0..15_000).filter(|&k| of(k)).map(size).collect();
            all.iter().sum::<u64>() as f64 / all.len() as f64
        };
        let ratio = mean(&|k| k % 12 == 0) / mean(&|k| k % 12 != 0);
        assert!((ratio / 6.0 - 1.0).abs() < 0.05, "{ratio}");
        let decode = film.frames.iter().map(|f| f.decode.0).sum::<u64>() as f64 / 15e3;
        assert!((decode / 5e6 - 1.0).abs() < 0.05, "{decode} ns");
    }

    #[test]
    fn a_film_that_is_read_in_time_is_shown_in_time() {
        let mut film = player("length = \"10s\"");
        let (counts, decided) = play(&mut film, |_| Nanos::ms(1));
        assert_eq!(counts, [250, 0, 250]);
        assert_eq!(decided[249] - decided[0], Nanos::ms(249 * 40));
    }

    /// Frame 50 comes 1 s late. It and those whose time passed meanwhile are dropped, as fast as they are read and
    /// decoded: 1 s is 25 periods, and 1 ms of reading with 5 ms of decoding take up some more.
    #[test]
    fn a_player_that_was_held_up_drops_what_is_late_and_catches_up() {
        let mut film = player("length = \"10s\"\ndecode = \"1us\"");
        let stall = |k| if k == 50 { Nanos::secs(1) } else { Nanos::ms(4) };
        let ([shown, dropped, due], decided) = play(&mut film, stall);
        assert_eq!((shown + dropped, due), (250, 250));
        // The stall begins when frame 49 is shown, 40 ms before frame 50 is due: frame 50 is 960 ms late. Frame 50 + i
        // is ready 960 + 4 i ms after the time of frame 50, 40 i ms after it: late by more than 40 up to i = 25.
        assert_eq!(dropped, 26, "of which the last is 60 ms late");
        assert_eq!(decided[249] - decided[0], Nanos::ms(249 * 40), "the end is in time again");
    }

    /// As before, with 340 ms of sound: frame 50 is 340 ms late, 50 + i is 340 - 36 i ms late, more than 40 up to i = 8.
    #[test]
    fn the_clock_of_the_film_stops_with_its_sound() {
        let mut film = player("length = \"10s\"\ndecode = \"1us\"\nsound = \"340ms\"");
        let stall = |k| if k == 50 { Nanos::secs(1) } else { Nanos::ms(4) };
        let ([shown, dropped, due], decided) = play(&mut film, stall);
        assert_eq!((shown, dropped, due), (241, 9, 250));
        assert_eq!(decided[249] - decided[0], Nanos::ms(249 * 40 + 960 - 340));
        // Held up when measuring ends: the clock stood still at 340 ms.
        let mut film = player("length = \"10s\"\ndecode = \"1us\"\nsound = \"340ms\"");
        film.t0 = Some(ms(1000));
        (film.at, film.step) = (10, PlayerStep::Decode);
        assert_eq!(film.closing(ms(9000)), [("frames_dropped", 8), ("frames_due", 8)]);
    }

    #[test]
    fn what_is_overdue_when_measuring_ends_is_dropped() {
        let mut film = player("length = \"10s\"\ndecode = \"1us\"");
        film.t0 = Some(ms(1000));
        (film.at, film.step) = (10, PlayerStep::Decode);
        // Frame 10 is due at 1400, frame 14 at 1560; one period later they are late.
        assert_eq!(film.closing(ms(1430)), [("frames_dropped", 0), ("frames_due", 0)]);
        assert_eq!(film.closing(ms(1601)), [("frames_dropped", 5), ("frames_due", 5)]);
        film.t0 = None;
        assert_eq!(film.closing(ms(9000))[0].1, 0, "the film has not begun");
    }

    #[test]
    fn what_no_film_has_is_refused() {
        let drive = DriveFile::load("maxtor-6l080l0").unwrap();
        let mut host = Host::new(HostConfig::profile("2010").unwrap(), &drive, Sectors(1024), 1);
        for (text, word) in [
            ("bitrate = 0", "bitrate"),
            ("fps = -1", "fps"),
            ("chunk = 3000", "power of two"),
            ("length = \"1ms\"", "one frame"),
            ("group = 0", "group"),
        ] {
            let table: toml::Table = text.parse().unwrap();
            let params = Params::new("target", &table, ENTRY.params).unwrap();
            let start = Instant::ZERO;
            let mut build = Build { params, host: &mut host, index: 0, seed: 1, start };
            let error = VideoPlayer::new(&mut build).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
