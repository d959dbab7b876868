//! The terminal: its alternate screen, keys one by one, and everything as before at the end, also
//! after a panic.

use hoistway_files::shown;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

/// How the terminal was; `None`: nothing is to be restored.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// q, Ctrl-C, Ctrl-D, or the terminal is gone.
    Quit,
    Char(char),
}

/// The terminal while it shows frames.
#[derive(Debug)]
pub struct Screen {
    size: (usize, usize),
}

impl Screen {
    pub fn open() -> std::io::Result<Screen> {
        let before = tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        // Ctrl-C arrives as a key like others; output is processed as before.
        raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        *BEFORE.lock().unwrap_or_else(|e| e.into_inner()) = Some(before);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            usual(info);
        }));
        // Alternate screen, no cursor.
        say("\x1b[?1049h\x1b[?25l");
        Ok(Screen { size: size() })
    }

    /// Waits at most that long for a key.
    pub fn key(&mut self, limit: Duration) -> Option<Key> {
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut fds, Some(&limit)) {
            Ok(1..) => {}
            // A signal is told by a flag.
            _ => return None,
        }
        let mut bytes = [0; 16];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) | Err(_) => Some(Key::Quit),
            Ok(_) => match bytes[0] {
                b'q' | b'Q' | 3 | 4 => Some(Key::Quit),
                other => Some(Key::Char(char::from(other).to_ascii_lowercase())),
            },
        }
    }

    /// True once after the size has changed.
    pub fn resized(&mut self) -> bool {
        let now = size();
        std::mem::replace(&mut self.size, now) != now
    }

    /// Shows text, cut to the screen, and a last line.
    pub fn draw(&mut self, text: &str, last: &str) {
        self.size = size();
        let (columns, rows) = self.size;
        let mut out = String::from("\x1b[H");
        let cut = |line: &str| shown::line(line).chars().take(columns).collect::<String>();
        for line in text.lines().take(rows.saturating_sub(1)) {
            out += &cut(line);
            out += "\x1b[K\r\n";
        }
        // Everything below, then the last line where it belongs.
        out += &format!("\x1b[J\x1b[{rows};1H\x1b[7m{}\x1b[0m", cut(last));
        say(&out);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Columns and rows; what old terminals had if it is not told.
fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

fn restore() {
    let before = BEFORE.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some(before) = before {
        say("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Where the terminal is gone there is nobody to tell.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
