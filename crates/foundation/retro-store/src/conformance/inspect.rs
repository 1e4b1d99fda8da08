//! Conformance cases for one run in full, for runs found by their facts, and for the use of memories.

use retro_core::id::{ObjectRef, Workflow};
use retro_core::inspection::RunProperties;
use retro_core::recall::Assignment;
use retro_core::run::{Agent, RunOutcome};

use super::Database;
use super::scenario::{Scenario, empty_result, result_with_finding, run_id, test_tenant, time_at};
use crate::{MemoryUsage, ObjectKind, RunFilter, StoredBody, resolve_object_ref};

/// Checks that a run comes with its facts, its body, its memories, and the retrospective that claimed it.
pub async fn a_run_comes_with_everything_that_is_known_about_it(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("Retry at once").await;
    let (presented, decided) =
        ([memory.id], [Assignment { memory: memory.id, withheld: false, permille: 100 }]);
    let run = run_id("a");
    database.one.record_presented(&scenario.key, &run, &presented, &decided).await.expect("recording");
    database.one.record_read(&scenario.key, &run, memory.id).await.expect("recording");
    let unknown = database.two.load_run_detail(&scenario.key, &run).await.expect("reading");
    assert_eq!(unknown, None, "a run that has not ended is not known");
    let first = |number: u32| if number == 1 { result_with_finding("once") } else { empty_result() };
    let id = scenario.settle_window(["a", "b"], &|claim| first(claim.number)).await;
    let detail = database.two.load_run_detail(&scenario.key, &run).await.expect("reading").expect("known");
    assert_eq!((detail.ordinal, detail.attempt), (Some(3), 1));
    assert_eq!(detail.facts.as_ref().map(|(facts, _)| facts.run_id.as_str()), Some("a"));
    assert!(matches!(&detail.body, StoredBody::Inline(bytes) if bytes.starts_with(b"{\"turns\"")));
    let [met] = &detail.memories[..] else { panic!("{:?}", detail.memories) };
    assert_eq!((met.id, met.memory.as_ref().map(|one| one.id)), (memory.id, Some(memory.id)));
    assert!(met.presented_at.is_some() && met.read_at.is_some() && met.withheld == Some(false));
    assert_eq!(met.applied_in, None);
    let [looked] = &detail.retrospectives[..] else { panic!("{:?}", detail.retrospectives) };
    assert_eq!((looked.retrospective.id, looked.sample.is_some()), (id, true));
    let investigation = looked.investigation.as_ref().expect("both runs are sampled");
    assert_eq!(investigation.run, run);
    assert_eq!(detail.pull_requests, []);
    let other = scenario.key.workflow.as_str();
    let earlier = run_id("Retry at once 1");
    let detail =
        database.two.load_run_detail(&scenario.key, &earlier).await.expect("reading").expect("known");
    let epochs: Vec<_> = detail.retrospectives.iter().map(|one| one.retrospective.epoch).collect();
    assert_eq!(epochs, [1], "the earlier window of {other}");
}

/// Checks that the windows of a run are found among many epochs, and that a released one is listed only if it has
/// investigated the run.
pub async fn the_window_of_a_run_is_found_among_many(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    for epoch in 0..7 {
        let names = [format!("{epoch} one"), format!("{epoch} two")];
        let id = scenario.settle_window([&names[0], &names[1]], &|_| empty_result()).await;
        scenario.close_retrospective(id).await;
    }
    for (epoch, name) in [(1, "0 one"), (1, "0 two"), (4, "3 two"), (7, "6 two")] {
        let detail = database.two.load_run_detail(&scenario.key, &run_id(name)).await.expect("reading");
        let detail = detail.expect("the run is known");
        let epochs: Vec<_> = detail.retrospectives.iter().map(|one| one.retrospective.epoch).collect();
        assert_eq!(epochs, [epoch], "{name}");
    }
    scenario.count_runs(&["waiting"]).await;
    let waiting = database.two.load_run_detail(&scenario.key, &run_id("waiting")).await.expect("reading");
    assert_eq!(waiting.expect("the run is known").retrospectives, [], "no retrospective has claimed it");
}

/// Checks that a run is found in each workflow that has it, and only there.
pub async fn a_run_is_found_in_each_workflow_that_has_it(database: &Database) {
    for (tenant, workflow) in [("t", "w"), ("t", "v"), ("t", "u"), ("other", "w")] {
        let scenario = Scenario::new(&*database.one, tenant, workflow);
        scenario.count_runs(&[if workflow == "u" { "b" } else { "a" }]).await;
    }
    let find = |tenant: &'static str, workflow: Option<&'static str>| async move {
        let workflow = workflow.map(|name| Workflow::new(name).expect("a valid name"));
        let (tenant, run) = (test_tenant(tenant), run_id("a"));
        let found = database.two.find_run_workflows(&tenant, &run, workflow.as_ref()).await.expect("reading");
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(find("t", None).await, ["v", "w"]);
    assert_eq!(find("t", Some("v")).await, ["v"]);
    assert_eq!(find("t", Some("u")).await, Vec::<String>::new());
    assert_eq!(find("other", None).await, ["w"], "positive control");
    assert_eq!(find("nobody", None).await, Vec::<String>::new());
}

/// Checks that runs are found by user, agent, outcome, repository and time of arrival.
pub async fn runs_are_found_by_their_facts(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let mut batch = Vec::new();
    for (nth, (user, agent, outcome)) in [
        ("anna", "coder", RunOutcome::Success),
        ("anna", "tester", RunOutcome::Failure),
        ("bob", "coder", RunOutcome::Failure),
    ]
    .into_iter()
    .enumerate()
    {
        let mut run = scenario.new_run(&format!("run {nth}"));
        let facts = &mut run.arrival.run;
        facts.user = Some(user.to_owned());
        facts.agent = Some(Agent { name: Some(agent.to_owned()), ..Agent::default() });
        (facts.outcome, facts.repo) = (outcome, Some("git@github.com:acme/shop.git".to_owned()));
        batch.push(run);
    }
    batch.push(scenario.new_run("nobody's"));
    scenario.count_batch(&batch, time_at(0)).await;
    let search = |properties: RunProperties, limit: u32| async move {
        let filter = RunFilter { properties, limit, ..Default::default() };
        database.two.search_runs(&test_tenant("t"), &filter).await.expect("searching")
    };
    let names = |found: &crate::RunSearch| {
        let mut names: Vec<_> = found.runs.iter().map(|row| row.facts.run_id.to_string()).collect();
        names.sort_unstable();
        names
    };
    let anna = RunProperties { user: Some("anna".to_owned()), ..Default::default() };
    let found = search(anna.clone(), 9).await;
    assert_eq!((names(&found), found.stopped_at), (vec!["run 0".to_owned(), "run 1".to_owned()], None));
    assert_eq!(search(anna.clone(), 1).await.runs.len(), 1, "the limit is one of matching runs");
    let coder = RunProperties { agent: Some("coder".to_owned()), ..anna };
    assert_eq!(names(&search(coder, 9).await), ["run 0"]);
    let failed = RunProperties { outcome: Some(RunOutcome::Failure), ..Default::default() };
    assert_eq!(names(&search(failed, 9).await), ["run 1", "run 2"]);
    let repo = retro_core::id::Repository::new("acme/shop").expect("a repository");
    let of_repo = RunProperties { repo: Some(repo), ..Default::default() };
    assert_eq!(search(of_repo, 9).await.runs.len(), 3);
    let all = search(RunProperties::default(), 9).await;
    assert_eq!(all.runs.len(), 4, "positive control");
    let newest = all.runs[0].received_at;
    let since = RunFilter { since: Some(newest), limit: 9, ..Default::default() };
    let rows = database.two.list_runs(&test_tenant("t"), &since).await.expect("listing");
    assert_eq!(rows.len(), all.runs.iter().filter(|row| row.received_at >= newest).count());
    let until = RunFilter { since: None, until: Some(all.runs[3].received_at), ..since };
    assert_eq!(database.two.list_runs(&test_tenant("t"), &until).await.expect("listing"), []);
}

/// Checks that presentations, reads and applications of a memory are counted once a run.
pub async fn the_use_of_memories_is_counted_once_a_run(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("Retry at once").await.id;
    let other = scenario.learn_lesson("Wait 5 seconds").await.id;
    for _ in 0..2 {
        for run in ["x", "y", "z"] {
            database
                .one
                .record_presented(&scenario.key, &run_id(run), &[memory], &[])
                .await
                .expect("recording");
        }
        database.one.record_read(&scenario.key, &run_id("x"), memory).await.expect("recording");
    }
    let count = |tenant: &'static str| async move {
        database.two.count_memory_usage(&test_tenant(tenant), &[other, memory]).await.expect("counting")
    };
    let none = MemoryUsage::default();
    assert_eq!(count("t").await, [none, MemoryUsage { presented: 3, read: 1, applied: 0 }]);
    assert_eq!(count("nobody").await, [none, none], "another tenant's memory counts nothing");
    assert_eq!(database.two.count_memory_usage(&test_tenant("t"), &[]).await.expect("counting"), []);
}

/// Checks that a run of another tenant is a missing one.
pub async fn runs_are_shown_to_their_tenant_only(database: &Database) {
    let (mine, theirs) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "other", "w"));
    mine.count_runs(&["a"]).await;
    theirs.count_runs(&["b"]).await;
    let load = |scenario: &Scenario<'_>, run: &str| {
        let key = scenario.key.clone();
        let run = run_id(run);
        async move { database.two.load_run_detail(&key, &run).await.expect("reading").is_some() }
    };
    assert!(load(&mine, "a").await && load(&theirs, "b").await, "positive control");
    assert!(!load(&theirs, "a").await && !load(&mine, "b").await);
}

/// Checks that retrospectives, reports, proposals and dead letters are found by the first digits of their ids, by
/// their tenant only.
pub async fn objects_are_found_by_the_first_digits_of_their_ids(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.learn_lesson("Retry at once").await;
    let id = scenario.latest_retrospective().await.id;
    let letter =
        crate::NewDeadLetter { tenant: Some(test_tenant("t")), ..super::delivery::new_dead_letter(1) };
    let letter = database.one.store_dead_letter(&letter).await.expect("storing");
    let nobodys = crate::NewDeadLetter { tenant: None, ..super::delivery::new_dead_letter(2) };
    let nobodys = database.one.store_dead_letter(&nobodys).await.expect("storing");
    let resolve = |tenant: &'static str, kind: ObjectKind, id: uuid::Uuid| async move {
        let name: ObjectRef = retro_core::id::short_id(id).parse().expect("eight digits");
        resolve_object_ref(&*database.two, &test_tenant(tenant), kind, name).await.expect("reading").ok()
    };
    for (kind, id) in
        [(ObjectKind::Retrospective, id.0), (ObjectKind::Report, id.0), (ObjectKind::DeadLetter, letter.0)]
    {
        assert_eq!(resolve("t", kind, id).await, Some(id), "{kind:?}");
        assert_eq!(resolve("other", kind, id).await, None, "{kind:?}");
    }
    for kind in [ObjectKind::ReviewReport, ObjectKind::Proposal, ObjectKind::ReplayBatch] {
        assert_eq!(resolve("t", kind, id.0).await, None, "{kind:?}: it is of another kind");
    }
    assert_eq!(resolve("default", ObjectKind::DeadLetter, nobodys.0).await, Some(nobodys.0));
    assert_eq!(resolve("t", ObjectKind::DeadLetter, nobodys.0).await, None);
}
