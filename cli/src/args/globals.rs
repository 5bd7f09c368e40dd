//! Flags that hold for every command.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{ArgMatches, Args};
use ralph_shared::environment::{EnvironmentError, value};

use crate::terminal::output::Format;

/// The arguments of this process as they were parsed: they tell flags from defaults. `main` sets it once.
pub static MATCHES: OnceLock<ArgMatches> = OnceLock::new();

/// Where the coordinator is, and how to print.
#[derive(Debug, Args)]
#[command(next_help_heading = "For all commands")]
pub struct Globals {
    /// Address of the coordinator's API [default: that of the running `up`] [env: RALPH_URL]
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// Token for the API; better given as RALPH_TOKEN, since arguments can be seen by others [env: RALPH_TOKEN or RALPH_TOKEN_FILE]
    #[arg(long, global = true)]
    pub token: Option<String>,
    /// Data folder of `up` [default: .ralph here; commands look for it in the folders above as well] [env: RALPH_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// How results are printed
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// Print what is long as it is, at a terminal too; RALPH_PAGER or PAGER names another pager than `less` [env: NO_PAGER]
    #[arg(long, global = true)]
    pub no_pager: bool,
}

impl Globals {
    /// Takes what no flag says from the environment; but a folder that the command names goes before an address that only the
    /// environment does (SPEC 8). Were clap to read these, each would stand in the usage of every error, as if it were required.
    ///
    /// # Errors
    /// When a variable, or the file that it names, can't be used.
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
