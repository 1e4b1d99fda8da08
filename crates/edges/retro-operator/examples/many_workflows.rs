//! Prints SQL that fills either database with many workflows, to time `retro verify` on a large store. Each
//! workflow has ten counted runs, a closed retrospective with its report, and a memory that two runs
//! confirmed:
//!
//! ```sh
//! retro migrate --data-dir large
//! cargo run -p retro-operator --example many_workflows -- 100000 | sqlite3 large/retro.db
//! time retro verify --data-dir large
//! ```

use std::io::{BufWriter, Write};

use jiff::Timestamp;
use retro_core::calls::Contrast;
use retro_core::count::{self, Arrival, CountingFacts};
use retro_core::finding::{CheckedAnswer, EvidenceOrigin, Finding, FindingKind, LessonCue, Quote};
use retro_core::id::{
    EventKey, MemoryId, RetrospectiveId, RunId, Step, Tenant, Workflow, WorkflowKey, derive_uuid,
};
use retro_core::investigate::{NextStage, decide_next_stage};
use retro_core::learn::{
    ClosedRetrospective, ClosingFacts, WriterFacts, close_retrospective, settle_investigations,
};
use retro_core::memory::{Change, ChangeCause, change_id};
use retro_core::policy::Policy;
use retro_core::report::{InvestigationTiming, WindowRun};
use retro_core::retrospective::{Investigation, InvestigationResult, Retrospective};
use retro_core::run::{RunFacts, RunOutcome};
use retro_core::sample::{Sample, draw_sample};
use retro_core::similarity::NgramEmbedder;
use retro_core::trajectory::QuotePlace;
use serde_json::{Value, json};

/// Maximum number of rows per `INSERT`: enough to keep the cost per statement small, and far below any limit
/// on statement length.
const ROWS: usize = 100;

fn main() -> std::io::Result<()> {
    let many: u64 = std::env::args().nth(1).and_then(|many| many.parse().ok()).unwrap_or(1_000);
    let template = Template::build();
    #[expect(
        clippy::disallowed_methods,
        reason = "the SQL contains only generated values and goes to a pipe"
    )]
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(out, "BEGIN;")?;
    let mut tables = Tables::default();
    for number in 0..many {
        template.add(number, &mut tables);
        if number % ROWS as u64 == 0 {
            tables.write_rows(&mut out)?;
        }
    }
    tables.write_rows(&mut out)?;
    writeln!(out, "COMMIT;")
}

/// A workflow with a closed retrospective, computed by the core once and then copied under other names.
struct Template {
    key: WorkflowKey,
    retrospective: Retrospective,
    closing: ClosedRetrospective,
}

impl Template {
    fn build() -> Self {
        let key = WorkflowKey {
            tenant: Tenant::default_tenant(),
            workflow: Workflow::new("template").expect("a valid name"),
        };
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid timestamp");
        let arrivals: Vec<_> = (1..=10).map(|n| arrival(&key, n)).collect();
        let facts = CountingFacts {
            workflows: [(key.clone(), Default::default())].into(),
            ..CountingFacts::default()
        };
        let mut counted = count::count_arrivals(
            facts,
            &arrivals,
            count::IntakeProgress::NotAwaited,
            &Policy::default(),
            now,
        );
        let state = counted.workflows.remove(&key).expect("the workflow was counted");
        let retrospective = counted.opened.remove(0).retrospective;
        let sample = draw_sample(retrospective.id, (1..=10).collect(), &retrospective.policy);
        let investigations = investigate(&sample);
        let closing = close_retrospective(
            ClosingFacts {
                calls: None,
                history: Default::default(),
                window: (1..=10).map(window_run).collect(),
                timings: vec![InvestigationTiming::default(); investigations.len()],
                writer: writer_facts(&retrospective),
                state,
                waiting_in_order: 0,
                batch: settle_investigations(retrospective.id, &investigations, &Contrast::default()),
                retrospective: retrospective.clone(),
                sample,
                investigations,
            },
            &NgramEmbedder,
            &Policy::default(),
            now,
        );
        Self { key, retrospective, closing }
    }

    /// Adds the rows of one more workflow: a copy of the template under its own name and ids.
    fn add(&self, number: u64, tables: &mut Tables) {
        let workflow = format!("w{number:07}");
        let key = WorkflowKey {
            tenant: self.key.tenant.clone(),
            workflow: Workflow::new(&workflow).expect("a name"),
        };
        let retrospective = RetrospectiveId(derive_uuid("retrospective", &[&workflow]));
        let sample = draw_sample(retrospective, (1..=10).collect(), &self.retrospective.policy);
        let memory = &self.closing.applied.memories[0];
        let renamed = MemoryId(derive_uuid("memory", &[&workflow]));
        let moved = |text: String| {
            text.replace(&self.retrospective.id.to_string(), &retrospective.to_string())
                .replace(&memory.id.to_string(), &renamed.to_string())
                .replace("\"template\"", &format!("\"{workflow}\""))
        };
        let changes: Vec<Change> = self
            .closing
            .applied
            .changes
            .iter()
            .map(|change| {
                let text =
                    moved(serde_json::to_string(change).expect("serialization of plain data does not fail"));
                let mut change: Change = serde_json::from_str(&text).expect("a change");
                change.id = change_id(&key, change.memory, &change.cause, change.effect.kind());
                change
            })
            .collect();
        let mut report: Value = serde_json::from_str(&moved(
            serde_json::to_string(&self.closing.report).expect("serialization of plain data does not fail"),
        ))
        .expect("a report");
        report["sample"] = json!(sample);
        report["changes"] = json!(changes);
        let policy = serde_json::to_string(&self.retrospective.policy)
            .expect("serialization of plain data does not fail");
        let sample = json!(sample).to_string();
        tables.workflows.push(format!("('default', '{workflow}', 10, 10, 10, 1, FALSE, 0)"));
        for run in 1..=10 {
            tables.runs.push(format!("('default', '{workflow}', 'run-{run:02}', {run}, {run}, 1, 0, {run})"));
        }
        tables.retrospectives.push(format!(
            "('default', '{retrospective}', '{workflow}', 1, 1, 10, '2026-11-20T10:00:00.000000000Z', {}, 'closed', {}, 0, 0)",
            quote_sql(&policy),
            quote_sql(&sample)
        ));
        tables.reports.push(format!("('default', '{retrospective}', {}, 0)", quote_sql(&report.to_string())));
        for change in &changes {
            let text = quote_sql(&json!(change).to_string());
            let (cause, id) = match &change.cause {
                ChangeCause::Run { run, .. } => ("run", run.to_string()),
                other => ("retrospective", format!("{other:?}").replace('\'', "")),
            };
            tables.changes.push(format!(
                "('default', '{}', '{workflow}', '{renamed}', '{}', '{cause}', '{id}', '{retrospective}', {text})",
                change.id,
                change.effect.kind()
            ));
        }
        let text = moved(serde_json::to_string(memory).expect("serialization of plain data does not fail"));
        tables.memories.push(format!(
            "('default', '{renamed}', '{workflow}', 'step', '{workflow}/main', 'main', '{}', {}, {},
                 '2026-11-20T10:00:00.000000000Z')",
            memory.status.as_str(),
            memory.weight.get(),
            quote_sql(&text)
        ));
    }
}

/// Rows that are not printed yet. Tables are printed parents first, because of foreign keys.
#[derive(Default)]
struct Tables {
    workflows: Vec<String>,
    runs: Vec<String>,
    retrospectives: Vec<String>,
    reports: Vec<String>,
    changes: Vec<String>,
    memories: Vec<String>,
}

impl Tables {
    fn write_rows(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        let tables = [
            (
                "workflows (tenant, workflow, recorded, counted, claimed, epoch, open, failures)",
                &mut self.workflows,
            ),
            (
                "runs (tenant, workflow, run_id, number, ordinal, attempt, received_ms, intake_sequence)",
                &mut self.runs,
            ),
            (
                "retrospectives (tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, state, sample, \
                 opened_ms, state_ms)",
                &mut self.retrospectives,
            ),
            ("reports (tenant, retrospective, report, written_ms)", &mut self.reports),
            (
                "changes (tenant, id, workflow, memory, kind, cause, cause_id, retrospective, change)",
                &mut self.changes,
            ),
            (
                "memories (tenant, id, workflow, scope_kind, scope_key, step, status, weight, memory, changed_at)",
                &mut self.memories,
            ),
        ];
        for (table, rows) in tables {
            for some in rows.chunks(ROWS) {
                writeln!(out, "INSERT INTO {table} VALUES\n{};", some.join(",\n"))?;
            }
            rows.clear();
        }
        Ok(())
    }
}

fn quote_sql(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn run_id(n: u64) -> RunId {
    RunId::new(format!("run-{n:02}")).expect("a valid name")
}

fn arrival(key: &WorkflowKey, n: u64) -> Arrival {
    let run: RunFacts =
        serde_json::from_value(json!({"run_id": run_id(n), "outcome": "success"})).expect("facts");
    let event =
        EventKey { tenant: key.tenant.clone(), source: "example".to_owned(), id: run.run_id.to_string() };
    Arrival { event, key: key.clone(), content_hash: String::new(), position: n, run }
}

fn window_run(ordinal: u64) -> WindowRun {
    WindowRun {
        ordinal,
        run: run_id(ordinal),
        outcome: RunOutcome::Success,
        pull_requests: Vec::new(),
        checks: Vec::new(),
    }
}

fn investigate(sample: &Sample) -> Vec<Investigation> {
    let mut ended: Vec<Investigation> = Vec::new();
    loop {
        let results: Vec<_> = ended.iter().filter_map(|one| one.result.clone()).collect();
        let NextStage::Investigate { number, at, replacement } = decide_next_stage(sample, &results) else {
            return ended;
        };
        let ordinal = sample.order[at as usize];
        let checked = CheckedAnswer { findings: vec![finding()], ..CheckedAnswer::default() };
        let result = Some(InvestigationResult::Found { checked, presented: Vec::new() });
        ended.push(Investigation { number, ordinal, run: run_id(ordinal), replacement, result });
    }
}

fn finding() -> Finding {
    Finding {
        kind: FindingKind::Repair,
        step: Step::main(),
        subject: "mysql".to_owned(),
        title: "When a column is unknown, list the columns before selecting".to_owned(),
        content: "A call failed; the same call after DESCRIBE succeeded.".to_owned(),
        cue: LessonCue {
            tool: Some("mysql".to_owned()),
            error: Some("unknown column".to_owned()),
            avoid: None,
            prefer: Some("DESCRIBE".to_owned()),
            worked: None,
        },
        quote: Quote { place: QuotePlace::Answer { turn: 3, call: 0 }, text: "ERROR 1054".to_owned() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    }
}

fn writer_facts(retrospective: &Retrospective) -> WriterFacts {
    WriterFacts {
        key: retrospective.key.clone(),
        retrospective: retrospective.id,
        epoch: retrospective.epoch,
        previous_epoch: None,
        as_of: retrospective.as_of,
        policy: retrospective.policy.clone(),
        pipeline: retrospective.pipeline.as_ref().map(|version| version.pipeline.clone()),
        memories: Vec::new(),
        tombstones: Vec::new(),
        applied: Default::default(),
        feedback: Vec::new(),
    }
}
