//! The command in a run directory, or beside finished runs, where it asks for nothing but a simulation. Both may come from a
//! stranger.

use hoistway_fio::shell_words;

/// Options that it may have: none of these writes anything, and none leaves the simulator.
const ASKED: &str = "backlog closed config depth drive duration faults fio format from groups job limit open quick reps \
     scale scheduler seed speed split-by strict sync-writes target to workload";

/// The words of a command behind `hoistway`, if its verb is one of `verbs`.
///
/// # Errors
///
/// What of it is no part of a simulation.
pub fn simulation(command: &str, verbs: &[&str]) -> Result<Vec<String>, String> {
    let words = shell_words(command)
        .map_err(|e| format!("its command is cut off, as in a quotation mark: {e}"))?;
    let (program, verb) = (words.first(), words.get(1));
    let (program, verb) = (program.map(String::as_str), verb.map(String::as_str));
    if program != Some("hoistway") || !verb.is_some_and(|verb| verbs.contains(&verb)) {
        let known = verbs.join(", ");
        return Err(format!("its command is not `hoistway VERB` with one of: {known}"));
    }
    for word in words.iter().skip(2).filter(|word| word.starts_with('-')) {
        let asked = |name: &str| {
            // Of a trace it chooses records; elsewhere it names a disk whose data is given up.
            ASKED.split(' ').any(|known| known == name)
                || (name, verb) == ("device", Some("replay"))
        };
        word.strip_prefix("--")
            .filter(|name| asked(name))
            .ok_or_else(|| format!("its command has {word}, which is no part of a simulation"))?;
    }
    Ok(words[1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_the_shell_does() {
        let words = |text: &str| shell_words(text).ok();
        let all = words("hoistway compare --job 'my job.fio' --config 'bfq{a=1,b=2}'").unwrap();
        assert_eq!(all, ["hoistway", "compare", "--job", "my job.fio", "--config", "bfq{a=1,b=2}"]);
        assert_eq!(words("a 'it'\\''s'  ''").unwrap(), ["a", "it's", ""]);
        assert_eq!(words("a 'b"), None);
    }
}
