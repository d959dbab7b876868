//! A short sorted run of requests: what the sector order of a lane is cut into.
//!
//! *Why not a tree of single requests.* A node per request costs a dependent look per level, and as
//! much again to balance; a B-tree's leaf costs two block moves per change. Here nothing moves: a request
//! stays at its place of the chunk, and the order of the places is one word of sixteen digits. To find a
//! request's rank, to open a gap and to close one are a few operations on that word; the request itself
//! knows its place, so taking it out searches nothing. The order of the chunks changes once in many
//! requests and may cost more (`lane.rs`).

use crate::table::NIL;
use alloc::vec::Vec;

/// Places of a chunk: as many as a word has digits.
const PLACES: usize = 16;
/// Requests it holds. One place stays vacant: fifteen keys have sixteen gaps, which a search of four
/// halvings tells apart.
const CAPACITY: usize = PLACES - 1;
/// The chunk is in no order.
const NO_LANE: u32 = u32::MAX;

/// The places of a chunk in the order of their keys, one hexadecimal digit each, the lowest first. Behind
/// those that are taken stand the vacant ones: a permutation at all times.
#[derive(Clone, Copy, Debug)]
struct Order(u64);

impl Order {
    const FIRST: Order = Order(0xFEDC_BA98_7654_3210);
    const ONES: u64 = 0x1111_1111_1111_1111;

    /// The place of a rank.
    #[inline]
    fn place(self, rank: usize) -> usize {
        (self.0 >> (4 * rank)) as usize % PLACES
    }

    /// The rank of a place: the lowest digit that is zero once all are compared with it.
    #[inline]
    fn rank(self, place: usize) -> usize {
        let differs = self.0 ^ (Order::ONES * place as u64);
        let zeros = differs.wrapping_sub(Order::ONES) & !differs & (Order::ONES << 3);
        (zeros.trailing_zeros() / 4) as usize
    }

    /// The digits below a rank.
    #[inline]
    fn below(rank: usize) -> u64 {
        (1 << (4 * rank)) - 1
    }

    /// The last digit, which is vacant, moves to `rank`; those from there on move up by one.
    #[inline]
    fn open(self, rank: usize) -> Order {
        let below = Order::below(rank);
        let digit = self.0 >> 60;
        Order((self.0 & below) | ((self.0 & !below) << 4) | (digit << (4 * rank)))
    }

    /// The reverse: the digit at `rank` becomes the last, those behind it move down by one.
    #[inline]
    fn close(self, rank: usize) -> Order {
        let below = Order::below(rank);
        let digit = self.place(rank) as u64;
        Order((self.0 & below) | ((self.0 >> 4) & !below) | (digit << 60))
    }
}

/// Requests of one lane that follow each other, and the range of sectors that belongs here.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Chunk {
    /// Where the request at each place starts; vacant places sort behind everything.
    keys: [u64; PLACES],
    /// Its slot, `NIL` if vacant.
    slots: [u32; PLACES],
    order: Order,
    /// Requests with a start from here up to `high` are sorted in here. Older ones at `high` may be here
    /// too.
    pub low: u64,
    pub high: u64,
    /// The chunks before and behind, `NIL` at the ends.
    pub prev: u32,
    pub next: u32,
    len: u32,
    /// The first chunk of its lane, which names the lane.
    pub lane: u32,
}

impl Chunk {
    pub const VACANT: Chunk = Chunk {
        keys: [u64::MAX; PLACES],
        slots: [NIL; PLACES],
        order: Order::FIRST,
        low: 0,
        high: u64::MAX,
        prev: NIL,
        next: NIL,
        len: 0,
        lane: NO_LANE,
    };

    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == CAPACITY
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True when a request of `lane` that starts at `key` is to be sorted in here.
    #[inline]
    pub fn takes(&self, lane: u32, key: u64) -> bool {
        (self.lane == lane) & (self.low <= key) & (key < self.high)
    }

    /// The slot of that rank, `NIL` behind the last. Ranks go up to the capacity.
    #[inline]
    pub fn slot(&self, rank: usize) -> u32 {
        self.slots[self.order.place(rank)]
    }

    /// Where the request of that rank starts.
    pub fn key(&self, rank: usize) -> u64 {
        self.keys[self.order.place(rank)]
    }

    /// Where the request at that place starts.
    pub fn key_at(&self, place: usize) -> u64 {
        self.keys[place % PLACES]
    }

    /// The rank of what is at that place.
    #[inline]
    pub fn rank(&self, place: usize) -> usize {
        self.order.rank(place)
    }

    /// Every slot with its place, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        (0..self.len()).map(|rank| self.order.place(rank)).map(|place| (self.slots[place], place))
    }

    /// How many keys `below` says yes to, which must be the first ones.
    #[inline]
    fn count(&self, below: impl Fn(u64) -> bool) -> usize {
        let mut rank = 0;
        for step in [8, 4, 2, 1] {
            let yes = below(self.keys[self.order.place(rank + step - 1)]);
            rank += step * usize::from(yes);
        }
        rank
    }

    /// The rank of the first key not below `key`.
    pub fn first_at(&self, key: u64) -> usize {
        self.count(|k| k < key)
    }

    /// Puts `slot` behind all keys up to and with `key`; the chunk must not be full. The answer is the
    /// place.
    #[inline]
    pub fn insert(&mut self, key: u64, slot: u32) -> usize {
        debug_assert!(!self.is_full());
        let rank = self.count(|k| k <= key);
        let place = self.order.place(CAPACITY);
        self.order = self.order.open(rank);
        self.keys[place] = key;
        self.slots[place] = slot;
        self.len += 1;
        place
    }

    /// Takes out what is at that place. The answer is the slot that followed, `NIL` if it was the last.
    #[inline]
    pub fn remove(&mut self, place: usize) -> u32 {
        let place = place % PLACES;
        let rank = self.order.rank(place);
        self.order = self.order.close(rank);
        self.keys[place] = u64::MAX;
        self.slots[place] = NIL;
        self.len -= 1;
        self.slot(rank)
    }

    /// The upper half leaves for `to`, which must be empty, and lies there in order.
    pub fn split(&mut self, to: &mut Chunk) {
        let half = self.len() / 2;
        to.order = Order::FIRST;
        for rank in half..self.len() {
            let place = self.order.place(rank);
            to.keys[rank - half] = core::mem::replace(&mut self.keys[place], u64::MAX);
            to.slots[rank - half] = core::mem::replace(&mut self.slots[place], NIL);
        }
        to.len = self.len - half as u32;
        self.len = half as u32;
    }
}

/// All chunks of a scheduler, and those in no lane.
#[derive(Debug)]
pub(super) struct Chunks {
    all: Vec<Chunk>,
    free: Vec<u32>,
}

impl Chunks {
    /// Up to so many; room for them is set aside now and touched when it is needed.
    pub fn new(most: usize) -> Chunks {
        Chunks { all: Vec::with_capacity(most), free: Vec::with_capacity(most) }
    }

    #[inline]
    pub fn at(&self, chunk: u32) -> &Chunk {
        &self.all[chunk as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, chunk: u32) -> &mut Chunk {
        &mut self.all[chunk as usize]
    }

    /// An empty chunk for the lane that `lane` begins; without one it begins a lane.
    pub fn take(&mut self, lane: Option<u32>) -> u32 {
        let chunk = self.free.pop().unwrap_or_else(|| {
            debug_assert!(self.all.len() < self.all.capacity());
            self.all.push(Chunk::VACANT);
            self.all.len() as u32 - 1
        });
        self.at_mut(chunk).lane = lane.unwrap_or(chunk);
        chunk
    }

    pub fn give_back(&mut self, chunk: u32) {
        *self.at_mut(chunk) = Chunk::VACANT;
        self.free.push(chunk);
    }

    /// Two different ones.
    pub fn pair(&mut self, one: u32, other: u32) -> [&mut Chunk; 2] {
        self.all
            .get_disjoint_mut([one as usize, other as usize])
            .expect("two different chunks of this table")
    }
}
