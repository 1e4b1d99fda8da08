//! The types of what a world's files contain: the habits of the agents, and the workflows with their causes.

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::cause::Cause;
use super::fact::Fact;
use super::parts::{MemoryPattern, Otherwise, always, failed_exit, no_arguments};
use super::values::Values;

/// Habits of a world's agents, as probabilities from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentHabits {
    /// Probability that an agent opens a memory that it was handed.
    pub(crate) read: f64,
    /// Probability that an agent follows a memory that it was handed.
    pub(crate) follow: f64,
    /// Probability that an agent finds the remedy without a memory.
    pub(crate) finds_out: f64,
    /// Probability that a run fails for a reason that no memory can prevent.
    pub(crate) fails_anyway: f64,
    /// Probability that a run fails because its agent follows a memory about nothing in the world.
    pub(crate) wrong_costs: f64,
}

impl Default for AgentHabits {
    fn default() -> Self {
        Self { read: 0.3, follow: 0.8, finds_out: 0.6, fails_anyway: 0.03, wrong_costs: 0.1 }
    }
}

/// A workflow of a world, defined by one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workflow {
    /// Name of the workflow: its file name without `.toml`.
    #[serde(skip)]
    pub(crate) name: String,
    /// `true` if the harness records whether each call failed. Otherwise, a failure is visible only in the
    /// text of the answer.
    #[serde(default)]
    pub(crate) flags: bool,
    /// Line that the harness adds below each answer, in which `{exit}` is the exit code; `None` for no line.
    pub(crate) exit_line: Option<String>,
    /// Sources of the values that differ between runs, by placeholder name.
    #[serde(default)]
    pub(crate) values: Values,
    #[serde(rename = "step")]
    pub(crate) steps: Vec<Spanned<Step>>,
    #[serde(default, rename = "cause")]
    pub(crate) causes: Vec<Spanned<Cause>>,
    #[serde(default, rename = "trap")]
    pub(crate) traps: Vec<Spanned<Trap>>,
    #[serde(default, rename = "noise")]
    pub(crate) noises: Vec<Spanned<Noise>>,
    #[serde(default, rename = "fact")]
    pub(crate) facts: Vec<Spanned<Fact>>,
    /// For each fact, its use in the form of a cause; `None` for a fact that no run uses.
    #[serde(skip)]
    pub(crate) fact_causes: Vec<Option<Cause>>,
}

/// A step with its routine calls.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Task that the agent gets in the prompt.
    pub(crate) task: String,
    #[serde(default, rename = "routine")]
    pub(crate) routines: Vec<Routine>,
}

/// A call that always succeeds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routine {
    pub(crate) tool: String,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) answers: Vec<String>,
    #[serde(default = "always")]
    pub(crate) chance: f64,
}

/// A false lesson that looks true for a while: the change helped by coincidence, and following the lesson
/// makes calls fail.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trap {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Probability, from 0 to 1, that the trap looks true in a run within a period.
    pub(crate) chance: f64,
    /// 1-based numbers of the first and the last run of each period in which the trap can look true.
    pub(crate) periods: Vec<[u32; 2]>,
    /// Arguments of the plain call, which fails only during the coincidence.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// Possible answers to the plain call during the coincidence. If there are none, the plain call succeeds
    /// even then.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// Exit code of the plain call during the coincidence, and of the changed call otherwise.
    #[serde(default = "failed_exit")]
    pub(crate) exit: i32,
    /// Arguments of the changed call, which succeeds during the coincidence and fails otherwise.
    pub(crate) superstition: Value,
    pub(crate) answer: String,
    /// Answer to the changed call outside the coincidence.
    pub(crate) harm: String,
    /// Remark of the agent about the coincidence, which the calls then do not show; `None` if the agent makes
    /// no remark.
    pub(crate) remark: Option<String>,
    /// Number of the run after which an operator accepts the proposals of a manual retrospective over the
    /// runs that showed the trap; `None` if no operator does.
    pub(crate) accepted_at: Option<u32>,
    /// Probability of noticing that the changed call is the mistake; `None` for the probability in
    /// [`AgentHabits`].
    pub(crate) finds_out: Option<f64>,
    pub(crate) memory: MemoryPattern,
}

/// An error that disappears without a change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noise {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Probability, from 0 to 1, that a run outside a burst encounters the noise.
    pub(crate) chance: f64,
    /// Bursts in which the noise is frequent; `None` if there are none.
    pub(crate) burst: Option<Burst>,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) errors: Vec<String>,
    /// Exit code of the call that answers one of the errors.
    #[serde(default = "failed_exit")]
    pub(crate) exit: i32,
    pub(crate) answer: String,
    /// Probability that the agent changes the call in the retry; otherwise, it repeats the same call.
    #[serde(default)]
    pub(crate) changes: f64,
    /// Possible arguments of the changed call.
    #[serde(default)]
    pub(crate) changed: Vec<Value>,
    /// Answer to the changed call of an agent that follows a memory to change it; `None` if it succeeds.
    pub(crate) harm: Option<String>,
    /// Behaviour of runs that do not encounter the noise.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
}

/// Series of consecutive runs in which noise is frequent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Burst {
    /// Number of runs per cycle. Each cycle contains one burst, at a position drawn from the seed.
    pub(crate) every: u32,
    /// Number of runs in a burst.
    pub(crate) runs: u32,
    /// Probability, from 0 to 1, that a run in the burst encounters the noise.
    pub(crate) chance: f64,
}
