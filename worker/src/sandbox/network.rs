//! A session's network access: everything, nothing, or one proxy. This module decides on the policy and
//! whether a machine can enforce it. [`super::filter`] and [`super::landlock`] configure the kernel.

use std::fmt;
use std::io;
use std::str::FromStr;

use url::{Host, Url};

use crate::sandbox::effective::Effective;

/// From this ABI on, Landlock controls TCP ports (Linux 6.7).
pub const NETWORK_ABI: u32 = 4;

/// From this ABI on, abstract sockets stay inside a Landlock domain (Linux 6.12).
const SCOPE_ABI: u32 = 6;

/// Descriptions of reachable parts of the network.
const NETWORK: &str = "the network (`sandbox_network` of [workspace] is \"open\")";
const ABSTRACT: &str = "abstract sockets: Landlock is older than ABI 6 (Linux 6.12)";

/// `[workspace] sandbox_network` of the worker's configuration. It applies to agents, their child processes,
/// and the commands of setup and gates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// Everything that the worker's user can reach.
    #[default]
    Open,
    /// Nothing, not even this machine's own addresses.
    None,
    Proxy(Proxy),
}

/// A proxy, optionally with a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    url: Url,
    port: u16,
}

/// A machine's means to enforce a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// Landlock's ABI; 0 without Landlock.
    pub abi: u32,
    /// Whether system calls can be filtered.
    pub filter: bool,
    /// Whether bubblewrap can isolate a session's network.
    pub namespace: bool,
    /// Whether a session can have a root of its own beneath Landlock.
    pub own_root: bool,
}

impl Network {
    /// The proxy's port, if there is a proxy.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Proxy(proxy) => Some(proxy.port),
            Self::Open | Self::None => None,
        }
    }

    /// Whether this machine can enforce the policy.
    ///
    /// # Errors
    /// Fails if it can't: the message says what is missing and what to do.
    pub fn enforceable(&self, effective: Effective, means: Means) -> Result<(), String> {
        let missing = match (self, effective) {
            (Self::Open, _) => return Ok(()),
            (_, Effective::Open) => "a sandbox, and nothing confines agents here: see `sandbox`",
            (Self::None, Effective::Bubblewrap) if !means.namespace => {
                "a bubblewrap that can make network namespaces here (`bwrap --unshare-net`)"
            }
            _ if !means.filter => {
                "a kernel that filters system calls (seccomp), on x86-64, ARM or RISC-V of 64 bits"
            }
            (Self::Proxy(_), _) if means.abi < NETWORK_ABI => "Landlock ABI 4 (Linux 6.7)",
            _ => return Ok(()),
        };
        Err(format!(
            "`sandbox_network = \"{self}\"` needs {missing}; change this machine, or use `sandbox_network = \"open\"`"
        ))
    }

    /// What stays reachable despite the policy, or without one, for `doctor` and the worker's start.
    pub fn gaps(&self, effective: Effective, abi: u32) -> Vec<&'static str> {
        match (self, effective) {
            (_, Effective::Open) => Vec::new(),
            (Self::Open, Effective::Bubblewrap) if abi < SCOPE_ABI => vec![NETWORK, ABSTRACT],
            (Self::Open, _) => vec![NETWORK],
            (Self::None, _) => Vec::new(),
            (Self::Proxy(_), _) => [
                (
                    true,
                    "other machines at the proxy's port: Landlock knows ports, not addresses",
                ),
                (true, "connections from outside to a port that the kernel chooses"),
                (effective == Effective::Bubblewrap && abi < SCOPE_ABI, ABSTRACT),
            ]
            .into_iter()
            .filter(|(open, _)| *open)
            .map(|(_, words)| words)
            .collect(),
        }
    }

    /// Variables with the proxy's address for programs; none without a proxy. Names can't be resolved in the
    /// sandbox, so the proxy's name is resolved here, each time.
    ///
    /// # Errors
    /// Fails if its name has no address.
    pub async fn variables(&self) -> io::Result<Vec<(&'static str, String)>> {
        let Self::Proxy(proxy) = self else {
            return Ok(Vec::new());
        };
        let url = proxy.addressed().await?;
        let mut variables: Vec<_> = [
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        ]
        .map(|name| (name, url.clone()))
        .into();
        // No address bypasses the proxy. Node's own client uses a proxy only if this variable says so.
        variables.extend(
            [("NO_PROXY", ""), ("no_proxy", ""), ("NODE_USE_ENV_PROXY", "1")]
                .map(|(name, value)| (name, value.to_owned())),
        );
        Ok(variables)
    }

    /// The proxy's password, to be redacted from all output.
    pub fn secret(&self) -> Option<String> {
        match self {
            Self::Proxy(proxy) => proxy.url.password().map(str::to_owned),
            Self::Open | Self::None => None,
        }
    }
}

impl Proxy {
    fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            format!(
                "`sandbox_network` names no proxy that can be used: {why}; expected `open`, `none`, \
                 `http://[USER:PASSWORD@]HOST[:PORT]` or `socks5h://…`"
            )
        };
        let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        let port = match url.scheme() {
            "http" => 80,
            "socks5" | "socks5h" => 1080,
            // Names can't be resolved in the sandbox, and a certificate is valid only for a name.
            "https" => return Err(refused("it must be reached without TLS")),
            _ => return Err(refused("its scheme is neither `http` nor `socks5`")),
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(refused("it has no host"));
        }
        Ok(Self {
            port: url.port().unwrap_or(port),
            url,
        })
    }

    /// Its URL with a numeric address and a port.
    async fn addressed(&self) -> io::Result<String> {
        let name = self.url.host_str().unwrap_or_default();
        let ip = match self.url.host() {
            Some(Host::Ipv4(ip)) => ip.into(),
            Some(Host::Ipv6(ip)) => ip.into(),
            _ => {
                let found = tokio::net::lookup_host((name, self.port)).await;
                let first = found.map(|mut addresses| addresses.next());
                let none = || io::Error::other("it has no address");
                let named = |error: io::Error| {
                    io::Error::other(format!(
                        "failed to look up the proxy {name} of `sandbox_network`: {error}"
                    ))
                };
                first.map_err(named)?.ok_or_else(|| named(none()))?.ip()
            }
        };
        let login = match (self.url.username(), self.url.password()) {
            ("", None) => String::new(),
            (user, None) => format!("{user}@"),
            (user, Some(password)) => format!("{user}:{password}@"),
        };
        let address = std::net::SocketAddr::new(ip, self.port);
        Ok(format!("{}://{login}{address}", self.url.scheme()))
    }
}

/// Leaves out the login.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::None => f.write_str("none"),
            Self::Proxy(Proxy { url, port }) => {
                write!(
                    f,
                    "{}://{}:{port}",
                    url.scheme(),
                    url.host_str().unwrap_or_default()
                )
            }
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Network::Proxy(self.clone()))
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "open" => Ok(Self::Open),
            "none" => Ok(Self::None),
            _ => Proxy::parse(text).map(Self::Proxy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn policies_are_parsed_and_shown_without_their_login() {
        let check = |text: &str, shown: &str, port| {
            let network = network(text);
            assert_eq!((network.to_string().as_str(), network.port()), (shown, port));
            assert!(!format!("{network:?}").contains("pass"));
        };
        check("open", "open", None);
        check("none", "none", None);
        check("http://user:pass@proxy", "http://proxy:80", Some(80));
        check("http://[::1]:3128/", "http://[::1]:3128", Some(3128));
        check("socks5h://127.0.0.1", "socks5h://127.0.0.1:1080", Some(1080));
        assert_eq!(network("http://u:pass@h").secret().as_deref(), Some("pass"));
    }

    #[test]
    fn an_invalid_policy_is_refused_with_the_valid_ones() {
        let check = |text: &str, why: &str| {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(why) && error.contains("`open`, `none`"), "{error}");
        };
        check("closed", "relative URL without a base");
        check("https://proxy", "without TLS");
        check("ftp://proxy", "its scheme");
        check("http://", "empty host");
    }

    #[tokio::test]
    async fn proxy_variables_hold_a_numeric_address() {
        let variables = network("http://u:p@localhost:3128").variables().await.unwrap();
        let of = |name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .unwrap()
                .1
                .as_str()
        };
        assert!(
            ["http://u:p@127.0.0.1:3128", "http://u:p@[::1]:3128"].contains(&of("HTTPS_PROXY")),
            "{variables:?}"
        );
        assert_eq!((of("http_proxy"), of("NO_PROXY")), (of("ALL_PROXY"), ""));
        assert!(network("none").variables().await.unwrap().is_empty());
        let error = network("http://no-such-host.invalid")
            .variables()
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    fn a_policy_that_cannot_be_enforced_is_refused() {
        use Effective::{Bubblewrap, Landlock};
        let all = Means {
            abi: 9,
            filter: true,
            namespace: true,
            own_root: true,
        };
        let check = |text: &str, effective, means, missing: Option<&str>| {
            let error = network(text).enforceable(effective, means).err();
            match missing {
                None => assert_eq!(error, None, "{text}"),
                Some(missing) => assert!(
                    error.as_ref().is_some_and(|error| error.contains(missing)),
                    "{error:?}"
                ),
            }
        };
        let without = |change: fn(&mut Means)| {
            let mut means = all;
            change(&mut means);
            means
        };
        for text in ["none", "http://p"] {
            check(text, Landlock, all, None);
            check(text, Bubblewrap, all, None);
            check(text, Effective::Open, all, Some("a sandbox"));
            check(
                text,
                Landlock,
                without(|means| means.filter = false),
                Some("seccomp"),
            );
        }
        check("open", Effective::Open, without(|means| means.abi = 0), None);
        check("none", Landlock, without(|means| means.namespace = false), None);
        check(
            "none",
            Bubblewrap,
            without(|means| means.namespace = false),
            Some("--unshare-net"),
        );
        check("none", Bubblewrap, without(|means| means.abi = 0), None);
        check(
            "http://p",
            Bubblewrap,
            without(|means| means.abi = 3),
            Some("ABI 4"),
        );
        check(
            "http://p",
            Landlock,
            without(|means| means.abi = 3),
            Some("ABI 4"),
        );
    }
}
