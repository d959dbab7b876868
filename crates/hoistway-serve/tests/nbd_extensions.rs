//! What the NBD server does beyond the baseline, byte by byte: extended headers, fast zeroes, cache
//! requests, and data it does not want.
#![cfg(target_os = "linux")]

mod client;

use client::{Client, FAST_ZERO, FUA, NO_HOLE, PAYLOAD_LEN};
use hoistway_serve::front::Export;
use hoistway_serve::front::nbd::{Server, ServerOptions};
use hoistway_serve::net::Listen;
use hoistway_serve::storage::FileOptions;
use hoistway_serve::{Device, DeviceOptions, Target};
use std::path::PathBuf;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const ENOTSUP: u32 = 95;

/// More than compact headers can name.
const SIZE: u64 = 12 << 30;

fn serve(name: &str, target: &Target) -> (Server, Device, PathBuf) {
    let path = std::env::temp_dir().join(format!("hoistway-ext-{}-{name}", std::process::id()));
    let device = Device::open(target, &DeviceOptions::default()).unwrap();
    let exports = vec![Export::new("disk", device.clone())];
    let listen = [Listen::Unix(path.clone())];
    (Server::start(exports, &listen, &ServerOptions::default()).unwrap(), device, path)
}

fn ram(name: &str) -> (Server, Device, PathBuf) {
    serve(name, &Target::Ram { size: SIZE })
}

/// Sends data that is too much at once for a test to hold.
fn pour(c: &mut Client, mut bytes: u64) {
    let piece = vec![7; 1 << 20];
    while bytes > 0 {
        let now = bytes.min(piece.len() as u64);
        c.raw(&piece[..now as usize]);
        bytes -= now;
    }
}

#[test]
fn a_write_above_the_limit_is_refused_and_the_connection_goes_on() {
    let (_server, device, path) = ram("limit");
    let too_much = (32 << 20) + 512;
    for structured in [false, true] {
        let mut c = Client::go(&path, "disk", structured).unwrap();
        for n in 0..2 {
            let head = c.request(WRITE, 0, n, 0, too_much);
            c.raw(&head);
            pour(&mut c, too_much.into());
            // The next one stands right behind the data.
            c.send(WRITE, 0, 10 + n, 4096, 512, &[n as u8 + 1; 512]);
            let mut outcomes =
                [c.reply(&[]), c.reply(&[])].map(|(cookie, error, _)| (cookie, error));
            outcomes.sort_unstable();
            assert_eq!(outcomes, [(n, EINVAL), (10 + n, 0)]);
        }
        assert_eq!(c.read(4096, 512), [2; 512]);
        assert_eq!(c.read(0, 512), [0; 512], "nothing of it was written");
        c.disconnect();
    }
    let mut c = Client::go_extended(&path, "disk").unwrap();
    c.send_extended(WRITE, PAYLOAD_LEN, 1, (0, too_much.into()));
    pour(&mut c, too_much.into());
    c.send_extended(READ, 0, 2, (4096, 512));
    assert_eq!(c.outcome(), (1, EINVAL));
    assert_eq!(c.chunk().1, 2);
    // What nobody can mean ends the connection: its data would be passed over for ever.
    c.send_extended(WRITE, PAYLOAD_LEN, 3, (0, 1 << 40));
    assert_eq!(std::io::Read::read(&mut c.stream, &mut [0; 8]).unwrap(), 0);
    assert_eq!(device.counters().unwrap().submitted, 9, "4 writes and 5 reads of 512 bytes");
}

#[test]
fn extended_headers_carry_ranges_beyond_four_gigabytes() {
    let (_server, _device, path) = ram("extended");
    let mut c = Client::go_extended_with_status(&path, "disk").unwrap();
    assert_eq!(c.size, SIZE);
    assert_ne!(c.flags & (1 << 7), 0, "DF may be sent");
    for at in [0, 5 << 30, SIZE - 4096] {
        c.send_extended(WRITE, PAYLOAD_LEN, at, (at, 4096));
        c.raw(&[9; 4096]);
        assert_eq!(c.outcome(), (at, 0));
    }
    c.send_extended(READ, 0, 5, (5 << 30, 4096));
    let mut expected = (5u64 << 30).to_be_bytes().to_vec();
    expected.extend([9; 4096]);
    assert_eq!(c.chunk(), (1, 5, 5 << 30, expected));
    // One hole of more than 4 GiB, in one descriptor.
    let status = |c: &mut Client, range| {
        c.send_extended(BLOCK_STATUS, 0, 6, range);
        let (kind, cookie, offset, data) = c.chunk();
        assert_eq!((kind, cookie, offset), (6, 6, range.0));
        assert_eq!(data[..4], 1u32.to_be_bytes(), "the context");
        let word = |at: usize| u64::from_be_bytes(data[at..at + 8].try_into().unwrap());
        let count = u32::from_be_bytes(data[4..8].try_into().unwrap());
        let list = (0..count as usize).map(|n| (word(8 + 16 * n), word(16 + 16 * n)));
        list.collect::<Vec<_>>()
    };
    let (grain, hole) = (64 << 10, 3);
    let around = (5 << 30) - grain;
    assert_eq!(
        status(&mut c, (0, SIZE)),
        [(grain, 0), (around, hole), (grain, 0), (SIZE - (5 << 30) - 2 * grain, hole), (grain, 0)]
    );
    // One request zeroes, another trims more than 4 GiB.
    c.send_extended(WRITE_ZEROES, 0, 7, (0, 6 << 30));
    assert_eq!(c.outcome(), (7, 0));
    assert_eq!(status(&mut c, (0, 6 << 30)), [(6 << 30, hole)]);
    c.send_extended(TRIM, 0, 8, (grain, SIZE - grain));
    assert_eq!(c.outcome(), (8, 0));
    assert_eq!(status(&mut c, (0, SIZE)), [(SIZE, hole)]);
}

#[test]
fn mistakes_with_extended_headers_are_answered_and_their_data_passed_over() {
    let (_server, _device, path) = ram("mistakes");
    let mut c = Client::go_extended(&path, "disk").unwrap();
    // A write that says it has no data, and others that bring some along.
    c.send_extended(WRITE, 0, 1, (0, 512));
    for (cookie, kind) in [(2, READ), (3, TRIM), (4, BLOCK_STATUS), (5, 99)] {
        c.send_extended(kind, PAYLOAD_LEN, cookie, (0, 1000));
        c.raw(&[1; 1000]);
    }
    c.send_extended(READ, 0, 6, (0, 64 << 20));
    c.send_extended(TRIM, 0, 7, (SIZE - 512, 1024));
    c.send_extended(READ, 0, 8, (u64::MAX - 100, u64::MAX));
    for (cookie, error) in [
        (1, EINVAL),
        (2, EINVAL),
        (3, EINVAL),
        (4, EINVAL),
        (5, EINVAL),
        (6, EINVAL),
        (7, EINVAL),
        (8, EINVAL),
    ] {
        assert_eq!(c.outcome(), (cookie, error));
    }
    c.send_extended(READ, 0, 9, (0, 512));
    assert_eq!(c.chunk().3[8..], [0; 512]);
    // Compact headers are none any more.
    let compact = c.request(READ, 0, 10, 0, 512);
    c.raw(&[&compact[..], &[0; 4]].concat());
    assert_eq!(std::io::Read::read(&mut c.stream, &mut [0; 8]).unwrap(), 0);
    // Structured replies first, or not at all; never afterwards, nor twice, nor with the old option.
    let (ack, invalid, required) = (1, (1 << 31) + 3, (1 << 31) + 10);
    let none = &[][..];
    assert_eq!(
        Client::haggle(&path, &[(8, none), (11, none), (11, none)]).unwrap(),
        [ack, ack, invalid]
    );
    assert_eq!(
        Client::haggle(&path, &[(11, b"x"), (11, none), (8, none)]).unwrap(),
        [invalid, ack, required]
    );
    assert_eq!(Client::haggle(&path, &[(11, none), (1, b"disk")]).unwrap(), [ack]);
}

#[test]
fn fast_zeroes_are_fast_or_refused_with_nothing_changed() {
    let (_server, _device, path) = ram("fast");
    let mut c = Client::go(&path, "disk", true).unwrap();
    assert_ne!(c.flags & (1 << 11), 0, "fast zeroes may be asked for");
    c.send(WRITE, 0, 1, 0, 1 << 20, &vec![3; 1 << 20]);
    assert_eq!(c.reply(&[]).1, 0);
    // What must stay allocated may have to be written.
    c.send(WRITE_ZEROES, FAST_ZERO | NO_HOLE, 2, 0, 1 << 20, &[]);
    assert_eq!(c.reply(&[]).1, ENOTSUP);
    assert_eq!(c.read(0, 1 << 20), vec![3; 1 << 20]);
    c.send(WRITE_ZEROES, FAST_ZERO, 3, 0, 1 << 20, &[]);
    assert_eq!(c.reply(&[]).1, 0);
    assert_eq!(c.read(0, 1 << 20), vec![0; 1 << 20]);
    // Beyond the end is beyond the end, however fast; the flag is for zeroes alone.
    c.send(WRITE_ZEROES, FAST_ZERO | NO_HOLE, 4, SIZE, 512, &[]);
    assert_eq!(c.reply(&[]).1, 28);
    c.send(TRIM, FAST_ZERO, 5, 0, 512, &[]);
    assert_eq!(c.reply(&[]).1, EINVAL);
}

#[test]
fn cache_requests_read_what_the_page_cache_can_hold_and_no_more() {
    let (_server, device, path) = ram("cache-ram");
    let mut c = Client::go(&path, "disk", true).unwrap();
    assert_ne!(c.flags & (1 << 10), 0);
    for (cookie, (flags, at, len, error)) in
        [(0, 0, 1 << 30, 0), (0, SIZE - 512, 1024, EINVAL), (NO_HOLE, 0, 512, EINVAL)]
            .iter()
            .enumerate()
    {
        c.send(CACHE, *flags, cookie as u64, *at, *len, &[]);
        assert_eq!(c.reply(&[]), (cookie as u64, *error, Vec::new()));
    }
    assert_eq!(device.counters().unwrap().submitted, 0, "memory is as near as it can be");

    let file = std::env::temp_dir().join(format!("hoistway-ext-{}-file", std::process::id()));
    std::fs::write(&file, vec![5; 4 << 20]).unwrap();
    let target = |direct| {
        let options = FileOptions { direct, ..FileOptions::default() };
        Target::File { path: file.clone(), options }
    };
    let (_server, device, path) = serve("cache-file", &target(false));
    let mut c = Client::go(&path, "disk", false).unwrap();
    // Others are answered meanwhile.
    c.send(CACHE, 0, 1, 512, (1 << 20) + 512, &[]);
    c.send(READ, 0, 2, 0, 512, &[]);
    let mut both = [c.reply(&[(2, 512)]), c.reply(&[(2, 512)])];
    both.sort();
    assert_eq!(both, [(1, 0, Vec::new()), (2, 0, vec![5; 512])]);
    assert_eq!(device.counters().unwrap().submitted, 1 + 5, "256 KiB at a time");
    // A range that does not fit the blocks is refused as its read would be.
    c.send(CACHE, 0, 3, 100, 1000, &[]);
    assert_eq!(c.reply(&[]).1, EINVAL);
    // Who goes in the middle of it is forgotten.
    c.send(CACHE, 0, 4, 0, 4 << 20, &[]);
    drop(c);
    assert!(client::wait_for(|| device.report().unwrap().clients.is_empty()));
    std::fs::remove_file(&file).unwrap();
}

/// The error of a request with compact headers, and behind it the connection still serves.
fn error_of(c: &mut Client, kind: u16, flags: u16, at: u64, len: u32) -> u32 {
    let data = if kind == WRITE { vec![1; len as usize] } else { Vec::new() };
    c.send(kind, flags, 5, at, len, &data);
    let (cookie, error, _) = c.reply(&[]);
    assert_eq!(cookie, 5);
    c.read(0, 512);
    error
}

/// doc/proto.md of NBD: EPERM for each change of a read-only export, whether or not the storage could trim; reads,
/// cache requests and flushes go on.
#[test]
fn a_read_only_export_refuses_every_change_with_eperm() {
    let file = std::env::temp_dir().join(format!("hoistway-ro-{}", std::process::id()));
    std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let options = FileOptions { read_only: true, ..FileOptions::default() };
    let by_target = Target::File { path: file.clone(), options };
    for (name, target, read_only) in
        [("export", Target::Ram { size: 64 << 20 }, true), ("target", by_target, false)]
    {
        let path = std::env::temp_dir().join(format!("hoistway-ro-{}-{name}", std::process::id()));
        let device = Device::open(&target, &DeviceOptions::default()).unwrap();
        let exports = vec![Export { read_only, ..Export::new("disk", device) }];
        let listen = [Listen::Unix(path.clone())];
        let _server = Server::start(exports, &listen, &ServerOptions::default()).unwrap();
        for structured in [false, true] {
            let mut c = Client::go(&path, "disk", structured).unwrap();
            for (kind, flags) in [
                (WRITE, 0),
                (WRITE, FUA),
                (TRIM, 0),
                (TRIM, FUA),
                (WRITE_ZEROES, 0),
                (WRITE_ZEROES, NO_HOLE | FUA),
                (WRITE_ZEROES, FAST_ZERO),
            ] {
                for at in [0, 1 << 40] {
                    let error = error_of(&mut c, kind, flags, at, 512);
                    assert_eq!(error, EPERM, "{name}, {kind} with {flags} at {at}");
                }
            }
            let head = c.request(WRITE, 0, 9, 0, (32 << 20) + 512);
            c.raw(&head);
            pour(&mut c, (32 << 20) + 512);
            assert_eq!(c.reply(&[]).1, EPERM, "also of a write that is too long");
            assert_eq!(error_of(&mut c, TRIM, 1 << 9, 0, 512), EINVAL, "a flag nobody knows");
            assert_eq!(error_of(&mut c, CACHE, 0, 0, 4096), 0);
            assert_eq!(error_of(&mut c, FLUSH, 0, 0, 0), 0);
            assert_eq!(error_of(&mut c, FLUSH, 1 << 9, 0, 0), EINVAL);
        }
        let mut c = Client::go_extended_with_status(&path, "disk").unwrap();
        for kind in [TRIM, WRITE_ZEROES] {
            c.send_extended(kind, 0, 6, (0, 512));
            assert_eq!(c.outcome(), (6, EPERM));
        }
        c.send_extended(WRITE, PAYLOAD_LEN, 7, (0, 512));
        c.raw(&[1; 512]);
        assert_eq!(c.outcome(), (7, EPERM));
        c.send_extended(BLOCK_STATUS, 0, 8, (0, 4096));
        assert_eq!(c.chunk().1, 8);
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn beyond_the_end_only_what_needs_room_is_answered_with_enospc() {
    let (_server, _device, path) = ram("beyond");
    let mut c = Client::go(&path, "disk", true).unwrap();
    for (kind, error) in [(WRITE, ENOSPC), (WRITE_ZEROES, ENOSPC), (TRIM, EINVAL), (CACHE, EINVAL)]
    {
        assert_eq!(error_of(&mut c, kind, 0, SIZE, 512), error, "{kind}");
    }
}
