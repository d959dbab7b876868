//! A small NBD client that can also misbehave.
#![allow(dead_code, reason = "each test file uses a part of it")]

use hoistway_sim::rng::Rng;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// For what comes sooner or later, unless something hangs: a thousand clients have been seen to wait for
/// longer than 20 s where twenty other programs wanted the processors.
pub const LIMIT: Duration = Duration::from_secs(120);

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const FAST_ZERO: u16 = 16;
pub const PAYLOAD_LEN: u16 = 32;

/// Looks until something holds, about a minute at most.
pub fn wait_for(mut holds: impl FnMut() -> bool) -> bool {
    (0..6000).any(|_| {
        let now = holds();
        if !now {
            std::thread::sleep(Duration::from_millis(10));
        }
        now
    })
}

#[derive(Debug)]
pub struct Client {
    pub stream: UnixStream,
    pub size: u64,
    pub flags: u16,
}

const OPTION: &[u8] = b"IHAVEOPT";

impl Client {
    fn connect(path: &Path) -> io::Result<UnixStream> {
        Client::greet(UnixStream::connect(path)?)
    }

    fn greet(mut stream: UnixStream) -> io::Result<UnixStream> {
        stream.set_read_timeout(Some(LIMIT))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(&3u32.to_be_bytes())?;
        Ok(stream)
    }

    /// Connects and chooses an export.
    pub fn go(path: &Path, name: &str, structured: bool) -> io::Result<Client> {
        Client::choose(Client::connect(path)?, name, structured)
    }

    /// The same over a socket that is connected already.
    pub fn go_over(stream: UnixStream, name: &str, structured: bool) -> io::Result<Client> {
        Client::choose(Client::greet(stream)?, name, structured)
    }

    fn choose(mut stream: UnixStream, name: &str, structured: bool) -> io::Result<Client> {
        if structured {
            option(&mut stream, 8, &[])?;
            assert_eq!(answer(&mut stream)?.0, 1);
        }
        option(&mut stream, 7, &go_data(name))?;
        let (mut size, mut flags) = (0, 0);
        loop {
            let (kind, data) = answer(&mut stream)?;
            match kind {
                1 => return Ok(Client { stream, size, flags }),
                3 if data[..2] == [0, 0] => {
                    size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                other => return Err(io::Error::other(format!("GO answered by {other:x}"))),
            }
        }
    }

    /// Names of the exports.
    pub fn list(path: &Path) -> io::Result<Vec<String>> {
        let mut stream = Client::connect(path)?;
        option(&mut stream, 3, &[])?;
        let mut names = Vec::new();
        loop {
            match answer(&mut stream)? {
                (2, data) => names.push(String::from_utf8(data[4..].to_vec()).unwrap()),
                (1, _) => return Ok(names),
                other => panic!("LIST answered by {other:?}"),
            }
        }
    }

    /// The bytes of some valid negotiation.
    pub fn plausible_handshake(random: &mut Rng) -> Vec<u8> {
        let mut bytes = (random.below(4) as u32).to_be_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let (id, data) = match random.below(6) {
                0 => (3, Vec::new()),
                1 => (8, Vec::new()),
                2 => (6, go_data("disk")),
                3 => (10, meta_data("disk", &["base:allocation"])),
                4 => (9, meta_data("disk", &[])),
                _ => (random.below(20) as u32, vec![0; random.below(64) as usize]),
            };
            bytes.extend(option_bytes(id, &data));
        }
        bytes.extend(option_bytes(7, &go_data("disk")));
        bytes
    }

    pub fn request(&self, kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes
    }

    pub fn send(&mut self, kind: u16, flags: u16, cookie: u64, offset: u64, len: u32, data: &[u8]) {
        self.try_send(kind, flags, cookie, offset, len, data).unwrap();
    }

    pub fn try_send(
        &mut self,
        kind: u16,
        flags: u16,
        cookie: u64,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> io::Result<()> {
        let mut bytes = self.request(kind, flags, cookie, offset, len);
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Cookie, error and data of the next reply. `lengths`: of reads that are answered by simple
    /// replies.
    pub fn reply(&mut self, lengths: &[(u64, u32)]) -> (u64, u32, Vec<u8>) {
        self.try_reply(lengths).unwrap()
    }

    pub fn try_reply(&mut self, lengths: &[(u64, u32)]) -> io::Result<(u64, u32, Vec<u8>)> {
        let magic = u32::from_be_bytes(self.take()?);
        if magic == 0x6744_6698 {
            let (error, cookie) =
                (u32::from_be_bytes(self.take()?), u64::from_be_bytes(self.take()?));
            let len = lengths.iter().find(|(c, _)| *c == cookie).map_or(0, |l| l.1);
            let mut data = vec![0; if error == 0 { len as usize } else { 0 }];
            self.stream.read_exact(&mut data)?;
            return Ok((cookie, error, data));
        }
        assert_eq!(magic, 0x668e_33ef);
        let (flags, kind) = (u16::from_be_bytes(self.take()?), u16::from_be_bytes(self.take()?));
        let (cookie, len) = (u64::from_be_bytes(self.take()?), u32::from_be_bytes(self.take()?));
        let mut data = vec![0; len as usize];
        self.stream.read_exact(&mut data)?;
        assert_eq!(flags, 1, "one chunk per reply");
        match kind {
            1 => Ok((cookie, 0, data[8..].to_vec())),
            0x8001 => Ok((cookie, u32::from_be_bytes(data[..4].try_into().unwrap()), Vec::new())),
            other => panic!("chunk of kind {other}"),
        }
    }

    /// Connects and chooses an export, with extended headers.
    pub fn go_extended(path: &Path, name: &str) -> io::Result<Client> {
        let mut stream = Client::connect(path)?;
        assert_eq!(ask(&mut stream, 11, &[])?, 1);
        Client::choose(stream, name, false)
    }

    /// The same, and asks for block status.
    pub fn go_extended_with_status(path: &Path, name: &str) -> io::Result<Client> {
        let mut stream = Client::connect(path)?;
        assert_eq!(ask(&mut stream, 11, &[])?, 1);
        option(&mut stream, 10, &meta_data(name, &["base:allocation"]))?;
        assert_eq!(answer(&mut stream)?.0, 4);
        assert_eq!(answer(&mut stream)?.0, 1);
        Client::choose(stream, name, false)
    }

    /// Kinds of the answers to these options, one after the other, until the server closes.
    pub fn haggle(path: &Path, options: &[(u32, &[u8])]) -> io::Result<Vec<u32>> {
        let mut stream = Client::connect(path)?;
        let mut kinds = Vec::new();
        for (id, data) in options {
            match ask(&mut stream, *id, data) {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => break,
                kind => kinds.push(kind?),
            }
        }
        Ok(kinds)
    }

    /// A request with an extended header; `data` follows it as it is.
    pub fn send_extended(&mut self, kind: u16, flags: u16, cookie: u64, range: (u64, u64)) {
        let mut bytes = 0x21e4_1c71u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        for number in [cookie, range.0, range.1] {
            bytes.extend(number.to_be_bytes());
        }
        self.raw(&bytes);
    }

    /// Kind, cookie, offset and payload of the next chunk, which is the only one of its reply.
    pub fn chunk(&mut self) -> (u16, u64, u64, Vec<u8>) {
        let head: [u8; 32] = self.take().unwrap();
        let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap());
        assert_eq!(head[..6], [0x6e, 0x8a, 0x27, 0x8c, 0, 1], "one chunk per reply");
        let mut data = vec![0; number(24) as usize];
        self.stream.read_exact(&mut data).unwrap();
        (u16::from_be_bytes([head[6], head[7]]), number(8), number(16), data)
    }

    /// Cookie and error of the next reply, which carries no data.
    pub fn outcome(&mut self) -> (u64, u32) {
        match self.chunk() {
            (0, cookie, _, data) if data.is_empty() => (cookie, 0),
            (0x8001, cookie, _, data) => {
                (cookie, u32::from_be_bytes(data[..4].try_into().unwrap()))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads and waits.
    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.send(0, 0, 4242, offset, len, &[]);
        let (cookie, error, data) = self.reply(&[(4242, len)]);
        assert_eq!((cookie, error), (4242, 0));
        data
    }

    pub fn disconnect(mut self) {
        self.send(2, 0, 0, 0, 0, &[]);
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).map(|()| bytes)
    }
}

fn go_data(name: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(0u16.to_be_bytes());
    data
}

fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

fn option_bytes(id: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION.to_vec();
    bytes.extend(id.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn option(stream: &mut UnixStream, id: u32, data: &[u8]) -> io::Result<()> {
    stream.write_all(&option_bytes(id, data))
}

/// The kind of the one answer to an option.
fn ask(stream: &mut UnixStream, id: u32, data: &[u8]) -> io::Result<u32> {
    option(stream, id, data)?;
    Ok(answer(stream)?.0)
}

fn answer(stream: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
    let len = u32::from_be_bytes(head[16..20].try_into().unwrap());
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}
