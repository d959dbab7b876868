//! The contents of the page cache: the host model says which pages there are, this holds them.

use super::memory::Lent;
use super::pattern::{NONE, Stamp};
use hoistway_sim::host::FileId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A page in memory.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// The buffer it lies in, and where.
    pub buffer: Arc<Lent>,
    pub at: u32,
    /// The writes it may hold; the first alone if it was written here.
    pub allowed: [Stamp; 4],
}

impl Page {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.at as usize..self.at as usize + PAGE]
    }

    /// A page that a process has written.
    pub fn written(buffer: &Arc<Lent>, at: usize, stamp: Stamp) -> Page {
        Page { buffer: Arc::clone(buffer), at: at as u32, allowed: [stamp, NONE, NONE, NONE] }
    }
}

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Pages of a chunk.
const CHUNK: u64 = 512;

#[derive(Debug)]
struct Chunk {
    pages: Vec<Option<Page>>,
    kept: u32,
}

/// All pages in memory.
#[derive(Debug, Default)]
pub(super) struct Pages {
    chunks: BTreeMap<(u32, u64), Chunk>,
    kept: u64,
}

impl Pages {
    /// Number of pages.
    pub fn len(&self) -> u64 {
        self.kept
    }

    pub fn get(&self, file: FileId, page: u64) -> Option<&Page> {
        let chunk = self.chunks.get(&(file.0, page / CHUNK))?;
        chunk.pages[(page % CHUNK) as usize].as_ref()
    }

    pub fn put(&mut self, file: FileId, number: u64, page: Page) {
        let empty = || Chunk { pages: vec![None; CHUNK as usize], kept: 0 };
        let chunk = self.chunks.entry((file.0, number / CHUNK)).or_insert_with(empty);
        if chunk.pages[(number % CHUNK) as usize].replace(page).is_none() {
            chunk.kept += 1;
            self.kept += 1;
        }
    }

    /// The page is no longer cached; it may never have had contents.
    pub fn drop_page(&mut self, file: FileId, number: u64) {
        let key = (file.0, number / CHUNK);
        let Some(chunk) = self.chunks.get_mut(&key) else { return };
        if chunk.pages[(number % CHUNK) as usize].take().is_some() {
            chunk.kept -= 1;
            self.kept -= 1;
        }
        if chunk.kept == 0 {
            self.chunks.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_and_go_by_file_and_number() {
        let mut pages = Pages::default();
        let mut buffer = super::super::memory::Lender::new().lend(2 * PAGE);
        buffer.fill(7);
        let buffer = Arc::new(buffer);
        let (a, b) = (FileId(1), FileId(2));
        pages.put(a, 511, Page::written(&buffer, 0, 20));
        pages.put(a, 512, Page::written(&buffer, PAGE, 21));
        pages.put(a, 512, Page::written(&buffer, PAGE, 22));
        assert_eq!((pages.len(), pages.chunks.len()), (2, 2));
        assert_eq!(pages.get(a, 512).unwrap().allowed[0], 22);
        assert_eq!(pages.get(a, 512).unwrap().bytes(), [7; PAGE]);
        assert!(pages.get(b, 512).is_none() && pages.get(a, 513).is_none());
        pages.drop_page(b, 1);
        pages.drop_page(a, 512);
        pages.drop_page(a, 512);
        pages.drop_page(a, 511);
        assert_eq!((pages.len(), pages.chunks.len()), (0, 0));
    }
}
