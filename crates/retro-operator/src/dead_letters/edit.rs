//! Edits dead letters to create versions that consumers can handle. The original and earlier versions never
//! change; each edit creates the next version.
//!
//! **Fixed parts.** The subject cannot be edited, and neither can the tenant and workflow in it. The event's
//! identity (source and id) cannot be edited either, unless it caused the rejection: under another identity,
//! the run would be counted for an event that nobody sent. Only events of a run or from GitHub can be edited,
//! because the program's own messages contain nothing for an operator to correct.
//!
//! **Result.** An edit returns the redacted diff and a prediction, which says whether the consumer's parser
//! accepts the new version. A version that would be rejected again is stored anyway, because a message may
//! need several edits.

mod diff;
mod http;
mod set_field;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use retro_core::cancel::{Attribution, AttributionError};
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::json::{JsonBounds, JsonDocument};
use retro_core::time::Clock;
use retro_events::envelope::MESSAGE_BYTES_MAX;
use retro_events::hosts::DatarefHosts;
use retro_events::{Delivery, Role, encoding, github, run_completed};
use retro_store::{DeadLetter, DeadLetterEditStore, MessageContent, StoreError};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::MessageView;
use crate::SharedRedactFn;

pub use http::router as edit_router;
pub(crate) use http::routes;
pub use set_field::SetFieldError;

/// Prefix of the placeholder for a redacted secret. A payload that contains it was copied from redacted output.
const REDACTION_PREFIX: &str = "[redacted:";

/// Edits and exports dead letters, and reads their exact bytes. Every stored version and every access to
/// exact bytes is recorded in the audit log.
#[derive(Clone)]
pub struct EditService {
    pub(super) store: Arc<dyn DeadLetterEditStore>,
    pub(super) clock: Arc<dyn Clock>,
    hosts: DatarefHosts,
    pub(super) redact: SharedRedactFn,
}

/// A change to a dead letter's payload, as requested by an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Replaces the whole payload.
    ReplacePayload(Vec<u8>),
    /// Sets the fields at these paths, in order. Every other byte is kept.
    SetFields(Vec<(String, Value)>),
}

/// A version that an edit created, or that a dry run would create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EditedVersion {
    /// Id of the dead letter that was edited.
    #[schema(value_type = String)]
    pub dead_letter: DeadLetterId,
    /// Number of the new version; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Number of the version that was edited; 0 is the original.
    pub based_on: u32,
    /// SHA-256 of the new payload, in hex.
    pub payload_sha256: String,
    /// `true` if the consumer would accept this version now.
    pub valid: bool,
    /// Predicted result of a replay, in one sentence.
    pub prediction: String,
    /// Redacted unified diff of the rendered messages.
    pub diff: String,
}

/// Failure to edit a dead letter or to read one of its versions. No version is stored.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The actor or the reason is missing or too long.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
    /// A field cannot be set, for example because its path is invalid.
    #[error(transparent)]
    Set(#[from] SetFieldError),
    /// The request is refused, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An event as parsed by its consumer.
enum ParsedEvent {
    Run(run_completed::RunCompleted),
    Github(github::GithubEvent),
}

fn refuse_edit<T>(why: impl Into<String>) -> Result<T, EditError> {
    Err(EditError::Refused(why.into()))
}

impl EditService {
    /// Creates the service. `hosts` are the hosts from which the counter accepts trajectory bodies.
    pub fn new(
        store: Arc<dyn DeadLetterEditStore>,
        clock: Arc<dyn Clock>,
        hosts: DatarefHosts,
        redact: SharedRedactFn,
    ) -> Self {
        Self { store, clock, hosts, redact }
    }

    /// Creates a version of a dead letter from version `from`, or from the newest version if `from` is
    /// `None`. With `dry_run`, nothing is stored. Returns `None` if the tenant has no such dead letter.
    #[expect(
        clippy::too_many_arguments,
        reason = "each argument comes from the request; a struct would only repeat them"
    )]
    pub async fn edit(
        &self,
        tenant: &Tenant,
        id: DeadLetterId,
        from: Option<u32>,
        edit: &Edit,
        by: &str,
        reason: &str,
        dry_run: bool,
    ) -> Result<Option<EditedVersion>, EditError> {
        let act = Attribution::new(by, reason, self.clock.now())?;
        let Some(dead_letter) = self.store.find_dead_letter(tenant, id).await? else { return Ok(None) };
        check_is_event(&dead_letter)?;
        let (based_on, before) = self.load_version(tenant, &dead_letter, from).await?;
        let after = apply_edit(&before, edit)?;
        check_edit(&dead_letter, &before, &after)?;
        let read = self.parse_event(&dead_letter, &after);
        // Any other rejected version may be stored, but storing this one would make one tenant's data an
        // event of another tenant.
        if let Err(rejection) = &read
            && rejection.code == DeadLetterCode::TenantMismatch
        {
            return refuse_edit(
                "the version names another tenant than the subject: data never moves between tenants",
            );
        }
        let (valid, prediction) = self.predict_outcome(&dead_letter.message.position.consumer, &read).await?;
        let mut edited = EditedVersion {
            dead_letter: id,
            version: None,
            based_on,
            payload_sha256: sha256_hex(&after.payload),
            valid,
            prediction,
            diff: self.render_difference(based_on, &before, &after),
        };
        if !dry_run {
            edited.version = self.store.edit_dead_letter(tenant, id, based_on, &after, &act).await?;
        }
        Ok(Some(edited))
    }

    /// Loads a version and its number; loads the newest version if `version` is `None`.
    pub(super) async fn load_version(
        &self,
        tenant: &Tenant,
        dead_letter: &DeadLetter,
        version: Option<u32>,
    ) -> Result<(u32, MessageContent), EditError> {
        let newest = match version {
            Some(version) => version,
            None => {
                self.store.list_versions(tenant, dead_letter.id).await?.last().map_or(0, |row| row.version)
            }
        };
        if newest == 0 {
            let (headers, payload) =
                (dead_letter.message.headers.clone(), dead_letter.message.payload.clone());
            return Ok((0, MessageContent { headers, payload }));
        }
        match self.store.find_version(tenant, dead_letter.id, newest).await? {
            Some(found) => Ok((newest, found.content)),
            None => refuse_edit(format!("the dead letter has no version {newest}")),
        }
    }

    /// Builds the delivery that a replay would produce. The storage time is now, because a replay is a new
    /// message.
    fn build_delivery(&self, dead_letter: &DeadLetter, content: &MessageContent) -> Delivery {
        Delivery {
            stream: dead_letter.message.position.stream.clone(),
            subject: dead_letter.message.subject.clone(),
            sequence: dead_letter.message.position.sequence,
            headers: content.headers.clone(),
            payload: Bytes::from(content.payload.clone()),
            delivered: 1,
            stored_at: self.clock.now(),
        }
    }

    /// Parses a version with the parser of the consumer that gave up on the message.
    fn parse_event(
        &self,
        dead_letter: &DeadLetter,
        content: &MessageContent,
    ) -> Result<ParsedEvent, Rejection> {
        let delivery = self.build_delivery(dead_letter, content);
        match dead_letter.message.position.consumer == Role::Counter.as_str() {
            true => run_completed::parse_delivery(&delivery, &self.hosts).map(ParsedEvent::Run),
            // The reviewer and the tracker parse GitHub events with the same function.
            false => github::parse_event(&delivery).map(ParsedEvent::Github),
        }
    }

    /// Predicts whether the consumer would accept a version now, and describes the outcome of a replay in one
    /// redacted sentence.
    async fn predict_outcome(
        &self,
        consumer: &str,
        read: &Result<ParsedEvent, Rejection>,
    ) -> Result<(bool, String), StoreError> {
        let (valid, prediction) = match read {
            Err(rejection) => (false, format!("it would be refused again: {rejection}")),
            Ok(ParsedEvent::Run(run)) => self.predict_count(run).await?,
            Ok(ParsedEvent::Github(event)) => {
                let (kind, repo) = (event.data.what.event_kind(), &event.data.repo);
                (
                    true,
                    format!(
                        "the {consumer} would record {kind} of {repo}, unless it has recorded this event before"
                    ),
                )
            }
        };
        Ok((valid, (self.redact)(&prediction)))
    }

    async fn predict_count(&self, run: &run_completed::RunCompleted) -> Result<(bool, String), StoreError> {
        let (run_id, workflow) = (&run.run.run_id, &run.key.workflow);
        Ok(
            match self
                .store
                .find_seen_events(std::slice::from_ref(&run.event))
                .await?
                .into_iter()
                .flatten()
                .next()
            {
                None => (true, format!("it would be accepted as run {run_id} of workflow {workflow}")),
                Some(seen) if seen.matches_hash(&run.content_hash) => {
                    (true, "its event was handled before, with this content: nothing would change".to_owned())
                }
                Some(_) => {
                    let code = DeadLetterCode::IdentityConflict;
                    let before = "its event was handled before, with other content";
                    (false, format!("it would be refused again: {code}: {before}"))
                }
            },
        )
    }

    fn render_difference(&self, based_on: u32, before: &MessageContent, after: &MessageContent) -> String {
        let shown = |content: &MessageContent| {
            MessageView::from_message(&content.headers, &content.payload, &*self.redact).render_lines()
        };
        diff::unified_diff(&format!("version {based_on}"), &shown(before), &shown(after))
    }
}

impl EditedVersion {
    /// Renders the version for a terminal, with its number, the predicted result and the diff.
    pub fn render_text(&self) -> String {
        let from = match self.based_on {
            0 => "the original".to_owned(),
            version => format!("version {version}"),
        };
        let made = match self.version {
            Some(version) => {
                format!("version {version} of dead letter {} is made from {from}", self.dead_letter)
            }
            None => format!("no version was made; this is what it would be, from {from}"),
        };
        let prediction = crate::text::single_line(&self.prediction);
        let diff = crate::text::printable(&self.diff);
        format!("{made}\n{prediction}\nsha256 {}\n\n{diff}", self.payload_sha256)
    }
}

fn check_is_event(dead_letter: &DeadLetter) -> Result<(), EditError> {
    let readers = [Role::Counter, Role::Reviewer, Role::Tracker].map(Role::as_str);
    if readers.contains(&dead_letter.message.position.consumer.as_str()) {
        return Ok(());
    }
    refuse_edit(format!(
        "only events can be edited, and this is one of the program's own messages ({}): it contains nothing for a person to correct",
        dead_letter.message.subject
    ))
}

/// Applies an edit. The new payload is never compressed, so the encoding header is removed.
fn apply_edit(before: &MessageContent, edit: &Edit) -> Result<MessageContent, EditError> {
    let packing = |name: &str| name.eq_ignore_ascii_case(encoding::CONTENT_ENCODING);
    let packed_by = before.headers.iter().find(|(name, _)| packing(name)).map(|(_, how)| how.as_str());
    let payload = match edit {
        Edit::ReplacePayload(payload) => payload.clone(),
        Edit::SetFields(fields) => {
            let unpacked =
                encoding::decompress_payload(packed_by, &before.payload.clone().into(), MESSAGE_BYTES_MAX);
            let unpacked = unpacked.map_err(|why| EditError::Refused(why.to_string()))?;
            let text = std::str::from_utf8(&unpacked).map_err(|_| SetFieldError::NotJson)?;
            // JSON does not allow a byte order mark, but some senders write one.
            let mut text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
            for (path, value) in fields {
                text = set_field::set_value(&text, path, value)?;
            }
            text.into_bytes()
        }
    };
    let headers = before.headers.iter().filter(|(name, _)| !packing(name)).cloned().collect();
    Ok(MessageContent { headers, payload })
}

fn check_edit(
    dead_letter: &DeadLetter,
    before: &MessageContent,
    after: &MessageContent,
) -> Result<(), EditError> {
    if after.payload == before.payload {
        return refuse_edit("the edit changes nothing");
    }
    if after.payload.len() > MESSAGE_BYTES_MAX {
        let bytes = after.payload.len();
        return refuse_edit(format!(
            "the version is {bytes} bytes large; a message has at most {MESSAGE_BYTES_MAX}"
        ));
    }
    let holds = |payload: &[u8]| String::from_utf8_lossy(payload).contains(REDACTION_PREFIX);
    // A payload copied from redacted output would replace the real values with placeholders.
    if holds(&after.payload) && !holds(&dead_letter.message.payload) {
        return refuse_edit(format!(
            "the payload holds `{REDACTION_PREFIX}…`, so it was copied from redacted output: start with the exact bytes \
             (`retro dead-letters show ID --raw`), or set single fields"
        ));
    }
    let Rejection { code, path, .. } = &dead_letter.message.rejection;
    let was_wrong = *code == DeadLetterCode::IdentityConflict
        || path.as_deref().is_some_and(|path| ["id", "source"].contains(&path));
    // An identity that could not be read is not protected: adding it is a legitimate correction.
    match (read_identity(before), read_identity(after)) {
        (Some(was), Some(is)) if was != is && !was_wrong => refuse_edit(
            "the edit changes the event's source or id, and these were not what was wrong: under another identity the run \
             would be counted by an event that nobody sent",
        ),
        _ => Ok(()),
    }
}

/// Reads the source and the id from an event whose other fields may be invalid.
fn read_identity(content: &MessageContent) -> Option<(String, String)> {
    let packed_by =
        content.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(encoding::CONTENT_ENCODING));
    let packed = Bytes::copy_from_slice(&content.payload);
    let payload =
        encoding::decompress_payload(packed_by.map(|(_, how)| how.as_str()), &packed, MESSAGE_BYTES_MAX).ok();
    let json = payload.and_then(|payload| {
        JsonDocument::parse(&payload, JsonBounds::with_bytes_max(MESSAGE_BYTES_MAX)).ok()
    });
    let header = |name: &str| {
        let mut headers = content.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let field = |name: &str| json.as_ref()?.root().get(name)?.as_str().map(Cow::into_owned);
    let attribute = |name: &str| header(&format!("ce-{name}")).or_else(|| field(name));
    Some((attribute("source")?, attribute("id")?))
}
