//! Report formats. A format is a file here and a line in [`FORMATS`].

mod chart;
pub mod control;
mod control_svg;
mod count;
pub mod export;
mod figures;
pub mod fio_json;
#[cfg(feature = "studies")]
pub mod fit;
pub mod hdr;
pub mod html;
mod latency;
#[cfg(feature = "studies")]
pub mod load;
pub mod markdown;
#[cfg(feature = "studies")]
pub mod merged;
mod monitor;
pub mod overview;
#[cfg(feature = "studies")]
pub mod reproduction;
mod section;
mod share;
mod startup;
mod svg;
mod target;
mod throughput;
mod verdict;

pub use svg::FINEST;
pub use verdict::raising;

use crate::result::Run;

/// A way to write a run down.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Extension of the file, without the dot.
    pub extension: &'static str,
    /// The whole file. The same run gives the same text.
    pub render: fn(&Run) -> String,
}

/// Every format that `hoistway report --format` prints.
pub const FORMATS: &[Format] = &[
    Format {
        name: "html",
        summary: "one self-contained page: charts, tables, what was run",
        extension: "html",
        render: html::render,
    },
    Format {
        name: "markdown",
        summary: "the tables, to paste into an issue or a document",
        extension: "md",
        render: markdown::render,
    },
    Format {
        name: "control",
        summary: "Markdown, a row per drive and configuration: latency over that alone, throughput kept",
        extension: "md",
        render: control::render,
    },
    Format {
        name: "control-matrix",
        summary: "the same with a column per configuration and fewer figures",
        extension: "md",
        render: control::matrix,
    },
    Format {
        name: "control-svg",
        summary: "the same as a picture: a row per configuration, a dot per drive",
        extension: "svg",
        render: control_svg::render,
    },
    Format {
        name: "hdr",
        summary: "the latency of every process as an HdrHistogram log",
        extension: "hlog",
        render: hdr::render,
    },
];
