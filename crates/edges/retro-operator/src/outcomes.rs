//! Aggregates the outcomes of pull requests per workflow, and of runs per version of their prompt.

pub(crate) mod prompts;

use retro_core::check::is_ci_workflow;
use retro_core::id::{Tenant, Workflow};
use retro_core::outcome::{OutcomeTotals, WorkflowOutcomes};
use retro_store::track::RunLinkKey;
use retro_store::{OperatorStore, Result};

/// Number of links between runs and pull requests loaded per page. The facts of a pull request may take a few
/// kilobytes, so a page stays well below a hundred megabytes.
const LINKS_PER_PAGE: u32 = 5_000;

/// Aggregates the outcomes of the pull requests that a tenant's runs are linked to. Returns one total per
/// workflow, sorted by name, for the given workflow or for all workflows except those of CI. Links are read page by page, so a
/// link that is stored meanwhile may or may not be included.
pub async fn summarize_outcomes(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    workflow: Option<&Workflow>,
) -> Result<Vec<WorkflowOutcomes>> {
    let mut sums = OutcomeTotals::default();
    let mut after: Option<RunLinkKey> = None;
    loop {
        let links = store.list_run_links(tenant, workflow, after.as_ref(), LINKS_PER_PAGE).await?;
        // A full page may be the last one; the next read then returns no links and ends the loop.
        let is_full = links.len() == LINKS_PER_PAGE as usize;
        for (linked, run, one, facts) in &links {
            // CI checks the pull requests that others make. Whoever names its workflow sees it all the same.
            if workflow.is_some() || !is_ci_workflow(linked, &one.repo) {
                sums.add_link(linked, run, one, facts);
            }
        }
        match links.into_iter().next_back() {
            Some((workflow, run, one, _)) if is_full => after = Some((run, workflow, one)),
            _ => return Ok(sums.into_outcomes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use retro_core::id::RunId;
    use retro_core::pull_request::{PullRequestFacts, PullRequestRef};

    use super::*;
    use crate::world::World;

    #[tokio::test]
    async fn every_run_is_counted_across_pages() {
        let name = |text: &str| Workflow::new(text).expect("a name");
        let link = |nth: u32| {
            let run = RunId::new(format!("{nth:06}")).expect("a name");
            let workflow = name(if nth.is_multiple_of(2) { "ship" } else { "mend" });
            // The links of one run continue on the next page.
            let pulls = [1, 2].map(|number| PullRequestRef::new("acme/shop", number));
            pulls.map(|one| (workflow.clone(), run.clone(), one, PullRequestFacts::default()))
        };
        let links = (0..LINKS_PER_PAGE + 3).flat_map(link).skip(1).collect();
        let world = World { links, ..World::default() };
        let totals = summarize_outcomes(&world, &Tenant::default_tenant(), None).await.expect("reading");
        let runs: Vec<_> = totals.iter().map(|one| (one.workflow.as_str(), one.runs)).collect();
        let half = u64::from(LINKS_PER_PAGE / 2);
        assert_eq!(runs, [("mend", half + 1), ("ship", half + 2)]);
        let one = summarize_outcomes(&world, &Tenant::default_tenant(), Some(&name("mend")))
            .await
            .expect("reading");
        assert_eq!(one, totals[..1]);
    }

    #[tokio::test]
    async fn ci_is_totalled_only_where_its_workflow_is_named() {
        let ci = Workflow::new("github.com/acme/shop/ci.yml").expect("a name");
        let run = RunId::new("1").expect("a name");
        let link = (ci.clone(), run, PullRequestRef::new("acme/shop", 1), PullRequestFacts::default());
        let world = World { links: vec![link], ..World::default() };
        let tenant = Tenant::default_tenant();
        assert_eq!(summarize_outcomes(&world, &tenant, None).await.expect("reading"), []);
        let named = summarize_outcomes(&world, &tenant, Some(&ci)).await.expect("reading");
        assert_eq!((named.len(), named[0].runs), (1, 1));
    }
}
