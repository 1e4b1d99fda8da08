use retro_core::recall::Recalled;
use retro_store::{MemoryFilter, OperatorStore, RunFilter};

use super::*;
use crate::world::{World, key, rich};

async fn shown(world: &World) -> String {
    let tenant = key("default", "shop").tenant;
    let runs_asked = RunFilter { limit: 3, ..RunFilter::default() };
    let memories_asked = MemoryFilter { limit: 3, ..MemoryFilter::default() };
    let rows = world.retrospectives(&tenant, None, 10).await.unwrap();
    let detail = world.retrospective(&tenant, rows[0].retrospective.id).await.unwrap().unwrap();
    let handed: Vec<_> =
        world.memories(&tenant, &memories_asked).await.unwrap().into_iter().map(recalled).collect();
    [
        workflows(&world.workflows(&tenant).await.unwrap(), 120),
        runs(&world.runs(&tenant, &runs_asked).await.unwrap(), 120),
        memories(&world.memories(&tenant, &memories_asked).await.unwrap(), 120),
        retrospectives(&rows, 120),
        reports(&rows, 120),
        retrospective(&detail, &[], 120),
        context(&handed, 120),
    ]
    .join("\n\n")
}

fn recalled(memory: Memory) -> Recalled {
    Recalled { id: memory.id, weight: memory.weight, title: memory.lesson.title, newcomer: false }
}

#[tokio::test]
async fn every_list_of_a_rich_world() {
    insta::assert_snapshot!(shown(&rich()).await);
}

#[test]
fn a_list_of_nothing_says_so() {
    let nothing = [
        workflows(&[], 80),
        runs(&[], 80),
        memories(&[], 80),
        retrospectives(&[], 80),
        reports(&[], 80),
        context(&[], 80),
    ];
    assert!(
        nothing.iter().all(|told| told.starts_with("no ") || told.starts_with("nothing ")),
        "{nothing:?}"
    );
}

#[tokio::test]
async fn a_retrospective_that_is_under_way_has_no_report_yet() {
    let world = rich();
    let mut rows = world.retrospectives(&key("default", "shop").tenant, None, 10).await.unwrap();
    rows.truncate(1);
    assert!(reports(&rows, 120).contains("closed"), "positive control");
    rows[0].retrospective.state = State::Settling;
    assert_eq!(reports(&rows, 120), "no reports yet\n");
}
