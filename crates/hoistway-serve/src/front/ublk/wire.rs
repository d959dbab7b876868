//! The numbers and layouts of the ublk driver's interface, in the machine's byte order.
//!
//! Our own table of <https://docs.kernel.org/block/ublk.html> and of the interface it names. Commands travel in the
//! second half of an io_uring entry (`IORING_OP_URING_CMD`); their numbers are encoded like those of
//! ioctls, which every driver since Linux 6.4 takes and newer ones demand.

use hoistway::Op;
use rustix::io::Errno;

/// The device that makes others.
pub(super) const CONTROL: &str = "/dev/ublk-control";
/// Requests a queue may have.
pub(super) const DEPTH_MAX: u64 = 4096;
/// Bytes of the description of one request in the shared memory.
pub(super) const DESCRIPTION: usize = 24;
/// `dev_id` that lets the driver choose.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
/// A command that is about no queue.
const NO_QUEUE: u16 = u16::MAX;

/// `_IOC(direction, 'u', number, size)`.
const fn encoded(write_and_read: bool, number: u32, size: u32) -> u32 {
    let direction = if write_and_read { 3 } else { 2 };
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

/// A command to the control device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Add,
    Delete,
    Start,
    Stop,
    SetParams,
    /// What became of a device.
    Info,
    /// As `Delete`, but nobody waits until the last user of the block device has let go (Linux 6.9).
    Abandon,
}

impl Control {
    pub fn number(self) -> u32 {
        let (number, writes) = match self {
            Control::Info => (0x02, false),
            Control::Add => (0x04, true),
            Control::Delete => (0x05, true),
            Control::Start => (0x06, true),
            Control::Stop => (0x07, true),
            Control::SetParams => (0x08, true),
            Control::Abandon => (0x14, false),
        };
        encoded(writes, number, 32)
    }

    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Control::Add => "add a device",
            Control::Info => "ask for a device",
            Control::Delete | Control::Abandon => "delete the device",
            Control::Start => "start the device",
            Control::Stop => "stop the device",
            Control::SetParams => "set the device's parameters",
        }
    }
}

/// The 32 bytes of a control command, at the start of the room an entry has.
///
/// `buffer`: address and length of what the command reads or writes. `data`: a number that
/// travels along (the server's process, for `Start`).
pub(super) fn control_command(device: u32, buffer: (u64, u16), data: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    put(&mut bytes, 0, &device.to_ne_bytes());
    put(&mut bytes, 4, &NO_QUEUE.to_ne_bytes());
    put(&mut bytes, 6, &buffer.1.to_ne_bytes());
    put(&mut bytes, 8, &buffer.0.to_ne_bytes());
    put(&mut bytes, 16, &data.to_ne_bytes());
    bytes
}

/// Flags of a device: commands are encoded.
const F_CMD_IOCTL_ENCODE: u64 = 1 << 6;

/// What a device is to be (`ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceInfo {
    pub queues: u16,
    pub depth: u16,
    pub request_max: u32,
    pub device: u32,
    pub process: i32,
    /// Told by the driver.
    pub state: DeviceState,
    /// Whose it is. The driver keeps it and reads nothing into it.
    pub mark: Mark,
}

/// State of a device, as the driver tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceState {
    /// Not started yet, stopped, or its server is gone.
    Dead,
    /// Live, or waiting to be recovered.
    Used,
}

/// Marks a device as one of hoistway's: who made it, for those who find it without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// "hois", above the number of the process.
    const OURS: u64 = 0x686f_6973;

    pub fn of(process: u32) -> Mark {
        Mark(Mark::OURS << 32 | u64::from(process))
    }

    /// The process that made it, if that was a hoistway.
    pub fn process(self) -> Option<u32> {
        (self.0 >> 32 == Mark::OURS).then_some(self.0 as u32)
    }
}

impl DeviceInfo {
    /// Bytes.
    pub const LEN: usize = 64;

    pub fn encode(&self) -> [u8; DeviceInfo::LEN] {
        let mut bytes = [0; DeviceInfo::LEN];
        put(&mut bytes, 0, &self.queues.to_ne_bytes());
        put(&mut bytes, 2, &self.depth.to_ne_bytes());
        put(&mut bytes, 8, &self.request_max.to_ne_bytes());
        put(&mut bytes, 12, &self.device.to_ne_bytes());
        put(&mut bytes, 16, &self.process.to_ne_bytes());
        put(&mut bytes, 24, &F_CMD_IOCTL_ENCODE.to_ne_bytes());
        put(&mut bytes, 32, &self.mark.0.to_ne_bytes());
        bytes
    }

    /// What the driver made of it.
    pub fn decode(bytes: &[u8; DeviceInfo::LEN]) -> DeviceInfo {
        DeviceInfo {
            queues: u16::from_ne_bytes(array(bytes, 0)),
            depth: u16::from_ne_bytes(array(bytes, 2)),
            request_max: u32::from_ne_bytes(array(bytes, 8)),
            device: u32::from_ne_bytes(array(bytes, 12)),
            process: i32::from_ne_bytes(array(bytes, 16)),
            state: match u16::from_ne_bytes(array(bytes, 4)) {
                0 => DeviceState::Dead,
                _ => DeviceState::Used,
            },
            mark: Mark(u64::from_ne_bytes(array(bytes, 32))),
        }
    }
}

/// What the block device tells its users (`ublk_params`, the basic part and discards).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params {
    pub sectors: u64,
    /// Bytes per block, a power of two from 512 on.
    pub block: u32,
    pub request_max: u32,
    pub read_only: bool,
    pub rotational: bool,
    pub discard: bool,
}

impl Params {
    const LEN: usize = 60;

    pub fn encode(&self) -> [u8; Params::LEN] {
        let mut bytes = [0; Params::LEN];
        let shift = self.block.trailing_zeros() as u8;
        // A flush is asked for and forced unit access understood: storage may have a cache.
        let mut attributes: u32 = 1 << 2 | 1 << 3;
        attributes |= u32::from(self.read_only) | u32::from(self.rotational) << 1;
        put(&mut bytes, 0, &(Params::LEN as u32).to_ne_bytes());
        // The parts that are there: basic, discard.
        put(&mut bytes, 4, &3u32.to_ne_bytes());
        put(&mut bytes, 8, &attributes.to_ne_bytes());
        // Blocks, logical and physical; optimal and smallest request.
        put(&mut bytes, 12, &[shift, shift.max(12), shift.max(12), shift]);
        put(&mut bytes, 16, &(self.request_max / 512).to_ne_bytes());
        put(&mut bytes, 24, &self.sectors.to_ne_bytes());
        // Discards of any length, as writes of zeroes.
        let most: u32 = if self.read_only { 0 } else { u32::MAX >> 9 };
        let discard = if self.discard { most } else { 0 };
        put(&mut bytes, 44, &self.block.max(4096).to_ne_bytes());
        put(&mut bytes, 48, &discard.to_ne_bytes());
        put(&mut bytes, 52, &most.to_ne_bytes());
        put(&mut bytes, 56, &u16::from(discard > 0).to_ne_bytes());
        bytes
    }
}

/// A command of a queue. The address is that of the buffer of the tag's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueCommand {
    /// Wait for the first request of a tag.
    Fetch { tag: u16, address: u64 },
    /// The tag's request is over; wait for the next.
    Commit { tag: u16, result: i32, address: u64 },
}

impl QueueCommand {
    pub fn number(self) -> u32 {
        match self {
            QueueCommand::Fetch { .. } => encoded(true, 0x20, 16),
            QueueCommand::Commit { .. } => encoded(true, 0x21, 16),
        }
    }

    pub fn tag(self) -> u16 {
        match self {
            QueueCommand::Fetch { tag, .. } | QueueCommand::Commit { tag, .. } => tag,
        }
    }

    /// `ublksrv_io_cmd`, of queue 0.
    pub fn encode(self) -> [u8; 16] {
        let (tag, result, address) = match self {
            QueueCommand::Fetch { tag, address } => (tag, 0, address),
            QueueCommand::Commit { tag, result, address } => (tag, result, address),
        };
        let mut bytes = [0; 16];
        put(&mut bytes, 2, &tag.to_ne_bytes());
        put(&mut bytes, 4, &result.to_ne_bytes());
        put(&mut bytes, 8, &address.to_ne_bytes());
        bytes
    }
}

/// A request as the driver describes it (`ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UblkRequest {
    pub op: Op,
    /// 512-byte sectors.
    pub start: u64,
    pub sectors: u32,
    pub durable: bool,
    /// Zeroes that must stay allocated.
    pub keep: bool,
}

impl UblkRequest {
    /// # Errors
    ///
    /// EOPNOTSUPP for what we never said we could.
    pub fn decode(bytes: &[u8; DESCRIPTION]) -> Result<UblkRequest, Errno> {
        let word = u32::from_ne_bytes(array(bytes, 0));
        let op = match word & 0xff {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            3 => Op::Discard,
            5 => Op::WriteZeroes,
            _ => return Err(Errno::OPNOTSUPP),
        };
        Ok(UblkRequest {
            op,
            start: u64::from_ne_bytes(array(bytes, 8)),
            sectors: u32::from_ne_bytes(array(bytes, 4)),
            durable: word >> 13 & 1 == 1,
            keep: word >> 15 & 1 == 1,
        })
    }

    #[cfg(test)]
    pub fn encode(&self) -> [u8; DESCRIPTION] {
        let op: u32 = match self.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard => 3,
            Op::WriteZeroes => 5,
        };
        let word = op | u32::from(self.durable) << 13 | u32::from(self.keep) << 15;
        let mut bytes = [0; DESCRIPTION];
        put(&mut bytes, 0, &word.to_ne_bytes());
        put(&mut bytes, 4, &self.sectors.to_ne_bytes());
        put(&mut bytes, 8, &self.start.to_ne_bytes());
        bytes
    }
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of that length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers as other programs send them.
    #[test]
    fn commands_have_the_numbers_of_the_interface() {
        assert_eq!(Control::Add.number(), 0xc020_7504);
        assert_eq!(Control::Delete.number(), 0xc020_7505);
        assert_eq!(Control::Start.number(), 0xc020_7506);
        assert_eq!(Control::Stop.number(), 0xc020_7507);
        assert_eq!(Control::SetParams.number(), 0xc020_7508);
        assert_eq!(Control::Info.number(), 0x8020_7502);
        assert_eq!(Control::Abandon.number(), 0x8020_7514);
        let fetch = QueueCommand::Fetch { tag: 7, address: 0x1122_3344_5566 };
        assert_eq!((fetch.number(), fetch.tag()), (0xc010_7520, 7));
        let commit = QueueCommand::Commit { tag: 8, result: -5, address: 3 };
        assert_eq!((commit.number(), commit.tag()), (0xc010_7521, 8));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn layouts_are_those_of_the_interface() {
        let command = control_command(3, (0x0102, 64), 4711);
        assert_eq!(command[..8], [3, 0, 0, 0, 0xff, 0xff, 64, 0]);
        assert_eq!(command[8..24], [2, 1, 0, 0, 0, 0, 0, 0, 0x67, 0x12, 0, 0, 0, 0, 0, 0]);
        assert!(command[24..].iter().all(|&b| b == 0));

        let commit = QueueCommand::Commit { tag: 0x0203, result: -5, address: 0x0708 };
        let expected = [0, 0, 3, 2, 0xfb, 0xff, 0xff, 0xff, 8, 7, 0, 0, 0, 0, 0, 0];
        assert_eq!(commit.encode(), expected);

        let info = DeviceInfo {
            queues: 1,
            depth: 128,
            request_max: 1 << 19,
            device: 9,
            process: 77,
            state: DeviceState::Dead,
            mark: Mark::of(0x0102_0304),
        };
        let mut bytes = info.encode();
        assert_eq!(bytes[..20], [1, 0, 128, 0, 0, 0, 0, 0, 0, 0, 8, 0, 9, 0, 0, 0, 77, 0, 0, 0]);
        assert_eq!(bytes[24..40], [64, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0x73, 0x69, 0x6f, 0x68]);
        assert_eq!(DeviceInfo::decode(&bytes), info);
        for state in [1, 2] {
            bytes[4] = state;
            assert_eq!(DeviceInfo::decode(&bytes), DeviceInfo { state: DeviceState::Used, ..info });
        }

        let params = Params {
            sectors: 2048,
            block: 512,
            request_max: 1 << 19,
            read_only: false,
            rotational: true,
            discard: true,
        };
        let bytes = params.encode();
        assert_eq!(bytes[..16], [60, 0, 0, 0, 3, 0, 0, 0, 14, 0, 0, 0, 9, 12, 12, 9]);
        assert_eq!(bytes[16..32], [0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            bytes[40..],
            [0, 0, 0, 0, 0, 16, 0, 0, 255, 255, 127, 0, 255, 255, 127, 0, 1, 0, 0, 0]
        );
        let fixed = Params { read_only: true, ..params }.encode();
        assert_eq!((fixed[8], &fixed[48..]), (15, &[0; 12][..]));
    }

    #[test]
    fn a_mark_names_its_process_and_other_programs_numbers_name_none() {
        assert_eq!(Mark::of(4711).process(), Some(4711));
        for other in [0, 1, 4711, u64::MAX] {
            assert_eq!(Mark(other).process(), None);
        }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        for op in [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes] {
            for (durable, keep) in [(false, false), (true, false), (false, true)] {
                let request = UblkRequest { op, start: 1 << 40, sectors: 1024, durable, keep };
                assert_eq!(UblkRequest::decode(&request.encode()), Ok(request));
            }
        }
        let mut unknown = [0; DESCRIPTION];
        for op in [4u32, 6, 10, 255] {
            unknown[..4].copy_from_slice(&op.to_ne_bytes());
            assert_eq!(UblkRequest::decode(&unknown), Err(Errno::OPNOTSUPP));
        }
    }
}
