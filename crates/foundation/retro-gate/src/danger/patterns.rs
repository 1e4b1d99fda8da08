//! Matches patterns of commands against a folded text.

use regex::bytes::{Regex, RegexBuilder};

use super::kind::{Danger, Found};
use super::polarity::Form;
use super::reading::{Reading, gap};
use super::words::is_one_of;

/// A pattern of a dangerous command. Capitals in it are names from [`NAMES`]. If it has a group, the group is
/// the part that a negation must precede to undo it.
pub(super) struct Pattern {
    danger: Danger,
    form: Form,
    regex: Regex,
}

/// Names of word groups that several patterns share, each with its expression. A name may use later ones.
const NAMES: &[(&str, &str)] = &[
    // An address: with a scheme, or a host with a dot and a path, or a number of the internet.
    (
        "ADDRESS",
        r"(?:(?:git\+|hg\+|svn\+|bzr\+)?(?:https?|ftps?|git|ssh|s3|gs|ipfs)://[^\s'\x22]|git@[a-z0-9.-]{1,60}:|(?:[a-z0-9-]{1,40}\.){1,4}(?:com|org|net|io|dev|sh|ai|app|me|co|info|cc|gg|link|site|online|top|xyz|example|test|internal|local|corp|cloud|ru|cn|de|eu|uk|us|invalid)(?::[0-9]{2,5})?(?:/|\b)|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})",
    ),
    (
        "HOST",
        r"(?:URL|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|(?:[a-z0-9-]{1,40}\.){1,4}(?:com|org|net|io|dev|sh|ai|app|co|cc|xyz|example|test|internal|local|corp|cloud|ru|cn|invalid)\b)",
    ),
    // A scheme is required where a plain word may look like a host.
    ("URL", r"(?:(?:git\+|hg\+|svn\+)?(?:https?|ftps?|git|ssh|s3|gs|ipfs)://[^\s'\x22]{0,300})"),
    (
        "FETCH",
        r"(?:curl|wget2?|fetch|aria2c|axel|lynx|lwp-request|lwp-download|iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring|downloadfile|xh|httpie|http|https|nc|ncat|netcat|aws\s+s3\s+cp|gsutil\s+c(?:p|at)|gh\s+api|rclone\s+cat|scp|tftp|bitsadmin|certutil|urlopen|requests\.get)",
    ),
    ("SHELL", r"(?:/(?:usr/)?bin/)?(?:env\s+)?(?:ba|z|da|k|fi|c|tc|a|pw)?sh\b"),
    (
        "CODE",
        r"(?:/(?:usr/)?bin/)?(?:env\s+)?(?:python[0-9.]*|pypy3?|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|rscript|osascript|iex|powershell(?:\.exe)?|invoke-expression|cmd|guile|groovy|julia|elixir|ts-node|tsx)\b",
    ),
    (
        "MANAGER",
        r"(?:npm|pnpm|yarn|bun|deno|pip[0-9.]*|pipx|uv|poetry|pdm|pipenv|conda|mamba|micromamba|gem|bundle|bundler|cargo|go|composer|brew|apt|apt-get|aptitude|dnf|yum|zypper|pacman|yay|paru|apk|emerge|xbps-install|snap|flatpak|choco|scoop|winget|nuget|dotnet|paket|helm|krew|luarocks|cpan|cpanm|opam|cabal|stack|mix|rebar3|hex|pod|spm|vcpkg|conan|easy_install|code|codium|nix-env|nix|guix|port|pkg|asdf|mise|rustup|julia|tlmgr|ansible-galaxy|puppet|terraform|vagrant|mvn|sbt|lein)",
    ),
    // What may stand between a pipe and a program: `sudo`, `env` and variables.
    (
        "PREFIX",
        r"(?:sudo\s+(?:-\S+\s+)*)?(?:env\s+)?(?:[a-z_][a-z0-9_]{0,40}=(?:\x5c?['\x22][^'\x22\n]{0,80}['\x22]|[^\s'\x22|]{0,80})\s+){0,4}",
    ),
    (
        "SECRET",
        r"(?:[a-z0-9_]*(?:token|secret|passwd|password|passphrase|api_?key|apikey|private_?key|access_?key|credential)s?[a-z0-9_]*|[a-z0-9_]{1,40}_(?:pass|pwd|pw|pat)\b|(?:[a-z0-9_]{0,40}_)?(?:deploy|api|stripe|signing|encryption|master|host|service|account|auth|ssh|gpg|license|openai|aws|gcp|azure|github|gitlab|npm|pypi|sentry|datadog|slack|twilio|sendgrid|mailgun)_key\b)",
    ),
    (
        "KEYFILE",
        r"(?:[~/$\w{}.-]*/)?(?:\.env(?:\.(?:local|prod|production|staging|development))?|\.netrc|_netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|\.htpasswd|\.vault-token|\.aws/credentials|\.kube/config|\.docker/config\.json|id_(?:rsa|dsa|ecdsa|ed25519)|[\w-]*kube-?config|[\w.-]*credentials?(?:\.(?:json|ya?ml|toml|ini|csv|txt|xml|db))?|[\w.-]*secrets?\.(?:ya?ml|json|toml|env|txt|tfvars)|service[-_]account[\w-]*\.json|(?:[\w-]*[-_])?key\.json|(?:deploy|ssh|private|host|signing|server|client)[-_]key|sa[-_][\w-]*\.json|[\w.-]+\.(?:pem|p12|pfx|jks|keystore|key|kdbx|ppk))",
    ),
];

/// Maximum memory of one compiled pattern, in bytes.
const COMPILED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of matches of one pattern that are judged.
const PLACES_MAX: usize = 256;

impl Pattern {
    /// Compiles a table of patterns.
    pub(super) fn compile(table: &[(Danger, Form, &str)]) -> Vec<Self> {
        table
            .iter()
            .map(|(danger, form, pattern)| Self { danger: *danger, form: *form, regex: compile(pattern) })
            .collect()
    }
}

/// Compiles one pattern with the shared names.
pub(super) fn compile(pattern: &str) -> Regex {
    let spelt = NAMES.iter().fold(pattern.to_owned(), |spelt, (name, words)| spelt.replace(name, words));
    let regex = RegexBuilder::new(&spelt).unicode(false).size_limit(COMPILED_BYTES_MAX).build();
    regex.unwrap_or_else(|error| panic!("pattern {pattern:?} compiles: {error}"))
}

/// Finds the matches of patterns that the text asks for, at most one of each.
pub(super) fn find_patterns(reading: &Reading<'_>, patterns: &[Pattern], found: &mut Vec<Found>) {
    for Pattern { danger, form, regex } in patterns {
        // Most patterns match nowhere, which is known without their groups.
        if !regex.is_match(reading.plain.as_bytes()) {
            continue;
        }
        let places = regex.captures_iter(reading.plain.as_bytes()).take(PLACES_MAX).filter_map(|captures| {
            let whole = captures.get(0)?;
            let anchor = captures.get(1).unwrap_or(whole);
            Some((anchor.start(), whole.end()))
        });
        for (start, end) in places {
            let (first, last) = (reading.word_at(start), reading.word_before(end));
            let hinted = *danger != Danger::RemoteContent && reading.words[first].in_hint;
            if !hinted
                && !is_exempt(reading, *danger, first, last)
                && !is_taken_back(reading, *danger, first, last)
                && reading.asks_for(first, last, *form)
            {
                found.push(Found { danger: *danger, first, last });
                break;
            }
        }
    }
}

/// Returns `true` if a negation within a match takes it back: "install by name, never with `git+https://…`".
fn is_taken_back(reading: &Reading<'_>, danger: Danger, first: usize, last: usize) -> bool {
    let judged = matches!(danger, Danger::PackageAddress | Danger::RemoteContent | Danger::SecretKept);
    let is_never = |word: &usize| {
        is_one_of(reading.text(*word), "never not don't dont") && !reading.words[*word].in_answer
    };
    judged && (first + 1..=last).filter(is_never).count() % 2 == 1
}

/// Hosts of Go modules whose address is their name.
const MODULE_HOSTS: &[&str] = &[
    "github.com/",
    "gitlab.com/",
    "golang.org/",
    "google.golang.org/",
    "gopkg.in/",
    "go.uber.org/",
    "k8s.io/",
    "honnef.co/",
    "mvdan.cc/",
];

/// Places of packages that a name without an address would lead to.
const OFFICIAL_HOSTS: &[&str] = &[
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "rubygems.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "proxy.golang.org",
    "plugins.gradle.org",
    "api.nuget.org",
    "index.docker.io",
    "repo.packagist.org",
];

/// Returns `true` for an address of a registry that is used anyway. Only a connection that is encrypted leads
/// there.
pub(super) fn is_official(address: &str) -> bool {
    let host = address.split_once("https://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or("");
    OFFICIAL_HOSTS.contains(&host)
}

/// Returns `true` for addresses that are names, or places to read, and for templates of secrets: modules of Go
/// are named by their address, and "install it as described at https://…" runs nothing.
fn is_exempt(reading: &Reading<'_>, danger: Danger, first: usize, last: usize) -> bool {
    let words = || reading.words[first..=last].iter();
    let module = (first.saturating_sub(1)..=first).any(|at| reading.text(at) == "go")
        && !words().any(|word| word.text.contains("://"));
    let read = words().any(|word| {
        word.is("see described documented docs documentation guide readme manual publish publishing upload")
    });
    let before = first.checked_sub(1).map_or("", |before| reading.text(before));
    let ending = |word: &super::reading::Word<'_>| {
        [".example", ".sample", ".template", ".dist"].iter().any(|end| word.text.ends_with(end))
    };
    let template = words().any(|word| !word.is_address() && word.text.contains(".env") && ending(word));
    match danger {
        Danger::PackageAddress => {
            let mut addresses = words().filter(|word| word.is_address()).peekable();
            let official = addresses.peek().is_some() && addresses.all(|word| is_official(word.text));
            module
                || official
                || read
                || before == "remote"
                || is_one_of(reading.text(first), "please then also and git to always first next just")
                    && words().any(|word| word.text == "add")
        }
        Danger::RemoteContent => {
            let host =
                |word: &super::reading::Word<'_>| MODULE_HOSTS.iter().any(|host| word.text.contains(host));
            // `diff <(curl …)` and `curl … | tar -` only read.
            let reads = is_one_of(
                reading.text(first),
                "diff cat comm jq yq grep sort head tail less wc tee paste join tar gunzip zcat xz bat sha256sum md5sum sha512sum gpg cut awk sed uniq while done",
            );
            reads || module && reading.text(first + 1) == "run" && words().any(host)
        }
        Danger::ForeignDelete => {
            let deletes = is_one_of(reading.text(first), "delete drop truncate dropdb dropuser");
            let own = |at: usize| {
                let name = reading.text(at).trim_start_matches("public.");
                ["tmp", "temp", "test_", "scratch"].iter().any(|begin| name.starts_with(begin))
                    || ["_test", "_tmp", "_temp"].iter().any(|end| name.ends_with(end))
            };
            deletes && (last..last + 3).any(|at| at < reading.words.len() && own(at))
        }
        Danger::SecretKept => {
            let name = reading.text(last).rsplit('/').next().unwrap_or("");
            let used = last > 0
                && reading.text(last).contains(['/', '.'])
                && is_one_of(
                    reading.text(last - 1),
                    "-i -e --key --cert --cacert --ca-certificate --ca-file --cafile --capath --certificate --private-key --tlscert --tlskey --tlscacert",
                );
            // A certificate is shown to everybody.
            let public = ["cert", "ca.", "ca-", "-ca", "chain", "bundle", ".pub", "public", "root"];
            // `grant_type=client_credentials` is a value.
            let value = reading.words[last].gap & gap::ASSIGN != 0
                && is_one_of(reading.text(last), "client_credentials credentials");
            template
                || used
                || value
                || name.contains(".pem") && public.iter().any(|part| name.contains(part))
        }
        _ => false,
    }
}
