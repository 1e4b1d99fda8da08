//! Reads the exact bytes of a dead letter, for operators who edit it or send it elsewhere. Each access
//! requires a reason and is recorded in the audit log *before* anything is returned.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_http::{Caller, JsonBody, PathId, Problem};
use retro_store::{AuditAction, DeadLetter, DeadLetterStatus, DeliveryPosition, MessageContent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{EditError, EditService};
use crate::command::{actor_name, attribute};
use crate::http::JsonResult;

/// A dead letter with its exact bytes, secrets included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RawDeadLetter {
    /// Id of the dead letter.
    #[schema(value_type = String)]
    pub id: DeadLetterId,
    /// Version that the headers and the payload are from; 0 is the original.
    pub version: u32,
    /// NATS subject of the message.
    pub subject: String,
    /// Headers in order, as pairs of name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub headers: Vec<(String, String)>,
    /// Payload in Base64.
    pub payload_base64: String,
    /// SHA-256 of the payload, in hex.
    pub payload_sha256: String,
    /// Code of the rejection, path of the field that caused it, and the reason in one sentence.
    #[schema(value_type = Object)]
    pub rejection: Rejection,
    /// Tenant from the subject; `None` if the subject could not be parsed.
    #[schema(value_type = Option<String>)]
    pub tenant: Option<Tenant>,
    /// Workflow from the subject; `None` if the subject could not be parsed.
    #[schema(value_type = Option<String>)]
    pub workflow: Option<Workflow>,
    /// Consumer that gave up on the message, and the message's stream and sequence number.
    #[schema(value_type = Object)]
    pub position: DeliveryPosition,
    /// Current status of the dead letter.
    #[schema(value_type = String)]
    pub status: DeadLetterStatus,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Time at which the broker stored the message.
    #[schema(value_type = String)]
    pub stored_at: Timestamp,
    /// Time at which the message was dead-lettered.
    #[schema(value_type = String)]
    pub created_at: Timestamp,
}

impl RawDeadLetter {
    pub(super) fn from_dead_letter(dead_letter: DeadLetter, version: u32, content: MessageContent) -> Self {
        let DeadLetter { id, message, status, created_at, .. } = dead_letter;
        Self {
            id,
            version,
            subject: message.subject,
            headers: content.headers,
            payload_base64: BASE64.encode(&content.payload),
            payload_sha256: sha256_hex(&content.payload),
            rejection: message.rejection,
            tenant: message.tenant,
            workflow: message.workflow,
            position: message.position,
            status,
            attempts: message.attempts,
            stored_at: message.stored_at,
            created_at,
        }
    }

    /// Returns the payload decoded from Base64.
    pub fn decode_payload(&self) -> Vec<u8> {
        BASE64.decode(&self.payload_base64).expect("`payload_base64` is always valid Base64")
    }
}

impl EditService {
    /// Returns the exact bytes of one version, or of the newest version if `version` is `None`; version 0 is
    /// the original. Records the access in the audit log first. Returns `None` if the tenant has no such dead
    /// letter.
    pub async fn read_raw(
        &self,
        tenant: &Tenant,
        id: DeadLetterId,
        version: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<Option<RawDeadLetter>, EditError> {
        let act = attribute(by, reason, self.clock.now())?;
        let Some(dead_letter) = self.store.find_dead_letter(tenant, id).await? else { return Ok(None) };
        let (version, content) = self.load_version(tenant, &dead_letter, version).await?;
        let detail = format!("version {version}");
        // Recorded before the bytes are returned: a crash in between may leave a record without an access, but never
        // an access without a record.
        self.store.record_audit_rows(tenant, &[id.0], AuditAction::ReadRaw, &act, Some(&detail)).await?;
        Ok(Some(RawDeadLetter::from_dead_letter(dead_letter, version, content)))
    }
}

/// A request for the exact bytes of dead letters.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RawAccessRequest {
    /// Reason for the access, recorded in the audit log.
    pub(super) reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    pub(super) by: Option<String>,
    /// Version to read; 0 is the original [default: 0]. An export always contains the original.
    #[serde(default)]
    version: u32,
}

/// Returns the exact bytes of a dead letter, secrets included. The access is recorded in the audit log before the
/// response is sent.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/raw", tag = "people", request_body = RawAccessRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = RawDeadLetter)))]
pub(super) async fn read_raw(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<RawAccessRequest>,
) -> JsonResult<RawDeadLetter> {
    let by = actor_name(request.by.as_deref());
    let found = service.read_raw(&tenant, id, Some(request.version), by, &request.reason).await?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("dead letter", id))?))
}
