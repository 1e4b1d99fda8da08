//! The types of a cause of failures: when it is present, how its call fails, and its remedy, which can be
//! replaced later.

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::parts::{
    AfterFix, MemoryPattern, Otherwise, Rhythm, failed_exit, first_run, no_arguments, one_try,
};

/// A cause of failures, with its remedy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Probability, from 0 to 1, that a run encounters the cause while it is present.
    pub(crate) chance: f64,
    /// 1-based number of the first run that can encounter the cause.
    #[serde(default = "first_run")]
    pub(crate) from: u32,
    /// Number of the run after which the cause is fixed; `None` if it is never fixed.
    pub(crate) until: Option<u32>,
    pub(crate) rhythm: Option<Rhythm>,
    /// Arguments of the call that fails because of the cause.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// Possible answers to the failing call.
    pub(crate) errors: Vec<String>,
    /// Exit code of the failing call; 0 if the tool refuses and yet reports success.
    #[serde(default = "failed_exit")]
    pub(crate) exit: i32,
    /// `true` if the failing call looks like a success, so that only the end of the run is bad.
    #[serde(default)]
    pub(crate) silent: bool,
    /// Probability that a run whose agent did not notice a silent failure fails; `None` for 1.
    pub(crate) bad_end: Option<f64>,
    /// Calls whose answers supply values for the remedy, in order; each may use values of the previous ones.
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) look_up: Vec<EarlierCall>,
    /// Calls that must precede the remedy and supply nothing.
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) first: Vec<EarlierCall>,
    /// Seconds that must pass before the remedy succeeds.
    pub(crate) wait: Option<u32>,
    /// Tool of the remedy; `None` if it is the tool that failed.
    pub(crate) right_tool: Option<String>,
    /// Arguments of the remedy, the call that succeeds; `None` for the arguments of the failing call.
    pub(crate) right: Option<Value>,
    /// Texts that a memory must state exactly, because an agent cannot guess them.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Arguments of the call of a follower that was not told what it needs; `None` if it makes the failing
    /// call.
    pub(crate) guess: Option<Value>,
    /// Answer to that call; `None` for one of the errors.
    pub(crate) guess_error: Option<String>,
    pub(crate) answer: String,
    /// Message of an agent that follows the memory about the cause.
    #[serde(default)]
    pub(crate) minds: String,
    /// Possible numbers of failing calls before the agent reacts.
    #[serde(default = "one_try")]
    pub(crate) tries: Vec<u32>,
    /// Probability of finding the remedy without a memory; `None` for the probability in the agents' habits.
    pub(crate) finds_out: Option<f64>,
    /// Probability that a run fails although it found the remedy, because time or money ran out.
    #[serde(default)]
    pub(crate) costs: f64,
    /// Behaviour of runs that do not encounter the cause.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
    /// Effect of following the memory once the cause is fixed.
    #[serde(default)]
    pub(crate) after: AfterFix,
    /// Answer to the remedy's call if the cause is fixed and `after` is `harmful`; otherwise `None`.
    pub(crate) harm: Option<String>,
    pub(crate) memory: MemoryPattern,
    /// Later remedies, each of which replaces the previous one.
    #[serde(default, rename = "change")]
    pub(crate) changes: Vec<RemedyChange>,
}

/// A call before the remedy, with its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EarlierCall {
    pub(crate) tool: String,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) answer: String,
    /// Place of this call in runs that do not follow the remedy.
    #[serde(default)]
    pub(crate) usual: UsualPlace,
}

/// Place of an earlier call in runs whose agents do not know that it must come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsualPlace {
    /// They do not make the call.
    #[default]
    Never,
    /// They make the call, but after the one that needs it: the remedy is another order.
    After,
}

/// A remedy that replaces the previous one from a run on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemedyChange {
    /// 1-based number of the first run with this remedy.
    pub(crate) from: u32,
    /// Answer to the call of an earlier remedy from then on.
    pub(crate) harm: String,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) look_up: Vec<EarlierCall>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) first: Vec<EarlierCall>,
    pub(crate) wait: Option<u32>,
    pub(crate) right_tool: Option<String>,
    pub(crate) right: Option<Value>,
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// `None` if the answer stays the same.
    pub(crate) answer: Option<String>,
    #[serde(default)]
    pub(crate) minds: String,
    pub(crate) memory: MemoryPattern,
}

/// One remedy of a cause: the first one, or one that replaced it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CauseRemedy<'w> {
    /// First run with this remedy.
    pub(crate) from: u32,
    pub(crate) look_up: &'w [EarlierCall],
    pub(crate) first: &'w [EarlierCall],
    pub(crate) wait: Option<u32>,
    pub(crate) tool: &'w str,
    pub(crate) right: &'w Value,
    pub(crate) needs: &'w [String],
    pub(crate) answer: &'w str,
    pub(crate) minds: &'w str,
    pub(crate) memory: &'w MemoryPattern,
}

impl CauseRemedy<'_> {
    /// Returns the calls that precede the remedy, in order.
    pub(crate) fn earlier_calls(&self) -> impl Iterator<Item = &EarlierCall> {
        self.look_up.iter().chain(self.first)
    }
}

impl Cause {
    /// Returns every remedy of the cause, in order of time.
    pub(crate) fn remedies(&self) -> Vec<CauseRemedy<'_>> {
        let first = CauseRemedy {
            from: self.from,
            look_up: &self.look_up,
            first: &self.first,
            wait: self.wait,
            tool: self.right_tool.as_deref().unwrap_or(&self.tool),
            right: self.right.as_ref().unwrap_or(&self.arguments),
            needs: &self.needs,
            answer: &self.answer,
            minds: &self.minds,
            memory: &self.memory,
        };
        let later = self.changes.iter().map(|change| CauseRemedy {
            from: change.from,
            look_up: &change.look_up,
            first: &change.first,
            wait: change.wait,
            tool: change.right_tool.as_deref().unwrap_or(&self.tool),
            right: change.right.as_ref().unwrap_or(&self.arguments),
            needs: &change.needs,
            answer: change.answer.as_deref().unwrap_or(&self.answer),
            minds: &change.minds,
            memory: &change.memory,
        });
        std::iter::once(first).chain(later).collect()
    }

    /// Returns the index of the remedy that works in a run.
    pub(crate) fn remedy_at(&self, run: u32) -> usize {
        self.changes.iter().filter(|change| change.from <= run).count()
    }

    /// Returns the answer to the call of an earlier remedy that a later one has replaced by this run.
    pub(crate) fn replaced_harm(&self, run: u32) -> Option<&str> {
        self.changes.iter().rfind(|change| change.from <= run).map(|change| change.harm.as_str())
    }

    /// Returns `true` if the cause is fixed at this run.
    pub(crate) fn is_fixed_at(&self, run: u32) -> bool {
        self.until.is_some_and(|until| run > until)
    }

    /// Returns `true` if a remedy of the cause lets time pass.
    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some() || self.changes.iter().any(|change| change.wait.is_some())
    }
}

/// Reads a table, or a list of tables. An unknown key is reported where it is.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EarlierCall>, D::Error> {
    struct Calls;
    impl<'de> Visitor<'de> for Calls {
        type Value = Vec<EarlierCall>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a call, or a list of calls")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Ok(vec![EarlierCall::deserialize(MapAccessDeserializer::new(map))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }
    deserializer.deserialize_any(Calls)
}
