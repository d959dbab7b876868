//! Comma-separated values (RFC 4180), as far as the run directory needs them.
//!
//! Spreadsheets take a field that begins with `=`, `+`, `-` or `@` for a formula, and names in a run may come from anybody's
//! trace. Such a field, unless it is a number, is written behind an apostrophe, which is how spreadsheets mark text;
//! whoever reads takes the apostrophe away again. A field that has one already gets another, so nothing is lost.

use std::io::BufRead;

/// Longest line, with the line breaks of its quoted fields.
const LINE_MAX: usize = 1 << 20;

/// Appends one line.
pub fn push_line<'a>(out: &mut String, fields: impl IntoIterator<Item = &'a str>) {
    for (i, field) in fields.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let mark = if is_formula(field) { "'" } else { "" };
        // A semicolon or a tab ends a field where spreadsheets are set so.
        let ends = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r' | b';' | b'\t');
        if field.bytes().any(ends) {
            out.push('"');
            out.push_str(mark);
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(mark);
            out.push_str(field);
        }
    }
    out.push('\n');
}

/// With what a formula begins. The wide forms mean the same where such letters are written.
const FORMULA: [char; 10] =
    ['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Whether a spreadsheet calculates the field, if it is marked or not.
fn is_formula(field: &str) -> bool {
    let text = field.trim_start_matches('\'');
    let begins = text.chars().next().is_some_and(|first| FORMULA.contains(&first));
    begins && text.parse::<f64>().is_err()
}

/// The field that was written so.
fn unmark(field: &mut String) {
    if field.starts_with('\'') && is_formula(field) {
        field.remove(0);
    }
}

/// Every line, split into its fields; an error names the line.
pub fn parse(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut rows, mut all) = (Rows::new(text.as_bytes()), Vec::new());
    let mut row = Vec::new();
    while rows.next(&mut row)?.is_some() {
        all.push(std::mem::take(&mut row));
    }
    Ok(all)
}

/// The lines of a text that is read as it is needed.
#[derive(Debug)]
pub struct Rows<R> {
    source: R,
    /// The line to come, from 1.
    line: usize,
    bytes: Vec<u8>,
}

impl<R: BufRead> Rows<R> {
    /// Of this source.
    pub fn new(source: R) -> Rows<R> {
        Rows { source, line: 1, bytes: Vec::new() }
    }

    /// The next line into `row`, and its number; `None` at the end.
    pub fn next(&mut self, row: &mut Vec<String>) -> Result<Option<usize>, String> {
        let first = self.line;
        self.bytes.clear();
        // With an odd number of quotation marks the line goes on behind its break.
        let (mut looked, mut quoted) = (0, false);
        loop {
            let left = (LINE_MAX + 1 - self.bytes.len()) as u64;
            let mut limited = std::io::Read::take(&mut self.source, left);
            let read = limited.read_until(b'\n', &mut self.bytes);
            if read.map_err(|e| format!("{}: {e}", self.line))? == 0 {
                break;
            }
            if self.bytes.len() > LINE_MAX {
                return Err(format!("{first}: is longer than {} KiB", LINE_MAX >> 10));
            }
            self.line += usize::from(self.bytes.ends_with(b"\n"));
            let marks = self.bytes[looked..].iter().filter(|b| **b == b'"').count();
            quoted ^= marks % 2 == 1;
            looked = self.bytes.len();
            if !quoted {
                break;
            }
        }
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(&self.bytes);
        let text = text.map_err(|_| format!("{first}: is no text in UTF-8"))?;
        split(text, row).map_err(|what| format!("{first}: {what}"))?;
        Ok(Some(first))
    }
}

/// The fields of one line into `row`, whose texts are used again.
fn split(text: &str, row: &mut Vec<String>) -> Result<(), &'static str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut rest = text.strip_suffix('\r').unwrap_or(text);
    let mut count = 0;
    loop {
        if row.len() == count {
            row.push(String::new());
        }
        let field = &mut row[count];
        field.clear();
        count += 1;
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted_field(quoted, field).ok_or("a quoted field does not end")?;
            rest = &quoted[end..];
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            if rest[..end].contains('"') {
                return Err("a quotation mark inside a field without quotes");
            }
            field.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        unmark(field);
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.is_empty() => break,
            None => return Err("a quoted field is followed by more than a comma"),
        }
    }
    row.truncate(count);
    Ok(())
}

/// The text of a field up to its closing quotation mark; where it ends behind that.
fn quoted_field(text: &str, field: &mut String) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('"')?;
        field.push_str(&text[from..at]);
        if !text[at + 1..].starts_with('"') {
            return Some(at + 1);
        }
        field.push('"');
        from = at + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let rows = [vec!["a", "b,c", ""], vec!["say \"no\"", "two\nlines", "x"]];
        let mut text = String::new();
        rows.iter().for_each(|r| push_line(&mut text, r.iter().copied()));
        assert_eq!(text, "a,\"b,c\",\n\"say \"\"no\"\"\",\"two\nlines\",x\n");
        assert_eq!(parse(&text).unwrap(), rows);
        assert!(parse("a,\"b").unwrap_err().starts_with("1:"));
        assert!(parse("a,b\"c\n").is_err());
        assert!(parse("a\n\"b\"c\n").unwrap_err().starts_with("2:"));
        assert_eq!(parse("a,b").unwrap(), [["a", "b"]]);
        assert_eq!(parse("a\r\n\nb").unwrap(), [["a"], [""], ["b"]]);
        let long = format!("a\n{}\n", "x".repeat(LINE_MAX));
        assert!(parse(&long).unwrap_err().starts_with("2: is longer than 1024 KiB"));
    }

    #[test]
    fn formulas_are_marked_as_text_and_numbers_are_not() {
        let pairs = [
            ("=1+1", "'=1+1"),
            ("+x", "'+x"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-cmd", "'-cmd"),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            ("=\"a\",b", "\"'=\"\"a\"\",b\""),
            ("a;=1", "\"a;=1\""),
            ("'=1", "''=1"),
            ("''=1", "'''=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("-5", "-5"),
            ("+0.5", "+0.5"),
            ("'-5", "'-5"),
            ("'a", "'a"),
            ("'", "'"),
            ("", ""),
            ("x=1", "x=1"),
        ];
        let mut text = String::new();
        push_line(&mut text, pairs.map(|p| p.0));
        assert_eq!(text, pairs.map(|p| p.1).join(",") + "\n");
        assert_eq!(parse(&text).unwrap(), [pairs.map(|p| p.0)]);
    }
}
