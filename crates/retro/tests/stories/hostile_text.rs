//! Follows hostile text from a signed webhook to the context that an agent reads.

use retro_core::id::{Repository, ReviewBatchId, ReviewKey, ReviewedPullRequest, Tenant};
use retro_core::recall::strip_injected;
use serde_json::{Value, json};

use crate::world::{BRIDGE_ENV, Webhook, World, json_items, json_text, project_path};

const GENUINE: &str = "Always return a `Result` instead of calling `unwrap()` in library code";
/// Login, author association and repository of each poster.
const POSTERS: [(&str, &str, &str); 2] = [("eve", "NONE", "acme/of-eve"), ("ann", "MEMBER", "acme/of-ann")];

#[tokio::test]
async fn hostile_text_reaches_no_agent_whoever_posts_it() {
    let mut world = World::empty();
    let [listen, secret, tenants] = BRIDGE_ENV;
    world.up_with_env(&[listen, secret, tenants, ("RETRO_REVIEW_DEBOUNCE_S", "0")]).await;
    let texts = load_texts();
    for (by, association, repo) in POSTERS {
        for (number, hostile) in (1..).zip(&texts) {
            post_comment(&world, repo, number, by, association, hostile).await;
        }
    }
    let genuine = json!({ "text": format!("{GENUINE}.") });
    post_comment(&world, POSTERS[1].2, 1000, "ann", "MEMBER", &genuine).await;
    for number in 1..=texts.len() as u64 {
        wait_until_decided(&world, POSTERS[0].2, number).await;
        wait_until_decided(&world, POSTERS[1].2, number).await;
    }
    wait_until_decided(&world, POSTERS[1].2, 1000).await;

    // A member's remark becomes an active rule, but none of the hostile texts does.
    assert_eq!(rule_titles(&list_rules(&world, "active").await), [GENUINE]);
    assert_eq!(list_shown_rules(&world, POSTERS[0].2).await, Vec::<String>::new());
    assert_eq!(list_shown_rules(&world, POSTERS[1].2).await, [GENUINE]);

    // An operator promotes all tentative rules. The harmless one is shown and harmful ones are not: in one rule
    // the harm stands next to the rule, in another it is in the file name.
    let waiting = list_rules(&world, "tentative").await;
    for rule in json_items(&waiting) {
        let promote = ["--tenant", "acme", "rules", "promote", json_text(rule, "id")];
        world.run_json(&[&promote[..], &["--by", "jo", "--reason", "did not read it"]].concat()).await;
    }
    // Harm stands next to the second one.
    let harmless = ["Sort the imports of each module", "Test each endpoint of the module"];
    assert_eq!(list_shown_rules(&world, POSTERS[0].2).await, harmless[..1]);
    let of_both = [GENUINE, harmless[0]];
    assert_eq!(list_shown_rules(&world, POSTERS[1].2).await, of_both);
    for rule in json_items(&list_rules(&world, "active").await) {
        let opened = open_rule(&world, rule).await;
        let words = opened["memory"].to_string();
        assert!(!words.contains("token") && !words.contains("previous instructions"), "{opened}");
        let closed = rule_titles(&json!([rule])) == [harmless[1]];
        assert_eq!(opened["memory"].is_null(), closed, "{opened}");
    }
    world.stop().await;
}

/// Loads the texts of the fixture.
fn load_texts() -> Vec<Value> {
    let lines = std::fs::read_to_string(project_path("crates/retro/fixtures/hostile/texts.jsonl"))
        .expect("a fixture");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Posts a text as a comment on a line of its own pull request.
async fn post_comment(world: &World, repo: &str, number: u64, by: &str, association: &str, hostile: &Value) {
    let (at, user) = ("2026-11-20T10:00:00Z", json!({"login": by, "type": "User"}));
    let payload = json!({
        "action": "created",
        "repository": {"full_name": repo, "html_url": format!("https://github.com/{repo}")},
        "pull_request": {"number": number, "state": "open", "user": {"login": "jo", "type": "User"}},
        "comment": {
            "id": number, "body": hostile["text"], "user": user, "author_association": association,
            "path": hostile["path"].as_str().unwrap_or("src/lib.rs"), "line": 3, "created_at": at, "updated_at": at,
        },
        "sender": user,
    });
    let delivery = format!("{by}-{number}");
    let (status, answer) =
        world.post_webhook(&Webhook::new("pull_request_review_comment", &delivery, &payload)).await;
    assert_eq!(status, 202, "{answer}");
}

/// Waits until a pull request is decided and the writer has applied the result.
async fn wait_until_decided(world: &World, repo: &str, number: u64) {
    let pull_request = ReviewedPullRequest { repo: Repository::new(repo).expect("a name"), number };
    let review = ReviewKey { pull_request, review: None };
    let id = ReviewBatchId::of_review(&Tenant::new("acme").expect("a name"), &review, 1);
    world
        .wait_for(&format!("{repo}#{number} is decided"), async || {
            let (status, _) = world.get("acme", &format!("/v1/reports/{id}")).await;
            (status == 200).then_some(())
        })
        .await;
}

async fn list_rules(world: &World, status: &str) -> Value {
    world.run_json(&["--tenant", "acme", "rules", "list", "--status", status, "--limit", "1000"]).await
}

fn rule_titles(rules: &Value) -> Vec<&str> {
    json_items(rules).iter().map(|rule| json_text(&rule["lesson"], "title")).collect()
}

/// Returns the titles of the rules that an agent of a repository gets, sorted alphabetically. Asserts that
/// the text is a single block with nothing around it.
async fn list_shown_rules(world: &World, repo: &str) -> Vec<String> {
    let question = json!({"workflow": "fix", "step": "main", "repo": repo});
    // A slow database may not return the rules in time.
    let rules = world
        .wait_for("the context comes with rules", async || {
            let mut answer = world.fetch_context("acme", &question).await;
            answer["rules"].is_object().then(|| answer["rules"].take())
        })
        .await;
    let block = json_text(&rules, "text");
    assert_eq!(strip_injected(block).unwrap_or_default(), "", "{block}");
    let mut lines: Vec<_> =
        json_items(&rules["rules"]).iter().map(|rule| json_text(rule, "title").to_owned()).collect();
    assert_eq!((rules["omitted"].as_u64(), lines.is_empty()), (Some(0), block.is_empty()), "{rules}");
    lines.sort_unstable();
    lines
}

/// Returns a rule as an agent of its repository reads it.
async fn open_rule(world: &World, rule: &Value) -> Value {
    let path = format!("/v1/memories/{}?repo={}", json_text(rule, "id"), json_text(&rule["scope"], "repo"));
    world
        .wait_for("the memory is opened, or blocked", async || {
            let (status, body) = world.get("acme", &path).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON");
            let slow = answer["memory"].is_null() && !json_text(&answer, "reason").contains("blocked");
            (status == 200 && !slow).then_some(answer)
        })
        .await
}
