//! Subjects: how they are built, and who owns a message according to its subject.
//!
//! The last two tokens of each are tenant and workflow. Characters outside `[A-Za-z0-9_-]` are percent-encoded with
//! `=` for `%` (upper-case hex, UTF-8). There is one way to write a name: a token that encodes more than it must is
//! refused, since the broker's permissions compare tokens and two spellings of a tenant would get around them.

use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_core::run::ObjectRef;

/// Where engines publish finished runs, before tenant and workflow.
pub const RUN_COMPLETED: &str = "retro.run.completed";
/// Where the bridge says what happened at GitHub, before tenant and event.
pub const GITHUB: &str = "retro.github";
/// Where changes of memories are announced, before tenant and workflow.
pub const MEMORY_CHANGED: &str = "retro.memory.changed";
/// Where dead letters are announced, before tenant and workflow.
pub const DEAD_LETTER_STORED: &str = "retro.dead_letter.stored";
/// Where reports are announced, before tenant and workflow.
pub const REPORT_READY: &str = "retro.report.ready";
/// Where our stages wake the sampler, before tenant and workflow. Internal.
pub const RETROSPECTIVE_DUE: &str = "retro.work.retrospective.due";
/// Where our stages wake an investigator, before tenant and workflow. Internal.
pub const INVESTIGATION_DUE: &str = "retro.work.investigation.due";
/// Where our stages wake the writer, before tenant and workflow. Internal.
pub const MUTATIONS_DUE: &str = "retro.work.mutations.due";

/// The prefixes below which only our own messages appear, out of the outbox.
pub const OURS: [&str; 6] =
    [RETROSPECTIVE_DUE, INVESTIGATION_DUE, MUTATIONS_DUE, MEMORY_CHANGED, REPORT_READY, DEAD_LETTER_STORED];

/// The subject of a finished run.
pub fn run_completed(key: &WorkflowKey) -> String {
    about(RUN_COMPLETED, &key.tenant, &key.workflow)
}

/// The subject of an event of GitHub's, by GitHub's own name of it.
pub fn github(tenant: &Tenant, event: &str) -> String {
    format!("{GITHUB}.{}.{}", encode(tenant.as_str()), encode(event))
}

/// The subject of a message of ours.
pub fn of_message(message: &Message) -> String {
    about(prefix_of(&message.notice), &message.tenant, &message.workflow)
}

/// The pattern that takes every subject below a prefix, well formed or not: what is malformed has to arrive to
/// become a dead letter.
pub fn all_below(prefix: &str) -> String {
    format!("{prefix}.>")
}

/// The tenant and workflow of a finished run's subject; refused as [`Code::SubjectInvalid`] otherwise.
pub fn parse_run_completed(subject: &str) -> Result<WorkflowKey, Rejection> {
    let tokens = below(RUN_COMPLETED, subject).ok_or_else(|| {
        let detail = format!("{subject:?} does not begin with {RUN_COMPLETED}");
        Rejection::at(Code::SubjectInvalid, "subject", detail)
    })?;
    let [tenant, workflow] = tokens[..] else {
        let detail = format!(
            "{subject:?} has {} tokens after {RUN_COMPLETED}; tenant and workflow are wanted",
            tokens.len()
        );
        return Err(Rejection::at(Code::SubjectInvalid, "subject", detail));
    };
    let tenant = name(tenant, "subject.tenant", |text| Tenant::new(text).map_err(|e| e.to_string()))?;
    let workflow = name(workflow, "subject.workflow", |text| Workflow::new(text).map_err(|e| e.to_string()))?;
    Ok(WorkflowKey { tenant, workflow })
}

/// The tenant and event of a subject of GitHub's; refused as [`Code::SubjectInvalid`] otherwise.
pub fn parse_github(subject: &str) -> Result<(Tenant, String), Rejection> {
    let invalid = |detail: String| Rejection::at(Code::SubjectInvalid, "subject", detail);
    let tokens =
        below(GITHUB, subject).ok_or_else(|| invalid(format!("{subject:?} does not begin with {GITHUB}")))?;
    let [tenant, event] = tokens[..] else {
        let found = tokens.len();
        return Err(invalid(format!(
            "{subject:?} has {found} tokens after {GITHUB}; tenant and event are wanted"
        )));
    };
    let tenant = name(tenant, "subject.tenant", |text| Tenant::new(text).map_err(|e| e.to_string()))?;
    Ok((tenant, name(event, "subject.event", Ok)?))
}

/// Whose message it is, as far as its subject can be read: what a dead letter is filed under.
pub fn owner(subject: &str) -> (Option<Tenant>, Option<Workflow>) {
    if let Some([tenant, ..]) = below(GITHUB, subject).as_deref() {
        return (decode(tenant).ok().and_then(|text| Tenant::new(text).ok()), None);
    }
    let known = [RUN_COMPLETED].into_iter().chain(OURS);
    let Some(tokens) = known.into_iter().find_map(|prefix| below(prefix, subject)) else {
        return (None, None);
    };
    let tenant = tokens.first().and_then(|token| decode(token).ok()).and_then(|text| Tenant::new(text).ok());
    let workflow = match tokens[..] {
        [_, workflow] => decode(workflow).ok().and_then(|text| Workflow::new(text).ok()),
        _ => None,
    };
    (tenant, workflow)
}

/// The name of a body in the object store: the tenant's own prefix and the hash of its bytes (lower-case hex).
pub fn body_name(tenant: &Tenant, sha256: &str) -> String {
    format!("{}/{sha256}", encode(tenant.as_str()))
}

/// The tenant whose body this is; `None` when the name is not [`body_name`] of a tenant and the object's own hash.
/// Whoever takes a reference from outside compares this with the subject's tenant.
pub fn owner_of_body(object: &ObjectRef) -> Option<Tenant> {
    let (token, sha256) = object.name.split_once('/')?;
    if !is_sha256(sha256) || sha256 != object.sha256 {
        return None;
    }
    Tenant::new(decode(token).ok()?).ok()
}

/// Whether a text is a SHA-256 as we write it: lower-case hex.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Encodes a name as one token of a subject.
pub fn encode(name: &str) -> String {
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

/// Decodes one token of a subject; fails with what is wrong with it unless [`encode`] could have written it.
pub fn decode(token: &str) -> Result<String, String> {
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
    let canonical = encode(&name);
    if canonical != token {
        return Err(format!("the token {token:?} has to be written {canonical:?}"));
    }
    Ok(name)
}

fn about(prefix: &str, tenant: &Tenant, workflow: &Workflow) -> String {
    format!("{prefix}.{}.{}", encode(tenant.as_str()), encode(workflow.as_str()))
}

/// The subject of a message of ours, without tenant and workflow.
pub const fn prefix_of(notice: &Notice) -> &'static str {
    match notice {
        Notice::RetrospectiveDue { .. } => RETROSPECTIVE_DUE,
        Notice::InvestigationDue { .. } => INVESTIGATION_DUE,
        Notice::MutationsDue { .. } | Notice::RulesDue { .. } | Notice::OutcomesDue { .. } => MUTATIONS_DUE,
        Notice::MemoryChanged { .. } => MEMORY_CHANGED,
        Notice::DeadLettered { .. } => DEAD_LETTER_STORED,
        Notice::ReportReady { .. } => REPORT_READY,
    }
}

fn below<'a>(prefix: &str, subject: &'a str) -> Option<Vec<&'a str>> {
    Some(subject.strip_prefix(prefix)?.strip_prefix('.')?.split('.').collect())
}

fn name<T>(token: &str, path: &str, make: impl Fn(String) -> Result<T, String>) -> Result<T, Rejection> {
    decode(token).and_then(make).map_err(|problem| Rejection::at(Code::SubjectInvalid, path, problem))
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
        let subject = run_completed(&key("acme", "größe.fix ci/*"));
        assert_eq!(subject, "retro.run.completed.acme.gr=C3=B6=C3=9Fe=2Efix=20ci=2F=2A");
        assert_eq!(parse_run_completed(&subject).unwrap(), key("acme", "größe.fix ci/*"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_wrong() {
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
            assert_eq!(rejection.code, Code::SubjectInvalid, "{subject}");
            assert_eq!(rejection.path.as_deref(), Some(path), "{subject}");
            assert!(rejection.detail.contains(problem), "{subject}: {}", rejection.detail);
        }
    }

    #[test]
    fn the_owner_is_read_as_far_as_it_goes() {
        let names = |subject: &str| {
            let (tenant, workflow) = owner(subject);
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
        let id = RetrospectiveId::automatic(&key("acme", "ci"), 1 as Epoch);
        for notice in [
            Notice::RetrospectiveDue { retrospective: id },
            Notice::InvestigationDue { retrospective: id, investigation: 1 },
            Notice::MutationsDue { retrospective: id },
            Notice::ReportReady { retrospective: id, epoch: 1 },
        ] {
            let kind = notice.kind();
            let subject = of_message(&notice.about(&key("acme", "ci")));
            assert!(subject.ends_with(&format!(".{kind}.acme.ci")), "{subject}");
        }
    }

    #[test]
    fn a_body_belongs_to_the_tenant_of_its_prefix_and_to_nobody_when_its_name_lies() {
        let sha256 = retro_core::canonical::sha256_hex(b"body");
        let tenant = Tenant::new("a/b c").unwrap();
        let object = |name: &str| ObjectRef { name: name.to_owned(), sha256: sha256.clone(), bytes: 4 };
        assert_eq!(owner_of_body(&object(&body_name(&tenant, &sha256))), Some(tenant));
        let other = "0".repeat(64);
        let lies = [format!("acme/{other}"), format!("../acme/{sha256}"), format!("=61/{sha256}")];
        for name in ["", "acme", "acme/", &sha256].into_iter().chain(lies.iter().map(String::as_str)) {
            assert_eq!(owner_of_body(&object(name)), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives_the_way_into_a_subject_and_back(name in "\\PC{1,60}") {
            let token = encode(&name);
            prop_assert!(token.bytes().all(|byte| is_plain(byte) || byte == b'='));
            prop_assert_eq!(decode(&token), Ok(name));
        }

        #[test]
        fn no_two_tokens_mean_the_same_name(token in "[A-Fa-f0-9=_.%-]{0,12}") {
            if let Ok(name) = decode(&token) {
                prop_assert_eq!(encode(&name), token);
            }
        }
    }
}
