//! Version of a pipeline: the policy and the prompts by which a retrospective learns or a review is read, named by what they say.
//!
//! A version is the hash of what takes effect, not of how it is written: a comment makes no new version, and a program whose
//! built-in prompt differs does. So what memories did can be compared version by version, however the folder was edited.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr};

use crate::canonical::content_hash;
use crate::id::Workflow;

/// Number of digits of a hash that are shown to people.
const SHORT_DIGITS: usize = 12;
/// Number of digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// A pipeline: a folder with what it is told and how it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[strum(serialize_all = "snake_case")]
pub enum PipelineName {
    /// Looks back at runs.
    #[default]
    Retrospective,
    /// Reads the remarks of reviews.
    Review,
}

impl PipelineName {
    /// All pipelines.
    pub const ALL: &'static [Self] = &[Self::Retrospective, Self::Review];

    /// Returns the name of its folder, such as `review`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for PipelineName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A table of a `pipeline.toml`, with its keys. The names of keys are unique over the sections of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Name of the table, such as `trigger`.
    pub name: &'static str,
    /// What its keys decide, in one sentence.
    pub doc: &'static str,
    /// Names of its keys, in the order of the file.
    pub keys: &'static [&'static str],
}

/// Source of the review pipeline, implemented outside the core.
pub trait ReviewPipelines: Send + Sync {
    /// Returns the version of the review pipeline that is in force. A review that is decided keeps it.
    fn current_review_pipeline(&self) -> PipelineVersion;
}

/// Source of the versions that are in force in a process, implemented outside the core.
pub trait CurrentPipelines: Send + Sync {
    /// Returns the hash of the version of a pipeline that this process has read last.
    fn current_version(&self, pipeline: PipelineName) -> PipelineHash;
}

/// SHA-256 of a pipeline or of its prompts, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PipelineHash(String);

/// Error for a text that is no SHA-256 in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no hash; it must have 64 digits 0-9 and a-f")]
pub struct PipelineHashError(String);

impl PipelineHash {
    fn of_value(value: &Value) -> Self {
        Self(content_hash(value))
    }

    /// Returns the hash in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first digits, as people are shown them.
    pub fn short(&self) -> &str {
        &self.0[..SHORT_DIGITS]
    }
}

impl fmt::Display for PipelineHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for PipelineHash {
    type Err = PipelineHashError;
    fn from_str(text: &str) -> Result<Self, PipelineHashError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let valid = text.len() == HASH_DIGITS && text.bytes().all(is_digit);
        if valid { Ok(Self(text.to_owned())) } else { Err(PipelineHashError(text.to_owned())) }
    }
}

impl TryFrom<String> for PipelineHash {
    type Error = PipelineHashError;
    fn try_from(text: String) -> Result<Self, PipelineHashError> {
        text.parse()
    }
}

impl From<PipelineHash> for String {
    fn from(hash: PipelineHash) -> Self {
        hash.0
    }
}

/// Everything that a pipeline says, and the files in which its author said it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PipelineContents {
    /// Values of the policy that apply to every workflow, in the stored form of [`crate::policy::Policy::stored_value`]; for
    /// the review pipeline, its [`crate::review::ReviewSettings`].
    pub policy: Value,
    /// Effective policies of the workflows with values of their own, by name.
    pub workflows: BTreeMap<String, Value>,
    /// Effective text of each prompt, by file name.
    pub prompts: BTreeMap<String, String>,
    /// Effective text of each prompt of the workflows with prompts of their own, by workflow and file name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflow_prompts: BTreeMap<String, BTreeMap<String, String>>,
    /// Hashes of the schemas by which answers of a model are read, by file name.
    pub schemas: BTreeMap<String, String>,
    /// Files of the folder, by path within it; empty if the built-in pipeline applies. No part of the version.
    pub files: BTreeMap<String, String>,
}

impl PipelineContents {
    /// Returns the hash of the pipeline, and the hash of its prompts alone.
    pub fn hashes(&self) -> PipelineHashes {
        let Self { policy, workflows, prompts, workflow_prompts, schemas, files: _ } = self;
        let mut whole = json!({
            "policy": policy, "workflows": workflows, "prompts": prompts, "schemas": schemas,
        });
        let mut all_prompts = json!(prompts);
        // Versions without prompts of workflows keep the hashes that they had before there were any.
        if !workflow_prompts.is_empty() {
            whole["workflow_prompts"] = json!(workflow_prompts);
            all_prompts = json!({"prompts": prompts, "workflow_prompts": workflow_prompts});
        }
        PipelineHashes {
            pipeline: PipelineHash::of_value(&whole),
            prompts: PipelineHash::of_value(&all_prompts),
        }
    }

    /// Returns the effective text of each prompt of a workflow, by file name.
    pub fn prompts_of(&self, workflow: &Workflow) -> &BTreeMap<String, String> {
        self.workflow_prompts.get(workflow.as_str()).unwrap_or(&self.prompts)
    }
}

/// Hashes that name the version of a pipeline in reports and changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PipelineHashes {
    /// SHA-256 of policy, prompts and schemas.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub pipeline: PipelineHash,
    /// SHA-256 of the prompts alone: the prompt version.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub prompts: PipelineHash,
}

impl fmt::Display for PipelineHashes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (prompts {})", self.pipeline.short(), self.prompts.short())
    }
}

/// Version of a pipeline as it was read: its hashes, and what it says. Equal hashes are equal versions.
#[derive(Debug, Clone)]
pub struct PipelineVersion {
    hashes: PipelineHashes,
    contents: Arc<PipelineContents>,
    loaded_from: Arc<str>,
}

impl PipelineVersion {
    /// Names the version of a pipeline that was read from a folder; `loaded_from` is empty for the built-in one.
    pub fn new(contents: PipelineContents, loaded_from: &str) -> Self {
        Self { hashes: contents.hashes(), contents: Arc::new(contents), loaded_from: loaded_from.into() }
    }

    /// Returns the hashes.
    pub const fn hashes(&self) -> &PipelineHashes {
        &self.hashes
    }

    /// Returns the folder from which the pipeline was read; empty for the built-in one.
    pub fn loaded_from(&self) -> &str {
        &self.loaded_from
    }

    /// Returns what the pipeline says.
    pub fn contents(&self) -> &PipelineContents {
        &self.contents
    }
}

/// Uses the same version always.
impl ReviewPipelines for PipelineVersion {
    fn current_review_pipeline(&self) -> PipelineVersion {
        self.clone()
    }
}

impl PartialEq for PipelineVersion {
    fn eq(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }
}

impl Eq for PipelineVersion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_what_a_pipeline_says_and_not_how_it_is_written() {
        let base = PipelineContents { policy: json!({"threshold_runs": 10}), ..PipelineContents::default() };
        let written = |text: &str| PipelineContents {
            files: [("pipeline.toml".to_owned(), text.to_owned())].into(),
            ..base.clone()
        };
        let version = |contents| PipelineVersion::new(contents, "");
        assert_eq!(version(written("[trigger]")), version(written("# a comment\n[trigger]")));
        let prompt =
            PipelineContents { prompts: [("run.md".to_owned(), "x".to_owned())].into(), ..base.clone() };
        let hashes = version(prompt).hashes().clone();
        assert_ne!(hashes.pipeline, base.hashes().pipeline);
        assert_ne!(hashes.prompts, base.hashes().prompts);
        let workflow = PipelineContents { workflows: [("a".to_owned(), json!({}))].into(), ..base.clone() };
        assert_ne!(workflow.hashes().pipeline, base.hashes().pipeline);
        assert_eq!(
            workflow.hashes().prompts,
            base.hashes().prompts,
            "the prompt version is that of the prompts"
        );
        let own = BTreeMap::from([("system.md".to_owned(), "Look.".to_owned())]);
        let prompts =
            PipelineContents { workflow_prompts: [("a".to_owned(), own.clone())].into(), ..base.clone() };
        assert_ne!(prompts.hashes().pipeline, base.hashes().pipeline);
        assert_ne!(prompts.hashes().prompts, base.hashes().prompts);
        let of = |name: &str| prompts.prompts_of(&Workflow::new(name).unwrap()).clone();
        assert_eq!((of("a"), of("b")), (own, base.prompts));
    }

    #[test]
    fn only_a_sha_256_is_a_hash() {
        let hash = PipelineContents::default().hashes().pipeline;
        assert_eq!(hash.as_str().parse(), Ok(hash.clone()));
        assert_eq!(hash.short().len(), 12);
        for text in ["", "abc", &"g".repeat(64), &"A".repeat(64)] {
            assert!(text.parse::<PipelineHash>().is_err(), "{text}");
        }
    }
}
