//! Verdicts at a glance, drives by workloads, shaded by how much is gained.

use super::super::svg::{Svg, WIDTH, esc, px};
use super::shorten;
use std::fmt::Write;

/// A verdict.
pub(in super::super) struct MatrixCell {
    /// The configuration that wins, by place and name; `None`: none is better.
    pub(in super::super) winner: Option<(usize, String)>,
    /// How strong, 0 (nothing gained) to 4.
    pub(in super::super) strength: usize,
    /// What is gained and what is kept.
    pub(in super::super) lines: [String; 2],
    /// Throughput kept, 1 = the reference's.
    pub(in super::super) kept: Option<f64>,
    /// Everything about it, shown on hover.
    pub(in super::super) tip: String,
    /// The place of its section in the page.
    pub(in super::super) link: String,
}

/// Verdicts of drives by workloads.
pub(in super::super) struct Matrix {
    /// Names of the columns: the drives, or the workloads of one drive.
    pub(in super::super) columns: Vec<String>,
    /// Name of the row, and a cell per drive.
    pub(in super::super) rows: Vec<(String, Vec<Option<MatrixCell>>)>,
}

/// The picture. More than three columns continue below, each block with its own heads.
pub(in super::super) fn matrix(id: &str, title: &str, all: &Matrix) -> String {
    let blocks = all.columns.len().div_ceil(ABREAST).max(1);
    let across = all.columns.len().div_ceil(blocks).max(1);
    // One row needs no name of its own.
    let name = if all.rows.len() > 1 { NAME } else { 0.0 };
    let row = name + CELL + GAP;
    let block = HEAD + all.rows.len() as f64 * row;
    let tips = all.rows.iter().flat_map(|r| &r.1).flatten().map(|c| c.tip.as_str());
    let about = tips.collect::<Vec<_>>().join("; ");
    let mut svg = Svg::open(id, block * blocks as f64 + 4.0, title, &about);
    let width = WIDTH / across as f64;
    for n in 0..blocks {
        let top = n as f64 * block;
        let columns = n * across..((n + 1) * across).min(all.columns.len());
        for (c, column) in columns.clone().enumerate() {
            let head = cut(&all.columns[column], ((width - 8.0) / BOLD) as usize);
            svg.text("t val", c as f64 * width + 2.0, top + 13.0, &head);
        }
        for (r, (workload, cells)) in all.rows.iter().enumerate() {
            let y = top + HEAD + r as f64 * row;
            if name > 0.0 {
                svg.text("t name", 2.0, y + 10.0, &shorten(workload, 56));
            }
            for (c, column) in columns.clone().enumerate() {
                if let Some(cell) = &cells[column] {
                    draw(&mut svg, cell, c as f64 * width + 1.0, y + name, width - 4.0);
                }
            }
        }
    }
    svg.close()
}

/// The beginning of a text: a drive's maker and series tell more than its last letters.
fn cut(name: &str, most: usize) -> String {
    match name.chars().count() <= most {
        true => name.to_string(),
        false => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A line of a cell: the figure behind a name stays whole, and the name gives way.
fn fitted(line: &str, most: usize) -> String {
    match line.split_once(": ") {
        Some((name, figure)) if line.chars().count() > most => {
            let room = most.saturating_sub(figure.chars().count() + 2);
            if room < 3 { cut(figure, most) } else { format!("{}: {figure}", shorten(name, room)) }
        }
        _ => cut(line, most),
    }
}

fn draw(svg: &mut Svg, cell: &MatrixCell, x: f64, y: f64, width: f64) {
    let key = cell.winner.as_ref().map_or(usize::MAX, |w| w.0);
    let _ = write!(svg.out, "<a href=\"#{}\">", esc(&cell.link));
    match key {
        usize::MAX => {
            let _ = write!(svg.out, "<g class=\"k\"><title>{}</title>", esc(&cell.tip));
        }
        key => svg.group(key, &cell.tip),
    }
    let _ = write!(
        svg.out,
        "<rect class=\"heat h{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\"/>",
        cell.strength,
        px(x),
        px(y),
        px(width),
        px(CELL)
    );
    let room = ((width - 28.0) / CHAR) as usize;
    match &cell.winner {
        Some((key, name)) => {
            svg.badge(*key, x + 12.0, y + 13.0);
            svg.text("t on", x + 25.0, y + 17.0, &shorten(name, room));
        }
        None => svg.text("t on", x + 8.0, y + 17.0, "no other is better"),
    }
    let most = ((width - 8.0) / CHAR) as usize;
    for (n, line) in cell.lines.iter().enumerate() {
        svg.text("t on", x + 6.0, y + 32.0 + 13.0 * n as f64, &fitted(line, most));
    }
    if let Some(kept) = cell.kept {
        // How much of the throughput is left, as the length of a bar.
        let whole = width - 16.0;
        svg.rect("track", x + 8.0, y + CELL - 7.0, whole, 3.0);
        svg.rect("kept", x + 8.0, y + CELL - 7.0, whole * kept.min(1.0), 3.0);
    }
    svg.end();
    svg.out.push_str("</a>");
}

/// Columns beside each other.
const ABREAST: usize = 3;
const HEAD: f64 = 20.0;
const NAME: f64 = 14.0;
const GAP: f64 = 8.0;
const CELL: f64 = 56.0;
/// Width of a character at the size of a phone.
const CHAR: f64 = 7.0;
const BOLD: f64 = 7.8;
