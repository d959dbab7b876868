//! Names of processes, groups and devices as small numbers.
//!
//! A record carries numbers, given in the order of first appearance, so that a reader's consumer can index
//! tables with them. Looking up is one hash and one comparison; a name seen just before costs a comparison only.
//! The table is the one thing in a reader that grows with the trace, with its distinct names, so it is bounded:
//! after [`Table::MAX`] names every further one is [`Table::OTHERS`].

use std::collections::BTreeMap;

/// The names of a trace so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Processes: `COMMAND/PID` where both are known, else what the format has (a host, a pid).
    pub processes: Table,
    /// Control groups: what the format has (blktrace: the number of the cgroup).
    pub groups: Table,
    /// Devices, volumes, LUNs.
    pub devices: Table,
}

/// Names of one kind. Number 0 is `-`, "not said".
#[derive(Clone, Debug)]
pub struct Table {
    names: Vec<String>,
    /// Numbers of names by hash, open addressing; 0 = free. Power of two, at most half full.
    slots: Vec<u32>,
    /// Numbers of numeric keys.
    by_key: BTreeMap<u64, u32>,
    last: u32,
    last_key: Option<(u64, u32)>,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            names: vec!["-".into()],
            slots: vec![0; 64],
            by_key: BTreeMap::new(),
            last: 0,
            last_key: None,
        }
    }
}

impl Table {
    /// Names that are kept apart. 2^20 names of 16 bytes take about 50 MB.
    pub const MAX: usize = 1 << 20;
    /// The name of those that came later.
    pub const OTHERS: &'static str = "(others)";

    /// The number of a name, given now if it is new. Bytes that are no UTF-8 are shown as U+FFFD.
    #[inline]
    pub fn intern(&mut self, name: &[u8]) -> u32 {
        if self.names[self.last as usize].as_bytes() == name {
            return self.last;
        }
        self.last = self.find(name);
        self.last
    }

    fn find(&mut self, name: &[u8]) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = hash(name) as usize & mask;
        loop {
            match self.slots[at] {
                0 => break,
                id if self.names[id as usize].as_bytes() == name => return id,
                _ => at = (at + 1) & mask,
            }
        }
        if name == b"-" {
            return 0;
        }
        if self.names.len() > Self::MAX {
            return Self::MAX as u32;
        }
        let text = match String::from_utf8_lossy(name) {
            std::borrow::Cow::Borrowed(text) => text,
            // As shown, so that the next look-up finds it.
            std::borrow::Cow::Owned(shown) => return self.find(shown.as_bytes()),
        };
        let id = self.push(text.to_string());
        if id as usize == Self::MAX {
            return id;
        }
        self.slots[at] = id;
        if self.names.len() * 2 > self.slots.len() {
            self.grow();
        }
        id
    }

    /// The number of a numeric key, such as a pid; `name` is called if it is new.
    #[inline]
    pub fn keyed(&mut self, key: u64, name: impl FnOnce() -> String) -> u32 {
        match self.last_key {
            Some((last, id)) if last == key => id,
            _ => {
                let known = self.by_key.get(&key).copied();
                let id = known.unwrap_or_else(|| {
                    let id = self.push(name());
                    if (id as usize) < Self::MAX {
                        self.by_key.insert(key, id);
                    }
                    id
                });
                self.last_key = Some((key, id));
                id
            }
        }
    }

    /// Gives a number a better name, once it is known.
    pub fn rename(&mut self, id: u32, name: String) {
        if id != 0 && (id as usize) < Self::MAX {
            self.names[id as usize] = name;
        }
    }

    /// The name of a number; `-` for one that was never given.
    pub fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("-", |n| n)
    }

    /// Numbers given, 0 included: all are below this.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name was seen.
    pub fn is_empty(&self) -> bool {
        self.names.len() == 1
    }

    fn push(&mut self, name: String) -> u32 {
        let id = self.names.len();
        if id > Self::MAX {
            return Self::MAX as u32;
        }
        self.names.push(if id == Self::MAX { Self::OTHERS.into() } else { name });
        id as u32
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        let mask = old.len() * 2 - 1;
        self.slots = vec![0; old.len() * 2];
        for id in old.into_iter().filter(|id| *id != 0) {
            let mut at = hash(self.names[id as usize].as_bytes()) as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = id;
        }
    }
}

/// FNV-1a with a final mix, since tables use the low bits.
fn hash(bytes: &[u8]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325_u64;
    for b in bytes {
        h = (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    }
    h ^ (h >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_through_growth() {
        let mut table = Table::default();
        let ids: Vec<u32> = (0..1000).map(|i| table.intern(format!("d{i}").as_bytes())).collect();
        assert_eq!(ids, (1..=1000).collect::<Vec<_>>());
        for i in (0..1000).rev() {
            assert_eq!(table.intern(format!("d{i}").as_bytes()), i + 1);
        }
        assert_eq!((table.name(7), table.name(5000), table.len()), ("d6", "-", 1001));
    }

    #[test]
    fn minus_is_not_said_and_bytes_that_are_no_text_have_one_number() {
        let mut table = Table::default();
        assert_eq!(table.intern(b"x"), 1);
        assert_eq!(table.intern(b"-"), 0);
        let odd = table.intern(&[0xff, b'a']);
        assert_eq!(table.intern(b"x"), 1);
        assert_eq!(table.intern(&[0xff, b'a']), odd);
        assert_eq!(table.name(odd), "\u{fffd}a");
    }

    #[test]
    fn numeric_keys_get_a_name_once_and_may_be_renamed() {
        let mut table = Table::default();
        assert_eq!(table.keyed(77, || "77".into()), 1);
        assert_eq!(table.keyed(78, || "78".into()), 2);
        assert_eq!(table.keyed(77, || panic!("known")), 1);
        table.rename(1, "fio/77".into());
        assert_eq!(table.name(1), "fio/77");
    }

    #[test]
    fn names_beyond_the_bound_are_others() {
        let mut table = Table::default();
        for i in 0..(Table::MAX as u64 + 10) {
            table.keyed(i, || "p".into());
        }
        assert_eq!(table.len(), Table::MAX + 1);
        let late = table.intern(b"late");
        assert_eq!(table.name(late), Table::OTHERS);
        assert_eq!(table.intern(b"later"), Table::MAX as u32);
    }
}
