//! Knows the few words that options, keys and sentences about dangers are made of.
//!
//! The tables hold meanings, and names of tools only where these are parts of settings, such as `husky`. An
//! option of a tool that nobody here has heard of is still made of the same parts: `--skip-tls-verify`,
//! `sslVerify`, `SKIP_HOOKS`. Names are split at punctuation, and glued words into the
//! words of the tables, because folding has removed the capitals of `insecureSkipVerify`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Meanings of the parts of a name, as bits.
pub(super) mod part {
    /// Switches off what it stands with.
    pub(in crate::danger) const OFF: u16 = 1;
    /// Names the act of verifying.
    pub(in crate::danger) const VERIFY: u16 = 1 << 1;
    /// Names what is verified or signed, such as a certificate.
    pub(in crate::danger) const PROOF: u16 = 1 << 2;
    /// Names a check of changes: hooks, tests, reviews, protections.
    pub(in crate::danger) const CHECK: u16 = 1 << 3;
    /// Says by itself that something is not verified.
    pub(in crate::danger) const LAX: u16 = 1 << 4;
    /// Lets something through.
    pub(in crate::danger) const TRUST: u16 = 1 << 5;
    /// Says that too much is let through.
    pub(in crate::danger) const ANY: u16 = 1 << 6;
    /// Makes the parts before it the name of a thing: `cert_path` is a path.
    pub(in crate::danger) const THING: u16 = 1 << 7;
    /// Demands a minimum.
    pub(in crate::danger) const REQUIRED: u16 = 1 << 8;
    /// Names a digest, which is verified only if another part says so.
    pub(in crate::danger) const DIGEST: u16 = 1 << 9;
    /// Names a host, which is verified only if another part says so.
    pub(in crate::danger) const HOST: u16 = 1 << 10;
}

use part::{ANY, CHECK, DIGEST, HOST, LAX, OFF, PROOF, REQUIRED, THING, TRUST, VERIFY};

/// Parts of names. Chosen from the options and configuration keys of HTTP clients, package managers, version
/// control, databases, container and cloud tools that concern verification and checks.
const PARTS: &[(u16, &str)] = &[
    (
        OFF,
        "no non not skip skips skipped skipping disable disables disabled disabling ignore ignored ignores ignoring bypass bypassed bypassing without off noop none never omit suppress deactivate exclude dont remove unset drop unprotect mute muted silence silenced suspend suspended waive waived override overrides overridden",
    ),
    (
        VERIFY,
        "verify verifying verification verifications verifier verified verifies unauthorized authenticity",
    ),
    (
        PROOF,
        "ssl tls https cert certs certificate certificates signature signatures sig sigs sign signing signed gpg pgp checksum checksums integrity hostkey hostkeys fingerprint fingerprints sumdb sumcheck provenance attestation attestations x509 sigstore cosign notarization revocation revoke hsts ocsp encrypt encryption dnssec secure attest attested notary pinning tlog tlogs mtls",
    ),
    (
        CHECK,
        "hook hooks husky lefthook precommit test tests testing review reviews reviewers approval approvals check checks checking ci lint lints linter linters linting eslint scan scans scanning scanner gate gates gatekeeper protection protections coverage cov guard guards guardrail guardrails sandbox sandboxing 2fa mfa totp validate validation validations typecheck safeguard safeguards permissions firewall selinux apparmor seccomp antivirus csrf preflight policy policies approver approvers otp captcha kyc aml confirm confirmation confirmations human humans moderation oversight canary soak smoke reauth freeze quorum enforcement sast dast",
    ),
    (LAX, "insecure insecurely unverified unsigned untrusted unauthenticated selfsigned"),
    (TRUST, "trust trusted trusts accept accepts allow allows permit tolerate"),
    (
        ANY,
        "all any every anything anyone everything whatever invalid expired bad unknown broken server arbitrary self mismatched wrong",
    ),
    (
        THING,
        "path paths file files dir dirs directory folder name names port version versions id ids size format url uri key keys user users email phone timeout readable interval env environment data db database index number count limit token tokens algorithm subject issuer date days type log logs result results report reports branch location pattern patterns match ca store",
    ),
    (REQUIRED, "require required requires enforce enforced min minimum threshold fail under strict mode"),
    (DIGEST, "hash hashes digest digests sum sums md5 sha256"),
    (HOST, "peer peers host hosts hostname hostnames domain"),
    // Words without a meaning of their own that are glued to the others.
    (
        0,
        "http git python node npm java maven content level strict request requests client default enable enabled set use using run config option core the dangerously danger for on error errors warning warnings failure failures context with to reject known pass go gradle docker repo pg my mysql sql smtp ldap mongo redis build release commit push merge branch auto approve quality repositories repository packages signoff signin signup signout signon offset nonce onset before after unit integration security pre post type types static code callback flag force admin",
    ),
];

static LEXICON: LazyLock<HashMap<&'static str, u16>> = LazyLock::new(|| {
    let words = PARTS.iter().flat_map(|(meaning, words)| words.split(' ').map(|word| (word, *meaning)));
    let mut lexicon = HashMap::new();
    for (word, meaning) in words {
        *lexicon.entry(word).or_insert(0) |= meaning;
    }
    lexicon
});

/// Maximum length of a glued word that is split, in bytes. Options are shorter, and the split takes quadratic
/// time.
const GLUED_BYTES_MAX: usize = 48;

/// Returns the meaning of one word, or 0 if it has none.
pub(super) fn meaning(word: &str) -> u16 {
    LEXICON.get(word).copied().unwrap_or(0)
}

/// A name split into its parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    /// Words of the name in order, each with its meaning.
    pub(super) list: Vec<(String, u16)>,
}

/// Splits a name into pieces at its punctuation.
pub(super) fn pieces(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|piece| !piece.is_empty())
}

impl Parts {
    /// Splits a folded name, such as `http.sslverify` or `--no-gpg-sign`.
    pub(super) fn split(name: &str) -> Self {
        let mut list = Vec::new();
        let one_dash = name.starts_with('-') && !name.starts_with("--");
        for (nth, piece) in pieces(name).enumerate() {
            if LEXICON.contains_key(piece) {
                list.push((piece.to_owned(), meaning(piece)));
                continue;
            }
            // `-DskipTests`: the letter of a definition is glued to the name.
            let define = (nth == 0 && one_dash).then(|| piece.strip_prefix('d')).flatten();
            match unglue(piece).or_else(|| define.and_then(unglue)) {
                Some(words) => list.extend(words.into_iter().map(|word| (word.to_owned(), meaning(word)))),
                None => list.push((piece.to_owned(), 0)),
            }
        }
        Self { list }
    }

    pub(super) fn has(&self, any_of: u16) -> bool {
        self.list.iter().any(|(_, meaning)| meaning & any_of != 0)
    }

    pub(super) fn count(&self, any_of: u16) -> usize {
        self.list.iter().filter(|(_, meaning)| meaning & any_of != 0).count()
    }

    pub(super) fn is(&self, words: &[&str]) -> bool {
        self.list.iter().map(|(word, _)| word.as_str()).eq(words.iter().copied())
    }

    pub(super) fn contains(&self, words: &[&str]) -> bool {
        self.list.len() >= words.len()
            && self
                .list
                .windows(words.len())
                .any(|window| window.iter().zip(words).all(|((part, _), word)| part == word))
    }
}

/// Splits a glued word into the fewest words of the lexicon that make it up completely, if there are any.
fn unglue(piece: &str) -> Option<Vec<&str>> {
    if piece.len() > GLUED_BYTES_MAX || !piece.is_ascii() {
        return None;
    }
    // The best split of the first n bytes: the number of words, and where the last one begins.
    let mut best: Vec<Option<(usize, usize)>> = vec![None; piece.len() + 1];
    best[0] = Some((0, 0));
    for end in 1..=piece.len() {
        for start in 0..end {
            if let Some((words, _)) = best[start]
                && LEXICON.contains_key(&piece[start..end])
                && best[end].is_none_or(|(fewest, _)| words + 1 < fewest)
            {
                best[end] = Some((words + 1, start));
            }
        }
    }
    let (mut words, mut end) = (Vec::new(), piece.len());
    while end > 0 {
        let (_, start) = best[end]?;
        words.push(&piece[start..end]);
        end = start;
    }
    words.reverse();
    Some(words)
}

/// Returns `true` if `word` is one of the words of a table, which are separated by spaces.
pub(crate) fn is_one_of(word: &str, table: &str) -> bool {
    // A search for the word is many times faster than a comparison with each word of the table.
    let edge = |at: usize| table.as_bytes().get(at).is_none_or(|byte| *byte == b' ');
    !word.is_empty()
        && table.match_indices(word).any(|(at, _)| (at == 0 || edge(at - 1)) && edge(at + word.len()))
}

/// Things that several people or runs share.
pub(super) const SHARED: &str = "database databases db schema schemas bucket buckets volume volumes cluster clusters namespace namespaces project projects instance instances server servers vm vms tenant tenants account accounts user users customer customers backup backups snapshot snapshots record records row rows table tables collection collections queue queues topic topics stack stacks production prod repository repositories repo history deployment deployments infrastructure disk disks partition home archive archives subscription subscriptions order orders invoice invoices mailbox organization organisation team workspace registry images volumes pvc pvcs index indices environment everything drive drives share shares members employee employees data";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_their_words() {
        let split =
            |name| Parts::split(name).list.into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ");
        assert_eq!(split("insecureskipverify"), "insecure skip verify");
        assert_eq!(split("stricthostkeychecking"), "strict hostkey checking");
        assert_eq!(split("-dskiptests"), "skip tests");
        assert_eq!(split("http.sslverify"), "http ssl verify");
        assert_eq!(split("latest"), "latest");
        assert_eq!(split("contest"), "contest");
    }
}
