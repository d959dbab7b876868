//! Modules as text, and a place for them.

use std::path::PathBuf;

pub const ABOUT: &str = r#"interface = 1\nsummary = \"first come, first served\"\n[[tunable]]\nname = \"k\"\ndefault = 3\nmin = 0\nmax = 9\ntext = \"Unused.\"\n"#;

/// Requests go in the order of their numbers. A ring of 4096 places at 8192: `gone` empties one.
pub const FIFO: &str = r#"
    (global $k (mut i64) (i64.const 0))
    (global $next (mut i64) (i64.const 1))
    (global $last (mut i64) (i64.const 0))
    (func $place (param i64) (result i32)
      (i32.add (i32.const 8192)
        (i32.wrap_i64 (i64.and (local.get 0) (i64.const 4095)))))
    (func (export "set") (param i32 i64) (global.set $k (local.get 1)))
    (func (export "insert") (param i64 i64 i32 i32 i32 i32 i64 i32)
      (i32.store8 (call $place (local.get 1)) (i32.const 1))
      (if (i64.gt_u (local.get 1) (global.get $last)) (then (global.set $last (local.get 1))))
      (if (i64.lt_u (local.get 1) (global.get $next)) (then (global.set $next (local.get 1)))))
    (func $oldest (result i64)
      (loop $on
        (if (i64.gt_u (global.get $next) (global.get $last)) (then (return (i64.const 0))))
        (if (i32.load8_u (call $place (global.get $next)))
          (then
            (i32.store8 (call $place (global.get $next)) (i32.const 0))
            (return (global.get $next))))
        (global.set $next (i64.add (global.get $next) (i64.const 1)))
        (br $on))
      (i64.const 0))
    (func (export "dispatch") (param i64) (result i64) (call $oldest))
    (func (export "gone") (param i64 i64)
      (i32.store8 (call $place (local.get 1)) (i32.const 0)))
"#;

/// The module with that body.
pub fn module(body: &str) -> String {
    let length = ABOUT.replace("\\n", "\n").replace("\\\"", "\"").len();
    format!(
        "(module (memory (export \"memory\") 1) (data (i32.const 0) \"{ABOUT}\")\n\
         (func (export \"about\") (result i64) (i64.or (i64.shl (i64.const 0) (i64.const 32)) (i64.const {length})))\n\
         {body})"
    )
}

/// An empty folder that is gone at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("hoistway-plugin-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
