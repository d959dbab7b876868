//! A Unix socket for questions of one line: the way in for an operator.
//!
//! A connection is one line in and one line out, bounded in length and time. Each has a thread of its
//! own, so that neither a client that says nothing nor an answer that takes its time holds up another
//! one. Their number is bounded: a further client takes the place of the oldest that has not said its
//! line yet, and waits where all have. What a line means is up to the function that answers it; an
//! answer of many lines is a [stream](Answer::Stream).

use super::listen::{Full, PAUSE, accept, replace_stale};
use crate::clock::{Clock, until};
use crate::error::{LiveError, os};
use crate::eventfd::EventFd;
use hoistway::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind,
    listen, recv, send, shutdown, socket_with,
};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

/// Bytes of the longest line that is read, its end included.
pub const LINE_MAX: usize = 64 << 10;
/// How long a client may take to say its line, and to take the answer.
const PATIENCE: Nanos = Nanos::secs(2);

/// Connections that are served at once, streams aside.
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
    path: PathBuf,
    /// Device and inode of the socket file: nobody else's is removed.
    file: (u64, u64),
    wakeup: Arc<EventFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LineServer {
    /// Listens at `path`, for this user alone (mode 0600). `answer` gives what is to be sent back,
    /// lines without their ends; it is called by several threads at once.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made; a server that answers there, or anything that is no socket,
    /// is never replaced.
    pub fn start(
        path: &Path,
        answer: impl Fn(Result<&str, BadLine>) -> Answer + Send + Sync + 'static,
    ) -> Result<LineServer, LiveError> {
        replace_stale(path)?;
        let what = || format!("control socket {}", path.display());
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(os(what()))?;
        let address = SocketAddrUnix::new(path).map_err(os(what()))?;
        // The file gets its mode from the socket: at no time may others connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(os(what()))?;
        bind(&socket, &address).map_err(os(what()))?;
        listen(&socket, 16).map_err(os(what()))?;
        let file = identity(path).map_err(os(what()))?;
        let wakeup = Arc::new(EventFd::new().map_err(os("eventfd"))?);
        let room = Room {
            wakeup: Arc::clone(&wakeup),
            freed: EventFd::new().map_err(os("eventfd"))?,
            clock: Clock::new(),
            answer,
            seats: Mutex::default(),
            streams: AtomicUsize::new(0),
        };
        let thread = thread::Builder::new().name("hoistway-control".into());
        let thread = thread.spawn(move || Desk::new(socket, room).run()).map_err(os("thread"))?;
        let thread = Mutex::new(Some(thread));
        Ok(LineServer { path: path.into(), file, wakeup, thread })
    }

    /// Answers no further line, and removes the socket file.
    pub fn stop(&self) {
        let thread = self.thread.lock().expect("nobody panics while holding the lock").take();
        let Some(thread) = thread else { return };
        self.wakeup.signal();
        let _ = thread.join();
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for LineServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}

/// What the threads of a socket share.
struct Room<A> {
    /// Rings for the end.
    wakeup: Arc<EventFd>,
    /// Rings when a connection is over.
    freed: EventFd,
    clock: Clock,
    answer: A,
    /// Connections that are served, the oldest first; streams are not among them.
    seats: Mutex<Vec<Seat>>,
    streams: AtomicUsize,
}

#[derive(Debug)]
struct Seat {
    number: u64,
    client: Arc<OwnedFd>,
    /// Its line has not come.
    silent: bool,
}

/// The thread behind the socket.
struct Desk<A> {
    socket: OwnedFd,
    room: Arc<Room<A>>,
    threads: Vec<JoinHandle<()>>,
    served: u64,
}

/// What a wait ended with.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    Ready,
    Late,
    Stop,
}

impl<A: Fn(Result<&str, BadLine>) -> Answer + Send + Sync + 'static> Desk<A> {
    fn new(socket: OwnedFd, room: Room<A>) -> Desk<A> {
        Desk { socket, room: Arc::new(room), threads: Vec::new(), served: 0 }
    }

    fn run(mut self) {
        while self.next() != Wake::Stop {}
        self.threads.drain(..).for_each(|t| drop(t.join()));
    }

    /// Takes the next client, once there is a place for it.
    fn next(&mut self) -> Wake {
        while !self.room.has_place() {
            if self.room.wait(self.room.freed.as_fd(), PollFlags::IN, None) == Wake::Stop {
                return Wake::Stop;
            }
            self.room.freed.clear();
        }
        if self.room.wait(self.socket.as_fd(), PollFlags::IN, None) == Wake::Stop {
            return Wake::Stop;
        }
        match accept(&self.socket) {
            Ok(Some(client)) => {
                self.room.make_place();
                self.seat(client);
                Wake::Ready
            }
            Ok(None) => Wake::Ready,
            Err(Full) => {
                let limit = self.room.clock.now() + PAUSE;
                self.room.wait(self.room.wakeup.as_fd(), PollFlags::IN, Some(limit))
            }
        }
    }

    fn seat(&mut self, client: OwnedFd) {
        self.threads.retain(|t| !t.is_finished());
        self.served += 1;
        let (number, client, room) = (self.served, Arc::new(client), Arc::clone(&self.room));
        room.seats().push(Seat { number, client: Arc::clone(&client), silent: true });
        let thread = thread::Builder::new().name("hoistway-answer".into());
        let thread = thread.spawn(move || {
            room.serve(number, &client);
            room.leave(number);
        });
        match thread {
            Ok(thread) => self.threads.push(thread),
            // Without a thread the client sees the connection closed.
            Err(_) => self.room.leave(self.served),
        }
    }
}

impl<A> Room<A> {
    fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.seats.lock().expect("nobody panics while holding the lock")
    }

    /// There is a free place, or one that may be taken from a client that says nothing.
    fn has_place(&self) -> bool {
        let seats = self.seats();
        seats.len() < CLIENTS_MAX || seats.iter().any(|s| s.silent)
    }

    /// Closes the connection that has said nothing for the longest time, if that is needed.
    fn make_place(&self) {
        let mut seats = self.seats();
        if seats.len() >= CLIENTS_MAX
            && let Some(at) = seats.iter().position(|s| s.silent)
        {
            // Its thread wakes up and finds that it has no place any more.
            let _ = shutdown(&*seats.remove(at).client, Shutdown::Both);
        }
    }

    /// The client of that number has said its line; false: its place was taken.
    fn spoke(&self, number: u64) -> bool {
        let mut seats = self.seats();
        let seat = seats.iter_mut().find(|s| s.number == number);
        seat.map(|s| s.silent = false).is_some()
    }

    fn leave(&self, number: u64) {
        self.seats().retain(|s| s.number != number);
        self.freed.signal();
    }

    fn send(&self, client: &OwnedFd, line: String) {
        let mut answer = line.into_bytes();
        answer.push(b'\n');
        // Whoever does not take it goes without.
        let _ = send_all(client, &self.wakeup, &self.clock, &answer);
    }

    fn wait(&self, fd: BorrowedFd<'_>, what: PollFlags, limit: Option<Instant>) -> Wake {
        wait(&self.wakeup, &self.clock, fd, what, limit)
    }

    /// A client's line, without its end; `None`: none came.
    fn line(&self, client: &OwnedFd) -> Option<Vec<u8>> {
        let limit = self.clock.now() + PATIENCE;
        let mut line = Vec::new();
        loop {
            let mut chunk = [0; 4096];
            match recv(client, &mut chunk, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => break,
                Ok((_, got)) => {
                    let from = line.len();
                    line.extend_from_slice(&chunk[..got]);
                    if let Some(end) = line[from..].iter().position(|b| *b == b'\n') {
                        line.truncate(from + end);
                        break;
                    }
                    if line.len() >= LINE_MAX {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.wait(client.as_fd(), PollFlags::IN, Some(limit)) != Wake::Ready {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
        (!line.is_empty()).then_some(line)
    }
}

impl<A: Fn(Result<&str, BadLine>) -> Answer> Room<A> {
    fn serve(&self, number: u64, client: &Arc<OwnedFd>) {
        let Some(line) = self.line(client) else { return };
        if !self.spoke(number) {
            return;
        }
        let text = match std::str::from_utf8(&line) {
            _ if line.len() >= LINE_MAX => Err(BadLine::TooLong),
            Ok(text) => Ok(text),
            Err(_) => Err(BadLine::NotText),
        };
        match (self.answer)(text) {
            Answer::Line(line) => self.send(client, line),
            Answer::Stream { busy, .. } if !self.begin_stream() => self.send(client, busy),
            Answer::Stream { say, .. } => {
                // It has its own limit, and no place among those who ask.
                self.leave(number);
                let (client, wakeup) = (Arc::clone(client), Arc::clone(&self.wakeup));
                say(&Lines { client, wakeup, clock: self.clock });
                self.streams.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn begin_stream(&self) -> bool {
        let more = |n| (n < STREAMS_MAX).then_some(n + 1);
        self.streams.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

/// Sends everything within the time a client may take: `Ready` then.
fn send_all(client: &OwnedFd, wakeup: &EventFd, clock: &Clock, mut bytes: &[u8]) -> Wake {
    let limit = clock.now() + PATIENCE;
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

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hoistway-line-{}-{name}.sock", std::process::id()))
    }

    /// Clients whose answers wait for each other.
    static WAITING: AtomicUsize = AtomicUsize::new(0);

    fn echo(path: &Path) -> Result<LineServer, LiveError> {
        LineServer::start(path, |line| match line {
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
        assert_eq!(rest, "", "its place was taken");
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
        assert!(matches!(echo(&path), Err(LiveError::Os { .. })));
        assert_eq!(ask(&path, b"x\n"), "<x>\n", "the first server is unharmed");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(echo(&path), Err(LiveError::Os { .. })));
        drop(first);
        assert!(path.exists(), "somebody else's file is not removed");
        std::fs::remove_file(&path).unwrap();
    }
}
