//! A real browser: headless Chromium, driven through chromedriver by the WebDriver protocol. A refusal fails
//! the test.
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

/// The WebDriver key of element ids in responses.
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
    /// Whether this machine has a browser; prints how to install one if not.
    pub async fn is_installed() -> bool {
        let version = Command::new("chromedriver").arg("--version").output().await;
        if version.is_err() {
            eprintln!(
                "skipped: no chromedriver here; `make test` installs it, or your system's packages chromium and chromium-driver"
            );
        }
        version.is_ok()
    }

    /// Starts a browser with a fresh profile.
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
        // Drained, so that later output does not fill the pipe.
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

    /// Opens an address, and waits until it is loaded.
    pub async fn go(&self, url: &str) {
        self.post("url", json!({ "url": url })).await;
    }

    pub async fn address(&self) -> String {
        self.ask(Method::GET, "url", &Value::Null)
            .await
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Runs a script and returns its result, after resolving a promise.
    pub async fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({ "script": script, "args": [] }))
            .await
    }

    /// The visible text of the page.
    pub async fn text(&self) -> String {
        let text = self.run("return document.body.innerText").await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows these words.
    pub async fn shows(&self, words: &str) {
        until(words, async || {
            let text = self.text().await;
            if text.contains(words) { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// Waits for an element that matches the selector.
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

    /// Waits for an element that matches the selector, and clicks it.
    pub async fn click(&self, css: &str) {
        self.clicks.fetch_add(1, Ordering::Relaxed);
        let id = self.element(css).await;
        self.post(&format!("element/{id}/click"), json!({})).await;
    }

    pub fn clicks(&self) -> usize {
        self.clicks.load(Ordering::Relaxed)
    }

    /// Types text into a field.
    pub async fn write(&self, css: &str, text: &str) {
        let id = self.element(css).await;
        self.post(&format!("element/{id}/value"), json!({ "text": text }))
            .await;
    }

    /// Presses keys at the current cursor.
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

    /// Errors in the browser's log: failed scripts, policy violations, and failed loads.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.post("se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().unwrap().iter();
        entries
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Saves a picture of the page in this colour scheme and size.
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

    /// Runs a command of Chrome's own protocol.
    pub async fn devtools(&self, command: &str, params: Value) -> Value {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": params }))
            .await
    }

    pub async fn close(mut self) {
        let _ = self.ask(Method::DELETE, "", &Value::Null).await;
        self.driver.kill().await.unwrap();
    }
}

impl Drop for Browser {
    /// Kills the browser after a failed test too: it outlives its driver, and its profile folder identifies
    /// it.
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
