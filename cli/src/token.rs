//! `token …`

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use ralph_api::body::{CreateToken, CreatedToken, Done};
use ralph_api::view::{Page, Role, TokenView};

use super::client::{Client, escape};
use crate::args::globals::Globals;
use crate::terminal::duration::Span;
use crate::terminal::local_time::ago;
use crate::terminal::output::{self, Format};
use crate::terminal::table::Table;

/// Create, list and revoke tokens for the API
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it; it is stored nowhere else
    #[command(after_help = "Examples:
  ralph token create dashboard --role read
  ralph token create ci --role submit --expires 30d
  ralph token create acme --repository 'github.com/acme/*'
  RALPH_TOKEN=$(ralph token create ci --role submit)")]
    Create {
        /// Name of the token
        name: String,
        /// Rights of the token
        #[arg(long, value_enum, default_value_t = RoleWord::Submit)]
        role: RoleWord,
        /// Time until the token expires, at most 3650d; by default never
        #[arg(long, value_name = "TIME")]
        expires: Option<Span>,
        /// A repository that the token may submit work for, as `HOST/PATH`; `*` matches a part of the path,
        /// `**` several. May be repeated; by default any repository
        #[arg(long = "repository", value_name = "PATTERN")]
        repositories: Vec<String>,
    },
    /// List tokens
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  ralph token list"
    )]
    List,
    /// Revoke a token: requests with it are refused from now on
    #[command(after_help = "Example:
  ralph token revoke ci")]
    Revoke {
        /// Name of the token
        name: String,
    },
}

/// Rights of a token; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleWord {
    /// Only read
    Read,
    /// Submit work and control it
    Submit,
    /// Everything
    Admin,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Read => Self::Read,
            RoleWord::Submit => Self::Submit,
            RoleWord::Admin => Self::Admin,
        }
    }
}

pub async fn run(globals: &Globals, command: TokenCommand) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let is_json = globals.output == Format::Json;
    match command {
        TokenCommand::Create {
            name,
            role,
            expires,
            repositories,
        } => {
            let request = CreateToken {
                name,
                role: role.into(),
                expires_in_ms: expires.map(Span::ms).filter(|ms| *ms > 0),
                repositories,
            };
            let created: CreatedToken = client.post("/tokens", &request).await?;
            if is_json {
                output::json(&created)?;
            } else {
                output::text(&format!("{}\n", created.token))?;
            }
        }
        TokenCommand::List => {
            let page: Page<TokenView> = client.get("/tokens").await?;
            output::show(globals, &page, |_| table(&page.items)).await?;
        }
        TokenCommand::Revoke { name } => {
            let done: Done = client.delete(&format!("/tokens/{}", escape(&name))).await?;
            if is_json {
                output::json(&done)?;
            } else {
                output::text(&format!("{name} is revoked\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(tokens: &[TokenView]) -> Table {
    let mut table = Table::new(
        [
            "NAME",
            "ROLE",
            "STATUS",
            "REPOSITORIES",
            "MADE",
            "USED",
            "EXPIRES",
            "REVOKED",
        ],
        "no tokens",
    );
    for token in tokens {
        table.row([
            token.name.clone(),
            token.role.into_str().to_owned(),
            status(token).to_owned(),
            match token.repositories.is_empty() {
                true => "any".to_owned(),
                false => token.repositories.join(", "),
            },
            ago(token.created_at),
            token.last_used_at.map(ago).unwrap_or_default(),
            token.expires_at.map(ago).unwrap_or_default(),
            token.revoked_at.map(ago).unwrap_or_default(),
        ]);
    }
    table
}

fn status(token: &TokenView) -> &'static str {
    match (token.revoked_at, token.expired) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "valid",
    }
}
