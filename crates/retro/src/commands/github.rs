//! Runs `retro github sync`, which fetches one pull request and publishes the events that webhooks would have
//! given.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use retro_bus::NatsIntakePublisher;
use retro_config::Config;
use retro_core::id::Tenant;
use retro_events::github::tenants::GithubTenants;
use retro_github::{
    Publishers, PullRequestRecord, SyncedEvent, WebhookContent, WebhookPublisher, events_of_record,
};
use retro_github_api::{FetchedList, FetchedPullRequest};
use serde::Serialize;

use crate::cli::{GithubSync, Output};
use crate::clock::SystemClock;
use crate::emit::connect_broker;
use crate::exit::Exit;
use crate::{github, output};

/// Result of `retro github sync`.
#[derive(Debug, Serialize)]
struct SyncSummary {
    /// Tenant of the repository.
    tenant: Tenant,
    /// Repository as `owner/name`.
    repo: String,
    /// Number of the pull request.
    pull_request: u64,
    /// `true` if nothing was published.
    dry_run: bool,
    /// Number of events by GitHub's name of the event.
    events: BTreeMap<&'static str, usize>,
    /// Number of objects that give no event, by event and reason, such as commits that name no run.
    left_out: BTreeMap<String, usize>,
    /// Lists of which only the beginning was fetched.
    truncated: Vec<&'static str>,
    /// Events in the order of publication; empty unless `dry_run`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    planned: Vec<PlannedEvent>,
}

/// An event that would be published.
#[derive(Debug, Serialize)]
struct PlannedEvent {
    event: &'static str,
    id: String,
    at: Option<String>,
    /// What the event is about, such as the id of a comment.
    about: String,
}

/// Fetches a pull request and publishes its events, unless `--dry-run` is given.
pub(crate) async fn run_sync(config: &Config, output: Output, args: &GithubSync) -> anyhow::Result<Exit> {
    let Some(api) = github::connect_api(config)? else {
        bail!(
            "no token: write one with read access to the repository into a file and name it with \
             github_token_file in the configuration, or RETRO_GITHUB_TOKEN_FILE"
        );
    };
    let repo = find_repository(config, args)?;
    let tenants = config.github_tenants()?;
    let host = &config.github_host;
    let tenant = find_tenant(&tenants, host, &repo)?;
    let what = format!("pull request {} of {host}/{repo} cannot be fetched", args.pr);
    let fetched = api.fetch_pull_request(&repo, args.pr).await.with_context(|| what)?;
    let truncated = list_truncated(&fetched);
    let (mut events, mut left_out) = (Vec::new(), BTreeMap::<String, usize>::new());
    for result in events_of_record(&to_record(fetched)) {
        match result {
            Ok(event) => events.push(event),
            Err((event, reason)) => *left_out.entry(format!("{event}: {reason}")).or_default() += 1,
        }
    }
    let mut summary = SyncSummary {
        tenant: tenant.clone(),
        repo,
        pull_request: args.pr,
        dry_run: args.dry_run,
        events: BTreeMap::new(),
        left_out,
        truncated,
        planned: Vec::new(),
    };
    check_origin(&events, &tenants, &tenant)?;
    if args.dry_run {
        for event in &events {
            *summary.events.entry(event.event).or_default() += 1;
        }
        summary.planned = events.iter().map(plan_event).collect();
    } else {
        publish_events(config, tenants, &tenant, events, &mut summary).await?;
    }
    output::print_data(output, &summary, || format_summary(&summary))?;
    Ok(Exit::Done)
}

/// Returns the repository as `owner/name`. Fails if it is at another host than the token is for.
fn find_repository(config: &Config, args: &GithubSync) -> anyhow::Result<String> {
    let parts: Vec<&str> = args.repo.as_str().split('/').collect();
    let (host, repo) = match parts[..] {
        [owner, name] => (None, format!("{owner}/{name}")),
        [host, owner, name] => (Some(host), format!("{owner}/{name}")),
        _ => bail!("--repo {}: expected [host/]owner/name", args.repo),
    };
    if let Some(host) = host.filter(|host| !host.eq_ignore_ascii_case(&config.github_host)) {
        bail!(
            "--repo {}: the token is for {}, not for {host}; see github_host",
            args.repo,
            config.github_host
        );
    }
    Ok(repo)
}

fn find_tenant(tenants: &GithubTenants, host: &str, repo: &str) -> anyhow::Result<Tenant> {
    tenants.find_tenant_by_name(host, repo).cloned().with_context(|| {
        format!(
            "{host}/{repo} belongs to no tenant: map it by its name in github_tenants of the configuration; an \
             installation's number does not help, because only webhooks contain it"
        )
    })
}

/// Fails if GitHub answered with a repository of another tenant, as after it was moved.
fn check_origin(events: &[SyncedEvent], tenants: &GithubTenants, tenant: &Tenant) -> anyhow::Result<()> {
    for SyncedEvent { webhook, .. } in events {
        if tenants.find_tenant_by_name(&webhook.host, &webhook.repo) != Some(tenant) {
            bail!(
                "GitHub answers for {}/{}, which github_tenants does not map to the tenant {tenant}; is \
                 github_host right?",
                webhook.host,
                webhook.repo
            );
        }
    }
    Ok(())
}

fn list_truncated(fetched: &FetchedPullRequest) -> Vec<&'static str> {
    let lists: [(&'static str, &FetchedList); 5] = [
        ("reviews", &fetched.reviews),
        ("review comments", &fetched.review_comments),
        ("comments", &fetched.issue_comments),
        ("commits", &fetched.commits),
        ("workflow runs", &fetched.workflow_runs),
    ];
    lists.into_iter().filter(|(_, list)| list.truncated).map(|(name, _)| name).collect()
}

fn to_record(fetched: FetchedPullRequest) -> PullRequestRecord {
    PullRequestRecord {
        pull_request: fetched.pull_request,
        reviews: fetched.reviews.items,
        review_comments: fetched.review_comments.items,
        issue_comments: fetched.issue_comments.items,
        commits: fetched.commits.items,
        workflow_runs: fetched.workflow_runs.items,
    }
}

/// Publishes the events in order, each when the broker has the one before on disk.
async fn publish_events(
    config: &Config,
    tenants: GithubTenants,
    tenant: &Tenant,
    events: Vec<SyncedEvent>,
    summary: &mut SyncSummary,
) -> anyhow::Result<()> {
    let intake = Arc::new(NatsIntakePublisher::new(connect_broker(config, "retro-github-sync").await?));
    let publishers = Publishers { events: intake.clone(), runs: intake };
    let publisher = WebhookPublisher::new(Arc::new(tenants), publishers, Arc::new(SystemClock))
        .with_log_host(github::log_host(config));
    let total = events.len();
    for (nth, SyncedEvent { event, id, webhook }) in events.into_iter().enumerate() {
        publisher.publish(tenant, webhook, &id).await.with_context(|| {
            format!("stopped after {nth} of {total} events; it is safe to run the command again")
        })?;
        *summary.events.entry(event).or_default() += 1;
    }
    Ok(())
}

fn plan_event(event: &SyncedEvent) -> PlannedEvent {
    let about = match &event.webhook.content {
        WebhookContent::Run(run) => {
            format!("run {}, attempt {}, of {}", run.run.run_id, run.run.attempt, run.workflow)
        }
        WebhookContent::Repository(data) => data.what.describe(),
    };
    let at = event.webhook.occurred_at.map(|at| at.to_string());
    PlannedEvent { event: event.event, id: event.id.clone(), at, about }
}

fn format_summary(summary: &SyncSummary) -> String {
    let SyncSummary { tenant, repo, pull_request, dry_run, events, .. } = summary;
    let total: usize = events.values().sum();
    let verb = if *dry_run { "would publish" } else { "published" };
    let kinds: Vec<String> = events.iter().map(|(event, count)| format!("{event} {count}")).collect();
    let mut text = format!(
        "{verb} {total} events of pull request {pull_request} of {repo} for the tenant {tenant} ({})",
        kinds.join(", ")
    );
    for PlannedEvent { event, id, at, about } in &summary.planned {
        let at = at.as_deref().unwrap_or("now");
        text += &format!("\n  {event}  {about}  {at}  {id}");
    }
    for (reason, count) in &summary.left_out {
        text += &format!("\nleft out {count}: {reason}");
    }
    for list in &summary.truncated {
        text += &format!("\nthere are more {list}, which were not fetched: the list is too long");
    }
    text
}
