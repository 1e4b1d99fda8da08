//! What became of runs, by workflow.

use retro_core::id::{Tenant, Workflow};
use retro_core::outcome::{OutcomeSums, WorkflowOutcomes};
use retro_store::track::LinkKey;
use retro_store::{OperatorStore, Result};

/// Links of runs to pull requests that are read at once. A pull request's facts may take some kilobytes, and all of these stay
/// well below a hundred megabytes.
const LINKS_PER_LOOK: u32 = 5_000;

/// The tenant's workflows whose runs belong to pull requests, and what became of those; one workflow, or all by name. However
/// many there are, all are summed up: a run that is linked meanwhile may be in it or not.
pub async fn outcomes(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    workflow: Option<&Workflow>,
) -> Result<Vec<WorkflowOutcomes>> {
    let mut sums = OutcomeSums::default();
    let mut after: Option<LinkKey> = None;
    loop {
        let links = store.run_links(tenant, workflow, after.as_ref(), LINKS_PER_LOOK).await?;
        let whole = links.len() == LINKS_PER_LOOK as usize;
        for (workflow, run, one, facts) in &links {
            sums.add(workflow, run, one, facts);
        }
        match links.into_iter().next_back() {
            Some((workflow, run, one, _)) if whole => after = Some((run, workflow, one)),
            _ => return Ok(sums.told()),
        }
    }
}

#[cfg(test)]
mod tests {
    use retro_core::id::RunId;
    use retro_core::outcome::{PullRequestFacts, PullRequestRef};

    use super::*;
    use crate::world::World;

    #[tokio::test]
    async fn every_run_is_summed_up_however_many_looks_it_takes() {
        let name = |text: &str| Workflow::new(text).expect("a name");
        let link = |nth: u32| {
            let run = RunId::new(format!("{nth:06}")).expect("a name");
            let workflow = name(if nth.is_multiple_of(2) { "ship" } else { "mend" });
            // The links of a run stand on both sides of the end of a look.
            let pulls = [1, 2].map(|number| PullRequestRef::new("acme/shop", number));
            pulls.map(|one| (workflow.clone(), run.clone(), one, PullRequestFacts::default()))
        };
        let links = (0..LINKS_PER_LOOK + 3).flat_map(link).skip(1).collect();
        let world = World { links, ..World::default() };
        let told = outcomes(&world, &Tenant::default_tenant(), None).await.expect("reading");
        let runs: Vec<_> = told.iter().map(|one| (one.workflow.as_str(), one.runs)).collect();
        let half = u64::from(LINKS_PER_LOOK / 2);
        assert_eq!(runs, [("mend", half + 1), ("ship", half + 2)]);
        let one = outcomes(&world, &Tenant::default_tenant(), Some(&name("mend"))).await.expect("reading");
        assert_eq!(one, told[..1]);
    }
}
