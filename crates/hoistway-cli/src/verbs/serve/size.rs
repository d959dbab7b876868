//! How much one server serves. Each device has a thread of its own, three or more descriptors and the tables of its stack, about
//! 1 MB together; so a configuration that some program wrote without end would take the machine's memory, one device after the
//! other, before anybody is served. What is too much is refused before anything is opened.

use super::spec::ServeOptions;
use std::collections::BTreeSet;

/// Most exports: each is a row of every listing, and of every client's `nbd-client -l`. 10,000 on one device start
/// within two seconds.
pub const EXPORTS_MAX: usize = 10_000;
/// Most devices: 1,000 take 1 GB and 3,000 descriptors, and start within some seconds.
pub const DEVICES_MAX: usize = 1_000;

/// Refuses more exports, or more devices behind them, than one server has room for. `place`: where they come from.
pub fn check(place: &str, settings: &ServeOptions) -> Result<(), String> {
    let exports = settings.export.len();
    if exports > EXPORTS_MAX {
        return Err(format!(
            "{place}: exports = {exports}, at most {EXPORTS_MAX}; start further servers for the rest"
        ));
    }
    let devices: BTreeSet<String> = settings.export.iter().map(|e| e.device_key()).collect();
    let devices = devices.len();
    if devices > DEVICES_MAX {
        return Err(format!(
            "{place}: devices = {devices} behind {exports} exports, at most {DEVICES_MAX}, since each has a thread and about 1 MB \
             of its own; exports with the same target share one (offset and size tell them apart), or start further \
             servers for the rest"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::serve::spec::ExportSpec;

    #[test]
    fn as_many_as_there_is_room_for_are_served_and_none_more() {
        let said = |exports: usize, devices: usize| {
            let one = |i: usize| {
                let target = format!("null:{}", 512 * (1 + i % devices));
                ExportSpec { name: format!("e{i}"), target, ..ExportSpec::default() }
            };
            let export = (0..exports).map(one).collect();
            check("serve.toml", &ServeOptions { export, ..ServeOptions::default() })
        };
        assert_eq!(said(EXPORTS_MAX, 1), Ok(()));
        assert_eq!(said(EXPORTS_MAX, DEVICES_MAX), Ok(()));
        let many = said(EXPORTS_MAX + 1, 1).unwrap_err();
        assert!(many.starts_with("serve.toml: exports = 10001, at most 10000;"), "{many}");
        let many = said(EXPORTS_MAX, DEVICES_MAX + 1).unwrap_err();
        assert!(many.contains("devices = 1001 behind 10000 exports, at most 1000,"), "{many}");
    }
}
