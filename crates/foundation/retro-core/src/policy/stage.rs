//! Stages of an investigation: who looks into a run, and in which order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// Who investigates a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum InvestigationStage {
    /// The heuristics. Whether they are listed or not, they judge what became of the memories that the run was given, and
    /// summarise its calls for the contrast over many runs.
    Heuristics,
    /// The language model of the configuration.
    Model,
}

impl InvestigationStage {
    /// All stages, in their default order.
    pub const ALL: &'static [Self] = &[Self::Heuristics, Self::Model];

    /// Returns the name of the stage, such as `heuristics`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
