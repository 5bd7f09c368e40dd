//! Syntax colours: comments, strings, numbers, and keywords that many languages share. Each line is coloured
//! separately, so of a comment or a string over several lines only the first line is coloured. That is cheap,
//! and a diff shows fragments of files anyway.

use std::collections::HashSet;
use std::sync::LazyLock;

use maud::{Markup, PreEscaped, Render as _};

static KEYWORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let words = "abstract and as async await begin bool break by case catch class const constraint continue crate \
                 create def default defer delete do done drop elif else end enum esac except export extends false \
                 fi final finally fn for from func function go group if impl implements import in insert int \
                 interface into is join key lambda let local loop match mod module move mut namespace new nil not \
                 null of on or order package primary private protected pub public raise references return select \
                 self set static struct super switch table then this throw trait true try type unsafe update use \
                 using values var void where while with";
    words.split(' ').collect()
});

/// The start of a comment in a file of this name; `None` for files without code.
fn comment(file: &str) -> Option<&'static str> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let ending = name.rsplit('.').next().unwrap_or(name);
    Some(match ending {
        "rs" | "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "go" | "java" | "js" | "jsx" | "mjs" | "ts"
        | "tsx" | "kt" | "swift" | "scala" | "dart" | "zig" | "php" | "proto" | "scss" | "groovy" => "//",
        "py" | "sh" | "bash" | "zsh" | "rb" | "pl" | "r" | "toml" | "yaml" | "yml" | "mk" | "tf" | "nix"
        | "ex" | "exs" | "conf" | "ini" | "Makefile" | "Dockerfile" => "#",
        "sql" | "lua" | "hs" | "elm" => "--",
        "json" | "css" | "html" | "xml" => "\0",
        _ => return None,
    })
}

/// A line of a file with colours.
pub fn coloured(line: &str, file: &str) -> Markup {
    let Some(comment) = comment(file) else {
        return line.render();
    };
    let (mut out, mut plain, mut at) = (String::with_capacity(line.len() * 2), 0, 0);
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        let (class, length) = match c {
            _ if rest.starts_with(comment) => ("c", rest.len()),
            '\'' if is_lifetime(rest, file) => ("", 1),
            '"' | '`' | '\'' => ("s", text(rest, c)),
            '0'..='9' => ("n", run(rest, |c| c.is_alphanumeric() || c == '_' || c == '.')),
            c if c.is_alphabetic() || c == '_' => {
                let length = run(rest, |c| c.is_alphanumeric() || c == '_');
                let word = rest[..length].to_lowercase();
                (if KEYWORDS.contains(word.as_str()) { "k" } else { "" }, length)
            }
            _ => ("", c.len_utf8()),
        };
        // A quote without an end on this line is an ordinary character.
        let length = length.max(c.len_utf8());
        if !class.is_empty() && (class != "s" || length > c.len_utf8()) {
            line[plain..at].render_to(&mut out);
            out.push_str(&format!("<i class={class}>"));
            rest[..length].render_to(&mut out);
            out.push_str("</i>");
            plain = at + length;
        }
        at += length;
    }
    line[plain..].render_to(&mut out);
    PreEscaped(out)
}

fn run(rest: &str, continues: impl Fn(char) -> bool) -> usize {
    rest.find(|c| !continues(c)).unwrap_or(rest.len())
}

/// The length of a string in these quotes, including both; 0 if it doesn't end.
fn text(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    0
}

/// Whether a single quote starts a Rust lifetime rather than a character.
fn is_lifetime(rest: &str, file: &str) -> bool {
    let mut after = rest.chars().skip(1);
    file.ends_with(".rs") && after.next() != Some('\\') && after.next() != Some('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coloured_line_is_escaped() {
        let check = |line: &str, file: &str, expected: &str| {
            assert_eq!(coloured(line, file).into_string(), expected);
        };
        check(
            "let x = 1; // <b>",
            "a.rs",
            "<i class=k>let</i> x = <i class=n>1</i>; <i class=c>// &lt;b&gt;</i>",
        );
        check(
            "say \"a \\\" <i>\" # é",
            "x/run.sh",
            "say <i class=s>&quot;a \\&quot; &lt;i&gt;&quot;</i> <i class=c># é</i>",
        );
        check(
            "fn f<'a>(x: &'a str)",
            "a.rs",
            "<i class=k>fn</i> f&lt;'a&gt;(x: &amp;'a str)",
        );
        check("\"open", "a.py", "&quot;open");
        check(
            "SELECT 'x' -- y",
            "q.sql",
            "<i class=k>SELECT</i> <i class=s>'x'</i> <i class=c>-- y</i>",
        );
        check("let <b> \"it\" 1", "notes.txt", "let &lt;b&gt; &quot;it&quot; 1");
        check("", "a.rs", "");
    }
}
