//! Finds commands that name a thing and what is done to it, as tools with subcommands do: `tern hooks mute`,
//! `kestrel config signing off`, `mortar tenant rm acme`.

use super::kind::Danger::{ChecksOff, ForeignDelete, SecretKept, VerificationOff};
use super::kind::Found;
use super::polarity::Form::Machine;
use super::reading::{Reading, gap};
use super::words::is_one_of;

/// Checks as subcommands and settings.
const CHECKS: &str = "hook hooks pre-commit precommit checks tests gate gates protection protections branch-protection lint linter linting ci scan scans scanner scanning coverage approval approvals reviews guard guards guardrail guardrails sandbox mfa 2fa policy policies preflight signoff sign-off validation confirmation confirmations kyc captcha firewall moderation smoke canary typecheck workflow safeguards";

/// What is verified, as subcommands and settings.
const PROOFS: &str = "signing signature signatures verification verify tls ssl gpg gpgsign attestation attestations provenance integrity checksums cert-check fingerprint hostkey sumdb notary encryption";

const OFF: &str = "off disable disabled mute suspend pause silence bypass uninstall unset deactivate waive skip snooze relax";

/// Verbs that are also done to what a check finds or makes.
const GONE: &str = "remove delete rm drop clear none detach";
const GUARDS: &str = "hook hooks pre-commit gate gates protection protections branch-protection approval approvals guard guards guardrail guardrails mfa 2fa policy policies firewall";

/// What several runs share, as subcommands.
const SHARED: &str = "tenant tenants volume volumes vol bucket buckets database databases db cluster clusters namespace namespaces project projects env envs environment environments account accounts org orgs snapshot snapshots backup backups history stack stacks topic topics queue queues index indices table tables user users team teams repo repos repository server servers instance instances vm vms node nodes site sites domain domains zone zones record records collection collections dataset datasets keyspace schema schemas registry storage disk disks pool pools archive archives workspace workspaces customer customers order orders vault realm shard shards replica replicas partition partitions store data pvc fleet catalog subscription subscriptions app apps service services deployment deployments";
const DELETES: &str = "rm remove delete del destroy erase purge wipe drop nuke terminate obliterate shred deprovision decommission empty flush truncate";

/// Beginnings of names that a run gives to what it makes for itself.
const OWN_NAMES: [&str; 12] = [
    "test",
    "tmp",
    "temp",
    "scratch",
    "e2e",
    "ci-",
    "sandbox",
    "dummy",
    "demo",
    "ephemeral",
    "preview",
    "local",
];

/// Finds pairs of a noun and a verb, or of a verb and a noun, after the name of a tool.
pub(super) fn find_pairs(reading: &Reading<'_>, found: &mut Vec<Found>) {
    for at in 1..reading.words.len().saturating_sub(1) {
        let adjacent = |word: usize| reading.words.get(word).is_some_and(|word| word.gap == gap::SPACE);
        if !adjacent(at) || !adjacent(at + 1) || !is_tool(reading, at - 1) {
            continue;
        }
        let (first, second) = (reading.text(at), reading.text(at + 1));
        let danger = if is_one_of(second, OFF) && ends_command(reading, at + 1) {
            match () {
                () if is_one_of(first, CHECKS) => Some(ChecksOff),
                () if is_one_of(first, PROOFS) => Some(VerificationOff),
                () => None,
            }
        } else if is_one_of(second, GONE) && is_one_of(first, GUARDS) {
            Some(ChecksOff)
        } else if is_one_of(second, DELETES) && is_one_of(first, SHARED)
            || is_one_of(first, "rm remove del")
                && is_one_of(second, SHARED)
                && !ends_command(reading, at + 1)
        {
            (!is_own(reading, at + 2)).then_some(ForeignDelete)
        } else if is_one_of(first, "disable mute uninstall suspend") && is_one_of(second, CHECKS) {
            Some(ChecksOff)
        } else if is_one_of(first, "purge wipe destroy nuke erase")
            && is_one_of(second, "--all --everything --all-data")
            && reading.text(at - 1) != "cache"
        {
            Some(ForeignDelete)
        } else if prints_secret(first, second) {
            (!is_consumed(reading, at)).then_some(SecretKept)
        } else {
            None
        };
        if let Some(danger) = danger
            && reading.asks_for(at, at + 1, Machine)
        {
            found.push(Found { danger, first: at - 1, last: at + 1 });
        }
    }
}

/// Secrets as subcommands, and what prints them.
const SECRETS: &str = "secret secrets cred creds credential credentials token tokens keyring password passwords passphrase secretsmanager";
const PRINTS: &str = "print dump reveal expose echo leak publish export decrypt cat unmask";

fn prints_secret(first: &str, second: &str) -> bool {
    is_one_of(first, SECRETS) && is_one_of(second, PRINTS)
        || is_one_of(first, "print dump reveal export decrypt expose") && is_one_of(second, SECRETS)
}

/// Returns `true` if a command reads the output: it stands within `$(…)`, or is piped on.
fn is_consumed(reading: &Reading<'_>, at: usize) -> bool {
    let begin = (at.saturating_sub(6)..=at)
        .rev()
        .find(|word| reading.words[*word].gap & (gap::STOP | gap::SHELL | gap::BRACKET | gap::TICK) != 0);
    let substituted = begin.is_some_and(|begin| {
        let start = begin.checked_sub(1).map_or(0, |before| reading.words[before].end);
        reading.plain[start..reading.words[begin].start].contains('(')
    });
    let end = (at + 1..reading.words.len().min(at + 16))
        .find(|word| reading.words[*word].gap & (gap::STOP | gap::SHELL) != 0);
    let piped = end.is_some_and(|end| {
        let pipe =
            reading.plain[reading.words[end - 1].end..reading.words[end].start].matches('|').count() == 1;
        pipe && !is_one_of(reading.text(end), "tee cat less more head tail base64 jq grep")
    });
    substituted || piped
}

/// Returns `true` if a word may be the name of a tool or its subcommand, and not a part of a sentence.
fn is_tool(reading: &Reading<'_>, at: usize) -> bool {
    let text = reading.text(at);
    !(is_one_of(
        text,
        "the a an any all no your our their its this that these those every each some to of in for with and or when if then please not never do does did can will may must should without failed old new same git first npm before after",
    ) || reading.words[at].gap & (gap::STOP | gap::COMMA) != 0 && at > 0 && text.len() < 3)
}

/// Returns `true` if a command ends after a word, or goes on with an option.
fn ends_command(reading: &Reading<'_>, at: usize) -> bool {
    let ends = gap::ENDS | gap::TICK | gap::QUOTE | gap::BRACKET;
    reading.words.get(at + 1).is_none_or(|next| next.gap & ends != 0 || next.is_option())
}

/// Returns `true` if the target of a deletion, which begins at a word, has a name of the run's own.
fn is_own(reading: &Reading<'_>, at: usize) -> bool {
    let mut rest = (at..reading.words.len().min(at + 4))
        .take_while(|next| reading.words[*next].gap & gap::ENDS == 0)
        .filter(|next| !reading.words[*next].is_option());
    rest.next().is_some_and(|target| {
        OWN_NAMES.iter().any(|own| reading.text(target).starts_with(own))
            || is_one_of(reading.text(target), "files file entry key item $tmp")
    })
}
