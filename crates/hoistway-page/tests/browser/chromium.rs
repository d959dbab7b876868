//! A headless Chromium that is told what to do over two pipes: JSON messages of the DevTools protocol, a zero byte
//! behind each.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

pub const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A condition is looked at so often, a tenth of a second apart, before the test gives up: machines may be busy.
const LOOKS: u32 = 3_000;
/// More elements than the page has: where none of them is what is sought, it cannot be reached.
const TABS: u32 = 400;

/// A folder that is gone at the test's end.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Chromium {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    events: VecDeque<Value>,
    console: Vec<String>,
    downloads: PathBuf,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.child.wait();
    }
}

impl Chromium {
    /// `None` where there is no browser.
    pub fn start(dir: &Path) -> Option<Chromium> {
        let works =
            |n: &&&str| Command::new(n).arg("--version").output().is_ok_and(|o| o.status.success());
        let name = NAMES.iter().find(works)?;
        // It reads from descriptor 3 and writes to 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2", "sh", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run"])
            .arg(format!("--user-data-dir={}", dir.join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a browser that told its version starts");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        let downloads = dir.join("downloads");
        let (events, console) = (VecDeque::new(), Vec::new());
        Some(Chromium { child, to, from, session: None, sent: 0, events, console, downloads })
    }

    /// One command and its answer; events meanwhile are kept.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = format!("{message}\0");
        self.to.write_all(text.as_bytes()).expect("the browser reads");
        loop {
            let answer = self.message();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
            self.events.push_back(answer);
        }
    }

    fn message(&mut self) -> Value {
        let mut text = Vec::new();
        let n = self.from.read_until(0, &mut text).expect("the browser writes");
        assert!(n > 0, "the browser has ended");
        text.pop();
        serde_json::from_slice(&text).expect("a message is JSON")
    }

    /// What its console would show.
    fn note(&mut self, event: &Value) {
        let shows = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"];
        if event["method"].as_str().is_some_and(|m| shows.contains(&m)) {
            self.console.push(event["params"].to_string());
        }
    }

    pub fn console(&mut self) -> Vec<String> {
        self.text("''");
        std::mem::take(&mut self.console)
    }

    /// A file in a window of that width.
    pub fn open(&mut self, page: &Path, width: u32) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", attach)["sessionId"].clone();
        let place = json!({
            "behavior": "allowAndName", "downloadPath": self.downloads, "eventsEnabled": true,
        });
        self.call("Browser.setDownloadBehavior", place);
        self.session = session.as_str().map(str::to_string);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}));
        }
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
    }

    fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let said = self.call("Runtime.evaluate", asked);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {said}");
        said["result"]["value"].clone()
    }

    pub fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_string()
    }

    pub fn holds(&mut self, condition: &str) -> bool {
        self.value(condition) == true
    }

    pub fn until(&mut self, condition: &str) {
        for _ in 0..LOOKS {
            if self.holds(condition) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let page = self.text("document.documentElement.dataset.state + ': ' + document.getElementById('form').innerText");
        panic!("does not come to hold: {condition}\n{page}\n{:?}", self.console);
    }

    /// Nothing makes the page scroll sideways.
    pub fn fits(&mut self, width: u32) {
        let found = self.text("String(document.documentElement.scrollWidth)");
        assert!(found.parse::<u32>().is_ok_and(|w| w <= width), "{found} in a window of {width}");
    }

    /// Presses a key with its name as of `KeyboardEvent.key`.
    pub fn press(&mut self, key: &str) {
        self.press_with(key, 0);
    }

    fn press_with(&mut self, key: &str, modifiers: u32) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Home" => (36, ""),
            "a" => (65, ""),
            other => panic!("the code of {other} is not written here"),
        };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let commands =
            if (key, modifiers) == ("a", CTRL) { json!(["selectAll"]) } else { json!([]) };
        for kind in [down, "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": if key == "a" { "KeyA" } else { key }, "text": text,
                "windowsVirtualKeyCode": code, "modifiers": modifiers, "commands": commands,
            });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Presses Tab until that condition on the element in focus holds.
    pub fn focus_where(&mut self, condition: &str) {
        for _ in 0..TABS {
            if self.holds(condition) {
                return;
            }
            self.press("Tab");
        }
        panic!("Tab does not lead to where {condition}");
    }

    pub fn focus(&mut self, id: &str) {
        self.focus_where(&format!("document.activeElement.id === '{id}'"));
    }

    /// Replaces what is in the field in focus.
    pub fn type_over(&mut self, text: &str) {
        self.press_with("a", CTRL);
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The file that is saved when a key is pressed.
    pub fn saved(&mut self, key: &str) -> String {
        self.events.clear();
        self.press(key);
        loop {
            let Some(event) = self.events.pop_front() else {
                let message = self.message();
                self.note(&message);
                self.events.push_back(message);
                continue;
            };
            let (method, params) = (&event["method"], &event["params"]);
            if method == "Browser.downloadProgress" && params["state"] == "completed" {
                let name = params["guid"].as_str().expect("a name");
                return std::fs::read_to_string(self.downloads.join(name)).expect("it was saved");
            }
            assert_ne!(params["state"], "canceled", "the download was ended: {event}");
        }
    }
}

const CTRL: u32 = 2;
