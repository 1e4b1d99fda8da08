//! The exact bytes of a letter: for whoever has to mend it, or to send it elsewhere. Reading them is an act of a person,
//! with a reason, and it is written down *before* anything is shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_core::steer::Act;
use retro_store::{Content, DeadLetter, Deed, LetterStatus, Position};
use serde::Serialize;
use utoipa::ToSchema;

use super::{MendError, Mending};

/// A letter as it is stored, secrets included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ExactLetter {
    /// Its id.
    #[schema(value_type = String)]
    pub id: DeadLetterId,
    /// Which version of it these bytes are; 0 is the letter as it came.
    pub version: u32,
    /// The subject to which it was sent.
    pub subject: String,
    /// The headers, in order, as pairs of name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub headers: Vec<(String, String)>,
    /// The bytes, in Base64.
    pub payload_base64: String,
    /// Their SHA-256, hex.
    pub payload_sha256: String,
    /// Why it was given up.
    #[schema(value_type = Object)]
    pub rejection: Rejection,
    /// The tenant of the subject; `None` when it could not be read.
    #[schema(value_type = Option<String>)]
    pub tenant: Option<Tenant>,
    /// The workflow of the subject, likewise.
    #[schema(value_type = Option<String>)]
    pub workflow: Option<Workflow>,
    /// Who gave up on what.
    #[schema(value_type = Object)]
    pub position: Position,
    /// Where it stands.
    #[schema(value_type = String)]
    pub status: LetterStatus,
    /// Attempts spent.
    pub attempts: u32,
    /// When the broker stored the message.
    #[schema(value_type = String)]
    pub stored_at: Timestamp,
    /// When it was given up.
    #[schema(value_type = String)]
    pub created_at: Timestamp,
}

impl ExactLetter {
    pub(super) fn of(letter: DeadLetter, version: u32, content: Content) -> Self {
        let DeadLetter { id, letter, status, created_at, .. } = letter;
        Self {
            id,
            version,
            subject: letter.subject,
            headers: content.headers,
            payload_base64: BASE64.encode(&content.payload),
            payload_sha256: sha256_hex(&content.payload),
            rejection: letter.rejection,
            tenant: letter.tenant,
            workflow: letter.workflow,
            position: letter.position,
            status,
            attempts: letter.attempts,
            stored_at: letter.stored_at,
            created_at,
        }
    }

    /// The bytes.
    pub fn payload(&self) -> Vec<u8> {
        BASE64.decode(&self.payload_base64).expect("it was encoded here")
    }
}

impl Mending {
    /// The exact bytes of a version of a letter, of the newest one when none is named; 0 is the letter as it came. That they
    /// are read is written down first. `None` when the
    /// tenant has no such letter.
    pub async fn exact(
        &self,
        tenant: &Tenant,
        id: DeadLetterId,
        version: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<Option<ExactLetter>, MendError> {
        let act = Act::new(by, reason, self.clock.now())?;
        let Some(letter) = self.store.dead_letter(tenant, id).await? else { return Ok(None) };
        let (version, content) = self.content(tenant, &letter, version).await?;
        let detail = format!("version {version}");
        self.store.note(tenant, &[id.0], Deed::ReadRaw, &act, Some(&detail)).await?;
        Ok(Some(ExactLetter::of(letter, version, content)))
    }
}
