//! A real browser: headless Chromium, driven through chromedriver by the WebDriver protocol. What it refuses fails the test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::waits::until;

/// What elements are called in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one tab.
#[derive(Debug)]
pub struct Browser {
    clicks: AtomicUsize,
    driver: Child,
    http: reqwest::Client,
    session: String,
    profile: TempDir,
}

impl Browser {
    /// Whether this machine has one; says what to do where it hasn't.
    pub async fn is_installed() -> bool {
        let version = Command::new("chromedriver").arg("--version").output().await;
        if version.is_err() {
            eprintln!(
                "left out: no chromedriver here; `make test` installs it, or your system's packages chromium and chromium-driver"
            );
        }
        version.is_ok()
    }

    /// Starts one, without anything of an earlier one.
    pub async fn open() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("chromedriver ended before it listened");
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        // What it says later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let profile = tempfile::tempdir().unwrap();
        let user_data = format!("--user-data-dir={}", profile.path().display());
        let options = json!({
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
                "--force-device-scale-factor=1", "--window-size=1280,900", user_data,
            ],
        });
        ralph_shared::tls::install();
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(150))
            .build()
            .unwrap();
        let base = format!("http://127.0.0.1:{port}/session");
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 120_000},
        }}});
        let answer: Value = http
            .post(&base)
            .json(&wanted)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let id = answer["value"]["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("no browser: {answer}"));
        Self {
            clicks: AtomicUsize::new(0),
            session: format!("{base}/{id}"),
            driver,
            http,
            profile,
        }
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let address = format!("{}/{path}", self.session);
        let mut request = self.http.request(method.clone(), address.trim_end_matches('/'));
        if method == Method::POST {
            request = request.json(body);
        }
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{path}: {error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.ask(Method::POST, path, &body).await.unwrap()
    }

    /// Goes to an address, until it is loaded.
    pub async fn go(&self, url: &str) {
        self.post("url", json!({ "url": url })).await;
    }

    /// Where it is.
    pub async fn address(&self) -> String {
        self.ask(Method::GET, "url", &Value::Null)
            .await
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Runs a script and gives what it returns, or promises.
    pub async fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({ "script": script, "args": [] }))
            .await
    }

    /// The text that a person sees of the page.
    pub async fn text(&self) -> String {
        let text = self.run("return document.body.innerText").await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says so.
    pub async fn shows(&self, words: &str) {
        until(words, async || {
            let text = self.text().await;
            if text.contains(words) { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// The element of this selector, once there is one.
    async fn element(&self, css: &str) -> String {
        until(css, async || {
            let found = self
                .ask(
                    Method::POST,
                    "element",
                    &json!({ "using": "css selector", "value": css }),
                )
                .await;
            found.map(|found| found[ELEMENT].as_str().unwrap().to_owned())
        })
        .await
    }

    /// Clicks on what this selects, once it is there.
    pub async fn click(&self, css: &str) {
        self.clicks.fetch_add(1, Ordering::Relaxed);
        let id = self.element(css).await;
        self.post(&format!("element/{id}/click"), json!({})).await;
    }

    /// How often something was clicked on.
    pub fn clicks(&self) -> usize {
        self.clicks.load(Ordering::Relaxed)
    }

    /// Types this text into a field.
    pub async fn write(&self, css: &str, text: &str) {
        let id = self.element(css).await;
        self.post(&format!("element/{id}/value"), json!({ "text": text }))
            .await;
    }

    /// Presses keys, wherever the cursor is.
    pub async fn press(&self, keys: &str) {
        let keys: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [
                    json!({ "type": "keyDown", "value": key.to_string() }),
                    json!({ "type": "keyUp", "value": key.to_string() }),
                ]
            })
            .collect();
        self.post(
            "actions",
            json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] }),
        )
        .await;
    }

    /// What the browser complained of: scripts that fail, what the policy refused, what could not be loaded.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.post("se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().unwrap().iter();
        entries
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Shows the page in these colours and this wide, as a picture in a file.
    pub async fn picture(&self, path: &Path, dark: bool, width: u32, height: u32) {
        let scheme = if dark { "dark" } else { "light" };
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" }] }),
        )
        .await;
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }),
        )
        .await;
        tokio::task::yield_now().await;
        let shot = self.ask(Method::GET, "screenshot", &Value::Null).await.unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, BASE64_STANDARD.decode(shot.as_str().unwrap()).unwrap()).unwrap();
        self.devtools("Emulation.clearDeviceMetricsOverride", json!({}))
            .await;
    }

    /// A command of Chrome's own protocol.
    pub async fn devtools(&self, command: &str, params: Value) -> Value {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": params }))
            .await
    }

    /// Ends it.
    pub async fn close(mut self) {
        let _ = self.ask(Method::DELETE, "", &Value::Null).await;
        self.driver.kill().await.unwrap();
    }
}

impl Drop for Browser {
    /// A test that fails leaves no browser behind: it outlives its driver, and is known by its folder.
    fn drop(&mut self) {
        let profile = self.profile.path().display().to_string();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&command).contains(&profile) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
