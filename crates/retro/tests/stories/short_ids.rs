//! Names a memory by the first digits of its id. Ids are derived, so this file can list workflows whose first
//! memories share a prefix.

use serde_json::json;

use crate::world::{World, build_correcting_runs, json_items, json_text};

/// Two workflows of the tenant `t` whose first memories have ids with the same prefix.
const SAME_PREFIX: [&str; 2] = ["w26416", "w34034"];
/// Workflows of two tenants whose first memories have ids with the same prefix.
const SAME_PREFIX_ACROSS_TENANTS: [(&str, &str); 2] = [("mine", "w36636"), ("theirs", "w93382")];

#[tokio::test]
async fn a_short_id_names_the_tenants_own_memory_and_an_ambiguous_one_none() {
    let mut world = World::start().await;
    let mut whole = Vec::new();
    for (tenant, workflow) in
        SAME_PREFIX.map(|workflow| ("t", workflow)).into_iter().chain(SAME_PREFIX_ACROSS_TENANTS)
    {
        world
            .emit_and_wait(tenant, workflow, &build_correcting_runs(workflow, "deploy_service", 0..10))
            .await;
        let list = ["--tenant", tenant, "memories", "list", "--workflow", workflow];
        whole.push(json_text(&json_items(&world.run_json(&list).await)[0], "id").to_owned());
    }
    let [one, two, own, foreign] = whole.try_into().expect("four workflows");
    assert!(one[..8] == two[..8] && own[..8] == foreign[..8], "the ids do not share a prefix");

    for (tenant, workflow, id) in [
        (SAME_PREFIX_ACROSS_TENANTS[0].0, SAME_PREFIX_ACROSS_TENANTS[0].1, &own),
        (SAME_PREFIX_ACROSS_TENANTS[1].0, SAME_PREFIX_ACROSS_TENANTS[1].1, &foreign),
    ] {
        let context = world.fetch_context(tenant, &json!({"workflow": workflow, "step": "deploy"})).await;
        assert!(json_text(&context, "text").contains(&format!("- [{}] (", &id[..8])), "{context}");
        let (status, body) = world.get(tenant, &format!("/v1/memories/{}?run=next", &id[..8])).await;
        assert!(status == 200 && body.contains(id.as_str()), "{tenant}: {body}");
        for command in ["show", "why", "effect"] {
            let shown = world.run_json(&["--tenant", tenant, "memories", command, &id[..8]]).await;
            assert_eq!(json_text(&shown, "id"), id, "{tenant}, {command}");
        }
    }

    let delete = ["memories", "delete", &one[..8], "--reason", "not needed"];
    for command in [&["memories", "show", &one[..8]][..], &["memories", "why", &one[..8]], &delete] {
        let of_two = world.run_retro(&[&["--tenant", "t"], command].concat()).await;
        assert!(of_two.code == Some(2) && of_two.err.contains("give more digits"), "{of_two:?}");
        let of_none = world.run_retro(&[&["--tenant", "nobody"], command].concat()).await;
        let message = format!("there is no memory {} in tenant nobody\n", &one[..8]);
        assert_eq!((of_none.code, of_none.err), (Some(3), message), "{command:?}");
    }
    for route in ["", "/why", "/effect"] {
        let path = format!("/v1/memories/{}{route}", &one[..8]);
        assert_eq!(world.get("t", &path).await.0, 409, "{route}");
        assert_eq!(world.get("nobody", &path).await.0, 404, "{route}");
    }
    let deleted =
        world.run_json(&["--tenant", "t", "memories", "delete", &one[..10], "--reason", "not needed"]).await;
    assert_eq!(json_text(&deleted, "memory"), one, "a longer prefix is unambiguous");
    assert_eq!(world.run_json(&["--tenant", "t", "memories", "show", &two[..10]]).await["status"], "active");
    world.wait_until_idle().await;
    world.verify_store().await;
    world.stop().await;
}
