//! Lists on the command line: names with commas between, in one option or in several.

use crate::failure::Failure;
use hoistway_lab::config::split_list;

/// Most names of a list.
const LIST_MAX: usize = 1000;

/// Everything given, split at commas.
pub fn parts(given: &[String]) -> Vec<String> {
    given.iter().flat_map(|g| split_list(g)).collect()
}

/// `given`, or the experiment's default; each thing once.
pub fn chosen(given: &[String], default: &[String], what: &str) -> Result<Vec<String>, Failure> {
    let list = match parts(given) {
        list if list.is_empty() => default.to_vec(),
        list => list,
    };
    if list.len() > LIST_MAX {
        return Err(Failure::Usage(format!(
            "{} {what} names in the list, at most {LIST_MAX}",
            list.len()
        )));
    }
    if list.iter().any(String::is_empty) {
        return Err(Failure::Usage(format!(
            "an empty {what} name in the list; remove the extra comma"
        )));
    }
    match list.iter().enumerate().find(|(i, x)| list[..*i].contains(x)) {
        Some((_, twice)) => Err(Failure::Usage(format!("{what} '{twice}' is given twice"))),
        None => Ok(list),
    }
}
