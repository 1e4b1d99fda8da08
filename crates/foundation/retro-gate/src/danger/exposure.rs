//! Finds options and settings that show or keep secrets, such as `--unmask-secrets`, `log_credentials` and
//! `redact = off`.

use super::kind::Danger::SecretKept;
use super::kind::Found;
use super::polarity::Form::Machine;
use super::reading::{Reading, gap};
use super::words::{is_one_of, pieces};

/// Words of names for secrets.
const SECRETS: &str = "secret secrets password passwords passwd passphrase passphrases credential credentials creds apikey apikeys bearer";

/// Words that are secrets after certain verbs. The plural of "token" is more often a count.
const TOKENS: &str =
    "token key keys keyring privatekey accesskey authtoken accesstoken apitoken cookie cookies";

/// Verbs that show or keep any secret.
const EXPOSES: &str = "show shows print prints log logs logged logging dump dumps reveal reveals expose exposes embed embeds bake bakes inline echo unmask unmasked unredact unredacted plain plaintext cleartext publish leak leaks hardcode commit display";

/// Verbs that do so with several secrets or with credentials, where a single one is the name of a thing.
const KEEPS: &str =
    "store save write include export persist output emit record trace debug raw remember with";

/// Verbs that do so with a key or a token.
const EXPOSES_TOKEN: &str =
    "reveal expose embed bake inline unmask unredact plaintext cleartext leak hardcode commit publish echo";

/// What hides secrets.
const MASKS: &str = "mask masks masking redact redaction redacting redacted scrub scrubbing scrubber sanitize sanitise obfuscate censor masked";
const OFF: &str = "no not skip disable disabled without un dont never bypass ignore off";
const OFF_VALUES: &str = "false 0 off no none never disable disabled n null skip";

/// Nouns of commands that print secrets if they are asked to.
const HOLDERS: &str = "secret secrets cred creds credential credentials var vars variable variables token tokens password passwords vault keyring key keys env config login wallet";

/// Options that make such commands print the secret itself.
const REVEALS: &str = "--plain --plaintext --cleartext --clear-text --unencrypted --decrypted --show-values --reveal-values --no-mask --insecure-storage --show";

/// Parts of every name that is judged, so that most words are passed over.
const HINTS: [&str; 20] = [
    "secret",
    "pass",
    "cred",
    "key",
    "token",
    "mask",
    "redact",
    "reveal",
    "plain",
    "clear",
    "scrub",
    "saniti",
    "obfusc",
    "censor",
    "bearer",
    "cookie",
    "show",
    "unencrypted",
    "decrypted",
    "insecure-storage",
];

/// Finds names of options and settings that show secrets.
pub(super) fn find_exposures(reading: &Reading<'_>, found: &mut Vec<Found>) {
    for at in 0..reading.words.len() {
        let word = &reading.words[at];
        let named = HINTS.iter().any(|hint| word.text.contains(hint));
        if !named
            || word.is_address()
            || word.text.contains('/')
            || !(word.is_name() || has_value(reading, at))
        {
            continue;
        }
        if let Some(last) = judge_name(reading, at)
            && reading.asks_for(at, last, Machine)
        {
            found.push(Found { danger: SecretKept, first: at, last });
            return;
        }
    }
}

fn has_value(reading: &Reading<'_>, at: usize) -> bool {
    reading.words.get(at + 1).is_some_and(|next| next.gap & (gap::ASSIGN | gap::COLON) != 0)
        || reading.words[at].gap & (gap::TICK | gap::QUOTE) != 0
}

/// Returns the last word of a setting that shows secrets.
fn judge_name(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    let pieces: Vec<&str> = pieces(word.text).take(8).collect();
    let (value, last) = read_value(reading, at);
    let off = is_one_of(value, OFF_VALUES);
    let has = |table: &str| pieces.iter().any(|piece| is_one_of(piece, table));
    let named = word.is_option() || word.text.contains('_') || last > at;
    let unmasks = pieces.iter().any(|piece| is_glued(piece, OFF, MASKS))
        || has(OFF) && pieces.len() > 1 && pieces.iter().position(|piece| is_one_of(piece, MASKS)) > Some(0);
    if unmasks && named && !off && !is_one_of(word.text, "--no-sanitize") {
        return Some(last);
    }
    // `mask` alone is also a part of an image, an address or a table.
    let hides = pieces.iter().any(|piece| is_one_of(piece, MASKS) && !matches!(*piece, "mask" | "masked"))
        || has(MASKS)
            && has("output outputs log logs value values vars variables env response responses")
            && is_one_of(pieces[0], MASKS)
        || has(MASKS) && has(SECRETS) && !matches!(pieces[0], "hide");
    if off && hides && pieces.len() < 4 {
        return Some(last);
    }
    // `token.storage plaintext`
    let plain = is_one_of(value, "plaintext plain cleartext clear unencrypted unmasked unredacted visible")
        && last > at
        && (has(SECRETS) || has(TOKENS));
    if plain {
        return Some(last);
    }
    if off || !named {
        return None;
    }
    let revealed = || {
        let begin = at.saturating_sub(6);
        (begin..at)
            .rev()
            .take_while(|word| reading.words[word + 1].gap & (gap::STOP | gap::COMMA | gap::SHELL) == 0)
            .any(|word| reading.text(word).split(['-', '_']).any(|piece| is_one_of(piece, HOLDERS)))
    };
    if word.is_option() && pieces.first() == Some(&"reveal") || word.is(REVEALS) && revealed() {
        return Some(last);
    }
    let verb = pieces.iter().position(|piece| is_one_of(piece, EXPOSES) || is_one_of(piece, KEEPS))?;
    let rest = &pieces[verb + 1..];
    let secret = |piece: &&str| is_one_of(piece, SECRETS);
    let certain = is_one_of(pieces[verb], EXPOSES);
    let on = word.is_option() || is_one_of(value, "true 1 yes on full all always") && pieces[verb] != "with";
    let shows = rest.iter().any(secret) && certain
        || rest.iter().any(|piece| is_one_of(piece, "secrets credentials creds passwords")) && on
        || word.is_option()
            && is_one_of(pieces[verb], "store save remember persist")
            && rest.iter().any(secret)
        || word.is_option()
            && rest.len() == 1
            && is_one_of(rest[0], "token secret password passphrase")
            && is_one_of(pieces[verb], "show print reveal display unmask dump echo")
        || word.is_option()
            && rest.len() == 1
            && is_one_of(rest[0], "keys env environment")
            && is_one_of(pieces[verb], "print dump reveal unmask echo")
        || word.is_option()
            && rest == ["tokens"]
            && is_one_of(pieces[verb], "show reveal unmask expose dump")
        || is_one_of(pieces[verb], EXPOSES_TOKEN) && rest.iter().any(|piece| is_one_of(piece, TOKENS));
    // `show_password_reset` is a page.
    let thing = rest.last().is_some_and(|last| {
        is_one_of(last, "reset page form field dialog prompt name names id ids path policy count ref refs manager provider")
    });
    (shows && !thing).then_some(last)
}

/// Returns `true` for `unmask` and `nomask`.
fn is_glued(piece: &str, begins: &str, ends: &str) -> bool {
    begins.split(' ').any(|begin| piece.strip_prefix(begin).is_some_and(|end| is_one_of(end, ends)))
}

/// Reads the value of a name: `redact=off`, "set `redact` to `off`".
fn read_value<'t>(reading: &Reading<'t>, at: usize) -> (&'t str, usize) {
    let Some(next) = reading.words.get(at + 1) else { return ("", at) };
    if next.gap & (gap::ASSIGN | gap::COLON) != 0 && next.gap & (gap::STOP | gap::COMMA | gap::SHELL) == 0
        || is_one_of(next.text, OFF_VALUES) && next.gap == gap::SPACE
        || is_one_of(next.text, "plaintext cleartext unencrypted unmasked") && next.gap == gap::SPACE
    {
        return (next.text, at + 1);
    }
    if next.is("to is") && next.gap & gap::STOP == 0 && reading.words.len() > at + 2 {
        return (reading.text(at + 2), at + 2);
    }
    ("", at)
}
