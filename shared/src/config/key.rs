//! Keys of `.ralph.toml`. Each is defined once: as a field of the table that is read, in
//! [`config_table!`](crate::config_table).

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` of `.ralph.toml`, with `NAME` for a name that the user chooses; without a dot, it is no
    /// key of the file.
    pub name: &'static str,
    /// The value when nobody sets it.
    pub default: Unset,
    /// The variable that overrides the file.
    pub variable: Option<&'static str>,
    /// The flag that overrides the variable, without its dashes.
    pub flag: Option<&'static str>,
    pub reader: Reader,
    /// Whether its value is never shown.
    pub secret: bool,
    /// The description for people.
    pub about: &'static str,
}

/// The value of a key that nobody sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    /// A value, as in `.ralph.toml`.
    Toml(&'static str),
    /// Nothing, or a value that depends on others, in words.
    Words(&'static str),
}

/// The reader of a key, from the file on its own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reader {
    /// Commands that submit or start a run, which stores the value.
    Run,
    Command,
    Coordinator,
    /// A worker, from its own host's file, never from one in a clone.
    Worker,
    /// Commands and workers, each for itself.
    Program,
}

/// Properties of a key besides its name.
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

/// A key with a default value, as in `.ralph.toml`.
pub const fn toml(default: &'static str) -> Facts {
    facts(Unset::Toml(default))
}

/// A key without a default value, and words for what applies then.
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

    /// For a key with another reader than the rest of its table.
    pub const fn read_by(mut self, reader: Reader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// The key of this name. `reader` reads it, unless [`Self::read_by`] names another.
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

/// Defines a table of `.ralph.toml`: the structure that it is read into, and `KEYS`, the descriptions of its
/// keys. A field's comment describes the key. Fields behind `..` are not keys: tables below this one, and
/// unknown keys.
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
