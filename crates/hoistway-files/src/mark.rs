//! What says of a file that hoistway wrote it.

/// How texts of ours say who wrote them, in a comment where the format has comments, else in their head. A text that
/// merely speaks of hoistway is somebody else's.
const MARKS: &[&str] = &[
    "Made by hoistway",
    "Written by `hoistway",
    "name=\"generator\" content=\"hoistway",
    "\"generator\": \"hoistway",
];

/// How a file of ours is told from somebody else's, by its first bytes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A text that says in its first 4 KiB that hoistway made it: `Made by hoistway`, `Written by `hoistway ...``, or
    /// as generator of a page or in JSON.
    Marked,
    /// A file that begins with one of these, each of which only hoistway writes.
    Begins(&'static [&'static [u8]]),
    /// Nothing: only an empty file may be replaced.
    New,
    /// Its name, in a folder that is known to be ours: any file may be replaced.
    Named,
}

impl Kind {
    /// Whether hoistway wrote a file that begins so. An empty file holds nothing to lose.
    pub fn is(self, head: &[u8]) -> bool {
        let says = |mark: &&str| head.windows(mark.len()).any(|words| words == mark.as_bytes());
        match self {
            _ if head.is_empty() => true,
            Kind::Marked => MARKS.iter().any(says),
            Kind::Begins(heads) => heads.iter().any(|begin| head.starts_with(begin)),
            Kind::New => false,
            Kind::Named => true,
        }
    }
}

/// The file that a folder of hoistway's output bears.
pub(crate) const FOLDER: &str = ".hoistway";

/// What is in it.
pub(crate) const FOLDER_TEXT: &str =
    "Made by hoistway, whose commands replace here what they wrote before, and nothing else.\n";
