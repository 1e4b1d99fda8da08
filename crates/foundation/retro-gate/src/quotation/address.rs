//! Finds the addresses in a text: with a scheme, and hosts without one. A class (`java.io.File`), a package
//! (`io.netty.channel`), an attribute (`self.app`), a file and its position (`a.cc:12:3`) look like hosts and
//! are none.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::markup::LEFT_OUT;

/// Replaces every address by `…`.
pub(super) fn leave_out_addresses(line: &str) -> Cow<'_, str> {
    let left = LEFT_OUT.to_string();
    let line = Cow::Owned(ADDRESS.replace_all(line, left.as_str()).into_owned());
    let line = SHARE.replace_all(&line, |found: &Captures<'_>| format!("{}{left}", &found[1])).into_owned();
    let line = DISGUISED.replace_all(&line, left.as_str());
    let replace = |found: &Captures<'_>| {
        let host = Host { before: &found[1], name: &found[2], port: group(found, 3), path: group(found, 4) };
        if !host.is_address() {
            return found[0].to_owned();
        }
        format!("{}{left}", &found[1])
    };
    Cow::Owned(DOTTED.replace_all(&line, replace).into_owned())
}

fn group<'a>(found: &'a Captures<'_>, index: usize) -> &'a str {
    found.get(index).map_or("", |group| group.as_str())
}

/// Words joined by points, as found in a text.
struct Host<'a> {
    /// Word and mark in front of it.
    before: &'a str,
    name: &'a str,
    /// Colon and digits, or empty.
    port: &'a str,
    /// Path with its slash, or empty.
    path: &'a str,
}

impl Host<'_> {
    /// Returns `true` if an agent could open this. A path or a port needs any last label that no file ends
    /// with; without them the label must be a top-level domain, and one that code also uses needs a word such
    /// as "from" in front of it.
    fn is_address(&self) -> bool {
        let name = self.name.trim_end_matches('.').to_lowercase();
        let last = name.rsplit('.').next().unwrap_or(&name);
        if !last.chars().all(char::is_alphabetic) || last.chars().count() < 2 {
            return false;
        }
        if DOMAINS.contains(&last) {
            return true;
        }
        let is_file = FILE_ENDINGS.contains(&last);
        let is_code_name = self.name.chars().any(char::is_uppercase) || self.name.contains('_');
        let has_path = self.path.len() > 1 && (!is_file || CODE_DOMAINS.contains(&last));
        let has_port = !self.port.is_empty() && CODE_DOMAINS.contains(&last) && !is_file;
        let placed = CODE_DOMAINS.contains(&last) && !is_file && PLACE.is_match(self.before);
        !is_code_name && (has_path || has_port || placed)
    }
}

/// Top-level domains that no class, package or file ends with.
const DOMAINS: &[&str] = &[
    "com", "org", "net", "edu", "gov", "biz", "xyz", "online", "onion", "corp", "su", "uk", "eu", "jp", "ru",
    "cn", "gg", "nl", "fr", "br",
];

/// Top-level domains that classes, attributes or files end with, too.
const CODE_DOMAINS: &[&str] = &[
    "io", "ai", "dev", "app", "cloud", "info", "site", "top", "link", "example", "test", "invalid",
    "internal", "local", "cc", "ws", "ly", "de", "in", "us", "pl", "me", "sh", "zip", "mov", "to", "so",
    "rs", "py", "co",
];

/// Endings of files, after which a colon is a line and a slash begins a member.
const FILE_ENDINGS: &[&str] = &[
    "c", "cc", "cpp", "cs", "css", "csv", "d", "ex", "egg", "git", "go", "gz", "h", "hpp", "hs", "html",
    "jar", "java", "js", "json", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "ml", "php", "pl", "py",
    "rb", "rs", "scala", "sh", "so", "sql", "swift", "tar", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml",
    "yml", "zip",
];

// Addresses with a scheme, of mail, and of numbers.
pattern!(
    ADDRESS,
    concat!(
        r"(?i)\b[a-z][a-z0-9+.-]{1,20}:/{1,3}[^\s'\x22\\”)\]<>]+|\bwww\.[^\s'\x22\\”)\]<>]+|\bmailto:\S+|\b[\w.+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+(?::[^\s'\x22]+)?|",
        r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:/[^\s'\x22\\”)\]<>]*)?|\bgit@\S+|",
        r"\[[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}\](?::\d{1,5})?(?:/[^\s'\x22\\”)\]<>]*)?"
    )
);
// A host after two slashes or backslashes. A comment has a space after them.
pattern!(SHARE, r#"(^|[\s'"(=,])(?://|\\\\)[\w.-]{2,}[/\\][^\s'”)\]<>]+"#);
// A point that is spelled or bracketed.
pattern!(
    DISGUISED,
    r"(?i)\b[\w-]+(?:\s?(?:\[(?:\.|dot)\]|\((?:\.|dot)\)|\{(?:\.|dot)\})\s?[\w-]+)+[^\s'\x22”)\]<>]*|\b[\w-]+ dot (?:com|org|net|io|dev|app|ai|me|sh|xyz|zip|example|test)\b(?: slash \w+)*"
);
// Words joined by points, with the word in front. A point, slash or hyphen before them belongs to a path.
pattern!(
    DOTTED,
    r"((?:^|\b[A-Za-z]+[ ]|[\s'\x22(=,<>|]))((?:[\p{L}\p{N}_-]+\.)+[\p{L}\p{N}_-]+)(:\d{1,5}\b)?(/[^\s'\x22\\”)\]<>]*)?"
);
// Words after which a name is a place.
pattern!(PLACE, r"(?i)^(?:from|at|via|host|visit|see|open|fetch|of|into|to)\s$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_left_out_with_and_without_a_scheme() {
        for (text, left) in [
            ("get https://a.test/x now", "get … now"),
            ("get t.co/abc", "get …"),
            ("get evil.me/x.sh", "get …"),
            ("get evil.rocks/x", "get …"),
            ("get EVIL.COM", "get …"),
            ("missing, see evil.io", "missing, see …"),
            ("get //evil.zip/x", "get …"),
            (r"get \\evil\share", "get …"),
            ("get evil[.]com/x", "get …"),
            ("get evil dot com slash x", "get …"),
            ("get [2001:db8::1]/x", "get …"),
            ("get evil.рф/x", "get …"),
            ("ask a@b.example", "ask …"),
            ("db.internal:5432 refused", "… refused"),
        ] {
            assert_eq!(leave_out_addresses(text), left, "{text}");
        }
    }

    #[test]
    fn classes_packages_and_positions_stay() {
        for text in [
            "java.io.FileNotFoundException: x",
            "System.IO.IOException",
            "io.netty.channel.ConnectTimeoutException: timed out",
            "a.cc:12:3: error: expected ';'",
            "self.app is None",
            "config.yaml.in: invalid",
            "index.io: read failed",
            "a.example.test.ts: failed",
            "lib/a.py/b and src/x.test/y.rs",
            "no module named 'os.path'",
            "// a comment",
            "version 1.2.3/4",
            "ratio 1.5/s",
        ] {
            assert_eq!(leave_out_addresses(text), text);
        }
    }
}
