//! Embeds the runbook of each dead-letter code from `deploy/runbooks`.

use retro_core::dead_letter::DeadLetterCode;

macro_rules! pages {
    ($($code:ident = $stem:literal,)*) => {
        /// Returns the runbook of a dead-letter code, in Markdown. A code without a runbook fails to compile.
        pub const fn runbook(code: DeadLetterCode) -> &'static str {
            match code {
                $(DeadLetterCode::$code => include_str!(concat!("../../../../../deploy/runbooks/", $stem, ".md")),)*
            }
        }
    };
}

pages! {
    NotJson = "not_json",
    NotUtf8 = "not_utf8",
    EncodingInvalid = "encoding_invalid",
    NotCloudEvent = "not_cloud_event",
    SpecVersionUnknown = "spec_version_unknown",
    TypeUnknown = "type_unknown",
    FieldInvalid = "field_invalid",
    TrajectoryInvalid = "trajectory_invalid",
    Oversized = "oversized",
    TooDeep = "too_deep",
    TooManyValues = "too_many_values",
    DuplicateKey = "duplicate_key",
    SubjectInvalid = "subject_invalid",
    TenantMismatch = "tenant_mismatch",
    WorkflowMismatch = "workflow_mismatch",
    IdentityConflict = "identity_conflict",
    DatarefRefused = "dataref_refused",
    UnknownReference = "unknown_reference",
    HandlerPanicked = "handler_panicked",
    AttemptsExhausted = "attempts_exhausted",
    TraceIncomplete = "trace_incomplete",
    RetrospectiveFailed = "retrospective_failed",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_runbook_with_its_name() {
        for code in DeadLetterCode::ALL {
            assert!(runbook(*code).starts_with(&format!("# {code}\n")), "{code}");
        }
    }
}
