//! Accessibility of a page: axe-core's findings, and a few checks of our own. Without npm, only axe-core is
//! skipped.

use std::path::Path;

use ralph_tests::harness::Browser;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

/// Finds controls without a name, and duplicate ids.
const OWN: &str = "
    const named = (one) => one.getAttribute('aria-label') || one.textContent.trim() || one.title || (one.labels && one.labels.length)
      || one.type === 'hidden' || one.hidden || one.value && one.type === 'submit';
    const nameless = [...document.querySelectorAll('a, button, input, select, textarea, summary')].filter((one) => !named(one));
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
    return [...nameless.map((one) => one.outerHTML.slice(0, 200)), ...twice.map((id) => `two have the id ${id}`)]";

const RUN: &str = "
    return axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations
      .filter((one) => one.impact === 'serious' || one.impact === 'critical')
      .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)}: ${node.failureSummary}`).join('; ')}`))";

/// Source of axe-core, installed on first use; `None` without npm.
async fn program() -> Option<&'static str> {
    static PROGRAM: OnceCell<Option<String>> = OnceCell::const_new();
    let install = async || {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/axe");
        let file = folder.join("node_modules/axe-core/axe.min.js");
        if !file.exists() {
            let arguments = ["install", "--no-save", "--no-audit", "--no-fund", "--prefix"];
            let npm = Command::new("npm")
                .args(arguments)
                .arg(&folder)
                .arg("axe-core@4")
                .output()
                .await;
            if !npm.is_ok_and(|npm| npm.status.success()) {
                eprintln!("skipped axe-core: npm is missing here, or cannot reach its registry");
                return None;
            }
        }
        std::fs::read_to_string(file).ok()
    };
    PROGRAM.get_or_init(install).await.as_deref()
}

/// Checks the current page in light and in dark colours.
pub async fn finds_nothing_serious(browser: &Browser, page: &str) {
    let found = browser.run(OWN).await;
    assert_eq!(found, json!([]), "{page}");
    let Some(program) = program().await else { return };
    for scheme in ["dark", "light"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser
            .devtools("Emulation.setEmulatedMedia", json!({ "features": features }))
            .await;
        browser.run(program).await;
        let found = browser.run(RUN).await;
        let all: Vec<&str> = found
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(all.is_empty(), "{page}, {scheme}: {}", all.join("\n"));
    }
}
