//! Numbers and byte layouts of the transmission phase.

use rustix::io::Errno;

pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request's header.
pub(super) const HEADER: usize = 28;
/// Largest payload of a read or write, as announced.
pub(super) const PAYLOAD_MAX: u32 = 32 << 20;

/// Transmission flags of an export.
pub(super) mod flags {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Flags of a command.
pub(super) mod command_flags {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
    /// A command this server did not offer.
    Other(u16),
}

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub flags: u16,
    pub kind: Kind,
    pub cookie: u64,
    pub offset: u64,
    pub len: u32,
}

impl Request {
    /// `None`: this is not a request, and where the next one begins cannot be known.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<Request> {
        if u32_at(bytes, 0) != REQUEST_MAGIC {
            return None;
        }
        let kind = match u16_at(bytes, 6) {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Disconnect,
            3 => Kind::Flush,
            4 => Kind::Trim,
            6 => Kind::WriteZeroes,
            7 => Kind::BlockStatus,
            other => Kind::Other(other),
        };
        Some(Request {
            flags: u16_at(bytes, 4),
            kind,
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            len: u32_at(bytes, 24),
        })
    }
}

/// The head of a reply: at most that of a chunk of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    bytes: [u8; 28],
    len: u8,
}

impl Head {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// A simple reply; the data of a read follows.
    pub fn simple(cookie: u64, error: u32) -> Head {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&error.to_be_bytes());
        bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        Head { bytes, len: 16 }
    }

    fn chunk(cookie: u64, kind: u16, payload: u32) -> Head {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
        // DONE: every reply of ours is a single chunk.
        bytes[4..6].copy_from_slice(&1u16.to_be_bytes());
        bytes[6..8].copy_from_slice(&kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        bytes[16..20].copy_from_slice(&payload.to_be_bytes());
        Head { bytes, len: 20 }
    }

    /// The only chunk of a read; the data follows.
    pub fn data(cookie: u64, offset: u64, len: u32) -> Head {
        let mut head = Head::chunk(cookie, 1, len + 8);
        head.bytes[20..28].copy_from_slice(&offset.to_be_bytes());
        head.len = 28;
        head
    }

    /// The only chunk of a failed command.
    pub fn error(cookie: u64, error: u32) -> Head {
        let mut head = Head::chunk(cookie, (1 << 15) + 1, 6);
        head.bytes[20..24].copy_from_slice(&error.to_be_bytes());
        // No message: the length of it is zero.
        head.len = 26;
        head
    }

    /// The only chunk of a block status; the descriptors follow.
    pub fn block_status(cookie: u64, context: u32, descriptors: u32) -> Head {
        let mut head = Head::chunk(cookie, 5, 4 + 8 * descriptors);
        head.bytes[20..24].copy_from_slice(&context.to_be_bytes());
        head.len = 24;
        head
    }
}

/// The protocol's number of an error.
pub(super) fn error_number(errno: Errno) -> u32 {
    match errno {
        Errno::PERM | Errno::ROFS | Errno::ACCESS => 1,
        Errno::NOMEM => 12,
        Errno::INVAL => 22,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => 28,
        Errno::OVERFLOW => 75,
        Errno::OPNOTSUPP => 95,
        Errno::SHUTDOWN => 108,
        _ => 5,
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
