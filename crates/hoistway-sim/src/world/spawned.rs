//! Processes of the block layer that loads make while a run goes on. To the events and the host they are
//! the one actor whose load made them; schedulers see each as a process of its own.

use hoistway::ProcId;

#[derive(Debug)]
struct SpawnedProc {
    id: ProcId,
    /// Whose load made it, and under which number.
    actor: usize,
    slot: u32,
    lasting: bool,
    alive: bool,
}

/// All of them, in order of their ids.
#[derive(Debug, Default)]
pub(super) struct Spawned {
    all: Vec<SpawnedProc>,
    names: Vec<String>,
}

impl Spawned {
    /// The living process of that actor and slot.
    pub fn find(&self, actor: usize, slot: u32) -> Option<ProcId> {
        // The latest are at the end, and few live at a time.
        let mine = |m: &&SpawnedProc| m.alive && (m.actor, m.slot) == (actor, slot);
        self.all.iter().rev().find(mine).map(|m| m.id)
    }

    /// A new one; the name of the `n`th of its kind ends in `#n`, from the second on.
    pub fn add(&mut self, actor: (usize, &str), slot: u32, name: &str, lasting: bool, id: ProcId) {
        let earlier = self.all.iter().filter(|m| (m.actor, m.slot) == (actor.0, slot)).count();
        let number = if earlier == 0 { String::new() } else { format!("#{}", earlier + 1) };
        self.names.push(format!("{}/{name}{number}", actor.1));
        self.all.push(SpawnedProc { id, actor: actor.0, slot, lasting, alive: true });
    }

    /// The actor that a process belongs to.
    pub fn actor_of(&self, id: ProcId) -> Option<usize> {
        let at = self.all.binary_search_by_key(&id.0, |m| m.id.0).ok()?;
        Some(self.all[at].actor)
    }

    /// One of the actor's living processes, which exits; the lasting ones only if `everyone` does.
    pub fn end_one(&mut self, actor: usize, everyone: bool) -> Option<ProcId> {
        let goes = |m: &&mut SpawnedProc| m.alive && m.actor == actor && (everyone || !m.lasting);
        let one = self.all.iter_mut().find(goes)?;
        one.alive = false;
        Some(one.id)
    }

    /// Their ids and names, in order of the ids.
    pub fn names(self) -> Vec<(ProcId, String)> {
        self.all.iter().map(|m| m.id).zip(self.names).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_the_generations_of_a_slot() {
        let mut made = Spawned::default();
        let target = (3, "target");
        made.add(target, 0, "app", false, ProcId(9));
        made.add(target, 1, "server", true, ProcId(10));
        assert_eq!(made.find(3, 0), Some(ProcId(9)));
        assert_eq!(made.end_one(3, false), Some(ProcId(9)));
        assert_eq!((made.end_one(3, false), made.find(3, 0)), (None, None));
        made.add(target, 0, "app", false, ProcId(11));
        assert_eq!((made.actor_of(ProcId(11)), made.actor_of(ProcId(8))), (Some(3), None));
        assert_eq!([3, 3].map(|a| made.end_one(a, true)), [ProcId(10), ProcId(11)].map(Some));
        let names = [(9, "target/app"), (10, "target/server"), (11, "target/app#2")];
        assert_eq!(made.names(), names.map(|(id, name)| (ProcId(id), name.to_string())));
    }
}
