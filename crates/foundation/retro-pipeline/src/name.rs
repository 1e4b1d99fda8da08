//! The prompts of the pipelines, and their variables.

use retro_core::pipeline::PipelineName;

/// A prompt of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromptName {
    /// Instructions to a model that investigates a run, the same for every run, so that a provider can cache them.
    System,
    /// First message: what is the same for all runs of a retrospective.
    Workflow,
    /// Second message: what is about one run.
    Run,
    /// Instructions to the model that shortens what a prompt says about earlier runs.
    Compact,
    /// Instructions to the model that answers a question about one step of a run.
    Step,
    /// Instructions to a model that reads reviews, the same for every review.
    ReviewSystem,
    /// Message with the remarks of a review.
    Remarks,
}

/// A variable of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptVariable {
    /// Name of the variable.
    pub name: &'static str,
    /// What it holds.
    pub doc: &'static str,
    /// `true` if it may be empty, so that `{% if … %}` skips what stands around it.
    pub may_be_empty: bool,
}

const fn always(name: &'static str, doc: &'static str) -> PromptVariable {
    PromptVariable { name, doc, may_be_empty: false }
}

const fn sometimes(name: &'static str, doc: &'static str) -> PromptVariable {
    PromptVariable { name, doc, may_be_empty: true }
}

const WORKFLOW_VARIABLES: &[PromptVariable] = &[always(
    "workflow_brief",
    "Steps of the workflow and what its runs call, their usual outcomes, and its active memories with weights. Computed once a \
     retrospective, of the run's repository.",
)];

const RUN_VARIABLES: &[PromptVariable] = &[
    always(
        "facts",
        "Outcome, task, repository and prompt version of the run, and the agent's remarks about its steps.",
    ),
    always("steps", "Steps of the run, each with its turns and how many calls it has and how many failed."),
    always("failing_calls", "Calls that seem to have failed, shortened."),
    always("heuristic_findings", "What the heuristics found in the run."),
    always("memories", "Memories that the agent was given, with weights."),
    always("earlier_findings", "What was found in the earlier runs of the retrospective."),
    sometimes(
        "whole_run",
        "All turns of a run that is short enough to be read at once. Empty for a longer one, which is read with tools.",
    ),
    sometimes("question", "Question of a person. Empty unless one is asked."),
    sometimes(
        "earlier_answers",
        "Answers to the question about the earlier runs. Empty unless a question is asked.",
    ),
    sometimes(
        "last_problem",
        "Why the last answer about this run could not be used. Empty unless one could not.",
    ),
];

const REMARKS_VARIABLES: &[PromptVariable] = &[
    always("repository", "Name of the repository."),
    always("remarks", "The remarks, each with its number, its place and its text."),
];

impl PromptName {
    /// Returns the prompts of a pipeline, the instructions first.
    pub const fn of_pipeline(pipeline: PipelineName) -> &'static [Self] {
        match pipeline {
            PipelineName::Retrospective => {
                &[Self::System, Self::Workflow, Self::Run, Self::Compact, Self::Step]
            }
            PipelineName::Review => &[Self::ReviewSystem, Self::Remarks],
        }
    }

    /// Returns the pipeline of the prompt.
    pub const fn pipeline(self) -> PipelineName {
        match self {
            Self::System | Self::Workflow | Self::Run | Self::Compact | Self::Step => {
                PipelineName::Retrospective
            }
            Self::ReviewSystem | Self::Remarks => PipelineName::Review,
        }
    }

    /// Returns the name of the file, below `prompts/`.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::System | Self::ReviewSystem => "system.md",
            Self::Workflow => "workflow.md",
            Self::Run => "run.md",
            Self::Compact => "compact.md",
            Self::Step => "step.md",
            Self::Remarks => "remarks.md",
        }
    }

    /// Finds a prompt of a pipeline by the name of its file.
    pub fn find_by_file(pipeline: PipelineName, name: &str) -> Option<Self> {
        Self::of_pipeline(pipeline).iter().copied().find(|one| one.file_name() == name)
    }

    /// Returns the shipped text.
    pub const fn shipped_text(self) -> &'static str {
        match self {
            Self::System => include_str!("../../../../pipelines/retrospective/prompts/system.md"),
            Self::Workflow => include_str!("../../../../pipelines/retrospective/prompts/workflow.md"),
            Self::Run => include_str!("../../../../pipelines/retrospective/prompts/run.md"),
            Self::ReviewSystem => include_str!("../../../../pipelines/review/prompts/system.md"),
            Self::Remarks => include_str!("../../../../pipelines/review/prompts/remarks.md"),
            Self::Compact => include_str!("../../../../pipelines/retrospective/prompts/compact.md"),
            Self::Step => include_str!("../../../../pipelines/retrospective/prompts/step.md"),
        }
    }

    /// Returns the variables that the prompt may use. Instructions have none: they are the same for every run and review.
    pub const fn variables(self) -> &'static [PromptVariable] {
        match self {
            Self::System | Self::Compact | Self::Step | Self::ReviewSystem => &[],
            Self::Workflow => WORKFLOW_VARIABLES,
            Self::Run => RUN_VARIABLES,
            Self::Remarks => REMARKS_VARIABLES,
        }
    }
}
