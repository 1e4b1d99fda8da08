//! Defines the arguments of `retro memories`.

use clap::Subcommand;
use retro_core::id::{MemoryRef, Step, Workflow};
use retro_core::memory::MemoryStatus;

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
        /// Maximum number of memories to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one memory in full.
    Show {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Show all changes to a memory and their reasons.
    Why {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Estimate the effect of a memory by comparing the outcomes of runs with and without it.
    Effect {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Delete a memory; a tombstone blocks similar memories for a time.
    Delete {
        /// Id of the memory, or at least its first 8 digits.
        id: MemoryRef,
        /// Reason for the deletion, stored in the change log; also shown if a similar memory is blocked.
        #[arg(long)]
        reason: String,
        /// Id of this request; repeating a request has no effect [default: derived from id and reason].
        #[arg(long)]
        request: Option<String>,
    },
}
