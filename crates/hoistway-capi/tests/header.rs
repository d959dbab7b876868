//! `include/hoistway.h` is what cbindgen makes of the sources, and C sees the structs as Rust does.

// Each test uses a part of it.
#[allow(dead_code)]
mod support;

use hoistway_capi::*;
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;
use support::{Link, built, compile, here, run, scratch, there};

/// The checked-in header, byte for byte. `cargo install cbindgen --version 0.29.4 --locked` brings the program.
#[test]
fn the_header_is_what_cbindgen_writes() {
    let version = Command::new("cbindgen").arg("--version").output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let version = version.unwrap_or_default();
    if !version.starts_with("cbindgen 0.29.") {
        println!("skipped: cbindgen 0.29 is not there ({})", version.trim());
        return;
    }
    let mut cbindgen = Command::new("cbindgen");
    cbindgen.args(["--quiet", "--config", "cbindgen.toml"]).current_dir(here());
    let made = run(&mut cbindgen).stdout;
    let there = std::fs::read(here().join("include/hoistway.h")).expect("the header is there");
    assert!(
        made == there,
        "in crates/hoistway-capi: cbindgen --config cbindgen.toml --output include/hoistway.h"
    );
}

/// Assertions in C about a struct: its size, and offset and size of each field.
macro_rules! layout {
    ($to:expr, $name:ident: $($field:ident)*) => {{
        let to: &mut String = $to;
        let name = stringify!($name);
        let size = size_of::<$name>();
        writeln!(to, "_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");").unwrap();
        let mut end = 0;
        $({
            let (at, field) = (offset_of!($name, $field), stringify!($field));
            assert_eq!(at, end, "{name}: there is padding before {field}");
            // SAFETY: a zeroed struct of numbers and pointers is one.
            let value: $name = unsafe { std::mem::zeroed() };
            end += size_of_val(&value.$field);
            writeln!(
                to,
                "_Static_assert(offsetof(struct {name}, {field}) == {at} && \
                 sizeof((({name} *)0)->{field}) == {}, \"{name}.{field}\");",
                size_of_val(&value.$field)
            )
            .unwrap();
        })*
        assert_eq!(end, size, "{name}: there is padding at the end, or a field is not named here");
    }};
}

#[test]
fn c_sees_the_structs_as_rust_does() {
    if !there("gcc", "--version") {
        return;
    }
    let mut c = String::from("#include \"hoistway.h\"\n");
    layout!(&mut c, hw_device: size queue_depth sectors flags ios hw_queues nr_requests max_sectors
        max_segments chunk_sectors discard_sectors discard_granularity reserved);
    layout!(&mut c, hw_io: size op id sector sectors segments proc group cpu flags priority reserved);
    layout!(&mut c, hw_input: now_ns kind error req proc reserved io);
    layout!(&mut c, hw_event: kind error req io until_ns sector sectors op flags pieces queue proc);
    layout!(&mut c, hw_piece: io sector sectors reserved);
    layout!(&mut c, hw_counters: size in_flight submitted finished merged joined issued completed
        tag_waits chosen);
    layout!(&mut c, hw_tunable: size reserved name unit words doc effect usual min max);
    for (name, value) in [
        ("HW_ABI", u64::from(HW_ABI)),
        ("HW_TIME_END", HW_TIME_END),
        ("HW_NEVER", HW_NEVER),
        ("HW_PROC_NONE", u64::from(HW_PROC_NONE)),
        ("HW_OF_ROOT", hw_flag::HW_OF_ROOT as u64),
        ("-HW_E_PANIC", 16),
    ] {
        writeln!(c, "_Static_assert({name} == {value}u, \"{name}\");").unwrap();
    }
    c.push_str("int main(void) { return hw_abi() == HW_ABI ? 0 : 1; }\n");
    let folder = scratch("header");
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, c).expect("the file can be written");
    compile(&source, &program, &built(), Link::Static, &["-Wpedantic"]);
    run(&mut Command::new(program));
}

/// C++ takes the header as well.
#[test]
fn cpp_takes_the_header() {
    if !there("g++", "--version") {
        return;
    }
    let source = scratch("header").join("plain.cpp");
    std::fs::write(&source, "#include \"hoistway.h\"\nint main() { return hw_io{}.size; }\n")
        .expect("the file can be written");
    let mut gcc = Command::new("g++");
    gcc.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    run(gcc.arg("-I").arg(here().join("include")).arg(source));
}

/// Flags of the header are those of the core.
#[test]
fn flags_are_those_of_the_core() {
    use hoistway::Flags;
    for (ours, core) in [
        (hw_flag::HW_SYNC, Flags::SYNC),
        (hw_flag::HW_META, Flags::META),
        (hw_flag::HW_PRIO, Flags::PRIO),
        (hw_flag::HW_NOIDLE, Flags::NOIDLE),
        (hw_flag::HW_IDLE, Flags::IDLE),
        (hw_flag::HW_RAHEAD, Flags::RAHEAD),
        (hw_flag::HW_UNPLUG_NOW, Flags::UNPLUG),
        (hw_flag::HW_BARRIER, Flags::BARRIER),
        (hw_flag::HW_PREFLUSH, Flags::PREFLUSH),
        (hw_flag::HW_FUA, Flags::FUA),
        (hw_flag::HW_NOMERGE, Flags::NOMERGE),
        (hw_flag::HW_BACKGROUND, Flags::BACKGROUND),
        (hw_flag::HW_SWAP, Flags::SWAP),
    ] {
        assert_eq!(ours as u32, u32::from(core.bits()));
    }
}
