//! Room at the device: driver tags, and commands that run alone.

use crate::device::Device;
use crate::request::Op;

/// Requests in the device.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Driver tags in use.
    pub used: u32,
    /// A command that runs alone is with the device (or waits in its adapter): a flush or discard of a device that
    /// cannot queue them. Sending more behind it would only fill a queue in which nobody can choose any longer.
    pub alone: bool,
    /// A run stopped for lack of room; the queues are to be run when there is some again.
    pub starved: bool,
}

fn runs_alone(op: Op, device: &Device) -> bool {
    device.flush_nonqueued && matches!(op, Op::Flush | Op::Discard)
}

impl Room {
    /// A free driver tag, and no command that runs alone.
    pub fn any(&self, device: &Device) -> bool {
        !self.alone && self.used < device.queue_depth
    }

    /// A command goes to the device.
    pub fn take(&mut self, op: Op, device: &Device) {
        self.used += 1;
        self.alone |= runs_alone(op, device);
    }

    /// It has come back.
    pub fn give_back(&mut self, op: Op, device: &Device) {
        self.used -= 1;
        if runs_alone(op, device) {
            self.alone = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Sectors;

    fn device(flush_nonqueued: bool) -> Device {
        let mut device = Device::new(Sectors(1 << 30), 2);
        device.flush_nonqueued = flush_nonqueued;
        device
    }

    #[test]
    fn there_are_as_many_tags_as_the_device_is_deep() {
        let (mut room, d) = (Room::default(), device(false));
        for op in [Op::Read, Op::Flush] {
            assert!(room.any(&d));
            room.take(op, &d);
        }
        assert!(!room.any(&d));
        room.give_back(Op::Read, &d);
        assert!(room.any(&d));
    }

    #[test]
    fn a_command_that_runs_alone_takes_all_room() {
        for op in [Op::Flush, Op::Discard] {
            let (mut room, d) = (Room::default(), device(true));
            room.take(op, &d);
            assert!(!room.any(&d));
            room.give_back(op, &d);
            assert!(room.any(&d) && room.used == 0);
            room.take(Op::Write, &d);
            assert!(room.any(&d), "others do not");
        }
    }
}
