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
    // Each kind of judging; the names of twelve configurations fill a plot.
    let many = sample::run(1, 12, 3, 500);
    for (name, run) in [
        ("report", sample::run(2, 4, 3, 500)),
        ("many", many),
        ("free", sample::free(2, 4, 3)),
        ("shared", sample::shared(2, 4, 3)),
        ("starting", sample::starting(1, 3, 3)),
        ("single", sample::run(1, 1, 3, 500)),
    ] {
        let page = dir.join(format!("{name}.html"));
        let text = hoistway_lab::report::html::render(&run);
        let figures = text.matches("<figure data-name=").count();
        std::fs::write(&page, text.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
        for width in [1280, 500] {
            let dom = open(chromium, &profile.0, &page, width);
            let seen = |name: &str| {
                let at =
                    dom.find(&format!("data-{name}=\"")).expect("the probe ran") + name.len() + 7;
                dom[at..].split('"').next().unwrap().to_string()
            };
            assert_eq!(seen("width"), width.to_string(), "{name}");
            assert_eq!(seen("scrolls"), "0", "{name} at {width}: the page scrolls sideways");
            assert_eq!(seen("overlaps"), "", "{name} at {width}: names cover each other");
            assert_eq!(seen("outside"), "", "{name} at {width}: text leaves its figure");
            assert_eq!(seen("saved"), (2 * figures).to_string(), "{name}: SVG and PNG of each");
        }
    }
}

/// What only a browser knows: which names of a plot cover each other, what leaves its figure, whether the
/// page scrolls sideways, and whether every chart can be saved.
const PROBE: &str = r#"<script>
addEventListener("load", function () {
  var root = document.documentElement, saved = 0;
  HTMLAnchorElement.prototype.click = function () { saved += this.download ? 1 : 0; };
  var box = function (e) { return e.getBoundingClientRect(); };
  var meet = function (a, b) {
    return a.left < b.right - .5 && b.left < a.right - .5 && a.top < b.bottom - 1.5 && b.top < a.bottom - 1.5;
  };
  var overlaps = [], outside = [];
  document.querySelectorAll('[data-name="trade-off"] svg').forEach(function (svg) {
    var labels = Array.from(svg.querySelectorAll(".lab"));
    labels.forEach(function (a, i) {
      labels.slice(0, i).forEach(function (b) {
        if (meet(box(a), box(b))) overlaps.push(a.textContent + " / " + b.textContent);
      });
    });
  });
  document.querySelectorAll("figure").forEach(function (figure) {
    figure.querySelectorAll("text").forEach(function (text) {
      var a = box(text), b = box(figure);
      if (a.width && (a.left < b.left || a.right > b.right || a.bottom > b.bottom)) outside.push(text.textContent);
    });
  });
  root.dataset.width = innerWidth;
  root.dataset.scrolls = root.scrollWidth > innerWidth ? 1 : 0;
  root.dataset.overlaps = overlaps.join("; ");
  root.dataset.outside = outside.join("; ");
  document.querySelectorAll(".save button").forEach(function (b) { b.click(); });
  setInterval(function () { root.dataset.saved = saved; }, 50);
});
</script>"#;

/// A folder that is gone at the test's end.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(chromium: &str, profile: &std::path::Path, page: &std::path::Path, width: u32) -> String {
    let out = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=6000", "--dump-dom", &format!("--window-size={width},900")])
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
    dom.into_owned()
}
