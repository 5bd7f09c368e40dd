//! Lines of a person: at a terminal with editing and history, otherwise from a pipe.

use std::io::{BufRead as _, IsTerminal as _};
use std::sync::mpsc;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::sync::oneshot;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Line(String),
    /// Ctrl+C.
    Interrupted,
    /// Ctrl+D, or the end of the pipe.
    End,
}

/// Reads one line at a time, on request.
#[derive(Debug)]
pub struct Reader {
    asks: mpsc::Sender<(String, oneshot::Sender<Input>)>,
    terminal: bool,
}

impl Reader {
    /// Reads standard input in a thread of its own, since a read can't be interrupted.
    pub fn new() -> std::io::Result<Self> {
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let (asks, asked) = mpsc::channel::<(String, oneshot::Sender<Input>)>();
        std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || {
                let editor = terminal.then(DefaultEditor::new).and_then(Result::ok);
                let mut source = editor.map_or(Source::Plain, |editor| Source::Edited(Box::new(editor)));
                while let Ok((prompt, answer)) = asked.recv() {
                    let _ = answer.send(source.read(&prompt));
                }
            })?;
        Ok(Self { asks, terminal })
    }

    /// Whether a person sits at a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Reads the next line. A line that ends with a backslash continues in the next one.
    pub async fn line(&self, prompt: &str) -> Input {
        let mut text = String::new();
        loop {
            let prompt = if text.is_empty() { prompt } else { "… " };
            match self.one(prompt).await {
                Input::Line(line) => match line.strip_suffix('\\') {
                    Some(begun) => {
                        text.push_str(begun);
                        text.push('\n');
                    }
                    None => return Input::Line(text + &line),
                },
                Input::End if !text.is_empty() => return Input::Line(text),
                other => return other,
            }
        }
    }

    async fn one(&self, prompt: &str) -> Input {
        let (answer, answered) = oneshot::channel();
        let asked = self.asks.send((prompt.to_owned(), answer));
        match asked {
            Ok(()) => answered.await.unwrap_or(Input::End),
            Err(_) => Input::End,
        }
    }
}

enum Source {
    Edited(Box<DefaultEditor>),
    Plain,
}

impl Source {
    fn read(&mut self, prompt: &str) -> Input {
        match self {
            Self::Edited(editor) => match editor.readline(prompt) {
                Ok(line) => {
                    let _ = editor.add_history_entry(line.as_str());
                    Input::Line(line)
                }
                Err(ReadlineError::Interrupted) => Input::Interrupted,
                Err(_) => Input::End,
            },
            Self::Plain => {
                let mut line = String::new();
                match std::io::stdin().lock().read_line(&mut line) {
                    Ok(1..) => Input::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
                    _ => Input::End,
                }
            }
        }
    }
}
