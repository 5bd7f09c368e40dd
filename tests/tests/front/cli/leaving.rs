//! Ctrl+C on a command with `--wait` before the coordinator has answered (SPEC 3.6).

use std::process::{Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_tests::harness::{World, binary};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::caller::{ADMIN, Api};

/// A coordinator behind a proxy that holds back the first answer.
struct Held {
    world: World,
    api: Api,
    url: String,
    /// Resolves when the first answer has begun.
    answered: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

async fn held() -> Held {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (begun, answered) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let to = api.url.replace("http://", "");
    tokio::spawn(async move {
        let mut first = Some((begun, released));
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&to).await.unwrap();
            tokio::spawn(pass(client, server, first.take()));
        }
    });
    Held {
        world,
        api,
        url,
        answered,
        release,
    }
}

type Holding = (oneshot::Sender<()>, oneshot::Receiver<()>);

async fn pass(mut client: TcpStream, mut server: TcpStream, holding: Option<Holding>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let back = async {
        if let Some((begun, released)) = holding {
            let byte = from_server.read_u8().await.unwrap();
            begun.send(()).unwrap();
            // Without a release, the client has left and reads no answer.
            if released.await.is_err() {
                return;
            }
            to_client.write_u8(byte).await.unwrap();
        }
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    };
    tokio::join!(back, async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
}

impl Held {
    fn submits(&self) -> Child {
        Command::new(binary("ralph-coordinator"))
            .args(["submit", "task", "Fix the login", "--no-repo", "--wait"])
            .args(["--url", &self.url, "--token", ADMIN])
            .current_dir(self.world.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    async fn tasks(&self) -> usize {
        let (_, tasks) = self.api.get("/tasks").await;
        tasks["items"].as_array().unwrap().len()
    }
}

fn interrupt(child: &Child) {
    let id = Pid::from_raw(child.id().unwrap().cast_signed());
    kill(id, Signal::SIGINT).unwrap();
}

/// Reads its output until it waits for the answer.
async fn until_noticed(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("Ctrl+C again leaves without it") {
        assert_ne!(lines.read_line(&mut text).await.unwrap(), 0, "{text}");
    }
    child.stderr = Some(lines.into_inner());
}

fn assert_interrupted(output: &Output, words: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains(words), "{text}");
}

#[tokio::test]
async fn an_interrupted_command_reports_the_run_that_it_started() {
    let mut held = held().await;
    let mut child = held.submits();
    (&mut held.answered).await.unwrap();
    interrupt(&child);
    until_noticed(&mut child).await;
    let (release, _) = oneshot::channel();
    std::mem::replace(&mut held.release, release).send(()).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_interrupted(&output, "the run goes on");
    assert_interrupted(&output, "fix-the-login");
    assert_eq!(held.tasks().await, 1);
}

#[tokio::test]
async fn a_second_interrupt_does_not_wait_for_the_answer() {
    let mut held = held().await;
    let mut child = held.submits();
    (&mut held.answered).await.unwrap();
    interrupt(&child);
    until_noticed(&mut child).await;
    interrupt(&child);
    let output = child.wait_with_output().await.unwrap();
    assert_interrupted(&output, "left before the coordinator answered");
    assert_eq!(held.tasks().await, 1, "the coordinator accepted the task");
}
