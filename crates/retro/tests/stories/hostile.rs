//! Hostile text, from a signed webhook to what an agent reads.

use retro_core::id::{ReviewBatchId, Tenant};
use retro_core::recall::strip_injected;
use retro_core::review::{Repository, ReviewKey, ReviewedPullRequest};
use serde_json::{Value, json};

use crate::world::{BRIDGED, Webhook, World, items, project, text};

const GENUINE: &str = "Always return a `Result` instead of calling `unwrap()` in library code";
/// Who posts, how GitHub calls them, and where.
const POSTERS: [(&str, &str, &str); 2] = [("eve", "NONE", "acme/of-eve"), ("ann", "MEMBER", "acme/of-ann")];

#[tokio::test]
async fn what_was_written_to_do_harm_reaches_no_agent_whoever_posts_it() {
    let mut world = World::empty();
    let [listen, secret, tenants] = BRIDGED;
    world.up_with(&[listen, secret, tenants, ("RETRO_REVIEW_DEBOUNCE_S", "0")]).await;
    let texts = texts();
    for (by, association, repo) in POSTERS {
        for (number, hostile) in (1..).zip(&texts) {
            post(&world, repo, number, by, association, hostile).await;
        }
    }
    let genuine = json!({ "text": format!("{GENUINE}.") });
    post(&world, POSTERS[1].2, 1000, "ann", "MEMBER", &genuine).await;
    for number in 1..=texts.len() as u64 {
        decided(&world, POSTERS[0].2, number).await;
        decided(&world, POSTERS[1].2, number).await;
    }
    decided(&world, POSTERS[1].2, 1000).await;

    // A member's word is enough for a rule, and for none of these.
    assert_eq!(titles(&rules(&world, "active").await), [GENUINE]);
    assert_eq!(shown(&world, POSTERS[0].2).await, Vec::<String>::new());
    assert_eq!(shown(&world, POSTERS[1].2).await, [GENUINE]);

    // Somebody promotes whatever waits. What is harmless in it is shown, and what is not stays away: of one the harm was beside
    // the rule, of the other it is in the name of the file.
    let waiting = rules(&world, "tentative").await;
    for rule in items(&waiting) {
        let promote = ["--tenant", "acme", "rules", "promote", text(rule, "id")];
        world.ask(&[&promote[..], &["--by", "jo", "--reason", "did not read it"]].concat()).await;
    }
    let harmless = ["Sort the imports of each module", "Test each endpoint of the module"];
    assert_eq!(shown(&world, POSTERS[0].2).await, harmless);
    let of_both = [GENUINE, harmless[0], harmless[1]];
    assert_eq!(shown(&world, POSTERS[1].2).await, of_both);
    for rule in items(&rules(&world, "active").await) {
        let opened = opened(&world, text(rule, "id")).await;
        let words = opened["memory"].to_string();
        assert!(!words.contains("token") && !words.contains("previous instructions"), "{opened}");
        let closed = titles(&json!([rule])) == [harmless[1]];
        assert_eq!(opened["memory"].is_null(), closed, "{opened}");
    }
    world.stop().await;
}

/// The texts of the fixture.
fn texts() -> Vec<Value> {
    let lines =
        std::fs::read_to_string(project("crates/retro/fixtures/hostile/texts.jsonl")).expect("a fixture");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Posts a text as a comment on a line of a pull request of its own.
async fn post(world: &World, repo: &str, number: u64, by: &str, association: &str, said: &Value) {
    let (at, user) = ("2026-11-20T10:00:00Z", json!({"login": by, "type": "User"}));
    let payload = json!({
        "action": "created",
        "repository": {"full_name": repo, "html_url": format!("https://github.com/{repo}")},
        "pull_request": {"number": number, "state": "open", "user": {"login": "jo", "type": "User"}},
        "comment": {
            "id": number, "body": said["text"], "user": user, "author_association": association,
            "path": said["path"].as_str().unwrap_or("src/lib.rs"), "line": 3, "created_at": at, "updated_at": at,
        },
        "sender": user,
    });
    let delivery = format!("{by}-{number}");
    let (status, answer) =
        world.webhook(&Webhook::new("pull_request_review_comment", &delivery, &payload)).await;
    assert_eq!(status, 202, "{answer}");
}

/// Waits until a pull request was decided upon and the writer has done what was asked.
async fn decided(world: &World, repo: &str, number: u64) {
    let pull_request = ReviewedPullRequest { repo: Repository::new(repo).expect("a name"), number };
    let review = ReviewKey { pull_request, review: None };
    let id = ReviewBatchId::of_review(&Tenant::new("acme").expect("a name"), &review, 1);
    world
        .until(&format!("{repo}#{number} is decided upon"), async || {
            let (status, _) = world.get("acme", &format!("/v1/reports/{id}")).await;
            (status == 200).then_some(())
        })
        .await;
}

async fn rules(world: &World, status: &str) -> Value {
    world.ask(&["--tenant", "acme", "rules", "list", "--status", status, "--limit", "1000"]).await
}

fn titles(rules: &Value) -> Vec<&str> {
    items(rules).iter().map(|rule| text(&rule["lesson"], "title")).collect()
}

/// What an agent is shown of a repository, whatever it works on, in the order of the alphabet: one block and nothing around it.
async fn shown(world: &World, repo: &str) -> Vec<String> {
    let asked = json!({"workflow": "fix", "step": "main", "repo": repo});
    // A database that is slow gives no rules in time.
    let rules = world
        .until("the context comes with rules", async || {
            let mut answer = world.context("acme", &asked).await;
            answer["rules"].is_object().then(|| answer["rules"].take())
        })
        .await;
    let block = text(&rules, "text");
    assert_eq!(strip_injected(block).unwrap_or_default(), "", "{block}");
    let mut lines: Vec<_> =
        items(&rules["rules"]).iter().map(|rule| text(rule, "title").to_owned()).collect();
    assert_eq!((rules["left_out"].as_u64(), lines.is_empty()), (Some(0), block.is_empty()), "{rules}");
    lines.sort_unstable();
    lines
}

/// A rule as an agent opens it.
async fn opened(world: &World, id: &str) -> Value {
    world
        .until("the memory is opened, or withheld", async || {
            let (status, body) = world.get("acme", &format!("/v1/memories/{id}")).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON");
            let slow = answer["memory"].is_null() && !text(&answer, "reason").contains("withheld");
            (status == 200 && !slow).then_some(answer)
        })
        .await
}
