//! Names of tenants, workflows, steps and runs, as their emitters choose them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum length of a name from an emitter, in bytes. A NATS subject contains up to two names, so it stays
/// well below 4 KiB.
pub const NAME_BYTES_MAX: usize = 256;

/// Error for a string that is not a valid name: it is empty, too long or contains control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct NameError {
    /// Kind of the name: `tenant`, `workflow`, `run_id` or `step`.
    pub what: &'static str,
    /// Description of the problem, such as `is empty`.
    pub problem: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Creates a name. Fails if the text is empty, is longer than [`NAME_BYTES_MAX`] bytes or
            /// contains control characters.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                check_name($what, &text)?;
                Ok(Self(text))
            }

            /// Returns the name as the emitter wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Owner of workflows, runs and memories. Tenants share no data.
    Tenant,
    "tenant"
);
name!(
    /// Stable name of a workflow, given by its emitter.
    Workflow,
    "workflow"
);
name!(
    /// Name of a step, given by its workflow.
    Step,
    "step"
);
name!(
    /// Id of a run, given by its emitter.
    RunId,
    "run_id"
);

impl Tenant {
    /// Returns `default`, the tenant of a single-tenant installation.
    pub fn default_tenant() -> Self {
        Self("default".to_owned())
    }
}

impl Step {
    /// Returns `main`, the step of trajectory entries that name no step.
    pub fn main() -> Self {
        Self("main".to_owned())
    }
}

fn check_name(what: &'static str, text: &str) -> Result<(), NameError> {
    let problem = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > NAME_BYTES_MAX {
        format!("is {} bytes long; at most {NAME_BYTES_MAX} are taken", text.len())
    } else if let Some(c) = text.chars().find(|c| c.is_control()) {
        format!("holds the control character {c:?}")
    } else {
        return Ok(());
    };
    Err(NameError { what, problem })
}

/// Identity of a workflow: its tenant and its name. Windows and retrospectives are kept per workflow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkflowKey {
    /// Tenant that owns the workflow.
    pub tenant: Tenant,
    /// Name of the workflow.
    pub workflow: Workflow,
}

impl fmt::Display for WorkflowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.workflow)
    }
}

/// Identity of an event: its tenant and the CloudEvents attributes `source` and `id`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventKey {
    /// Tenant that owns the event, taken from the subject.
    pub tenant: Tenant,
    /// CloudEvents attribute `source`.
    pub source: String,
    /// CloudEvents attribute `id`.
    pub id: String,
}

/// 1-based number of an automatic retrospective within its workflow, without gaps.
pub type Epoch = u64;
/// 1-based number of a counted run within its workflow, without gaps.
pub type Ordinal = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_name_is_rejected_with_the_problem() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (text, problem) in [("", "is empty"), (long.as_str(), "257 bytes"), ("a\nb", "control character")]
        {
            let error = Workflow::new(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(Workflow::new("größe & mehr").is_ok());
    }
}
