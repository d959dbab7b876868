//! Film streaming: how many films can a server send before viewers notice? One more film begins every so often;
//! the test is over when more than a given share of the packets of the time between two beginnings came too late.
//!
//! A film is read in sequence at its own rate, a piece at a time, each when its first packet is to be sent. A
//! packet is lost if its piece is not there when the viewer's buffer has run out: `buffer` after the packet's time
//! on the film's clock. The reader of a late piece does not wait: it asks for the next at once, until it has caught
//! up. Films are never late by their own fault, so every lost packet is the storage's.
//!
//! What is counted is kept for all films together ([`Board`]): the loss of the last interval decides, at the moment
//! at which the next film would begin. The result is the number of films that ran in the last interval that was
//! good.
//!
//! Beside them stand bursty readers (W10): each reads so much of its file, sleeps for a moment, and again.

use super::params::ParamDoc;
use super::{Better, Build, CountDoc, Load, LoadEntry};
use crate::host::{Advice, FileId, Notice, Operation};
use crate::rng::Rng;
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "film_stream",
    summary: "a server that sends films, one more every `interval`, until `limit` percent of the packets come \
              too late; one process per film",
    params: &[
        ParamDoc {
            name: "interval",
            default: "15 s",
            doc: "Film number k begins after k - 1 of these; equal to the `stagger` of the processes.",
        },
        ParamDoc { name: "rate", default: "1 MB", doc: "Bytes per second of a film." },
        ParamDoc {
            name: "piece",
            default: "64 KiB",
            doc: "Bytes read at a time, when the first of them is to be sent.",
        },
        ParamDoc { name: "packet", default: "1316", doc: "Bytes of a packet (seven of MPEG-TS)." },
        ParamDoc {
            name: "buffer",
            default: "300 ms",
            doc: "A packet that comes later than this after its time is lost.",
        },
        ParamDoc {
            name: "limit",
            default: "1",
            doc: "Percent of the packets of an interval that may be lost.",
        },
        ParamDoc {
            name: "size",
            default: "500 MiB",
            doc: "Size of a film; it begins anew at its end.",
        },
    ],
    counts: &[
        CountDoc {
            name: "films",
            unit: "films",
            better: Better::Higher,
            of: None,
            doc: "Films that could be sent: those of the last interval within the limit. Where the processes \
                  ran out first, all of them.",
        },
        CountDoc {
            name: "packets",
            unit: "packets",
            better: Better::Neither,
            of: None,
            doc: "Packets of all films.",
        },
        CountDoc {
            name: "packets_lost",
            unit: "packets",
            better: Better::Lower,
            of: Some("packets"),
            doc: "Packets that came too late.",
        },
    ],
    build: |build| Ok(Box::new(FilmStream::new(build)?)),
    ..LoadEntry::USUAL
};

pub(super) const NOISE: LoadEntry = LoadEntry {
    name: "bursty_reader",
    summary: "reads a random amount of its file in sequence, sleeps for a moment, and again (W10); ends with the \
              films of `film_stream`, if there are any",
    params: &[
        ParamDoc { name: "least", default: "64 MiB", doc: "Least that it reads at a time." },
        ParamDoc { name: "most", default: "256 MiB", doc: "Most that it reads at a time." },
        ParamDoc { name: "bs", default: "1 MiB", doc: "Bytes of a call." },
        ParamDoc { name: "shortest", default: "1 ms", doc: "Shortest sleep." },
        ParamDoc { name: "longest", default: "200 ms", doc: "Longest sleep." },
    ],
    build: |build| Ok(Box::new(Bursty::new(build)?)),
    ..LoadEntry::USUAL
};

/// What all films know together.
#[derive(Debug, Default)]
struct Board {
    /// Processes that serve films, and those that have begun.
    films: u64,
    begun: u64,
    /// When the last of these began.
    last: Instant,
    /// Packets since then.
    sent: u64,
    lost: u64,
    /// The test is over.
    over: bool,
}

impl Board {
    /// The board of the job, made by whoever asks first.
    fn of(build: &mut Build<'_>) -> Result<Arc<Mutex<Board>>, JobError> {
        build.host.shared_memory("film_stream", |_| Ok(Mutex::new(Board::default())))
    }

    fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
        board.lock().expect("nobody panics while holding the lock")
    }

    /// An interval has passed since the last film began. If too much was lost in it, or no film is left to
    /// begin, the test is over: how many films could be sent.
    fn judge(&mut self, limit: u64) -> Option<u64> {
        let good = self.lost * 100 <= self.sent * limit;
        (self.sent, self.lost) = (0, 0);
        self.over = !good || self.begun == self.films;
        self.over.then_some(if good { self.begun } else { self.begun - 1 })
    }
}

#[derive(Debug)]
struct FilmStream {
    board: Arc<Mutex<Board>>,
    file: FileId,
    interval: Nanos,
    rate: u64,
    piece: u64,
    packet: u64,
    buffer: Nanos,
    limit: u64,
    pieces: u64,
    start: Instant,
    /// Pieces that have been read since the beginning.
    read: u64,
    /// Packets lost of the piece that has been read last.
    lost: u64,
    step: FilmStep,
}

#[derive(Clone, Copy, Debug)]
enum FilmStep {
    Begin,
    Forget,
    Open,
    /// The next piece is read when it is due.
    Piece,
    /// It has come.
    Came,
    TellLost,
    Exit,
}

impl FilmStream {
    fn new(build: &mut Build<'_>) -> Result<FilmStream, JobError> {
        let positive = |build: &Build<'_>, name: &str, usual: u64| match build
            .params
            .bytes(name)?
            .unwrap_or(usual)
        {
            0 => Err(build.params.wrong(format!("{name} = 0: choose more"))),
            n => Ok(n),
        };
        let rate = positive(build, "rate", 1_000_000)?;
        let piece = positive(build, "piece", 64 << 10)?;
        let packet = positive(build, "packet", 1316)?;
        let size = build.size(piece)?;
        let limit = build.params.number("limit")?.unwrap_or(1);
        if limit > 100 {
            return Err(build.params.wrong(format!("limit = {limit}: choose 0 to 100 percent")));
        }
        let board = Board::of(build)?;
        Board::lock(&board).films += 1;
        Ok(FilmStream {
            board,
            file: build.host.add_file(size)?,
            interval: Nanos(build.params.time("interval")?.unwrap_or(15_000_000_000)),
            rate,
            piece,
            packet,
            buffer: Nanos(build.params.time("buffer")?.unwrap_or(300_000_000)),
            limit,
            pieces: size / piece,
            start: build.start,
            read: 0,
            lost: 0,
            step: FilmStep::Begin,
        })
    }

    /// When byte `at` of the film is to be sent.
    fn time(&self, at: u64) -> Instant {
        self.start + Nanos((u128::from(at) * 1_000_000_000 / u128::from(self.rate)) as u64)
    }

    /// Packets whose first byte lies in [from, to).
    fn packets(&self, from: u64, to: u64) -> u64 {
        to.div_ceil(self.packet) - from.div_ceil(self.packet)
    }

    /// Packets of the piece from byte `from` on, which has come at `now`, and how many of them too late.
    fn fate(&self, now: Instant, from: u64) -> (u64, u64) {
        let to = from + self.piece;
        let since = now.since(self.start).0.saturating_sub(self.buffer.0);
        // The first byte that is still in time.
        let gone = (u128::from(since) * u128::from(self.rate)).div_ceil(1_000_000_000);
        let gone = u64::try_from(gone).unwrap_or(to).clamp(from, to);
        (self.packets(from, to), self.packets(from, gone))
    }

    /// Asked before each piece: the result, if it is known now.
    fn result(&mut self, now: Instant) -> Option<u64> {
        let mut board = Board::lock(&self.board);
        let waited = board.begun > 0 && now >= board.last + self.interval;
        // Where a film is left to begin, that film asks.
        let due = waited && board.begun == board.films && !board.over;
        if due { board.judge(self.limit) } else { None }
    }

    /// This film begins, unless the interval before it was bad: then the result.
    fn begin(&mut self, now: Instant) -> Option<u64> {
        let mut board = Board::lock(&self.board);
        if board.over {
            return None;
        }
        let result = if board.begun > 0 { board.judge(self.limit) } else { None };
        if result.is_none() {
            board.begun += 1;
            board.last = now;
        }
        result
    }

    fn over(&self) -> bool {
        Board::lock(&self.board).over
    }

    /// The result is told, and the films end.
    fn end(&mut self, films: u64) -> Operation {
        self.step = FilmStep::Exit;
        Operation::Tell(Notice::Count { what: "films", n: films })
    }
}

impl Load for FilmStream {
    fn next(&mut self, now: Instant) -> Operation {
        let file = self.file;
        match self.step {
            FilmStep::Begin => {
                if let Some(films) = self.begin(now) {
                    return self.end(films);
                }
                if self.over() {
                    return Operation::Exit;
                }
                (self.start, self.step) = (now, FilmStep::Open);
                Operation::DontNeed(file)
            }
            FilmStep::Forget => {
                self.step = FilmStep::Open;
                Operation::DontNeed(file)
            }
            FilmStep::Open => {
                self.step = FilmStep::Piece;
                Operation::Open { file, advice: Advice::Normal }
            }
            FilmStep::Piece => {
                if let Some(films) = self.result(now) {
                    return self.end(films);
                }
                if self.over() {
                    return Operation::Exit;
                }
                let due = self.time(self.read * self.piece);
                if now < due {
                    return Operation::Sleep(due);
                }
                self.step = FilmStep::Came;
                let (offset, bs) = (self.read % self.pieces * self.piece, self.piece);
                Operation::Read { offset, bs, count: 1 }
            }
            FilmStep::Came => {
                let (sent, lost) = self.fate(now, self.read * self.piece);
                let mut board = Board::lock(&self.board);
                board.sent += sent;
                board.lost += lost;
                drop(board);
                self.read += 1;
                self.lost = lost;
                self.step = FilmStep::TellLost;
                Operation::Tell(Notice::Count { what: "packets", n: sent })
            }
            FilmStep::TellLost => {
                let anew = self.read.is_multiple_of(self.pieces);
                self.step = if anew { FilmStep::Forget } else { FilmStep::Piece };
                Operation::Tell(Notice::Count { what: "packets_lost", n: self.lost })
            }
            FilmStep::Exit => Operation::Exit,
        }
    }
}

/// W10.
#[derive(Debug)]
struct Bursty {
    board: Arc<Mutex<Board>>,
    file: FileId,
    bs: u64,
    /// Calls of a burst, and nanoseconds of a sleep: least and most.
    calls: (u64, u64),
    sleep: (u64, u64),
    /// Calls that the file holds, and the one that comes next.
    whole: u64,
    at: u64,
    /// Calls left of this burst.
    left: u64,
    rng: Rng,
    step: Noise,
}

#[derive(Clone, Copy, Debug)]
enum Noise {
    Draw,
    Read,
    Open,
    Sleep,
}

impl Bursty {
    fn new(build: &mut Build<'_>) -> Result<Bursty, JobError> {
        let bytes = |name, usual| Ok::<u64, JobError>(build.params.bytes(name)?.unwrap_or(usual));
        let time = |name, usual| Ok::<u64, JobError>(build.params.time(name)?.unwrap_or(usual));
        let (least, most) = (bytes("least", 64 << 20)?, bytes("most", 256 << 20)?);
        let bs = bytes("bs", 1 << 20)?;
        let (shortest, longest) = (time("shortest", 1_000_000)?, time("longest", 200_000_000)?);
        if bs == 0 || bs > least || least > most {
            let message =
                format!("bs = {bs}, least = {least}, most = {most}: choose them ascending");
            return Err(build.params.wrong(message));
        }
        if shortest > longest {
            let message = format!("shortest = {shortest} ns is longer than longest = {longest} ns");
            return Err(build.params.wrong(message));
        }
        let calls = (least / bs, most / bs);
        Ok(Bursty {
            board: Board::of(build)?,
            // As long as the longest burst, so that each finds nothing of its own in memory.
            file: build.host.add_file(calls.1 * bs)?,
            bs,
            calls,
            sleep: (shortest, longest),
            whole: calls.1,
            // The first burst begins as every pass does: cold.
            at: calls.1,
            left: 0,
            rng: build.rng(),
            step: Noise::Draw,
        })
    }

    fn draw(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.rng.below(most - least + 1)
    }
}

impl Load for Bursty {
    fn next(&mut self, now: Instant) -> Operation {
        let file = self.file;
        match self.step {
            Noise::Draw => {
                if Board::lock(&self.board).over {
                    return Operation::Exit;
                }
                self.left = self.draw(self.calls);
                self.read()
            }
            Noise::Read => self.read(),
            Noise::Open => {
                (self.at, self.step) = (0, Noise::Read);
                Operation::Open { file, advice: Advice::Normal }
            }
            Noise::Sleep => {
                self.step = Noise::Draw;
                let pause = self.draw(self.sleep);
                Operation::Sleep(now + Nanos(pause))
            }
        }
    }
}

impl Bursty {
    /// The rest of the burst, as far as the file goes; at its end it is forgotten and begun anew.
    fn read(&mut self) -> Operation {
        if self.at == self.whole {
            self.step = Noise::Open;
            return Operation::DontNeed(self.file);
        }
        let (offset, count) = (self.at * self.bs, self.left.min(self.whole - self.at));
        self.left -= count;
        self.at += count;
        self.step = if self.left == 0 { Noise::Sleep } else { Noise::Read };
        Operation::Read { offset, bs: self.bs, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;
    use crate::host::{Host, HostConfig};
    use crate::load::params::Params;
    use hoistway::Sectors;

    fn host() -> Host {
        let drive = DriveFile::load("plextor-px-256m5s").unwrap();
        Host::new(HostConfig::profile("2019").unwrap(), &drive, Sectors(1024), 1)
    }

    fn load(host: &mut Host, entry: &LoadEntry, params: &str, start: Instant) -> Box<dyn Load> {
        let table: toml::Table = params.parse().unwrap();
        let params = Params::new(entry.name, &table, entry.params).unwrap();
        (entry.build)(&mut Build { params, host, index: 0, seed: 1, start }).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    /// A film of 100 packets of 1000 B a second, in pieces of 10, one interval a second.
    const FILM: &str = "rate = 100000\npiece = 10000\npacket = 1000\nbuffer = \"50ms\"\ninterval = \"1s\"\n\
                        size = \"1MB\"";

    /// Lets a film go on until it sleeps, reads or exits; what it counted meanwhile.
    fn until_io(load: &mut dyn Load, now: Instant) -> (Vec<(&'static str, u64)>, Operation) {
        let mut counted = Vec::new();
        loop {
            match load.next(now) {
                Operation::Tell(Notice::Count { what, n }) => counted.push((what, n)),
                Operation::DontNeed(_) | Operation::Open { .. } => {}
                other => return (counted, other),
            }
        }
    }

    #[test]
    fn packets_of_a_piece_that_comes_late_are_lost_as_far_as_their_time_has_gone() {
        let mut host = host();
        let mut film = load(&mut host, &ENTRY, FILM, at(0));
        let (counted, operation) = until_io(&mut *film, at(0));
        assert_eq!(
            (counted.len(), operation),
            (0, Operation::Read { offset: 0, bs: 10_000, count: 1 })
        );
        // Packet k is to be sent at 10 ms x k and lost 50 ms later: at 85 ms those of 0, 10, 20 and 30 ms.
        let (counted, operation) = until_io(&mut *film, at(85));
        assert_eq!(counted, [("packets", 10), ("packets_lost", 4)]);
        assert_eq!(operation, Operation::Sleep(at(100)), "the second piece is not due yet");
        let (_, operation) = until_io(&mut *film, at(100));
        assert_eq!(operation, Operation::Read { offset: 10_000, bs: 10_000, count: 1 });
        let (counted, _) = until_io(&mut *film, at(150));
        assert_eq!(counted, [("packets", 10), ("packets_lost", 0)]);
    }

    #[test]
    fn the_interval_in_which_too_much_is_lost_ends_the_test() {
        let mut host = host();
        let mut films: Vec<_> =
            (0..3).map(|i| load(&mut host, &ENTRY, FILM, at(1000 * i))).collect();
        let mut noise = load(&mut host, &NOISE, "", at(0));
        assert!(matches!(until_io(&mut *noise, at(0)).1, Operation::Read { bs: 1048576, .. }));
        until_io(&mut *films[0], at(0));
        until_io(&mut *films[0], at(10));
        // The second begins: nothing was lost. In its interval one piece comes far too late.
        until_io(&mut *films[1], at(1000));
        assert_eq!(until_io(&mut *films[1], at(1500)).0, [("packets", 10), ("packets_lost", 10)]);
        let (counted, operation) = until_io(&mut *films[2], at(2000));
        assert_eq!((counted, operation), (vec![("films", 1)], Operation::Exit));
        assert_eq!(until_io(&mut *films[0], at(2001)).1, Operation::Exit);
        until_io(&mut *noise, at(2001));
        assert_eq!(until_io(&mut *noise, at(2002)).1, Operation::Exit);
    }

    #[test]
    fn where_no_film_is_left_to_begin_the_last_interval_is_judged_all_the_same() {
        let mut host = host();
        let mut film = load(&mut host, &ENTRY, FILM, at(0));
        until_io(&mut *film, at(0));
        assert_eq!(until_io(&mut *film, at(10)).1, Operation::Sleep(at(100)));
        let (counted, operation) = until_io(&mut *film, at(1000));
        assert_eq!((counted, operation), (vec![("films", 1)], Operation::Exit));
    }

    #[test]
    fn a_burst_is_of_the_given_size_and_goes_on_at_the_beginning_of_the_file() {
        let mut host = host();
        let params = "least = \"3MiB\"\nmost = \"4MiB\"\nshortest = \"1ms\"\nlongest = \"2ms\"";
        let mut noise = load(&mut host, &NOISE, params, at(0));
        let mut total = 0;
        for _ in 0..50 {
            let mut calls = 0;
            loop {
                match noise.next(at(5)) {
                    Operation::Read { offset, bs: 1048576, count } => {
                        assert!((offset >> 20) + count <= 4);
                        calls += count;
                    }
                    Operation::Sleep(until) => {
                        assert!(until >= at(6) && until <= at(7));
                        break;
                    }
                    Operation::DontNeed(_) | Operation::Open { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(calls == 3 || calls == 4, "{calls}");
            total += calls;
        }
        assert!(total > 150 && total < 200, "both sizes are drawn: {total}");
    }
}
