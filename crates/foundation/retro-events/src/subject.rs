//! Builds the subjects of messages, and parses the owner of a message from its subject.
//!
//! The last two tokens are tenant and workflow, or tenant and event in the subject of a GitHub event.
//! Characters outside `[A-Za-z0-9_-]` are percent-encoded with `=` for `%` (upper-case hex, UTF-8). Each name
//! has exactly one encoding: a token that encodes more than necessary is rejected, because the broker's
//! permissions compare tokens, and a second spelling of a tenant would bypass them.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_core::run::ObjectRef;

/// Subject prefix of finished runs, published by engines; tenant and workflow follow.
pub const RUN_COMPLETED: &str = "retro.run.completed";
/// Subject prefix of GitHub events, published by the bridge; tenant and event follow.
pub const GITHUB: &str = "retro.github";
/// Subject prefix of announced memory changes; tenant and workflow follow.
pub const MEMORY_CHANGED: &str = "retro.memory.changed";
/// Subject prefix of announced dead letters; tenant and workflow follow.
pub const DEAD_LETTER_STORED: &str = "retro.dead_letter.stored";
/// Subject prefix of announced reports; tenant and workflow follow.
pub const REPORT_READY: &str = "retro.report.ready";
/// Subject prefix of internal wake-ups for the sampler; tenant and workflow follow.
pub const RETROSPECTIVE_DUE: &str = "retro.work.retrospective.due";
/// Subject prefix of internal wake-ups for investigators; tenant and workflow follow.
pub const INVESTIGATION_DUE: &str = "retro.work.investigation.due";
/// Subject prefix of internal wake-ups for the writer; tenant and workflow follow.
pub const MUTATIONS_DUE: &str = "retro.work.mutations.due";

/// Subject on which a process says that it has written messages to the outbox. No stream stores it: it only wakes the
/// relay, which otherwise polls.
pub const OUTBOX_WRITTEN: &str = "retro.outbox.written";

/// Subject prefixes that only internal messages from the outbox use.
pub const OUTBOX_PREFIXES: [&str; 6] =
    [RETROSPECTIVE_DUE, INVESTIGATION_DUE, MUTATIONS_DUE, MEMORY_CHANGED, REPORT_READY, DEAD_LETTER_STORED];

/// Returns the subject of a finished run.
pub fn run_completed_subject(key: &WorkflowKey) -> String {
    workflow_subject(RUN_COMPLETED, &key.tenant, &key.workflow)
}

/// Returns the subject of a GitHub event, built from GitHub's name of the event.
pub fn github_subject(tenant: &Tenant, event: &str) -> String {
    format!("{GITHUB}.{}.{}", encode_token(tenant.as_str()), encode_token(event))
}

/// Returns the subject of an internal message.
pub fn message_subject(message: &Message) -> String {
    workflow_subject(notice_prefix(&message.notice), &message.tenant, &message.workflow)
}

/// Returns the pattern that matches every subject below a prefix, well formed or not. A message with a malformed
/// subject has to be received before it can become a dead letter.
pub fn all_below(prefix: &str) -> String {
    format!("{prefix}.>")
}

/// Parses tenant and workflow from the subject of a finished run. Fails with [`DeadLetterCode::SubjectInvalid`].
pub fn parse_run_completed(subject: &str) -> Result<WorkflowKey, Rejection> {
    let tokens = tokens_below(RUN_COMPLETED, subject).ok_or_else(|| {
        let detail = format!("{subject:?} does not begin with {RUN_COMPLETED}");
        Rejection::of_field(DeadLetterCode::SubjectInvalid, "subject", detail)
    })?;
    let [tenant, workflow] = tokens[..] else {
        let detail = format!(
            "{subject:?} has {} tokens after {RUN_COMPLETED}; tenant and workflow are wanted",
            tokens.len()
        );
        return Err(Rejection::of_field(DeadLetterCode::SubjectInvalid, "subject", detail));
    };
    let tenant = parse_token(tenant, "subject.tenant", |text| Tenant::new(text).map_err(|e| e.to_string()))?;
    let workflow =
        parse_token(workflow, "subject.workflow", |text| Workflow::new(text).map_err(|e| e.to_string()))?;
    Ok(WorkflowKey { tenant, workflow })
}

/// Parses tenant and event from the subject of a GitHub event. Fails with [`DeadLetterCode::SubjectInvalid`].
pub fn parse_github(subject: &str) -> Result<(Tenant, String), Rejection> {
    let invalid = |detail: String| Rejection::of_field(DeadLetterCode::SubjectInvalid, "subject", detail);
    let tokens = tokens_below(GITHUB, subject)
        .ok_or_else(|| invalid(format!("{subject:?} does not begin with {GITHUB}")))?;
    let [tenant, event] = tokens[..] else {
        let found = tokens.len();
        return Err(invalid(format!(
            "{subject:?} has {found} tokens after {GITHUB}; tenant and event are wanted"
        )));
    };
    let tenant = parse_token(tenant, "subject.tenant", |text| Tenant::new(text).map_err(|e| e.to_string()))?;
    Ok((tenant, parse_token(event, "subject.event", Ok)?))
}

/// Parses the owner of a message from its subject, as far as possible. A dead letter is listed under this
/// owner.
pub fn parse_owner(subject: &str) -> (Option<Tenant>, Option<Workflow>) {
    // The second token of a GitHub event is the kind of event, not a workflow.
    if let Some([tenant, ..]) = tokens_below(GITHUB, subject).as_deref() {
        return (decode_token(tenant).ok().and_then(|text| Tenant::new(text).ok()), None);
    }
    let known = [RUN_COMPLETED].into_iter().chain(OUTBOX_PREFIXES);
    let Some(tokens) = known.into_iter().find_map(|prefix| tokens_below(prefix, subject)) else {
        return (None, None);
    };
    let tenant =
        tokens.first().and_then(|token| decode_token(token).ok()).and_then(|text| Tenant::new(text).ok());
    let workflow = match tokens[..] {
        [_, workflow] => decode_token(workflow).ok().and_then(|text| Workflow::new(text).ok()),
        _ => None,
    };
    (tenant, workflow)
}

/// Returns the name of a body in the object store: the tenant's prefix and the SHA-256 of the body's bytes in
/// lower-case hex.
pub fn body_name(tenant: &Tenant, sha256: &str) -> String {
    format!("{}/{sha256}", encode_token(tenant.as_str()))
}

/// Returns the tenant that owns a body; `None` unless the name is a [`body_name`] with the object's own hash.
/// Code that accepts a reference from outside must compare the result with the subject's tenant.
pub fn body_owner(object: &ObjectRef) -> Option<Tenant> {
    let (token, sha256) = object.name.split_once('/')?;
    if !is_sha256(sha256) || sha256 != object.sha256 {
        return None;
    }
    Tenant::new(decode_token(token).ok()?).ok()
}

/// Returns `true` if the text is a SHA-256 in lower-case hex.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Encodes a name as one token of a subject.
pub fn encode_token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for byte in name.bytes() {
        if is_plain(byte) {
            token.push(char::from(byte));
        } else {
            token.push('=');
            token.push(hex_digit(byte >> 4));
            token.push(hex_digit(byte & 0xF));
        }
    }
    token
}

/// Decodes one token of a subject. Fails with the problem if [`encode_token`] could not have written the
/// token.
pub fn decode_token(token: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'=' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = after else {
            return Err(format!("the token {token:?} ends within an escape"));
        };
        let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low)) else {
            return Err(format!(
                "the token {token:?} holds an escape that is not = and two upper-case hex digits"
            ));
        };
        bytes.push(high << 4 | low);
        rest = after;
    }
    let name =
        String::from_utf8(bytes).map_err(|_| format!("the token {token:?} does not decode to UTF-8"))?;
    let canonical = encode_token(&name);
    // The broker's permissions compare tokens, so a second spelling of a tenant would bypass them.
    if canonical != token {
        return Err(format!("the token {token:?} has to be written {canonical:?}"));
    }
    Ok(name)
}

fn workflow_subject(prefix: &str, tenant: &Tenant, workflow: &Workflow) -> String {
    format!("{prefix}.{}.{}", encode_token(tenant.as_str()), encode_token(workflow.as_str()))
}

/// Returns the subject prefix of an internal message, without tenant and workflow.
pub const fn notice_prefix(notice: &Notice) -> &'static str {
    match notice {
        Notice::RetrospectiveDue { .. } => RETROSPECTIVE_DUE,
        Notice::InvestigationDue { .. } => INVESTIGATION_DUE,
        Notice::MutationsDue { .. } | Notice::RulesDue { .. } | Notice::OutcomesDue { .. } => MUTATIONS_DUE,
        Notice::MemoryChanged { .. } => MEMORY_CHANGED,
        Notice::DeadLettered { .. } => DEAD_LETTER_STORED,
        Notice::ReportReady { .. } => REPORT_READY,
    }
}

fn tokens_below<'a>(prefix: &str, subject: &'a str) -> Option<Vec<&'a str>> {
    Some(subject.strip_prefix(prefix)?.strip_prefix('.')?.split('.').collect())
}

fn parse_token<T>(
    token: &str,
    path: &str,
    make: impl Fn(String) -> Result<T, String>,
) -> Result<T, Rejection> {
    decode_token(token)
        .and_then(make)
        .map_err(|problem| Rejection::of_field(DeadLetterCode::SubjectInvalid, path, problem))
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).expect("a nibble is below 16").to_ascii_uppercase()
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use retro_core::id::{Epoch, RetrospectiveId};

    use super::*;

    fn key(tenant: &str, workflow: &str) -> WorkflowKey {
        WorkflowKey { tenant: Tenant::new(tenant).unwrap(), workflow: Workflow::new(workflow).unwrap() }
    }

    #[test]
    fn a_subject_is_written_as_the_contract_says() {
        let subject = run_completed_subject(&key("acme", "größe.fix ci/*"));
        assert_eq!(subject, "retro.run.completed.acme.gr=C3=B6=C3=9Fe=2Efix=20ci=2F=2A");
        assert_eq!(parse_run_completed(&subject).unwrap(), key("acme", "größe.fix ci/*"));
    }

    #[test]
    fn an_invalid_subject_is_rejected_with_the_problem() {
        for (subject, path, problem) in [
            ("retro.run.started.a.b", "subject", "does not begin with"),
            ("retro.run.completed", "subject", "does not begin with"),
            ("retro.run.completed.a", "subject", "1 tokens"),
            ("retro.run.completed.a.b.c", "subject", "3 tokens"),
            ("retro.run.completed..b", "subject.tenant", "is empty"),
            ("retro.run.completed.a.b=2", "subject.workflow", "ends within an escape"),
            ("retro.run.completed.a.b=2f", "subject.workflow", "upper-case hex"),
            ("retro.run.completed.a.=FF", "subject.workflow", "UTF-8"),
            ("retro.run.completed.=61.b", "subject.tenant", "has to be written \"a\""),
            ("retro.run.completed.a.b%20c", "subject.workflow", "has to be written"),
            ("retro.run.completed.a.=0A", "subject.workflow", "control character"),
        ] {
            let rejection = parse_run_completed(subject).unwrap_err();
            assert_eq!(rejection.code, DeadLetterCode::SubjectInvalid, "{subject}");
            assert_eq!(rejection.path.as_deref(), Some(path), "{subject}");
            assert!(rejection.detail.contains(problem), "{subject}: {}", rejection.detail);
        }
    }

    #[test]
    fn the_owner_is_read_as_far_as_it_goes() {
        let names = |subject: &str| {
            let (tenant, workflow) = parse_owner(subject);
            (tenant.map(String::from), workflow.map(String::from))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(names("retro.run.completed.acme.fix=20ci"), (some("acme"), some("fix ci")));
        assert_eq!(names("retro.work.mutations.due.acme.ci"), (some("acme"), some("ci")));
        assert_eq!(names("retro.run.completed.acme.=ZZ"), (some("acme"), None));
        assert_eq!(names("retro.run.completed.acme.a.b"), (some("acme"), None));
        assert_eq!(names("retro.run.completed.=ZZ.ci"), (None, some("ci")));
        assert_eq!(names("retro.github.acme.push"), (some("acme"), None));
        assert_eq!(names("somebody.else"), (None, None));
    }

    #[test]
    fn every_notice_has_a_subject_that_ends_in_its_kind_and_owner() {
        let id = RetrospectiveId::of_epoch(&key("acme", "ci"), 1 as Epoch);
        for notice in [
            Notice::RetrospectiveDue { retrospective: id },
            Notice::InvestigationDue { retrospective: id, investigation: 1 },
            Notice::MutationsDue { retrospective: id },
            Notice::ReportReady { retrospective: id, epoch: 1 },
        ] {
            let kind = notice.kind();
            let subject = message_subject(&notice.into_message(&key("acme", "ci")));
            assert!(subject.ends_with(&format!(".{kind}.acme.ci")), "{subject}");
        }
    }

    #[test]
    fn a_body_belongs_to_the_tenant_of_its_prefix_if_its_name_is_valid() {
        let sha256 = retro_core::canonical::sha256_hex(b"body");
        let tenant = Tenant::new("a/b c").unwrap();
        let object = |name: &str| ObjectRef { name: name.to_owned(), sha256: sha256.clone(), bytes: 4 };
        assert_eq!(body_owner(&object(&body_name(&tenant, &sha256))), Some(tenant));
        let other = "0".repeat(64);
        let lies = [format!("acme/{other}"), format!("../acme/{sha256}"), format!("=61/{sha256}")];
        for name in ["", "acme", "acme/", &sha256].into_iter().chain(lies.iter().map(String::as_str)) {
            assert_eq!(body_owner(&object(name)), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives_the_way_into_a_subject_and_back(name in "\\PC{1,60}") {
            let token = encode_token(&name);
            prop_assert!(token.bytes().all(|byte| is_plain(byte) || byte == b'='));
            prop_assert_eq!(decode_token(&token), Ok(name));
        }

        #[test]
        fn no_two_tokens_mean_the_same_name(token in "[A-Fa-f0-9=_.%-]{0,12}") {
            if let Ok(name) = decode_token(&token) {
                prop_assert_eq!(encode_token(&name), token);
            }
        }
    }
}
