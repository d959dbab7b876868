//! Numbers and byte layouts of the transmission phase.

use rustix::io::Errno;

pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
pub(super) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;
pub(super) const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of the longest header of a request.
pub(super) const HEADER_MAX: usize = 32;
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
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Flags of a command.
pub(super) mod command_flags {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// The headers of requests and answers that were agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Compact requests, simple answers.
    Simple,
    /// Compact requests; answers that may carry data are chunks.
    Structured,
    /// Headers of 32 bytes with 64-bit lengths both ways; every answer is a chunk.
    Extended,
}

impl Style {
    /// Bytes of a request's header.
    pub fn header(self) -> usize {
        if self == Style::Extended { HEADER_MAX } else { 28 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
    /// A command this server did not offer.
    Other(u16),
}

impl CommandKind {
    /// Flags that mean something for it; any other one is an error of the client.
    pub fn flags(self) -> u16 {
        use command_flags::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
        match self {
            CommandKind::Read => FUA | DF,
            CommandKind::WriteZeroes => FUA | NO_HOLE | FAST_ZERO,
            CommandKind::BlockStatus => FUA | REQ_ONE,
            _ => FUA,
        }
    }
}

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NbdRequest {
    /// `PAYLOAD_LEN` is left where it, or the lack of it, is a mistake.
    pub flags: u16,
    pub kind: CommandKind,
    pub cookie: u64,
    pub offset: u64,
    /// Bytes it is about.
    pub len: u64,
    /// Bytes that follow the header.
    pub payload: u64,
}

impl NbdRequest {
    /// Reads a header of that style. `None`: this is not a request, and where the next one begins cannot
    /// be known.
    pub fn decode(style: Style, bytes: &[u8]) -> Option<NbdRequest> {
        let extended = style == Style::Extended;
        let magic = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        if u32_at(bytes, 0) != magic {
            return None;
        }
        let kind = match u16_at(bytes, 6) {
            0 => CommandKind::Read,
            1 => CommandKind::Write,
            2 => CommandKind::Disconnect,
            3 => CommandKind::Flush,
            4 => CommandKind::Trim,
            5 => CommandKind::Cache,
            6 => CommandKind::WriteZeroes,
            7 => CommandKind::BlockStatus,
            other => CommandKind::Other(other),
        };
        let mut flags = u16_at(bytes, 4);
        let len = if extended { u64_at(bytes, 24) } else { u32_at(bytes, 24).into() };
        let carries = match extended {
            true => flags & command_flags::PAYLOAD_LEN != 0,
            false => kind == CommandKind::Write,
        };
        if extended && kind == CommandKind::Write {
            // There a write must have it: turned round, the flag is left with the one that has not, and
            // refused with it.
            flags ^= command_flags::PAYLOAD_LEN;
        }
        let payload = if carries { len } else { 0 };
        let (cookie, offset) = (u64_at(bytes, 8), u64_at(bytes, 16));
        Some(NbdRequest { flags, kind, cookie, offset, len, payload })
    }
}

/// The head of a reply; data may follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    bytes: [u8; 40],
    len: u8,
}

/// Types of chunks.
mod chunk {
    pub const NONE: u16 = 0;
    pub const DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXTENDED: u16 = 6;
    pub const ERROR: u16 = (1 << 15) + 1;
}

impl Head {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The request is carried out; nothing follows.
    pub fn done(style: Style, request: &NbdRequest) -> Head {
        match style {
            Style::Extended => Head::chunk(style, request, chunk::NONE, 0),
            _ => Head::simple(request, 0),
        }
    }

    /// Of a read; the data follows.
    pub fn data(style: Style, request: &NbdRequest) -> Head {
        match style {
            Style::Simple => Head::simple(request, 0),
            _ => {
                let mut head = Head::chunk(style, request, chunk::DATA, request.len + 8);
                head.put(&request.offset.to_be_bytes());
                head
            }
        }
    }

    /// Of a request that failed.
    pub fn error(style: Style, request: &NbdRequest, error: u32) -> Head {
        let data = matches!(request.kind, CommandKind::Read | CommandKind::BlockStatus);
        if style == Style::Simple || (style == Style::Structured && !data) {
            return Head::simple(request, error);
        }
        let mut head = Head::chunk(style, request, chunk::ERROR, 6);
        head.put(&error.to_be_bytes());
        // No message: the length of it is zero.
        head.put(&[0; 2]);
        head
    }

    /// Of a block status; as many [`descriptor`](Head::descriptor)s follow.
    pub fn block_status(style: Style, request: &NbdRequest, context: u32, count: u32) -> Head {
        let descriptors = u64::from(count) * Head::descriptor(style) as u64;
        let extended = style == Style::Extended;
        let (kind, before) = match extended {
            true => (chunk::BLOCK_STATUS_EXTENDED, 8),
            false => (chunk::BLOCK_STATUS, 4),
        };
        let mut head = Head::chunk(style, request, kind, before + descriptors);
        head.put(&context.to_be_bytes());
        if extended {
            head.put(&count.to_be_bytes());
        }
        head
    }

    /// Bytes of a descriptor of a block status: a length and flags.
    pub fn descriptor(style: Style) -> usize {
        if style == Style::Extended { 16 } else { 8 }
    }

    fn simple(request: &NbdRequest, error: u32) -> Head {
        let mut head = Head::begin(SIMPLE_MAGIC);
        head.put(&error.to_be_bytes());
        head.put(&request.cookie.to_be_bytes());
        head
    }

    fn chunk(style: Style, request: &NbdRequest, kind: u16, payload: u64) -> Head {
        let extended = style == Style::Extended;
        let mut head = Head::begin(if extended { EXTENDED_CHUNK_MAGIC } else { CHUNK_MAGIC });
        // DONE: every reply of ours is a single chunk.
        head.put(&1u16.to_be_bytes());
        head.put(&kind.to_be_bytes());
        head.put(&request.cookie.to_be_bytes());
        if extended {
            head.put(&request.offset.to_be_bytes());
            head.put(&payload.to_be_bytes());
        } else {
            let payload = u32::try_from(payload).expect("a payload is at most 32 MiB and its head");
            head.put(&payload.to_be_bytes());
        }
        head
    }

    fn begin(magic: u32) -> Head {
        let mut head = Head { bytes: [0; 40], len: 0 };
        head.put(&magic.to_be_bytes());
        head
    }

    fn put(&mut self, bytes: &[u8]) {
        let from = usize::from(self.len);
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
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
