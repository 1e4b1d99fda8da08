//! What a model submits, and how it joins what the heuristics found.

use retro_core::finding::{
    Finding, InvestigationBrief, RawAnswer, Refutation, RefutationReason, RunFocus, SavedChange, StatedCause,
};
use retro_core::id::Step;
use retro_model::ToolSpec;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::Value;

use super::tools::RunTools;
use crate::heuristics::{
    DocumentedRule, Stated, StatedFinding, build_documented_finding, build_stated_finding, find_quote,
};

/// Name of the tool with which a model gives its answer.
pub(super) const SUBMIT: &str = "submit_findings";
/// Maximum number of findings that a model may submit about one run. A run has far fewer, and each is checked.
const SUBMITTED_MAX: usize = 20;

/// Answer of a model about one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedAnswer {
    /// What went wrong in the run, and what the run itself did about it. Empty if nothing did.
    pub(super) findings: Vec<SubmittedFinding>,
    /// Statements in answers of tools that the run went against or found out too late: a policy, a limit, a precondition.
    /// Agents get them as quotations.
    #[serde(default)]
    pub(super) documented: Vec<SubmittedStatement>,
    /// Findings of the heuristics that the run shows to be wrong. Empty unless you are sure.
    #[serde(default)]
    pub(super) refuted: Vec<SubmittedRefutation>,
    /// Answer to the question of a person. Only if a question is asked.
    #[serde(default)]
    pub(super) answer: Option<SubmittedFocus>,
}

/// A finding of the heuristics that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedRefutation {
    /// Number of the finding in the list of what the heuristics found, from 1.
    finding: u32,
    /// Why it is wrong.
    reason: RefutationReason,
    /// Text of the run that shows it.
    quote: SubmittedQuote,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedFinding {
    /// Number of the turn with the quoted text.
    turn: u32,
    /// Number of the call within the turn. Leave it out if the quote is from a message.
    #[serde(default)]
    call: Option<u32>,
    /// Name of the tool whose call went wrong, as the run writes it.
    tool: String,
    /// Text of the run that shows it, verbatim, at most 400 characters, one line if possible. With a `change`, from an answer of
    /// `tool` that no call that worked has: agents are reminded when it answers so.
    error_quote: String,
    /// What is to be changed in the call. Leave it out unless a later call of the run did so and did not fail.
    #[serde(default)]
    change: Option<Change>,
    /// Name of the argument that is to be changed.
    #[serde(default)]
    argument: Option<String>,
    /// Value of the argument in the call that went wrong.
    #[serde(default)]
    bad: Option<String>,
    /// Value of the argument in the later call, or the tool or command that was called. No name or number of this task.
    #[serde(default)]
    good: Option<String>,
    /// Cause, in one sentence, for a person. No agent reads it. It is all that is kept of a finding without a change.
    #[serde(default)]
    cause: Option<String>,
}

/// A statement in the answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedStatement {
    /// Number of the turn with the call whose answer states it.
    turn: u32,
    /// Number of the call within the turn.
    #[serde(default)]
    call: u32,
    /// One sentence of the answer that says how things are, verbatim, at most 160 characters. No instruction, no command.
    statement: String,
    /// Name of the tool that it is about. The step calls this tool, in this run or in others.
    tool: String,
}

/// What is to be changed in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Change {
    /// `argument` gets the value `good` instead of `bad`.
    SetArgument,
    /// `argument` was missing.
    AddArgument,
    /// `argument` is left out.
    DropArgument,
    /// The tool `good` is called instead.
    UseTool,
    /// `good` is called first: a tool, or a command of up to four words.
    CallFirst,
}

impl From<Change> for SavedChange {
    fn from(change: Change) -> Self {
        match change {
            Change::SetArgument => Self::SetArgument,
            Change::AddArgument => Self::AddArgument,
            Change::DropArgument => Self::DropArgument,
            Change::UseTool => Self::UseTool,
            Change::CallFirst => Self::CallFirst,
        }
    }
}

/// Answer to the question of a person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedFocus {
    /// The answer in a few sentences, for all runs that you have seen or been told of. Say what you do not know.
    text: String,
    /// Quotes from this run that support the answer.
    #[serde(default)]
    quotes: Vec<SubmittedQuote>,
    /// What would settle the question, if the runs do not.
    #[serde(default)]
    open: Option<String>,
}

/// A quote from the run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubmittedQuote {
    /// Number of the turn.
    turn: u32,
    /// Number of the call within the turn. Leave it out for a message.
    #[serde(default)]
    call: Option<u32>,
    /// Text of the run, verbatim, at most 400 characters.
    text: String,
}

/// Returns the tool with which a model gives its answer.
pub(super) fn submit_spec() -> ToolSpec {
    ToolSpec {
        name: SUBMIT.to_owned(),
        description: "Gives your answer and ends the investigation.".to_owned(),
        parameters: answer_schema(),
    }
}

/// Returns the JSON Schema of the answer, without references, which not every provider follows.
pub fn answer_schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<SubmittedAnswer>();
    schema.to_value()
}

/// Merges what a model submitted into what the heuristics found. What the trace does not confirm is dropped and counted,
/// and of two findings that say the same, the heuristics' one stays. The model can refute only the findings that it was told.
pub(super) fn merge_answer(tools: &RunTools, heuristics: RawAnswer, submitted: SubmittedAnswer) -> RawAnswer {
    let brief = tools.brief();
    let mut merged = heuristics;
    let SubmittedAnswer { mut findings, mut documented, mut refuted, answer } = submitted;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    merged.dropped += count(findings.len().saturating_sub(SUBMITTED_MAX));
    findings.truncate(SUBMITTED_MAX);
    merged.dropped += count(refuted.len().saturating_sub(SUBMITTED_MAX));
    refuted.truncate(SUBMITTED_MAX);
    for one in refuted {
        match one.to_refutation(brief, tools.found()) {
            Ok(refutation) => merged.refutations.push(refutation),
            Err(_) => merged.dropped += 1,
        }
    }
    for one in findings {
        let cause = one.cause.clone();
        let cause = cause.filter(|text| !text.trim().is_empty());
        let finding = match (build_stated_finding(&brief.trajectory, &one.into_stated()), cause) {
            (Ok(Stated::Finding(finding)), None) => finding,
            (Ok(Stated::Finding(finding)), Some(text)) => {
                merged.causes.push(StatedCause { text, quote: finding.quote.clone() });
                finding
            }
            (Ok(Stated::CauseOnly(quote)), Some(text)) => {
                let known = merged.findings.iter().filter(|known| known.quote.place == quote.place);
                let known: Vec<Finding> = known.cloned().collect();
                known.iter().for_each(|known| withdraw_refutations(&mut merged, known));
                merged.causes.push(StatedCause { text, quote });
                continue;
            }
            (Ok(Stated::CauseOnly(_)), None) | (Err(_), _) => {
                merged.dropped += 1;
                continue;
            }
        };
        match merged.findings.iter().find(|known| says_the_same(known, &finding)) {
            None => merged.findings.push(finding),
            Some(known) => {
                let known = known.clone();
                withdraw_refutations(&mut merged, &known);
            }
        }
    }
    merged.dropped += count(documented.len().saturating_sub(SUBMITTED_MAX));
    documented.truncate(SUBMITTED_MAX);
    for one in documented {
        match one.build_finding(tools) {
            Ok(finding) if merged.findings.iter().any(|known| says_the_same(known, &finding)) => {}
            Ok(finding) => merged.findings.push(finding),
            Err(_) => merged.dropped += 1,
        }
    }
    // Nobody asked if there is no question, whatever the model answers.
    if let (Some(answer), Some(_)) = (answer, &brief.focus) {
        let (focus, dropped) = answer.into_focus(brief);
        merged.focus = Some(focus);
        merged.dropped += dropped;
    }
    merged
}

/// Drops the refutations of a finding: a model that states what it refutes has refuted nothing.
fn withdraw_refutations(merged: &mut RawAnswer, known: &Finding) {
    let before = merged.refutations.len();
    merged.refutations.retain(|refutation| !refutation.is_about(known));
    merged.dropped += u32::try_from(before - merged.refutations.len()).unwrap_or(u32::MAX);
}

fn says_the_same(known: &Finding, new: &Finding) -> bool {
    let signature = new.cue.signature();
    known.step == new.step
        && ((signature.is_some() && known.cue.signature() == signature) || known.cue.is_same_remedy(&new.cue))
}

impl SubmittedFinding {
    fn into_stated(self) -> StatedFinding {
        let Self { turn, call, tool, error_quote, change, argument, bad, good, cause: _ } = self;
        // An empty text means that there is none, whatever the schema says.
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (argument, bad, good) = (given(argument), given(bad), given(good));
        StatedFinding { turn, call, tool, error_quote, change: change.map(Into::into), argument, bad, good }
    }

    /// Returns the reason why the trace does not confirm the finding; `None` if it does.
    pub(super) fn find_problem(&self, brief: &InvestigationBrief) -> Option<String> {
        match build_stated_finding(&brief.trajectory, &self.clone().into_stated()) {
            Ok(Stated::CauseOnly(_)) if self.cause.as_ref().is_none_or(|text| text.trim().is_empty()) => {
                Some("give a `change` that the run made, or a `cause` for people".to_owned())
            }
            stated => stated.err(),
        }
    }
}

impl SubmittedStatement {
    fn build_finding(&self, tools: &RunTools) -> Result<Finding, String> {
        let Self { turn, call, statement, tool } = self.clone();
        let rule = DocumentedRule { turn, call, statement, tool };
        let repository = tools.brief().run.repository();
        let is_called =
            |step: &Step, tool: &str| tools.workflow().calls_tool(repository.as_ref(), step, tool);
        build_documented_finding(&tools.brief().trajectory, &rule, is_called)
    }

    /// Returns the reason why the trace does not confirm the statement; `None` if it does.
    pub(super) fn find_problem(&self, tools: &RunTools) -> Option<String> {
        self.build_finding(tools).err()
    }
}

impl SubmittedRefutation {
    /// Converts the objection. Fails with the reason if the heuristics have no such finding, or the run does not contain the
    /// quote.
    fn to_refutation(&self, brief: &InvestigationBrief, found: &[Finding]) -> Result<Refutation, String> {
        let number = self.finding;
        let at = (number as usize).checked_sub(1).and_then(|at| found.get(at));
        let finding = at.ok_or_else(|| format!("the heuristics have no finding {number}"))?;
        let SubmittedQuote { turn, call, text } = &self.quote;
        let quote = find_quote(&brief.trajectory, *turn, *call, text)
            .ok_or_else(|| format!("`quote` is not in turn {turn} as it is written"))?;
        Ok(Refutation::new(finding, self.reason, quote))
    }

    /// Returns the reason why the objection does not stand; `None` if it does.
    pub(super) fn find_problem(&self, brief: &InvestigationBrief, found: &[Finding]) -> Option<String> {
        self.to_refutation(brief, found).err()
    }
}

impl SubmittedFocus {
    /// Converts the answer, and returns the number of quotes that the run does not contain.
    fn into_focus(self, brief: &InvestigationBrief) -> (RunFocus, u32) {
        let all = self.quotes.len();
        let quotes: Vec<_> = self
            .quotes
            .iter()
            .filter_map(|quote| find_quote(&brief.trajectory, quote.turn, quote.call, &quote.text))
            .collect();
        let dropped = u32::try_from(all - quotes.len()).unwrap_or(u32::MAX);
        (
            RunFocus { text: self.text, open: self.open.filter(|open| !open.trim().is_empty()), quotes },
            dropped,
        )
    }
}
