//! The types and defaults that several kinds of items of a world share.

use serde::Deserialize;
use serde_json::Value;

/// Words in the one-line text of a matching memory, ignoring case. `a|b` matches either word.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryPattern {
    /// Words of the error, all of which must occur. If there are none, only the remedy must match.
    #[serde(default)]
    pub(crate) error: Vec<String>,
    /// Words of the remedy, all of which must occur.
    pub(crate) remedy: Vec<String>,
}

/// Restricts a cause to some runs of a cycle, such as runs at night or on Mondays.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rhythm {
    /// Number of runs per cycle.
    pub(crate) every: u32,
    /// 1-based numbers of the first and the last run of a cycle that can encounter the cause.
    pub(crate) runs: [u32; 2],
}

/// Behaviour of a run that does not encounter the cause or noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Otherwise {
    /// The run calls the tool successfully.
    #[default]
    Works,
    /// The run does not call the tool.
    Skips,
}

/// Effect of following a memory once its cause is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AfterFix {
    /// The call succeeds whether or not the agent follows the memory.
    #[default]
    Harmless,
    /// The call fails if the agent follows the memory.
    Harmful,
    /// Runs no longer call the tool.
    Gone,
}

pub(super) fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

pub(super) const fn always() -> f64 {
    1.0
}

pub(super) const fn first_run() -> u32 {
    1
}

/// Exit code of a call that fails, unless the world says otherwise.
pub(super) const fn failed_exit() -> i32 {
    1
}

pub(super) fn one_try() -> Vec<u32> {
    vec![1]
}
