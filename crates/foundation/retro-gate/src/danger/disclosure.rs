//! Finds commands and messages in which a secret is written out: a literal on a command line, in a comment or
//! in an address, a trace that shows headers, a vault that is decrypted to a file.

use std::sync::LazyLock;

use super::kind::Danger::SecretKept;
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Command, Machine, Phrase};
use super::reading::Reading;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // A password on a command line is seen by every process.
        (
            SecretKept,
            Command,
            r"\b(?:mysql\w*|mariadb\w*|mongo\w*|sshpass|zip|7z)\b[^\n;|]{0,120}?[\s'\x22](-p\s?['\x22]?(?:[a-z!@#%^*_]+[0-9]|[0-9]+[a-z!@#%^*_])[^\s'\x22]{2,})|\bcurl\b[^\n;|]{0,120}?\s(?:-u|--user)[ =]?['\x22]?[\w.@-]+:(?:[a-z!@#%^*_]+[0-9]|[0-9]+[a-z!@#%^*_])[^\s'\x22@]{2,}",
        ),
        (
            SecretKept,
            Machine,
            r"['\x22](?:content|contents|text|body|message|comment|description|insert_text|new_str|value|title)['\x22]\s*:\s*['\x22][^\n]{0,400}?[a-z]://[^\s/@:'\x22$]{1,60}:[^\s/@'\x22${<*]{3,80}@",
        ),
        (
            SecretKept,
            Command,
            r"\s['\x22]?--(?:[a-z]+-)?(?:password|passwd|passphrase|secret|api-?key|auth-token|access-token|secret-key)['\x22]?[ =]['\x22]?(?:[a-z!@#%^*_]+[0-9]|[0-9]+[a-z!@#%^*_])[^\s'\x22$<{]{1,}|\s--token[ =]['\x22]?(?:[a-z_-]+[0-9]|[0-9]+[a-z])[a-z0-9_-]{8,}",
        ),
        (
            SecretKept,
            Machine,
            r"['\x22](?:text|body|message|comment|description|title|content|note)['\x22]\s*:\s*['\x22][^\n]{0,400}?\bSECRET\b(?: \w+){0,3} is [a-z!@#%^*_]*[0-9][^\s'\x22]{3,}",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:output|print|show|reveal|param)\s+(?:-\S+\s+){0,3}['\x22]?[a-z0-9]+_(?:password|passwd|secret|token|api_key|private_key|access_key|secret_key)(?:['\x22;,]|\.?$|\s*\n)",
        ),
        // A trace or a log of requests holds the headers that prove who asks.
        (
            SecretKept,
            Phrase,
            r"\b(log|logging|print|printing|dump|dumping|record|trace|echo)\b[^\n.;]{0,40}?\b(?:authori[sz]ation|auth|cookie|bearer) headers?\b|\b(log|logging|print|printing|dump|dumping|record|trace|echo)\b[^\n.;]{0,40}?\bheaders?\b[^\n.;]{0,30}?\b(?:cookies?|authori[sz]ation|bearer|tokens?)\b|\b(?:authori[sz]ation|auth|cookie|bearer) headers? (?:is|are|gets?) (?:then |also )?(logged|printed|shown|dumped|visible)\b",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:curl|http|wget|xh)\b[^\n;|]{0,160}?\s(?:-[a-z]*v|--verbose|--trace\S*)\b[^\n;]{0,160}?\$\{?SECRET\b[^\n;]{0,160}?(?:\btee\b|>\s*['\x22]?[\w./~])",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:sops|gpg|age|openssl|ansible-vault|[a-z-]*vault|[a-z-]*crypt)\b[^\n;|&]{0,80}?(?:\s(?:-d|--decrypt)\b|\bdecrypt\b)[^\n;|&]{0,120}?(?:>\s*['\x22]?[\w./~]|\s-(?:o|out|-output)[ =])|\b[a-z]+-vault\s+decrypt\s",
        ),
        (
            SecretKept,
            Command,
            r"(?:^|[\s'\x22;&])(?:cat|less|head|tail|bat|more|strings)\s+(?:-\S+\s+)*['\x22]?/(?:var/)?run/secrets/[^\s'\x22|)]{1,120}(?:['\x22]|\s*$|\s*[;>])",
        ),
        (
            SecretKept,
            Phrase,
            r"\b(send|call|mail|post|reply|comment|message|write|open|create)\b[^\n.;]{0,60}?\bwith (?:the |your |its |a |an |all )(?:[a-z-]+ ){0,2}?(?:api keys?|tokens?|passwords?|secrets?|credentials?|private key|access keys?|passphrase)\b[^\n.;]{0,12}?\bin (?:the |its )?(?:body|text|subject|message|comment|description|url|query|title|path|name)\b",
        ),
        (
            SecretKept,
            Phrase,
            r"\bso (?:that )?(?:the |all |your )?(?:[a-z-]+ )?(?:passwords?|secrets?|tokens?|credentials?|api keys?|cookies?)\b (?:shows? up|becomes? visible|(?:are|is) (?:visible|shown|readable|printed|logged)|appears?|can be (?:seen|read|copied))\b",
        ),
        // A literal that looks like a credential is kept wherever it stands.
        (
            SecretKept,
            Command,
            r"(?:\bakia[a-z0-9]{16}\b|\bgh[pousr]_[a-z0-9]{30,}|\bglpat-[a-z0-9_-]{20,}|\bxox[abprs]-[a-z0-9-]{20,}|\bsk_live_[a-z0-9]{5,}|\bnpm_[a-z0-9]{30,}|\bhf_[a-z0-9]{30,}|\bsk-(?:proj-|ant-)?[a-z0-9_-]{30,})",
        ),
    ])
});

/// Finds secrets that are written out.
pub(super) fn find_disclosures(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
}
