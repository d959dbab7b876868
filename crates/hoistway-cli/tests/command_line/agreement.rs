//! One comparison, many renderings: the terminal's table, `metrics.csv`, `--json`, the page, its Markdown, `diff` and
//! `--baseline` say the same of the same records, in particular where a side is cut off, nothing, or the same.

use super::{Folder, stdout};
use serde_json::Value;
use std::fs;

/// A target that may not finish a read within the window, beside streams.
const CUT: &str = r#"
schema = 1
title = "A random reader beside streams, cut off"
about = "The target's read is not over when the grace is."
judge = "latency"
drives = ["hitachi-hts727550a9e364"]
configs = ["none-none", "mq-deadline", "none-bfq", "none"]
workloads = ["streams", "few"]
reps = 4
[host]
profile = "today"
[window]
head_start = "1s"
ramp = "0s"
measured = "1500ms"
grace = "100ms"
target_interval = "500ms"
device_interval = "1s"
[target]
load = "reader"
pattern = "rand"
bs = "4k"
[workload.streams]
summary = "15 processes read their own files sequentially"
[[workload.streams.procs]]
name = "stream"
count = 15
load = "reader"
pattern = "seq"
bs = "64k"
[workload.few]
summary = "one process reads its own file in small pieces"
[[workload.few.procs]]
name = "stream"
load = "reader"
pattern = "rand"
bs = "4k"
"#;

/// Streams alone, without anybody who waits.
const FREE: &str = r#"
schema = 1
title = "Streams"
about = "Nobody is measured."
judge = "throughput"
drives = ["hitachi-hts727550a9e364"]
configs = ["none-none", "mq-deadline", "none-bfq", "none"]
workloads = ["streams"]
reps = 3
[host]
profile = "today"
[window]
ramp = "0s"
measured = "1500ms"
target_interval = "500ms"
device_interval = "1s"
[workload.streams]
summary = "4 processes read their own files sequentially"
[[workload.streams.procs]]
name = "stream"
count = 4
load = "reader"
pattern = "seq"
bs = "64k"
"#;

/// What a rendering says of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Nothing,
    Word(String),
    /// Sign of a bound, number, whether it is in doubt.
    Number(String, f64, bool),
}

impl Told {
    /// Of `x0.0985`, `x>2?`, `43.0 ×`, `> 277 ×`, `same`, `-`, `–`.
    fn parse(text: &str) -> Told {
        let text =
            text.replace("&gt;", ">").replace("&lt;", "<").replace(['×', '\u{202f}', ' '], "");
        let text = text.trim_start_matches('x');
        if ["-", "–", ""].contains(&text) {
            return Told::Nothing;
        }
        let (text, doubt) = match text.strip_suffix('?') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let number = text.trim_start_matches(['<', '>', '=', '≥']);
        match number.replace('∞', "inf").parse() {
            Ok(value) => Told::Number(text[..text.len() - number.len()].into(), value, doubt),
            Err(_) => Told::Word(text.into()),
        }
    }

    /// Of an entry of `--json`; `gain`: how many times better, where less is better.
    fn of(entry: &Value, gain: bool) -> Told {
        let finding = entry["finding"].as_str().unwrap();
        let turned = |sign: &str| match sign {
            ">" => "<".to_string(),
            "<" => ">".to_string(),
            sign => sign.to_string(),
        };
        let sign = entry["bound"].as_str().unwrap();
        match (finding, entry["ratio"].as_f64()) {
            ("same", _) => Told::Word("same".into()),
            ("unknown", None) => Told::Nothing,
            (doubt, Some(ratio)) => {
                let doubt = ["unsure", "unknown"].contains(&doubt);
                match gain {
                    true => Told::Number(turned(sign), 1.0 / ratio, doubt),
                    false => Told::Number(sign.into(), ratio, doubt),
                }
            }
            ("less", None) if gain => Told::Word("better".into()),
            ("more", None) if gain => Told::Word("worse".into()),
            (word, None) => Told::Word(word.into()),
        }
    }

    /// The same in all printed digits; a bound may be rounded to its safe side.
    fn is(&self, other: &Told) -> bool {
        match (self, other) {
            // Of nothing at all the ratio is 0, and the gain has no end.
            (Told::Number(a, x, d), Told::Number(b, y, e)) if x != y => {
                let near = if a.is_empty() { 0.0051 } else { 0.0101 };
                a == b && d == e && (x / y - 1.0).abs() < near
            }
            (a, b) => a == b,
        }
    }
}

/// The cell of a row that begins with these words, in a table of columns between two blanks.
fn of_table(text: &str, row: &[&str], column: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|l| l.contains(column) && l.starts_with("drive")).unwrap();
    let widths: Vec<usize> = lines[head + 1].split("  ").map(str::len).collect();
    let cells = |line: &str| {
        let (mut at, mut out) = (0, Vec::new());
        for width in &widths {
            let cell: String = line.chars().skip(at).take(*width).collect();
            out.push(cell.trim().to_string());
            at += width + 2;
        }
        out
    };
    let at = cells(lines[head]).iter().position(|c| c == column).unwrap();
    let found = lines[head + 2..].iter().map(|l| cells(l)).find(|c| c[..row.len()] == *row);
    found.unwrap_or_else(|| panic!("{row:?}: {text}"))[at].clone()
}

/// The text of a cell of the page's or the Markdown's table of a workload.
fn of_page(page: &str, workload: &str, config: &str, column: &str) -> String {
    let from = page.find(&format!(", {workload}: every figure</caption>")).expect("the table");
    let table = page[from..].split("</table>").next().unwrap();
    let plain = |text: &str| {
        let mut out = String::new();
        let mut tag = false;
        for c in text.chars() {
            match c {
                '<' => tag = true,
                '>' => tag = false,
                c if !tag => out.push(c),
                _ => {}
            }
        }
        out.trim().to_string()
    };
    let heads = table.split("</tr><tr>").nth(1).unwrap().split("</tr>").next().unwrap();
    let heads: Vec<String> = heads.split("</th>").map(plain).collect();
    let at = heads.iter().position(|h| h == column).unwrap_or_else(|| panic!("{heads:?}"));
    let rows = table.split("<tbody>").nth(1).unwrap();
    let row = rows.split("</tr>").find(|r| {
        let name = r.split("<sup>").next().unwrap().split("</th>").next().unwrap();
        plain(name).split(' ').nth(1) == Some(config)
    });
    let cells: Vec<&str> =
        row.unwrap_or_else(|| panic!("{config}: {rows}")).split("</td>").collect();
    plain(cells[at - 1].rsplit("</th>").next().unwrap())
}

fn of_markdown(text: &str, workload: &str, config: &str, column: &str) -> String {
    let part = text.split(&format!("\n### {workload}\n")).nth(1).unwrap();
    let cells = |line: &str| {
        line.trim_matches(['|', ' ']).split(" | ").map(|c| c.trim().to_string()).collect::<Vec<_>>()
    };
    let head = part.lines().find(|l| l.starts_with("| configuration")).unwrap();
    let at = cells(head).iter().position(|c| c == column).unwrap();
    let config = config.replace('_', "\\_");
    let row = part.lines().find(|l| cells(l)[0] == config).unwrap_or_else(|| panic!("{part}"));
    cells(row)[at].clone()
}

/// Everything that a run says of its comparisons.
struct Said {
    json: Value,
    table: String,
    csv: String,
    page: String,
    markdown: String,
}

fn said(folder: &Folder, file: &str, more: &[&str]) -> Said {
    let run = |format: &str, out: &str| {
        let args = ["compare", file, "--quiet", format, "--out", out];
        let output = folder.run(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", super::stderr(&output));
        stdout(&output)
    };
    let json = serde_json::from_str(&run("--json", "json")).unwrap();
    let table = run("--wide", "wide");
    let markdown = stdout(&folder.run(&["report", "wide", "--format", "markdown"]));
    let text = |name: &str| String::from_utf8(folder.file(name)).unwrap();
    Said { json, table, csv: text("wide/metrics.csv"), page: text("wide/report.html"), markdown }
}

impl Said {
    fn comparisons(&self) -> &[Value] {
        self.json["comparisons"].as_array().unwrap()
    }

    /// Every rendering of the judged quantity of every cell. `columns`: of page and Markdown; the quantity is better low.
    fn agree(&self, metric: &str, columns: [&str; 2], low: bool) -> Vec<Told> {
        let mut all = Vec::new();
        for entry in self.comparisons().iter().filter(|c| c["metric"] == metric) {
            let word = |key: &str| entry[key].as_str().unwrap();
            let (drive, config, workload) = (word("drive"), word("config"), word("workload"));
            let plain = Told::of(entry, false);
            let name = format!("{config} {workload} {metric}");
            let versus = format!("vs {}", word("reference"));
            let shown = Told::parse(&of_table(&self.table, &[drive, workload, config], &versus));
            assert!(shown.is(&plain), "{name}: terminal {shown:?}, JSON {plain:?}");
            let gain = Told::of(entry, low);
            let page = Told::parse(&of_page(&self.page, workload, config, columns[0]));
            assert!(page.is(&gain), "{name}: page {page:?}, JSON {gain:?}");
            let markdown = Told::parse(&of_markdown(&self.markdown, workload, config, columns[1]));
            assert!(markdown.is(&gain), "{name}: Markdown {markdown:?}, JSON {gain:?}");
            let row = format!(",{drive},{config},{workload},{metric}_ratio,1,");
            let row =
                self.csv.lines().find(|l| l.contains(&row)).unwrap_or_else(|| panic!("{row}"));
            let cells: Vec<&str> = row.split(',').collect();
            let near = cells[6].parse().ok().map(|v: f64| (v * 1e6).round());
            assert_eq!(near, entry["ratio"].as_f64().map(|v| (v * 1e6).round()), "{name}: {row}");
            assert_eq!(cells[9], word("bound"), "{name}: {row}");
            all.push(plain);
        }
        all
    }
}

fn folder_with(name: &str, text: &str) -> Folder {
    let folder = Folder::new(name);
    fs::write(folder.0.join("awkward.toml"), text).unwrap();
    folder
}

#[test]
fn renderings_of_what_is_cut_off_agree() {
    let folder = folder_with("agree-cut", CUT);
    for reps in ["4", "1"] {
        let said = said(&folder, "awkward.toml", &["--reps", reps]);
        let told = said.agree("latency_avg", ["shorter by", "shorter by"], true);
        // Of streams: cut off on both sides, on one, on both with the same records.
        assert!(told[0] == Told::Nothing && told[2] == Told::Nothing, "{told:?}");
        assert!(matches!(&told[1], Told::Number(sign, _, false) if sign == "<"), "{told:?}");
        // Of the few: the same records.
        assert_eq!(told[5], Told::Word("same".into()), "{told:?}");
        for text in [&said.page, &said.markdown] {
            let words: Vec<&str> = text.split("beside streams, ").skip(1).collect();
            let best = |w: &&str| w.contains("none-bfq") && !w.contains("mq-deadline</b> serves");
            assert!(!words.is_empty() && words.iter().any(best), "{words:?}");
        }
        // Nothing was moved for the target: there is nothing to divide by, and it is more all the same.
        let of_target = |c: &&Value| {
            c["metric"] == "throughput_target"
                && c["config"] == "none-bfq"
                && c["workload"] == "streams"
        };
        let entry = said.comparisons().iter().find(of_target).unwrap();
        assert_eq!((&entry["ratio"], &entry["finding"]), (&Value::Null, &"more".into()));
    }
    // Without the one that finishes nothing is known to be better.
    let cut = said(&folder, "awkward.toml", &["-c", "none-none,mq-deadline", "-w", "streams"]);
    assert!(cut.markdown.contains("no configuration is known to do better"), "{}", cut.markdown);
}

#[test]
fn renderings_of_throughput_agree() {
    let folder = folder_with("agree-free", FREE);
    for reps in ["3", "2"] {
        let said = said(&folder, "awkward.toml", &["--reps", reps]);
        let told = said.agree("throughput_total", ["times the first", "times the first"], false);
        assert_eq!(told.last(), Some(&Told::Word("same".into())), "{told:?}");
    }
}

/// Frames dropped: none on either side, none on one, some on both.
#[test]
fn renderings_of_counts_agree() {
    let folder = Folder::new("agree-count");
    let none = Told::Number(String::new(), 0.0, false);
    let same = Told::Word("same".into());
    for (drive, bfq) in [("plextor-px-256m5s", same), ("hitachi-hts727550a9e364", none)] {
        for reps in ["3", "1"] {
            let cells = ["-d", drive, "-c", "none,bfq,kyber", "-w", "film+10r-seq"];
            let said = said(&folder, "video-s", &[&cells[..], &["--reps", reps]].concat());
            let told = said.agree("frames_dropped", ["better by", "better by"], true);
            assert_eq!((told.len(), &told[0]), (2, &bfq), "{drive}: {told:?}");
        }
    }
}

/// Two runs beside each other: the table, the JSON, and the gate of `--baseline`.
#[test]
fn diff_and_baseline_say_what_compare_says() {
    let folder = folder_with("agree-diff", CUT);
    let base = ["compare", "awkward.toml", "--quiet", "-c", "none-none,mq-deadline", "--out"];
    let run = |seed: &str, out: &str, more: &[&str]| {
        let all = [&base[..], &[out, "--seed", seed], more].concat();
        folder.run(&all)
    };
    assert_eq!(run("1", "a", &[]).status.code(), Some(0));
    let other = run("77", "b", &["--baseline", "a", "--wide"]);
    let judged = stdout(&other);
    let diff = folder.run(&["diff", "a", "b", "--all", "--wide"]);
    let table = stdout(&diff);
    let json: Value =
        serde_json::from_slice(&folder.run(&["diff", "a", "b", "--json"]).stdout).unwrap();
    let entries = json["quantities"].as_array().unwrap();
    assert!(entries.iter().any(|e| e["finding"] == "unknown" && e["ratio"].is_null()), "{json:#}");
    let mut differ = 0;
    for entry in entries {
        let word = |key: &str| entry[key].as_str().unwrap();
        let row = [word("drive"), word("workload"), word("config"), word("metric")];
        let shown = Told::parse(&of_table(&table, &row, "ratio"));
        let told = Told::of(entry, false);
        assert!(shown.is(&told), "{row:?}: {shown:?} and {told:?}");
        let cut = entry["old"]["bound"] == ">" && entry["new"]["bound"] == ">";
        assert!(!(entry["differs"] == true && cut), "two bounds differ in nothing: {entry}");
        differ += u32::from(entry["differs"] == true);
    }
    assert!(table.contains(&format!("{differ} of {} quantities differ", entries.len())), "{table}");
    let cut = entries.iter().filter(|e| e["finding"] == "unknown").count();
    assert!(judged.contains(&format!("{cut} are cut off and tell nothing")), "{judged}");
    let left = entries.iter().filter(|e| {
        let far = e["ratio"].as_f64().is_none_or(|r| !(1.0 / 1.05..=1.05).contains(&r));
        e["differs"] == true && far
    });
    let words = format!("{} of {} quantities left the band", left.count(), entries.len());
    assert!(judged.contains(&words), "{words}: {judged}");
}
