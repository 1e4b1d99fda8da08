//! Defines the arguments of `retro github`.

use clap::{Args, Subcommand};
use retro_core::id::Repository;

use super::repository::parse_repository;

#[derive(Debug, Subcommand)]
pub(crate) enum Github {
    /// Fetch what a bridge missed of one pull request, with the token of `github_token_file`.
    ///
    /// Publishes the events that GitHub's webhooks would have given: the state of the pull request, its reviews
    /// and comments, the commits that name a run, and the finished workflow runs of its head commit. The tenant
    /// is the one that `github_tenants` maps the repository to. What is known already changes nothing, so the
    /// command can be repeated. Comments that were deleted, and threads that were resolved, cannot be fetched.
    Sync(GithubSync),
}

#[derive(Debug, Args)]
pub(crate) struct GithubSync {
    /// Repository of the pull request, as [host/]owner/name; the default host is that of `github_host`.
    #[arg(long, value_parser = parse_repository)]
    pub(crate) repo: Repository,
    /// Number of the pull request.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) pr: u64,
    /// Print what would be published, and publish nothing. Needs no broker.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
