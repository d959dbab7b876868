//! The scheduler as a whole, on a rig.
