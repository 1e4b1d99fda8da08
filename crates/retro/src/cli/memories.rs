//! `retro memories`.

use clap::Subcommand;
use retro_core::id::{MemoryRef, Step, Workflow};
use retro_core::memory::Status;

#[derive(Debug, Subcommand)]
pub(crate) enum Memories {
    /// List memories, heaviest first.
    List {
        /// Only of this workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// Only of this step.
        #[arg(long)]
        step: Option<Step>,
        /// Only of this status: tentative, active, archived, deleted, superseded or graduated.
        #[arg(long, value_parser = status)]
        status: Option<Status>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one memory in full.
    Show {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Show every change of a memory and its reason.
    Why {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Compare the runs that met a memory with those that did not: does it help?
    Effect {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Delete a memory; a tombstone keeps anything similar away for a time.
    Delete {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
        /// Why: it stands in the change log and in every later refusal.
        #[arg(long)]
        reason: String,
        /// Identifies this request, so that repeating it changes nothing [default: derived from id and reason].
        #[arg(long)]
        request: Option<String>,
    },
}

pub(super) fn status(text: &str) -> Result<Status, String> {
    let known = || Status::ALL.map(Status::as_str).join(", ");
    Status::ALL.into_iter().find(|one| one.as_str() == text).ok_or_else(|| format!("one of: {}", known()))
}
