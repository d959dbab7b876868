//! Ours beside the kernel's own of the same name, in one kernel: a table of both has two names. Nothing else is different.

use super::{Entry, bfq, find, kyber, mq_deadline};
use crate::stage::StageInfo;

macro_rules! twin {
    ($name:literal, $of:expr) => {
        Entry { stage: StageInfo { name: $name, ..$of.stage }, ..$of }
    };
}

static BFQ: Entry = twin!("h-bfq", bfq::ENTRY);
static KYBER: Entry = twin!("h-kyber", kyber::ENTRY);
static MQ_DEADLINE: Entry = twin!("h-mq-deadline", mq_deadline::ENTRY);

/// Those that the kernel has too, by the names of the kernel module. No list has them: in the simulator they are what is
/// called without `h-`.
pub static TWINS: &[&Entry] = &[&MQ_DEADLINE, &BFQ, &KYBER];

/// What a name means where the kernel's own are at hand, too: the scheduler of the registry, or the twin.
pub fn find_or_twin(name: &str) -> Option<&'static Entry> {
    find(name).or_else(|| twin(name))
}

/// The twin of that name.
pub fn twin(name: &str) -> Option<&'static Entry> {
    TWINS.iter().copied().find(|e| e.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{module_name, of_module};

    #[test]
    fn each_is_the_scheduler_that_the_module_calls_so() {
        for twin in TWINS {
            let of = of_module(twin.name).unwrap();
            assert_eq!(module_name(twin), Some(twin.name));
            assert_eq!(
                find(twin.name).map(|e| e.name),
                None,
                "{} is no name of the registry",
                twin.name
            );
            assert_eq!(twin.name.strip_prefix("h-"), Some(of.name));
            assert_eq!((twin.summary, twin.tunables.len()), (of.summary, of.tunables.len()));
            assert_eq!(twin.replaces_wbt, of.replaces_wbt);
        }
    }
}
