//! Judges names whose parts mean something only together, such as `continue-on-error` and `hooksPath`.

use super::kind::Danger;
use super::kind::Danger::{ChecksOff, PackageAddress, RemoteContent, VerificationOff};
use super::reading::{Reading, Word, gap};
use super::words::part::{ANY, CHECK, DIGEST, HOST, OFF, PROOF, VERIFY};
use super::words::{is_one_of, meaning};

/// Value of a setting, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    On,
    Off,
    Zero,
    Automatic,
    Other,
}

/// Folders in which a project keeps its own hooks.
const HOOK_FOLDERS: [&str; 8] =
    [".git", ".husky", "hooks", "./hooks", "scripts", "./.git", "./scripts", "./.husky"];

/// Names of several parts that say that nobody decides, or that a failure stops nothing.
const UNDECIDED: &[&[&str]] = &[
    &["auto", "approve"],
    &["auto", "approval"],
    &["auto", "approvals"],
    &["auto", "confirm"],
    &["auto", "review"],
    &["auto", "sign", "off"],
    &["auto", "signoff"],
    &["approve", "all"],
    &["approve", "everything"],
    &["self", "approve"],
    &["self", "approval"],
    &["self", "review"],
    &["break", "glass"],
    &["warn", "only"],
    &["soft", "fail"],
    &["allow", "fail"],
    &["never", "fail"],
    &["ignore", "failures"],
    &["skip", "signoff"],
    &["skip", "sign", "off"],
    &["bypass", "signoff"],
    &["unattended"],
    &["without", "review"],
    &["without", "approval"],
];

/// Names of several parts that say that more than one person decides.
const DECIDED: &[&[&str]] = &[
    &["dual", "control"],
    &["two", "factor"],
    &["second", "factor"],
    &["multi", "factor"],
    &["four", "eyes"],
    &["two", "person"],
    &["two", "man"],
    &["second", "person"],
    &["maker", "checker"],
    &["require", "signoff"],
    &["require", "sign", "off"],
    &["separation", "of", "duties"],
];

/// Judges names that mean something only together.
pub(super) fn judge_special(reading: &Reading<'_>, at: usize, value: Value, last: usize) -> Option<Danger> {
    let word = &reading.words[at];
    let parts = &word.parts;
    let off_value = matches!(value, Value::Off | Value::Zero);
    let next = reading.text(at + 1);
    if parts.contains(&["trust", "remote", "code"]) {
        return (!off_value).then_some(RemoteContent);
    }
    if parts.contains(&["continue", "on", "error"])
        || parts.contains(&["allow", "failure"])
        || parts.contains(&["allow", "failures"])
    {
        return (value == Value::On).then_some(ChecksOff);
    }
    if let Some(danger) = judge_decision(reading, at, value, last) {
        return Some(danger);
    }
    if word.text.contains("hookspath") || parts.contains(&["hooks", "path"]) {
        return moves_hooks(reading, at).then_some(ChecksOff);
    }
    if parts.is(&["exit", "zero"]) || parts.is(&["yolo"]) && word.is_option() {
        return Some(ChecksOff);
    }
    if parts.is(&["dangerous"]) && word.is_option() {
        return Some(VerificationOff);
    }
    if parts.is(&["trust", "model"]) {
        return (value == Value::On).then_some(VerificationOff);
    }
    if parts.contains(&["fail", "under"]) || parts.is(&["exit", "code"]) && value == Value::Zero {
        return off_value.then_some(ChecksOff);
    }
    if parts.contains(&["content", "trust"]) {
        return (off_value || parts.has(OFF) && value != Value::Off).then_some(VerificationOff);
    }
    // `--when-pipeline-succeeds=false`
    if parts.contains(&["when", "pipeline", "succeeds"]) || parts.contains(&["when", "checks", "pass"]) {
        return off_value.then_some(ChecksOff);
    }
    if let Some(danger) = judge_lenience(reading, at, last) {
        return Some(danger);
    }
    if parts.is(&["trusted"]) && value == Value::On && word.gap & gap::BRACKET != 0 {
        return Some(VerificationOff);
    }
    if next.starts_with("/dev/null") {
        let hosts = parts.contains(&["known", "hosts"]) || word.text.contains("knownhosts");
        return if parts.has(CHECK) { Some(ChecksOff) } else { hosts.then_some(VerificationOff) };
    }
    // `SKIP=eslint git commit`.
    let committed = || {
        (at.saturating_sub(20)..at + 20)
            .any(|near| is_one_of(reading.text(near), "commit push pre-commit hook hooks merge"))
    };
    if parts.is(&["skip"]) && reading.words.get(at + 1).is_some_and(|next| next.gap == gap::ASSIGN) {
        return (value == Value::Other && committed() || meaning(next) & CHECK != 0).then_some(ChecksOff);
    }
    if let Some(danger) = judge_skipped(reading, at) {
        return Some(danger);
    }
    // `trusted_index = http://…` is an address of packages.
    (parts.contains(&["insecure", "registry"]) && reading.words.get(at + 1).is_some_and(Word::is_address))
        .then_some(PackageAddress)
}

/// Returns `true` if the hooks of a repository are looked for in a folder that is not the project's own.
fn moves_hooks(reading: &Reading<'_>, at: usize) -> bool {
    let folder = reading.text(at + 1);
    let moved = folder.len() > 1 && folder.contains(['/', '.']) || is_one_of(folder, "none null empty tmp");
    let own = HOOK_FOLDERS.iter().any(|known| folder.starts_with(known));
    let unset = at > 0 && is_one_of(reading.text(at - 1), "--unset --unset-all --get unset");
    moved && !own && !unset
}

/// Judges what an option skips: `--skip tests`, `--disable=tls-verify`.
fn judge_skipped(reading: &Reading<'_>, at: usize) -> Option<Danger> {
    let word = &reading.words[at];
    let skips = word.is_option()
        && word.parts.list.len() == 1
        && is_one_of(&word.parts.list[0].0, "skip disable bypass");
    let next = reading.words.get(at + 1).filter(|_| skips)?;
    let object = &next.parts;
    let follows = next.gap & (gap::STOP | gap::COMMA | gap::SHELL) == 0;
    let whole = !object.list.is_empty()
        && object.list.iter().all(|(_, meaning)| *meaning & (CHECK | PROOF | VERIFY) != 0);
    let danger = if object.has(PROOF | VERIFY) { VerificationOff } else { ChecksOff };
    (follows && whole).then_some(danger)
}

/// Values of a check that say that it reports and stops nothing.
const LENIENT: &str = "warn warning warn-only soft soft-mandatory log log-only none audit report report-only monitor advisory permissive lenient dryrun";

/// Values of a check that say that it lets everything through.
const TRUSTING: &str = "accept_any accept-any accept_all accept-all trust_all trust-all allow_any allow-any allow_all allow-all accept-new accept_new tofu trust-on-first-use blind";

/// Judges values that let everything through, and `trust --any-publisher`.
fn judge_lenience(reading: &Reading<'_>, at: usize, last: usize) -> Option<Danger> {
    let word = &reading.words[at];
    let parts = &word.parts;
    let before = |distance: usize| at.checked_sub(distance).map_or("", |before| reading.text(before));
    if word.is_option()
        && parts.has(ANY)
        && (before(1) == "trust"
            || is_one_of(before(1), "accept import")
                && is_one_of(
                    before(2),
                    "key keys cert certs certificates fingerprint fingerprints host hosts signer signers",
                ))
    {
        return Some(VerificationOff);
    }
    // A value is bound by a sign, by "to", or stands after an option.
    let next = at + 1;
    let bound = reading.words.get(next).is_some_and(|next| next.gap & (gap::ASSIGN | gap::COLON) != 0);
    let value = match reading.text(next) {
        "to" | "is" | "as" => reading.text(next + 1),
        text if bound || last > at || word.is_option() => text,
        _ => "",
    };
    let proves = parts.has(PROOF | VERIFY | DIGEST | HOST);
    if is_one_of(value, TRUSTING) && (proves || parts.list.iter().any(|(word, _)| word == "trust")) {
        return Some(VerificationOff);
    }
    if !is_one_of(value, LENIENT) {
        return None;
    }
    let nouns = || (at.saturating_sub(3)..at).map(|word| reading.text(word));
    let mode = word.is("--mode --enforcement --action --level mode enforcement");
    let governed = nouns().any(|noun| is_one_of(noun, "verify trust signature policy policies gate gates guard guardrail scan hooks protection security enforcement"));
    match () {
        () if parts.has(PROOF | VERIFY | DIGEST) && parts.list.len() > 1 => Some(VerificationOff),
        () if parts.list.iter().any(|(word, _)| {
            matches!(word.as_str(), "enforcement" | "enforce" | "gate" | "gates" | "policy")
        }) =>
        {
            Some(ChecksOff)
        }
        () if parts.list.iter().any(|(word, _)| word == "audit") && parts.list.len() > 1 => Some(ChecksOff),
        () if mode && nouns().any(|noun| is_one_of(noun, "verify trust signature")) => Some(VerificationOff),
        () if mode && governed => Some(ChecksOff),
        () => None,
    }
}

/// Judges names of decisions that a person takes: `auto_approve`, `approval_mode = auto`, `dual_control = off`.
fn judge_decision(reading: &Reading<'_>, at: usize, value: Value, last: usize) -> Option<Danger> {
    let word = &reading.words[at];
    let parts = &word.parts;
    let off_value = matches!(value, Value::Off | Value::Zero);
    if parts.list.len() > 6
        || parts.list.len() < 2
            && value != Value::Automatic
            && word.text.trim_start_matches('-') != "unattended"
        || word.is_address()
    {
        return None;
    }
    let any_of = |names: &[&[&str]]| names.iter().any(|name| parts.contains(name));
    let edge = gap::TICK | gap::QUOTE | gap::BRACKET | gap::ASSIGN;
    let coded = word.is_option()
        || word.text.contains('_')
        || last > at
        || word.gap & edge != 0
        || reading.words.get(at + 1).is_some_and(|next| next.gap & gap::ASSIGN != 0);
    if word.is_option() && parts.is(&["no", "fail"]) {
        return Some(ChecksOff);
    }
    let other = parts.list.iter().any(|(word, _)| matches!(word.as_str(), "no" | "upgrades"));
    if coded && any_of(UNDECIDED) && !other {
        return (!off_value).then_some(ChecksOff);
    }
    if any_of(DECIDED) {
        return off_value.then_some(ChecksOff);
    }
    let decides = parts.list.iter().any(|(part, _)| {
        is_one_of(part, "approval approvals approver approvers approve review reviewer reviewers confirmation signoff gate gates human")
    });
    (decides && value == Value::Automatic && last > at).then_some(ChecksOff)
}
