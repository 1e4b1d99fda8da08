//! Mending a dead letter: a person makes a version of it that can be handled. The letter as it came is never touched; a
//! version never changes either, the next mend makes the next one.
//!
//! **What stays.** The subject, and with it tenant and workflow, is the letter's; nothing here can change it. The event's
//! identity (source, id) stays too, unless it is what was wrong: under another identity the same run would be counted by
//! an event that nobody sent. A version is of an event, a run's or GitHub's: the program's own messages hold nothing for a
//! person to mend.
//!
//! **What is told.** The difference, redacted, and what the code that reads such an event says of the version. One that
//! would be refused again is kept all the same, since a message may need several hands; the answer says so.

mod diff;
mod http;
mod set;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::json::{Bounds, Document};
use retro_core::steer::{Act, ActError};
use retro_core::time::Clock;
use retro_events::envelope::MESSAGE_BYTES_MAX;
use retro_events::hosts::DatarefHosts;
use retro_events::{Delivery, Role, encoding, github, run_completed};
use retro_store::{Content, DeadLetter, MendStore, StoreError};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::MessageView;
use crate::SharedRedact;

pub use http::router as mend_router;
pub(crate) use http::routes;
pub use set::SetError;

/// How a secret that was cut out is written; a payload with one was copied from what is shown.
const REDACTED: &str = "[redacted:";

/// What people may do with the exact bytes of letters: read them, and make versions of them. All of it is recorded.
#[derive(Clone)]
pub struct Mending {
    pub(super) store: Arc<dyn MendStore>,
    pub(super) clock: Arc<dyn Clock>,
    hosts: DatarefHosts,
    pub(super) redact: SharedRedact,
}

/// What is to be another.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// The whole payload.
    Whole(Vec<u8>),
    /// Values of fields, by their paths, one after the other; everything else stays byte for byte.
    Set(Vec<(String, Value)>),
}

/// A version that was made, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Mended {
    /// The letter.
    #[schema(value_type = String)]
    pub letter: DeadLetterId,
    /// The version's number; missing when it was only tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The version that it was made from; 0 is the letter as it came.
    pub based_on: u32,
    /// SHA-256 of its payload, hex.
    pub payload_sha256: String,
    /// Whether its reader would take it as things stand.
    pub readable: bool,
    /// What would become of it, in one sentence.
    pub would: String,
    /// What is another, as a unified difference of what is shown; redacted.
    pub difference: String,
}

/// Why no version was made. Nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    /// It does not say who or why.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The field cannot be set.
    #[error(transparent)]
    Set(#[from] SetError),
    /// It cannot be, for a reason that stands in the sentence.
    #[error("{0}")]
    Refused(String),
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a version says to whoever reads it.
enum Said {
    Run(run_completed::RunCompleted),
    AtGithub(github::GithubEvent),
}

fn refused<T>(why: impl Into<String>) -> Result<T, MendError> {
    Err(MendError::Refused(why.into()))
}

impl Mending {
    /// A hand over its ports; `hosts` are those at which the counter takes bodies.
    pub fn new(
        store: Arc<dyn MendStore>,
        clock: Arc<dyn Clock>,
        hosts: DatarefHosts,
        redact: SharedRedact,
    ) -> Self {
        Self { store, clock, hosts, redact }
    }

    /// Makes a version of a letter, from version `from` or else the newest; with `dry_run` only tells what it would be.
    /// `None` when the tenant has no such letter.
    #[expect(clippy::too_many_arguments, reason = "who, what, why: each is said by the person who asks")]
    pub async fn mend(
        &self,
        tenant: &Tenant,
        id: DeadLetterId,
        from: Option<u32>,
        edit: &Edit,
        by: &str,
        reason: &str,
        dry_run: bool,
    ) -> Result<Option<Mended>, MendError> {
        let act = Act::new(by, reason, self.clock.now())?;
        let Some(letter) = self.store.dead_letter(tenant, id).await? else { return Ok(None) };
        check_kind(&letter)?;
        let (based_on, before) = self.content(tenant, &letter, from).await?;
        let after = edited(&before, edit)?;
        check(&letter, &before, &after)?;
        let read = self.read(&letter, &after);
        if let Err(rejection) = &read
            && rejection.code == Code::TenantMismatch
        {
            return refused(
                "the version names another tenant than the subject: what is one tenant's stays that tenant's",
            );
        }
        let (readable, would) = self.would(&letter.letter.position.consumer, &read).await?;
        let mut mended = Mended {
            letter: id,
            version: None,
            based_on,
            payload_sha256: sha256_hex(&after.payload),
            readable,
            would,
            difference: self.difference(based_on, &before, &after),
        };
        if !dry_run {
            mended.version = self.store.mend(tenant, id, based_on, &after, &act).await?;
        }
        Ok(Some(mended))
    }

    /// A version of a letter with its number: the one that is named, or the newest.
    pub(super) async fn content(
        &self,
        tenant: &Tenant,
        letter: &DeadLetter,
        version: Option<u32>,
    ) -> Result<(u32, Content), MendError> {
        let newest = match version {
            Some(version) => version,
            None => self.store.versions(tenant, letter.id).await?.last().map_or(0, |row| row.version),
        };
        if newest == 0 {
            let (headers, payload) = (letter.letter.headers.clone(), letter.letter.payload.clone());
            return Ok((0, Content { headers, payload }));
        }
        match self.store.version(tenant, letter.id, newest).await? {
            Some(found) => Ok((newest, found.content)),
            None => refused(format!("the letter has no version {newest}")),
        }
    }

    /// As the broker will deliver it: now, since a replay is stored anew.
    fn delivery(&self, letter: &DeadLetter, content: &Content) -> Delivery {
        Delivery {
            stream: letter.letter.position.stream.clone(),
            subject: letter.letter.subject.clone(),
            sequence: letter.letter.position.sequence,
            headers: content.headers.clone(),
            payload: Bytes::from(content.payload.clone()),
            delivered: 1,
            stored_at: self.clock.now(),
        }
    }

    /// A version in the eyes of whoever gave its letter up.
    fn read(&self, letter: &DeadLetter, content: &Content) -> Result<Said, Rejection> {
        let delivery = self.delivery(letter, content);
        match letter.letter.position.consumer == Role::Counter.as_str() {
            true => run_completed::read(&delivery, &self.hosts).map(Said::Run),
            false => github::read(&delivery).map(Said::AtGithub),
        }
    }

    /// Whether a version would be taken as things stand, and what would become of it, in one sentence; redacted.
    async fn would(
        &self,
        consumer: &str,
        read: &Result<Said, Rejection>,
    ) -> Result<(bool, String), StoreError> {
        let (readable, would) = match read {
            Err(rejection) => (false, format!("it would be refused again: {rejection}")),
            Ok(Said::Run(run)) => self.would_count(run).await?,
            Ok(Said::AtGithub(event)) => {
                let (kind, repo) = (event.data.what.kind(), &event.data.repo);
                (
                    true,
                    format!(
                        "the {consumer} would hear {kind} of {repo}, unless it has heard this event before"
                    ),
                )
            }
        };
        Ok((readable, (self.redact)(&would)))
    }

    async fn would_count(&self, run: &run_completed::RunCompleted) -> Result<(bool, String), StoreError> {
        let (run_id, workflow) = (&run.run.run_id, &run.key.workflow);
        Ok(match self.store.seen(std::slice::from_ref(&run.event)).await?.into_iter().flatten().next() {
            None => (true, format!("it would be taken as run {run_id} of workflow {workflow}")),
            Some(seen) if seen.is(&run.content_hash) => {
                (true, "its event was handled before, with this content: nothing would change".to_owned())
            }
            Some(_) => {
                let code = Code::IdentityConflict;
                let before = "its event was handled before, with other content";
                (false, format!("it would be refused again: {code}: {before}"))
            }
        })
    }

    fn difference(&self, based_on: u32, before: &Content, after: &Content) -> String {
        let shown =
            |content: &Content| MessageView::of(&content.headers, &content.payload, &*self.redact).lines();
        diff::unified(&format!("version {based_on}"), &shown(before), &shown(after))
    }
}

impl Mended {
    /// The version for a terminal: what it is, what would become of it, what is another.
    pub fn text(&self) -> String {
        let from = match self.based_on {
            0 => "the letter as it came".to_owned(),
            version => format!("version {version}"),
        };
        let made = match self.version {
            Some(version) => format!("version {version} of letter {} is made from {from}", self.letter),
            None => format!("no version was made; this is what it would be, from {from}"),
        };
        let would = crate::words::line(&self.would);
        let difference = crate::words::visible(&self.difference);
        format!("{made}\n{would}\nsha256 {}\n\n{difference}", self.payload_sha256)
    }
}

fn check_kind(letter: &DeadLetter) -> Result<(), MendError> {
    let readers = [Role::Counter, Role::Reviewer, Role::Tracker].map(Role::as_str);
    if readers.contains(&letter.letter.position.consumer.as_str()) {
        return Ok(());
    }
    refused(format!(
        "only events can be mended, and this is a message of the program's own ({}): nothing in it is for a person to change",
        letter.letter.subject
    ))
}

/// The message after the edit. What was packed is unpacked, and its header says so no more.
fn edited(before: &Content, edit: &Edit) -> Result<Content, MendError> {
    let packing = |name: &str| name.eq_ignore_ascii_case(encoding::HEADER);
    let packed_by = before.headers.iter().find(|(name, _)| packing(name)).map(|(_, how)| how.as_str());
    let payload = match edit {
        Edit::Whole(payload) => payload.clone(),
        Edit::Set(fields) => {
            let unpacked = encoding::unpack(packed_by, &before.payload.clone().into(), MESSAGE_BYTES_MAX);
            let unpacked = unpacked.map_err(|why| MendError::Refused(why.to_string()))?;
            let text = std::str::from_utf8(&unpacked).map_err(|_| SetError::NotJson)?;
            let mut text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
            for (path, value) in fields {
                text = set::set(&text, path, value)?;
            }
            text.into_bytes()
        }
    };
    let headers = before.headers.iter().filter(|(name, _)| !packing(name)).cloned().collect();
    Ok(Content { headers, payload })
}

fn check(letter: &DeadLetter, before: &Content, after: &Content) -> Result<(), MendError> {
    if after.payload == before.payload {
        return refused("the edit changes nothing");
    }
    if after.payload.len() > MESSAGE_BYTES_MAX {
        let bytes = after.payload.len();
        return refused(format!(
            "the version is {bytes} bytes large; a message has at most {MESSAGE_BYTES_MAX}"
        ));
    }
    let holds = |payload: &[u8]| String::from_utf8_lossy(payload).contains(REDACTED);
    if holds(&after.payload) && !holds(&letter.letter.payload) {
        return refused(format!(
            "the payload holds `{REDACTED}…`, so it was copied from what is shown: begin with the exact bytes \
             (`retro dead-letters show ID --raw`), or set single fields"
        ));
    }
    let Rejection { code, path, .. } = &letter.letter.rejection;
    let was_wrong = *code == Code::IdentityConflict
        || path.as_deref().is_some_and(|path| ["id", "source"].contains(&path));
    match (identity(before), identity(after)) {
        (Some(was), Some(is)) if was != is && !was_wrong => refused(
            "the edit changes the event's source or id, and these were not what was wrong: under another identity the run \
             would be counted by an event that nobody sent",
        ),
        _ => Ok(()),
    }
}

/// Source and id of an event, as far as they can be read from one that is broken elsewhere.
fn identity(content: &Content) -> Option<(String, String)> {
    let packed_by = content.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(encoding::HEADER));
    let packed = Bytes::copy_from_slice(&content.payload);
    let payload = encoding::unpack(packed_by.map(|(_, how)| how.as_str()), &packed, MESSAGE_BYTES_MAX).ok();
    let json = payload.and_then(|payload| Document::parse(&payload, Bounds::bytes(MESSAGE_BYTES_MAX)).ok());
    let header = |name: &str| {
        let mut headers = content.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let field = |name: &str| json.as_ref()?.root().get(name)?.as_str().map(Cow::into_owned);
    let attribute = |name: &str| header(&format!("ce-{name}")).or_else(|| field(name));
    Some((attribute("source")?, attribute("id")?))
}
