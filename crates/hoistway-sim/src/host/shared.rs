//! Memory that the processes of one program share: what its threads, or the workers that one parent started, know
//! in common, such as which piece of work is the next.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Everything that is shared, by the name of the program.
#[derive(Default)]
pub(super) struct SharedMemory {
    all: Vec<(String, Arc<dyn Any + Send + Sync>)>,
    asked: bool,
}

impl SharedMemory {
    /// What is known under `name`.
    pub fn find<T: Send + Sync + 'static>(&mut self, name: &str) -> Option<Arc<T>> {
        self.asked = true;
        let known = self.all.iter().find(|(n, _)| n == name);
        known.map(|(_, it)| Arc::clone(it).downcast().expect("one program, one type"))
    }

    /// Has anybody asked, since the last time?
    pub fn asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// From now on it can be found.
    pub fn add<T: Send + Sync + 'static>(&mut self, name: &str, it: Arc<T>) {
        self.all.push((name.to_string(), it));
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn what_was_added_is_found_by_its_name() {
        let mut memory = SharedMemory::default();
        assert!(!memory.asked() && memory.find::<AtomicU64>("make").is_none());
        assert!(memory.asked() && !memory.asked());
        memory.add("make", Arc::new(AtomicU64::new(5)));
        memory.add("grep", Arc::new(AtomicU64::new(9)));
        let found = memory.find::<AtomicU64>("make").unwrap();
        found.fetch_add(1, Ordering::Relaxed);
        let again = memory.find::<AtomicU64>("make").unwrap();
        assert_eq!(again.load(Ordering::Relaxed), 6);
        assert_eq!(format!("{memory:?}"), "[\"make\", \"grep\"]");
    }
}
