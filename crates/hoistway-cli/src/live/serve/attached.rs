//! The end of what is attached to the file system: somebody may use it.

use super::failure;
use crate::Failure;
use hoistway_live::front::Attachment;
use std::time::Duration;

/// How often a place that is in use is tried again (chosen: 10 s, as long as NBD clients have to take
/// their last answers); it is served until then.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes it away; waits for users for a while, then cuts them off after what they asked for is done and
/// flushed.
pub fn leave(attached: &dyn Attachment) -> Result<(), Failure> {
    let place = attached.place();
    let place = place.display();
    for attempt in 0..=TRIES {
        match attached.detach() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => {
                eprintln!("warning: {error}");
                break;
            }
        }
        if attempt == 0 {
            eprintln!(
                "warning: {place} is in use by {}; it is served for another {} s, then cut off",
                users(attached),
                (TRIES * PAUSE).as_secs()
            );
        }
        std::thread::sleep(PAUSE);
    }
    eprintln!("warning: {place} is cut off from {}", users(attached));
    attached.sever().map_err(failure)
}

fn users(attached: &dyn Attachment) -> String {
    let users = attached.users();
    if users.is_empty() { "somebody".into() } else { users.join("; ") }
}
