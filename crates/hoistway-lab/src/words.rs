//! Words that several outputs share.

use std::fmt::Display;

/// `1 round`, `3 rounds`: for nouns whose plural takes an s.
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {noun}{s}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_takes_no_s() {
        assert_eq!(counted(0_usize, "run"), "0 runs");
        assert_eq!(counted(1_u64, "run"), "1 run");
        assert_eq!(counted(12_u32, "run"), "12 runs");
    }
}
