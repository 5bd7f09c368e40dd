//! Finds the test command of a repository, for a submission without a gate.

use std::fs::File;
use std::io::{BufRead as _, IsTerminal as _, Read as _, stderr, stdin};
use std::path::Path;

use ralph_api::body::RunOptions;

use super::repo::{RepoFlags, local_top};

/// Bytes of a file that are searched.
const FILE_BYTES: u64 = 1 << 20;

/// Offers the repository's own test command if there is no gate: asks at a terminal, else prints a hint.
pub async fn offer(flags: &RepoFlags, run: &mut RunOptions) -> anyhow::Result<()> {
    if !run.gate.is_empty() {
        return Ok(());
    }
    let Some(found) = local_top(flags).await.as_deref().and_then(test_command) else {
        return Ok(());
    };
    if !stdin().is_terminal() || !stderr().is_terminal() {
        eprintln!("hint: no command checks work before it lands; give one, as --gate \"{found}\"");
        return Ok(());
    }
    eprint!("Must `{found}` succeed before work lands? Without a gate no command checks it. [Y/n] ");
    let mut line = String::new();
    if stdin().lock().read_line(&mut line)? == 0 {
        anyhow::bail!("nothing was submitted");
    }
    if matches!(line.trim(), "" | "y" | "Y" | "yes") {
        run.gate.push(found);
    }
    Ok(())
}

/// The test command of the repository at `top`, by the build tools that it uses.
fn test_command(top: &Path) -> Option<String> {
    let has = |name: &str| top.join(name).is_file();
    let holds = |name: &str, text: &str| read(&top.join(name)).is_some_and(|read| read.contains(text));
    let target = |name: &str| {
        let is_target = |line: &str| line.starts_with("test:") || line.starts_with("test ");
        read(&top.join(name)).is_some_and(|text| text.lines().any(is_target))
    };
    let found = if ["Makefile", "makefile", "GNUmakefile"].into_iter().any(target) {
        "make test"
    } else if ["justfile", "Justfile", ".justfile"].into_iter().any(target) {
        "just test"
    } else if has("Cargo.toml") {
        "cargo test"
    } else if has("package.json") {
        return npm_test(top);
    } else if has("uv.lock") && (holds("uv.lock", "name = \"pytest\"") || has("tests/__init__.py")) {
        "uv run pytest"
    } else if has("pytest.ini") || holds("pyproject.toml", "pytest") || holds("setup.cfg", "pytest") {
        "python -m pytest"
    } else if has("go.mod") {
        "go test ./..."
    } else if has("gradlew") {
        "./gradlew test"
    } else if has("mvnw") {
        "./mvnw --quiet test"
    } else if has("pom.xml") {
        "mvn --quiet test"
    } else if has("mix.exs") {
        "mix test"
    } else if has("deno.json") || has("deno.jsonc") {
        "deno test"
    } else if has(".rspec") {
        "bundle exec rspec"
    } else if has("global.json") || has("Directory.Build.props") {
        "dotnet test"
    } else {
        return None;
    };
    Some(found.to_owned())
}

/// The test script of `package.json`, after an installation by the tool that wrote the lock file.
fn npm_test(top: &Path) -> Option<String> {
    let package: serde_json::Value = serde_json::from_str(&read(&top.join("package.json"))?).ok()?;
    // The default of `npm init`.
    let script = package["scripts"]["test"].as_str()?;
    if script.contains("no test specified") {
        return None;
    }
    let tools = [
        ("package-lock.json", "npm ci && npm test"),
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile && pnpm test"),
        ("yarn.lock", "yarn install --frozen-lockfile && yarn test"),
        ("bun.lock", "bun install --frozen-lockfile && bun run test"),
    ];
    let tool = tools.into_iter().find(|(lock, _)| top.join(lock).is_file());
    Some(
        tool.map_or("npm install && npm test", |(_, command)| command)
            .to_owned(),
    )
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(FILE_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_test_command_follows_from_the_repository_files() {
        let check = |files: &[(&str, &str)], expected: Option<&str>| {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            assert_eq!(test_command(dir.path()).as_deref(), expected, "{files:?}");
        };
        check(&[], None);
        check(&[("README.md", "cargo test")], None);
        check(&[("Makefile", "build:\n\ttrue\n")], None);
        check(
            &[("Makefile", ".PHONY: test\ntest: build\n"), ("Cargo.toml", "")],
            Some("make test"),
        );
        check(
            &[("Makefile", "tests:\n"), ("Cargo.toml", "")],
            Some("cargo test"),
        );
        check(&[("justfile", "test *args:\n")], Some("just test"));
        let script = |text: &str| format!("{{\"scripts\": {{\"test\": \"{text}\"}}}}");
        check(
            &[("package.json", &script("jest")), ("package-lock.json", "")],
            Some("npm ci && npm test"),
        );
        check(
            &[("package.json", &script("echo no test specified && exit 1"))],
            None,
        );
        check(&[("package.json", "not json")], None);
        check(
            &[("pyproject.toml", "[tool.pytest.ini_options]"), ("uv.lock", "")],
            Some("python -m pytest"),
        );
        check(
            &[("uv.lock", "[[package]]\nname = \"pytest\"\n")],
            Some("uv run pytest"),
        );
        check(&[("go.mod", "module x\n")], Some("go test ./..."));
    }
}
