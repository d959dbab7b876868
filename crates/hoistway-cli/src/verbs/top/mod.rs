//! `hoistway top`: who gets what from a running server, how fast, and what the scheduler does.
//!
//! Every look asks for the cumulative counters (`{"command":"stats"}`); what is shown are
//! differences between two looks ([`frame`]), as text ([`view`]) or JSON.

mod frame;
mod sample;
mod screen;
mod view;

use crate::failure::Failure;
use crate::verbs::ctl::ask;
use crate::verbs::serve::control::Request;
use clap::Args as ClapArgs;
use frame::{Frame, Rows, Sort};
use hoistway::{Instant, Nanos};
use hoistway_files::shown;
use hoistway_serve::Clock;
use sample::Sample;
use screen::{Key, Screen};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `hoistway top`.
#[derive(Debug, ClapArgs)]
pub struct Top {
    /// Control socket of the server, as given to `hoistway serve --control`
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// Time between two frames, such as 1s or 200ms
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: String,
    /// One line per client or per group
    #[arg(long, value_name = "WHAT", default_value = "client", value_parser = ["client", "group"])]
    pub by: String,
    /// Sort by: throughput, iops, p99, share or name
    #[arg(long, value_name = "KEY", default_value = "throughput",
          value_parser = ["throughput", "iops", "p99", "share", "name"])]
    pub sort: String,
    /// Stop after that many frames
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// One frame, as --count 1
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// One JSON object per frame instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Longest time a key, a resize or a signal waits to be noticed.
const SLICE: Nanos = Nanos::ms(100);
/// Shortest interval.
const INTERVAL_MIN: Nanos = Nanos::ms(10);

/// `hoistway top`.
pub fn top(args: &Top) -> Result<(), Failure> {
    let interval = hoistway::quantity::duration(&args.interval);
    let interval = interval.map_err(|e| Failure::Usage(format!("--interval: {e}")))?;
    if interval < INTERVAL_MIN {
        let message = format!("--interval {}: choose at least 10ms", args.interval);
        return Err(Failure::Usage(message));
    }
    let first = look(&args.control)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Environment(format!("signal handler: {e}")))?;
    let count = if args.once { Some(1) } else { args.count };
    let sort = Sort::of(&args.sort).expect("the command line knows the keys");
    let rows = if args.by == "group" { Rows::Groups } else { Rows::Clients };
    let on_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let screen = match on_terminal && !args.json && !args.once {
        true => Some(Screen::open().map_err(|e| Failure::Environment(format!("terminal: {e}")))?),
        false => None,
    };
    let clock = Clock::new();
    let watch = Watch { args, clock, interval, count, stop, sort, rows, screen, frame: None };
    watch.run(first)
}

fn look(path: &Path) -> Result<Sample, Failure> {
    Sample::read(ask(path, &Request::Stats {})?)
        .map_err(|e| Failure::Environment(format!("{}: {e}", path.display())))
}

struct Watch<'a> {
    args: &'a Top,
    clock: Clock,
    interval: Nanos,
    /// Frames to show; `None`: until told to stop.
    count: Option<u64>,
    stop: Arc<AtomicBool>,
    sort: Sort,
    rows: Rows,
    screen: Option<Screen>,
    /// The last one.
    frame: Option<Frame>,
}

impl Watch<'_> {
    fn run(mut self, mut before: Sample) -> Result<(), Failure> {
        self.draw();
        let mut shown = 0;
        let mut next = self.clock.now();
        while self.count != Some(shown) {
            // Looks keep their distance, but are never made up for.
            next = (next + self.interval).max(self.clock.now());
            if !self.wait_until(next) {
                break;
            }
            let now = look(&self.args.control)?;
            let frame = Frame::between(&before, &now);
            before = now;
            shown += 1;
            if !self.show(frame)? {
                break;
            }
        }
        Ok(())
    }

    /// False: it is over.
    fn wait_until(&mut self, at: Instant) -> bool {
        loop {
            let rest = at.since(self.clock.now()).min(SLICE);
            let rest = Duration::from_nanos(rest.0);
            let key = match &mut self.screen {
                Some(screen) => screen.key(rest),
                None => {
                    std::thread::sleep(rest);
                    None
                }
            };
            match key {
                Some(Key::Quit) => return false,
                Some(Key::Char('g')) => self.rows = self.rows.other(),
                Some(Key::Char(c)) => self.sort = Sort::by_key(c).unwrap_or(self.sort),
                None => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            if self.clock.now() >= at {
                return true;
            }
            if key.is_some() || self.screen.as_mut().is_some_and(Screen::resized) {
                self.draw();
            }
        }
    }

    /// False: nobody reads it.
    fn show(&mut self, frame: Frame) -> Result<bool, Failure> {
        if self.screen.is_some() {
            self.frame = Some(frame);
            self.draw();
            return Ok(true);
        }
        let text = match self.args.json {
            true => format!("{}\n", frame.json(self.rows, self.sort)),
            false => view::text(&frame, self.rows, self.sort) + "\n",
        };
        let text = shown::text(&text);
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(Failure::Failed(format!("stdout: {e}"))),
        }
    }

    fn draw(&mut self) {
        let Some(screen) = &mut self.screen else { return };
        let keys = view::keys(self.rows, self.sort);
        let title =
            format!("hoistway top {}, every {}", self.args.control.display(), self.args.interval);
        let text = match &self.frame {
            Some(frame) => view::text(frame, self.rows, self.sort),
            None => "measuring\n".into(),
        };
        screen.draw(&format!("{title}\n\n{text}"), &keys);
    }
}
