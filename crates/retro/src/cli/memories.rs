//! Defines the arguments of `retro memories`.

use clap::{Args, Subcommand};
use retro_core::audience::RepoVisibility;
use retro_core::feedback::FeedbackVerdict;
use retro_core::id::{MemoryRef, Repository, RunId, Step, Workflow};
use retro_core::memory::MemoryStatus;

use super::audit::AuditArgs;
use super::repository::parse_repository;
use super::variant::parse_variant;

#[derive(Debug, Subcommand)]
pub(crate) enum Memories {
    /// List memories, highest weight first.
    List(ListMemories),
    /// Find the memories and rules about a text, of those that a run may be handed, as an agent would.
    Search(SearchMemories),
    /// Show one memory in full: its text, its evidence and, if it is held, why.
    Show {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Show all changes to a memory and their reasons.
    Why {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Estimate the effect of a memory from the runs that it was withheld from by chance.
    Effect {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Add a memory in your own words. Agents of the step are handed it at once, unless the gate holds it.
    Add {
        /// Workflow that the memory is for.
        #[arg(long)]
        workflow: Workflow,
        /// Step that the memory is for.
        #[arg(long, default_value_t = Step::main())]
        step: Step,
        /// Repository whose runs are handed the memory [default: those of every repository and of none].
        #[arg(long, value_parser = parse_repository)]
        repo: Option<Repository>,
        /// The lesson in one sentence, which agents are handed.
        #[arg(long)]
        title: String,
        /// Details that an agent gets when it opens the memory [default: the title].
        #[arg(long)]
        content: Option<String>,
        #[command(flatten)]
        command: AttributedArgs,
    },
    /// Say what a memory or a rule did. The next retrospective weighs it; nothing changes at once.
    Feedback(FeedbackArgs),
    #[command(flatten)]
    Change(MemoryChanges),
}

/// Arguments of `retro memories feedback`.
#[derive(Debug, Args)]
pub(crate) struct FeedbackArgs {
    /// Id of the memory or rule, or at least its first 8 digits.
    pub(crate) id: MemoryRef,
    /// What it did: helped, hurt, or wrong if what it says is not so.
    #[arg(value_parser = parse_variant::<FeedbackVerdict>)]
    pub(crate) verdict: FeedbackVerdict,
    /// Why, in at most 1024 bytes. People are shown it, agents are not.
    #[arg(long)]
    pub(crate) why: Option<String>,
    /// Run for whose agent you speak.
    #[arg(long, requires = "workflow", conflicts_with = "by")]
    pub(crate) run: Option<RunId>,
    /// Workflow of the run.
    #[arg(long, requires = "run")]
    pub(crate) workflow: Option<Workflow>,
    /// Step of the run.
    #[arg(long, requires = "run")]
    pub(crate) step: Option<Step>,
    /// Name of the person who says so.
    #[arg(long, required_unless_present = "run")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ListMemories {
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Filter by step.
    #[arg(long)]
    pub(crate) step: Option<Step>,
    /// Filter by status: tentative, active, archived, deleted, superseded or graduated.
    #[arg(long, value_parser = parse_variant::<MemoryStatus>)]
    pub(crate) status: Option<MemoryStatus>,
    /// Print only memories that are held until a person releases or retires them.
    #[arg(long)]
    pub(crate) held: bool,
    /// Maximum number of memories to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SearchMemories {
    /// What to search for, in plain text.
    pub(crate) query: String,
    /// Workflow whose memories are searched.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Name of the step whose memories are searched.
    #[arg(long, default_value_t = Step::main())]
    pub(crate) step: Step,
    /// Repository that the run works on, as [host/]owner/name; its rules are searched, too.
    #[arg(long, value_parser = parse_repository, required_unless_present = "workflow")]
    pub(crate) repo: Option<Repository>,
    /// Who may read the repository: public or private; as for the context.
    #[arg(long, value_parser = parse_variant::<RepoVisibility>, requires = "repo")]
    pub(crate) repo_visibility: Option<RepoVisibility>,
    /// Id of the run that searches; what was found is recorded as presented to it [default: nothing is recorded].
    #[arg(long, requires = "workflow")]
    pub(crate) run: Option<RunId>,
    /// Maximum number of memories and rules to find, from 1 to 20.
    #[arg(long, short = 'k', default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) limit: u8,
}

/// Commands that change one memory or rule, alike for both.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryChanges {
    /// Word a memory or a rule anew. It keeps its weight, evidence and history.
    Edit {
        #[command(flatten)]
        target: MemoryCommandArgs,
        /// The lesson in one sentence [default: as it is].
        #[arg(long, required_unless_present = "content")]
        title: Option<String>,
        /// Details that an agent gets when it opens the memory [default: as they are].
        #[arg(long)]
        content: Option<String>,
    },
    /// Pin a memory or a rule: it loses weight only by harm and contradiction.
    Pin(MemoryCommandArgs),
    /// Remove the pin of a memory or a rule.
    Unpin(MemoryCommandArgs),
    /// Disable a memory or a rule: no agent is handed it, and it keeps its weight and evidence.
    Disable(MemoryCommandArgs),
    /// Enable a disabled memory or rule.
    Enable(MemoryCommandArgs),
    /// Take back the deletion of a memory or a rule, within the time of its tombstone.
    #[command(visible_alias = "undelete")]
    Restore(MemoryCommandArgs),
    /// Release a memory or a rule that is held, so that agents are shown it as its weight allows.
    Release(MemoryCommandArgs),
    /// Retire a memory or a rule: it is deleted, and a tombstone blocks similar ones for a time.
    #[command(visible_alias = "delete")]
    Retire(MemoryCommandArgs),
}

/// Arguments of a command about one memory.
#[derive(Debug, Args)]
pub(crate) struct MemoryCommandArgs {
    /// Id of the memory or rule, or at least its first 8 digits.
    pub(crate) id: MemoryRef,
    #[command(flatten)]
    pub(crate) command: AttributedArgs,
}

/// Arguments of a command that is recorded.
#[derive(Debug, Args)]
pub(crate) struct AttributedArgs {
    #[command(flatten)]
    pub(crate) act: AuditArgs,
    /// Idempotency key: a repeated request with the same key has no further effect [default: derived from the
    /// arguments].
    #[arg(long)]
    pub(crate) request: Option<String>,
}
