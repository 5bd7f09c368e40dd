//! Turns of a conversation between the agent and the person.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ralph_shared::file::{LARGE_BYTES, read_text};
use ralph_shared::terminal::{Paint, Tone};
use ralph_shared::wire::Ended;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::args::ChatArgs;
use super::reader::{Input, Reader};
use super::screen::Screen;
use crate::session::{
    Operator, OperatorInput, Question, Redactor, TranscriptReceiver, Turn, channel, converse, kill_leftovers,
    login_secrets, own_secrets, words,
};
use crate::signals;

/// How long text waits for more text to join it. The person still sees it at once.
const LINGER: Duration = Duration::from_millis(30);

/// Longest queue of a person's input.
const INPUT_QUEUE: usize = 8;

/// Exit code after a person ended the program with Ctrl+C.
const INTERRUPTED: u8 = 130;

pub async fn chat(args: ChatArgs) -> anyhow::Result<ExitCode> {
    let (spec, _tmp) = args.session()?;
    let instructions = match &args.instructions {
        Some(file) => Some(read_text(file, LARGE_BYTES).context("failed to read the instructions")?),
        None => None,
    };
    let secrets = own_secrets()
        .into_iter()
        .chain(spec.agent.secrets())
        .chain(login_secrets(&spec.agent.files))
        .chain(spec.sandbox.network.secret());
    let (transcript, receiver) = channel(Redactor::new(secrets));
    let reader = Reader::new()?;
    let (input, received) = mpsc::channel(INPUT_QUEUE);
    let (turn_ended, turns) = mpsc::unbounded_channel();
    let (asked, questions) = mpsc::unbounded_channel();
    let person = Operator {
        input: received,
        turns: turn_ended,
        questions: (reader.is_terminal() && !args.yes).then_some(asked),
    };
    let mut state = ChatState {
        screen: Screen::new(Paint::stdout()),
        reader,
        receiver: receiver.lingering(LINGER),
        input,
        turns,
        questions,
        interrupt: signal(SignalKind::interrupt())?,
        mark: spec.dispatch.clone(),
        session: None,
        once: args.once,
        instructions,
    };
    let folder = spec.cwd.display().to_string();
    state.screen.say(
        Tone::Dim,
        &format!(
            "{} in {folder}; /quit or Ctrl+D leaves, Ctrl+C cancels a turn",
            args.name
        ),
    );
    let end = signals::on(&[SignalKind::terminate(), SignalKind::hangup()])?;
    let session = tokio::spawn(converse(spec, transcript, person, end.clone()));
    tokio::select! {
        () = state.serve() => {}
        // Nobody can interrupt a person who types.
        () = signals::wait_for_end(end) => {}
    }
    let end = session.await?;
    if let Some(file) = &args.text_out {
        std::fs::write(file, &end.text)
            .with_context(|| format!("failed to write the agent's text to {}", file.display()))?;
    }
    Ok(state.leave(&end.ended))
}

struct ChatState {
    screen: Screen,
    reader: Reader,
    receiver: TranscriptReceiver,
    input: mpsc::Sender<OperatorInput>,
    turns: mpsc::UnboundedReceiver<Turn>,
    questions: mpsc::UnboundedReceiver<Question>,
    interrupt: Signal,
    mark: String,
    /// The agent's session id, once there is a session that it can resume.
    session: Option<String>,
    /// Whether to leave out how to resume the session.
    once: bool,
    instructions: Option<String>,
}

/// What ended the agent's turn.
enum TurnEnd {
    /// The turn ended; the person is next.
    Turn,
    Session,
}

impl ChatState {
    async fn serve(&mut self) {
        while let TurnEnd::Turn = self.agents_turn().await {
            let input = self.persons_turn().await;
            let leaves = input == OperatorInput::Leave;
            if self.input.send(input).await.is_err() || leaves {
                self.rest().await;
                return;
            }
        }
    }

    /// Shows the agent's activity until its turn or the session is over.
    async fn agents_turn(&mut self) -> TurnEnd {
        let mut interrupts = 0;
        loop {
            tokio::select! {
                turn = self.turns.recv() => {
                    let entries = self.receiver.take();
                    self.screen.show(&entries);
                    self.screen.close();
                    let Some(turn) = turn else {
                        self.rest().await;
                        return TurnEnd::Session;
                    };
                    if let Some(trouble) = turn.trouble {
                        self.screen.say(Tone::Bad, &trouble);
                    }
                    self.session = turn.can_resume.then_some(turn.session);
                    return TurnEnd::Turn;
                }
                entries = self.receiver.next_batch() => match entries {
                    Some(entries) => self.screen.show(&entries),
                    None => return TurnEnd::Session,
                },
                Some(question) = self.questions.recv() => {
                    if self.prompt_permission(question).await.is_none() {
                        let _ = self.input.send(OperatorInput::Cancel).await;
                    }
                }
                _ = self.interrupt.recv() => {
                    interrupts += 1;
                    self.interrupted(interrupts).await;
                }
            }
        }
    }

    async fn interrupted(&mut self, times: u32) {
        let (input, words) = match times {
            1 => (OperatorInput::Cancel, "cancelling the turn; Ctrl+C again leaves"),
            2 => (OperatorInput::Leave, "leaving; Ctrl+C again leaves at once"),
            _ => self.leave_at_once(),
        };
        self.screen.say(Tone::Warn, words);
        let _ = self.input.send(input).await;
    }

    /// Exits without waiting for the session, and kills the session's processes.
    fn leave_at_once(&self) -> ! {
        kill_leftovers(&self.mark);
        std::process::exit(INTERRUPTED.into())
    }

    /// Shows the rest of a session that ends.
    async fn rest(&mut self) {
        loop {
            tokio::select! {
                entries = self.receiver.next_batch() => match entries {
                    Some(entries) => self.screen.show(&entries),
                    None => return,
                },
                _ = self.interrupt.recv() => self.leave_at_once(),
            }
        }
    }

    async fn persons_turn(&mut self) -> OperatorInput {
        if let Some(instructions) = self.instructions.take() {
            return OperatorInput::Prompt(instructions);
        }
        let mut interrupted = false;
        let prompt = if self.reader.is_terminal() { "› " } else { "" };
        loop {
            match self.reader.line(prompt).await {
                Input::Line(line) if line.trim().is_empty() => {}
                Input::Line(line) if matches!(line.trim(), "/quit" | "/exit") => return OperatorInput::Leave,
                Input::Line(line) => return OperatorInput::Prompt(line),
                Input::End => return OperatorInput::Leave,
                Input::Interrupted if interrupted => return OperatorInput::Leave,
                Input::Interrupted => {
                    interrupted = true;
                    self.screen.say(Tone::Dim, "Ctrl+C again leaves");
                }
            }
        }
    }

    /// Asks the person for a permission. `None` if they want to cancel the turn.
    async fn prompt_permission(&mut self, question: Question) -> Option<()> {
        // The turn was cancelled meanwhile.
        if question.answer.is_closed() {
            return Some(());
        }
        let entries = self.receiver.take();
        self.screen.show(&entries);
        self.screen
            .say(Tone::Warn, &format!("May it? {}", question.title));
        for (at, option) in question.options.iter().enumerate() {
            self.screen
                .say(Tone::Warn, &format!("  {} {}", at + 1, option.name));
        }
        let numbers = format!("1-{}: ", question.options.len());
        loop {
            match self.reader.line(&numbers).await {
                Input::Line(line) => {
                    let number = line.trim().parse::<usize>().ok();
                    let chosen = number.filter(|number| (1..=question.options.len()).contains(number));
                    if let Some(number) = chosen {
                        let _ = question.answer.send(number - 1);
                        return Some(());
                    }
                }
                Input::Interrupted | Input::End => return None,
            }
        }
    }

    /// Reports the session's end.
    fn leave(&mut self, ended: &Ended) -> ExitCode {
        self.screen.close();
        if let Some(session) = self.session.as_ref().filter(|_| !self.once) {
            let given = std::env::args_os().skip(1);
            let given = given.map(|argument| argument.to_string_lossy().into_owned());
            let how = format!("to go on: ralph-worker {}", again(given, session));
            self.screen.say(Tone::Dim, &how);
        }
        match ended {
            Ended::Turn { .. } => ExitCode::SUCCESS,
            other => {
                self.screen.say(Tone::Bad, &words(other));
                if matches!(other, Ended::Unavailable { .. }) {
                    let hint = "`ralph-worker doctor` says what to do about it";
                    self.screen.say(Tone::Dim, hint);
                }
                ExitCode::FAILURE
            }
        }
    }
}

/// The arguments to resume a session: the given ones without those for its beginning.
fn again(given: impl IntoIterator<Item = String>, session: &str) -> String {
    const LEFT_OUT: [&str; 2] = ["--resume", "--instructions"];
    let mut given = given.into_iter();
    let mut arguments = Vec::new();
    while let Some(argument) = given.next() {
        let flag = argument.split('=').next().unwrap_or_default();
        match LEFT_OUT.contains(&flag) {
            // The next argument is its value.
            true if flag == argument => drop(given.next()),
            true => {}
            false => arguments.push(argument),
        }
    }
    let resume = ["--resume".to_owned(), session.to_owned()];
    shell_words::join(arguments.into_iter().chain(resume))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resuming_a_session_repeats_the_given_flags() {
        let check = |given: &[&str], expected: &str| {
            assert_eq!(
                again(given.iter().map(|&argument| argument.to_owned()), "s 1"),
                expected
            );
        };
        check(&["chat"], "chat --resume 's 1'");
        check(
            &[
                "chat",
                "my dir",
                "--name",
                "gemini",
                "--config=x.toml",
                "--instructions",
                "i.md",
                "--yes",
                "--resume=s0",
            ],
            "chat 'my dir' --name gemini '--config=x.toml' --yes --resume 's 1'",
        );
    }
}
