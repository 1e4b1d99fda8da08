use retro_store::{MemoryFilter, OperatorStore, RunFilter};

use super::*;
use crate::retrospectives::find_retrospective_view;
use crate::world::{World, rich_world, workflow_key};

async fn shown(world: &World) -> String {
    let tenant = workflow_key("default", "shop").tenant;
    let runs_asked = RunFilter { limit: 3, ..RunFilter::default() };
    let memories_asked = MemoryFilter { limit: 3, ..MemoryFilter::default() };
    let rows = world.list_retrospectives(&tenant, None, 10).await.unwrap();
    let newest = rows[0].retrospective.id;
    let detail = find_retrospective_view(world, &tenant, newest).await.unwrap().unwrap();
    let memories = world.list_memories(&tenant, &memories_asked).await.unwrap();
    let memories = crate::load_memory_rows(world, &tenant, memories).await.unwrap();
    [
        render_workflows(&world.list_workflows(&tenant).await.unwrap(), 120),
        render_runs(&world.list_runs(&tenant, &runs_asked).await.unwrap(), 120),
        render_memories(&memories, 120),
        render_retrospectives(&rows, 120),
        render_reports(&rows, 120),
        render_retrospective(&detail, &[], 120),
    ]
    .join("\n\n")
}

#[tokio::test]
async fn every_list_of_a_rich_world() {
    insta::assert_snapshot!(shown(&rich_world()).await);
}

#[test]
fn an_empty_list_is_a_sentence() {
    let nothing = [
        render_workflows(&[], 80),
        render_runs(&[], 80),
        render_memories(&[], 80),
        render_retrospectives(&[], 80),
        render_reports(&[], 80),
    ];
    assert!(nothing.iter().all(|text| text.starts_with("no ")), "{nothing:?}");
}

#[tokio::test]
async fn an_open_retrospective_has_no_report() {
    let world = rich_world();
    let mut rows =
        world.list_retrospectives(&workflow_key("default", "shop").tenant, None, 10).await.unwrap();
    rows.truncate(1);
    assert!(render_reports(&rows, 120).contains("closed"), "positive control");
    rows[0].retrospective.state = RetrospectiveState::Settling;
    assert_eq!(render_reports(&rows, 120), "no reports yet\n");
}
