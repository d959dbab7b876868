//! The NBD server against a client of our own: everything that real clients do not do.

mod streams;

use crate::SOCKETS;
use crate::client::{Client, FUA, LIMIT, NO_HOLE, wait_for};
use hoistway::stack::StageName;
use hoistway::{IoPrio, sched};
use hoistway_serve::device::{IoTotals, SocketWay};
use hoistway_serve::front::Export;
use hoistway_serve::front::nbd::{ClientMatch, ClientRule, Server, ServerOptions};
use hoistway_serve::net::Listen;
use hoistway_serve::system::SocketRing;
use hoistway_serve::{Device, DeviceOptions, GroupSpec, ServeError, Target};
use hoistway_sim::rng::stream;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SIZE: u64 = 8 << 20;

fn socket() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("hoistway-nbd-{}-{n}.sock", std::process::id()))
}

fn device(scheduler: &str) -> Device {
    let mut options = DeviceOptions::new(sched::find(scheduler).unwrap());
    options.sockets = SOCKETS;
    Device::open(&Target::Ram { size: SIZE }, &options).unwrap()
}

fn serve(exports: Vec<Export>) -> (Server, PathBuf) {
    let path = socket();
    let listen = [Listen::Unix(path.clone())];
    (Server::start(exports, &listen, &ServerOptions::default()).unwrap(), path)
}

fn ram(scheduler: &str) -> (Server, PathBuf) {
    serve(vec![Export::new("disk", device(scheduler))])
}

#[test]
fn it_is_said_how_sockets_are_served() {
    let ring = SOCKETS == SocketWay::Best && SocketRing::works();
    let sockets = if ring { "io_uring" } else { "epoll" };
    assert_eq!(device("none").report().unwrap().sockets, sockets);
}

#[test]
fn requests_in_flight_are_answered_each_with_its_own_data() {
    for structured in [false, true] {
        let (_server, path) = ram("bfq");
        let mut c = Client::go(&path, "disk", structured).unwrap();
        for n in 0..64u64 {
            c.send(1, 0, n, n * 4096, 4096, &[n as u8; 4096]);
        }
        (0..64).for_each(|_| assert_eq!(c.reply(&[]).1, 0));
        for n in 0..64u64 {
            c.send(0, 0, n, n * 4096, 4096, &[]);
        }
        let lengths: Vec<(u64, u32)> = (0..64).map(|n| (n, 4096)).collect();
        for _ in 0..64 {
            let (cookie, error, data) = c.reply(&lengths);
            assert_eq!((error, data), (0, vec![cookie as u8; 4096]));
        }
        c.disconnect();
    }
}

#[test]
fn errors_go_to_the_request_that_made_them() {
    let (_server, path) = ram("none");
    let mut c = Client::go(&path, "disk", true).unwrap();
    c.send(1, 0, 1, 0, 512, &[7; 512]);
    c.send(1, 0, 2, SIZE, 512, &[7; 512]);
    c.send(0, 0, 3, SIZE - 512, 1024, &[]);
    c.send(0, 0, 4, 100, 512, &[]);
    c.send(77, 0, 5, 0, 0, &[]);
    c.send(0, 1 << 9, 6, 0, 512, &[]);
    c.send(0, 0, 7, 0, 64 << 20, &[]);
    c.send(1, FUA, 8, 512, 512, &[8; 512]);
    c.send(0, 0, 9, 0, 0, &[]);
    c.send(0, 0, 10, u64::MAX - 100, 512, &[]);
    let mut errors: Vec<_> = (0..10).map(|_| c.reply(&[])).map(|(n, e, _)| (n, e)).collect();
    errors.sort_unstable();
    let expected =
        [(1, 0), (2, 28), (3, 22), (4, 22), (5, 22), (6, 22), (7, 22), (8, 0), (9, 22), (10, 22)];
    assert_eq!(errors, expected);
    assert_eq!(c.read(0, 1024), [[7; 512], [8; 512]].concat());
}

#[test]
fn zeroes_and_trims_read_as_zeroes_and_show_as_holes_where_they_may() {
    let (_server, path) = ram("mq-deadline");
    let mut c = Client::go(&path, "disk", true).unwrap();
    c.send(1, 0, 1, 0, 1 << 20, &[3; 1 << 20]);
    assert_eq!(c.reply(&[]).1, 0);
    for (n, (kind, flags, at)) in
        [(4, 0, 0), (6, 0, 256 << 10), (6, NO_HOLE, 512 << 10)].iter().enumerate()
    {
        c.send(*kind, *flags, n as u64, *at, 128 << 10, &[]);
        assert_eq!(c.reply(&[]).1, 0);
        assert_eq!(c.read(*at, 128 << 10), vec![0; 128 << 10]);
        assert_eq!(c.read(at + (128 << 10), 512), [3; 512]);
    }
}

#[test]
fn a_device_is_shared_by_exports_with_ranges_of_their_own() {
    let device = device("bfq");
    let (gold, _) = device.set_group(&GroupSpec::new("gold").weight(800)).unwrap();
    let half = SIZE / 2;
    let first = Export { size: Some(half), ..Export::new("first", device.clone()) };
    let second = Export {
        offset: half,
        group: gold,
        prio: IoPrio::be(2),
        ..Export::new("second", device.clone())
    };
    let whole = Export { read_only: true, ..Export::new("whole", device) };
    let (_server, path) = serve(vec![first, second, whole]);
    let names = Client::list(&path).unwrap();
    assert_eq!(names, ["first", "second", "whole"]);
    let mut second = Client::go(&path, "second", true).unwrap();
    assert_eq!(second.size, half);
    second.send(1, 0, 1, 0, 512, &[9; 512]);
    assert_eq!(second.reply(&[]).1, 0);
    let mut whole = Client::go(&path, "whole", false).unwrap();
    assert_eq!((whole.size, whole.flags & 2), (SIZE, 2), "read-only");
    assert_eq!(whole.read(half, 512), [9; 512]);
    whole.send(1, 0, 4, 0, 512, &[1; 512]);
    assert_eq!(whole.reply(&[]).1, 1, "EPERM, and the data was swallowed");
    assert_eq!(whole.read(0, 512), [0; 512]);
    assert_eq!(Client::go(&path, "", false).unwrap().size, half, "the empty name is the first");
    assert!(Client::go(&path, "third", false).is_err());
}

#[test]
fn a_device_of_two_names_is_refused_and_so_is_plain_tcp_beyond_this_machine() {
    let twice = vec![Export::new("a", device("none")), Export::new("a", device("none"))];
    let listen = [Listen::Unix(socket())];
    let options = ServerOptions::default();
    assert!(matches!(Server::start(twice, &listen, &options), Err(ServeError::BadName(_))));
    let open = [Listen::Tcp("0.0.0.0:0".parse().unwrap())];
    let refused = Server::start(vec![Export::new("a", device("none"))], &open, &options);
    assert!(refused.unwrap_err().to_string().contains("neither encrypted nor authenticated"));
    let loopback = [Listen::Tcp("127.0.0.1:0".parse().unwrap())];
    let server =
        Server::start(vec![Export::new("a", device("none"))], &loopback, &options).unwrap();
    assert!(matches!(server.addresses(), [Listen::Tcp(a)] if a.port() != 0));
}

#[test]
fn clients_of_a_user_get_their_own_group() {
    // SAFETY of the number: the file we just made belongs to us.
    let own = std::os::unix::fs::MetadataExt::uid(
        &std::fs::metadata(std::env::temp_dir().join(".")).unwrap(),
    );
    let path = socket();
    let rule = ClientRule {
        who: ClientMatch::User(own),
        group: GroupSpec::new("mine").weight(300),
        prio: IoPrio::NONE,
    };
    let options = ServerOptions { clients: vec![rule], ..ServerOptions::default() };
    let exports = vec![Export::new("disk", device("bfq"))];
    let _server = Server::start(exports, &[Listen::Unix(path.clone())], &options).unwrap();
    let mut c = Client::go(&path, "disk", true).unwrap();
    assert_eq!(c.read(0, 512), [0; 512]);
}

#[test]
fn a_client_that_vanishes_disturbs_nobody() {
    let (_server, path) = ram("bfq");
    let mut stays = Client::go(&path, "disk", true).unwrap();
    for round in 0..20u64 {
        let mut goes = Client::go(&path, "disk", true).unwrap();
        for n in 0..32 {
            goes.send(0, 0, n, n * 4096, 4096, &[]);
        }
        // Half a request, half the data of a write.
        goes.raw(&goes.request(1, 0, 99, 0, 8192)[..]);
        goes.raw(&vec![1; 100 * (round as usize)]);
        drop(goes);
        stays.send(1, 0, round, round * 512, 512, &[round as u8; 512]);
        assert_eq!(stays.reply(&[]).1, 0);
        assert_eq!(stays.read(round * 512, 512), [round as u8; 512]);
    }
}

#[test]
fn a_slow_reader_is_not_read_from_until_it_reads() {
    let (_server, path) = ram("none");
    let mut slow = Client::go(&path, "disk", false).unwrap();
    slow.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // A call to read takes up to 256 KiB of requests if we write meanwhile, and the socket keeps as much. They ask
    // for 128 GiB, which the server must not keep for us: at some point it takes no more.
    let requests = slow.request(0, 0, 1, 0, 8 << 20).repeat(64);
    let mut sent = 0;
    let stuck = loop {
        match slow.stream.write(&requests) {
            Ok(n) => sent += n,
            // A process that was stopped and goes on.
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => break e,
        }
        assert!(sent < 4 << 20, "the server swallows requests without end");
    };
    assert!(matches!(stuck.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    let mut other = Client::go(&path, "disk", true).unwrap();
    assert_eq!(other.read(0, 512), [0; 512]);
}

#[test]
fn garbage_and_cut_handshakes_are_dropped_and_others_served() {
    // Who is not dropped at once is not saved by the limit of the handshake.
    let path = socket();
    let handshake_limit = Some(hoistway::Nanos::secs(3600));
    let options = ServerOptions { handshake_limit, ..ServerOptions::default() };
    let exports = vec![Export::new("disk", device("none"))];
    let _server = Server::start(exports, &[Listen::Unix(path.clone())], &options).unwrap();
    let mut random = stream(5, "nbd");
    for round in 0..300 {
        let mut stream = UnixStream::connect(&path).unwrap();
        let mut bytes = Client::plausible_handshake(&mut random);
        let at = random.below(bytes.len() as u64) as usize;
        match round % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.below(8),
            _ => bytes = (0..at).map(|_| random.below(256) as u8).collect(),
        }
        // The server may close at any point.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut sink = Vec::new();
        if let Err(e) = stream.read_to_end(&mut sink) {
            assert!(
                !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "round {round}: hangs"
            );
        }
    }
    assert_eq!(Client::go(&path, "disk", true).unwrap().read(0, 512), [0; 512]);
}

#[test]
fn garbage_after_the_handshake_ends_the_connection_alone() {
    let (_server, path) = ram("bfq");
    let mut other = Client::go(&path, "disk", true).unwrap();
    let mut random = stream(9, "nbd");
    for _ in 0..100 {
        let mut c = Client::go(&path, "disk", true).unwrap();
        let len = 28 + random.below(200) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let _ = c.stream.write_all(&bytes);
        let mut sink = Vec::new();
        let _ = c.stream.read_to_end(&mut sink);
        assert!(sink.is_empty(), "no answer to what is no request");
    }
    assert_eq!(other.read(4096, 512), [0; 512]);
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    let (_server, path) = ram("bfq");
    let mut all = Vec::new();
    for n in 0..1000u64 {
        match Client::go(&path, "disk", true) {
            Ok(c) => all.push(c),
            Err(e) => return println!("skipped: {n} connections, then {e} (ulimit -n?)"),
        }
    }
    for (n, c) in all.iter_mut().enumerate() {
        c.send(1, 0, n as u64, n as u64 * 4096, 4096, &[n as u8; 4096]);
    }
    for (n, c) in all.iter_mut().enumerate() {
        assert_eq!(c.reply(&[]), (n as u64, 0, Vec::new()));
    }
    for (n, c) in all.iter_mut().enumerate() {
        assert_eq!(c.read(n as u64 * 4096, 4096), vec![n as u8; 4096]);
    }
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let path = socket();
    let options = ServerOptions { connections_max: 2, ..ServerOptions::default() };
    let exports = vec![Export::new("disk", device("none"))];
    let _server = Server::start(exports, &[Listen::Unix(path.clone())], &options).unwrap();
    let first = Client::go(&path, "disk", true).unwrap();
    let mut second = Client::go(&path, "disk", true).unwrap();
    assert!(Client::go(&path, "disk", true).is_err());
    first.disconnect();
    // Its place is free once the server has noticed.
    let mut third = None;
    assert!(wait_for(|| {
        third = Client::go(&path, "disk", true).ok();
        third.is_some()
    }));
    assert_eq!(third.unwrap().read(0, 512), second.read(0, 512));
}

#[test]
fn who_dawdles_over_the_handshake_is_closed_and_holds_up_nobody() {
    let path = socket();
    let handshake_limit = Some(hoistway::Nanos::ms(300));
    let options = ServerOptions { handshake_limit, ..ServerOptions::default() };
    let exports = vec![Export::new("disk", device("none"))];
    let _server = Server::start(exports, &[Listen::Unix(path.clone())], &options).unwrap();
    // Whoever was in time has no limit any more. Others may try again: where the machine is held up for
    // longer than the limit, they dawdle as well.
    let enter = || {
        let mut client = None;
        assert!(wait_for(|| {
            client = Client::go(&path, "disk", true).ok();
            client.is_some()
        }));
        client.unwrap()
    };
    let mut other = enter();
    let silent = UnixStream::connect(&path).unwrap();
    let mut busy = UnixStream::connect(&path).unwrap();
    let mut bytes = 3u32.to_be_bytes().to_vec();
    // A valid option to begin with, then one that never ends.
    bytes.extend(b"IHAVEOPT\0\0\0\x03\0\0\0\0IHAVEOPT\0\0\0\x07\0\0\x40\0");
    bytes.resize(16 << 10, 0);
    let mut sent = 0;
    for byte in bytes.chunks(1) {
        if busy.write_all(byte).is_err() {
            break;
        }
        sent += 1;
        if sent % 100 == 0 {
            assert_eq!(other.read(0, 512), [0; 512]);
            assert_eq!(enter().read(0, 512), [0; 512]);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(sent < bytes.len(), "the server waits for all of it");
    for mut stream in [silent, busy] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let end = stream.read_to_end(&mut Vec::new());
        let closed = end.is_ok() || end.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset);
        assert!(closed, "the connection is closed");
    }
}

#[test]
fn stopping_answers_what_was_asked_and_leaves_no_socket() {
    let (server, path) = ram("bfq");
    let mut c = Client::go(&path, "disk", true).unwrap();
    assert_eq!(c.read(0, 512), [0; 512]);
    for n in 0..32u64 {
        c.send(1, 0, n, n * 4096, 4096, &[1; 4096]);
    }
    // The first answer shows that they have arrived.
    assert_eq!(c.reply(&[]).1, 0);
    let stopping = std::thread::spawn(move || server.stop());
    for _ in 1..32 {
        match c.try_reply(&[]) {
            Ok((_, error, _)) => assert_eq!(error, 0),
            // What had not been read from the socket is not answered; the client knows.
            Err(e) => {
                assert!(
                    matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset),
                    "{e}"
                );
                break;
            }
        }
    }
    drop(c);
    stopping.join().unwrap().unwrap();
    assert!(!path.exists());
}

#[test]
fn the_scheduler_changes_under_running_clients_and_nothing_is_lost() {
    let device = device("none");
    let (gold, _) = device.set_group(&GroupSpec::new("gold").weight(800)).unwrap();
    let half = SIZE / 2;
    let first = Export { size: Some(half), group: gold, ..Export::new("gold", device.clone()) };
    let second = Export { offset: half, ..Export::new("rest", device.clone()) };
    let (_server, path) = serve(vec![first, second]);
    let names = ["bfq", "kyber", "mq-deadline", "cfq", "none"];
    let switches = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let work = |export: &'static str, seed| {
            let (path, switches) = (&path, &switches);
            // As long as it takes until every scheduler has had its turn, but not for ever.
            let enough = move |n| n >= 40 && switches.load(Ordering::Relaxed) >= 10 || n == 4000;
            scope.spawn(move || write_and_verify(path, export, seed, half, enough))
        };
        let workers = [work("gold", 3), work("rest", 4)];
        for (n, name) in names.iter().cycle().enumerate() {
            if workers.iter().all(|w| w.is_finished()) {
                break;
            }
            device.switch_scheduler(sched::find(name).unwrap(), &[]).unwrap();
            // A weight that is set while another scheduler is on its way is not lost either.
            let weight = 100 + (n as u64 % 900);
            device.set_group(&GroupSpec::new("gold").weight(weight)).unwrap();
            device.set(StageName::Queue, "nomerges", n as u64 % 3).unwrap();
            switches.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(3));
            let report = device.report().unwrap();
            assert_eq!(report.groups[0].set[0].value, weight);
        }
    });
}

/// 32 writes of random places under way at once, then each place read back; all of it at the end.
fn write_and_verify(
    path: &std::path::Path,
    export: &str,
    seed: u64,
    size: u64,
    enough: impl Fn(u64) -> bool,
) {
    let mut c = Client::go(path, export, true).unwrap();
    let mut random = stream(seed, "nbd");
    let mut contents = vec![0; (size / 4096) as usize];
    let mut round = 0;
    while !enough(round) {
        // 32 different places: the order of writes under way at once is not defined.
        let from = random.below(contents.len() as u64);
        let places: Vec<u64> = (0..32).map(|n| (from + 7 * n) % contents.len() as u64).collect();
        for (n, at) in places.iter().enumerate() {
            let byte = (round as usize * 32 + n) as u8;
            contents[*at as usize] = byte;
            c.send(1, 0, n as u64, at * 4096, 4096, &[byte; 4096]);
        }
        places.iter().for_each(|_| assert_eq!(c.reply(&[]).1, 0));
        for (n, at) in places.iter().enumerate() {
            c.send(0, 0, n as u64, at * 4096, 4096, &[]);
        }
        let lengths: Vec<(u64, u32)> = (0..32).map(|n| (n, 4096)).collect();
        for _ in 0..32 {
            let (n, error, data) = c.reply(&lengths);
            let byte = contents[places[n as usize] as usize];
            assert_eq!((error, data), (0, vec![byte; 4096]), "round {round}");
        }
        round += 1;
    }
    for (at, byte) in contents.iter().enumerate() {
        assert_eq!(c.read(at as u64 * 4096, 4096), vec![*byte; 4096], "at the end");
    }
    c.disconnect();
}

#[test]
fn clients_are_listed_with_what_they_have_had_done() {
    let device = device("bfq");
    let (gold, _) = device.set_group(&GroupSpec::new("gold").weight(300)).unwrap();
    let first = Export { group: gold, prio: IoPrio::be(2), ..Export::new("a", device.clone()) };
    let (_server, path) = serve(vec![first, Export::new("b", device.clone())]);
    assert_eq!(device.report().unwrap().clients, []);
    let mut a = Client::go(&path, "a", true).unwrap();
    let mut b = Client::go(&path, "b", true).unwrap();
    for n in 0..3 {
        a.send(1, 0, n, n * 4096, 4096, &[1; 4096]);
        assert_eq!(a.reply(&[]).1, 0);
    }
    a.send(3, 0, 7, 0, 0, &[]);
    assert_eq!(a.reply(&[]).1, 0);
    b.read(0, 512);
    let report = device.report().unwrap();
    assert_eq!((report.scheduler, report.changing), ("bfq", false));
    let [of_a, of_b] = &report.clients[..] else { panic!("{:?}", report.clients) };
    assert!(of_a.connection < of_b.connection);
    assert_eq!((&of_a.export[..], &of_a.group[..], of_a.prio), ("a", "gold", IoPrio::be(2)));
    assert_eq!((&of_b.export[..], &of_b.group[..]), ("b", "root"));
    let own = format!("pid={}", std::process::id());
    assert!(of_a.peer.starts_with("unix uid=") && of_a.peer.ends_with(&own), "{}", of_a.peer);
    let done = IoTotals { writes: 3, written_bytes: 3 * 4096, others: 1, ..IoTotals::default() };
    assert_eq!((of_a.done, of_a.outstanding), (done, 0));
    let done = IoTotals { reads: 1, read_bytes: 512, ..IoTotals::default() };
    assert_eq!(of_b.done, done);
    a.disconnect();
    let one = || device.report().unwrap().clients.len() == 1;
    assert!(wait_for(one), "who leaves is not listed any more");
}
