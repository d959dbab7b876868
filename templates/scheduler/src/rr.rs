//! Round robin: a queue per process, `quantum` requests of each in turn.
use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Debug)]
pub struct RoundRobin {
    pub quantum: u64,
    /// The processes in the order of their first requests, each with the numbers of those that wait.
    queues: Vec<(u32, VecDeque<u64>)>,
    /// Whose turn it is, and how many requests it has had.
    turn: usize,
    served: u64,
    /// What the device gave back goes first.
    returned: VecDeque<u64>,
}

impl RoundRobin {
    pub const NEW: RoundRobin = RoundRobin {
        quantum: 4,
        queues: Vec::new(),
        turn: 0,
        served: 0,
        returned: VecDeque::new(),
    };

    pub fn insert(&mut self, number: u64, process: u32, returned: bool) {
        if returned {
            return self.returned.push_front(number);
        }
        match self.queues.iter_mut().find(|q| q.0 == process) {
            Some(queue) => queue.1.push_back(number),
            None => self.queues.push((process, VecDeque::from([number]))),
        }
    }

    /// The next request, if one waits.
    pub fn dispatch(&mut self) -> Option<u64> {
        if let Some(number) = self.returned.pop_front() {
            return Some(number);
        }
        for _ in 0..=self.queues.len() {
            let queue = self.queues.get_mut(self.turn)?;
            if self.served < self.quantum
                && let Some(number) = queue.1.pop_front()
            {
                self.served += 1;
                return Some(number);
            }
            (self.turn, self.served) = ((self.turn + 1) % self.queues.len(), 0);
        }
        None
    }

    pub fn gone(&mut self, number: u64) {
        self.queues.iter_mut().for_each(|q| q.1.retain(|n| *n != number));
        self.returned.retain(|n| *n != number);
    }
}
