//! The user's tools work in the sandbox, and sessions can't change them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use ralph_tests::harness::Repository;
use serde_json::Value;

use super::bench::Bench;

/// Runs `doctor` with a small repository and these commands as its gate; gives the exit code and the finding
/// about the gate.
fn tried(bench: &Bench, gate: &[&str]) -> (Option<i32>, Value) {
    let place = bench.path("repository");
    if !place.exists() {
        fs::create_dir(&place).unwrap();
        let lock = "[[package]]\nname = \"a\"\n\n[[package]]\nname = \"b\"\n";
        Repository::create(&place, &[("README", "hello\n"), ("Cargo.lock", lock)]).unwrap();
    }
    let repo = place.join("seed").display().to_string();
    let mut arguments = vec!["doctor", "-o", "json", "--repo", &repo];
    arguments.extend(gate.iter().flat_map(|command| ["--gate", *command]));
    let output = bench.output(&arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words}"));
    let mut parts = findings["parts"].as_array().unwrap().iter();
    let part = parts.find(|part| part["name"] == "gate").unwrap().clone();
    (output.status.code(), part)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn doctor_tries_a_gate_and_shows_its_output_with_advice() {
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let (code, part) = tried(&bench, &["cat README", "test -d .git"]);
    assert_eq!((code, &part["status"]), (Some(0), &"ok".into()), "{part}");

    let (code, part) = tried(&bench, &["true", "echo no such tool; exit 3", "echo never"]);
    assert_eq!((code, &part["status"]), (Some(1), &"missing".into()), "{part}");
    assert!(
        text(&part["found"]).contains("the gate failed: `echo no such tool; exit 3`"),
        "{part}"
    );
    assert_eq!(part["details"][0], "no such tool");
    assert!(part["details"].to_string().contains("exit status: 3"), "{part}");
    assert!(text(&part["advice"]).contains("sandbox_read"), "{part}");

    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n[workspace]\nsetup = [\"echo bad; false\"]\n");
    let (code, part) = tried(&bench, &[]);
    assert_eq!(code, Some(1));
    assert!(
        text(&part["found"]).contains("setup failed: `echo bad; false`"),
        "{part}"
    );

    let refused = bench.output(&["doctor", "--repo", bench.path("nowhere").to_str().unwrap()]);
    let page = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        page.contains("the test failed to run") && page.contains("nowhere"),
        "{page}"
    );
}

#[test]
fn setup_and_gate_see_one_environment() {
    let shown = "env | grep -v -e ^RALPH_ -e ^_= -e PORT | sort";
    let setup = format!(
        "[agent]\ncommand = \"{{agent}}\"\n[workspace]\npass_env = [\"MINE\"]\nsetup = [\"{shown} > setup\"]\n"
    );
    let bench = Bench::new(&setup);
    fs::create_dir_all(bench.path(".nvm")).unwrap();
    fs::create_dir(bench.path("repository")).unwrap();
    Repository::create(&bench.path("repository"), &[("README", "hello\n")]).unwrap();
    let repo = bench.path("repository/seed").display().to_string();
    let same = format!("{shown} > gate; diff setup gate");
    let found = format!(
        "test \"$NVM_DIR\" = {} && test \"$MINE\" = yes",
        bench.path(".nvm").display()
    );
    let mut doctor = bench.worker(&["doctor", "--repo", &repo, "--gate", &same, "--gate", &found]);
    doctor
        .env_remove("NVM_DIR")
        .env("MINE", "yes")
        .env("OTHER_TOKEN", "no");
    let output = doctor.output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.contains("tools: ") && page.contains("nvm"), "{page}");
}

#[test]
fn poisoned_downloads_reach_neither_the_user_nor_the_next_session() {
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let files = [
        ".cargo/registry/cache/host/a-1.crate",
        ".cargo/registry/src/host/a-1/lib.rs",
        ".gradle/wrapper/dists/gradle/hash/gradle.zip",
    ];
    for file in files {
        program(&bench.path(file), "good\n");
    }
    // The index is a copy.
    let index = ".cargo/registry/index/host/.cache/a/b";
    program(&bench.path(index), "good\n");
    let copied = format!("test \"$(cat $HOME/{index})\" = good && echo evil > $HOME/{index}");
    program(&bench.path("go/pkg/mod/cache/download/x"), "good\n");
    program(&bench.path(".cargo/credentials.toml"), "token = \"hidden\"\n");
    program(
        &bench.path(".npmrc"),
        "registry=https://npm.example.org/\n//npm.example.org/:_authToken=hidden\n",
    );
    let theirs = files
        .map(|file| format!("test \"$(cat $HOME/{file})\" = good"))
        .join(" && ");
    // The user's files can't be changed through a link, through the linked folder, or by their real path.
    let user = bench.path(".");
    let user = user.display();
    let written = files.map(|file| {
        format!("! echo evil > $HOME/{file} && ! echo evil > {user}/{file} && ! rm -f {user}/{file} && ! echo evil > $(dirname $(readlink -f $HOME/{file}))/new")
    });
    let go = "f=${GOPROXY#file://}; f=${f%%,*}; test \"$(cat $f/x)\" = good && ! echo evil > $f/x";
    let secrets = format!(
        "grep -q registry= $HOME/.npmrc && ! grep -r hidden $HOME && ! cat {user}/.npmrc && ! cat {user}/.cargo/credentials.toml"
    );
    // The session may change its own copy, which is deleted with the session.
    let own = format!("rm -rf $HOME/{0} && echo evil > $HOME/{0}", files[0]);
    let gate = [&theirs, &written.join(" && "), go, &copied, &secrets, &own];
    for time in ["first", "second"] {
        let (code, part) = tried(&bench, &gate);
        assert_eq!(code, Some(0), "{time}: {part}");
    }
    assert_eq!(fs::read_to_string(bench.path(index)).unwrap(), "good\n");
    for file in files {
        assert_eq!(fs::read_to_string(bench.path(file)).unwrap(), "good\n", "{file}");
        assert!(!bench.path(file).with_file_name("new").exists(), "{file}");
    }
}

/// Asserts that an agent at this path below the home starts.
fn starts(bench: &Bench, path: &str) {
    let command = format!("{} {}", bench.path(path).display(), super::bench::AGENT);
    let mut doctor = bench.worker(&["doctor", "--agent", &command]);
    // Variables of the person who runs the test.
    for variable in [
        "ASDF_DATA_DIR",
        "MISE_DATA_DIR",
        "PYENV_ROOT",
        "NVM_DIR",
        "VOLTA_HOME",
    ] {
        doctor.env_remove(variable);
    }
    let output = doctor.output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{path}: {page}");
}

/// Python script that starts the program of its first argument.
const IN_PYTHON: &str = "import os, sys\nimport beside\nos.execv(sys.argv[1], sys.argv[1:])\n";

/// The same in JavaScript, with a module of its package.
const IN_NODE: &str = "require('./beside');\nconst { spawnSync } = require('child_process');\n\
                       spawnSync(process.argv[2], process.argv.slice(3), { stdio: 'inherit' });\n";

#[test]
fn agents_in_virtual_environments_start() {
    let bench = Bench::new("[agent]\ncommand = \"x\"\n");
    for (prefix, link) in [
        (".local/share/pipx/venvs/agent", ".local/bin/by-pipx"),
        (".local/share/uv/tools/agent", ".local/bin/by-uv"),
        ("somewhere/venv", "bin/by-hand"),
    ] {
        let prefix = bench.path(prefix);
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--without-pip"]).arg(&prefix);
        assert!(venv.status().unwrap().success());
        let mut purelib = Command::new(prefix.join("bin/python"));
        purelib.args([
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'), end='')",
        ]);
        let packages = String::from_utf8(purelib.output().unwrap().stdout).unwrap();
        fs::write(Path::new(&packages).join("beside.py"), "").unwrap();
        let agent = prefix.join("bin/agent");
        program(&agent, &format!("#!{}/bin/python\n{IN_PYTHON}", prefix.display()));
        fs::create_dir_all(bench.path(link).parent().unwrap()).unwrap();
        symlink(&agent, bench.path(link)).unwrap();
        starts(&bench, link);
    }
}

#[test]
fn agents_of_npm_and_of_version_managers_start() {
    let bench = Bench::new("[agent]\ncommand = \"x\"\n");
    let script = format!("#!/usr/bin/env node\n{IN_NODE}");
    // One package is installed below a prefix, the other one is linked from its sources.
    for package in [".npm-global/lib/node_modules/agent", "src/agent"] {
        program(&bench.path(package).join("cli.js"), &script);
        program(&bench.path(package).join("beside.js"), "");
        program(&bench.path(package).join("package.json"), "{}");
    }
    fs::create_dir_all(bench.path(".npm-global/bin")).unwrap();
    symlink(
        "../lib/node_modules/agent/cli.js",
        bench.path(".npm-global/bin/agent"),
    )
    .unwrap();
    symlink(
        "../../../src/agent",
        bench.path(".npm-global/lib/node_modules/mine"),
    )
    .unwrap();
    symlink(
        "../lib/node_modules/mine/cli.js",
        bench.path(".npm-global/bin/mine"),
    )
    .unwrap();
    starts(&bench, ".npm-global/bin/agent");
    starts(&bench, ".npm-global/bin/mine");
    // A shim starts a program in its manager's folder.
    for manager in [".asdf", ".local/share/mise", ".pyenv", ".nvm", ".volta"] {
        let real = bench.path(manager).join("installs/x/bin/agent");
        program(&real, "#!/bin/sh\nexec \"$@\"\n");
        let shim = format!("{manager}/shims/agent");
        program(
            &bench.path(&shim),
            &format!("#!/usr/bin/env bash\nexec {} \"$@\"\n", real.display()),
        );
        starts(&bench, &shim);
    }
}
