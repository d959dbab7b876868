//! Makes a failing case small: delta debugging over its operations, then over its times and settings.

use crate::{Case, Failure, run};

/// A smaller case that breaks the same rule, and how it does. `spare` is asked before every trial; when it
/// says no, the smallest so far is the answer.
pub fn shrink(case: &Case, failure: &Failure, mut spare: impl FnMut() -> bool) -> (Case, Failure) {
    let mut best = (case.clone(), failure.clone());
    let mut trial = |best: &mut (Case, Failure), case: Case| {
        let same = |f: &Failure| f.broken.rule == best.1.broken.rule;
        if !spare() {
            return None;
        }
        Some(match run(&case).err().filter(same) {
            Some(failure) => {
                *best = (case, failure);
                true
            }
            None => false,
        })
    };
    // What follows the failure has no part in it.
    let mut cut = case.clone();
    cut.steps.truncate(failure.step + 1);
    trial(&mut best, cut);
    loop {
        let before = best.0.clone();
        if steps(&mut best, &mut trial).is_none()
            || controllers(&mut best, &mut trial).is_none()
            || times(&mut best, &mut trial).is_none()
            || fields(&mut best, &mut trial).is_none()
            || best.0 == before
        {
            return best;
        }
    }
}

type Best = (Case, Failure);

/// Cuts pieces out, halves first, single operations last. `None`: out of patience.
fn steps(best: &mut Best, trial: &mut impl FnMut(&mut Best, Case) -> Option<bool>) -> Option<()> {
    let mut piece = best.0.steps.len().div_ceil(2);
    while piece > 0 {
        // From the end: what comes last has the fewest consequences.
        let mut end = best.0.steps.len();
        while end > 0 {
            let from = end.saturating_sub(piece);
            let mut case = best.0.clone();
            case.steps.drain(from..end);
            trial(best, case)?;
            end = from.min(best.0.steps.len());
        }
        piece /= 2;
    }
    Some(())
}

fn controllers(
    best: &mut Best,
    trial: &mut impl FnMut(&mut Best, Case) -> Option<bool>,
) -> Option<()> {
    for at in (0..best.0.controllers.len()).rev() {
        let mut case = best.0.clone();
        case.controllers.remove(at);
        trial(best, case)?;
    }
    Some(())
}

/// Takes pauses out: everything from one operation on happens earlier.
fn times(best: &mut Best, trial: &mut impl FnMut(&mut Best, Case) -> Option<bool>) -> Option<()> {
    for at in 0..best.0.steps.len() {
        let before = if at == 0 { Default::default() } else { best.0.steps[at - 1].at };
        let pause = best.0.steps[at].at.since(before);
        if pause.0 == 0 {
            continue;
        }
        let mut case = best.0.clone();
        for step in &mut case.steps[at..] {
            step.at = before + step.at.since(before + pause);
        }
        trial(best, case)?;
    }
    Some(())
}

/// Puts what the device says back to its usual value.
fn fields(best: &mut Best, trial: &mut impl FnMut(&mut Best, Case) -> Option<bool>) -> Option<()> {
    for &(name, usual, _) in crate::op::FIELDS {
        if name != "still_ms" && best.0.get(name) != usual {
            let mut case = best.0.clone();
            case.set(name, usual);
            trial(best, case)?;
        }
    }
    Some(())
}
