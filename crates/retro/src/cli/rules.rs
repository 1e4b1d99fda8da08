//! Defines the arguments of `retro rules`.

use clap::Subcommand;
use retro_core::id::{MemoryRef, Repository, ReviewBatchId};
use retro_core::memory::MemoryStatus;

use super::audit::AuditArgs;
use super::variant::parse_variant;

#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// List rules, highest weight first.
    List {
        /// Filter by repository, as [host/]owner/name; the default host is github.com.
        #[arg(long, value_parser = parse_repository)]
        repo: Option<Repository>,
        /// Filter by status: tentative, active, archived, deleted, superseded or graduated. A held rule keeps its
        /// status.
        #[arg(long, value_parser = parse_variant::<MemoryStatus>)]
        status: Option<MemoryStatus>,
        /// Print only rules that are held until a person promotes, releases or retires them.
        #[arg(long)]
        held: bool,
        /// Maximum number of rules to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one rule in full: its text, who asked for it and, if it is held, why.
    Show {
        /// Id of the rule, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Show all changes to a rule and their reasons.
    Why {
        /// Id of the rule, or at least its first 8 digits.
        id: MemoryRef,
    },
    /// Activate a tentative, held or archived rule. One that leads to a danger is held again until it is released.
    Promote {
        /// Id of the rule, or at least its first 8 digits.
        id: MemoryRef,
        #[command(flatten)]
        act: AuditArgs,
        /// Idempotency key: a repeated request with the same key has no further effect [default: derived from the
        /// arguments].
        #[arg(long)]
        request: Option<String>,
    },
    /// Retire a rule: it is deleted, and a tombstone blocks similar rules for a time.
    Retire {
        /// Id of the rule, or at least its first 8 digits.
        id: MemoryRef,
        #[command(flatten)]
        act: AuditArgs,
        /// Idempotency key: a repeated request with the same key has no further effect [default: derived from the
        /// arguments].
        #[arg(long)]
        request: Option<String>,
    },
    /// List the reports of reviews, newest first, or show a single report.
    Reports {
        /// Id of the report to show.
        id: Option<ReviewBatchId>,
        /// Filter by repository, as [host/]owner/name; the default host is github.com.
        #[arg(long, value_parser = parse_repository)]
        repo: Option<Repository>,
        /// Maximum number of reports to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

pub(crate) fn parse_repository(text: &str) -> Result<Repository, String> {
    Repository::new(text).map_err(|error| error.to_string())
}
