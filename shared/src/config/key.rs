//! Keys of `.ralph.toml`. Each is written once: as a field of the table that is read, in [`config_table!`](crate::config_table).

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

/// What is said of a key beside its name.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    default: Unset,
    variable: Option<&'static str>,
    flag: Option<&'static str>,
    reader: Option<Reader>,
    secret: bool,
}

const fn facts(default: Unset) -> Facts {
    Facts {
        default,
        variable: None,
        flag: None,
        reader: None,
        secret: false,
    }
}

/// A key with a default value, as `.ralph.toml` would have it.
pub const fn toml(default: &'static str) -> Facts {
    facts(Unset::Toml(default))
}

/// A key without a default value: what holds then, in words.
pub const fn words(default: &'static str) -> Facts {
    facts(Unset::Words(default))
}

impl Facts {
    pub const fn var(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    pub const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// For a key that somebody else reads than the rest of its table.
    pub const fn read_by(mut self, reader: Reader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// The key of this name, which `reader` reads unless another is named.
    pub const fn key(self, name: &'static str, reader: Reader, about: &'static str) -> Key {
        Key {
            name,
            default: self.default,
            variable: self.variable,
            flag: self.flag,
            reader: match self.reader {
                Some(reader) => reader,
                None => reader,
            },
            secret: self.secret,
            about: about.trim_ascii_start(),
        }
    }
}

/// Defines a table of `.ralph.toml`: the structure that it is read into, and `KEYS`, what is told of its keys. A field's comment is
/// what the key sets. Fields behind `..` are no keys: tables below this one, and what nobody knows.
#[macro_export]
macro_rules! config_table {
    (
        $(#[$attribute:meta])*
        [$table:literal, $reader:ident]
        pub struct $name:ident {
            $($(#[doc = $about:literal])+ $field:ident: $type:ty = $facts:expr,)*
            $(.. { $($rest:tt)* })?
        }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[doc = $about])+ pub $field: $type,)*
            $($($rest)*)?
        }

        impl $name {
            /// The table's keys.
            pub const KEYS: &[$crate::config::Key] = &[
                $($facts.key(
                    concat!($table, ".", stringify!($field)),
                    $crate::config::Reader::$reader,
                    concat!($($about),+),
                ),)*
            ];
        }
    };
}
