//! Tests that a dry run predicts the result and changes nothing.

use super::*;

#[tokio::test]
async fn a_dry_run_of_a_github_event_predicts_record_or_failure() {
    let world = open_world().await;
    let replays = world.replay_service();
    let push_event = json!({"repo": "acme/shop", "host": "github.com", "event": "push", "commits": []});
    for (nth, consumer, data, effect, reason) in [
        (
            1,
            "reviewer",
            push_event.clone(),
            PredictedEffect::RecordEvent,
            "the reviewer records push of acme/shop",
        ),
        (2, "tracker", push_event, PredictedEffect::RecordEvent, "the tracker records push of acme/shop"),
        (3, "reviewer", json!({"event": "push"}), PredictedEffect::FailAgain, "repo"),
    ] {
        let event = json!({
            "specversion": "1.0", "type": "dev.retrospect.github.push.v1", "source": "https://github.com/acme/shop",
            "id": format!("delivery-{nth}"), "data": data,
        });
        let position = DeliveryPosition {
            consumer: consumer.to_owned(),
            stream: "RETRO_GITHUB".to_owned(),
            sequence: nth,
        };
        let subject = "retro.github.default.push".to_owned();
        let payload = event.to_string().into_bytes();
        let id = world
            .store_dead_letter(&NewDeadLetter { position, subject, payload, ..invalid_event(nth) })
            .await;
        let predicted = replays.dry_run_one(&tenant("default"), id, None).await.unwrap().unwrap();
        assert_eq!(predicted.effect, effect, "{predicted:?}");
        assert!(predicted.reason.contains(reason), "{predicted:?}");
    }
}

#[tokio::test]
async fn a_dry_run_of_a_discard_predicts_the_result_and_changes_nothing() {
    let world = open_world().await;
    let id = world.store_dead_letter(&invalid_event(1)).await;
    let path = format!("/v1/dead-letters/{id}/discard");
    let dry_run = async || {
        let (status, body) = world.post("default", &path, &json!({"dry_run": true})).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let open = dry_run().await;
    assert_eq!((&open["effect"], &open["dead_letter"]), (&json!("discard"), &json!(id)), "{open}");
    assert_eq!(world.audit_actions(id).await, [], "nothing was done");
    let (_, shown) = world.get("default", &format!("/v1/dead-letters/{id}")).await;
    assert!(shown.contains("\"status\":\"open\""), "{shown}");
    assert_eq!(world.post("acme", &path, &json!({"dry_run": true})).await.0, 404);

    let (status, body) = world.post("default", &path, &json!({"reason": "a test", "by": "ann"})).await;
    assert!(status == 200 && body.contains("\"done\""), "positive control: {body}");
    let discarded = dry_run().await;
    assert_eq!(discarded["effect"], "nothing", "{discarded}");
    assert!(discarded["reason"].as_str().unwrap().contains("already discarded, by ann"), "{discarded}");
    assert_eq!(world.audit_actions(id).await, [AuditAction::Discarded]);

    let replayed = world.store_dead_letter(&invalid_event(2)).await;
    let replay = format!("/v1/dead-letters/{replayed}/replay");
    assert_eq!(world.post("default", &replay, &json!({"reason": "a test", "by": "ann"})).await.0, 200);
    let path = format!("/v1/dead-letters/{replayed}/discard");
    let (_, body) = world.post("default", &path, &json!({"dry_run": true})).await;
    assert!(body.contains("\"nothing\"") && body.contains("replay 1, by ann"), "{body}");
}

#[tokio::test]
async fn a_dry_run_of_cancelling_a_batch_predicts_the_result_and_changes_nothing() {
    let world = open_world().await;
    for sequence in 1..=3 {
        world.store_dead_letter(&invalid_event(sequence)).await;
    }
    let request = json!({"all": true, "reason": "a test", "by": "ann"});
    let (status, body) = world.post("default", "/v1/dead-letters/replay", &request).await;
    assert_eq!(status, 202, "{body}");
    let started: Value = serde_json::from_str(&body).unwrap();
    let batch = format!("/v1/dead-letters/batches/{}", started["batch"].as_str().unwrap());
    let cancel = format!("{batch}/cancel");
    let (status, body) = world.post("default", &cancel, &json!({"dry_run": true})).await;
    let predicted: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &predicted["unsent"]), (200, &json!(3)), "{body}");
    let (_, before) = world.get("default", &batch).await;
    assert!(before.contains("\"waiting\":3") && !before.contains("ended_at"), "nothing was done: {before}");
    assert_eq!(world.post("acme", &cancel, &json!({"dry_run": true})).await.0, 404);

    let (status, body) = world.post("default", &cancel, &json!({"reason": "enough", "by": "ann"})).await;
    assert!(status == 200 && body.contains("ended_at"), "positive control: {body}");
    let (_, body) = world.post("default", &cancel, &json!({"dry_run": true})).await;
    assert!(body.contains("already ended") && body.contains("\"unsent\":0"), "{body}");
}
