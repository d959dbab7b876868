//! Which schedulers this core has: all, or those that its build was told of.
//!
//! `HOISTWAY_ONLY`, names of the registry with commas between them, is read when this is compiled. What no list names is not
//! linked. The core says in [`MARK`] what it was made of: who builds a module of it later knows what to call that.

use hoistway::sched::{CORE_OF, Entry, SCHEDULERS};

/// The names, or nothing for all.
const ONLY: &str = match option_env!("HOISTWAY_ONLY") {
    Some(names) => names,
    None => "",
};

/// Whether a list of names, with commas between them, has this one.
const fn has(list: &[u8], name: &[u8]) -> bool {
    let (mut from, mut at) = (0, 0);
    while at <= list.len() {
        if at == list.len() || list[at] == b',' {
            if at - from == name.len() && is_at(list, from, name) {
                return true;
            }
            from = at + 1;
        }
        at += 1;
    }
    false
}

const fn is_at(list: &[u8], from: usize, name: &[u8]) -> bool {
    let mut i = 0;
    while i < name.len() {
        if list[from + i] != name[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn chosen(entry: &Entry) -> bool {
    ONLY.is_empty() || has(ONLY.as_bytes(), entry.stage.name.as_bytes())
}

const COUNT: usize = {
    let (mut n, mut i) = (0, 0);
    while i < SCHEDULERS.len() {
        n += chosen(SCHEDULERS[i]) as usize;
        i += 1;
    }
    n
};

const _: () = assert!(COUNT > 0, "HOISTWAY_ONLY names no scheduler");

/// The schedulers of this core, in the order of the registry.
pub static CHOSEN: [&Entry; COUNT] = {
    let mut list = [SCHEDULERS[0]; COUNT];
    let (mut n, mut i) = (0, 0);
    while i < SCHEDULERS.len() {
        if chosen(SCHEDULERS[i]) {
            list[n] = SCHEDULERS[i];
            n += 1;
        }
        i += 1;
    }
    list
};

const BEFORE: &[u8] = CORE_OF.as_bytes();

/// [`CORE_OF`] and the names, with a zero behind them.
pub const MARK: [u8; BEFORE.len() + ONLY.len() + 1] = {
    let mut mark = [0; BEFORE.len() + ONLY.len() + 1];
    let mut i = 0;
    while i < mark.len() - 1 {
        mark[i] = if i < BEFORE.len() { BEFORE[i] } else { ONLY.as_bytes()[i - BEFORE.len()] };
        i += 1;
    }
    mark
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_a_list_only_as_a_whole() {
        assert!(has(b"bfq,adios", b"bfq") && has(b"bfq,adios", b"adios"));
        for name in [&b"bf"[..], b"fq", b"bfq,adios", b"cfq", b""] {
            assert!(!has(b"bfq,adios", name), "{name:?}");
        }
    }

    #[test]
    fn a_build_that_was_told_of_none_has_all() {
        if ONLY.is_empty() {
            assert!(CHOSEN.iter().zip(SCHEDULERS).all(|(a, b)| core::ptr::eq(*a, *b)));
            assert_eq!((CHOSEN.len(), &MARK[..]), (SCHEDULERS.len(), &b"hoistway core of:\0"[..]));
        }
    }
}
