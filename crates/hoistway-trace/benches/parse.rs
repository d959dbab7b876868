//! Records parsed per second, by format: `cargo bench -p hoistway-trace --bench parse`.
//!
//! The traces are made in memory before the clock runs; each is read seven times through [`Reader`] as a file would be, sorting
//! and time base included, and the median counts. Premises: every record is delivered, none malformed or late.
//! With `--once FORMAT` one pass is made without a clock, for `valgrind --tool=callgrind`.

#![allow(clippy::disallowed_methods)]

use hoistway_trace::blktrace::{Event, Writer, action, category};
use hoistway_trace::{FORMATS, Options, Reader, Record};
use std::fmt::Write;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Instant;

const RECORDS: u64 = 1_000_000;
const PASSES: usize = 7;

/// A made-up place: random to the eye, the same every time.
fn place(i: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30) % 200_000_000
}

fn trace(format: &str) -> Option<Vec<u8>> {
    if format == "blktrace" {
        return Some(blktrace());
    }
    let mut out = String::new();
    if format == "iolog" {
        out.push_str("fio version 3 iolog\n");
    }
    for i in 0..RECORDS {
        let (sector, t) = (place(i) * 8, i * 7);
        let (rw, bit) = if i % 3 == 0 { ("W", 1) } else { ("R", 0) };
        let done = match format {
            "blkparse" => writeln!(
                out,
                "  8,0    3 {i:8} {:5}.{:09}  4162  Q  {rw}S {sector} + 8 [fio]",
                t / 1_000_000,
                t % 1_000_000 * 1000
            ),
            "iolog" => writeln!(
                out,
                "{t} /d/f {} {} 4096",
                if bit == 1 { "write" } else { "read" },
                sector * 512
            ),
            "perf" => writeln!(
                out,
                "             fio-4162    [003] .....  {:5}.{:06}: block_bio_queue: 8,0 {rw} {sector} + 8 [fio]",
                t / 1_000_000,
                t % 1_000_000
            ),
            "biosnoop" => {
                writeln!(out, "{:.6} fio 4162 sda {rw} {sector} 4096 0.25", t as f64 / 1e6)
            }
            "msr" => writeln!(
                out,
                "{},usr,0,{},{},4096,41286",
                128_166_372_003_061_629 + t,
                if bit == 1 { "Write" } else { "Read" },
                sector * 512
            ),
            "alibaba" => writeln!(
                out,
                "{},{rw},{},4096,{}",
                i % 100,
                sector * 512,
                1_577_808_000_000_000 + t
            ),
            "tencent" => {
                writeln!(out, "{},{sector},8,{bit},{}", 1_538_323_199 + t / 1_000_000, i % 1000)
            }
            "systor" => writeln!(
                out,
                "{}.{:09},0.000806000,{rw},4,{},4096",
                1_456_095_145 + t / 1_000_000,
                t % 1_000_000 * 1000,
                sector * 512
            ),
            "spc" => writeln!(out, "{},{sector},4096,{rw},{:.6}", i % 24, t as f64 / 1e6),
            "fiu" => writeln!(
                out,
                "{} 20782 gzip {sector} 8 {rw} 6 0 56f11b711d91a065a2b6458eca924523",
                t * 1000
            ),
            "disksim" => writeln!(out, "{:.6} 0 {sector} 8 {}", t as f64 / 1e3, 1 - bit),
            "mqsim" => writeln!(out, "{} 0 {sector} 8 {}", t * 1000, 1 - bit),
            _ => return None,
        };
        done.expect("a string takes everything");
    }
    Some(out.into_bytes())
}

fn blktrace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for i in 0..RECORDS {
        let action = action::QUEUE | category::QUEUE | category::READ | category::SYNC;
        let (sector, pid) = (place(i) * 8, 4162 + (i % 4) as u32);
        let event = Event {
            time: i * 7000,
            sector,
            bytes: 4096,
            action,
            pid,
            device: 8 << 20,
            ..Event::default()
        };
        writer.event(&event, &[]).expect("memory");
    }
    writer.finish().expect("memory")
}

/// Bytes that several readers share.
#[derive(Clone)]
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn pass(bytes: &Shared) -> u64 {
    let source = Box::new(Cursor::new(bytes.clone()));
    let mut reader = Reader::from_read("bench", source, &Options::default()).expect("it opens");
    let (mut n, mut record, mut sum) = (0, Record::default(), 0_u64);
    while reader.read(&mut record).expect("it is whole") {
        n += 1;
        sum = sum.wrapping_add(record.offset ^ record.time);
    }
    assert_eq!((reader.malformed(), reader.late()), (0, 0));
    std::hint::black_box(sum);
    n
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--once") {
        let bytes = Shared(Arc::new(trace(&args[at + 1]).expect("a format")));
        assert_eq!(pass(&bytes), RECORDS);
        return;
    }
    println!("{:10} {:>14} {:>10}", "format", "records/s", "MB/s");
    for format in FORMATS {
        let bytes = Shared(Arc::new(trace(format.name).expect("every format has a bench")));
        let mut times = Vec::new();
        for _ in 0..PASSES {
            let begin = Instant::now();
            assert_eq!(pass(&bytes), RECORDS, "{}", format.name);
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let median = times[PASSES / 2];
        let rate = RECORDS as f64 / median;
        println!("{:10} {rate:>14.0} {:>10.0}", format.name, bytes.0.len() as f64 / median / 1e6);
    }
}
