//! A responder for HTTP `GET`s of a page or two, such as metrics: just enough of HTTP/1.1.
//!
//! One thread looks after all connections; none of them can hold up another, and their number, the
//! length of what they ask and the time they may take are bounded. One request per connection.

use super::listen::{Bound, Full, Listen, PAUSE, accept};
use crate::clock::{Clock, until};
use crate::error::{LiveError, os};
use crate::eventfd::EventFd;
use hoistway::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Connections at once; a further one takes the place of the oldest.
const CONNECTIONS_MAX: usize = 32;
/// Bytes of the longest head that is read.
const HEAD_MAX: usize = 8 << 10;
/// How long a connection may last.
const PATIENCE: Nanos = Nanos::secs(5);

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its `Content-Type`.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// It does not exist.
    NotFound,
    /// It cannot be made now; why.
    Unavailable(String),
}

/// Answers `GET` and `HEAD`. It stops when it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: Listen,
    wakeup: Arc<EventFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl HttpServer {
    /// Listens; `page` gives the page of a path.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on, or is reachable from other machines and
    /// `allow_plain_tcp` does not say that it may be.
    pub fn start(
        listen: &Listen,
        allow_plain_tcp: bool,
        page: impl FnMut(&str) -> Result<Page, NoPage> + Send + 'static,
    ) -> Result<HttpServer, LiveError> {
        HttpServer::start_with(listen, allow_plain_tcp, PATIENCE, page)
    }

    fn start_with(
        listen: &Listen,
        allow_plain_tcp: bool,
        patience: Nanos,
        page: impl FnMut(&str) -> Result<Page, NoPage> + Send + 'static,
    ) -> Result<HttpServer, LiveError> {
        let Bound { socket, address } = bind(listen, allow_plain_tcp)?;
        let wakeup = Arc::new(EventFd::new().map_err(os("eventfd"))?);
        let hall = Hall {
            socket,
            wakeup: Arc::clone(&wakeup),
            clock: Clock::new(),
            patience,
            page,
            visitors: VecDeque::new(),
            closed_until: Instant::ZERO,
        };
        let thread = thread::Builder::new().name("hoistway-http".into());
        let thread = thread.spawn(move || hall.run()).map_err(os("thread"))?;
        Ok(HttpServer { address, wakeup, thread: Mutex::new(Some(thread)) })
    }

    /// Where it listens; a port that was left open is filled in.
    pub fn address(&self) -> &Listen {
        &self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let thread = self.thread.lock().expect("nobody panics while holding the lock").take();
        let Some(thread) = thread else { return };
        self.wakeup.signal();
        let _ = thread.join();
        if let Listen::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(listen: &Listen, allow_plain_tcp: bool) -> Result<Bound, LiveError> {
    if matches!(listen, Listen::Passed(_)) {
        let message = "sockets that are passed on are for NBD; pages need an address";
        return Err(LiveError::Refused(message.into()));
    }
    let why = "whoever asks there is answered: choose 127.0.0.1 or a Unix socket, or allow it \
               explicitly";
    listen.bind((!allow_plain_tcp).then_some(why))
}

/// The thread behind the socket.
struct Hall<P> {
    socket: OwnedFd,
    wakeup: Arc<EventFd>,
    clock: Clock,
    patience: Nanos,
    page: P,
    /// Oldest first.
    visitors: VecDeque<Visitor>,
    closed_until: Instant,
}

/// A connection.
struct Visitor {
    socket: OwnedFd,
    limit: Instant,
    state: State,
}

enum State {
    Reading(Vec<u8>),
    Writing {
        bytes: Vec<u8>,
        sent: usize,
    },
    /// All is sent. What still comes is read, for closing over it would throw the answer away.
    Draining,
    Gone,
}

impl<P: FnMut(&str) -> Result<Page, NoPage>> Hall<P> {
    fn run(mut self) {
        loop {
            let now = self.clock.now();
            self.visitors.retain(|v| v.limit > now && !matches!(v.state, State::Gone));
            let open = self.closed_until <= now;
            let ready = match self.wait(now, open) {
                Some(ready) => ready,
                None => return,
            };
            // It may have slept for long.
            let now = self.clock.now();
            for (at, _) in ready[2..].iter().enumerate().filter(|(_, r)| **r) {
                self.visitors[at].go_on(&mut self.page);
            }
            if ready[1] {
                self.accept(now);
            }
        }
    }

    /// Which descriptors have something: the wakeup, the listener, the visitors; `None`: stop.
    fn wait(&self, now: Instant, open: bool) -> Option<Vec<bool>> {
        let listening = if open { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.wakeup.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.socket.as_fd(), listening),
        ];
        for visitor in &self.visitors {
            let what = match visitor.state {
                State::Writing { .. } => PollFlags::OUT,
                _ => PollFlags::IN,
            };
            fds.push(PollFd::from_borrowed_fd(visitor.socket.as_fd(), what));
        }
        let limits = self.visitors.iter().map(|v| v.limit);
        let limit = limits.chain((!open).then_some(self.closed_until)).min();
        let timeout = limit.map(|at| until(now, at));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll on descriptors of our own: {error}"),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        (!ready[0]).then_some(ready)
    }

    fn accept(&mut self, now: Instant) {
        match accept(&self.socket) {
            Ok(Some(socket)) => {
                if self.visitors.len() == CONNECTIONS_MAX {
                    self.visitors.pop_front();
                }
                let state = State::Reading(Vec::new());
                self.visitors.push_back(Visitor { socket, limit: now + self.patience, state });
            }
            Ok(None) => {}
            Err(Full) => self.closed_until = now + PAUSE,
        }
    }
}

impl Visitor {
    fn go_on(&mut self, page: &mut impl FnMut(&str) -> Result<Page, NoPage>) {
        if let State::Reading(head) = &mut self.state {
            match read_some(&self.socket, head) {
                Some(true) => {
                    let bytes = answer(head, page);
                    self.state = State::Writing { bytes, sent: 0 };
                }
                Some(false) => {}
                None => self.state = State::Gone,
            }
        }
        if let State::Writing { bytes, sent } = &mut self.state {
            while *sent < bytes.len() {
                match send(&self.socket, &bytes[*sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
                {
                    Ok(n) => *sent += n,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return,
                    Err(_) => return self.state = State::Gone,
                }
            }
            let closed = shutdown(&self.socket, Shutdown::Write);
            self.state = if closed.is_ok() { State::Draining } else { State::Gone };
        }
        if matches!(self.state, State::Draining) {
            let mut rest = [0; 4096];
            if !matches!(
                recv(&self.socket, &mut rest, RecvFlags::DONTWAIT),
                Ok((_, 1..)) | Err(Errno::AGAIN | Errno::INTR)
            ) {
                self.state = State::Gone;
            }
        }
    }
}

/// Reads what there is; true when the head is complete, or more than will be read; `None`: it has
/// gone.
fn read_some(socket: &OwnedFd, head: &mut Vec<u8>) -> Option<bool> {
    let mut chunk = [0; 2048];
    match recv(socket, &mut chunk, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => None,
        Ok((_, got)) => {
            head.extend_from_slice(&chunk[..got]);
            let whole = head.windows(4).any(|w| w == b"\r\n\r\n");
            Some(whole || head.windows(2).any(|w| w == b"\n\n") || head.len() > HEAD_MAX)
        }
        Err(Errno::AGAIN | Errno::INTR) => Some(false),
        Err(_) => None,
    }
}

/// The answer to a head.
fn answer(head: &[u8], page: &mut impl FnMut(&str) -> Result<Page, NoPage>) -> Vec<u8> {
    if head.len() > HEAD_MAX {
        return plain("431 Request Header Fields Too Large", "the head is too long", false);
    }
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default().trim_end_matches('\r');
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return plain("400 Bad Request", "write GET /metrics HTTP/1.1", false);
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return plain("400 Bad Request", "write GET /metrics HTTP/1.1", false);
    }
    let bare = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return plain("405 Method Not Allowed", "only GET and HEAD", false),
    };
    let path = target.split(['?', '#']).next().unwrap_or_default();
    match page(path) {
        Ok(Page { kind, text }) => response("200 OK", kind, &text, bare),
        Err(NoPage::NotFound) => plain("404 Not Found", "no such page", bare),
        Err(NoPage::Unavailable(why)) => plain("503 Service Unavailable", &why, bare),
    }
}

fn plain(status: &str, text: &str, bare: bool) -> Vec<u8> {
    response(status, "text/plain; charset=utf-8", &format!("{text}\n"), bare)
}

fn response(status: &str, kind: &str, text: &str, bare: bool) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         {allow}Connection: close\r\n\r\n",
        text.len()
    );
    if bare { head.into_bytes() } else { (head + text).into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    fn serve(text: String) -> (HttpServer, SocketAddr) {
        // Nobody is sent away because the machine was held up.
        serve_with(text, Nanos::secs(600))
    }

    fn serve_with(text: String, patience: Nanos) -> (HttpServer, SocketAddr) {
        let any = Listen::Tcp("127.0.0.1:0".parse().unwrap());
        let server = HttpServer::start_with(&any, false, patience, move |path| match path {
            "/page" => Ok(Page { kind: "text/plain", text: text.clone() }),
            "/late" => Err(NoPage::Unavailable("later".into())),
            _ => Err(NoPage::NotFound),
        });
        let server = server.unwrap();
        let Listen::Tcp(address) = *server.address() else { panic!("TCP was asked for") };
        (server, address)
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may have heard enough before all of it is sent.
        let _ = stream.write_all(request);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn pages_are_served_and_everything_else_is_refused() {
        let (_server, at) = serve("hello\n".into());
        let page = ask(at, b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\
                        Connection: close\r\n\r\nhello\n";
        assert_eq!(page, expected);
        assert_eq!(ask(at, b"GET /page?x=1 HTTP/1.0\n\n"), expected);
        let head = ask(at, b"HEAD /page HTTP/1.1\r\n\r\n");
        assert_eq!(head, expected.strip_suffix("hello\n").unwrap());
        let cases: &[(&[u8], &str)] = &[
            (b"GET / HTTP/1.1\r\n\r\n", "404"),
            (b"GET /page/ HTTP/1.1\r\n\r\n", "404"),
            (b"GET /late HTTP/1.1\r\n\r\n", "503"),
            (b"POST /page HTTP/1.1\r\n\r\n", "405"),
            (b"GET http://x/page HTTP/1.1\r\n\r\n", "400"),
            (b"GET /page SPDY\r\n\r\n", "400"),
            (b"\xff\xfe\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
        ];
        for (request, status) in cases {
            let answer = ask(at, request);
            assert_eq!(answer.split(' ').nth(1), Some(*status), "{answer}");
        }
        let endless = [&b"GET /page HTTP/1.1\r\nA: "[..], &[b'x'; 3 * HEAD_MAX]].concat();
        assert!(ask(at, &endless).starts_with("HTTP/1.1 431"));
    }

    #[test]
    fn who_comes_after_a_long_pause_has_as_much_time_as_others() {
        let patience = Nanos::ms(1500);
        let (_server, at) = serve_with("x".into(), patience);
        // Once more if the machine was held up for just that long.
        let served = (0..5).any(|_| {
            std::thread::sleep(std::time::Duration::from_nanos(patience.0 + 100_000_000));
            ask(at, b"GET /page HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nx")
        });
        assert!(served);
        // Who asks nothing is sent away.
        let mut silent = TcpStream::connect(at).unwrap();
        assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    }

    #[test]
    fn whoever_is_slow_holds_up_nobody() {
        // More than the sockets hold: those who do not read keep the server waiting.
        let (server, at) = serve("x".repeat(16 << 20));
        let mut slow = Vec::new();
        for n in 0..4 * CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(at).unwrap();
            let part: &[u8] = if n % 2 == 0 { b"GET /pa" } else { b"GET /page HTTP/1.1\r\n\r\n" };
            stream.write_all(part).unwrap();
            slow.push(stream);
        }
        for _ in 0..3 {
            assert!(ask(at, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        }
        assert_eq!(ask(at, b"GET /page HTTP/1.1\r\n\r\n").len() >> 20, 16);
        drop(server);
        assert!(TcpStream::connect(at).is_err(), "nobody listens any more");
    }

    #[test]
    fn what_others_can_reach_is_refused_unless_allowed() {
        let open = Listen::Tcp("0.0.0.0:0".parse().unwrap());
        let refused = HttpServer::start(&open, false, |_| Err(NoPage::NotFound));
        assert!(matches!(refused, Err(LiveError::Refused(_))));
        assert!(HttpServer::start(&open, true, |_| Err(NoPage::NotFound)).is_ok());
        let path = std::env::temp_dir().join(format!("hoistway-http-{}.sock", std::process::id()));
        let server =
            HttpServer::start(&Listen::Unix(path.clone()), false, |_| Err(NoPage::NotFound))
                .unwrap();
        assert!(path.exists());
        drop(server);
        assert!(!path.exists());
    }
}
