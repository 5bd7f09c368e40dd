//! Flags that hold for every command.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{ArgMatches, Args};
use ralph_shared::environment::{EnvironmentError, value};

use crate::terminal::output::Format;

/// The parsed arguments of this process; they distinguish flags from defaults. `main` sets this once.
pub static MATCHES: OnceLock<ArgMatches> = OnceLock::new();

/// Address of the coordinator, and the output format.
#[derive(Debug, Args)]
#[command(next_help_heading = "For all commands")]
pub struct Globals {
    /// Address of the coordinator's API [default: that of the running `up`] [env: RALPH_URL]
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// Token for the API; better given as RALPH_TOKEN, since arguments can be seen by others [env: RALPH_TOKEN or RALPH_TOKEN_FILE]
    #[arg(long, global = true)]
    pub token: Option<String>,
    /// Data folder of `up` [default: .ralph here; commands also search the folders above] [env: RALPH_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// Print long output without a pager, at a terminal too; RALPH_PAGER or PAGER names another pager than
    /// `less` [env: NO_PAGER]
    #[arg(long, global = true)]
    pub no_pager: bool,
}

impl Globals {
    /// Fills unset flags from the environment. A folder that the command names takes precedence over an
    /// address from the environment (SPEC 8). If clap read these variables, each would appear in the usage
    /// line of every error, as if it were required.
    pub fn read_environment(&mut self) -> Result<(), EnvironmentError> {
        let is_alone = self.data.is_none() || self.url.is_some();
        let data = std::env::var_os("RALPH_DATA").filter(|value| !value.is_empty());
        self.data = self.data.take().or_else(|| data.map(PathBuf::from));
        if is_alone {
            self.url = self
                .url
                .take()
                .map_or_else(|| value("RALPH_URL"), |url| Ok(Some(url)))?;
            let token = self.token.take();
            self.token = token.map_or_else(|| value("RALPH_TOKEN"), |token| Ok(Some(token)))?;
        }
        Ok(())
    }
}
