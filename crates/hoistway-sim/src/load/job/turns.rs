//! Which of its files a job serves next.
//!
//! At most `open` files are open; when one is done the next one of the job takes its place.

use crate::rng::Rng;

/// Whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct FileTurns {
    files: usize,
    open: usize,
    random: bool,
    /// Calls in a row of one file.
    each: u64,
    /// Files that are open and not done, and the next one that is not open.
    live: Vec<usize>,
    next: usize,
    /// Who has the turn, as its place in `live`, and for how many calls more.
    turn: usize,
    left: u64,
}

impl FileTurns {
    /// One after another.
    pub fn new(files: usize) -> FileTurns {
        let mut turns = FileTurns {
            files,
            open: files,
            random: false,
            each: 1,
            live: Vec::new(),
            next: 0,
            turn: 0,
            left: 0,
        };
        turns.restart();
        turns
    }

    /// At most so many at a time.
    pub fn open(mut self, open: usize) -> FileTurns {
        self.open = open.clamp(1, self.files);
        self.restart();
        self
    }

    /// So many calls of one file in a row.
    pub fn each(mut self, calls: u64) -> FileTurns {
        (self.each, self.left) = (calls, calls);
        self
    }

    /// One at random instead of the next.
    pub fn at_random(mut self) -> FileTurns {
        self.random = true;
        // The first is drawn too.
        self.left = 0;
        self
    }

    /// A job that fills its time goes on in the same file, and not in the next one.
    pub fn in_place(&self) -> bool {
        self.files == 1
    }

    pub fn restart(&mut self) {
        self.next = self.open.min(self.files);
        self.live = (0..self.next).collect();
        self.turn = 0;
        self.left = if self.random { 0 } else { self.each };
    }

    /// The file of the next call; `None`: all are done.
    pub fn next(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.files == 1 {
            return self.live.first().copied();
        }
        if self.live.is_empty() {
            return None;
        }
        if self.left == 0 {
            self.left = self.each;
            self.turn = match self.random {
                true => rng.below(self.live.len() as u64) as usize,
                false => (self.turn + 1) % self.live.len(),
            };
        }
        self.left -= 1;
        Some(self.live[self.turn])
    }

    /// Nothing is left of the file whose turn it was.
    pub fn done(&mut self, file: usize) {
        let Some(at) = self.live.iter().position(|&f| f == file) else { return };
        if self.next < self.files {
            self.live[at] = self.next;
            self.next += 1;
            self.left = if self.random { 0 } else { self.each };
            return;
        }
        self.live.remove(at);
        // The one behind it has its place and the turn.
        if at <= self.turn {
            self.turn = at;
        }
        if self.turn >= self.live.len() {
            self.turn = 0;
        }
        self.left = if self.random { 0 } else { self.each };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn a_file_that_is_done_gives_its_turn_to_the_next() {
        let mut rng = stream(1, "turns");
        let mut turns = FileTurns::new(3);
        let mut next = |turns: &mut FileTurns| turns.next(&mut rng);
        assert_eq!([next(&mut turns), next(&mut turns)], [Some(0), Some(1)]);
        turns.done(1);
        assert_eq!(
            [next(&mut turns), next(&mut turns), next(&mut turns)],
            [Some(2), Some(0), Some(2)]
        );
        turns.done(2);
        turns.done(0);
        assert_eq!(next(&mut turns), None);
        turns.restart();
        assert_eq!(next(&mut turns), Some(0));
        let mut random = FileTurns::new(4).at_random();
        let seen: Vec<usize> = (0..100).filter_map(|_| next(&mut random)).collect();
        assert!((0..4).all(|f| (10..45).contains(&seen.iter().filter(|&&s| s == f).count())));
    }
}
