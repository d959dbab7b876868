//! What says of a file that hoistway wrote it.

/// The word that stands in the first bytes of each text that hoistway writes: in a comment where the format has
/// comments, else in its head.
pub const MARK: &str = "hoistway";

/// How a file of ours is told from somebody else's, by its first bytes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A text with [`MARK`] in its first 4 KiB.
    Marked,
    /// A file that begins with one of these, each of which only hoistway writes.
    Begins(&'static [&'static [u8]]),
    /// Nothing: only an empty file may be replaced.
    New,
}

impl Kind {
    /// Whether hoistway wrote a file that begins so. An empty file holds nothing to lose.
    pub fn is(self, head: &[u8]) -> bool {
        let marked = || head.windows(MARK.len()).any(|word| word == MARK.as_bytes());
        match self {
            _ if head.is_empty() => true,
            Kind::Marked => marked(),
            Kind::Begins(heads) => heads.iter().any(|begin| head.starts_with(begin)),
            Kind::New => false,
        }
    }
}
