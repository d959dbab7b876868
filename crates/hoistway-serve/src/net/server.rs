//! One thread for a set of listeners and all clients that are not handed on yet: the loop under metrics
//! (`http`), control (`line`) and the negotiation of NBD.
//!
//! What a client may take is bounded: bytes it sends before it is understood, time from its coming
//! until it is answered or handed on, and the number of clients. Nobody waits for anybody: all sockets
//! are watched at once, and one that gives or takes nothing only runs into its deadline. A client that
//! sends a byte now and then ("slow loris") has no more time than one that sends none.

use super::listen::{Full, PAUSE, accept};
use crate::error::{ServeError, os};
use crate::system::EventFd;
use crate::system::{Clock, until};
use hoistway::{Instant, Nanos};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// What is spoken with the clients of a set of listeners.
pub(crate) trait Protocol: Send + 'static {
    /// What is kept of a client.
    type Client: Send;

    /// Bytes of input that are kept; a client that sends more before it is understood is dropped.
    const INPUT_MAX: usize;

    /// A client has come; `output` is what it is greeted with.
    fn greet(&mut self, client: NewClient<'_>, output: &mut Vec<u8>) -> Self::Client;

    /// Something happened on a client's socket; called before `advance`.
    fn woken(&mut self) {}

    /// Bytes came, or all that was to be sent is sent: works off the input and says how it goes on.
    fn advance(&mut self, client: &mut Self::Client, exchange: &mut Exchange) -> Next;

    /// Takes a client's socket for somebody in between, and gives the one to go on with.
    fn replace(&mut self, _client: &mut Self::Client, socket: OwnedFd) -> io::Result<OwnedFd> {
        Ok(socket)
    }

    /// The client leaves with its socket and what it has sent beyond what was understood.
    fn hand_over(&mut self, client: Self::Client, socket: OwnedFd, input: Vec<u8>);

    /// What a client is told for whom there is no place; empty: the protocol has no words for it.
    fn refusal(&self) -> Vec<u8>;
}

/// A client that has just come.
#[derive(Debug)]
pub(crate) struct NewClient<'a> {
    pub socket: &'a OwnedFd,
    /// It came by a Unix socket.
    pub unix: bool,
    pub permit: Permit,
}

/// What came from a client and is to go to it.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// It sends no more.
    pub ended: bool,
}

/// How it goes on with a client. What is in the output is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More has to come from it.
    Read,
    /// There is more to be understood in the input.
    Again,
    /// [`Protocol::replace`].
    Replace,
    /// [`Protocol::hand_over`].
    HandOver,
    /// It was answered: the connection is closed when the answer is read.
    Answered,
    /// It is of no use: the connection is closed.
    Drop,
}

/// What clients of a set of listeners may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Clients that may exist, those handed on included as long as they keep their [`Permit`].
    pub clients: usize,
    /// One that comes beyond takes the place of the oldest that is not handed on; else it is refused.
    pub replace_oldest: bool,
    /// From its coming until it is answered or handed on.
    pub time: Nanos,
}

/// One of the clients that may exist; another may come when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    _counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Permit {
    fn of(taken: &Arc<AtomicUsize>) -> Permit {
        taken.fetch_add(1, Ordering::Relaxed);
        Permit { _counted: Arc::new(Counted(Arc::clone(taken))) }
    }

    /// Of a server of one client.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn alone() -> Permit {
        Permit::of(&Arc::default())
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub socket: OwnedFd,
    pub unix: bool,
}

/// The running thread. It stops when this is dropped; clients that are not handed on are dropped then.
#[derive(Debug)]
pub(crate) struct Acceptor {
    wakeup: Arc<EventFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Acceptor {
    /// Takes clients from now on, in a thread of that name.
    pub fn start<P: Protocol>(
        name: &str,
        protocol: P,
        listeners: Vec<ListeningSocket>,
        limits: Limits,
    ) -> Result<Acceptor, ServeError> {
        let wakeup = Arc::new(EventFd::new().map_err(os("eventfd"))?);
        let work =
            Loop::new(protocol, listeners, limits, Arc::clone(&wakeup)).map_err(os("epoll"))?;
        let thread = thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || work.run()).map_err(os("thread"))?;
        Ok(Acceptor { wakeup, thread: Mutex::new(Some(thread)) })
    }

    /// Takes nobody any more; true the first time.
    pub fn stop(&self) -> bool {
        let thread = self.thread.lock().expect("nobody panics while holding the lock").take();
        let Some(thread) = thread else { return false };
        self.wakeup.signal();
        let _ = thread.join();
        true
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop();
    }
}

const WAKEUP: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 62;
/// Clients that are being told that there is no place for them, beside those that have one.
const REFUSED_MAX: usize = 16;
/// How long such a client may take to read that.
const REFUSAL_TIME: Nanos = Nanos::secs(1);

struct Loop<P: Protocol> {
    protocol: P,
    listeners: Vec<ListeningSocket>,
    limits: Limits,
    epoll: OwnedFd,
    /// Open as long as it is watched.
    _wakeup: Arc<EventFd>,
    clock: Clock,
    /// By number: the oldest first.
    clients: BTreeMap<u64, Held<P::Client>>,
    next: u64,
    /// Places that are taken, here and elsewhere.
    taken: Arc<AtomicUsize>,
    /// No room for another descriptor: listening pauses until then.
    paused_until: Option<Instant>,
}

/// A client that is not handed on.
struct Held<C> {
    socket: OwnedFd,
    /// `None`: it is refused.
    client: Option<C>,
    exchange: Exchange,
    /// What follows once the output is sent.
    then: Option<Next>,
    /// It was answered and our side is closed. What still comes is read and forgotten, for closing over it
    /// would throw the answer away.
    draining: bool,
    writing: bool,
    deadline: Instant,
}

/// What the loop does with a client.
#[derive(Debug)]
enum Outcome {
    Wait { write: bool },
    Replace,
    HandOver,
    Drop,
}

impl<P: Protocol> Loop<P> {
    fn new(
        protocol: P,
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        wakeup: Arc<EventFd>,
    ) -> io::Result<Loop<P>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*wakeup, EventData::new_u64(WAKEUP), EventFlags::IN)?;
        let mut all = Loop {
            protocol,
            listeners,
            limits,
            epoll,
            _wakeup: wakeup,
            clock: Clock::new(),
            clients: BTreeMap::new(),
            next: 0,
            taken: Arc::default(),
            paused_until: None,
        };
        all.listen(true)?;
        Ok(all)
    }

    fn listen(&mut self, on: bool) -> io::Result<()> {
        for (n, listener) in self.listeners.iter().enumerate() {
            if on {
                let data = EventData::new_u64(LISTENERS + n as u64);
                match epoll::add(&self.epoll, &listener.socket, data, EventFlags::IN) {
                    // It was not stopped, or an attempt that failed came as far as this.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            } else {
                epoll::delete(&self.epoll, &listener.socket)?;
            }
        }
        Ok(())
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            let now = self.clock.now();
            self.tidy(now);
            let deadlines = self.clients.values().map(|c| c.deadline).chain(self.paused_until);
            let timeout = deadlines.min().map(|at| until(now, at));
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("epoll_wait on descriptors of our own: {error}"),
            }
            // Who is there goes first: a newcomer may take somebody's place.
            let (mut came, mut stop) = (Vec::new(), false);
            for event in &events {
                match event.data.u64() {
                    WAKEUP => stop = true,
                    number if number >= LISTENERS => came.push((number - LISTENERS) as usize),
                    number => self.client(number),
                }
            }
            if stop {
                return;
            }
            came.into_iter().for_each(|listener| self.accept(listener));
        }
    }

    /// Drops who took too long, and listens again after a pause.
    fn tidy(&mut self, now: Instant) {
        self.clients.retain(|_, client| client.deadline > now);
        if self.paused_until.is_some_and(|at| at <= now) {
            self.paused_until = None;
            // If even this fails for want of memory, the next pause tries again.
            if self.listen(true).is_err() {
                self.paused_until = Some(now + PAUSE);
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        let ListeningSocket { socket, unix } = &self.listeners[listener];
        let unix = *unix;
        let socket = match accept(socket) {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(Full) => {
                self.paused_until = Some(self.clock.now() + PAUSE);
                let _ = self.listen(false);
                return;
            }
        };
        if !self.has_place() {
            return self.refuse(socket);
        }
        let mut exchange = Exchange::default();
        let permit = Permit::of(&self.taken);
        let client = NewClient { socket: &socket, unix, permit };
        let client = self.protocol.greet(client, &mut exchange.output);
        let deadline = self.clock.now() + self.limits.time;
        self.hold(Held {
            socket,
            client: Some(client),
            exchange,
            then: None,
            draining: false,
            writing: false,
            deadline,
        });
    }

    fn hold(&mut self, held: Held<P::Client>) {
        let number = self.next;
        self.next += 1;
        let data = EventData::new_u64(number);
        if epoll::add(&self.epoll, &held.socket, data, EventFlags::IN).is_ok() {
            self.clients.insert(number, held);
            self.client(number);
        }
    }

    /// There is a place for one more client, or one can be made.
    fn has_place(&mut self) -> bool {
        if self.taken.load(Ordering::Relaxed) < self.limits.clients {
            return true;
        }
        if !self.limits.replace_oldest {
            return false;
        }
        let oldest = self.clients.iter().find(|(_, held)| held.client.is_some());
        let Some(held) = oldest.map(|(n, _)| *n).and_then(|n| self.clients.remove(&n)) else {
            return false;
        };
        let _ = epoll::delete(&self.epoll, &held.socket);
        // In the middle of an answer nothing else can be said.
        if held.then.is_none() && held.exchange.output.is_empty() {
            self.refuse(held.socket);
        }
        true
    }

    /// Tells a client that there is no place for it, if the protocol can.
    fn refuse(&mut self, socket: OwnedFd) {
        let output = self.protocol.refusal();
        let refused = self.clients.values().filter(|held| held.client.is_none()).count();
        if output.is_empty() || refused >= REFUSED_MAX {
            return;
        }
        self.hold(Held {
            socket,
            client: None,
            exchange: Exchange { output, ..Exchange::default() },
            then: Some(Next::Answered),
            draining: false,
            writing: false,
            deadline: self.clock.now() + REFUSAL_TIME,
        });
    }

    /// Something happened to a client's socket, or it has just come.
    fn client(&mut self, number: u64) {
        self.protocol.woken();
        while let Some(held) = self.clients.get_mut(&number) {
            match held.go_on(&mut self.protocol) {
                Outcome::Wait { write } => {
                    if held.writing != write {
                        held.writing = write;
                        let flags = if write { EventFlags::OUT } else { EventFlags::IN };
                        let data = EventData::new_u64(number);
                        if epoll::modify(&self.epoll, &held.socket, data, flags).is_err() {
                            self.clients.remove(&number);
                        }
                    }
                    return;
                }
                Outcome::HandOver => {
                    if let Some(Held { socket, client: Some(client), exchange, .. }) =
                        self.clients.remove(&number)
                    {
                        let _ = epoll::delete(&self.epoll, &socket);
                        self.protocol.hand_over(client, socket, exchange.input);
                    }
                }
                Outcome::Replace => {
                    if self.replace(number).is_err() {
                        self.clients.remove(&number);
                    }
                }
                Outcome::Drop => drop(self.clients.remove(&number)),
            }
        }
    }

    fn replace(&mut self, number: u64) -> io::Result<()> {
        let Some(mut held) = self.clients.remove(&number) else { return Ok(()) };
        let Some(client) = &mut held.client else { return Ok(()) };
        epoll::delete(&self.epoll, &held.socket)?;
        held.socket = self.protocol.replace(client, held.socket)?;
        held.writing = false;
        epoll::add(&self.epoll, &held.socket, EventData::new_u64(number), EventFlags::IN)?;
        self.clients.insert(number, held);
        Ok(())
    }
}

impl<C> Held<C> {
    fn go_on<P: Protocol<Client = C>>(&mut self, protocol: &mut P) -> Outcome {
        loop {
            match self.send() {
                Ok(true) => {}
                Ok(false) => return Outcome::Wait { write: true },
                Err(_) => return Outcome::Drop,
            }
            match self.then.take() {
                Some(Next::HandOver) => return Outcome::HandOver,
                Some(Next::Replace) => return Outcome::Replace,
                Some(Next::Drop) => return Outcome::Drop,
                Some(Next::Answered) => {
                    if shutdown(&self.socket, Shutdown::Write).is_err() {
                        return Outcome::Drop;
                    }
                    self.draining = true;
                }
                Some(Next::Read | Next::Again) | None => {}
            }
            if self.draining {
                return self.drain();
            }
            let Some(client) = &mut self.client else { return Outcome::Drop };
            match protocol.advance(client, &mut self.exchange) {
                Next::Read if !self.exchange.output.is_empty() => {}
                Next::Read => match self.receive(P::INPUT_MAX) {
                    Ok(true) => {}
                    Ok(false) => return Outcome::Wait { write: false },
                    Err(_) => return Outcome::Drop,
                },
                next => self.then = Some(next),
            }
        }
    }

    fn drain(&mut self) -> Outcome {
        match recv(&self.socket, &mut [0; 4096], RecvFlags::DONTWAIT) {
            Ok((_, 1..)) | Err(Errno::AGAIN | Errno::INTR) => Outcome::Wait { write: false },
            _ => Outcome::Drop,
        }
    }

    /// True when everything is sent.
    fn send(&mut self) -> io::Result<bool> {
        let (output, mut sent) = (&mut self.exchange.output, 0);
        let all = loop {
            if sent == output.len() {
                break Ok(true);
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.socket, &output[sent..], flags) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(false),
                Err(error) => break Err(error.into()),
            }
        };
        output.drain(..sent);
        all
    }

    /// True when something came, or is known not to come.
    fn receive(&mut self, most: usize) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        if self.exchange.ended || self.exchange.input.len() > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => self.exchange.ended = true,
            Ok((_, got)) => self.exchange.input.extend_from_slice(&chunk[..got]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    /// Says back each line; keeps those who say `stay`.
    #[derive(Default)]
    struct Echo {
        kept: Vec<(OwnedFd, Permit)>,
    }

    impl Protocol for Echo {
        type Client = Permit;
        const INPUT_MAX: usize = 1 << 10;

        fn greet(&mut self, client: NewClient<'_>, _output: &mut Vec<u8>) -> Permit {
            client.permit
        }

        fn advance(&mut self, _client: &mut Permit, exchange: &mut Exchange) -> Next {
            if exchange.input == b"stay\n" {
                return Next::HandOver;
            }
            if !exchange.input.ends_with(b"\n") {
                return Next::Read;
            }
            exchange.output.append(&mut exchange.input);
            Next::Answered
        }

        fn hand_over(&mut self, client: Permit, socket: OwnedFd, _input: Vec<u8>) {
            self.kept.push((socket, client));
        }

        fn refusal(&self) -> Vec<u8> {
            b"full\n".to_vec()
        }
    }

    fn serve(limits: Limits) -> (Acceptor, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let listeners = vec![ListeningSocket { socket: listener.into(), unix: false }];
        (Acceptor::start("test", Echo::default(), listeners, limits).unwrap(), at)
    }

    fn limits(clients: usize, replace_oldest: bool) -> Limits {
        // Nobody is sent away because the machine was held up.
        Limits { clients, replace_oldest, time: Nanos::secs(600) }
    }

    fn connect(at: SocketAddr, says: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(at).unwrap();
        let _ = stream.write_all(says);
        stream
    }

    fn rest(mut stream: TcpStream) -> String {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn who_comes_beyond_the_limit_is_told_so() {
        let (_acceptor, at) = serve(limits(3, false));
        let places: Vec<_> = (0..3).map(|_| connect(at, b"st")).collect();
        for _ in 0..3 {
            assert_eq!(rest(connect(at, b"hello\n")), "full\n");
        }
        // Those who were handed on keep their places.
        for mut stream in &places {
            stream.write_all(b"ay\n").unwrap();
        }
        assert_eq!(rest(connect(at, b"hello\n")), "full\n");
        drop(places);
        // Of more than can be told at once some only see the connection closed.
        let many: Vec<_> = (0..4 * REFUSED_MAX).map(|_| connect(at, b"hello\n")).collect();
        let told = many.into_iter().map(rest).filter(|text| text == "full\n").count();
        assert!(told >= 1, "{told}");
    }

    #[test]
    fn the_oldest_that_says_nothing_makes_room_and_hears_why() {
        let (_acceptor, at) = serve(limits(3, true));
        let mut silent: Vec<_> = (0..3).map(|_| connect(at, b"half a li")).collect();
        assert_eq!(rest(connect(at, b"hello\n")), "hello\n");
        assert_eq!(rest(silent.remove(0)), "full\n");
        // The others have theirs still.
        for mut stream in silent {
            stream.write_all(b"ne\n").unwrap();
            assert_eq!(rest(stream), "half a line\n");
        }
    }

    #[test]
    fn a_client_that_stalls_is_ended_at_its_deadline_and_others_are_served_meanwhile() {
        let time = Nanos::ms(1500);
        let (_acceptor, at) = serve(Limits { time, ..limits(64, false) });
        let silent = connect(at, b"");
        // A byte now and then buys no time: this ends although it never stops.
        let mut slow = connect(at, b"x");
        let trickle = thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        // Once more if the machine was held up for all of that time.
        assert!((0..5).any(|_| rest(connect(at, b"hello\n")) == "hello\n"));
        assert_eq!(rest(silent), "");
        trickle.join().unwrap();
    }

    #[test]
    fn a_client_that_sends_without_end_is_dropped() {
        let (_acceptor, at) = serve(limits(64, false));
        assert_eq!(rest(connect(at, &[b'x'; 64 << 10])), "");
        assert_eq!(rest(connect(at, b"hello\n")), "hello\n");
    }

    /// Memory may run out between two of them.
    #[test]
    fn listening_goes_on_where_it_was_stopped_in_part() {
        let listener = || {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            ListeningSocket { socket: socket.into(), unix: false }
        };
        let listeners = vec![listener(), listener()];
        let wakeup = Arc::new(EventFd::new().unwrap());
        let mut all = Loop::new(Echo::default(), listeners, limits(1, false), wakeup).unwrap();
        epoll::delete(&all.epoll, &all.listeners[1].socket).unwrap();
        all.listen(true).unwrap();
        let stopped = all.listeners.iter().map(|l| epoll::delete(&all.epoll, &l.socket));
        assert!(stopped.collect::<Vec<_>>().iter().all(Result::is_ok), "all were listened to");
    }
}
