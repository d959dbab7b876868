//! A Unix socket for questions of one line: the way in for an operator.
//!
//! A connection is one line in and one line out, bounded in length and time. Lines come in on the thread
//! of the acceptor (`net/server.rs`), so that a client that says nothing costs a descriptor; a line that is
//! there gets a thread of its own for its answer, so that one that takes its time holds up nobody.
//! A further client takes the place of the oldest that has not said its
//! line yet, and is refused where all have. What a line means is up to the function that answers it; an
//! answer of many lines is a [stream](Answer::Stream).

use super::server::{
    Acceptor, Exchange, Limits, ListeningSocket, NewClient, Next, Permit, Protocol,
};
use super::socket_file::SocketFile;
use crate::error::{ServeError, os};
use crate::system::EventFd;
use crate::system::{Clock, until};
use hoistway::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen,
    recv, send, socket_with,
};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

/// Bytes of the longest line that is read, its end included.
pub const LINE_MAX: usize = 64 << 10;
/// How long a client may take to say its line, and as long again to take the answer.
const TIME: Nanos = Nanos::secs(2);

/// Connections at once, streams aside.
pub const CLIENTS_MAX: usize = 32;
/// Streams at once.
pub const STREAMS_MAX: usize = 8;

/// What is answered.
pub enum Answer {
    /// One line.
    Line(String),
    /// Many lines, over time.
    Stream {
        /// Says them until it has said all or nobody listens any more.
        say: Box<dyn FnOnce(&Lines) + Send>,
        /// The line for who finds [`STREAMS_MAX`] streams running.
        busy: String,
    },
}

impl From<String> for Answer {
    fn from(line: String) -> Answer {
        Answer::Line(line)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Line(line) => f.debug_tuple("Line").field(line).finish(),
            Answer::Stream { busy, .. } => {
                f.debug_struct("Stream").field("busy", busy).finish_non_exhaustive()
            }
        }
    }
}

/// The listening end of a stream.
#[derive(Debug)]
pub struct Lines {
    client: Arc<OwnedFd>,
    wakeup: Arc<EventFd>,
    clock: Clock,
}

impl Lines {
    /// Sends a line, without its end; false: it is of no use to go on.
    pub fn send(&self, line: &str) -> bool {
        let line = [line.as_bytes(), b"\n"].concat();
        send_all(&self.client, &self.wakeup, &self.clock, &line) == Wake::Ready
    }

    /// Waits that long; false: the client has gone, or the server stops.
    pub fn pause(&self, time: Nanos) -> bool {
        let limit = self.clock.now() + time;
        loop {
            match wait(&self.wakeup, &self.clock, self.client.as_fd(), PollFlags::IN, Some(limit)) {
                Wake::Late => return true,
                Wake::Stop => return false,
                // What it says is not listened to.
                Wake::Ready => match recv(&self.client, &mut [0; 512], RecvFlags::DONTWAIT) {
                    Ok((_, got)) if got > 0 => {}
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    _ => return false,
                },
            }
        }
    }
}

/// Why there is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// More than [`LINE_MAX`] bytes.
    TooLong,
    /// Not UTF-8.
    NotText,
}

/// A socket that answers lines. It closes, and its file goes, when it is dropped.
#[derive(Debug)]
pub struct LineServer {
    file: SocketFile,
    acceptor: Acceptor,
    answers: Arc<Answers>,
}

impl LineServer {
    /// Listens at `path`, for this user alone (mode 0600). `answer` gives what is to be sent back,
    /// lines without their ends; it is called by several threads at once. `full`: the line for a client for
    /// which there is no place.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made; a server that answers there, or anything that is no socket,
    /// is never replaced.
    pub fn start(
        path: &Path,
        full: &str,
        answer: impl Fn(Result<&str, BadLine>) -> Answer + Send + Sync + 'static,
    ) -> Result<LineServer, ServeError> {
        let what = || format!("control socket {}", path.display());
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(os(what()))?;
        // The file gets its mode from the socket: at no time may others connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(os(what()))?;
        let ((), file) = SocketFile::bind(path, "control socket", |path| {
            bind(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(listen(&socket, 16)?)
        })?;
        let answers = Arc::new(Answers {
            wakeup: Arc::new(EventFd::new().map_err(os("eventfd"))?),
            clock: Clock::new(),
            streams: AtomicUsize::new(0),
            threads: Mutex::default(),
        });
        let lines = LineProtocol {
            answer: Arc::new(answer),
            answers: Arc::clone(&answers),
            full: format!("{full}\n").into_bytes(),
        };
        let listeners = vec![ListeningSocket { socket, unix: true }];
        let limits = Limits { clients: CLIENTS_MAX, replace_oldest: true, time: TIME };
        let acceptor = Acceptor::start("hoistway-control", lines, listeners, limits)?;
        Ok(LineServer { file, acceptor, answers })
    }

    /// Answers no further line, and removes the socket file.
    pub fn stop(&self) {
        if !self.acceptor.stop() {
            return;
        }
        self.answers.stop();
        self.file.remove();
    }
}

impl Drop for LineServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The protocol: a line comes, and is handed to a thread that answers it.
struct LineProtocol<A> {
    answer: Arc<A>,
    answers: Arc<Answers>,
    full: Vec<u8>,
}

impl<A> Protocol for LineProtocol<A>
where
    A: Fn(Result<&str, BadLine>) -> Answer + Send + Sync + 'static,
{
    type Client = Permit;
    const INPUT_MAX: usize = LINE_MAX;

    fn greet(&mut self, client: NewClient<'_>, _output: &mut Vec<u8>) -> Permit {
        client.permit
    }

    fn advance(&mut self, _client: &mut Permit, exchange: &mut Exchange) -> Next {
        let Exchange { input, ended, .. } = exchange;
        if let Some(end) = input.iter().position(|b| *b == b'\n') {
            input.truncate(end);
        } else if !*ended && input.len() < LINE_MAX {
            return Next::Read;
        }
        if input.is_empty() { Next::Drop } else { Next::HandOver }
    }

    fn hand_over(&mut self, permit: Permit, socket: OwnedFd, line: Vec<u8>) {
        let (answer, answers) = (Arc::clone(&self.answer), Arc::clone(&self.answers));
        let thread = thread::Builder::new().name("hoistway-answer".into());
        let thread =
            thread.spawn(move || answers.serve(&*answer, &Arc::new(socket), &line, permit));
        // Without a thread the client sees the connection closed.
        if let Ok(thread) = thread {
            let mut threads = self.answers.threads();
            threads.retain(|t| !t.is_finished());
            threads.push(thread);
        }
    }

    fn refusal(&self) -> Vec<u8> {
        self.full.clone()
    }
}

/// The threads that answer.
#[derive(Debug)]
struct Answers {
    /// Signalled for the end.
    wakeup: Arc<EventFd>,
    clock: Clock,
    streams: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What a wait ended with.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    Ready,
    Late,
    Stop,
}

impl Answers {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().expect("nobody panics while holding the lock")
    }

    fn stop(&self) {
        self.wakeup.signal();
        let threads = std::mem::take(&mut *self.threads());
        threads.into_iter().for_each(|t| drop(t.join()));
    }

    fn serve(
        &self,
        answer: &impl Fn(Result<&str, BadLine>) -> Answer,
        client: &Arc<OwnedFd>,
        line: &[u8],
        permit: Permit,
    ) {
        let text = match std::str::from_utf8(line) {
            _ if line.len() >= LINE_MAX => Err(BadLine::TooLong),
            Ok(text) => Ok(text),
            Err(_) => Err(BadLine::NotText),
        };
        match answer(text) {
            Answer::Line(line) => self.send(client, line),
            Answer::Stream { busy, .. } if !self.begin_stream() => self.send(client, busy),
            Answer::Stream { say, .. } => {
                // It has its own limit, and no place among those who ask.
                drop(permit);
                let (client, wakeup) = (Arc::clone(client), Arc::clone(&self.wakeup));
                say(&Lines { client, wakeup, clock: self.clock });
                self.streams.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn send(&self, client: &OwnedFd, line: String) {
        let mut answer = line.into_bytes();
        answer.push(b'\n');
        // Whoever does not take it goes without.
        let _ = send_all(client, &self.wakeup, &self.clock, &answer);
    }

    fn begin_stream(&self) -> bool {
        let more = |n| (n < STREAMS_MAX).then_some(n + 1);
        self.streams.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

/// Sends everything within the time a client may take: `Ready` then.
fn send_all(client: &OwnedFd, wakeup: &EventFd, clock: &Clock, mut bytes: &[u8]) -> Wake {
    let limit = clock.now() + TIME;
    while !bytes.is_empty() {
        match send(client, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                match wait(wakeup, clock, client.as_fd(), PollFlags::OUT, Some(limit)) {
                    Wake::Ready => {}
                    other => return other,
                }
            }
            Err(_) => return Wake::Late,
        }
    }
    Wake::Ready
}

/// Waits for a descriptor, but no longer than that and not when told to stop.
fn wait(
    wakeup: &EventFd,
    clock: &Clock,
    fd: BorrowedFd<'_>,
    what: PollFlags,
    limit: Option<Instant>,
) -> Wake {
    loop {
        let wakeup = PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN);
        let mut fds = [wakeup, PollFd::from_borrowed_fd(fd, what)];
        let now = clock.now();
        if limit.is_some_and(|at| at <= now) {
            return Wake::Late;
        }
        let timeout = limit.map(|at| until(now, at));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) if !fds[0].revents().is_empty() => return Wake::Stop,
            Ok(_) if !fds[1].revents().is_empty() => return Wake::Ready,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll on descriptors of our own: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hoistway-line-{}-{name}.sock", std::process::id()))
    }

    /// Clients whose answers wait for each other.
    static WAITING: AtomicUsize = AtomicUsize::new(0);

    fn echo(path: &Path) -> Result<LineServer, ServeError> {
        LineServer::start(path, "full", |line| match line {
            Ok("wait") => {
                let waiting = || WAITING.load(Ordering::SeqCst);
                WAITING.fetch_add(1, Ordering::SeqCst);
                while waiting() < 3 {
                    thread::yield_now();
                }
                "waited".to_string().into()
            }
            Ok("count") => Answer::Stream {
                say: Box::new(|lines| {
                    for n in 0.. {
                        if !lines.send(&n.to_string()) || !lines.pause(Nanos::ms(1)) {
                            return;
                        }
                    }
                }),
                busy: "busy".into(),
            },
            Ok(text) => format!("<{text}>").into(),
            Err(bad) => format!("{bad:?}").into(),
        })
    }

    fn ask(path: &Path, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        // The server may stop listening before all of it is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn one_line_is_answered_by_one_and_bad_ones_do_no_harm() {
        let path = place("echo");
        let server = echo(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ask(&path, b"a b\n"), "<a b>\n");
        assert_eq!(ask(&path, b"no end"), "<no end>\n");
        assert_eq!(ask(&path, b"one\ntwo\n"), "<one>\n", "what follows is not read");
        assert_eq!(ask(&path, b""), "", "who says nothing hears nothing");
        assert_eq!(ask(&path, &[0xff, b'\n']), "NotText\n");
        let longest = vec![b'x'; LINE_MAX - 1];
        assert_eq!(ask(&path, &[&longest[..], b"\n"].concat()).len(), LINE_MAX + 2);
        assert_eq!(ask(&path, &vec![b'x'; 4 * LINE_MAX]), "TooLong\n");
        server.stop();
        assert!(!path.exists());
    }

    #[test]
    fn clients_are_served_side_by_side_and_silent_ones_make_room() {
        let path = place("silent");
        let server = echo(&path).unwrap();
        // Far more than there are places for: the oldest lose theirs.
        let mut silent: Vec<_> =
            (0..3 * CLIENTS_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        silent[3 * CLIENTS_MAX - 2].write_all(b"half a li").unwrap();
        assert_eq!(ask(&path, b"next\n"), "<next>\n");
        let mut rest = String::new();
        silent[0].read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "full\n", "its place was taken");
        rest.clear();
        // The youngest still has its own.
        silent.last_mut().unwrap().write_all(b"me too\n").unwrap();
        silent.last_mut().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "<me too>\n");
        // Answers that take their time hold up nobody either: these end only together.
        let three: Vec<_> = (0..3)
            .map(|_| {
                let path = path.clone();
                thread::spawn(move || ask(&path, b"wait\n"))
            })
            .collect();
        for answer in three {
            assert_eq!(answer.join().unwrap(), "waited\n");
        }
        // Nor does any of them hold up the end.
        server.stop();
        assert!(!path.exists());
    }

    #[test]
    fn streams_hold_up_nobody_and_end_with_either_side() {
        use std::io::{BufRead, BufReader};
        let path = place("stream");
        let server = echo(&path).unwrap();
        let stream = || {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"count\n").unwrap();
            BufReader::new(stream)
        };
        let line = |from: &mut BufReader<UnixStream>| {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            line
        };
        let mut streams: Vec<_> = (0..STREAMS_MAX).map(|_| stream()).collect();
        for s in &mut streams {
            assert_eq!([line(s), line(s)], ["0\n", "1\n"]);
        }
        assert_eq!(ask(&path, b"x\n"), "<x>\n", "others are served meanwhile");
        assert_eq!(line(&mut stream()), "busy\n");
        streams.pop();
        // The place of who has gone becomes free when its thread has noticed.
        while line(&mut stream()) != "0\n" {
            thread::yield_now();
        }
        server.stop();
        let mut rest = String::new();
        streams[0].read_to_string(&mut rest).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_nobody_answers_at_is_replaced() {
        let path = place("stale");
        drop(UnixListener::bind(&path).unwrap());
        let first = echo(&path).unwrap();
        assert!(matches!(echo(&path), Err(ServeError::Os { .. })));
        assert_eq!(ask(&path, b"x\n"), "<x>\n", "the first server is unharmed");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(echo(&path), Err(ServeError::Refused(_))));
        drop(first);
        assert!(path.exists(), "somebody else's file is not removed");
        std::fs::remove_file(&path).unwrap();
    }
}
