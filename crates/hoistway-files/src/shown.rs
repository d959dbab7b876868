//! Text of others on its way to a terminal: names of processes, titles, hosts, paths.
//!
//! A terminal obeys control characters, and some of them write files, answer in the user's name or hide what stands
//! beside them. So they are shown as JSON writes them, `\u001b`: JSON stays what it was, and people see what is there.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal may obey the character instead of showing it: control characters (C0, DEL, C1), and those that change
/// the direction of the text around them or end the line.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with such characters escaped, but for line breaks and tabs.
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) && c != '\n' && c != '\t')
}

/// The text on one line: line breaks and tabs are escaped as well.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&escape) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        match escape(c) {
            true => write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes every byte"),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        assert_eq!(
            text("a\x1b]0;x\x07\r\u{7f}\u{9b}1m\nb\tc"),
            "a\\u001b]0;x\\u0007\\u000d\\u007f\\u009b1m\nb\tc"
        );
        assert_eq!(line("a\nb\tc"), "a\\u000ab\\u0009c");
        assert_eq!(
            text("\u{202e}gnp.exe\u{2066}\u{2069}\u{200f}"),
            "\\u202egnp.exe\\u2066\\u2069\\u200f"
        );
        // Letters of any script, and what they are joined with, stay.
        let plain = "Grüße µs שלום \u{200d}👩\u{200d}💻 \\u001b";
        assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
    }
}
