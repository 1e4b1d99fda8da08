//! Fetches the logs of the jobs that failed in a workflow run.

use async_trait::async_trait;
use retro_core::id::Tenant;
use retro_core::run::GithubLogRef;
use retro_events::github::tenants::GithubTenants;
use retro_events::{JobLog, JobLogFetcher, ObjectError};
use serde_json::Value;

use crate::client::GithubApi;
use crate::error::ApiError;

/// Maximum number of failed jobs of a run whose logs are read. Further ones are often the same failure in
/// another cell of a matrix.
pub const JOBS_MAX: usize = 3;
/// Maximum number of pages of a run's jobs. GitHub allows 256 jobs in a matrix.
const JOB_PAGES_MAX: usize = 3;

/// Fetches logs of jobs for the tenants that the repositories are mapped to.
pub struct GithubLogs {
    api: GithubApi,
    tenants: GithubTenants,
}

impl GithubLogs {
    /// Creates a fetcher that uses this client.
    pub const fn new(api: GithubApi, tenants: GithubTenants) -> Self {
        Self { api, tenants }
    }

    /// Fails unless the repository is the tenant's by its name. Anyone who may send runs of a tenant can name
    /// any repository in an event, and the token may be able to read those of other tenants.
    fn check_owner(&self, tenant: &Tenant, of: &GithubLogRef) -> Result<(), String> {
        if !of.host.eq_ignore_ascii_case(self.api.host()) {
            return Err(format!("github_token is for {}, not for {}", self.api.host(), of.host));
        }
        if self.tenants.find_tenant_by_name(&of.host, &of.repo) != Some(tenant) {
            return Err(format!("github_tenants maps no such repository to the tenant {tenant}"));
        }
        Ok(())
    }

    async fn fetch_jobs(&self, of: &GithubLogRef) -> Result<Vec<JobLog>, ApiError> {
        let GithubLogRef { repo, run, attempt, .. } = of;
        let at = format!("/repos/{repo}/actions/runs/{run}/attempts/{attempt}/jobs");
        let (jobs, _) = self.api.get_list(&at, Some("jobs"), JOB_PAGES_MAX).await?;
        let mut logs = Vec::new();
        let mut problem = ApiError::NotFound(format!("failed job of run {run}, attempt {attempt}"));
        for job in jobs.iter().filter(|job| has_failed(job)).take(JOBS_MAX) {
            let Some(id) = job["id"].as_u64() else { continue };
            match self.api.get_log_tail(&format!("/repos/{repo}/actions/jobs/{id}/logs")).await {
                Ok(log) => logs.push(JobLog {
                    job: job["name"].as_str().unwrap_or_default().to_owned(),
                    step: failed_step(job),
                    log: log.into(),
                }),
                Err(error) if error.is_transient() => return Err(error),
                // One log may be missing while those of the other jobs are still there.
                Err(error) => problem = error,
            }
        }
        if logs.is_empty() { Err(problem) } else { Ok(logs) }
    }
}

#[async_trait]
impl JobLogFetcher for GithubLogs {
    async fn fetch_failed_jobs(
        &self,
        tenant: &Tenant,
        of: &GithubLogRef,
    ) -> Result<Vec<JobLog>, ObjectError> {
        let gone = |problem| ObjectError::Gone { name: of.to_string(), problem };
        self.check_owner(tenant, of).map_err(gone)?;
        self.fetch_jobs(of).await.map_err(|error| match error.is_transient() {
            true => ObjectError::Unavailable(format!("{of}: {error}")),
            false => gone(error.to_string()),
        })
    }
}

fn has_failed(part: &Value) -> bool {
    matches!(part["conclusion"].as_str(), Some("failure" | "timed_out" | "startup_failure"))
}

/// Returns the name of the first step of a job that failed.
fn failed_step(job: &Value) -> Option<String> {
    let steps = job["steps"].as_array()?;
    steps.iter().find(|step| has_failed(step))?["name"].as_str().map(str::to_owned)
}
