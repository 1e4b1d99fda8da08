//! Defines the arguments of `retro rules`.

use clap::{Args, Subcommand};
use retro_core::id::{MemoryRef, ObjectRef, RemarkKey, Repository};
use retro_core::memory::MemoryStatus;
use retro_core::review::ReadingKind;

use super::memories::{AttributedArgs, MemoryChanges};
use super::repository::parse_repository;
use super::variant::parse_variant;

#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// List rules, highest weight first.
    List(ListRules),
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
    /// Add a rule in your own words. Agents of the repository are handed it at once, unless the gate holds it.
    Add {
        /// Repository of the rule, as [host/]owner/name; the default host is github.com.
        #[arg(long, value_parser = parse_repository)]
        repo: Repository,
        /// Folder or file to which the rule is limited [default: the whole repository].
        #[arg(long)]
        path: Option<String>,
        /// The rule as one instruction, which agents are handed.
        #[arg(long)]
        title: String,
        /// Details that an agent gets when it opens the rule [default: the title].
        #[arg(long)]
        content: Option<String>,
        #[command(flatten)]
        command: AttributedArgs,
    },
    /// Activate a tentative, held or archived rule, or make a remark a rule. What leads to a danger is held until it is
    /// released.
    Promote {
        /// Id of the rule, or at least its first 8 digits.
        #[arg(required_unless_present = "remark", conflicts_with = "remark")]
        id: Option<MemoryRef>,
        /// Key of a remark that the reviewer did not take for a rule, as `retro rules reports` shows it.
        #[arg(long)]
        remark: Option<RemarkKey>,
        /// The rule as one instruction [default: the words of the remark].
        #[arg(long, requires = "remark")]
        title: Option<String>,
        /// Details that an agent gets when it opens the rule [default: the title, or the words of the remark].
        #[arg(long, requires = "remark")]
        content: Option<String>,
        /// Folder or file to which the rule is limited [default: the one that the remark names, if it names one].
        #[arg(long, requires = "remark")]
        path: Option<String>,
        #[command(flatten)]
        command: AttributedArgs,
    },
    #[command(flatten)]
    Change(MemoryChanges),
    /// List what reviewers said, as it was read last. One-offs are examples of what reviewers ask of one pull request.
    Remarks {
        /// Filter by repository, as [host/]owner/name; the default host is github.com.
        #[arg(long, value_parser = parse_repository)]
        repo: Option<Repository>,
        /// Filter by kind: rule, one-off, question, praise or noise.
        #[arg(long, value_parser = parse_variant::<ReadingKind>)]
        kind: Option<ReadingKind>,
        /// Maximum number of remarks to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// List the reports of reviews, newest first, or show a single report.
    Reports {
        /// Id of the report to show, or at least its first 8 digits.
        id: Option<ObjectRef>,
        /// Filter by repository, as [host/]owner/name; the default host is github.com.
        #[arg(long, value_parser = parse_repository)]
        repo: Option<Repository>,
        /// Maximum number of reports to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListRules {
    /// Filter by repository, as [host/]owner/name; the default host is github.com.
    #[arg(long, value_parser = parse_repository)]
    pub(crate) repo: Option<Repository>,
    /// Filter by status: tentative, active, archived, deleted, superseded or graduated. A held rule keeps its
    /// status.
    #[arg(long, value_parser = parse_variant::<MemoryStatus>)]
    pub(crate) status: Option<MemoryStatus>,
    /// Print only rules that are held until a person promotes, releases or retires them.
    #[arg(long)]
    pub(crate) held: bool,
    /// Maximum number of rules to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}
