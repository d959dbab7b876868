//! The bounded ring from submitters to the owner thread.

use super::core::{Core, IoRequest, TenantId};
use super::reactor::Session;
use crate::error::ServeError;
use crate::system::EventFd;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Messages the ring holds; a submitter that finds it full waits.
const ROOM: usize = 1024;

/// What the owner thread is told.
pub(crate) enum Message {
    Submit(TenantId, IoRequest),
    CloseTenant(TenantId),
    Session(Box<dyn Session>),
    /// Anything that is not the path of an I/O.
    Control(Box<dyn FnOnce(&mut Core) + Send>),
    /// Finish what is under way, flush, end.
    Stop,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Message::Submit(..) => "Submit",
            Message::CloseTenant(_) => "CloseTenant",
            Message::Session(_) => "Session",
            Message::Control(_) => "Control",
            Message::Stop => "Stop",
        })
    }
}

#[derive(Debug)]
struct Wakeup {
    wakeup: EventFd,
    /// The owner waits, or is about to: who sends must ring.
    asleep: AtomicBool,
}

/// The end of the submitters.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    messages: SyncSender<Message>,
    sleep: Arc<Wakeup>,
}

/// The end of the owner.
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: Receiver<Message>,
    sleep: Arc<Wakeup>,
}

pub(crate) fn ring() -> io::Result<(Sender, Inbox)> {
    let sleep = Arc::new(Wakeup { wakeup: EventFd::new()?, asleep: AtomicBool::new(false) });
    let (sender, receiver) = sync_channel(ROOM);
    let sender = Sender { messages: sender, sleep: Arc::clone(&sleep) };
    Ok((sender, Inbox { messages: receiver, sleep }))
}

impl Sender {
    pub fn send(&self, message: Message) -> Result<(), ServeError> {
        self.messages.send(message).map_err(|_| ServeError::Closed)?;
        // Either the owner sees the message after it has said that it sleeps, or we see that it does:
        // each side writes its own word before the fence and reads the other's behind it.
        fence(Ordering::SeqCst);
        if self.sleep.asleep.swap(false, Ordering::SeqCst) {
            self.sleep.wakeup.signal();
        }
        Ok(())
    }
}

impl Inbox {
    pub fn next(&self) -> Option<Message> {
        // Every sender gone is as good as nothing to do: the last one has sent Stop.
        self.messages.try_recv().ok()
    }

    /// From now on senders ring; returns a message that came just before.
    pub fn fall_asleep(&self) -> Option<Message> {
        self.sleep.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.next()
    }

    pub fn awake(&self, rung: bool) {
        self.sleep.asleep.store(false, Ordering::SeqCst);
        if rung {
            self.sleep.wakeup.clear();
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.sleep.wakeup.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::thread;

    /// A lost wake-up would leave this test waiting for its limit.
    #[test]
    fn no_message_is_slept_over() {
        let (sender, inbox) = ring().unwrap();
        let sending = thread::spawn(move || {
            for _ in 0..50_000 {
                sender.send(Message::Stop).unwrap();
            }
        });
        let mut seen = 0;
        while seen < 50_000 {
            if inbox.next().or_else(|| inbox.fall_asleep()).is_some() {
                inbox.awake(false);
                seen += 1;
                continue;
            }
            let limit = crate::system::timespec(hoistway::Nanos::secs(20));
            let mut fds = [PollFd::from_borrowed_fd(inbox.fd(), PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "after {seen}");
            inbox.awake(true);
        }
        sending.join().unwrap();
    }
}
