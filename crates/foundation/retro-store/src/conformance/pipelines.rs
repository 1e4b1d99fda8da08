//! Checks the versions of the pipeline: stored when a retrospective opens under one, and never overwritten.

use retro_core::attribution::Attribution;
use retro_core::pipeline::{PipelineContents, PipelineName, PipelineVersion};
use serde_json::json;

use super::Database;
use super::scenario::{Scenario, test_tenant, time_at};
use crate::PipelineRevert;

fn version(prompt: &str) -> PipelineVersion {
    let contents = PipelineContents {
        policy: json!({"threshold_runs": 3}),
        prompts: [("run.md".to_owned(), prompt.to_owned())].into(),
        files: [("retrospective/prompts/run.md".to_owned(), prompt.to_owned())].into(),
        ..PipelineContents::default()
    };
    PipelineVersion::new(contents, "/etc/retro/pipelines")
}

fn scenario_under<'a>(database: &'a Database, tenant: &str, prompt: &str) -> Scenario<'a> {
    let mut scenario = Scenario::new(&*database.one, tenant, "w");
    (scenario.policy.threshold_runs, scenario.policy.sample_permille) = (2, 1000);
    scenario.policy.pipeline = Some(version(prompt));
    scenario
}

/// Checks that a version is there for whoever investigates, is not stored twice, and is the tenant's own.
pub async fn a_version_is_stored_with_the_first_retrospective_under_it(database: &Database) {
    let scenario = scenario_under(database, "t", "{{ facts }} ä");
    let tenant = &scenario.key.tenant;
    scenario.count_runs(&["r1"]).await;
    assert_eq!(
        database.one.list_pipelines(tenant, PipelineName::Retrospective, 10).await.expect("listing"),
        []
    );
    scenario.count_runs(&["r2"]).await;
    let opened = scenario.latest_retrospective().await;
    let expected = version("{{ facts }} ä");
    assert_eq!(opened.pipeline.as_ref(), Some(expected.hashes()));
    let hash = &expected.hashes().pipeline;
    let stored =
        database.two.load_pipeline(tenant, PipelineName::Retrospective, hash).await.expect("reading");
    assert_eq!(stored.as_ref(), Some(expected.contents()));
    let rows = database.two.list_pipelines(tenant, PipelineName::Retrospective, 10).await.expect("listing");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        (&row.hash, &row.loaded_from[..], row.retrospective),
        (hash, "/etc/retro/pipelines", Some(opened.id))
    );
    assert_eq!((row.quality.retrospectives, row.quality.made), (0, 0), "it is still open");
    assert_eq!(
        database.one.find_pipelines(tenant, &hash.as_str()[..6]).await.expect("finding"),
        vec![(PipelineName::Retrospective, hash.clone())]
    );
    assert_eq!(
        database.one.find_pipelines(tenant, "").await.expect("finding"),
        vec![(PipelineName::Retrospective, hash.clone())]
    );
    assert_eq!(database.one.find_pipelines(tenant, "zz").await.expect("finding"), []);
    let stranger = test_tenant("stranger");
    assert_eq!(
        database.one.load_pipeline(&stranger, PipelineName::Retrospective, hash).await.expect("reading"),
        None
    );
    assert_eq!(database.one.find_pipelines(&stranger, "").await.expect("finding"), []);
    assert_eq!(
        database.one.list_pipelines(&stranger, PipelineName::Retrospective, 10).await.expect("listing"),
        []
    );
    // Another workflow of the tenant opens under the same version, and one under another.
    for (workflow, prompt, versions) in [("v", "{{ facts }} ä", 1), ("u", "{{ facts }}", 2)] {
        let mut other = Scenario::new(&*database.one, "t", workflow);
        (other.policy.threshold_runs, other.policy.pipeline) = (1, Some(version(prompt)));
        other.count_runs(&[workflow]).await;
        assert_eq!(
            database
                .one
                .list_pipelines(tenant, PipelineName::Retrospective, 10)
                .await
                .expect("listing")
                .len(),
            versions
        );
    }
    assert_eq!(
        database.one.list_pipelines(tenant, PipelineName::Retrospective, 1).await.expect("listing").len(),
        1
    );
}

/// Checks that a memory counts for the version under which it was made, and the report and its changes name it.
pub async fn a_version_has_what_became_of_its_memories(database: &Database) {
    let scenario = scenario_under(database, "t", "{{ facts }}");
    scenario.learn_lesson("Do it").await;
    let id = scenario.latest_retrospective().await.id;
    let (tenant, expected) = (&scenario.key.tenant, version("{{ facts }}"));
    let report = database.one.find_report(tenant, id).await.expect("reading").expect("it is closed");
    assert_eq!(report.pipeline.as_ref(), Some(expected.hashes()));
    assert!(!report.changes.is_empty());
    assert!(
        report.changes.iter().all(|change| change.pipeline.as_ref() == Some(&expected.hashes().pipeline))
    );
    let rows = database.two.list_pipelines(tenant, PipelineName::Retrospective, 10).await.expect("listing");
    let quality = rows[0].quality;
    assert_eq!(
        (quality.retrospectives, quality.made, quality.confirmed, quality.active),
        (1, 1, 1, 1),
        "{quality:?}"
    );
    // What the investigations cost, as far as the scenario says.
    assert!(quality.cost_usd > 0.0, "{quality:?}");
}

/// Checks that a revert has its person, reason and folder, newest first.
pub async fn a_revert_is_recorded_with_its_person(database: &Database) {
    let tenant = test_tenant("t");
    let hash = version("x").hashes().pipeline.clone();
    let revert = |by: &str, at| PipelineRevert {
        hash: hash.clone(),
        act: Attribution::new(by, "it was better", time_at(at)).expect("valid"),
        folder: "/etc/retro/pipelines".to_owned(),
    };
    for (by, at) in [("anna", 1), ("ben", 2)] {
        database.one.record_pipeline_revert(&tenant, &revert(by, at)).await.expect("storing");
    }
    let listed = database.two.list_pipeline_reverts(&tenant, 10).await.expect("listing");
    // By the database's clock, so a wrong clock of a person's machine does not hide when it was.
    assert!(listed[0].recorded_at >= listed[1].recorded_at, "{listed:?}");
    let listed: Vec<_> = listed.into_iter().map(|one| one.revert).collect();
    assert_eq!(listed, [revert("ben", 2), revert("anna", 1)]);
    assert_eq!(database.two.list_pipeline_reverts(&tenant, 1).await.expect("listing").len(), 1);
    assert_eq!(database.two.list_pipeline_reverts(&test_tenant("s"), 10).await.expect("listing"), []);
}
