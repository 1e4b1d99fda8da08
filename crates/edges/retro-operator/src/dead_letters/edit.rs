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

mod apply;
mod diff;
mod error;
mod set_field;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::time::Clock;
use retro_events::envelope::MESSAGE_BYTES_MAX;
use retro_events::hosts::DatarefHosts;
use retro_events::{Delivery, Role, github, run_completed};
use retro_http::{Caller, JsonBody, PathId, Problem};
use retro_store::{DeadLetter, DeadLetterEditStore, MessageContent, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::MessageView;
use crate::command::{actor_name, attribute};
use crate::http::JsonResult;
use crate::redact::SharedRedactFn;
use apply::{apply_edit, check_edit, check_is_event};
use error::refuse_edit;

pub use apply::Edit;
pub use error::EditError;
pub use set_field::SetFieldError;

/// Maximum size of an edit request in bytes: a payload of the maximum size in Base64, plus the reason.
const EDIT_REQUEST_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 3 * 4 + 64 * 1024;

/// Edits and exports dead letters, and reads their exact bytes. Every stored version and every access to
/// exact bytes is recorded in the audit log.
#[derive(Clone)]
pub struct EditService {
    pub(super) store: Arc<dyn DeadLetterEditStore>,
    pub(super) clock: Arc<dyn Clock>,
    hosts: DatarefHosts,
    pub(super) redact: SharedRedactFn,
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

/// An event as parsed by its consumer.
enum ParsedEvent {
    Run(run_completed::RunCompleted),
    Github(github::GithubEvent),
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
        let act = attribute(by, reason, self.clock.now())?;
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

/// An edit of a dead letter: the whole payload or single fields.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct EditRequest {
    /// Reason for the edit, recorded in the audit log.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// Version to edit; 0 is the original [default: the newest version].
    from: Option<u32>,
    /// New values by field path, such as `data.usage.input_tokens`. Every other byte is kept.
    #[schema(value_type = Option<Object>)]
    set: Option<BTreeMap<String, Value>>,
    /// New payload as text, instead of `set` or `payload_base64`.
    payload: Option<String>,
    /// New payload in Base64, instead of `set` or `payload`.
    payload_base64: Option<String>,
    /// `true` to predict the result without creating a version.
    #[serde(default)]
    dry_run: bool,
}

/// Creates an edited version of a dead letter; the original is kept. Returns the diff and the predicted result
/// of a replay.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/versions", tag = "people", request_body = EditRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = EditedVersion)))]
pub(super) async fn create_version(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<EditRequest, EDIT_REQUEST_BYTES_MAX>,
) -> JsonResult<EditedVersion> {
    let EditRequest { reason, by, from, set, payload, payload_base64, dry_run } = request;
    let edit = parse_edit(set, payload, payload_base64)?;
    let by = actor_name(by.as_deref());
    let edited = service.edit(&tenant, id, from, &edit, by, &reason, dry_run).await?;
    Ok(Json(edited.ok_or_else(|| Problem::not_found("dead letter", id))?))
}

fn parse_edit(
    set: Option<BTreeMap<String, Value>>,
    payload: Option<String>,
    payload_base64: Option<String>,
) -> Result<Edit, Problem> {
    match (set, payload, payload_base64) {
        (Some(fields), None, None) if !fields.is_empty() => Ok(Edit::SetFields(fields.into_iter().collect())),
        (None, Some(text), None) => Ok(Edit::ReplacePayload(text.into_bytes())),
        (None, None, Some(encoded)) => BASE64
            .decode(encoded)
            .map(Edit::ReplacePayload)
            .map_err(|error| Problem::invalid_field("payload_base64", error.to_string())),
        _ => Err(Problem::invalid_field("set", "give exactly one of `set`, `payload` and `payload_base64`")),
    }
}
