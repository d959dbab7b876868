//! What a module may use. Chosen: a hundred times what a scheduler with a thousand waiting requests needs.

/// Bytes of the file.
pub const FILE_BYTES: u64 = 1 << 20;
/// Bytes of its memory.
pub const MEMORY_BYTES: usize = 16 << 20;
/// Elements of its tables of functions.
pub const TABLE_ELEMENTS: usize = 10_000;
/// Steps of one call, about one for each instruction: some 50 ms.
pub const STEPS: u64 = 10_000_000;
/// Bytes of the text that `about` answers with.
pub const ABOUT_BYTES: usize = 16 << 10;
/// Settings.
pub const SETTINGS: usize = 64;
