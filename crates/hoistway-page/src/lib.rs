//! The simulator and the lab for one static HTML file: `build.sh` compiles this crate to WebAssembly and puts the
//! module, `web/` and uPlot into the file. A Web Worker of the page calls the module.
//!
//! There is one question and one answer at a time, both JSON ([`Question`]; `{"done": ...}` or `{"error": ...}`). What is
//! asked goes through [`hoistway_lab::grid::Plan`], as what the command line is given does, so that `metrics.csv` of the
//! page has the bytes of the command line's.
//!
//! ```
//! use hoistway_page::Session;
//!
//! let mut session = Session::default();
//! let wish = r#"{"ask": "plan", "experiment": "latency-2019", "drive": "plextor-px-256m5s", "workload": "reader",
//!     "configs": ["none", "bfq{slice_idle=0}"], "reps": "2", "seed": "1", "duration": "1s"}"#;
//! let error = r#"{"error":{"text":"latency-2019 has no workload 'reader'; did you mean 'readers'?","field":"workload"}}"#;
//! assert_eq!(session.answer(wish.as_bytes()), error);
//! ```

#![warn(missing_docs)]

pub mod border;
mod catalog;
mod live;
mod session;

pub use session::{Complaint, Question, Session, Wish};
