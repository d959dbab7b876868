//! Which of our requests a recorded number stands for, before and after the two differ.

use hoistway::request::ReqId;
use std::collections::VecDeque;

/// The numbers of the requests. As long as nothing differs a number stands for the request that was
/// inserted under it; when the two dispatch different ones, those exchange their numbers.
#[derive(Debug)]
pub struct Names {
    /// Our request by recorded number.
    requests: Vec<Option<ReqId>>,
    /// Recorded number by slot of ours, if it has one.
    numbers: Vec<Option<usize>>,
    /// At the device, by slot.
    issued: Vec<bool>,
    /// Ours at the device that the recording has not sent there.
    early: VecDeque<ReqId>,
    /// Recorded at the device, for which ours has sent nothing; true: completed there already.
    late: VecDeque<(usize, bool)>,
}

impl Names {
    pub fn new(slots: usize) -> Names {
        Names {
            requests: Vec::new(),
            numbers: vec![None; slots],
            issued: vec![false; slots],
            early: VecDeque::new(),
            late: VecDeque::new(),
        }
    }

    /// A request was inserted; without a number if the recording does not have it.
    pub fn inserted(&mut self, id: ReqId, number: Option<usize>) {
        self.issued[id.index()] = false;
        self.numbers[id.index()] = None;
        if let Some(number) = number {
            self.give(number, id);
        }
    }

    fn give(&mut self, number: usize, id: ReqId) {
        if self.requests.len() <= number {
            self.requests.resize(number + 1, None);
        }
        // What the two were called before, they exchange.
        let (before, other) = (self.numbers[id.index()], self.requests[number]);
        if other == Some(id) {
            return;
        }
        if let Some(before) = before {
            self.requests[before] = other;
        }
        if let Some(other) = other {
            self.numbers[other.index()] = before;
        }
        self.requests[number] = Some(id);
        self.numbers[id.index()] = Some(number);
    }

    /// The number of a request of ours.
    pub fn number(&self, id: ReqId) -> Option<usize> {
        self.numbers[id.index()]
    }

    /// Ours of that number.
    pub fn request(&self, number: usize) -> Option<ReqId> {
        self.requests.get(number).copied().flatten()
    }

    /// All that live, by their numbers.
    pub fn alive(&self) -> impl Iterator<Item = (usize, ReqId)> + '_ {
        self.requests.iter().enumerate().filter_map(|(number, id)| Some((number, (*id)?)))
    }

    /// It is at the device.
    pub fn at_device(&self, id: ReqId) -> bool {
        self.issued[id.index()]
    }

    /// We dispatched `ours`, the recording `number`; either may be none. Whatever it is called from here on,
    /// the request returned was completed in the recording already.
    pub fn dispatched(&mut self, ours: Option<ReqId>, number: Option<usize>) -> Option<ReqId> {
        if let Some(id) = ours {
            self.issued[id.index()] = true;
        }
        match (ours, number) {
            (Some(id), Some(number)) => self.give(number, id),
            (Some(id), None) => match self.late.pop_front() {
                Some((number, done)) => {
                    self.give(number, id);
                    return done.then_some(id);
                }
                None => self.early.push_back(id),
            },
            (None, Some(number)) => match self.early.pop_front() {
                Some(id) => self.give(number, id),
                None => self.late.push_back((number, false)),
            },
            (None, None) => {}
        }
        None
    }

    /// The request that was completed as `number`: `None` if ours is not at the device.
    pub fn completed(&mut self, number: usize) -> Option<ReqId> {
        if let Some(late) = self.late.iter_mut().find(|late| late.0 == number) {
            late.1 = true;
            return None;
        }
        let id =
            self.requests.get(number).copied().flatten().filter(|id| self.issued[id.index()])?;
        self.forget(id);
        Some(id)
    }

    /// The request is gone: completed, or absorbed by another.
    pub fn forget(&mut self, id: ReqId) {
        // A recording with a gap may complete what it has not sent.
        self.early.retain(|&early| early != id);
        self.issued[id.index()] = false;
        if let Some(number) = self.numbers[id.index()].take() {
            self.requests[number] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::env::Env;
    use hoistway::request::Io;
    use hoistway::unit::{Instant, QueueId, Sectors};
    use hoistway::{Device, ProcId};

    fn requests(n: u64) -> Vec<ReqId> {
        let mut env = Env::new(Device::new(Sectors(1 << 20), 8), 8, 8);
        (0..n)
            .map(|i| {
                let io = Io::read(i, ProcId::NONE, 8 * i, 8);
                env.requests.create(io, true, QueueId(0), Instant::ZERO).unwrap()
            })
            .collect()
    }

    #[test]
    fn two_that_are_dispatched_in_the_other_order_exchange_their_numbers() {
        let (ids, mut names) = (requests(2), Names::new(8));
        names.inserted(ids[0], Some(1));
        names.inserted(ids[1], Some(2));
        assert_eq!(names.dispatched(Some(ids[1]), Some(1)), None);
        assert_eq!((names.number(ids[1]), names.number(ids[0])), (Some(1), Some(2)));
        assert_eq!(names.completed(1), Some(ids[1]));
        assert_eq!(names.completed(2), None, "ours is not at the device");
        names.dispatched(Some(ids[0]), Some(2));
        assert_eq!(names.completed(2), Some(ids[0]));
    }

    #[test]
    fn a_request_that_ours_holds_back_is_completed_when_it_is_sent() {
        let (ids, mut names) = (requests(1), Names::new(8));
        names.inserted(ids[0], Some(7));
        assert_eq!(names.dispatched(None, Some(7)), None);
        assert_eq!(names.completed(7), None);
        assert_eq!(names.dispatched(Some(ids[0]), None), Some(ids[0]));
    }

    #[test]
    fn a_request_that_is_completed_without_having_been_sent_takes_no_number_any_more() {
        let (ids, mut names) = (requests(2), Names::new(8));
        names.inserted(ids[0], Some(1));
        names.inserted(ids[1], Some(2));
        names.dispatched(Some(ids[0]), None);
        assert_eq!(names.completed(1), Some(ids[0]));
        names.dispatched(None, Some(2));
        assert_eq!(names.request(2), Some(ids[1]), "not the one that is gone");
    }

    #[test]
    fn a_request_that_ours_sends_too_early_takes_the_next_number() {
        let (ids, mut names) = (requests(2), Names::new(8));
        names.inserted(ids[0], Some(1));
        names.inserted(ids[1], Some(2));
        names.dispatched(Some(ids[0]), None);
        names.dispatched(None, Some(2));
        assert_eq!(names.completed(2), Some(ids[0]));
        assert_eq!(names.number(ids[1]), Some(1));
    }
}
