//! Words that several outputs share.

use std::fmt::Display;

/// `1 round`, `3 rounds`: for nouns whose plural takes an s.
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {noun}{s}")
}

/// A word of a command as the shell takes it: in quotation marks where it has letters that mean something to it. Commands
/// in run directories are written so, and `repeat` reads them.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._,:/+=@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_string(),
        false => shell_quoted(text),
    }
}

/// A word of a command in quotation marks, whatever is in it.
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The message of a parser without what it quotes of the text: the file may be another's, that nobody asked to see.
pub fn unquoted(message: &str) -> String {
    // Up to the last mark: what is quoted may have some of its own.
    match (message.find('"'), message.rfind('"')) {
        (Some(from), Some(to)) if from < to => {
            format!("{}...{}", &message[..from], &message[to + 1..])
        }
        (Some(from), _) => format!("{}...", &message[..from]),
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, unquoted};

    #[test]
    fn nothing_that_was_read_is_said_again() {
        let said = "invalid type: string \"root:x\"y\", expected u64 at line 1 column 9";
        assert_eq!(unquoted(said), "invalid type: string ..., expected u64 at line 1 column 9");
        assert_eq!(unquoted("EOF while parsing"), "EOF while parsing");
        assert_eq!(unquoted("a \"b"), "a ...");
    }

    #[test]
    fn one_takes_no_s() {
        assert_eq!(counted(0_usize, "run"), "0 runs");
        assert_eq!(counted(1_u64, "run"), "1 run");
        assert_eq!(counted(12_u32, "run"), "12 runs");
    }
}
