//! What is benched, and in which world.

use super::Bench;
use crate::common::lists::chosen;
use crate::failure::Failure;
use hoistway_lab::bench::setting::{Setting, simulated};
use hoistway_sim::drive::DriveFile;
use std::path::Path;

/// A place, or every drive that is named.
pub fn choose(options: &Bench) -> Result<Vec<Setting>, Failure> {
    let all: Vec<String> = DriveFile::ids().into_iter().map(String::from).collect();
    let named = match chosen(&options.drive, &[], "drive")? {
        named if named == ["all"] => all,
        named => named,
    };
    match &options.place {
        _ if !named.is_empty() => {
            let settings: Vec<Setting> =
                named.iter().map(|name| simulated(name, options.level()).map_err(|e| Failure::Usage(e.to_string()))).collect::<Result<_, _>>()?;
            let twice = settings.iter().enumerate().find(|(i, s)| settings[..*i].iter().any(|o| o.name == s.name));
            match twice {
                Some((_, s)) => {
                    Err(Failure::Usage(format!("two drive files have the name '{}'; rename one", s.name)))
                }
                None => Ok(settings),
            }
        }
        Some(path) => Ok(vec![real(options, path)?]),
        None => Err(Failure::Usage(
            "what is to be benched? name a directory or a device, or a simulated drive with --drive (`hoistway list \
             drives`)"
                .into(),
        )),
    }
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn real(options: &Bench, path: &Path) -> Result<Setting, Failure> {
    super::kernel::setting(options, path)
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn real(_options: &Bench, path: &Path) -> Result<Setting, Failure> {
    Err(Failure::Usage(format!(
        "{}: this program was built without access to real storage; build it on Linux with the feature `live` (cargo \
         build --release -p hoistway-cli), or name a simulated drive with --drive",
        path.display()
    )))
}
