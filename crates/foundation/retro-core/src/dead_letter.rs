//! Defines the codes that say why a message became a dead letter. Every code has a page in
//! `deploy/runbooks/`.

mod grouping;

use serde::{Deserialize, Serialize};

pub use grouping::grouping_key;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $retryable:literal;)*) => {
        /// Reason why a message became a dead letter. The stored strings never change, because operators
        /// filter by them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum DeadLetterCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl DeadLetterCode {
            /// All codes, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the code as stored and shown, such as `not_json`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Returns `true` if replaying the unchanged message may succeed.
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
    /// The `content-encoding` is not supported, or the body cannot be decoded with it.
    EncodingInvalid = "encoding_invalid", false;
    /// The message is neither a structured nor a binary CloudEvent 1.0.
    NotCloudEvent = "not_cloud_event", false;
    /// The `specversion` is not 1.0.
    SpecVersionUnknown = "spec_version_unknown", false;
    /// The event's type or version is not supported.
    TypeUnknown = "type_unknown", false;
    /// A field is missing or invalid; the path names it.
    FieldInvalid = "field_invalid", false;
    /// The trajectory cannot be parsed; the path points to the problem.
    TrajectoryInvalid = "trajectory_invalid", false;
    /// The message, or a key or number in its JSON, is longer than allowed.
    Oversized = "oversized", false;
    /// The JSON is nested more deeply than allowed.
    TooDeep = "too_deep", false;
    /// The JSON has more values and keys than allowed.
    TooManyValues = "too_many_values", false;
    /// A key occurs twice in one object.
    DuplicateKey = "duplicate_key", false;
    /// The subject is unknown, or its tokens cannot be decoded.
    SubjectInvalid = "subject_invalid", false;
    /// The event's tenant differs from the subject's.
    TenantMismatch = "tenant_mismatch", false;
    /// The event's workflow differs from the subject's.
    WorkflowMismatch = "workflow_mismatch", false;
    /// The event id was used before with different content.
    IdentityConflict = "identity_conflict", false;
    /// The `dataref` refers to a location that is not allowed.
    DatarefRefused = "dataref_refused", false;
    /// An internal message refers to something that does not exist.
    UnknownReference = "unknown_reference", true;
    /// On every attempt, the handler panicked or the process died.
    HandlerPanicked = "handler_panicked", true;
    /// All allowed attempts to handle the message failed.
    AttemptsExhausted = "attempts_exhausted", true;
    /// The root of a trace did not come, so no run was read from its spans.
    TraceIncomplete = "trace_incomplete", false;
    /// A retrospective ended without a successful investigation.
    RetrospectiveFailed = "retrospective_failed", true;
}

impl std::fmt::Display for DeadLetterCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason why a message was rejected: a code, the path of the invalid field if there is one, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}{}: {detail}", path.as_ref().map(|p| format!(" at {p}")).unwrap_or_default())]
pub struct Rejection {
    /// Code by which operators filter dead letters.
    pub code: DeadLetterCode,
    /// Path of the invalid field, such as `data.usage.input_tokens`; `None` if the whole message is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// One sentence that says what is wrong and what is expected. It is shown to people, so it never contains
    /// secrets from the message.
    pub detail: String,
}

impl Rejection {
    /// Creates a rejection of the whole message.
    pub fn of_message(code: DeadLetterCode, detail: impl Into<String>) -> Self {
        Self { code, path: None, detail: detail.into() }
    }

    /// Creates a rejection that points to the invalid field at `path`.
    pub fn of_field(code: DeadLetterCode, path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code, path: Some(path.into()), detail: detail.into() }
    }
}
