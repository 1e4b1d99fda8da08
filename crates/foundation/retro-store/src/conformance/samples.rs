//! Reads the sample rows of a small running system. The rows are stored next to the migrations and are the
//! same for both databases. Each database crate applies every migration over the rows of the earlier ones and
//! then reads all rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use retro_core::calls::{StoredSummary, SummaryContent};
use retro_core::id::{MemoryId, WorkflowKey};
use retro_core::memory::{Memory, fold_change};

use crate::{DeadLetterFilter, MemoryFilter, ProposalFilter, PullRequestKey, RunFilter, Store, StoredBody};

/// Limit above the number of sample rows of any kind.
const ALL: u32 = 1000;

/// Returns the SQL that inserts the sample rows of a migration; `None` if the migration has none. The SQL
/// suits both databases and writes bytes as `unhex('…')`.
pub fn sample_sql(version: i64) -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../migrations/samples");
    let prefix = format!("{version:04}_");
    let files = std::fs::read_dir(folder).expect("the folder of samples");
    let mut files = files.map(|file| file.expect("a file").path());
    let file = files
        .find(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))?;
    Some(std::fs::read_to_string(file).expect("a sample"))
}

/// Reads every sample row through the ports. Panics at the first wrong row.
pub async fn read_everything(store: &dyn Store) {
    let tenants = store.list_tenants().await.expect("tenants");
    assert_eq!(tenants.len(), 2, "{tenants:?}");
    let (mut reports, mut dead_letters, mut proposals) = (0, 0, 0);
    let (mut attempts, mut versions) = (0, 0);
    let (mut replays, mut batches, mut links) = (0, 0, 0);
    let mut settled = Vec::new();
    let (mut reviews, mut summaries, mut assigned) = (0, 0, 0);
    for tenant in &tenants {
        let runs =
            store.list_runs(tenant, &RunFilter { limit: ALL, ..Default::default() }).await.expect("runs");
        assert!(!runs.is_empty(), "{tenant}");
        for row in store.list_workflows(tenant).await.expect("workflows") {
            let ordinals = store.list_ordinals(&row.key).await.expect("ordinals");
            assert_eq!(ordinals, (1..=row.state.counted).collect::<Vec<_>>(), "{}", row.key);
            store.list_tombstones(&row.key).await.expect("tombstones");
            let of_workflow = store.list_call_summaries(&row.key, ALL).await.expect("summaries");
            summaries += of_workflow.iter().filter(|one| is_readable(one)).count();
            for change in store.list_workflow_changes(&row.key).await.expect("changes") {
                if change.effect.kind() == "created" {
                    assigned += store
                        .list_assigned_runs(&row.key, change.memory, ALL)
                        .await
                        .expect("decisions")
                        .len();
                }
            }
            assert_fold(store, &row.key).await;
        }
        for row in store.list_retrospectives(tenant, None, ALL).await.expect("retrospectives") {
            let id = row.retrospective.id;
            let detail = store.find_retrospective(tenant, id).await.expect("reading").expect("it was listed");
            assert!(detail.sample.is_some());
            reports += usize::from(store.find_report(tenant, id).await.expect("reading").is_some());
        }
        let filter = DeadLetterFilter { limit: ALL, ..Default::default() };
        for dead_letter in store.list_dead_letters(tenant, &filter).await.expect("dead letters") {
            dead_letters += 1;
            attempts += store.list_attempts(tenant, dead_letter.id).await.expect("attempts").len();
            for row in store.list_versions(tenant, dead_letter.id).await.expect("versions") {
                versions += 1;
                let whole = store.find_version(tenant, dead_letter.id, row.version).await.expect("reading");
                let whole = whole.expect("it was listed");
                assert_eq!(retro_core::canonical::sha256_hex(&whole.content.payload), row.payload_sha256);
            }
            replays += store.list_replays(tenant, dead_letter.id).await.expect("replays").len();
        }
        for row in store.list_replay_batches(tenant, ALL).await.expect("batches") {
            let (_, of) =
                store.find_replay_batch(tenant, row.id, ALL).await.expect("reading").expect("it was listed");
            assert_eq!(of.len(), row.progress.total_count() as usize);
            batches += 1;
        }
        for report in store.list_review_reports(tenant, None, ALL).await.expect("reports about reviews") {
            reviews += 1;
            let of = PullRequestKey { tenant: tenant.clone(), pull_request: report.review.pull_request };
            let known = store
                .find_pull_request_reviews(&of)
                .await
                .expect("reading")
                .expect("the pull request is stored");
            assert_eq!((known.remarks.len(), known.resolved_threads), (2, vec![11]));
        }
        for row in store.list_workflows(tenant).await.expect("workflows") {
            let said = store.list_scope_feedback(&row.key).await.expect("feedback");
            settled.extend(said.into_iter().map(|row| row.outcome.map(|outcome| outcome.weighed)));
        }
        links += store.list_run_links(tenant, None, None, ALL).await.expect("links").len();
        let all = ProposalFilter { limit: ALL, ..Default::default() };
        proposals += store.list_proposals(tenant, &all).await.expect("proposals").len();
    }
    assert_eq!((reports, dead_letters, proposals), (4, 2, 1));
    assert_eq!(settled, [Some(true), Some(false), None], "one counted, one did not, and one waits");
    assert_eq!(links, 2, "one by its event and one by a trailer");
    assert_eq!((attempts, versions), (1, 1));
    assert_eq!(summaries, 3, "one of four cannot be read");
    assert_eq!(assigned, 2, "one of three runs has not ended");
    let losses = store.list_losses().await.expect("losses");
    assert_eq!(losses.iter().map(|loss| loss.message.is_some()).collect::<Vec<_>>(), [true]);
    let closed = store.list_closed_losses().await.expect("losses");
    assert_eq!(closed.iter().map(|one| one.act.by.as_str()).collect::<Vec<_>>(), ["ana"]);
    assert_eq!((replays, batches), (1, 1));
    let (due, waiting) = (store.list_due_reviews(ALL).await, store.list_overdue_rule_batches(0, ALL).await);
    assert_eq!((reviews, due.expect("reviews").len(), waiting.expect("batches").len()), (1, 1, 1));
    assert!(!store.list_unsent_messages(ALL).await.expect("the outbox").is_empty());
    let waiting = store.list_overdue_credits(0, ALL).await.expect("listing overdue credits");
    assert_eq!(waiting.len(), 2, "one that begins and one that goes on: {waiting:?}");
    let (mut embedded, known) = (0, "Pay with the credit card when the gift card is short".to_owned());
    for tenant in &tenants {
        let vectors = store
            .load_embeddings(tenant, "sample@1", std::slice::from_ref(&known))
            .await
            .expect("loading embeddings");
        embedded += vectors.len();
        assert!(vectors.values().all(|vector| *vector == [1, -2, 300]), "{vectors:?}");
    }
    assert_eq!(embedded, 1);
    let claim = store.claim_investigation("tests", 60).await.expect("claiming").expect("one is due");
    assert!(matches!(claim.body, StoredBody::Inline(_)), "{:?}", claim.body);
    let begun = store.begin_summaries(&claim, ALL).await.expect("beginning");
    let begun: Vec<_> = begun.iter().map(|one| one.run.run_id.as_str()).collect();
    assert_eq!(begun, ["task-1-trial-0"], "it was begun before, so it comes alone");
}

fn is_readable(stored: &StoredSummary) -> bool {
    matches!(stored.content, SummaryContent::Summary(_))
}

/// Asserts that the sample memories are the fold of the sample changes.
async fn assert_fold(store: &dyn Store, key: &WorkflowKey) {
    let mut folded: BTreeMap<MemoryId, Memory> = BTreeMap::new();
    for change in store.list_workflow_changes(key).await.expect("changes") {
        let before = folded.remove(&change.memory);
        folded.extend(fold_change(before, &change).expect("legal").map(|memory| (memory.id, memory)));
    }
    let filter = MemoryFilter { workflow: Some(key.workflow.clone()), limit: ALL, ..Default::default() };
    let stored = store.list_memories(&key.tenant, &filter).await.expect("memories");
    assert_eq!(stored.len(), folded.len());
    for memory in stored {
        assert_eq!(store.find_memory(&key.tenant, memory.id).await.expect("reading").as_ref(), Some(&memory));
        assert_eq!(folded[&memory.id], memory);
    }
}
