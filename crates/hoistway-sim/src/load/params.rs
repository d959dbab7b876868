//! Parameters of loads and of the host as they stand in experiment files.

use hoistway_run::JobError;
use toml::Value;

/// One parameter, for `hoistway show` and the documents.
#[derive(Clone, Copy, Debug)]
pub struct ParamDoc {
    /// Name in the experiment file.
    pub name: &'static str,
    /// Value when it is not given.
    pub default: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
}

/// A whole number of bytes: an integer, or a text in the grammar of [`hoistway::quantity`].
pub fn quantity(value: &Value) -> Result<u64, String> {
    match value.as_str() {
        Some(text) => Ok(hoistway::quantity::bytes(text)?),
        None => whole(value),
    }
}

/// A length of time in nanoseconds: a text with its unit. A bare number has none and is refused.
pub fn duration(value: &Value) -> Result<u64, String> {
    let text = value.as_str().ok_or("write a time with its unit in quotes, such as \"10ms\"")?;
    Ok(hoistway::quantity::duration(text)?.0)
}

/// A whole number, not negative.
pub fn whole(value: &Value) -> Result<u64, String> {
    value
        .as_integer()
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| "give a whole number, 0 or above".into())
}

/// A number.
pub fn real(value: &Value) -> Result<f64, String> {
    let n = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
    n.filter(|n| n.is_finite()).ok_or_else(|| "give a number".into())
}

/// true or false, also as 1 or 0.
pub fn switch(value: &Value) -> Result<bool, String> {
    match (value.as_bool(), value.as_integer()) {
        (Some(b), _) => Ok(b),
        (None, Some(0)) => Ok(false),
        (None, Some(1)) => Ok(true),
        _ => Err("give true or false".into()),
    }
}

/// The parameter table of one process while its load is built.
#[derive(Debug)]
pub struct Params<'a> {
    /// Whose they are, for messages.
    of: String,
    table: &'a toml::Table,
}

impl<'a> Params<'a> {
    /// Checks that `table` names only parameters in `docs`.
    pub fn new(
        of: &str,
        table: &'a toml::Table,
        docs: &[ParamDoc],
    ) -> Result<Params<'a>, JobError> {
        let params = Params { of: of.to_string(), table };
        for name in table.keys() {
            if !docs.iter().any(|d| d.name == name) {
                let known: Vec<&str> = docs.iter().map(|d| d.name).collect();
                return Err(params.wrong(format!(
                    "unknown parameter '{name}'; there are: {}",
                    known.join(", ")
                )));
            }
        }
        Ok(params)
    }

    /// An error about this process's load.
    pub fn wrong(&self, message: String) -> JobError {
        JobError::Parameter { of: self.of.clone(), message }
    }

    fn read<T>(
        &self,
        name: &str,
        parse: fn(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, JobError> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        parse(value).map(Some).map_err(|m| self.wrong(format!("{name} = {value}: {m}")))
    }

    /// A number of bytes.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>, JobError> {
        self.read(name, quantity)
    }

    /// A length of time in nanoseconds.
    pub fn time(&self, name: &str) -> Result<Option<u64>, JobError> {
        self.read(name, duration)
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, JobError> {
        self.read(name, whole)
    }

    /// A whole number that may be negative.
    pub fn signed(&self, name: &str) -> Result<Option<i64>, JobError> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        match (value.as_integer(), quantity(value)) {
            (Some(n), _) => Ok(Some(n)),
            (None, Ok(n)) if i64::try_from(n).is_ok() => Ok(Some(n as i64)),
            _ => Err(self.wrong(format!("{name} = {value}: give a whole number"))),
        }
    }

    /// A number.
    pub fn real(&self, name: &str) -> Result<Option<f64>, JobError> {
        self.read(name, real)
    }

    /// A switch.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, JobError> {
        self.read(name, switch)
    }

    /// A name.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, JobError> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        let text = value.as_str().filter(|t| !t.is_empty());
        let wrong = || self.wrong(format!("{name} = {value}: give a name in quotes"));
        text.map(Some).ok_or_else(wrong)
    }

    /// Names: one in quotes, or a list of them; none if it is not given.
    pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, JobError> {
        let Some(list) = self.table.get(name).and_then(Value::as_array) else {
            return Ok(self.text(name)?.into_iter().collect());
        };
        let texts: Option<Vec<&str>> =
            list.iter().map(|v| v.as_str().filter(|t| !t.is_empty())).collect();
        let wrong = || self.wrong(format!("{name}: give a list of names in quotes"));
        texts.filter(|t| !t.is_empty()).ok_or_else(wrong)
    }

    /// Whether it is given.
    pub fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// One of `words`, as its index.
    pub fn choice(&self, name: &str, words: &[&str]) -> Result<Option<usize>, JobError> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        let hit = value.as_str().and_then(|v| words.iter().position(|&w| w == v));
        match hit {
            Some(i) => Ok(Some(i)),
            None => {
                Err(self.wrong(format!("{name} = {value}: choose one of {}", words.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_know_their_units() {
        assert_eq!(quantity(&Value::from("4k")), Ok(4096));
        assert_eq!(quantity(&Value::from("500 MiB")), Ok(500 << 20));
        assert_eq!(quantity(&Value::from("10MB")), Ok(10_000_000));
        assert_eq!(quantity(&Value::from(512)), Ok(512));
        assert!(quantity(&Value::from("4 parsec")).is_err());
        assert!(quantity(&Value::from(-1)).is_err());
        assert_eq!(duration(&Value::from("10 ms")), Ok(10_000_000));
        assert!(duration(&Value::from("10")).is_err());
        assert!(duration(&Value::from(10)).unwrap_err().contains("with its unit"));
        assert_eq!(quantity(&Value::from("1.5g")), Ok(3 << 29));
    }
}
