//! Expressions in parentheses: `+ - * / % ^`, numbers with units, and fio's keywords.
//!
//! By the manual an expression stands in parentheses, so that what stands in none is a number with a unit; a keyword
//! makes an expression of what stands around it (`8*$mb_memory`).

/// The value of an expression; `unit` reads a number with its unit.
pub fn value(text: &str, unit: &dyn Fn(&str) -> Result<f64, String>) -> Result<f64, String> {
    let mut parser = Parser { text, rest: text, unit, depth: 0 };
    let value = parser.sum()?;
    match parser.rest.trim_start() {
        "" if value.is_finite() => Ok(value),
        "" => Err(format!("'{text}' has no value")),
        rest => Err(format!("'{text}': '{rest}' is no part of an expression")),
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    unit: &'a dyn Fn(&str) -> Result<f64, String>,
    depth: u32,
}

/// Parentheses in parentheses, and powers of powers.
const DEPTH: u32 = 64;

impl Parser<'_> {
    /// The next sign, if it is one of these.
    fn sign(&mut self, signs: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let sign = rest.chars().next().filter(|c| signs.contains(c))?;
        self.rest = &rest[sign.len_utf8()..];
        Some(sign)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.sign(&['+', '-']) {
            let next = self.product()?;
            value = if sign == '+' { value + next } else { value - next };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.power()?;
        while let Some(sign) = self.sign(&['*', '/', '%']) {
            let next = self.power()?;
            if sign != '*' && next == 0.0 {
                return Err(format!("'{}' divides by 0", self.text));
            }
            value = match sign {
                '*' => value * next,
                '/' => value / next,
                _ => value % next,
            };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("an expression of more than {DEPTH} parts in one another"));
        }
        let mut value = self.atom()?;
        if self.sign(&['^']).is_some() {
            value = libm::pow(value, self.power()?);
        }
        self.depth -= 1;
        Ok(value)
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.sign(&['(']).is_some() {
            let value = self.sum()?;
            match self.sign(&[')']) {
                Some(_) => Ok(value),
                None => Err(format!("'{}': a parenthesis is not closed", self.text)),
            }
        } else if self.sign(&['-']).is_some() {
            self.power().map(|value| -value)
        } else {
            self.number()
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        if end == 0 {
            return Err(format!("'{}': a number is missing", self.text));
        }
        self.rest = &rest[end..];
        (self.unit)(&rest[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_bind_as_everywhere() {
        let plain = |text: &str| text.parse::<f64>().map_err(|e| e.to_string());
        let of = |text: &str| value(text, &plain);
        assert_eq!(of("(4*1024*16)"), Ok(65_536.0));
        assert_eq!(of("2+3*4"), Ok(14.0));
        assert_eq!(of("( 2 + 3 ) * 4 - 1"), Ok(19.0));
        assert_eq!(of("2^3^2"), Ok(512.0));
        assert_eq!(of("7 % 4 / 2"), Ok(1.5));
        assert_eq!(of("-(3-5)"), Ok(2.0));
        for bad in ["", "(1", "1)", "1+", "1/0", "1%0", "x", "2 3", "()", "9^9^9^9"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(of(&"(".repeat(100_000)).is_err(), "no stack is that deep");
        assert!(of(&"-".repeat(100_000)).is_err() && of(&"1^".repeat(100_000)).is_err());
    }
}
