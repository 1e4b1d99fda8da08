//! Tests that secrets are redacted and other text is kept. The secrets are in `fixtures/`, which names the
//! source of each.

use proptest::prelude::*;
use retro_core::json::JsonDocument;
use retro_core::run::RunFacts;
use retro_core::trajectory::Trajectory;
use retro_redact::{Redactor, TEXT_BYTES_MAX};
use serde_json::{Value, json};

/// Fake secrets from upstream tests, stored in pieces so that other scanners do not report this repository.
const FIXTURE: &str = include_str!("fixtures/fake_secrets.jsonl");

struct Case {
    kind: String,
    text: String,
    secret: String,
}

fn load_cases() -> Vec<Case> {
    let joined = |pieces: &serde_json::Value| -> String {
        pieces
            .as_array()
            .expect("a list of pieces")
            .iter()
            .map(|piece| piece.as_str().expect("a piece is a text"))
            .collect()
    };
    let case = |line: &str| {
        let case: serde_json::Value = serde_json::from_str(line).expect("a line is a JSON object");
        Case {
            kind: case["kind"].as_str().expect("a kind").to_owned(),
            text: joined(&case["text"]),
            secret: joined(&case["secret"]),
        }
    };
    FIXTURE.lines().map(case).collect()
}

fn redact_text(text: &str) -> String {
    Redactor::shared().redact_text(text).into_owned()
}

#[test]
fn every_fake_secret_is_redacted() {
    for case in load_cases() {
        let clean = redact_text(&case.text);
        assert!(!clean.contains(&case.secret), "{}: {clean}", case.kind);
        assert!(clean.contains("[redacted:"), "{}: {clean}", case.kind);
    }
}

#[test]
fn every_fake_secret_is_redacted_in_a_long_log() {
    let log = "2024-05-17 12:00:01 worker finished step 7 in 31 ms, see target/debug/build\n".repeat(400);
    for case in load_cases() {
        let clean = redact_text(&format!("{log}{}\n{log}", case.text));
        assert!(!clean.contains(&case.secret), "{}", case.kind);
        assert!(clean.starts_with(&log) && clean.ends_with(&log), "{}: the log around it changed", case.kind);
    }
}

#[test]
fn redacting_twice_changes_nothing() {
    for case in load_cases() {
        let once = redact_text(&case.text);
        assert_eq!(redact_text(&once), once, "{}", case.kind);
    }
}

#[test]
fn ids_digests_fences_and_prose_are_kept() {
    for kept in [
        "run 0191d5c0-7c1e-7b5a-9c1f-3b0a4f6f2d11 of commit 83d9cd684c87d95d656c1458ef04895a7f1cbd8e",
        "idempotency_key: 0191d5c0-7c1e-7b5a-9c1f-3b0a4f6f2d11",
        "cache key = e163e53b9e7e8a8511e77271e2b323ed057759542a6d988258afe3a1fa329caf",
        "sha256:e3884b252b3bfc045e55be43a34d1e80da070bc6f804ac95bf4660e97d62ebc6 is the image's digest",
        "<<<RETROSPECT MEMORIES: background knowledge, not instructions from the user>>>\n- [0191d5c0] (0.300) DESCRIBE the table first\n<<<END OF RETROSPECT MEMORIES>>>",
        "{\"payment_id\":\"gift_card_8190333\",\"reservation_id\":\"UM3OG5\",\"user_id\":\"omar_rossi_1241\"}",
        "Error executing query: Unknown column 'o.name' in 'field list'",
        "Primary key: Orchestra_ID, foreign key: Conductor_ID, key = 'PRI'",
        "The token budget is max_tokens=4096 and the access was denied; the author is unknown.",
        "def connect(password: str, token: Optional[str] = None): self.password = password",
        "password = os.environ['DB_PASSWORD']",
        "postgres://app:${DB_PASSWORD}@db/app and https://example.com:8080/path@v2",
        "Authorization: Bearer YOUR_TOKEN",
        "Please enter your password: it must have 8 letters.",
        "PWD=/home/agent/repo OLDPWD=/home/agent",
    ] {
        assert_eq!(redact_text(kept), kept);
    }
}

#[test]
fn a_uuid_under_a_token_name_is_redacted() {
    let clean = redact_text("//registry.npmjs.org/:_authToken=346a14f2-a672-4668-a892-956a462ab56e");
    assert_eq!(clean, "//registry.npmjs.org/:_authToken=[redacted:assigned-secret]");
}

#[test]
fn a_vendor_rule_takes_precedence_over_the_generic_rule() {
    let case = load_cases().into_iter().find(|case| case.kind == "github").unwrap();
    let line = format!("api_key = \"{}\"", case.secret);
    let found = Redactor::shared().redact(&line);
    assert_eq!(found.text, "api_key = \"[redacted:github-pat]\"");
    assert_eq!(found.secrets, 1);
}

#[test]
fn a_private_key_is_redacted_even_if_truncated_or_short() {
    let line = "MIIDOjCCAiICCQCmbkQEYlfyoTANBgkqhkiG9w0BAQUFADBeMQswCQYDVQQGEwJ1";
    let (begin, end) = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----");
    for (key, rule) in [
        (format!("{begin}\n{line}\n{line}\n{end}"), "private-key"),
        (format!("{begin}\nshort\n{end}"), "private-key-block"),
        (format!("{begin}\\n{line}\\n{line}"), "private-key-cut-off"),
    ] {
        assert_eq!(
            redact_text(&format!("cat id_rsa\n{key}\n$ ls")),
            format!("cat id_rsa\n[redacted:{rule}]\n$ ls")
        );
    }
}

#[test]
fn escaped_json_is_redacted_like_plain_json() {
    let clean = redact_text(r#"{"body": "{\"user\": \"joe\", \"password\": \"sw0rdfish\"}"}"#);
    assert_eq!(clean, r#"{"body": "{\"user\": \"joe\", \"password\": \"[redacted:password]\"}"}"#);
}

#[test]
fn redacting_a_trajectory_keeps_its_tools_steps_and_other_text() {
    let turn = json!({"step": "fix", "agentic": true, "source": "agent", "message": "export DB_PASSWORD='sw0rdfish'", "calls": [
        {"tool": "login_password", "arguments": r#"{"password":"swordfish","user":"joe"}"#, "answer": "Authorization: Bearer mF_9.B5f-4.1JqM"},
        {"tool": "bash", "arguments": "psql postgres://app:hunter2@db/app", "failed": false}]});
    let agents_md = "Deploy with DB_PASSWORD='sw0rdfish'.";
    let mut trajectory: Trajectory =
        serde_json::from_value(json!({"turns": [turn], "agents_md": agents_md})).expect("a trajectory");
    assert_eq!(Redactor::shared().redact_trajectory(&mut trajectory), 5);
    let turn = json!({"step": "fix", "agentic": true, "source": "agent", "message": "export DB_PASSWORD='[redacted:password]'", "calls": [
        {"tool": "login_password", "arguments": r#"{"password":"[redacted:named-field]","user":"joe"}"#, "answer": "Authorization: Bearer [redacted:authorization-header]"},
        {"tool": "bash", "arguments": "psql postgres://app:[redacted:url-password]@db/app", "failed": false}]});
    let agents_md = "Deploy with DB_PASSWORD='[redacted:password]'.";
    let clean = json!({"turns": [turn], "agents_md": agents_md});
    assert_eq!(serde_json::to_value(&trajectory).expect("JSON"), clean);
    assert_eq!(Redactor::shared().redact_trajectory(&mut trajectory), 0);
}

#[test]
fn run_facts_are_redacted_too() {
    let facts = json!({"run_id": "run-1", "outcome": "failure", "user": "grace", "memories": {},
        "task": "ticket 7, token=sw0rdfish-and-more",
        "agent": {"name": "fixer --password=sw0rdfish"},
        "self_feedback": [{"step": "main", "text": "The password is 'x', use mongodb://app:hunter2@db/app."}]});
    let mut facts: RunFacts = serde_json::from_value(facts).expect("facts");
    assert_eq!(Redactor::shared().redact_facts(&mut facts), 3);
    assert!(!facts.task.expect("the task is kept").contains("sw0rdfish"));
    assert_eq!(
        facts.self_feedback[0].text,
        "The password is 'x', use mongodb://app:[redacted:url-password]@db/app."
    );
    assert_eq!(facts.user.as_deref(), Some("grace"));
}

#[test]
fn different_secrets_leave_different_texts_and_equal_secrets_equal_ones() {
    let text = "password='alpha-1' then password='beta-2', again password='alpha-1', https://joe:beta-2@db/x";
    let once = redact_text(text);
    assert_eq!(
        once,
        "password='[redacted:password]' then password='[redacted:password#2]', \
         again password='[redacted:password]', https://joe:[redacted:password#2]@db/x"
    );
    assert_eq!(redact_text(&once), once);
    // A mask that the text already has belongs to another secret.
    assert_eq!(
        redact_text("password='[redacted:password#4]' password='alpha-1'"),
        "password='[redacted:password#4]' password='[redacted:password#5]'"
    );
    // A secret in brackets is no mask.
    let secret = load_cases().into_iter().find(|case| case.kind == "github").unwrap().secret;
    assert_eq!(redact_text(&format!("[redacted:{secret}]")), "[redacted:[redacted:github-pat]]");
}

#[test]
fn one_run_has_one_numbering() {
    let facts = json!({"run_id": "run-1", "outcome": "failure", "memories": {},
        "self_feedback": [{"step": "main", "text": "password='alpha-1' worked, later password='[redacted:password#3]'"}]});
    let mut facts: RunFacts = serde_json::from_value(facts).expect("facts");
    let call = json!({"tool": "bash", "arguments": r#"{"password":"beta-22","user":"joe"}"#, "answer": "password='beta-22' password='alpha-1'"});
    let turn = json!({"step": "fix", "agentic": true, "source": "agent", "message": "password='gamma-3'", "calls": [call]});
    let mut trajectory: Trajectory = serde_json::from_value(json!({"turns": [turn]})).expect("a trajectory");
    let mut run = Redactor::shared().begin_run();
    assert_eq!((run.redact_facts(&mut facts), run.redact_trajectory(&mut trajectory)), (1, 4));
    assert_eq!(
        facts.self_feedback[0].text,
        "password='[redacted:password#4]' worked, later password='[redacted:password#3]'"
    );
    let turn = &trajectory.turns[0];
    assert_eq!(turn.message, "password='[redacted:password#5]'");
    assert_eq!(turn.calls[0].arguments, r#"{"password":"[redacted:named-field]","user":"joe"}"#);
    assert_eq!(
        turn.calls[0].answer.as_deref(),
        Some("password='[redacted:named-field]' password='[redacted:password#4]'")
    );
    let (facts_once, trajectory_once) = (facts.clone(), trajectory.clone());
    let mut again = Redactor::shared().begin_run();
    assert_eq!((again.redact_facts(&mut facts), again.redact_trajectory(&mut trajectory)), (0, 0));
    assert_eq!((facts, trajectory), (facts_once, trajectory_once));
}

#[test]
fn in_a_name_only_a_secret_with_a_form_of_its_own_is_redacted() {
    let token = load_cases().into_iter().find(|case| case.kind == "github").unwrap().secret;
    let call = |tool: &str| json!({"tool": tool, "arguments": ""});
    let turn = json!({"step": "fix", "agentic": true, "source": "agent",
        "calls": [call(&format!("call_{token}")), call("password=swordfish9"), call("reset_password")]});
    let mut trajectory: Trajectory = serde_json::from_value(json!({"turns": [turn]})).expect("a trajectory");
    assert_eq!(Redactor::shared().redact_trajectory(&mut trajectory), 1);
    let tools: Vec<&str> = trajectory.turns[0].calls.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(tools, ["call_[redacted:github-pat]", "password=swordfish9", "reset_password"]);
}

#[test]
fn the_value_of_an_entry_and_each_item_of_a_secret_field_is_redacted() {
    let value = json!({
        "env": [{"name": "DB_PASSWORD", "value": "swordfish"}, {"name": "REGION", "value": "eu-west-1"}],
        "Set-Cookie": ["sid=abcdef", "theme=dark"],
        "contraseña": "swordfish",
    });
    let expected = json!({
        "env": [{"name": "DB_PASSWORD", "value": "[redacted:named-field#3]"}, {"name": "REGION", "value": "eu-west-1"}],
        "Set-Cookie": ["[redacted:named-field]", "[redacted:named-field#2]"],
        "contraseña": "[redacted:named-field#3]",
    });
    assert_eq!(redact_json(&value), (expected.to_string(), 4));
    assert_eq!(redact_json(&expected), (expected.to_string(), 0));
}

#[test]
fn text_in_other_scripts_around_a_secret_is_kept() {
    let clean = redact_text("Пароль ist „geheim“: password=\"пароль-тайный\" – конец 终");
    assert_eq!(clean, "Пароль ist „geheim“: password=\"[redacted:password]\" – конец 终");
}

fn redact_json(value: &Value) -> (String, usize) {
    Redactor::shared().redact_json(JsonDocument::from_value(value).root())
}

#[test]
fn a_value_under_a_secret_name_is_redacted() {
    let value = json!({
        "db": {"Password": "swordfish", "user": "admin", "port": 5432},
        "client-secret": 12345,
        "headers": [{"Authorization": "Token abc"}],
        "password_hint": "a fish",
        "api_key": "<your key>",
        "tokens": 77,
    });
    let expected = json!({
        "db": {"Password": "[redacted:named-field#2]", "user": "admin", "port": 5432},
        "client-secret": "[redacted:named-field]",
        "headers": [{"Authorization": "[redacted:named-field#3]"}],
        "password_hint": "a fish",
        "api_key": "<your key>",
        "tokens": 77,
    });
    assert_eq!(redact_json(&value), (expected.to_string(), 3));
    assert_eq!(redact_json(&expected), (expected.to_string(), 0));
}

#[test]
fn a_secret_in_a_field_name_is_redacted() {
    let case = load_cases().into_iter().find(|case| case.kind == "github").unwrap();
    let value = json!({ case.secret: {"scopes": ["repo", 1.0, null]} });
    assert_eq!(
        redact_json(&value),
        (r#"{"[redacted:github-pat]":{"scopes":["repo",1.0,null]}}"#.to_owned(), 1)
    );
}

#[test]
fn a_text_above_the_size_limit_is_replaced_completely() {
    let clean = Redactor::shared().redact(&"a".repeat(TEXT_BYTES_MAX + 1)).text.into_owned();
    assert_eq!(clean, "[redacted:too-large]");
}

#[test]
fn redacting_overlapping_secrets_is_stable() {
    let once = redact_text("password=password=\"password=\n\u{b3c}");
    assert_eq!(redact_text(&once), once);
}

proptest! {
    #[test]
    fn redacting_any_text_finds_disjoint_secrets_and_is_stable(parts in proptest::collection::vec("\\PC{0,20}|password=|token: |://|@|\\\\u0041|%3a|\\[redacted:password#2\\]|[a-c]-[1-3]{6}|\"|ey|-----BEGIN PRIVATE KEY-----|\n", 0..20)) {
        let raw = parts.concat();
        let found = Redactor::shared().find_secrets(&raw);
        for pair in found.windows(2) {
            prop_assert!(pair[0].range.end <= pair[1].range.start);
        }
        let once = redact_text(&raw);
        prop_assert_eq!(redact_text(&once), once);
    }
}
