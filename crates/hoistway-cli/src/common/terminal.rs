//! The border to the terminal: what the program says goes through here, and shows what a terminal would obey
//! ([`shown`]). The macros stand in for those of the standard library in the whole program.

use hoistway_files::shown;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Arguments;
use std::io::{IsTerminal, Write};

macro_rules! eprint {
    ($($text:tt)*) => { $crate::common::terminal::say(format_args!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::common::terminal::say(format_args!("{}\n", format_args!($($text)*))) };
}

/// Says something on stderr. If nobody listens any more, the work goes on.
pub fn say(text: Arguments<'_>) {
    let text = text.to_string();
    let _ = std::io::stderr().lock().write_all(shown::text(&text).as_bytes());
}

/// A progress bar of that length and template, which is a constant of the caller; hidden with `quiet`, and where nobody sees it.
pub fn bar(quiet: bool, length: usize, template: &str) -> ProgressBar {
    let bar = match !quiet && std::io::stderr().is_terminal() {
        true => ProgressBar::new(length as u64),
        false => ProgressBar::hidden(),
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.with_style(style.progress_chars("=> "))
}

/// Says something in the place of the last line.
#[cfg(all(feature = "live", target_os = "linux"))]
pub fn say_again(text: &str) {
    let text = format!("\r\x1b[K{}", shown::line(text));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
