//! The border is written three times: in Rust, as declarations for C, and as ways in that come back from a panic.

const RUST: &str = include_str!("../src/border.rs");
const HEADER: &str = include_str!("../../../linux/module/hoistway_core.h");
const GUARD: &str = include_str!("../../../linux/module/hoistway_guard.S");

/// The names of the border's functions; `queue`: those of a queue, or those of the registry.
fn functions(queue: bool) -> Vec<&'static str> {
    let rest = RUST.split("extern \"C\" fn hw_core_").skip(1);
    let named = rest.map(|text| text.split_once('(').expect("a function has arguments"));
    let of_queue = |arguments: &str| {
        let first = arguments.trim_start();
        first.starts_with("view: ") || first.starts_with("_view: ")
    };
    named.filter(|(_, arguments)| of_queue(arguments) == queue).map(|(name, _)| name).collect()
}

#[test]
fn c_has_a_declaration_and_a_way_in_for_each_function() {
    let names = functions(true);
    assert!(names.len() > 25, "{names:?}");
    let list = GUARD.lines().find_map(|line| line.strip_prefix(".irp name, ")).unwrap();
    let mut ways: Vec<&str> = list.split(", ").collect();
    let mut all = names.clone();
    ways.sort_unstable();
    all.sort_unstable();
    assert_eq!(ways, all);
    for name in names {
        assert!(HEADER.contains(&format!("hw_{name}(struct hw_view *view")), "hw_{name}");
    }
    for name in functions(false) {
        assert!(HEADER.contains(&format!("hw_core_{name}(")), "hw_core_{name}");
    }
}

#[test]
fn structures_have_the_sizes_that_c_asserts() {
    use hoistway_kernel::border::{HwFound, HwIo, HwSetup, HwSize};
    use hoistway_kernel::view::View;
    let sizes = [
        ("hw_view", size_of::<View>()),
        ("hw_setup", size_of::<HwSetup>()),
        ("hw_io", size_of::<HwIo>()),
        ("hw_found", size_of::<HwFound>()),
        ("hw_size", size_of::<HwSize>()),
    ];
    for (name, size) in sizes {
        let line = format!("static_assert(sizeof(struct {name}) == {size});");
        assert!(HEADER.contains(&line), "hoistway_core.h needs: {line}");
    }
}
