//! Front-ends that show exports at places of the file system: opened as the registry says, and taken away at
//! the end, when somebody may use them.

use super::spec::ServeOptions;
use super::{failure, say};
use crate::failure::Failure;
use crate::verbs::serve::args::Serve;
use hoistway_serve::front::nbd::Server;
use hoistway_serve::front::{AttachFn, AttachRequest, Attached, Attachment, Export, FRONTS};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The places at which exports are shown.
#[derive(Debug)]
pub struct Places {
    attached: Vec<Attached>,
    /// That they are taken away is our own doing.
    closing: Arc<AtomicBool>,
}

/// The front-ends that are asked for.
pub fn wanted(config: &ServeOptions) -> impl Iterator<Item = AttachFn> {
    FRONTS.iter().filter_map(|front| {
        let first = front.options.first()?;
        front.attach.filter(|_| config.fronts.contains_key(first.name))
    })
}

impl Places {
    /// Opens them. Whoever takes one away also ends a server that serves nothing else.
    pub fn open(
        args: &Serve,
        config: &ServeOptions,
        exports: &[Export],
        server: &Server,
        stop: Sender<()>,
    ) -> Result<Places, Failure> {
        let closing = Arc::new(AtomicBool::new(false));
        let (ours, alone) = (Arc::clone(&closing), server.addresses().is_empty());
        let ended = Arc::new(move |place: &Path| {
            let place = place.display();
            if ours.load(Ordering::SeqCst) {
                return;
            }
            if alone {
                eprintln!("{place} was unmounted");
                // Whoever waits is gone only at the very end.
                let _ = stop.send(());
            } else {
                eprintln!("warning: {place} was unmounted; the sockets are served on");
            }
        });
        let mut places = Places { attached: Vec::new(), closing };
        for attach in wanted(config) {
            let request = AttachRequest { exports, options: &config.fronts, ended: ended.clone() };
            for attached in attach(request).map_err(failure)? {
                attached.notes.iter().for_each(|note| eprintln!("warning: {note}"));
                for (export, place) in &attached.places {
                    say(args, &format!("export {export}: {}", place.display()));
                }
                places.attached.push(attached);
            }
        }
        Ok(places)
    }

    /// Variables for commands that use them.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        self.attached.iter().filter_map(|a| Some((a.variable?, a.attachment.place())))
    }

    /// Takes them away, in the end from whoever uses them.
    pub fn close(self) -> Result<(), Failure> {
        self.closing.store(true, Ordering::SeqCst);
        let all: Vec<&dyn Attachment> = self.attached.iter().map(|a| &*a.attachment).collect();
        leave(&all)
    }
}

/// How often places that are in use are tried again (chosen: 10 s, as long as NBD clients have to take
/// their last answers); they are served until then.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes them away; waits for users for a while, the same for all, then cuts them off after what they asked
/// for is done and flushed.
fn leave(attached: &[&dyn Attachment]) -> Result<(), Failure> {
    leave_within(attached, TRIES, PAUSE)
}

fn leave_within(attached: &[&dyn Attachment], tries: u32, pause: Duration) -> Result<(), Failure> {
    let (mut rest, mut refused) = (attached.to_vec(), Vec::new());
    for attempt in 0..=tries {
        rest.retain(|&one| match one.detach() {
            Ok(true) => false,
            Ok(false) => {
                if attempt == 0 {
                    eprintln!(
                        "warning: {} is in use by {}; it is served for another {} s, then cut off",
                        one.place().display(),
                        users(one),
                        (tries * pause).as_secs()
                    );
                }
                true
            }
            Err(error) => {
                eprintln!("warning: {error}");
                refused.push(one);
                false
            }
        });
        if rest.is_empty() {
            break;
        }
        std::thread::sleep(pause);
    }
    let mut result = Ok(());
    for one in rest.into_iter().chain(refused) {
        eprintln!("warning: {} is cut off from {}", one.place().display(), users(one));
        result = result.and(one.sever().map_err(failure));
    }
    result
}

fn users(attached: &dyn Attachment) -> String {
    let users = attached.users();
    if users.is_empty() { "somebody".into() } else { users.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_serve::ServeError;
    use std::cell::{Cell, RefCell};
    use std::path::PathBuf;

    /// Busy for some looks; `None`: refuses to go.
    #[derive(Debug)]
    struct Place<'a> {
        name: &'a str,
        busy: Cell<Option<u32>>,
        story: &'a RefCell<Vec<String>>,
    }

    impl Place<'_> {
        fn tell(&self, what: &str) {
            self.story.borrow_mut().push(format!("{} {what}", self.name));
        }
    }

    impl Attachment for Place<'_> {
        fn place(&self) -> PathBuf {
            self.name.into()
        }

        fn detach(&self) -> Result<bool, ServeError> {
            let Some(busy) = self.busy.get() else {
                return Err(ServeError::Refused("no".into()));
            };
            self.busy.set(Some(busy.saturating_sub(1)));
            self.tell(if busy == 0 { "detached" } else { "busy" });
            Ok(busy == 0)
        }

        fn users(&self) -> Vec<String> {
            Vec::new()
        }

        fn sever(&self) -> Result<(), ServeError> {
            self.tell("severed");
            Ok(())
        }
    }

    /// All are served for the same time: one that is busy takes none of it from the others.
    #[test]
    fn places_in_use_wait_together_and_are_cut_off_last() {
        let story = RefCell::new(Vec::new());
        let place = |name, busy| Place { name, busy: Cell::new(busy), story: &story };
        let (a, b) = (place("a", Some(9)), place("b", Some(1)));
        let (c, d) = (place("c", None), place("d", Some(0)));
        leave_within(&[&a, &b, &c, &d], 2, Duration::ZERO).unwrap();
        let expected = [
            "a busy",
            "b busy",
            "d detached",
            "a busy",
            "b detached",
            "a busy",
            "a severed",
            "c severed",
        ];
        assert_eq!(*story.borrow(), expected);
    }
}
