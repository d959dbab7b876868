//! The folder in which finished cases are kept.

use crate::run::RunError;
use crate::words::unquoted;
use hoistway_files::input::{self, Limit};
use hoistway_files::{Dir, Kind, Place, PlaceError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::Path;

const CASE: Limit = Limit { what: "a finished case", bytes: 4 << 20 };
const KEY: Limit = Limit { what: "the key of a population", bytes: 64 << 10 };

/// The file that says what cases belong to.
const KEY_FILE: &str = "key";

fn told(e: &dyn fmt::Display) -> RunError {
    RunError::Keep { what: e.to_string() }
}

/// The folder of finished cases. Those of another program or seed are not used and not deleted either.
pub(crate) fn open(dir: &Path, key: &str) -> Result<Dir, RunError> {
    let wrong = |e: PlaceError| match e {
        PlaceError::Io { .. } => told(&e),
        e => RunError::InTheWay { what: e.to_string() },
    };
    let place = Place::make(dir).map_err(wrong)?;
    place.may_fill(|dir| dir.holds(KEY_FILE, Kind::Named)).map_err(wrong)?;
    let there = place.identity().map_err(wrong)?.is_some();
    let folder = if there { place.open_dir() } else { place.make_dir(0o777) }.map_err(wrong)?;
    let file = folder.place(KEY_FILE).map_err(wrong)?;
    if text(&file, KEY).is_some_and(|known| known == key) {
        return Ok(folder);
    }
    if file.identity().map_err(wrong)?.is_some() {
        let dir = dir.display();
        let what = format!(
            "{dir} holds cases of another program or seed (its file {dir}/{KEY_FILE}); choose another \
             folder or delete it"
        );
        return Err(RunError::InTheWay { what });
    }
    let made = file.replace(key.as_bytes(), Kind::New);
    made.and_then(|()| place.fill(|_| true)).map_err(wrong)
}

/// The place of a case.
pub(crate) fn place(dir: &Dir, name: &str) -> Result<Place, RunError> {
    dir.place(name).map_err(|e| told(&e))
}

/// The case that is kept there; `None`: there is none.
pub(crate) fn read<T: DeserializeOwned>(place: &Place) -> Result<Option<T>, RunError> {
    let Some(text) = text(place, CASE) else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|e| {
        let (path, what) = (place.path(), unquoted(&e.to_string()));
        told(&format!("{}: {what}; delete it and run again", path.display()))
    })
}

/// The file appears as a whole.
pub(crate) fn write<T: Serialize>(place: &Place, case: &T) -> Result<(), RunError> {
    let text = serde_json::to_string_pretty(case).expect("plain data");
    place.replace(text.as_bytes(), Kind::Named).map_err(|e| told(&e))
}

/// The text of a file in the folder; `None`: it is none, or too long.
fn text(place: &Place, limit: Limit) -> Option<String> {
    let bytes = input::bounded(place.open().ok()?, limit.bytes).ok()??;
    String::from_utf8(bytes).ok()
}
