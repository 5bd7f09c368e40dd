//! The command line: behaviour before the first prompt.

use std::str::FromStr;
use std::time::Duration;

use clap::Parser;

/// A scripted ACP agent on standard input and output, for tests and demonstrations.
#[derive(Debug, Clone, Parser)]
#[command(name = "ralph-scripted-agent", version, after_long_help = include_str!("directives.md"))]
pub struct Options {
    /// Response to `initialize`: normal, hang, crash, exit, wrong-version, auth-required, slow:MS.
    #[arg(long, value_name = "HOW", default_value = "normal")]
    pub handshake: Handshake,

    /// Offer the session option of category `model` (the default).
    #[arg(long, overrides_with = "no_model_option")]
    pub model_option: bool,

    /// Offer no session options.
    #[arg(long)]
    pub no_model_option: bool,

    /// Support the withdrawn method `session/set_model`, and offer `models` like agents that support it.
    #[arg(long)]
    pub set_model: bool,

    /// Save sessions below HOME, and offer to load them.
    #[arg(long)]
    pub keep_sessions: bool,

    /// Omit options and models from the response to a load.
    #[arg(long)]
    pub bare_load: bool,

    /// Continue when standard input ends.
    #[arg(long)]
    pub ignore_eof: bool,

    #[arg(long, hide = true, value_name = "SECONDS")]
    pub(super) orphan_launch: Option<u64>,

    #[arg(long, hide = true, value_name = "SECONDS")]
    pub(super) orphan_live: Option<u64>,
}

/// Response to the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// As the protocol requires.
    Normal,
    /// Never responds to `initialize`.
    Hang,
    /// Exits with status 101 on `initialize`.
    Crash,
    /// Exits with status 1 before reading anything.
    Exit,
    /// Responds with a protocol version that does not exist.
    WrongVersion,
    /// Responds, but opens no session without authentication.
    AuthRequired,
    /// Responds after this time.
    Slow(Duration),
}

impl FromStr for Handshake {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "normal" => Self::Normal,
            "hang" => Self::Hang,
            "crash" => Self::Crash,
            "exit" => Self::Exit,
            "wrong-version" => Self::WrongVersion,
            "auth-required" => Self::AuthRequired,
            _ => {
                let time_ms = text.strip_prefix("slow:").and_then(|ms| ms.parse().ok());
                Self::Slow(Duration::from_millis(
                    time_ms.ok_or("not one of the values in --help")?,
                ))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_valid_and_its_help_has_the_directives() {
        let mut command = Options::command();
        command.clone().debug_assert();
        assert!(
            command
                .render_long_help()
                .to_string()
                .contains("@expect-fail CMD")
        );
    }

    #[test]
    fn handshakes_parse() {
        assert_eq!(
            "slow:250".parse(),
            Ok(Handshake::Slow(Duration::from_millis(250)))
        );
        assert_eq!("wrong-version".parse(), Ok(Handshake::WrongVersion));
        assert!("slow".parse::<Handshake>().is_err());
    }
}
