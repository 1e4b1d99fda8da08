//! Defines the arguments of `retro memories`.

use clap::Subcommand;
use retro_core::id::{MemoryRef, Step, Workflow};
use retro_core::memory::MemoryStatus;

use super::audit::AuditArgs;
use super::variant::parse_variant;

#[derive(Debug, Subcommand)]
pub(crate) enum Memories {
    /// List memories, highest weight first.
    List {
        /// Filter by workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// Filter by step.
        #[arg(long)]
        step: Option<Step>,
        /// Filter by status: tentative, active, archived, deleted, superseded or graduated.
        #[arg(long, value_parser = parse_variant::<MemoryStatus>)]
        status: Option<MemoryStatus>,
        /// Print only memories that are held until a person releases or retires them.
        #[arg(long)]
        held: bool,
        /// Maximum number of memories to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
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
    /// Release a memory or a rule that is held, so that agents are shown it as its weight allows.
    Release {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
        #[command(flatten)]
        act: AuditArgs,
        /// Idempotency key: a repeated request with the same key has no further effect [default: derived from the
        /// arguments].
        #[arg(long)]
        request: Option<String>,
    },
    /// Retire a memory: it is deleted, and a tombstone blocks similar memories for a time.
    #[command(visible_alias = "delete")]
    Retire {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
        #[command(flatten)]
        act: AuditArgs,
        /// Idempotency key: a repeated request with the same key has no further effect [default: derived from the
        /// arguments].
        #[arg(long)]
        request: Option<String>,
    },
}
