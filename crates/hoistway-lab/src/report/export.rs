//! The charts as files of their own. The page's drawings name classes; here the rules of these classes go
//! with them, with the light colours written out, since few programs that read SVG know custom properties.

use super::html::{self, CHART};
use super::svg::PALETTE;
use crate::result::Run;
use std::collections::BTreeMap;

/// Every chart of the report: file name and text. The same run gives the same bytes.
pub fn svg(run: &Run) -> Vec<(String, String)> {
    let style = style();
    let mut out: Vec<(String, String)> = Vec::new();
    html::telling_charts(run, &mut |of, chart| {
        let name = file_name(&format!("{of}.{}", chart.slug));
        // Names of users may differ in what a file name cannot hold.
        let taken = out.iter().filter(|o| o.0.starts_with(&name)).count();
        let name = if taken == 0 { name } else { format!("{name}.{}", taken + 1) };
        out.push((format!("{name}.svg"), standalone(&chart.svg, &style)));
    });
    out
}

/// The text as one component of a path: letters, digits and the usual signs.
pub(crate) fn file_name(text: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    text.chars().map(|c| if good(c) { c } else { '_' }).collect()
}

/// A drawing with its name space, its size, its rules and a ground.
fn standalone(svg: &str, style: &str) -> String {
    let (open, rest) = svg.split_once('>').expect("a drawing begins with its tag");
    let size = open.split("viewBox=\"0 0 ").nth(1).and_then(|s| s.split('"').next());
    let (width, height) = size.and_then(|s| s.split_once(' ')).expect("a drawing has a view box");
    // Title and description come first; then the ground.
    let (head, body) = rest.split_once("</desc>").expect("a drawing is described");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- Made by hoistway -->\n{} xmlns=\"http://www.w3.org/2000/svg\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\">{head}</desc>\
         <style>{style}</style><rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>{body}\n",
        open
    )
}

/// The rules for drawings with the colours of the light theme in place of their names. Rules with the
/// colour of a configuration become one rule for each.
fn style() -> String {
    let colours = colours();
    let rules: String = CHART.lines().skip_while(|l| !l.starts_with(SVG_RULES)).skip(1).collect();
    let mut out = String::new();
    for rule in rules.split_inclusive('}') {
        let Some((selector, body)) = rule.split_once('{') else { continue };
        // Themes and hovering are the page's.
        if selector.contains(':') || body.contains("--k:") {
            continue;
        }
        if body.contains("var(--k)") {
            for key in 0..PALETTE {
                let name = format!("--k{key}");
                let each: Vec<String> =
                    selector.split(',').map(|s| format!(".k{key} {}", s.trim())).collect();
                let body = body.replace("var(--k)", &colours[name.as_str()]);
                out.push_str(&format!("{}{{{}", each.join(","), resolved(&body, &colours)));
            }
        } else {
            out.push_str(&format!("{}{{{}", selector.trim(), resolved(body, &colours)));
        }
    }
    out
}

/// Where the rules for drawings begin.
const SVG_RULES: &str = "/* drawings */";

/// The custom properties of the light theme.
fn colours() -> BTreeMap<&'static str, String> {
    let light = CHART.split('{').nth(1).and_then(|s| s.split('}').next()).unwrap_or_default();
    let pairs = light.split(';').filter_map(|p| p.trim().split_once(':'));
    pairs.map(|(name, value)| (name.trim(), value.trim().to_string())).collect()
}

fn resolved(body: &str, colours: &BTreeMap<&'static str, String>) -> String {
    let mut out = body.to_string();
    for (name, value) in colours {
        out = out.replace(&format!("var({name})"), value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_saved_drawing_name_colours_only() {
        let style = style();
        assert!(!style.contains("var(") && !style.contains("@media"), "{style}");
        for rule in [".k0 .dot", ".k11 .dot", ".axis{", ".frontier{", ".t{", ".k5 .bar"] {
            assert!(style.contains(rule), "{rule}: {style}");
        }
        assert_eq!(style.matches('{').count(), style.matches('}').count());
    }

    #[test]
    fn file_names_hold_nothing_strange() {
        assert_eq!(file_name("a/b c.{x=1}.trade-off"), "a_b_c._x_1_.trade-off");
        assert_eq!(file_name("../x.mixed-sync"), ".._x.mixed-sync", "one component");
    }
}
