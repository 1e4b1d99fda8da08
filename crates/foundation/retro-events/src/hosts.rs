//! Checks URLs against the allow list of HTTPS hosts that bodies may be fetched from.
//!
//! Without the list, an event could make the server request any address that the server can reach. An
//! [`AllowedUrl`] proves that a URL was checked against the list, and fetching requires one. The address that
//! a *name* resolves to is checked while connecting (`retro-fetch`).

use std::collections::BTreeSet;

use url::{Host, Url};

/// Maximum length of a URL, in bytes: enough for a pre-signed URL with its session token.
pub const URL_BYTES_MAX: usize = 4096;

/// Hosts that bodies may be fetched from, by name; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatarefHosts {
    /// Allowed hosts with their ports. The port is 443 if the entry names none.
    hosts: BTreeSet<(String, u16)>,
}

/// Error for an entry of the list that is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} {problem}; expected a host name such as runs.example.com or runs.example.com:8443")]
pub struct HostError {
    entry: String,
    problem: &'static str,
}

/// A URL at an allowed host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedUrl(Url);

impl DatarefHosts {
    /// Parses the entries of a list, each of the form `host` or `host:port`.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, HostError> {
        let hosts = entries.iter().map(|entry| host_and_port(entry.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { hosts })
    }

    /// Returns `true` if the list is empty, so that no host is allowed.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Checks a URL against the list. The error describes the problem without repeating any part of the URL.
    pub fn check_address(&self, address: &str) -> Result<AllowedUrl, &'static str> {
        if address.len() > URL_BYTES_MAX {
            return Err("is longer than 4096 bytes");
        }
        self.check_url(Url::parse(address).map_err(|_| "is not an address")?)
    }

    /// Checks the target of a redirect, which may be relative to `from`.
    pub fn check_redirect(&self, from: &AllowedUrl, location: &str) -> Result<AllowedUrl, &'static str> {
        if location.len() > URL_BYTES_MAX {
            return Err("is longer than 4096 bytes");
        }
        self.check_url(from.0.join(location).map_err(|_| "is not an address")?)
    }

    fn check_url(&self, mut url: Url) -> Result<AllowedUrl, &'static str> {
        if url.scheme() != "https" {
            return Err("is not https; files and other schemes are not read");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("holds credentials");
        }
        // A numeric address could point into the internal network, so only names are allowed.
        let Some(Host::Domain(host)) = url.host() else {
            return Err("names no host by its name; numeric addresses are not fetched from");
        };
        let port = url.port_or_known_default().unwrap_or(443);
        if !self.hosts.contains(&(host.to_owned(), port)) {
            return Err("is at a host that dataref_hosts of the configuration does not name");
        }
        // A fragment is never sent to the server; without it, equal requests have equal URLs.
        url.set_fragment(None);
        Ok(AllowedUrl(url))
    }
}

impl AllowedUrl {
    /// Returns the URL.
    pub const fn url(&self) -> &Url {
        &self.0
    }
}

fn host_and_port(entry: &str) -> Result<(String, u16), HostError> {
    let wrong = |problem| HostError { entry: entry.to_owned(), problem };
    // Only a host and perhaps a port: with other characters, the URL below could have a different host.
    let is_bare = !entry.is_empty() && !entry.contains(|c: char| "/@?#\\*".contains(c) || c.is_whitespace());
    let url = Some(format!("https://{entry}/")).filter(|_| is_bare).and_then(|url| Url::parse(&url).ok());
    let url = url.ok_or_else(|| wrong("is not a host"))?;
    match url.host() {
        Some(Host::Domain(host)) if host == "localhost" || host.ends_with(".localhost") => {
            Err(wrong("is this machine"))
        }
        Some(Host::Domain(host)) => Ok((host.to_owned(), url.port_or_known_default().unwrap_or(443))),
        _ => Err(wrong("is a numeric address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> DatarefHosts {
        DatarefHosts::parse(&["runs.example.com", "Bücher.example:8443"]).unwrap()
    }

    #[track_caller]
    fn refused(address: &str, because: &str) {
        let problem = hosts().check_address(address).expect_err(address);
        assert!(problem.contains(because), "{address}: {problem}");
    }

    #[test]
    fn an_allowed_host_is_accepted_in_every_spelling() {
        for (address, taken) in [
            ("https://runs.example.com/a?b=c#d", "https://runs.example.com/a?b=c"),
            ("HTTPS://RUNS.example.COM:443/../a", "https://runs.example.com/a"),
            ("https://bücher.example:8443/", "https://xn--bcher-kva.example:8443/"),
        ] {
            assert_eq!(hosts().check_address(address).unwrap().url().as_str(), taken);
        }
    }

    #[test]
    fn urls_outside_the_allow_list_are_rejected() {
        for address in [
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "http://runs.example.com/",
            "ftp://runs.example.com/",
        ] {
            refused(address, "not https");
        }
        for address in ["", "/etc/passwd", "../a", "//runs.example.com/", "runs.example.com/a", "C:"] {
            let problem = hosts().check_address(address).expect_err(address);
            assert!(
                ["is not an address", "is not https; files and other schemes are not read"]
                    .contains(&problem)
            );
        }
        refused("https://me:secret@runs.example.com/", "credentials");
        refused("https://runs.example.com@evil.example/", "credentials");
        for numeric in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "127.1",
            "0",
            "10.0.0.1",
            "169.254.169.254",
            "192.168.1.1",
            "100.64.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
        ] {
            refused(&format!("https://{numeric}/"), "numeric");
        }
        for unlisted in [
            "localhost",
            "runs.example.com.evil.example",
            "sub.runs.example.com",
            "runs.example.com.",
            "runs.example.com:8443",
            "bücher.example",
            "metadata.google.internal",
        ] {
            refused(&format!("https://{unlisted}/"), "does not name");
        }
        refused(&format!("https://runs.example.com/{}", "a".repeat(URL_BYTES_MAX)), "longer");
        assert!(
            DatarefHosts::default().check_address("https://runs.example.com/").is_err(),
            "nothing is allowed by default"
        );
    }

    #[test]
    fn a_redirect_is_checked_like_an_address_and_may_be_relative() {
        let from = hosts().check_address("https://runs.example.com/a/b").unwrap();
        let to = |location| hosts().check_redirect(&from, location).map(|to| to.url().to_string());
        assert_eq!(to("../c"), Ok("https://runs.example.com/c".to_owned()));
        for location in
            ["http://runs.example.com/", "//evil.example/", "https://127.0.0.1/", "file:///etc/passwd"]
        {
            assert!(to(location).is_err(), "{location}");
        }
    }

    #[test]
    fn an_entry_is_a_name_and_perhaps_a_port() {
        for entry in [
            "",
            "https://a.example",
            "a.example/b",
            "me@a.example",
            "*.a.example",
            "a b",
            "a:0x",
            "127.0.0.1",
            "[::1]",
            "1",
            "localhost",
            "x.localhost:1",
        ] {
            let error = DatarefHosts::parse(&[entry]).expect_err(entry).to_string();
            assert!(error.contains("expected a host name"), "{error}");
        }
    }
}
