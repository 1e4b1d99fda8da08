//! Finds requests that delete something on a server, and secrets that leave the machine with a request.
//!
//! A secret in a header proves who asks. In an address, in the data of a request, in the name of a host or in
//! a message it is handed to whoever is there, and kept in logs.

use std::sync::LazyLock;

use super::kind::Danger::{ForeignDelete, SecretKept};
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Command, Machine};
use super::reading::{Reading, gap};
use super::words::is_one_of;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // A secret in an address, also as a label of a host that is only looked up.
        (
            SecretKept,
            Command,
            r"(?:://|\bwww\.|/|[\s'\x22])[^\s'\x22<>]{0,200}?[?&][\w.\[\]-]{1,40}=\$[({]{0,2}(?:env:)?SECRET\b",
        ),
        (
            SecretKept,
            Command,
            r"://[^\s'\x22<>@]{0,200}/\$\{?(?:env:)?SECRET\b|\$\{?(?:env:)?SECRET\}?\.[a-z0-9-]{1,40}\.[a-z]",
        ),
        (
            SecretKept,
            Command,
            r"(?:://[^\s'\x22<>]{0,200}?[?&/=@]|\s(?:-d|-f|--data\S*|--form|--json)[ =]?['\x22]?[^\s'\x22$]{0,60}=?)(?:\$\(|')\s*(?:cat|base64|gzip|tar|head|printenv|env|xxd)\b[^\n)']{0,120}?(?:KEYFILE|SECRET|\benv\b)",
        ),
        // A secret in the data of a request.
        (
            SecretKept,
            Command,
            r"\s(?:-d|--data(?:-\w+)?|-f|-F|--form|--json|--post-data|--body(?:-data)?|--field|--raw-field|--query)[ =]?\s?(?:['\x22][^\n;|'\x22]{0,160}?|[^\s;|'\x22$]{0,80}|['\x22]?\{[^\n;|]{0,160}?)[=:@\s'\x22]?\x5c?['\x22]?\$[({]{0,2}(?:env:)?SECRET\b",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:http|https|xh|httpie)\s+(?:-\S+\s+)*(?:(?:post|put|patch|get)\s+)?\S+\s[^\n;|]{0,120}?\b[\w.-]{1,40}:?==?['\x22]?\$[({]{0,2}SECRET\b",
        ),
        // A secret in a message, a ticket or a search.
        (
            SecretKept,
            Machine,
            r"['\x22](?:text|body|message|comment|description|title|subject|note|notes|reply|query|prompt|reason|summary)['\x22]\s*:\s*['\x22][^\n\x22]{0,400}?\$\{?(?:env:)?SECRET\b",
        ),
        // The whole environment.
        (
            SecretKept,
            Command,
            r"\b(?:console\.\w+|print|puts|pp|println!?|fmt\.print\w*|var_dump|dump|json\.(?:dumps|stringify)|log(?:ger|ging)?\.\w+)\s*\(?\s*(?:json\.(?:dumps|stringify)\()?\s*(?:dict\()?(?:process\.env|os\.environ|env|import\.meta\.env|\$_env|\$_server)\s*[),;]",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:kubectl|docker|podman|oc|nerdctl|ssh|fly|heroku|compose)\s[^\n;|]{0,80}?(?:exec|run|ssh)\s[^\n;|]{0,80}?\s(?:env|printenv)(?:['\x22;|]|\.?$|\s*\n)",
        ),
    ])
});

/// Keys of the method of a request.
const METHOD_KEYS: &str = "method methods http_method httpmethod http-method request_method requestmethod verb http_verb request -x --request --method -method";

/// What may be deleted on a server without loss: what a run posts itself.
const EVERYDAY: &str = "item items entry entries file files comment comments draft drafts reaction reactions label labels tmp temp test tests session sessions cache caches lock locks scratch subscription-tests assignees requested_reviewers";

/// Clients of HTTP whose methods are named like their requests.
const CLIENTS: &str = "requests axios http https client session httpx api fetch got superagent ky rest resttemplate webclient request xh httpie hc";

/// Maximum number of words around a method in which its target is looked for.
const TARGET_WORDS_MAX: usize = 12;

/// Maximum length of an argument that is read, in bytes.
const ARGUMENT_BYTES_MAX: usize = 200;

/// Finds requests that delete, and requests that carry a secret.
pub(super) fn find_requests(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
    for at in 0..reading.words.len() {
        if let Some(first) = find_delete(reading, at)
            && !reading.words[at].in_answer
            && !is_everyday(reading, at)
            && reading.asks_for(first, at, Machine)
        {
            found.push(Found { danger: ForeignDelete, first, last: at });
            return;
        }
    }
}

/// Returns the first word of a method DELETE: `-X DELETE`, `"method": "DELETE"`, `requests.delete(`.
fn find_delete(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    let after = &reading.plain[word.end..reading.plain.floor_char_boundary(word.end + ARGUMENT_BYTES_MAX)];
    if let Some((client, "delete" | "del")) = word.text.rsplit_once('.') {
        let is_client = client.rsplit(['.', '_']).next().is_some_and(|last| is_one_of(last, CLIENTS));
        let argument = after.strip_prefix('(').and_then(|rest| rest.split([')', '\n']).next());
        return (is_client && argument.is_some_and(|argument| argument.contains('/'))).then_some(at);
    }
    // `-X DELETE`, also joined to other short options.
    if word.text.starts_with('-') && !word.text.starts_with("--") && word.text.ends_with("xdelete") {
        return Some(at);
    }
    if word.text != "delete" {
        return None;
    }
    let before = at.checked_sub(1)?;
    let linked = is_one_of(reading.text(before), "to as is equals");
    let key = if linked { before.checked_sub(1)? } else { before };
    let (name, bound) = (reading.text(key), word.gap & (gap::ASSIGN | gap::COLON) != 0);
    let names_method = is_one_of(name, METHOD_KEYS) && (bound || linked || reading.words[key].is_option());
    // `http DELETE example.test/users/5`
    let client = is_one_of(name, "http https xh httpie") && word.gap == gap::SPACE && has_target(reading, at);
    (names_method || client).then_some(key)
}

fn has_target(reading: &Reading<'_>, at: usize) -> bool {
    reading.rest_of_clause(at, 4).any(|next| reading.text(next).contains('/'))
}

/// Returns `true` if the target of a request, whose method stands at a word, is what a run makes itself.
fn is_everyday(reading: &Reading<'_>, at: usize) -> bool {
    let near = at.saturating_sub(TARGET_WORDS_MAX)..reading.words.len().min(at + TARGET_WORDS_MAX);
    let target = near.into_iter().find(|word| reading.text(*word).contains('/'));
    target.is_some_and(|target| {
        let path = reading.text(target).split('?').next().unwrap_or("");
        // The last part that is no identifier names the kind of thing.
        let kind = path.split('/').rev().find(|part| {
            part.len() > 2 && part.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '-' | '_'))
        });
        kind.is_some_and(|kind| is_one_of(kind, EVERYDAY))
    })
}
