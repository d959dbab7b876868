//! Comma-separated values (RFC 4180), as far as the run directory needs them.

/// Appends one line.
pub fn push_line<'a>(out: &mut String, fields: impl IntoIterator<Item = &'a str>) {
    for (i, field) in fields.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push('\n');
}

/// Every line, split into its fields; an error names the line.
pub fn parse(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut row, mut field, mut line) = (Vec::new(), String::new(), 1);
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            '"' => return Err(format!("{line}: a quotation mark inside a field without quotes")),
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
                line += 1;
            }
            c => {
                line += usize::from(c == '\n');
                field.push(c);
            }
        }
    }
    if quoted {
        return Err(format!("{line}: a quoted field does not end"));
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    Ok(rows)
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
        assert_eq!(parse("a,b").unwrap(), [["a", "b"]]);
    }
}
