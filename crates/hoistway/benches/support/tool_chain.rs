//! What the figures of a table of instructions depend on beside the program, and where the table says it. Benches of
//! other packages use it, too.

use std::process::Command;

/// In front of what a table was recorded with.
pub const MADE_BY: &str = "# made by ";

/// What a table was recorded with.
pub fn made_by(table: &str) -> &str {
    table.lines().find_map(|line| line.strip_prefix(MADE_BY)).unwrap_or("nobody knows what")
}

/// The compiler and valgrind: another compiler moves counts by more than a change that matters.
pub fn tool_chain() -> String {
    let version = |program: &str| {
        let said = Command::new(program).arg("--version").output();
        let said = said.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string());
        said.unwrap_or_else(|e| format!("{program}: {e}"))
    };
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    format!("{}, {}", version(&compiler), version("valgrind"))
}
