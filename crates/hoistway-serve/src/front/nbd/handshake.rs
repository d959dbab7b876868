//! The negotiation as a state machine: bytes in, bytes out, until an export is chosen.

use super::wire::{PAYLOAD_MAX, Style, flags, u16_at, u32_at, u64_at};

/// What a client can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub name: String,
    pub description: String,
    pub size: u64,
    /// Transmission flags without SEND_DF, which depends on the negotiation.
    pub flags: u16,
    /// Smallest unit of offsets and lengths in bytes.
    pub block: u32,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Index of the offer.
    pub export: usize,
    /// The size that was told.
    pub size: u64,
    pub style: Style,
    /// Block status of `base:allocation` may be asked for.
    pub allocation: bool,
}

/// How it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeStep {
    /// More bytes are needed.
    More,
    /// An answer was made; go on once it is sent.
    Answered,
    /// The transmission phase begins behind what was consumed.
    Chosen(Choice),
    /// TLS begins once the answer is sent: nothing may have come behind what was consumed.
    Secure,
    /// Close the connection once what was made is sent.
    Close,
}

/// What is to be said of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// There is none.
    None,
    /// The client may ask for it.
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "no server can offer it"))]
    Offered,
    /// The client must ask for it before anything else.
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "no server can want it"))]
    Required,
    /// It is there.
    Established,
}

#[derive(Debug)]
pub(super) struct Handshake {
    security: Security,
    greeted: bool,
    zeroes: bool,
    style: Style,
    /// The export for which `base:allocation` was agreed on.
    allocation: Option<usize>,
    options: u32,
}

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const REPLY: u64 = 0x0003_e889_0455_65a9;
const FIXED: u16 = 1;
const NO_ZEROES: u16 = 2;

/// Longest option that is looked at: a name (4096 by the protocol) and a few queries.
const OPTION_MAX: u32 = 32 << 10;
/// Options a client may send before it has to choose.
const OPTIONS_MAX: u32 = 1000;
const NAME_MAX: usize = 4096;
/// The only metadata context, and its number.
const ALLOCATION: &[u8] = b"base:allocation";
pub(super) const ALLOCATION_ID: u32 = 1;

mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META: u32 = 9;
    pub const SET_META: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const UNSUPPORTED: u32 = ERROR + 1;
    pub const INVALID: u32 = ERROR + 3;
    pub const TLS_REQUIRED: u32 = ERROR + 5;
    pub const UNKNOWN: u32 = ERROR + 6;
    pub const TOO_BIG: u32 = ERROR + 9;
    pub const EXTENDED_REQUIRED: u32 = ERROR + 10;
}

impl Handshake {
    /// Begins with the greeting.
    pub fn new(security: Security, out: &mut Vec<u8>) -> Handshake {
        out.extend(GREETING.to_be_bytes());
        out.extend(OPTION.to_be_bytes());
        out.extend((FIXED | NO_ZEROES).to_be_bytes());
        Handshake {
            security,
            greeted: false,
            zeroes: true,
            style: Style::Simple,
            allocation: None,
            options: 0,
        }
    }

    /// TLS is there. What was agreed on before is void: somebody else may have done that.
    pub fn secured(&mut self) {
        self.security = Security::Established;
        self.style = Style::Simple;
        self.allocation = None;
    }

    /// Looks at the bytes that came and were not consumed yet. Returns how many it consumed.
    pub fn feed(
        &mut self,
        input: &[u8],
        offers: &[Offer],
        out: &mut Vec<u8>,
    ) -> (usize, HandshakeStep) {
        if !self.greeted {
            return self.greeting(input);
        }
        if input.len() < 16 {
            let expected = OPTION.to_be_bytes();
            let seen = input.len().min(8);
            let wrong = input[..seen] != expected[..seen];
            return (0, if wrong { HandshakeStep::Close } else { HandshakeStep::More });
        }
        let (magic, id, len) = (u64_at(input, 0), u32_at(input, 8), u32_at(input, 12));
        self.options += 1;
        if magic != OPTION || len > OPTION_MAX || self.options > OPTIONS_MAX {
            if magic == OPTION && len > OPTION_MAX {
                answer(out, id, reply::TOO_BIG, &[]);
            }
            return (input.len(), HandshakeStep::Close);
        }
        let end = 16 + len as usize;
        if input.len() < end {
            self.options -= 1;
            return (0, HandshakeStep::More);
        }
        (end, self.option(id, &input[16..end], offers, out))
    }

    fn greeting(&mut self, input: &[u8]) -> (usize, HandshakeStep) {
        if input.len() < 4 {
            return (0, HandshakeStep::More);
        }
        let client = u32_at(input, 0);
        if client & !u32::from(FIXED | NO_ZEROES) != 0 {
            // A client that wants what was not offered is to be dropped.
            return (4, HandshakeStep::Close);
        }
        self.greeted = true;
        self.zeroes = client & u32::from(NO_ZEROES) == 0;
        (4, HandshakeStep::Answered)
    }

    fn option(
        &mut self,
        id: u32,
        data: &[u8],
        offers: &[Offer],
        out: &mut Vec<u8>,
    ) -> HandshakeStep {
        if self.security == Security::Required && !matches!(id, option::ABORT | option::STARTTLS) {
            if id == option::EXPORT_NAME {
                // It has no answer that says no.
                return HandshakeStep::Close;
            }
            answer(out, id, reply::TLS_REQUIRED, b"this server wants TLS first");
            return HandshakeStep::Answered;
        }
        match id {
            option::STARTTLS => return self.start_tls(data, out),
            option::EXPORT_NAME => return self.export_name(data, offers, out),
            option::ABORT => {
                answer(out, id, reply::ACK, &[]);
                return HandshakeStep::Close;
            }
            option::LIST if data.is_empty() => {
                for offer in offers {
                    let mut item = (offer.name.len() as u32).to_be_bytes().to_vec();
                    item.extend(offer.name.as_bytes());
                    answer(out, id, reply::SERVER, &item);
                }
                answer(out, id, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() && self.style == Style::Extended => {
                answer(out, id, reply::EXTENDED_REQUIRED, b"extended headers were agreed on");
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.style = Style::Structured;
                answer(out, id, reply::ACK, &[]);
            }
            option::EXTENDED_HEADERS if data.is_empty() && self.style != Style::Extended => {
                self.style = Style::Extended;
                answer(out, id, reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
                answer(out, id, reply::INVALID, &[]);
            }
            option::INFO | option::GO => return self.info(id, data, offers, out),
            option::LIST_META | option::SET_META => self.contexts(id, data, offers, out),
            _ => answer(out, id, reply::UNSUPPORTED, &[]),
        }
        HandshakeStep::Answered
    }

    fn start_tls(&self, data: &[u8], out: &mut Vec<u8>) -> HandshakeStep {
        let kind = match self.security {
            Security::None => reply::UNSUPPORTED,
            Security::Established => reply::INVALID,
            _ if !data.is_empty() => reply::INVALID,
            Security::Offered | Security::Required => reply::ACK,
        };
        answer(out, option::STARTTLS, kind, &[]);
        if kind == reply::ACK { HandshakeStep::Secure } else { HandshakeStep::Answered }
    }

    fn choice(&self, export: usize, offers: &[Offer]) -> HandshakeStep {
        let allocation = self.style != Style::Simple && self.allocation == Some(export);
        let size = offers[export].size;
        HandshakeStep::Chosen(Choice { export, size, style: self.style, allocation })
    }

    fn flags(&self, offer: &Offer) -> u16 {
        offer.flags | if self.style == Style::Simple { 0 } else { flags::SEND_DF }
    }

    fn export_name(&self, name: &[u8], offers: &[Offer], out: &mut Vec<u8>) -> HandshakeStep {
        if self.style == Style::Extended {
            // Forbidden behind them, and this option has no answer that says no.
            return HandshakeStep::Close;
        }
        let Some(export) = find(name, offers) else { return HandshakeStep::Close };
        out.extend(offers[export].size.to_be_bytes());
        out.extend(self.flags(&offers[export]).to_be_bytes());
        if self.zeroes {
            out.extend([0; 124]);
        }
        self.choice(export, offers)
    }

    fn info(&self, id: u32, data: &[u8], offers: &[Offer], out: &mut Vec<u8>) -> HandshakeStep {
        let Some((name, rest)) = name_and_rest(data) else {
            answer(out, id, reply::INVALID, &[]);
            return HandshakeStep::Answered;
        };
        // A number of 16-bit kinds of information follows.
        if rest.len() < 2 || rest.len() != 2 + 2 * usize::from(u16_at(rest, 0)) {
            answer(out, id, reply::INVALID, &[]);
            return HandshakeStep::Answered;
        }
        let Some(export) = find(name, offers) else {
            answer(out, id, reply::UNKNOWN, b"no such export");
            return HandshakeStep::Answered;
        };
        let offer = &offers[export];
        let asked = |kind: u16| rest[2..].chunks_exact(2).any(|k| u16_at(k, 0) == kind);
        let mut item = 0u16.to_be_bytes().to_vec();
        item.extend(offer.size.to_be_bytes());
        item.extend(self.flags(offer).to_be_bytes());
        answer(out, id, reply::INFO, &item);
        for (kind, text) in [(1u16, &offer.name), (2, &offer.description)] {
            if asked(kind) {
                let item = [&kind.to_be_bytes(), text.as_bytes()].concat();
                answer(out, id, reply::INFO, &item);
            }
        }
        let preferred = offer.block.max(4096);
        let sizes = [offer.block, preferred, PAYLOAD_MAX].map(u32::to_be_bytes).concat();
        answer(out, id, reply::INFO, &[&3u16.to_be_bytes(), &sizes[..]].concat());
        answer(out, id, reply::ACK, &[]);
        if id == option::GO { self.choice(export, offers) } else { HandshakeStep::Answered }
    }

    fn contexts(&mut self, id: u32, data: &[u8], offers: &[Offer], out: &mut Vec<u8>) {
        if id == option::SET_META {
            // Each time anew: what was agreed on before is void, whatever comes of this.
            self.allocation = None;
        }
        let (Some((name, rest)), true) = (name_and_rest(data), self.style != Style::Simple) else {
            return answer(out, id, reply::INVALID, &[]);
        };
        let Some(queries) = queries(rest) else {
            return answer(out, id, reply::INVALID, &[]);
        };
        let Some(export) = find(name, offers) else {
            return answer(out, id, reply::UNKNOWN, b"no such export");
        };
        let listing = id == option::LIST_META;
        let wanted = (listing && queries.is_empty())
            || queries.iter().any(|&q| q == ALLOCATION || (listing && q == b"base:"));
        if wanted {
            let number = if listing { 0 } else { ALLOCATION_ID };
            answer(out, id, reply::META, &[&number.to_be_bytes(), ALLOCATION].concat());
            if !listing {
                self.allocation = Some(export);
            }
        }
        answer(out, id, reply::ACK, &[]);
    }
}

fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(REPLY.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// The empty name stands for the first export.
fn find(name: &[u8], offers: &[Offer]) -> Option<usize> {
    let exact = offers.iter().position(|o| o.name.as_bytes() == name);
    exact.or((name.is_empty() && !offers.is_empty()).then_some(0))
}

/// A text with its length in front, and what is behind it.
fn name_and_rest(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32_at(data.get(..4)?, 0) as usize;
    let name = data.get(4..)?.get(..len).filter(|n| n.len() <= NAME_MAX)?;
    Some((name, &data[4 + len..]))
}

/// A number of texts, each with its length in front.
fn queries(data: &[u8]) -> Option<Vec<&[u8]>> {
    let count = u32_at(data.get(..4)?, 0);
    let (mut rest, mut list) = (&data[4..], Vec::new());
    for _ in 0..count {
        let (query, behind) = name_and_rest(rest)?;
        list.push(query);
        rest = behind;
    }
    rest.is_empty().then_some(list)
}
