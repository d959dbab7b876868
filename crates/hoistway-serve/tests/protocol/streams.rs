//! Bytes that come and go in other pieces than requests and answers.

use super::{SIZE, ram};
use crate::client::Client;
use std::io::{Read, Write};
use std::net::Shutdown;

/// As many bytes as no other offset has them.
fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|n| (n / 251 + n % 251) as u8).collect()
}

#[test]
fn large_writes_that_come_in_pieces_are_stored_whole_among_small_requests() {
    let (_server, path) = ram("none");
    let mut c = Client::go(&path, "disk", true).unwrap();
    let sizes = [4096, 64 << 10, (64 << 10) + 512, 1 << 20, 3 << 20];
    for (round, len) in sizes.into_iter().enumerate() {
        for cut in [1, 28, 100, 4096, 5000, 70_000, 300_000, len - 1] {
            let data = pattern(cut as u64, len);
            let mut bytes = c.request(1, 0, 1, 4096, len as u32);
            bytes.extend(&data);
            // A small request right behind it, in the same piece.
            bytes.extend(c.request(0, 0, 2, 0, 512));
            let (first, rest) = bytes.split_at((28 + cut).min(bytes.len()));
            c.raw(first);
            // So that the server goes on with what there is.
            std::thread::sleep(std::time::Duration::from_millis(2));
            c.raw(rest);
            let mut answers = [c.reply(&[]), c.reply(&[])];
            answers.sort();
            assert_eq!(answers, [(1, 0, Vec::new()), (2, 0, vec![0; 512])]);
            assert_eq!(c.read(4096, len as u32), data, "round {round}, cut at {cut}");
        }
    }
    c.disconnect();
}

#[test]
fn a_client_cut_in_the_middle_of_a_payload_writes_nothing_and_loses_nothing() {
    let (server, path) = ram("bfq");
    let mut stays = Client::go(&path, "disk", true).unwrap();
    for cut in [0, 1, 4000, 4324, 5000, 64 << 10, 300_000, (1 << 20) - 1] {
        let mut goes = Client::go(&path, "disk", true).unwrap();
        goes.send(1, 0, 1, 0, 4096, &pattern(cut as u64, 4096));
        assert_eq!(goes.reply(&[]).1, 0);
        // Reads are under way when it goes.
        for n in 0..16 {
            goes.send(0, 0, n, 0, 256 << 10, &[]);
        }
        goes.raw(&goes.request(1, 0, 99, 1 << 20, 1 << 20));
        goes.raw(&vec![7; cut]);
        drop(goes);
        assert_eq!(
            stays.read(0, 4096),
            pattern(cut as u64, 4096),
            "what was acknowledged is there"
        );
        assert_eq!(stays.read(1 << 20, 1 << 20), vec![0; 1 << 20], "half a write is no write");
    }
    drop(stays);
    server.stop().unwrap();
}

#[test]
fn clients_that_all_send_at_once_more_than_there_are_buffers_for_are_all_served() {
    const CLIENTS: u64 = 256;
    const WRITES: u64 = 8;
    let (_server, path) = ram("none");
    let mut all: Vec<_> = (0..CLIENTS).map(|_| Client::go(&path, "disk", true).unwrap()).collect();
    let place = |n: u64, k: u64| (n * WRITES + k) * 4096 % SIZE;
    let start = std::sync::Barrier::new(all.len());
    std::thread::scope(|scope| {
        for (n, c) in all.iter_mut().enumerate() {
            let (n, start) = (n as u64, &start);
            scope.spawn(move || {
                let mut bytes = Vec::new();
                for k in 0..WRITES {
                    bytes.extend(c.request(1, 0, k, place(n, k), 4096));
                    bytes.extend(pattern(place(n, k), 4096));
                }
                start.wait();
                c.raw(&bytes);
                (0..WRITES).for_each(|_| assert_eq!(c.reply(&[]).1, 0));
            });
        }
    });
    for (n, c) in all.iter_mut().enumerate() {
        let at = place(n as u64, 0);
        assert_eq!(c.read(at, 4096 * WRITES as u32), pattern(at, 4096 * WRITES as usize));
    }
}

#[test]
fn a_client_that_does_not_read_for_long_gets_every_answer_then() {
    let (_server, path) = ram("none");
    let mut other = Client::go(&path, "disk", true).unwrap();
    other.send(1, 0, 1, 0, 1 << 20, &pattern(0, 1 << 20));
    assert_eq!(other.reply(&[]).1, 0);
    let mut slow = Client::go(&path, "disk", true).unwrap();
    // More than a connection may owe, and more than a socket holds.
    const READS: u64 = 700;
    let requests: Vec<u8> =
        (0..READS).flat_map(|n| slow.request(0, 0, n, n % 16 * 65536, 65536)).collect();
    let mut sends = slow.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || sends.write_all(&requests).unwrap());
    for _ in 0..200 {
        assert_eq!(other.read(4096, 4096), pattern(4096, 4096));
    }
    let mut seen = vec![false; READS as usize];
    for _ in 0..READS {
        let (n, error, data) = slow.reply(&[]);
        assert!(error == 0 && !std::mem::replace(&mut seen[n as usize], true));
        assert_eq!(data, pattern(n % 16 * 65536, 65536), "answer to {n}");
    }
    sending.join().unwrap();
    assert_eq!(slow.read(0, 512), pattern(0, 512));
    slow.disconnect();
}

#[test]
fn what_came_before_a_client_closed_its_side_is_answered() {
    let (_server, path) = ram("bfq");
    for count in [1, 64, 256, 600] {
        let mut c = Client::go(&path, "disk", true).unwrap();
        let requests: Vec<u8> =
            (0..count).flat_map(|n| c.request(0, 0, n, n % 2048 * 4096, 4096)).collect();
        c.raw(&requests);
        // Half a request, which is none.
        c.raw(&requests[..20]);
        c.stream.shutdown(Shutdown::Write).unwrap();
        let mut answers: Vec<_> = (0..count).map(|_| c.reply(&[])).map(|(n, ..)| n).collect();
        answers.sort_unstable();
        assert_eq!(answers, (0..count).collect::<Vec<_>>());
        assert_eq!(c.stream.read(&mut [0; 1]).unwrap(), 0, "the server closes, too");
    }
}

#[test]
fn a_client_that_is_dropped_sees_its_socket_closed() {
    let (_server, path) = ram("none");
    let mut stays = Client::go(&path, "disk", true).unwrap();
    // Garbage: the server ends it, while the client's side stays open.
    let mut bad = Client::go(&path, "disk", true).unwrap();
    bad.raw(&[9; 64]);
    let mut rest = Vec::new();
    match bad.stream.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty(), "no answer to what is no request"),
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset),
    }
    assert_eq!(stays.read(0, 512), [0; 512]);
}
