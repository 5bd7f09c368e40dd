//! Secrets: the key shapes of common providers, and values of variables that look secret.

/// Values of variables whose names or values look secret.
pub fn secret_values(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    const SECRET: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"];
    const PLACE: &[&str] = &["_SOCK", "_FILE", "_PATH", "_DIR", "_FD", "ASKPASS"];
    // Harmless names that contain a secret word: a commit's author is no secret.
    const PUBLIC: &[&str] = &["AUTHOR", "KEYBOARD", "KEYMAP"];
    let mut values = Vec::new();
    for (name, value) in variables {
        let name = name.to_ascii_uppercase();
        let password = value
            .split_once("://")
            .and_then(|(_, rest)| rest.split('/').next())
            .and_then(|authority| authority.rsplit_once('@'))
            .and_then(|(user, _)| user.split_once(':'))
            .map(|(_, password)| password.to_owned());
        let stripped = PUBLIC
            .iter()
            .fold(name.clone(), |name, word| name.replace(word, ""));
        let secret = SECRET.iter().any(|word| stripped.contains(word))
            && !PLACE.iter().any(|ending| name.ends_with(ending));
        values.extend(password);
        if secret {
            values.push(value);
        }
    }
    values
}

/// Secret values among this process's own variables, as far as they are text.
pub fn own_secrets() -> Vec<String> {
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    secret_values(texts)
}

/// Characters of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Alnum,
    /// Capitals and digits.
    UpperAlnum,
    /// Letters, digits, `_` and `-`.
    Word,
    /// Characters of a bearer token.
    Token,
}

impl Class {
    /// Whether the class contains this byte.
    pub fn holds(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::UpperAlnum => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-',
            Self::Token => byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte),
        }
    }
}

/// Shape of a key: a prefix and a minimum number of characters of a class.
pub struct Shape {
    pub prefix: &'static str,
    /// Class of the characters after the prefix.
    pub class: Class,
    pub least: usize,
}

const fn shape(prefix: &'static str, class: Class, least: usize) -> Shape {
    Shape { prefix, class, least }
}

/// The key shapes of common providers.
pub const SHAPES: &[Shape] = &[
    shape("sk-", Class::Word, 20),
    shape("sk_live_", Class::Alnum, 16),
    shape("rk_live_", Class::Alnum, 16),
    shape("ghp_", Class::Alnum, 20),
    shape("gho_", Class::Alnum, 20),
    shape("ghu_", Class::Alnum, 20),
    shape("ghs_", Class::Alnum, 20),
    shape("ghr_", Class::Alnum, 20),
    shape("github_pat_", Class::Word, 20),
    shape("glpat-", Class::Word, 16),
    shape("npm_", Class::Alnum, 30),
    shape("hf_", Class::Alnum, 30),
    shape("AKIA", Class::UpperAlnum, 16),
    shape("ASIA", Class::UpperAlnum, 16),
    shape("AIza", Class::Word, 30),
    shape("xoxa-", Class::Word, 10),
    shape("xoxb-", Class::Word, 10),
    shape("xoxe-", Class::Word, 10),
    shape("xoxp-", Class::Word, 10),
    shape("xoxr-", Class::Word, 10),
    shape("xoxs-", Class::Word, 10),
    shape("xapp-", Class::Word, 10),
    shape("eyJ", Class::Token, 40),
    shape("Bearer ", Class::Token, 16),
    shape("bearer ", Class::Token, 16),
];

/// The first two bytes of all secrets. Most positions in a text are skipped by them alone.
pub struct Starts {
    firsts: [bool; 256],
    pairs: Box<[bool]>,
}

impl Starts {
    /// Each text must have at least two bytes.
    pub fn new<'a>(secret: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut starts = Self {
            firsts: [false; 256],
            pairs: vec![false; 1 << 16].into(),
        };
        for text in secret {
            starts.firsts[usize::from(text[0])] = true;
            starts.pairs[Self::pair(text[0], text[1])] = true;
        }
        starts
    }

    fn pair(first: u8, second: u8) -> usize {
        usize::from(u16::from_be_bytes([first, second]))
    }

    /// Whether a secret can begin at `at`. For the last byte: whether one could begin with any next byte.
    pub fn may(&self, bytes: &[u8], at: usize) -> bool {
        let first = bytes[at];
        self.firsts[usize::from(first)]
            && bytes
                .get(at + 1)
                .is_none_or(|second| self.pairs[Self::pair(first, *second)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_looking_variables_are_found() {
        let values = secret_values(
            [
                ("ANTHROPIC_API_KEY", "abc"),
                ("GITHUB_TOKEN", "def"),
                ("SSH_AUTH_SOCK", "/run/agent"),
                ("GIT_AUTHOR_NAME", "Ada Lovelace"),
                ("GIT_ASKPASS", "/usr/bin/ask"),
                ("DATABASE_URL", "postgres://ralph:pass:word@host:5432/db"),
                ("PATH", "/bin"),
                ("LINK", "https://example.org/a@b:c"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        assert_eq!(values, ["abc", "def", "pass:word"]);
    }
}
