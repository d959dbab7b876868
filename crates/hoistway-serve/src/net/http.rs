//! A responder for HTTP `GET`s of a page or two, such as metrics: just enough of HTTP/1.1.
//!
//! One request per connection. Who asks too slowly, or too long, or does not read the answer, runs into the
//! bounds of the acceptor (`net/server.rs`).

use super::listen::{Bound, Listen};
use super::server::{
    Acceptor, Exchange, Limits, ListeningSocket, NewClient, Next, Permit, Protocol,
};
use super::socket_file::SocketFile;
use crate::error::ServeError;
use hoistway::Nanos;
use std::os::fd::OwnedFd;

/// A further connection takes the place of the oldest.
const CONNECTIONS_MAX: usize = 32;
/// Bytes of the longest head that is read.
const HEAD_MAX: usize = 8 << 10;
/// How long a connection may last.
const TIME: Nanos = Nanos::secs(5);

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
    acceptor: Acceptor,
    file: Option<SocketFile>,
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
    ) -> Result<HttpServer, ServeError> {
        HttpServer::start_with(listen, allow_plain_tcp, TIME, page)
    }

    fn start_with(
        listen: &Listen,
        allow_plain_tcp: bool,
        time: Nanos,
        page: impl FnMut(&str) -> Result<Page, NoPage> + Send + 'static,
    ) -> Result<HttpServer, ServeError> {
        let Bound { socket, address, file } = bind(listen, allow_plain_tcp)?;
        let unix = matches!(address, Listen::Unix(_));
        let listeners = vec![ListeningSocket { socket, unix }];
        let limits = Limits { clients: CONNECTIONS_MAX, replace_oldest: true, time };
        let acceptor = Acceptor::start("hoistway-http", Http { page }, listeners, limits)?;
        Ok(HttpServer { address, acceptor, file })
    }

    /// Where it listens; a port that was left open is filled in.
    pub fn address(&self) -> &Listen {
        &self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if self.acceptor.stop() {
            self.file.iter().for_each(SocketFile::remove);
        }
    }
}

fn bind(listen: &Listen, allow_plain_tcp: bool) -> Result<Bound, ServeError> {
    if matches!(listen, Listen::Passed(_)) {
        let message = "sockets that are passed on are for NBD; pages need an address";
        return Err(ServeError::Refused(message.into()));
    }
    let why = "whoever asks there is answered: choose 127.0.0.1 or a Unix socket, or allow it \
               explicitly";
    listen.bind((!allow_plain_tcp).then_some(why))
}

/// The protocol: a head comes, an answer goes.
struct Http<P> {
    page: P,
}

impl<P: FnMut(&str) -> Result<Page, NoPage> + Send + 'static> Protocol for Http<P> {
    type Client = Permit;
    const INPUT_MAX: usize = HEAD_MAX;

    fn greet(&mut self, client: NewClient<'_>, _output: &mut Vec<u8>) -> Permit {
        client.permit
    }

    fn advance(&mut self, _client: &mut Permit, exchange: &mut Exchange) -> Next {
        let head = &exchange.input;
        let whole = head.windows(4).any(|w| w == b"\r\n\r\n");
        if !whole && !head.windows(2).any(|w| w == b"\n\n") && head.len() <= HEAD_MAX {
            return Next::Read;
        }
        exchange.output = answer(head, &mut self.page);
        Next::Answered
    }

    fn hand_over(&mut self, _client: Permit, _socket: OwnedFd, _input: Vec<u8>) {}

    fn refusal(&self) -> Vec<u8> {
        let why = "too many connections: a newer one took the place of this one";
        plain("503 Service Unavailable", why, false)
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

    fn serve_with(text: String, time: Nanos) -> (HttpServer, SocketAddr) {
        let any = Listen::Tcp("127.0.0.1:0".parse().unwrap());
        let server = HttpServer::start_with(&any, false, time, move |path| match path {
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
        let time = Nanos::ms(1500);
        let (_server, at) = serve_with("x".into(), time);
        // Once more if the machine was held up for just that long.
        let served = (0..5).any(|_| {
            std::thread::sleep(std::time::Duration::from_nanos(time.0 + 100_000_000));
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
        assert!(matches!(refused, Err(ServeError::Refused(_))));
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
