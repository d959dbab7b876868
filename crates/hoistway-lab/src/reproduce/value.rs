//! A number of a table, or that it lies above one.

use crate::stats::Bounded;

/// A number, or that it lies above one (`>60`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The number.
    pub is: f64,
    /// The quantity is larger.
    pub beyond: bool,
}

impl From<Bounded> for Value {
    fn from(b: Bounded) -> Value {
        Value { is: b.value, beyond: b.exact().is_none() }
    }
}

impl Value {
    /// `2.5`, `>60`.
    pub fn parse(text: &str) -> Option<Value> {
        let (text, beyond) = text.strip_prefix('>').map_or((text, false), |t| (t, true));
        text.parse().ok().map(|is| Value { is, beyond })
    }

    /// The number itself.
    pub fn exactly(is: f64) -> Value {
        Value { is, beyond: false }
    }

    /// Four digits, so that a file does not change with the last bits.
    pub fn text(self) -> String {
        let digits = 3 - libm::log10(self.is.abs().max(1e-9)).floor() as i32;
        let text = match digits {
            0.. => {
                let text = format!("{:.*}", digits as usize, self.is);
                let short = text.trim_end_matches('0').trim_end_matches('.');
                if text.contains('.') { short.to_string() } else { text }
            }
            _ => format!("{:.0}", self.is),
        };
        format!("{}{text}", if self.beyond { ">" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_and_the_sign_of_a_bound() {
        let text = |is: f64| Value::exactly(is).text();
        assert_eq!(
            [text(4500.4), text(0.01234567), text(2.0), text(0.0)],
            ["4500", "0.01235", "2", "0"]
        );
        assert_eq!(Value::parse(">60").map(Value::text), Some(">60".into()));
        assert_eq!(Value::parse("about 5"), None);
    }
}
