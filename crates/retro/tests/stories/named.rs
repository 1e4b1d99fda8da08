//! A memory is named by the first digits of its id. The ids are derived, so this file can know of workflows whose
//! first memories begin alike.

use serde_json::json;

use crate::world::{World, items, mending, text};

/// The first memories of these two workflows of tenant `t` have ids that begin alike.
const ALIKE: [&str; 2] = ["w23234", "w116783"];
/// And so have these, of two tenants.
const APART: [(&str, &str); 2] = [("mine", "w112848"), ("theirs", "w2495")];

#[tokio::test]
async fn a_short_id_means_the_tenant_s_own_memory_and_of_two_that_begin_alike_none() {
    let mut world = World::start().await;
    let mut whole = Vec::new();
    for (tenant, workflow) in ALIKE.map(|workflow| ("t", workflow)).into_iter().chain(APART) {
        world.emit(tenant, workflow, &mending(workflow, "deploy_service", 0..10)).await;
        let list = ["--tenant", tenant, "memories", "list", "--workflow", workflow];
        whole.push(text(&items(&world.ask(&list).await)[0], "id").to_owned());
    }
    let [one, two, own, foreign] = whole.try_into().expect("four workflows");
    assert!(one[..8] == two[..8] && own[..8] == foreign[..8], "the story is about nothing");

    for (tenant, workflow, id) in [(APART[0].0, APART[0].1, &own), (APART[1].0, APART[1].1, &foreign)] {
        let context = world.context(tenant, &json!({"workflow": workflow, "step": "deploy"})).await;
        assert!(text(&context, "text").contains(&format!("- [{}] (", &id[..8])), "{context}");
        let (status, body) = world.get(tenant, &format!("/v1/memories/{}?run=next", &id[..8])).await;
        assert!(status == 200 && body.contains(id.as_str()), "{tenant}: {body}");
        for command in ["show", "why", "effect"] {
            let shown = world.ask(&["--tenant", tenant, "memories", command, &id[..8]]).await;
            assert_eq!(text(&shown, "id"), id, "{tenant}, {command}");
        }
    }

    let delete = ["memories", "delete", &one[..8], "--reason", "not needed"];
    for command in [&["memories", "show", &one[..8]][..], &["memories", "why", &one[..8]], &delete] {
        let of_two = world.retro(&[&["--tenant", "t"], command].concat()).await;
        assert!(of_two.code == Some(2) && of_two.err.contains("give more digits"), "{of_two:?}");
        let of_none = world.retro(&[&["--tenant", "nobody"], command].concat()).await;
        let told = format!("there is no memory {} in tenant nobody\n", &one[..8]);
        assert_eq!((of_none.code, of_none.err), (Some(3), told), "{command:?}");
    }
    for route in ["", "/why", "/effect"] {
        let path = format!("/v1/memories/{}{route}", &one[..8]);
        assert_eq!(world.get("t", &path).await.0, 409, "{route}");
        assert_eq!(world.get("nobody", &path).await.0, 404, "{route}");
    }
    let deleted =
        world.ask(&["--tenant", "t", "memories", "delete", &one[..10], "--reason", "not needed"]).await;
    assert_eq!(text(&deleted, "memory"), one, "one digit more says which");
    assert_eq!(world.ask(&["--tenant", "t", "memories", "show", &two[..10]]).await["status"], "active");
    world.still().await;
    world.sound().await;
    world.stop().await;
}
