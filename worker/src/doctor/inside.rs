//! A test inside the sandbox: a shell in a terminal, a compiler, the network. The worker starts itself inside
//! like an agent (`ralph-worker doctor --inside PORT`).
#![allow(unsafe_code)] // Only `pre_exec` gives a child its terminal.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use super::findings::{Part, Status};
use crate::sandbox::{Confinement, Network, PolicyRequest, Sandbox, policy};
use crate::tools::{self, Surroundings, Tools};

const LIMIT: Duration = Duration::from_secs(60);

/// Longest wait for a connection to this machine or the proxy.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Results of the test. A text describes a problem.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TestResults {
    terminal: Option<String>,
    compiler: Compiler,
    /// Whether an address of this machine is reachable.
    reached: bool,
    proxy: Option<String>,
    names: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Compiler {
    Works,
    #[default]
    Absent,
    Fails(String),
}

/// Starts this program inside the sandbox and reports its results.
pub async fn inside(sandbox: &Sandbox) -> Part {
    match run_inside(sandbox).await {
        Ok(tried) => finding(&tried, &sandbox.network),
        Err(error) => Part::new(
            "inside the sandbox",
            Status::Missing,
            format!("nothing starts there: {error}"),
            Some("see `sandbox` above; compare `--sandbox none`"),
        ),
    }
}

async fn run_inside(sandbox: &Sandbox) -> Result<TestResults, String> {
    let failed = |error: io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(failed)?;
    let [work, home, tmp] = ["work", "home", "tmp"].map(|name| folder.path().join(name));
    for folder in [&work, &home, &tmp] {
        std::fs::create_dir(folder).map_err(failed)?;
    }
    let program = std::env::current_exe().map_err(failed)?;
    let tools = Tools::of_user();
    let environment = tools::environment(Surroundings {
        session_folder: None,
        home: &home,
        tmp: &tmp,
        sandbox,
        tools: &tools,
    });
    let environment = environment.await.map_err(failed)?;
    let user_home = std::env::home_dir();
    let wanted = PolicyRequest {
        cwd: &work,
        cwd_writable: true,
        session_folder: None,
        home: &home,
        tmp: &tmp,
        argv: &[program.display().to_string()],
        environment: &environment,
        given: &[],
        passed: &[],
        user_home: user_home.as_deref(),
        tools: &tools,
        read: &sandbox.read,
        write: &sandbox.write,
    };
    let mark = format!("doctor-{}", std::process::id());
    let confinement = Confinement::new(sandbox, &policy(&wanted), &mark)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let mut command = confinement.command(&program, &environment).map_err(failed)?;
    command
        .args(["doctor", "--inside", &port.to_string()])
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = confinement.spawn(&mut command).map_err(failed)?;
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let output = output
        .map_err(|_| format!("no answer within {} s", LIMIT.as_secs()))?
        .map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr);
        format!("{}: {}", output.status, words.trim())
    })
}

/// Converts the results to a finding.
fn finding(tried: &TestResults, network: &Network) -> Part {
    let mut works = Vec::new();
    let mut problems: Vec<(String, &str)> = Vec::new();
    let mut details = Vec::new();
    match &tried.terminal {
        None => works.push("a shell in a terminal"),
        Some(error) => problems.push((
            format!("no terminal: {error}"),
            "agents that run their commands in terminals (Gemini CLI, Qwen Code) can run none: allow the worker's user to make \
             user namespaces, install bubblewrap, or share the terminals of the user with `sandbox_write = [\"/dev/ptmx\", \
             \"/dev/pts\", \"/dev/tty\"]` of [workspace]",
        )),
    }
    match &tried.compiler {
        Compiler::Works => works.push("a compiler"),
        Compiler::Absent => details.push("note: no C compiler (`cc`) is found there".to_owned()),
        Compiler::Fails(error) => problems.push((
            format!("`cc` fails: {error}"),
            "name the missing paths with `sandbox_read` of [workspace]",
        )),
    }
    let network_problems = network_problems(tried, network);
    if network_problems.is_empty() {
        works.push("the network as configured");
    }
    let advice = "see `sandbox_network` of [workspace], and the firewall of this machine";
    problems.extend(network_problems.into_iter().map(|problem| (problem, advice)));
    if let (Some(error), Network::Open) = (&tried.names, network) {
        problems.push((
            format!("names can't be looked up: {error}"),
            "name the target of /etc/resolv.conf with `sandbox_read` of [workspace]",
        ));
    }
    let mut found = works.join(", ");
    let mut advice: Vec<&str> = Vec::new();
    if !problems.is_empty() {
        let words: Vec<&str> = problems.iter().map(|(problem, _)| problem.as_str()).collect();
        found = words.join("; ");
        details.extend((!works.is_empty()).then(|| format!("works: {}", works.join(", "))));
        advice.extend(problems.iter().map(|(_, advice)| *advice));
        advice.dedup();
    }
    Part {
        name: "inside the sandbox",
        status: if problems.is_empty() {
            Status::Ok
        } else {
            Status::Warning
        },
        found,
        details,
        advice: (!advice.is_empty()).then(|| advice.join("; ")),
    }
}

fn network_problems(tried: &TestResults, network: &Network) -> Vec<String> {
    let wrong = match network {
        Network::Open if !tried.reached => Some("an address of this machine is unreachable"),
        Network::None | Network::Proxy(_) if tried.reached => {
            Some("an address of this machine is reachable although `sandbox_network` forbids it")
        }
        _ => None,
    };
    let proxy = tried.proxy.as_ref();
    let proxy = proxy.map(|error| format!("the proxy is unreachable: {error}"));
    wrong.map(str::to_owned).into_iter().chain(proxy).collect()
}

/// Runs the test inside the sandbox and prints its results.
pub fn try_all(port: u16) -> anyhow::Result<()> {
    let reaches = |address: &SocketAddr| TcpStream::connect_timeout(address, CONNECT_LIMIT).map(drop);
    let proxy = std::env::var("HTTPS_PROXY")
        .ok()
        .and_then(|url| Url::parse(&url).ok());
    let proxy = proxy.and_then(|url| url.socket_addrs(|| None).ok()?.first().copied());
    let tried = TestResults {
        terminal: terminal().err().map(|error| error.to_string()),
        compiler: compiler(),
        reached: reaches(&(Ipv4Addr::LOCALHOST, port).into()).is_ok(),
        proxy: proxy.and_then(|proxy| Some(reaches(&proxy).err()?.to_string())),
        names: match std::fs::read("/etc/resolv.conf") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some(error.to_string()),
            _ => None,
        },
    };
    println!("{}", serde_json::to_string(&tried)?);
    Ok(())
}

/// Runs a shell in a terminal, and reads its output from the other end.
fn terminal() -> io::Result<()> {
    let pty = nix::pty::openpty(None, None)?;
    let slave = || pty.slave.try_clone();
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "test -t 0 && : < /dev/tty && echo 4$((1+1))"])
        .stdin(slave()?)
        .stdout(slave()?)
        .stderr(slave()?);
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe {
        shell.pre_exec(|| {
            nix::unistd::setsid()?;
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    let mut child = shell.spawn()?;
    drop(shell);
    drop(pty.slave);
    let mut printed = Vec::new();
    // Reading fails once the shell is gone.
    let _ = File::from(pty.master).read_to_end(&mut printed);
    child.wait()?;
    let printed = String::from_utf8_lossy(&printed);
    if printed.contains("42") {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "a shell in it printed `{}`",
        printed.trim()
    )))
}

fn compiler() -> Compiler {
    let run = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).output()?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let first = words.lines().next().unwrap_or_default();
        Err(io::Error::other(format!("{}: {first}", output.status)))
    };
    if let Err(error) = run("cc", &["--version"]) {
        return match error.kind() {
            io::ErrorKind::NotFound => Compiler::Absent,
            _ => Compiler::Fails(error.to_string()),
        };
    }
    let program = PathBuf::from("tried.c");
    let tried = std::fs::write(&program, "int main(void) { return 0; }\n")
        .and_then(|()| run("cc", &["-o", "tried", "tried.c"]))
        .and_then(|()| run("./tried", &[]));
    match tried {
        Ok(()) => Compiler::Works,
        Err(error) => Compiler::Fails(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_comes_with_advice() {
        let check = |network: &str, change: fn(&mut TestResults), expected: &str, advice: Option<&str>| {
            let network: Network = network.parse().unwrap();
            let mut tried = TestResults {
                compiler: Compiler::Works,
                reached: network == Network::Open,
                ..TestResults::default()
            };
            change(&mut tried);
            let part = finding(&tried, &network);
            assert!(part.found.contains(expected), "{part:?}");
            assert_eq!(part.status == Status::Ok, advice.is_none(), "{part:?}");
            let given = part.advice.unwrap_or_default();
            assert!(given.contains(advice.unwrap_or_default()), "{given}");
        };
        check("open", |_| (), "a shell in a terminal, a compiler", None);
        check("none", |_| (), "the network as configured", None);
        check(
            "open",
            |tried| tried.compiler = Compiler::Absent,
            "a shell in a terminal",
            None,
        );
        check(
            "open",
            |tried| tried.terminal = Some("denied".to_owned()),
            "no terminal: denied",
            Some("/dev/pts"),
        );
        check(
            "open",
            |tried| tried.compiler = Compiler::Fails("no header".to_owned()),
            "`cc` fails: no header",
            Some("sandbox_read"),
        );
        check(
            "open",
            |tried| tried.reached = false,
            "is unreachable",
            Some("sandbox_network"),
        );
        check(
            "none",
            |tried| tried.reached = true,
            "forbids",
            Some("sandbox_network"),
        );
        check(
            "http://p:1",
            |tried| tried.proxy = Some("refused".to_owned()),
            "the proxy is unreachable",
            Some("sandbox_network"),
        );
        check(
            "open",
            |tried| tried.names = Some("denied".to_owned()),
            "names can't be looked up",
            Some("resolv.conf"),
        );
    }
}
