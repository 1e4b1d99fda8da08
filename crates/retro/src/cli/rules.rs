//! `retro rules`.

use clap::Subcommand;
use retro_core::id::{MemoryRef, ReviewBatchId};
use retro_core::memory::Status;
use retro_core::review::Repository;

use super::memories::status;
use super::who::ActArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// List rules, heaviest first.
    List {
        /// Only of this repository: owner/name, after its host unless that is github.com.
        #[arg(long, value_parser = repository)]
        repo: Option<Repository>,
        /// Only of this status: tentative, active, archived, deleted, superseded or graduated.
        #[arg(long, value_parser = status)]
        status: Option<Status>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one rule in full: what it says, who asked for it, and why it is quarantined if it is.
    Show {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Show every change of a rule and its reason.
    Why {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Vouch for a rule that is tentative, quarantined or archived: it is active from now on.
    Promote {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
        #[command(flatten)]
        act: ActArgs,
        /// Identifies this request, so that repeating it changes nothing [default: derived from what is asked].
        #[arg(long)]
        request: Option<String>,
    },
    /// Delete a rule; a tombstone keeps anything similar away for a time.
    Retire {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
        #[command(flatten)]
        act: ActArgs,
        /// Identifies this request, so that repeating it changes nothing [default: derived from what is asked].
        #[arg(long)]
        request: Option<String>,
    },
    /// What became of reviews: list the reports, the newest first, or show one.
    Reports {
        /// Show this one.
        id: Option<ReviewBatchId>,
        /// Only of this repository.
        #[arg(long, value_parser = repository)]
        repo: Option<Repository>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

pub(crate) fn repository(text: &str) -> Result<Repository, String> {
    Repository::new(text).map_err(|error| error.to_string())
}
