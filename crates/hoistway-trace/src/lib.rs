//! Block traces as one stream of records, whatever program wrote them.
//!
//! A [`Reader`] finds out what a trace is, from its content, decompresses it (gzip, zstd), parses it, brings the
//! records into order of time within a window and delivers them one by one into a buffer of the caller's: times
//! from 0, offsets and lengths in bytes, processes, groups and devices as small numbers with [`Names`]. Memory does
//! not depend on the trace's length. What cannot be parsed is counted, and the first of it is kept with its place;
//! [`Options::strict`] makes it an error.
//!
//! ```
//! use hoistway_trace::{Options, Op, Reader, Record};
//! let trace = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
//!              128166372016382155,usr,0,Write,2517696,8192,1126\n";
//! let mut reader = Reader::from_bytes("usr.csv", trace.into(), &Options::default()).unwrap();
//! let mut record = Record::default();
//! assert!(reader.read(&mut record).unwrap());
//! assert_eq!((record.time, record.op, record.offset, record.len), (0, Op::Read, 7014609920, 24576));
//! assert_eq!(record.response, Some(4_128_600));
//! assert_eq!(reader.names().devices.name(record.device), "usr.0");
//! assert!(reader.read(&mut record).unwrap());
//! assert_eq!(record.time, 1_332_052_600);
//! assert!(!reader.read(&mut record).unwrap());
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blktrace;
pub mod describe;
mod error;
mod fit;
pub mod format;
mod input;
mod names;
mod options;
mod order;
mod reader;
mod record;
pub mod write;
mod zstd;

pub use error::{Error, Fault, Malformed};
pub use fit::Fit;
pub use format::{FORMATS, Format};
pub use input::comes_once;
pub use names::{Names, Table};
pub use options::Options;
pub use reader::Reader;
pub use record::{Flags, Kind, Op, Record};
