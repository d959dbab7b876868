//! A module keeps the contract of schedulers, as those do that are compiled in.

mod modules;

use hoistway::testkit::contract;
use modules::{FIFO, Folder, module};

#[test]
fn a_module_keeps_the_contract() {
    let folder = Folder::new("contract");
    let path = folder.write("fifo.wasm", &wat::parse_str(module(FIFO)).unwrap());
    let entry = hoistway_plugin::load(&path).unwrap();
    assert_eq!((entry.name, entry.summary), ("fifo", "first come, first served"));
    assert_eq!(entry.tunables[0].name, "k");
    assert!(entry.source.starts_with("fifo.wasm, "), "{}", entry.source);
    contract::check(entry);
}
