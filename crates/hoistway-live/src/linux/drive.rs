//! The drive behind the disk of the guest.
