//! The latency of every process as an HdrHistogram log, version 1.3, which HistogramLogAnalyzer, hdr-plot and the libraries
//! of that name read.
//!
//! A histogram of ours has the slots of theirs with three significant digits, number by number: each value below 2,048 ns,
//! then 1,024 an octave. Nothing is rounded on the way. Their log has no place for what is exact in ours beside the slots,
//! sum and sum of squares.
//!
//! Source: the documentation of HistogramLogWriter and of the encoding V2 in HdrHistogram 2.1.

use crate::result::{Run, number_text};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hoistway_run::Histogram;
use std::fmt::Write as _;
use std::io::Write as _;

/// Marks of the encoding V2 with words of one byte, plain and compressed.
const COOKIE: i32 = 0x1c84_9313;
const COOKIE_COMPRESSED: i32 = 0x1c84_9314;
const DIGITS: i32 = 3;
/// Values of ours stay below this many ns.
const HIGHEST: i64 = (1 << 42) - 1;

/// A line per repetition of a cell and process. Tags are `DRIVE/CONFIG/WORKLOAD/rN/PROCESS` with `;` for commas, which part
/// the columns; times are seconds since measuring began, values in the column of the maximum ms.
pub fn render(run: &Run) -> String {
    let mut out = format!(
        "#[Made by hoistway {}: {}]\n#[Histogram log format version 1.3]\n#[StartTime: 0.000 (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        run.manifest.version,
        run.manifest.command.replace('\n', " ")
    );
    for cell in &run.cells {
        for (rep, number) in cell.reps.iter().zip(1..) {
            let seconds = rep.measured.0 as f64 / 1e9;
            for proc in rep.procs.iter().filter(|p| p.latency.count() > 0) {
                let tag = format!(
                    "{}/{}/{}/r{number}/{}",
                    cell.drive, cell.config, cell.workload, proc.name
                );
                let tag = tag.replace(',', ";").replace([' ', '\n'], "_");
                let max = number_text(proc.latency.max().unwrap_or(0) as f64 / 1e6);
                let _ = writeln!(out, "Tag={tag},0.000,{seconds:.3},{max},{}", text(&proc.latency));
            }
        }
    }
    out
}

/// A histogram, compressed, in base 64.
fn text(histogram: &Histogram) -> String {
    let plain = encoded(histogram);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = zlib.write_all(&plain).and_then(|()| zlib.finish());
    let packed = written.expect("a vector takes every byte");
    let mut all = Vec::with_capacity(packed.len() + 8);
    all.extend(COOKIE_COMPRESSED.to_be_bytes());
    all.extend((packed.len() as i32).to_be_bytes());
    all.extend(packed);
    base64(&all)
}

fn encoded(histogram: &Histogram) -> Vec<u8> {
    let mut counts = Vec::new();
    let mut next = 0;
    for (slot, n) in histogram.slots() {
        match slot - next {
            0 => {}
            zeros => zigzag(&mut counts, -(zeros as i64)),
        }
        zigzag(&mut counts, i64::try_from(n).unwrap_or(i64::MAX));
        next = slot + 1;
    }
    let mut out = Vec::with_capacity(counts.len() + 40);
    out.extend(COOKIE.to_be_bytes());
    out.extend((counts.len() as i32).to_be_bytes());
    out.extend(0_i32.to_be_bytes()); // offset of the indices
    out.extend(DIGITS.to_be_bytes());
    out.extend(1_i64.to_be_bytes()); // lowest value that is told apart
    out.extend(HIGHEST.to_be_bytes());
    out.extend(1.0_f64.to_be_bytes()); // unit
    out.extend(counts);
    out
}

/// Seven bits a byte, least first, after the sign has become the lowest bit; the ninth byte has eight.
fn zigzag(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            return out.push(rest as u8);
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..4 {
            match place <= three.len() {
                true => out.push(char::from(LETTERS[(word >> (18 - 6 * place) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    /// What is packed in a text.
    fn unpacked(text: &str) -> Vec<u8> {
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut word, mut bits) = (Vec::new(), 0_u32, 0);
        for letter in text.bytes().filter(|&b| b != b'=') {
            let digit = letters.iter().position(|&l| l == letter).unwrap();
            (word, bits) = (word << 6 | digit as u32, bits + 6);
            if bits >= 8 {
                bits -= 8;
                bytes.push((word >> bits) as u8);
            }
        }
        assert_eq!(bytes[..4], COOKIE_COMPRESSED.to_be_bytes());
        assert_eq!(bytes[4..8], (bytes.len() as i32 - 8).to_be_bytes());
        let mut plain = Vec::new();
        ZlibDecoder::new(&bytes[8..]).read_to_end(&mut plain).unwrap();
        plain
    }

    /// What the package hdrhistogram 0.10 of Python encodes: `HdrHistogram(1, (1 << 42) - 1, 3)`, the values of the test
    /// below by `record_value(value, count)`, then `encode()`.
    const THEIRS: &str =
        "HISTFAAAADl4nJNpmSzMwMAgxQABzFCaEcj8DwL2H6ACTKxsH+X/MTYwbYx4cJTj/xJGls8eTOdXMjIBALTeEUc=";

    #[test]
    fn slots_and_counts_are_theirs() {
        let mut ours = Histogram::new();
        for (ns, n) in [
            (1, 1),
            (5, 3),
            (2_047, 127),
            (2_048, 128),
            (100_000, 70_000),
            (123_456_789, 2),
            (3_000_000_000, 1),
            ((1 << 42) - 1, 1),
        ] {
            ours.record_n(ns, n);
        }
        assert_eq!(encoded(&ours), unpacked(THEIRS));
        assert_eq!(unpacked(&text(&ours)), encoded(&ours));
    }

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let bytes = |value: i64| {
            let mut out = Vec::new();
            zigzag(&mut out, value);
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(-1), [1]);
        assert_eq!(bytes(63), [126]);
        assert_eq!(bytes(64), [0x80, 1]);
        assert_eq!(bytes(i64::MAX), [&[0xfe][..], &[0xff; 8]].concat());
        assert_eq!(bytes(i64::MIN), [0xff; 9]);
    }

    #[test]
    fn three_bytes_are_four_letters() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"M"), "TQ==");
        assert_eq!(base64(b"Ma"), "TWE=");
        assert_eq!(base64(b"Man"), "TWFu");
    }
}
