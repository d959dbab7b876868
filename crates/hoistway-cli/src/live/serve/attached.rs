//! The end of what is attached to the file system: somebody may use it.

use super::failure;
use crate::Failure;
use hoistway_live::front::Attachment;
use std::time::Duration;

/// How often places that are in use are tried again (chosen: 10 s, as long as NBD clients have to take
/// their last answers); they are served until then.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes them away; waits for users for a while, the same for all, then cuts them off after what they asked
/// for is done and flushed.
pub fn leave(attached: &[&dyn Attachment]) -> Result<(), Failure> {
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
    use hoistway_live::LiveError;
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

        fn detach(&self) -> Result<bool, LiveError> {
            let Some(busy) = self.busy.get() else {
                return Err(LiveError::Refused("no".into()));
            };
            self.busy.set(Some(busy.saturating_sub(1)));
            self.tell(if busy == 0 { "detached" } else { "busy" });
            Ok(busy == 0)
        }

        fn users(&self) -> Vec<String> {
            Vec::new()
        }

        fn sever(&self) -> Result<(), LiveError> {
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
