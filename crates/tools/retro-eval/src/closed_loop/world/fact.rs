//! The types of a fact: a true statement, which runs can use.

use serde::Deserialize;
use serde_json::Value;

use super::cause::Cause;
use super::parts::{AfterFix, MemoryPattern, Otherwise, failed_exit, first_run, no_arguments, one_try};

/// A true statement that is not a cause. A memory that states the fact counts as true, but no memory is
/// expected to state it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    pub(crate) step: String,
    pub(crate) tool: String,
    pub(crate) memory: MemoryPattern,
    /// Situation in which a run needs the fact; `None` if no run does.
    pub(crate) used: Option<FactUse>,
}

/// A call that fails for an agent that does not know the fact.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactUse {
    /// Probability, from 0 to 1, that a run needs the fact.
    pub(crate) chance: f64,
    /// Texts that a memory must state exactly for an agent to use the fact.
    pub(crate) needs: Vec<String>,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) errors: Vec<String>,
    #[serde(default = "failed_exit")]
    pub(crate) exit: i32,
    pub(crate) right: Value,
    pub(crate) answer: String,
    pub(crate) guess: Option<Value>,
    pub(crate) guess_error: Option<String>,
    pub(crate) finds_out: Option<f64>,
    /// Behaviour of runs that do not need the fact.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
}

impl Fact {
    /// Returns the use of the fact in the form of a cause, so that it is checked and simulated alike. `id` is
    /// the name of its random draws.
    pub(crate) fn as_cause(&self, id: String) -> Option<Cause> {
        let used = self.used.clone()?;
        Some(Cause {
            id,
            step: self.step.clone(),
            tool: self.tool.clone(),
            chance: used.chance,
            from: first_run(),
            until: None,
            rhythm: None,
            arguments: used.arguments,
            errors: used.errors,
            exit: used.exit,
            silent: false,
            bad_end: None,
            look_up: Vec::new(),
            first: Vec::new(),
            wait: None,
            right_tool: None,
            right: Some(used.right),
            needs: used.needs,
            guess: used.guess,
            guess_error: used.guess_error,
            answer: used.answer,
            minds: String::new(),
            tries: one_try(),
            finds_out: used.finds_out,
            costs: 0.0,
            otherwise: used.otherwise,
            after: AfterFix::default(),
            harm: None,
            memory: self.memory.clone(),
            changes: Vec::new(),
        })
    }
}
