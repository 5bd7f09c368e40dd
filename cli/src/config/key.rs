//! What a key is.

/// Something that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` of `.ralph.toml`, with `NAME` for a name that the user chooses; without a dot it is no key of the file.
    pub name: &'static str,
    /// What holds when nobody sets it.
    pub default: Unset,
    /// The variable that wins over the file.
    pub variable: Option<&'static str>,
    /// The flag that wins over the variable, without its dashes.
    pub flag: Option<&'static str>,
    pub reader: Reader,
    /// Whether its value is shown to nobody.
    pub secret: bool,
    /// What it sets.
    pub about: &'static str,
}

/// What holds when nobody sets a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    /// A value, as `.ralph.toml` would have it.
    Toml(&'static str),
    /// Nothing, or something that depends on more: in words.
    Words(&'static str),
}

/// Who reads a key, where its file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Commands that submit or start a run, which keeps it.
    Run,
    Command,
    Coordinator,
    /// A worker: its own host's file, never one in a clone.
    Worker,
    /// Commands and workers, each for itself.
    Program,
}

impl Reader {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Command => "command",
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Program => "program",
        }
    }
}

pub(super) const fn key(name: &'static str, default: Unset, reader: Reader, about: &'static str) -> Key {
    Key {
        name,
        default,
        variable: None,
        flag: None,
        reader,
        secret: false,
        about,
    }
}

impl Key {
    pub(super) const fn var(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    pub(super) const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}
