//! Why a message could not be handled. Every code has a page in `deploy/runbooks/`.

mod shape;

use serde::{Deserialize, Serialize};

pub use shape::shape;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $retryable:literal;)*) => {
        /// Why a message ended as a dead letter. The words never change: operators filter by them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code as stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Whether sending the same message again may help.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable),* }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    NotJson = "not_json", false;
    /// The body is not UTF-8.
    NotUtf8 = "not_utf8", false;
    /// `content-encoding` is one we do not read, or the body cannot be unpacked by it.
    EncodingInvalid = "encoding_invalid", false;
    /// Neither a structured nor a binary CloudEvent 1.0.
    NotCloudEvent = "not_cloud_event", false;
    /// `specversion` is not 1.0.
    SpecVersionUnknown = "spec_version_unknown", false;
    /// The event's type or version is not one we take.
    TypeUnknown = "type_unknown", false;
    /// A field is missing or of another type; the path says which.
    FieldInvalid = "field_invalid", false;
    /// The trajectory cannot be read; the path says where.
    TrajectoryInvalid = "trajectory_invalid", false;
    /// The message is larger than we take.
    Oversized = "oversized", false;
    /// JSON nested deeper than we read.
    TooDeep = "too_deep", false;
    /// JSON of more values and keys than we read.
    TooManyValues = "too_many_values", false;
    /// A key stands twice in one object.
    DuplicateKey = "duplicate_key", false;
    /// The subject is not one of ours, or its parts cannot be decoded.
    SubjectInvalid = "subject_invalid", false;
    /// The event's tenant is not the subject's.
    TenantMismatch = "tenant_mismatch", false;
    /// The event's workflow is not the subject's.
    WorkflowMismatch = "workflow_mismatch", false;
    /// The same event id came with other content.
    IdentityConflict = "identity_conflict", false;
    /// `dataref` points where we do not go.
    DatarefRefused = "dataref_refused", false;
    /// A message of our own names something that is not there.
    UnknownReference = "unknown_reference", true;
    /// Handling it panicked, or killed the process, each time.
    HandlerPanicked = "handler_panicked", true;
    /// It failed as often as a message may.
    AttemptsExhausted = "attempts_exhausted", true;
    /// A retrospective ended without a single successful investigation.
    RetrospectiveFailed = "retrospective_failed", true;
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why one message was given up: a code, the path of the field when there is one, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}{}: {detail}", path.as_ref().map(|p| format!(" at {p}")).unwrap_or_default())]
pub struct Rejection {
    /// The code.
    pub code: Code,
    /// The path of the field, such as `data.usage.input_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is wrong and what would be right. Never holds the message's own secrets: it is shown.
    pub detail: String,
}

impl Rejection {
    /// A rejection of the whole message.
    pub fn whole(code: Code, detail: impl Into<String>) -> Self {
        Self { code, path: None, detail: detail.into() }
    }

    /// A rejection because of one field.
    pub fn at(code: Code, path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code, path: Some(path.into()), detail: detail.into() }
    }
}
