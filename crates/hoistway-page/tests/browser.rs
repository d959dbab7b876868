//! The page, built and opened from disk in headless Chromium: chosen, changed, run and saved by keyboard alone, at a
//! width of 400 pixels. What is saved has the bytes of what the lab gives here.

#[path = "browser/chromium.rs"]
mod chromium;

use chromium::Chromium;
use hoistway_lab::experiment::Experiment;
use hoistway_lab::grid::Plan;
use hoistway_lab::report::html;
use hoistway_lab::result::metrics_csv;
use hoistway_lab::world::Sim;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// A browser for a test of that name, and the page; what the machine lacks is told.
fn opened(name: &str, width: u32) -> Option<(chromium::Folder, Chromium)> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let folder = chromium::Folder(dir);
    let Some(mut browser) = Chromium::start(&folder.0) else {
        println!("skipped: none of {:?} is installed", chromium::NAMES);
        return None;
    };
    static PAGE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PAGE.get_or_init(built) {
        Ok(page) => browser.open(page, width),
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    }
    browser.until("document.documentElement?.dataset.state === 'ready'");
    Some((folder, browser))
}

/// The page, or why there is none.
fn built() -> Result<PathBuf, String> {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hoistway.html");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.sh");
    let out = Command::new(script).arg("--test").arg(&page).output();
    let out = out.map_err(|e| format!("build.sh cannot be started: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr).trim().to_string();
    match out.status.code() {
        Some(0) => Ok(page),
        // Its word for what the machine lacks.
        Some(3) => Err(said),
        _ => panic!("build.sh: {said}"),
    }
}

/// What the page is asked for below.
const CONFIGS: [&str; 4] = ["none", "mq-deadline", "bfq{slice_idle=0}", "slo-paternoster"];

fn alone() -> (String, String, String) {
    let plan = Plan::of(Experiment::load("latency-2019").unwrap())
        .drives(["plextor-px-256m5s"])
        .workloads(["readers"])
        .configs(CONFIGS)
        .reps(1)
        .seed(7)
        .duration(Some("500ms"));
    let grid = plan.grid(&mut |w| panic!("{w}")).unwrap();
    let run = grid.run(&Sim, 1, &AtomicBool::new(false), &|_| {}).unwrap();
    (grid.command.clone(), metrics_csv(&[&run]), html::render(&run))
}

#[test]
fn the_page_gives_the_results_of_the_command_by_keyboard_at_400_pixels() {
    // The folder goes when the browser that uses it has ended.
    let Some((_folder, mut browser)) = opened("page", 400) else { return };
    browser.fits(400);

    // An error of the lab, in place.
    browser.focus("seed");
    browser.type_over("-1");
    browser.press("Enter");
    browser.until("!document.getElementById('error').hidden");
    let said = browser.text("document.getElementById('error').textContent");
    assert!(said.starts_with("seed: '-1' is not a whole number"), "{said}");
    assert_eq!(browser.text("document.activeElement.id"), "seed", "the field is in focus");

    browser.type_over("7");
    browser.focus("duration");
    browser.type_over("500ms");
    browser.focus("reps");
    browser.type_over("1");
    // The settings of bfq, the third configuration.
    browser
        .focus_where("document.activeElement === document.querySelectorAll('#slots summary')[2]");
    browser.press("Enter");
    let slider =
        "document.activeElement.matches('#slots [data-name=slice_idle] input[type=range]')";
    browser.focus_where(slider);
    browser.press("Home");
    let summary = browser.text("document.querySelectorAll('#slots summary')[2].textContent");
    assert_eq!(summary, "Settings: bfq{slice_idle=0}");
    browser.fits(400);

    browser.focus("run");
    browser.press("Enter");
    browser.until("document.documentElement?.dataset.runs === '4' && document.documentElement?.dataset.state === 'ready'");
    browser.fits(400);
    let (command, metrics, report) = alone();
    assert_eq!(browser.text("document.getElementById('command').textContent"), command);
    let lines = browser.text("String(document.querySelectorAll('#figures tr').length)");
    assert_eq!(lines, "4");
    let drawn = browser.text("String(document.querySelectorAll('#charts canvas').length)");
    assert_eq!(drawn, "2");
    for (id, want) in [("metrics", metrics), ("page", report)] {
        browser.focus(id);
        let got = browser.saved("Enter");
        assert_eq!(got, want, "{id} is not what the lab gives");
    }
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn stopped_runs_can_be_followed_by_others() {
    let Some((_folder, mut browser)) = opened("stop", 1280) else { return };
    browser.focus("reps");
    browser.type_over("1000");
    browser.press("Enter");
    browser.until("document.documentElement?.dataset.state === 'running' && !document.getElementById('live').hidden");
    browser.focus("stop");
    browser.press("Enter");
    browser.until("document.documentElement?.dataset.state === 'ready'");
    assert_eq!(browser.text("document.getElementById('status').textContent"), "Stopped.");
    browser.focus("reps");
    browser.type_over("1");
    browser.press("Enter");
    browser.until("document.documentElement?.dataset.runs === '4'");
    browser.fits(1280);
    assert_eq!(browser.console(), Vec::<String>::new());
}
