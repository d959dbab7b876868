//! The calls of asynchronous I/O that a process has under way (specs/host.md 6).
//!
//! A process that queues a call goes on when its bios have been submitted. It learns that a call is over
//! when it *collects* it, as with io_getevents: it does so when its queue is full, and when it asks for all
//! of them. A call's latency therefore ends at the collection and not at the completion, as load generators
//! measure it. Calls are collected in the order in which they were completed.

use super::kernel::Kernel;
use super::op::Act;
use super::task::{Call, OpStep, Task};
use super::wait::Wait;
use hoistway::Instant;
use std::collections::VecDeque;

/// One call.
#[derive(Clone, Copy, Debug)]
struct QueuedCall {
    call: Call,
    /// Bios of it that are not served.
    left: u32,
}

/// The calls of a process that it has not collected.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    slots: Vec<Option<QueuedCall>>,
    open: u32,
    /// Those that are over, in the order in which they were served.
    served: VecDeque<u32>,
}

impl OpenCalls {
    /// A call of so many bios goes to the block layer; its number while it is open.
    pub fn add(&mut self, call: Call, bios: u32) -> u32 {
        self.open += 1;
        let queued = Some(QueuedCall { call, left: bios });
        match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = queued;
                free as u32
            }
            None => {
                self.slots.push(queued);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// A bio of call `number` has been served; how many calls can be collected if it was the call's last.
    pub fn bio_served(&mut self, number: u32) -> Option<u32> {
        let queued =
            self.slots[number as usize].as_mut().expect("a call is open while it has bios");
        queued.left -= 1;
        (queued.left == 0).then(|| {
            self.served.push_back(number);
            self.served.len() as u32
        })
    }

    /// Calls that have not been collected.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Since when the oldest of them has been open.
    pub fn oldest(&self) -> Option<Instant> {
        self.slots.iter().flatten().map(|queued| queued.call.begun).min()
    }

    fn collect(&mut self) -> Option<Call> {
        let number = self.served.pop_front()?;
        self.open -= 1;
        self.slots[number as usize].take().map(|queued| queued.call)
    }
}

/// What a process does to have at most `low` calls open: it collects what is over, and waits for at least
/// `batch` calls at a time; `None` when it has reached that, and nothing is left to be collected.
pub(super) fn collect(
    now: Instant,
    task: &mut Task,
    k: &mut Kernel,
    (low, batch): (u32, u32),
) -> Option<OpStep> {
    if let Some(call) = task.calls.collect() {
        return Some(OpStep::Act(call.over(now, k)));
    }
    let open = task.calls.open();
    if open <= low {
        return None;
    }
    if !task.submission.is_empty() {
        send(task, k);
        return Some(OpStep::Again);
    }
    k.sleepers.block(now, task.p, Wait::Calls(batch.clamp(1, open)));
    Some(OpStep::Act(Act::Block))
}

/// Submits the calls that were held back, as one plug section if there are several bios.
pub(super) fn send(task: &mut Task, k: &Kernel) {
    k.unplug_last(task);
    let plug = task.submission.len() > 1;
    k.submit(task, plug);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::Nanos;

    #[test]
    fn calls_are_collected_in_the_order_of_their_last_bios_and_the_oldest_is_known() {
        let call = |us| Call { begun: Instant::ZERO + Nanos::us(us), bytes: us, write: false };
        let mut calls = OpenCalls::default();
        let numbers = [calls.add(call(1), 2), calls.add(call(2), 1), calls.add(call(3), 1)];
        assert_eq!((calls.open(), calls.oldest()), (3, Some(Instant::ZERO + Nanos::us(1))));
        assert_eq!(calls.bio_served(numbers[0]), None, "it has another bio");
        assert_eq!(calls.bio_served(numbers[2]), Some(1));
        assert_eq!(calls.bio_served(numbers[0]), Some(2));
        assert_eq!(calls.collect().map(|c| c.bytes), Some(3));
        assert_eq!(calls.collect().map(|c| c.bytes), Some(1));
        assert!(calls.collect().is_none());
        assert_eq!((calls.open(), calls.oldest()), (1, Some(Instant::ZERO + Nanos::us(2))));
        assert_eq!(calls.add(call(4), 1), numbers[0], "a number is used again");
    }
}
