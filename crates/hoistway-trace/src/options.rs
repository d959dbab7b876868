//! What a reader is asked to deliver.

use crate::Error;
use crate::format::Format;

/// What a reader is asked to deliver. The default is every arrival of the trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None`: found from the content.
    pub format: Option<&'static Format>,
    /// The first malformed record is an error.
    pub strict: bool,
    /// Records that are held back to bring them into order of time; `None`: as the format needs.
    pub window: Option<usize>,
    /// Deliver completions too, where the format has them as records of their own.
    pub completions: bool,
    /// Deliver plugs and unplugs too.
    pub plugs: bool,
    /// Only devices of these names; empty: all.
    pub devices: Vec<String>,
    /// Only from this time on, in ns since the trace's first record; times count from here.
    pub from: u64,
    /// Only before this time, in ns since the trace's first record.
    pub to: Option<u64>,
    /// Only requests that begin at or after this byte,
    pub offset_from: u64,
    /// and before this one.
    pub offset_to: Option<u64>,
    /// End after this many arrivals.
    pub limit: Option<u64>,
}

impl Options {
    /// Arrivals held back at most. 2^20 records take 72 MB.
    pub const WINDOW_MAX: usize = 1 << 20;

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.window.is_some_and(|w| w > Self::WINDOW_MAX) {
            let most = Self::WINDOW_MAX;
            return Err(Error::Options(format!(
                "a window of more than {most} records is too much"
            )));
        }
        let empty = |from: u64, to: Option<u64>| to.is_some_and(|to| to <= from);
        if empty(self.from, self.to) {
            return Err(Error::Options("the time range is empty: it ends before it begins".into()));
        }
        if empty(self.offset_from, self.offset_to) {
            return Err(Error::Options(
                "the range of offsets is empty: it ends before it begins".into(),
            ));
        }
        Ok(())
    }
}
