//! Paths that must be readable for a program to start: links on the way to it, the packages that contain it,
//! and its interpreter with everything that one needs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Longest chain of links, as in the kernel.
const MOST_LINKS: usize = 40;

/// Longest chain of scripts as interpreters of scripts.
const MOST_INTERPRETERS: usize = 4;

/// How much of a script's beginning is read. Bytes.
const HEAD_BYTES: u64 = 1024;

/// Folders beside a program's `bin` that belong to the program.
const BESIDE: &[(&str, &[&str])] = &[
    ("go", &["VERSION", "go.env", "lib", "misc", "pkg", "src"]),
    ("java", &["conf", "jmods", "legal", "lib", "release"]),
    ("javac", &["conf", "jmods", "legal", "lib", "release"]),
    ("php", &["etc", "lib", "share"]),
    ("perl", &["lib", "share"]),
    ("python", &["include", "lib", "lib64", "share"]),
    ("ruby", &["etc", "include", "lib", "share"]),
];

/// The folders beside `bin` for all other programs.
const BESIDE_OTHERS: &[&str] = &["include", "lib", "lib64", "libexec"];

/// Finds programs and the paths they need. It remembers the programs it followed: a folder of shims names one
/// interpreter a hundred times.
#[derive(Debug)]
pub struct ProgramSearch<'a> {
    path: &'a [PathBuf],
    /// The home of the worker's user, never accessible as a whole.
    user_home: Option<&'a Path>,
    /// Programs followed so far, with the number of interpreters that were allowed.
    followed: RefCell<HashMap<PathBuf, usize>>,
    /// Folders already checked for a virtual environment.
    prefixes: RefCell<HashSet<PathBuf>>,
    by_name: RefCell<HashMap<String, Option<PathBuf>>>,
}

impl<'a> ProgramSearch<'a> {
    pub fn new(path: &'a [PathBuf], user_home: Option<&'a Path>) -> Self {
        Self {
            path,
            user_home,
            followed: RefCell::default(),
            prefixes: RefCell::default(),
            by_name: RefCell::default(),
        }
    }

    /// The paths that a program needs to start, including itself, without those returned earlier. Empty if
    /// there is no program.
    pub fn needs(&self, program: &Path) -> Vec<PathBuf> {
        let mut needs = Vec::new();
        self.add(program, MOST_INTERPRETERS, &mut needs);
        needs
    }

    fn add(&self, program: &Path, interpreters: usize, needs: &mut Vec<PathBuf>) {
        let earlier = self
            .followed
            .borrow_mut()
            .insert(program.to_owned(), interpreters);
        if !program.is_absolute() || earlier.is_some_and(|earlier| earlier >= interpreters) {
            return;
        }
        let Some(real) = program.canonicalize().ok().filter(|real| real.is_file()) else {
            return;
        };
        for step in symlinks(program, &real) {
            needs.extend(self.environment_of(&step, interpreters));
            needs.push(step);
        }
        needs.extend(packages(&real));
        let head = head(&real);
        if interpreters > 0
            && let Some(interpreter) = interpreter(&head)
        {
            if runs_javascript(&interpreter) {
                needs.extend(self.package(&real));
            }
            if let Some(program) = self.resolve(&interpreter) {
                self.add(&program, interpreters - 1, needs);
            }
        } else if head.starts_with(b"\x7fELF") {
            needs.extend(self.beside(&real));
        }
    }

    /// The virtual environment (PEP 405) of a program, with the installation that it is based on.
    fn environment_of(&self, program: &Path, interpreters: usize) -> Vec<PathBuf> {
        let prefix = program.parent().and_then(Path::parent);
        let Some(prefix) = prefix.filter(|prefix| self.prefixes.borrow_mut().insert(prefix.to_path_buf()))
        else {
            return Vec::new();
        };
        let Ok(settings) = fs::read_to_string(prefix.join("pyvenv.cfg")) else {
            return Vec::new();
        };
        let mut needs = vec![prefix.to_owned()];
        let homes = settings.lines().filter_map(|line| line.split_once('='));
        for (_, home) in homes.filter(|(name, _)| name.trim() == "home") {
            let python = Path::new(home.trim()).join("python3");
            if interpreters > 0 {
                self.add(&python, interpreters - 1, &mut needs);
            }
        }
        needs
    }

    /// The package of a script outside any `node_modules`, for example a linked one.
    fn package(&self, script: &Path) -> Option<PathBuf> {
        let above = script.ancestors().skip(1);
        let within = above.take_while(|folder| !self.user_home.is_some_and(|home| home.starts_with(folder)));
        let mut package = within.filter(|folder| folder.join("package.json").is_file());
        package.next().map(Path::to_owned)
    }

    /// Folders beside a program's folder, if that is a `bin` of its own.
    fn beside(&self, program: &Path) -> Vec<PathBuf> {
        let is_bin = |folder: &&Path| folder.file_name().is_some_and(|name| name == "bin");
        let bin = program.parent().filter(is_bin);
        let prefix = bin
            .and_then(Path::parent)
            .filter(|prefix| Some(*prefix) != self.user_home);
        let (Some(prefix), Some(name)) = (prefix, program.file_name()) else {
            return Vec::new();
        };
        let name = name.to_string_lossy();
        // `python3.12` is a python.
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let known = BESIDE.iter().find(|(known, _)| *known == plain);
        let beside = known.map_or(BESIDE_OTHERS, |(_, beside)| beside);
        beside.iter().map(|beside| prefix.join(beside)).collect()
    }

    /// Finds a program by name, like a shell.
    fn resolve(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(name.into());
        }
        let search = || {
            let mut places = self.path.iter().map(|folder| folder.join(name));
            places.find(|place| is_executable(place))
        };
        let mut by_name = self.by_name.borrow_mut();
        by_name.entry(name.to_owned()).or_insert_with(search).clone()
    }
}

/// Whether the file is an executable program.
pub fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Each link on the way to a program, and the final target.
fn symlinks(program: &Path, real: &Path) -> Vec<PathBuf> {
    let mut steps = vec![program.to_owned()];
    while let Some(last) = steps.last()
        && let Ok(next) = fs::read_link(last)
        && steps.len() < MOST_LINKS
    {
        let next = last.parent().unwrap_or(Path::new("/")).join(next);
        let folder = next.parent().and_then(|folder| folder.canonicalize().ok());
        let (Some(folder), Some(name)) = (folder, next.file_name()) else {
            break;
        };
        steps.push(folder.join(name));
    }
    steps.push(real.to_owned());
    steps.dedup();
    steps
}

/// The outermost package folder that contains a file.
fn packages(real: &Path) -> Option<PathBuf> {
    let is_packages = |above: &&Path| {
        let name = above.file_name();
        name.is_some_and(|name| name == "node_modules" || name == "site-packages")
    };
    real.ancestors().filter(is_packages).last().map(Path::to_owned)
}

fn head(file: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(file) = File::open(file) {
        let _ = file.take(HEAD_BYTES).read_to_end(&mut head);
    }
    head
}

/// The interpreter of a script: a path, or a name that `env` looks for.
fn interpreter(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head.strip_prefix(b"#!")?);
    let mut lines = text.lines();
    let line = lines.next()?.trim();
    let (program, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let is = |name: &str| Path::new(program).file_name().is_some_and(|file| file == name);
    if is("env") {
        return by_env(rest);
    }
    // Python installers write this form if the path is too long for the kernel or contains blanks.
    let second = lines.next().and_then(|line| line.strip_prefix("'''exec' "));
    if let Some(words) = second
        .filter(|_| is("sh"))
        .and_then(|line| shell_words::split(line).ok())
    {
        return words.into_iter().next();
    }
    (!program.is_empty()).then(|| program.to_owned())
}

/// The program among the arguments of `env`, after its flags and variables.
fn by_env(arguments: &str) -> Option<String> {
    let arguments = arguments.trim();
    let split = ["--split-string=", "-S"]
        .iter()
        .find_map(|flag| arguments.strip_prefix(flag));
    let mut words = shell_words::split(split.unwrap_or(arguments)).ok()?.into_iter();
    loop {
        let word = words.next()?;
        match word.as_str() {
            "-u" | "--unset" | "-C" | "--chdir" => drop(words.next()),
            flag if flag.starts_with('-') => {}
            set if set.contains('=') => {}
            _ => return Some(word),
        }
    }
}

fn runs_javascript(interpreter: &str) -> bool {
    let name = Path::new(interpreter).file_name().unwrap_or_default();
    ["node", "nodejs", "bun", "deno"]
        .iter()
        .any(|runtime| name == *runtime)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A user's home. Paths that begin with `~` are inside it.
    struct Home(TempDir);

    impl Home {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn file(&self, name: &str, text: &str) -> &Self {
            let text = text.replace("~/", self.at("").to_str().unwrap());
            fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
            fs::write(self.at(name), text).unwrap();
            fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o755)).unwrap();
            self
        }

        fn elf(&self, name: &str) -> &Self {
            self.file(name, "\x7fELF")
        }

        fn link(&self, name: &str, to: &str) -> &Self {
            fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
            symlink(to.replace("~/", self.at("").to_str().unwrap()), self.at(name)).unwrap();
            self
        }

        /// The paths that a program needs, relative to the home.
        fn needs(&self, program: &str, path: &[&str]) -> Vec<String> {
            let home = self.at("");
            let path: Vec<PathBuf> = path.iter().map(|folder| self.at(folder)).collect();
            let around = ProgramSearch::new(&path, Some(&home));
            let needs = around.needs(&self.at(program));
            let mut below: Vec<String> = needs
                .iter()
                .filter_map(|path| Some(path.strip_prefix(&home).ok()?.display().to_string()))
                .collect();
            below.sort();
            below.dedup();
            below
        }

        #[track_caller]
        fn check(&self, program: &str, path: &[&str], expected: &[&str]) {
            let needs = self.needs(program, path);
            for expected in expected {
                assert!(
                    needs.iter().any(|need| need == expected),
                    "{expected} of {needs:?}"
                );
            }
            let whole = ["", ".local", ".config", ".ssh", "bin"];
            assert!(
                !needs.iter().any(|need| whole.contains(&need.as_str())),
                "{needs:?}"
            );
        }
    }

    #[test]
    fn an_npm_script_needs_its_packages_and_the_node_that_env_finds() {
        let home = Home::new();
        let package = ".nvm/versions/node/v22/lib/node_modules/@scope/agent/dist/index.js";
        home.file(package, "#!/usr/bin/env node\n")
            .link(
                ".nvm/versions/node/v22/bin/agent",
                "../lib/node_modules/@scope/agent/dist/index.js",
            )
            .elf(".nvm/versions/node/v22/bin/node")
            .link(".local/bin/agent", "../../.nvm/versions/node/v22/bin/agent");
        home.check(
            ".local/bin/agent",
            &[".nvm/versions/node/v22/bin"],
            &[
                ".local/bin/agent",
                ".nvm/versions/node/v22/bin/agent",
                package,
                ".nvm/versions/node/v22/lib/node_modules",
                ".nvm/versions/node/v22/bin/node",
                ".nvm/versions/node/v22/lib",
            ],
        );
        // Linked by `npm link` from its source folder.
        home.file(
            "src/mine/cli.mjs",
            "#!/usr/bin/env -S FLAGS=1 node --no-warnings\n",
        )
        .file("src/mine/package.json", "{}")
        .file("src/other/secret", "")
        .link("prefix/lib/node_modules/mine", "../../../src/mine")
        .link("prefix/bin/mine", "../lib/node_modules/mine/cli.mjs");
        let needs = home.needs("prefix/bin/mine", &[".nvm/versions/node/v22/bin"]);
        assert!(needs.contains(&"src/mine".to_owned()), "{needs:?}");
        assert!(
            needs.contains(&".nvm/versions/node/v22/bin/node".to_owned()),
            "{needs:?}"
        );
        assert!(!needs.contains(&"src".to_owned()), "{needs:?}");
    }

    #[test]
    fn a_python_script_needs_its_environment_and_base_installation() {
        let home = Home::new();
        let base = ".local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu";
        home.elf(&format!("{base}/bin/python3.12"))
            .link(&format!("{base}/bin/python3"), "python3.12");
        let environment = |prefix: &str| {
            home.file(
                &format!("{prefix}/pyvenv.cfg"),
                &format!("home = ~/{base}/bin\nversion = 3.12\n"),
            )
            .link(
                &format!("{prefix}/bin/python"),
                &format!("~/{base}/bin/python3.12"),
            );
        };
        let lib = format!("{base}/lib");
        let python = format!("{base}/bin/python3.12");
        for (prefix, name) in [
            (".local/share/pipx/venvs/agent", ".local/bin/agent"),
            (".local/share/uv/tools/agent", ".local/bin/agent-of-uv"),
            ("work/.venv", "bin/mine"),
        ] {
            environment(prefix);
            home.file(
                &format!("{prefix}/bin/agent"),
                &format!("#!~/{prefix}/bin/python\nimport agent\n"),
            )
            .link(name, &format!("~/{prefix}/bin/agent"));
            home.check(name, &[], &[name, prefix, &python, &lib]);
        }
        // The form of installers if the path is too long for the kernel or contains a blank.
        environment("has blank");
        home.file(
            "has blank/bin/agent",
            "#!/bin/sh\n'''exec' '~/has blank/bin/python' \"$0\" \"$@\"\n' '''\nimport agent\n",
        );
        home.check("has blank/bin/agent", &[], &["has blank", &python, &lib]);
        // Without an environment, only the interpreter.
        home.file("bin/plain", "#!/usr/bin/env python3\n");
        home.check(
            "bin/plain",
            &[&format!("{base}/bin")],
            &["bin/plain", &python, &lib],
        );
    }

    #[test]
    fn a_real_virtual_environment_is_followed_to_its_interpreter() {
        let home = Home::new();
        let made = std::process::Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(home.at("venv"))
            .status();
        assert!(made.unwrap().success());
        home.file("venv/bin/agent", "#!~/venv/bin/python\n");
        home.check(
            "venv/bin/agent",
            &[],
            &["venv", "venv/bin/agent", "venv/bin/python"],
        );
        let around = ProgramSearch::new(&[], None);
        let needs = around.needs(&home.at("venv/bin/agent"));
        let real = home.at("venv/bin/python").canonicalize().unwrap();
        assert!(needs.contains(&real), "{real:?} of {needs:?}");
        let lib = real.parent().and_then(Path::parent).unwrap().join("lib");
        assert!(needs.contains(&lib), "{lib:?} of {needs:?}");
    }

    #[test]
    fn languages_need_folders_beside_their_programs() {
        let home = Home::new();
        home.elf("sdk/go/bin/go").elf("jdk-21/bin/java").elf("bin/tool");
        home.check(
            "sdk/go/bin/go",
            &[],
            &["sdk/go/src", "sdk/go/pkg", "sdk/go/VERSION"],
        );
        home.check("jdk-21/bin/java", &[], &["jdk-21/lib", "jdk-21/conf"]);
        assert_eq!(home.needs("bin/tool", &[]), ["bin/tool"]);
    }

    #[test]
    fn broken_or_cyclic_links_need_nothing() {
        let home = Home::new();
        home.link("a", "b").link("b", "a").link("c", "gone");
        home.file("d", "#!~/d\n")
            .file("e", "#!\n")
            .file("f", "#!/usr/bin/env\n");
        for (name, expected) in [("a", 0), ("c", 0), ("gone", 0), ("d", 1), ("e", 1), ("f", 1)] {
            assert_eq!(home.needs(name, &[]).len(), expected, "{name}");
        }
    }

    #[test]
    fn interpreters_are_parsed_like_the_kernel_and_env_do() {
        let check = |head: &str, expected: Option<&str>| {
            assert_eq!(interpreter(head.as_bytes()).as_deref(), expected, "{head}");
        };
        check("#!/usr/bin/env node\n", Some("node"));
        check("#! /bin/sh -e\n", Some("/bin/sh"));
        check("#!/usr/bin/env -S node --flag x\n", Some("node"));
        check("#!/usr/bin/env -S -i A=b 'py thon' x\n", Some("py thon"));
        check("#!/usr/bin/env --split-string=deno run\n", Some("deno"));
        check("#!/usr/bin/env -u HOME python3\n", Some("python3"));
        check(
            "#!/bin/sh\n'''exec' /v/bin/python \"$0\" \"$@\"\n",
            Some("/v/bin/python"),
        );
        check("#!/bin/sh\necho\n", Some("/bin/sh"));
        check("\x7fELF", None);
        check("echo\n", None);
    }
}
