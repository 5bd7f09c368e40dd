//! Checks repositories' addresses in submitted work: a list has the allowed schemes, and addresses of the
//! worker's own machine or of its network's services need permission. Git uses an address with the worker's
//! rights.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use url::Host;

use crate::address::public;

/// The allowed repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repositories {
    /// Schemes in lower case (`https`), and git's helpers with `::` at the end (`codecommit::`).
    pub schemes: Vec<String>,
    /// Whether paths, `file://` and hosts of the worker's own machine or link are allowed.
    pub local: bool,
}

impl Default for Repositories {
    fn default() -> Self {
        Self {
            schemes: ["https", "http", "ssh", "git"].map(str::to_owned).to_vec(),
            local: true,
        }
    }
}

/// A refused address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Git could not use it, or would take it for an option.
    #[error("`{0}` is not an address for git; use `https://HOST/PATH`, `ssh://HOST/PATH` or `HOST:PATH`")]
    Unusable(String),
    /// Its scheme, or its helper of git, is not on the list.
    #[error(
        "`{scheme}` is no scheme for repositories here ({}); use one of these, or add it to `[repositories] schemes` in the \
         coordinator's .ralph.toml",
        allowed.join(", ")
    )]
    Scheme {
        /// The scheme, or the helper with `::`.
        scheme: String,
        allowed: Vec<String>,
    },
    /// It leads to the worker's own machine or link.
    #[error(
        "`{0}` is an address of a worker's own machine or link, which is not allowed here; use one that every worker reaches, or \
         set `[repositories] local = true` in the coordinator's .ralph.toml"
    )]
    Local(String),
}

impl Repositories {
    /// Checks that `address` is allowed.
    ///
    /// # Errors
    /// If it is not; the text says what to do.
    pub fn check(&self, address: &str) -> Result<(), Refused> {
        let shown = || public(address);
        if address.is_empty() || address.starts_with('-') || address.contains(char::is_control) {
            return Err(Refused::Unusable(shown()));
        }
        if address.starts_with('~') {
            return Err(Refused::Unusable(shown()));
        }
        let form = Form::of(address);
        let host = form.host();
        let scheme = match form {
            Form::Helper(name) => format!("{name}::"),
            Form::Url { scheme, .. } => scheme.to_ascii_lowercase(),
            Form::Scp { .. } => "ssh".to_owned(),
            Form::Path => "file".to_owned(),
        };
        let scheme = match scheme.as_str() {
            "git+ssh" | "ssh+git" => "ssh".to_owned(),
            _ => scheme,
        };
        if scheme == "file" {
            return match self.local {
                true => Ok(()),
                false => Err(Refused::Local(shown())),
            };
        }
        if !self.schemes.contains(&scheme) {
            return Err(Refused::Scheme {
                scheme,
                allowed: self.schemes.clone(),
            });
        }
        let Some(host) = host else { return Ok(()) };
        if host.is_empty() || host.starts_with('-') {
            return Err(Refused::Unusable(shown()));
        }
        match !self.local && is_near(host) {
            true => Err(Refused::Local(shown())),
            false => Ok(()),
        }
    }

    /// Checks that the name of the address's host leads elsewhere than to the machine itself or its link. A
    /// name that this machine can't look up passes, since only the workers may know it.
    ///
    /// # Errors
    /// If it leads there.
    pub async fn check_resolved(&self, address: &str) -> Result<(), Refused> {
        let Some(host) = Form::of(address).host().filter(|_| !self.local) else {
            return Ok(());
        };
        let host = host.trim_matches(['[', ']']);
        let found = tokio::time::timeout(LOOKUP, tokio::net::lookup_host((host, 0))).await;
        let Ok(Ok(mut addresses)) = found else {
            return Ok(());
        };
        match addresses.any(|found| is_near_ip(found.ip())) {
            true => Err(Refused::Local(public(address))),
            false => Ok(()),
        }
    }
}

/// Time limit of a name server's answer.
const LOOKUP: Duration = Duration::from_secs(5);

/// Patterns over `host/path`, which limit tokens: `*` stands for a part of a path, `**` for several parts.
///
/// # Errors
/// If one is not a pattern.
pub fn patterns(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(
            GlobBuilder::new(pattern)
                .literal_separator(true)
                .case_insensitive(true)
                .build()?,
        );
    }
    set.build()
}

/// The form in which git reads an address.
enum Form<'a> {
    /// `NAME::ADDRESS`: the program `git-remote-NAME` gets it.
    Helper(&'a str),
    Url {
        scheme: &'a str,
        host: &'a str,
    },
    /// `[USER@]HOST:PATH`, which is ssh.
    Scp {
        host: &'a str,
    },
    Path,
}

impl<'a> Form<'a> {
    fn host(&self) -> Option<&'a str> {
        match *self {
            Self::Url { host, .. } | Self::Scp { host } => Some(host),
            Self::Helper(_) | Self::Path => None,
        }
    }

    fn of(address: &'a str) -> Self {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b))
        };
        if let Some((name, _)) = address.split_once("::")
            && is_name(name)
        {
            return Self::Helper(name);
        }
        if let Some((scheme, rest)) = address.split_once("://")
            && is_name(scheme)
        {
            let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
            let host = host_of(authority.rsplit('@').next().unwrap_or_default());
            return Self::Url { scheme, host };
        }
        let until_slash = address.split('/').next().unwrap_or_default();
        match until_slash.find(':') {
            Some(_) => Self::Scp {
                host: host_of(until_slash.rsplit('@').next().unwrap_or_default()),
            },
            None => Self::Path,
        }
    }
}

/// The host of `HOST[:PORT]`, with the brackets of an IPv6 one.
fn host_of(place: &str) -> &str {
    match place.find(']') {
        Some(end) if place.starts_with('[') => &place[..=end],
        _ => place.split(':').next().unwrap_or_default(),
    }
}

/// Whether a host is certainly the machine itself, or on its link, where clouds give machines their
/// credentials. Looks no name up.
fn is_near(host: &str) -> bool {
    match Host::parse(host.trim_end_matches('.')) {
        Ok(Host::Domain(name)) => {
            name == "localhost"
                || name.ends_with(".localhost")
                || matches!(
                    name.as_str(),
                    "metadata" | "metadata.google.internal" | "ip6-localhost" | "ip6-loopback"
                )
        }
        Ok(Host::Ipv4(ip)) => is_near_ip(ip.into()),
        Ok(Host::Ipv6(ip)) => is_near_ip(ip.into()),
        // An unreadable host can't be shown to be elsewhere.
        Err(_) => true,
    }
}

/// The address at which AWS gives machines their credentials by IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
/// The same at Alibaba Cloud and at Oracle's, besides the address on the link.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];

fn is_near_ip(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            // All of 0.0.0.0/8 is this machine.
            ip.is_loopback()
                || ip.is_link_local()
                || ip.octets()[0] == 0
                || ip.is_broadcast()
                || METADATA_V4.contains(&ip)
        }
        IpAddr::V6(ip) => {
            let embedded = ip.to_ipv4().is_some_and(|inside| is_near_ip(inside.into()));
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unicast_link_local()
                || ip == METADATA_V6
                || embedded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_matches_a_part_of_a_path_and_two_stars_several() {
        let one = |pattern: &str| patterns(&[pattern.to_owned()]).unwrap();
        assert!(one("github.com/acme/*").is_match("github.com/Acme/todo"));
        assert!(!one("github.com/acme/*").is_match("github.com/acme/a/b"));
        assert!(!one("github.com/acme/*").is_match("github.com/acme-evil/todo"));
        assert!(!one("github.com/acme/*").is_match("evil.com/github.com/acme/todo"));
        assert!(one("git.example.org/**").is_match("git.example.org/a/b/c"));
        assert!(patterns(&["a[".to_owned()]).is_err());
    }

    #[tokio::test]
    async fn names_of_the_own_machine_are_refused_and_unknown_ones_pass() {
        let far = Repositories {
            local: false,
            ..Repositories::default()
        };
        let near = "http://localhost:8080/a";
        assert_eq!(
            far.check_resolved(near).await,
            Err(Refused::Local(near.to_owned()))
        );
        assert_eq!(Repositories::default().check_resolved(near).await, Ok(()));
        for passes in [
            "git@only-workers-know.invalid:a",
            "ssh://no.invalid/a",
            "codecommit::a",
        ] {
            assert_eq!(far.check_resolved(passes).await, Ok(()), "{passes}");
        }
    }

    #[test]
    fn helpers_and_addresses_of_the_own_machine_are_refused() {
        let far = Repositories {
            local: false,
            ..Repositories::default()
        };
        for good in [
            "https://github.com/a/b.git",
            "HTTPS://me:pw@host:8443/a",
            "http://git.internal/a",
            "ssh://git@host:2222/a",
            "git+ssh://host/a",
            "git@github.com:a/b.git",
            "host:a",
            "git://host/a",
            "https://10.0.0.7/a",
            "https://[2001:db8::1]/a",
            "https://localhost.example.org/a",
        ] {
            assert_eq!(far.check(good), Ok(()), "{good}");
        }
        let near = [
            "/srv/a",
            "./a",
            "a",
            "file:///srv/a",
            "FILE:///srv/a",
            "http://127.0.0.1:8080/a",
            "https://localhost/a",
            "https://LOCALHOST./a",
            "https://x.localhost/a",
            "http://169.254.169.254/latest",
            "http://2130706433/a",
            "http://0x7f.1/a",
            "http://0177.0.0.1/a",
            "http://0/a",
            "http://[::1]/a",
            "http://[::ffff:127.0.0.1]/a",
            "http://[fe80::1]/a",
            "http://[fd00:ec2::254]/a",
            "http://metadata.google.internal/a",
            "http://me@127.0.0.1/a",
            "http://good.example@127.0.0.1/a",
            "http://127.0.0.1\\@good.example/a",
            "ssh://127.0.0.1/a",
            "git@127.0.0.1:a",
            "[::1]:a",
        ];
        for bad in near {
            assert!(
                matches!(far.check(bad), Err(Refused::Local(_))),
                "{bad}: {:?}",
                far.check(bad)
            );
            assert_eq!(Repositories::default().check(bad), Ok(()), "{bad}");
        }
        for bad in [
            "ext::sh -c id",
            "fd::17",
            "http::http://127.0.0.1/a",
            "foo::bar",
            "ext://x/y",
            "ftp://host/a",
            "codecommit::eu-west-1://a",
        ] {
            for rules in [&far, &Repositories::default()] {
                assert!(matches!(rules.check(bad), Err(Refused::Scheme { .. })), "{bad}");
            }
        }
        for bad in [
            "",
            "-x",
            "--upload-pack=id",
            "https://a\n/b",
            "ssh://-oProxyCommand=id/a",
            "~/a",
            "https:///a",
        ] {
            assert!(
                matches!(Repositories::default().check(bad), Err(Refused::Unusable(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn schemes_and_helpers_can_be_allowed_and_errors_show_no_password() {
        let rules = Repositories {
            schemes: vec!["https".to_owned(), "codecommit::".to_owned()],
            local: false,
        };
        assert_eq!(rules.check("codecommit::eu-west-1://a"), Ok(()));
        assert_eq!(rules.check("https://host/a"), Ok(()));
        let refused = rules.check("http://host/a").unwrap_err().to_string();
        assert!(
            refused.contains("`http` is no scheme") && refused.contains("[repositories] schemes"),
            "{refused}"
        );
        let refused = rules
            .check("https://me:s3cret@127.0.0.1/a")
            .unwrap_err()
            .to_string();
        assert!(
            !refused.contains("s3cret") && refused.contains("local = true"),
            "{refused}"
        );
    }
}
