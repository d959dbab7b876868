//! A Unix socket for questions of one line: the way in for an operator.
//!
//! A connection is one line in and one line out, bounded in length and time. One thread serves them
//! one after the other, so that neither their number nor a client that says nothing costs anybody
//! else more than a wait; what a line means is up to the function that answers it. An answer that
//! takes its time is a [stream](Answer::Stream) of lines, in a thread of its own.

use super::listen::{Full, PAUSE, accept, replace_stale};
use crate::bell::Bell;
use crate::clock::{Clock, until};
use crate::error::{LiveError, os};
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
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Bytes of the longest line that is read, its end included.
pub const LINE_MAX: usize = 64 << 10;
/// How long a client may take to say its line, and to take the answer.
const PATIENCE: Nanos = Nanos::secs(2);

/// Streams at once.
pub const STREAMS_MAX: usize = 8;

/// What is answered.
pub enum Answer {
    /// One line.
    Line(String),
    /// Many lines, over time.
    Stream {
        /// Says them, on a thread of its own, until it has said all or nobody listens any more.
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
    client: OwnedFd,
    bell: Arc<Bell>,
    clock: Clock,
}

impl Lines {
    /// Sends a line, without its end; false: it is of no use to go on.
    pub fn send(&self, line: &str) -> bool {
        let line = [line.as_bytes(), b"\n"].concat();
        send_all(&self.client, &self.bell, &self.clock, &line) == Wake::Ready
    }

    /// Waits that long; false: the client has gone, or the server stops.
    pub fn pause(&self, time: Nanos) -> bool {
        let limit = self.clock.now() + time;
        loop {
            match wait(&self.bell, &self.clock, self.client.as_fd(), PollFlags::IN, Some(limit)) {
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
    bell: Arc<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LineServer {
    /// Listens at `path`, for this user alone (mode 0600). `answer` gives what is to be sent back,
    /// lines without their ends.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made; a server that answers there, or anything that is no socket,
    /// is never replaced.
    pub fn start(
        path: &Path,
        answer: impl FnMut(Result<&str, BadLine>) -> Answer + Send + 'static,
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
        let bell = Arc::new(Bell::new().map_err(os("eventfd"))?);
        let (heard, streams) = (Arc::clone(&bell), Vec::new());
        let mut desk = Desk { socket, bell: heard, clock: Clock::new(), answer, streams };
        let thread = thread::Builder::new().name("hoistway-control".into());
        let thread = thread
            .spawn(move || {
                desk.run();
                desk.streams.drain(..).for_each(|s| drop(s.join()));
            })
            .map_err(os("thread"))?;
        let thread = Mutex::new(Some(thread));
        Ok(LineServer { path: path.into(), file, bell, thread })
    }

    /// Answers no further line, and removes the socket file.
    pub fn stop(&self) {
        let thread = self.thread.lock().expect("nobody panics while holding the lock").take();
        let Some(thread) = thread else { return };
        self.bell.ring();
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

/// The thread behind the socket.
struct Desk<A> {
    socket: OwnedFd,
    bell: Arc<Bell>,
    clock: Clock,
    answer: A,
    streams: Vec<JoinHandle<()>>,
}

/// What a wait ended with.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    Ready,
    Late,
    Stop,
}

impl<A: FnMut(Result<&str, BadLine>) -> Answer> Desk<A> {
    fn run(&mut self) {
        loop {
            if self.wait(self.socket.as_fd(), PollFlags::IN, None) == Wake::Stop {
                return;
            }
            match accept(&self.socket) {
                Ok(Some(client)) => {
                    if self.serve(client) == Wake::Stop {
                        return;
                    }
                }
                Ok(None) => {}
                Err(Full) => {
                    let limit = self.clock.now() + PAUSE;
                    if self.wait(self.bell.as_fd(), PollFlags::IN, Some(limit)) == Wake::Stop {
                        return;
                    }
                }
            }
        }
    }

    fn serve(&mut self, client: OwnedFd) -> Wake {
        let limit = self.clock.now() + PATIENCE;
        let mut line = Vec::new();
        loop {
            let mut chunk = [0; 4096];
            match recv(&client, &mut chunk, RecvFlags::DONTWAIT) {
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
                Err(Errno::AGAIN) => match self.wait(client.as_fd(), PollFlags::IN, Some(limit)) {
                    Wake::Ready => {}
                    other => return other,
                },
                Err(_) => return Wake::Ready,
            }
        }
        if line.is_empty() {
            return Wake::Ready;
        }
        let text = match std::str::from_utf8(&line) {
            _ if line.len() >= LINE_MAX => Err(BadLine::TooLong),
            Ok(text) => Ok(text),
            Err(_) => Err(BadLine::NotText),
        };
        match (self.answer)(text) {
            Answer::Line(line) => self.send(&client, line),
            Answer::Stream { say, busy } => self.stream(client, say, busy),
        }
    }

    fn stream(
        &mut self,
        client: OwnedFd,
        say: Box<dyn FnOnce(&Lines) + Send>,
        busy: String,
    ) -> Wake {
        self.streams.retain(|s| !s.is_finished());
        if self.streams.len() >= STREAMS_MAX {
            return self.send(&client, busy);
        }
        let lines = Lines { client, bell: Arc::clone(&self.bell), clock: self.clock };
        let thread = thread::Builder::new().name("hoistway-stream".into());
        // Without a thread the client sees the connection closed.
        self.streams.extend(thread.spawn(move || say(&lines)));
        Wake::Ready
    }

    fn send(&self, client: &OwnedFd, line: String) -> Wake {
        let mut answer = line.into_bytes();
        answer.push(b'\n');
        send_all(client, &self.bell, &self.clock, &answer)
    }

    fn wait(&self, fd: BorrowedFd<'_>, what: PollFlags, limit: Option<Instant>) -> Wake {
        wait(&self.bell, &self.clock, fd, what, limit)
    }
}

/// Sends everything within the time a client may take: `Ready` then.
fn send_all(client: &OwnedFd, bell: &Bell, clock: &Clock, mut bytes: &[u8]) -> Wake {
    let limit = clock.now() + PATIENCE;
    while !bytes.is_empty() {
        match send(client, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                match wait(bell, clock, client.as_fd(), PollFlags::OUT, Some(limit)) {
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
    bell: &Bell,
    clock: &Clock,
    fd: BorrowedFd<'_>,
    what: PollFlags,
    limit: Option<Instant>,
) -> Wake {
    loop {
        let bell = PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN);
        let mut fds = [bell, PollFd::from_borrowed_fd(fd, what)];
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

    fn echo(path: &Path) -> Result<LineServer, LiveError> {
        LineServer::start(path, |line| match line {
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
        // Whoever says nothing holds up neither the others for long nor the end.
        let _silent = UnixStream::connect(&path).unwrap();
        assert_eq!(ask(&path, b"next\n"), "<next>\n");
        let _silent = UnixStream::connect(&path).unwrap();
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
