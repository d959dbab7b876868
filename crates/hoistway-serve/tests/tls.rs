//! NBD over TLS against a client of our own: everything that real clients do not do.
#![cfg(all(feature = "tls", target_os = "linux"))]

mod certs;
mod client;

use certs::Authority;
use client::{LIMIT, wait_for};
use hoistway::{IoPrio, sched};
use hoistway_serve::front::Export;
use hoistway_serve::front::nbd::{ClientMatch, ClientRule, Server, ServerOptions, Tls, TlsMode};
use hoistway_serve::net::Listen;
use hoistway_serve::{Device, DeviceOptions, GroupSpec, Target};
use hoistway_sim::rng::stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SIZE: u64 = 16 << 20;

/// A server with its certificates, and a folder of the test alone.
struct Stage {
    folder: PathBuf,
    ca: Authority,
    device: Device,
    server: Server,
    socket: PathBuf,
}

impl Stage {
    fn new(mode: TlsMode, verify: bool, clients: Vec<ClientRule>, revoked: &[u64]) -> Stage {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("hoistway-tls-{}-{n}", std::process::id()));
        let ca = Authority::new("test authority");
        let pki = ca.server(&folder.join("server"));
        if !revoked.is_empty() {
            ca.revoke(&pki, revoked);
        }
        let options = DeviceOptions::new(sched::find("bfq").unwrap());
        let device = Device::open(&Target::Ram { size: SIZE }, &options).unwrap();
        let socket = folder.join("s");
        let tls = Some(Tls::load(&pki, mode, verify).unwrap());
        let options = ServerOptions { clients, tls, ..ServerOptions::default() };
        let exports = vec![Export::new("disk", device.clone())];
        let server = Server::start(exports, &[Listen::Unix(socket.clone())], &options).unwrap();
        Stage { folder, ca, device, server, socket }
    }

    /// TLS without client certificates.
    fn open() -> Stage {
        Stage::new(TlsMode::Require, false, Vec::new(), &[])
    }

    /// What a client believes, and shows if its folder has a certificate.
    fn config(&self, folder: &Path) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("ca-cert.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let certificate = CertificateDer::from_pem_file(folder.join("client-cert.pem"));
        Arc::new(match certificate {
            Err(_) => builder.with_no_client_auth(),
            Ok(certificate) => {
                let key = PrivateKeyDer::from_pem_file(folder.join("client-key.pem")).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }

    fn client(&self) -> Secure {
        let folder = self.ca.trust(&self.folder.join("client"));
        Secure::connect(&self.socket, &self.config(&folder)).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.server.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn plain(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    stream
}

fn option(id: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &id.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn go(name: &str) -> Vec<u8> {
    let data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat();
    option(GO, &data)
}

/// Kind of the next answer, and its data.
fn answer(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    let mut data = vec![0; number(16) as usize];
    stream.read_exact(&mut data)?;
    Ok((number(12), data))
}

fn request(kind: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// Cookie and error of a simple reply; the data of a read follows.
fn reply(stream: &mut impl Read) -> io::Result<(u64, u32)> {
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes(), "a simple reply");
    let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
    Ok((u64::from_be_bytes(head[8..].try_into().unwrap()), error))
}

const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const GO: u32 = 7;
const STRUCTURED: u32 = 8;
const ACK: u32 = 1;
const ERROR: u32 = 1 << 31;
const UNSUPPORTED: u32 = ERROR + 1;
const INVALID: u32 = ERROR + 3;
const TLS_REQUIRED: u32 = ERROR + 5;

/// A client behind TLS, which has chosen the export.
struct Secure(StreamOwned<ClientConnection, UnixStream>);

impl Secure {
    fn connect(socket: &Path, config: &Arc<ClientConfig>) -> io::Result<Secure> {
        let mut secure = Secure::negotiating(plain(socket), config)?;
        secure.0.write_all(&go("disk"))?;
        while answer(&mut secure.0)?.0 != ACK {}
        Ok(secure)
    }

    /// TLS is there, no export is chosen.
    fn negotiating(mut stream: UnixStream, config: &Arc<ClientConfig>) -> io::Result<Secure> {
        stream.write_all(&option(STARTTLS, &[]))?;
        assert_eq!(answer(&mut stream)?.0, ACK);
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
        Ok(Secure(StreamOwned::new(tls, stream)))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
        self.0.flush().unwrap();
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.send(&[request(1, 7, offset, data.len() as u32), data.to_vec()].concat());
        assert_eq!(reply(&mut self.0).unwrap(), (7, 0));
    }

    fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.send(&request(0, 8, offset, len));
        assert_eq!(reply(&mut self.0).unwrap(), (8, 0));
        let mut data = vec![0; len as usize];
        self.0.read_exact(&mut data).unwrap();
        data
    }
}

#[test]
fn what_is_written_under_tls_is_read_back_in_pieces_of_any_size() {
    let stage = Stage::open();
    let mut random = stream(1, "tls");
    let mut shadow: Vec<u8> = (0..SIZE).map(|_| random.below(256) as u8).collect();
    let (mut a, mut b) = (stage.client(), stage.client());
    for (n, piece) in shadow.chunks(3 << 20).enumerate() {
        a.write(n as u64 * (3 << 20), piece);
    }
    for round in 0..60u64 {
        let from = random.below(SIZE / 512) * 512;
        let len = (1 + random.below(if round % 10 == 0 { 8192 } else { 64 })) * 512;
        let (end, at) = ((from + len).min(SIZE) as usize, from as usize);
        let c = if round % 3 == 0 { &mut a } else { &mut b };
        assert!(c.read(from, (end - at) as u32) == shadow[at..end], "round {round}");
        shadow[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        c.write(from, &shadow[at..end]);
    }
    assert!(b.read(0, SIZE as u32) == shadow);
    // Many requests at once.
    for n in 0..200u64 {
        a.send(&request(0, n, n * 4096, 4096));
    }
    for _ in 0..200 {
        let (cookie, error) = reply(&mut a.0).unwrap();
        let mut data = [0; 4096];
        a.0.read_exact(&mut data).unwrap();
        let at = cookie as usize * 4096;
        assert!(error == 0 && data[..] == shadow[at..at + 4096]);
    }
}

#[test]
fn nothing_is_told_before_tls_where_it_is_required() {
    let stage = Stage::open();
    let mut c = plain(&stage.socket);
    for id in [LIST, 6, GO, STRUCTURED, 9, 10, 4711] {
        c.write_all(&if id == GO { go("disk") } else { option(id, &[]) }).unwrap();
        assert_eq!(answer(&mut c).unwrap().0, TLS_REQUIRED, "option {id}");
    }
    c.write_all(&option(STARTTLS, &[1])).unwrap();
    assert_eq!(answer(&mut c).unwrap().0, INVALID);
    let folder = stage.ca.trust(&stage.folder.join("client"));
    let mut c = Secure::negotiating(c, &stage.config(&folder)).unwrap();
    c.send(&option(STARTTLS, &[]));
    assert_eq!(answer(&mut c.0).unwrap().0, INVALID, "once is enough");
    c.send(&option(LIST, &[]));
    assert_eq!(answer(&mut c.0).unwrap().1, [&[0, 0, 0, 4][..], b"disk"].concat());
    // EXPORT_NAME has no answer that says no.
    let mut c = plain(&stage.socket);
    c.write_all(&option(1, b"disk")).unwrap();
    assert_eq!(c.read(&mut [0; 8]).unwrap(), 0);
    let mut c = plain(&stage.socket);
    c.write_all(&option(2, &[])).unwrap();
    assert_eq!(answer(&mut c).unwrap().0, ACK, "who wants to leave may");
}

#[test]
fn without_tls_it_is_not_offered_and_with_it_plain_clients_may_be_let_in() {
    let stage = Stage::new(TlsMode::On, false, Vec::new(), &[]);
    let mut c = client::Client::go(&stage.socket, "disk", true).unwrap();
    assert_eq!(c.read(0, 512), [0; 512]);
    stage.client().write(0, &[3; 512]);
    assert_eq!(c.read(0, 512), [3; 512]);
    let socket = stage.folder.join("plain");
    let exports = vec![Export::new("disk", stage.device.clone())];
    let listen = [Listen::Unix(socket.clone())];
    let _server = Server::start(exports, &listen, &ServerOptions::default()).unwrap();
    let mut c = plain(&socket);
    c.write_all(&option(STARTTLS, &[])).unwrap();
    assert_eq!(answer(&mut c).unwrap().0, UNSUPPORTED);
}

#[test]
fn what_was_said_before_tls_does_not_count_after_it() {
    let stage = Stage::new(TlsMode::On, false, Vec::new(), &[]);
    let folder = stage.ca.trust(&stage.folder.join("client"));
    let mut c = plain(&stage.socket);
    c.write_all(&option(STRUCTURED, &[])).unwrap();
    assert_eq!(answer(&mut c).unwrap().0, ACK);
    let mut c = Secure::negotiating(c, &stage.config(&folder)).unwrap();
    c.send(&go("disk"));
    while answer(&mut c.0).unwrap().0 != ACK {}
    // `reply` insists on simple replies.
    assert_eq!(c.read(0, 512), [0; 512]);
    // An option in the clear behind STARTTLS, as an attacker would put it there: no answer at all.
    for behind in [option(LIST, &[]), option(LIST, &[])[..5].to_vec(), vec![0x16]] {
        let mut c = plain(&stage.socket);
        c.write_all(&[option(STARTTLS, &[]), behind].concat()).unwrap();
        let mut rest = Vec::new();
        let end = c.read_to_end(&mut rest);
        assert!(end.is_ok() || end.unwrap_err().kind() == io::ErrorKind::ConnectionReset);
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[test]
fn only_clients_with_a_certificate_of_the_authority_are_let_in() {
    let rule = |name: &str, group: &str| ClientRule {
        who: ClientMatch::Certificate(name.into()),
        group: GroupSpec::new(group).weight(300),
        prio: IoPrio::be(2),
    };
    let rules = vec![rule("alice", "gold"), rule("bob", "silver")];
    let stage = Stage::new(TlsMode::Require, true, rules, &[66]);
    let at = |name: &str| stage.folder.join(name);
    let other = Authority::new("test authority");
    let refused = [
        ("without a certificate", stage.ca.trust(&at("nobody"))),
        ("revoked", stage.ca.client(&at("mallory"), "alice", 66)),
        ("of another authority of the same name", {
            let folder = other.client(&at("eve"), "alice", 5);
            stage.ca.trust(&folder)
        }),
    ];
    for (why, folder) in &refused {
        assert!(Secure::connect(&stage.socket, &stage.config(folder)).is_err(), "{why}");
    }
    let mut clients: Vec<Secure> = [("alice", 2), ("bob", 3), ("carol", 4)]
        .map(|(name, serial)| {
            let folder = stage.ca.client(&at(name), name, serial);
            Secure::connect(&stage.socket, &stage.config(&folder)).unwrap()
        })
        .into();
    clients.iter_mut().for_each(|c| assert_eq!(c.read(0, 512), [0; 512]));
    let report = stage.device.report().unwrap();
    let groups: Vec<_> = report.clients.iter().map(|c| c.group.as_str()).collect();
    assert_eq!(groups, ["gold", "silver", "root"]);
    assert!(report.clients[0].peer.ends_with(" tls cn=alice"), "{}", report.clients[0].peer);
    assert_eq!(report.clients[1].prio, IoPrio::be(2));
}

#[test]
fn rules_by_certificate_want_certificates_to_be_verified() {
    let stage = Stage::open();
    let pki = stage.folder.join("server");
    let rule = ClientRule {
        who: ClientMatch::Certificate("alice".into()),
        group: GroupSpec::new("gold"),
        prio: IoPrio::NONE,
    };
    for tls in [None, Some(Tls::load(&pki, TlsMode::Require, false).unwrap())] {
        let options =
            ServerOptions { clients: vec![rule.clone()], tls, ..ServerOptions::default() };
        let exports = vec![Export::new("disk", stage.device.clone())];
        let listen = [Listen::Unix(stage.folder.join("other"))];
        let error = Server::start(exports, &listen, &options).unwrap_err().to_string();
        assert!(error.contains("certificates are not verified"), "{error}");
    }
    std::fs::write(pki.join("server-key.pem"), "nonsense").unwrap();
    let error = Tls::load(&pki, TlsMode::On, false).unwrap_err().to_string();
    assert!(error.contains("server-key.pem"), "{error}");
    std::fs::remove_file(pki.join("server-cert.pem")).unwrap();
    let error = Tls::load(&pki, TlsMode::On, false).unwrap_err().to_string();
    assert!(error.contains("server-cert.pem"), "{error}");
}

#[test]
fn garbage_stalls_and_slow_handshakes_disturb_nobody() {
    let stage = Stage::open();
    let mut other = stage.client();
    let mut random = stream(3, "tls");
    let mut stalled = Vec::new();
    for round in 0..100 {
        let mut c = plain(&stage.socket);
        c.write_all(&option(STARTTLS, &[])).unwrap();
        assert_eq!(answer(&mut c).unwrap().0, ACK);
        let bytes: Vec<u8> = (0..random.below(600)).map(|_| random.below(256) as u8).collect();
        if round % 4 == 0 {
            stalled.push(c);
            continue;
        }
        // The server may close at any point; a record that is never complete is given up by us.
        let _ = c.write_all(&bytes);
        let _ = c.shutdown(std::net::Shutdown::Write);
        let mut sink = Vec::new();
        if let Err(e) = c.read_to_end(&mut sink) {
            assert_eq!(e.kind(), io::ErrorKind::ConnectionReset, "round {round}");
        }
        // At most an alert: nothing of the negotiation's.
        assert!(sink.is_empty() || sink[0] == 0x15, "{sink:?}");
    }
    // Byte by byte is slow, but right.
    let folder = stage.ca.trust(&stage.folder.join("client"));
    let mut c = plain(&stage.socket);
    c.write_all(&option(STARTTLS, &[])).unwrap();
    assert_eq!(answer(&mut c).unwrap().0, ACK);
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(stage.config(&folder), name).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    for byte in hello {
        c.write_all(&[byte]).unwrap();
    }
    let mut c = Secure(StreamOwned::new(tls, c));
    c.send(&go("disk"));
    while answer(&mut c.0).unwrap().0 != ACK {}
    assert_eq!(c.read(0, 512), other.read(0, 512));
    // Who never says anything is given up after 10 s.
    assert_eq!(stalled.len(), 25);
    for mut c in stalled {
        let end = c.read_to_end(&mut Vec::new());
        assert!(end.is_ok() || end.unwrap_err().kind() == io::ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_client_that_vanishes_under_tls_disturbs_nobody() {
    let stage = Stage::open();
    let mut stays = stage.client();
    for round in 0..20u64 {
        let mut goes = stage.client();
        for n in 0..32 {
            goes.send(&request(0, n, n * 65536, 65536));
        }
        goes.send(&request(1, 99, 0, 1 << 20)[..28]);
        goes.send(&vec![1; 1000 * round as usize]);
        drop(goes);
        stays.write(round * 512, &[round as u8; 512]);
        assert_eq!(stays.read(round * 512, 512), [round as u8; 512]);
    }
    let left = || stage.device.report().unwrap().clients.len() == 1;
    assert!(wait_for(left), "their guests are gone");
}

#[test]
fn who_says_no_more_still_gets_its_answers_and_a_proper_end() {
    let stage = Stage::open();
    let mut c = stage.client();
    let requests: Vec<u8> = (0..16u64).flat_map(|n| request(0, n, n << 20, 1 << 20)).collect();
    c.send(&requests);
    c.0.conn.send_close_notify();
    c.0.flush().unwrap();
    for _ in 0..16 {
        assert_eq!(reply(&mut c.0).unwrap().1, 0);
        c.0.read_exact(&mut vec![0; 1 << 20]).unwrap();
    }
    // rustls calls an end without close_notify an error.
    assert_eq!(c.0.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_slow_reader_under_tls_is_not_read_from_until_it_reads() {
    let stage = Stage::open();
    let mut slow = stage.client();
    slow.0.sock.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0u64;
    let stuck = loop {
        match slow.0.write(&request(0, 1, 0, 8 << 20)).and_then(|_| slow.0.flush()) {
            Ok(()) => sent += 1,
            // A process that was stopped and goes on.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => break e,
        }
        assert!(sent < 50_000, "the server swallows requests without end");
    };
    assert!(matches!(stuck.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
    assert_eq!(stage.client().read(0, 512), [0; 512]);
}

#[test]
fn two_hundred_sessions_are_served_at_once_and_stopped_in_order() {
    let stage = Stage::open();
    let mut all: Vec<_> = (0..200).map(|_| stage.client()).collect();
    for (n, c) in all.iter_mut().enumerate() {
        c.write(n as u64 * 4096, &[n as u8; 4096]);
    }
    for (n, c) in all.iter_mut().enumerate() {
        assert_eq!(c.read(n as u64 * 4096, 4096), [n as u8; 4096]);
    }
    stage.server.stop().unwrap();
    for c in &mut all {
        assert_eq!(c.0.read(&mut [0; 1]).unwrap(), 0, "close_notify");
    }
}
