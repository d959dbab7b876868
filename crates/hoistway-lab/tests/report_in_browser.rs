//! Opens the report in headless Chromium, where there is one, and reads its console.

#[path = "common/sample.rs"]
mod sample;

use std::process::Command;

#[test]
fn the_report_opens_without_console_errors() {
    let named = ["chromium", "chromium-browser", "google-chrome"];
    let works =
        |n: &&&str| Command::new(n).arg("--version").output().is_ok_and(|o| o.status.success());
    let Some(chromium) = named.iter().find(works) else {
        println!("skipped: none of {named:?} is installed");
        return;
    };
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-in-browser");
    std::fs::create_dir_all(&dir).unwrap();
    // Two browsers cannot share a profile, and one that was killed leaves its lock in it.
    let profile = Folder(dir.join(format!("profile-{}", std::process::id())));
    // Four charts each: one page with a target and one without.
    for (name, run) in [("report", sample::run(2, 4, 3, 500)), ("free", sample::free(2, 4, 3))] {
        let page = dir.join(format!("{name}.html"));
        std::fs::write(&page, hoistway_lab::report::html::render(&run)).unwrap();
        open(chromium, &profile.0, &page);
    }
}

/// A folder that is gone at the test's end.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(chromium: &str, profile: &std::path::Path, page: &std::path::Path) {
    let out = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}?theme=dark", page.display()))
        .output()
        .expect("a browser that told its version starts");
    let (dom, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{log}");
    let console: Vec<&str> = log.lines().filter(|l| l.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:#?}");
    // The script ran to its end: it set the theme and took the titles over.
    assert!(dom.contains("data-theme=\"dark\""), "theme not set");
    assert!(dom.contains("data-tip=\"") && dom.contains("id=\"tip\""), "tooltips not prepared");
    assert_eq!(dom.matches("<figure>").count(), 16, "two drives, two workloads, four charts");
}
