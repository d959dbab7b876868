//! The smallest tag of many: a tournament.
//!
//! *Problem.* Each choice takes the smallest of up to thousands of tags and puts it back with another. A balanced tree
//! keeps an order of all of them, which nobody asks for, and pays for it with two walks and rotations.
//!
//! *Idea.* Selection by tournament (Knuth, volume 3, 5.2.3). Everybody has a seat, four seats make a match, and the
//! smallest of a match sits in one of the next. A tag that changes is replayed up to the first match that it neither
//! won nor wins. A match is a cache line.
//!
//! *Order.* By tag; of equal tags the one that was set earlier comes first.
//!
//! *Cost.* One match for each factor of four; nothing is allocated but for seats.

use alloc::vec;
use alloc::vec::Vec;

/// A tag with its order among equal ones and its owner: one number, so that one comparison decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Player(u128);

impl Player {
    const NOBODY: Player = Player(u128::MAX);

    fn new(tag: u64, order: u32, owner: u32) -> Player {
        Player((u128::from(tag) << 64) | (u128::from(order) << 32) | u128::from(owner))
    }

    fn owner(self) -> u32 {
        self.0 as u32
    }

    /// No owner and no order have this number.
    #[inline]
    fn is_nobody(self) -> bool {
        self.identity() == Player::NOBODY.identity()
    }

    /// Order and owner: no two have the same.
    fn identity(self) -> u64 {
        self.0 as u64
    }

    fn with_order(self, order: u32) -> Player {
        Player::new((self.0 >> 64) as u64, order, self.owner())
    }
}

/// Four players of whom one goes on.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Match([Player; 4]);

impl Match {
    const EMPTY: Match = Match([Player::NOBODY; 4]);

    #[inline]
    fn winner(&self) -> Player {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tournament {
    /// The final first; the winner of match m plays in match (m - 1) / 4.
    matches: Vec<Match>,
    /// The first match of the first round.
    round: usize,
    winner: Player,
    /// Seats given out, and those of them given back.
    seats: u32,
    free: Vec<u32>,
    order: u32,
}

impl Tournament {
    pub fn new() -> Tournament {
        Tournament {
            matches: vec![Match::EMPTY],
            round: 0,
            winner: Player::NOBODY,
            seats: 0,
            free: Vec::new(),
            order: 0,
        }
    }

    /// A seat for somebody new; it is empty (allocates).
    pub fn seat(&mut self) -> u32 {
        if let Some(seat) = self.free.pop() {
            return seat;
        }
        if self.seats as usize == 4 * (self.matches.len() - self.round) {
            self.widen();
        }
        self.seats += 1;
        self.seats - 1
    }

    /// A seat is nobody's any more; it is empty.
    pub fn give_back(&mut self, seat: u32) {
        debug_assert!(!self.is_taken(seat));
        self.free.push(seat);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.winner.is_nobody()
    }

    /// The owner of the smallest tag.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        (!self.is_empty()).then(|| self.winner.owner())
    }

    pub fn is_taken(&self, seat: u32) -> bool {
        !self.matches[self.round + (seat >> 2) as usize].0[(seat & 3) as usize].is_nobody()
    }

    /// Somebody takes the empty seat.
    #[inline]
    pub fn enter(&mut self, seat: u32, tag: u64, owner: u32) {
        debug_assert!(!self.is_taken(seat));
        let player = Player::new(tag, self.next_order(), owner);
        let (mut at, mut side) = (self.round + (seat >> 2) as usize, (seat & 3) as usize);
        loop {
            let place = &mut self.matches[at].0[side];
            if player > *place {
                return;
            }
            *place = player;
            if at == 0 {
                self.winner = self.winner.min(player);
                return;
            }
            (at, side) = next(at);
        }
    }

    /// The seat is empty from now on.
    #[inline]
    pub fn leave(&mut self, seat: u32) {
        debug_assert!(self.is_taken(seat));
        self.replay(seat, Player::NOBODY);
    }

    /// Another tag, not a smaller one, for who has the seat.
    #[inline]
    pub fn raise(&mut self, seat: u32, tag: u64, owner: u32) {
        debug_assert!(self.is_taken(seat));
        let player = Player::new(tag, self.next_order(), owner);
        self.replay(seat, player);
    }

    /// Puts a larger one into a seat that is taken.
    fn replay(&mut self, seat: u32, mut player: Player) {
        let (mut at, mut side) = (self.round + (seat >> 2) as usize, (seat & 3) as usize);
        let mut here = &mut self.matches[at];
        let old = here.0[side].identity();
        loop {
            here.0[side] = player;
            player = here.winner();
            if at == 0 {
                self.winner = player;
                return;
            }
            (at, side) = next(at);
            here = &mut self.matches[at];
            if here.0[side].identity() != old {
                return;
            }
        }
    }

    /// Calls `f` with the owners of the smallest tags, in any order, at most `N` of them.
    pub fn smallest<const N: usize>(&self, mut f: impl FnMut(u32)) {
        let (mut least, mut n) = ([Player::NOBODY; N], 0);
        let seated = self.matches[self.round..].iter().flat_map(|m| m.0);
        for player in seated.filter(|p| !p.is_nobody()) {
            let at = least[..n].partition_point(|&p| p < player);
            if at < N {
                n = (n + 1).min(N);
                least[at..n].rotate_right(1);
                least[at] = player;
            }
        }
        least[..n].iter().for_each(|p| f(p.owner()));
    }

    #[inline]
    fn next_order(&mut self) -> u32 {
        if self.order == u32::MAX {
            self.renumber();
        }
        self.order += 1;
        self.order
    }

    /// Four times as many seats.
    fn widen(&mut self) {
        let old = self.matches[self.round..].to_vec();
        let round = 4 * self.round + 1;
        self.matches = vec![Match::EMPTY; round + 4 * old.len()];
        self.matches[round..round + old.len()].copy_from_slice(&old);
        self.round = round;
        self.play();
    }

    /// Plays every match.
    fn play(&mut self) {
        for at in (1..self.matches.len()).rev() {
            let (to, side) = next(at);
            self.matches[to].0[side] = self.matches[at].winner();
        }
        self.winner = self.matches[0].winner();
    }

    /// Orders from one on again, once in four thousand million changes.
    #[cold]
    fn renumber(&mut self) {
        let seated = self.matches[self.round..].iter_mut().flat_map(|m| &mut m.0);
        let mut players: Vec<&mut Player> = seated.filter(|p| !p.is_nobody()).collect();
        players.sort();
        self.order = 0;
        for player in players {
            self.order += 1;
            *player = player.with_order(self.order);
        }
        self.play();
    }
}

/// Where the winner of a match plays.
#[inline]
fn next(at: usize) -> (usize, usize) {
    ((at - 1) >> 2, (at - 1) & 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Random steps against an ordered map of (tag, step) to seats; whose is the seat is told by its number.
    fn play_against_a_model(start: u32, steps: u32) {
        let mut t = Tournament::new();
        t.order = start;
        let (mut seats, mut model, mut x) = (Vec::new(), BTreeMap::new(), 12345u64);
        let mut key_of: Vec<Option<(u64, u32)>> = Vec::new();
        for step in 0..steps {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (tag, choice) = ((x >> 20) % 40, x >> 33);
            if seats.len() < 5 || (choice.is_multiple_of(64) && seats.len() < 300) {
                seats.push(t.seat());
                key_of.push(None);
            }
            let n = (choice / 64) as usize % seats.len();
            match key_of[n] {
                None => {
                    t.enter(seats[n], tag, n as u32);
                    key_of[n] = Some((tag, step));
                    model.insert((tag, step), n as u32);
                }
                Some(key) => {
                    model.remove(&key);
                    key_of[n] = (choice % 2 == 0).then_some((key.0 + tag, step));
                    match key_of[n] {
                        Some(key) => {
                            t.raise(seats[n], key.0, n as u32);
                            model.insert(key, n as u32);
                        }
                        None => {
                            t.leave(seats[n]);
                            t.give_back(seats[n]);
                            seats[n] = t.seat();
                        }
                    }
                }
            }
            assert_eq!(t.first(), model.values().next().copied());
            assert_eq!(t.is_empty(), model.is_empty());
            let (mut got, mut want) =
                (Vec::new(), model.values().take(7).copied().collect::<Vec<_>>());
            t.smallest::<7>(|owner| got.push(owner));
            got.sort();
            want.sort();
            assert_eq!(got, want);
        }
    }

    #[test]
    fn the_smallest_tag_comes_first_and_of_equal_ones_the_oldest() {
        play_against_a_model(0, 20_000);
    }

    #[test]
    fn the_order_survives_the_end_of_its_numbers() {
        play_against_a_model(u32::MAX - 5_000, 10_000);
    }
}
