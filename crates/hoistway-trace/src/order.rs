//! Records into order of time, within a window.
//!
//! Formats that write a line at completion (biosnoop), or one buffer per CPU, are out of order by as much as
//! requests take. A record is handed out when `window` later ones have been read. One that comes after its time has
//! been handed out is late: it gets the time of the last one, and is counted.
//!
//! Arriving in order costs one comparison. Records at one time keep their order.

use crate::Record;
use std::collections::VecDeque;

/// The window. Times are absolute here.
#[derive(Debug)]
pub(crate) struct Order {
    held: VecDeque<Record>,
    window: usize,
    last: u64,
    late: u64,
}

impl Order {
    pub(crate) fn new(window: usize) -> Order {
        Order { held: VecDeque::with_capacity(window + 1), window, last: 0, late: 0 }
    }

    /// Takes a record; gives one back once the window is full.
    #[inline]
    pub(crate) fn push(&mut self, record: Record) -> Option<Record> {
        match self.held.back() {
            Some(last) if last.time > record.time => {
                let at = self.held.partition_point(|r| r.time <= record.time);
                self.held.insert(at, record);
            }
            _ => self.held.push_back(record),
        }
        if self.held.len() > self.window { self.pop() } else { None }
    }

    /// The earliest one held.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Record> {
        let mut record = self.held.pop_front()?;
        if record.time < self.last {
            self.late += 1;
            record.time = self.last;
        }
        self.last = record.time;
        Some(record)
    }

    /// Records that were out of order by more than the window.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(window: usize, times: &[u64]) -> (Vec<(u64, u64)>, u64) {
        let mut order = Order::new(window);
        let mut out = Vec::new();
        for (i, time) in times.iter().enumerate() {
            let record = Record { time: *time, offset: i as u64, ..Record::default() };
            out.extend(order.push(record));
        }
        while let Some(record) = order.pop() {
            out.push(record);
        }
        (out.iter().map(|r| (r.time, r.offset)).collect(), order.late())
    }

    #[test]
    fn records_within_the_window_are_sorted_and_equal_ones_keep_their_order() {
        let (out, late) = sorted(2, &[5, 3, 3, 9, 8]);
        assert_eq!(out, [(3, 1), (3, 2), (5, 0), (8, 4), (9, 3)]);
        assert_eq!(late, 0);
    }

    #[test]
    fn a_record_later_than_the_window_gets_the_time_of_the_last_and_is_counted() {
        let (out, late) = sorted(1, &[5, 6, 7, 1]);
        assert_eq!(out, [(5, 0), (6, 1), (6, 3), (7, 2)]);
        assert_eq!(late, 1);
    }

    #[test]
    fn no_window_hands_out_at_once() {
        assert_eq!(sorted(0, &[5, 4]), (vec![(5, 0), (5, 1)], 1));
    }
}
