//! Folds the changes of a memory, as plain JSON, into the memory. Written from the manual, independently of
//! the program's own fold.

use serde_json::{Value, json};

/// Maximum number of evidence entries per memory; the oldest are dropped.
const EVIDENCE_MAX: usize = 8;
/// Maximum number of contradictions per memory; the oldest are dropped.
const CONTRADICTIONS_MAX: usize = 16;

/// Applies a change to a memory. Returns the new memory; `None` if there is still none. Fails with a
/// human-readable reason if the change is not allowed.
pub(crate) fn fold_change(memory: Option<Value>, change: &Value) -> Result<Option<Value>, String> {
    let effect = &change["effect"];
    let kind = effect["change"].as_str().ok_or("the change has no kind")?;
    match (kind, memory) {
        ("suppressed" | "refused", memory) => Ok(memory),
        ("created", None) => Ok(Some(create_memory(change, effect))),
        ("created", Some(_)) => Err("it creates a memory that already exists".to_owned()),
        (_, None) => Err(format!("{kind}, but the memory does not exist")),
        (_, Some(mut memory)) => {
            validate_change(&memory, kind, effect)?;
            apply_change(&mut memory, kind, change, effect);
            Ok(Some(memory))
        }
    }
}

fn create_memory(change: &Value, effect: &Value) -> Value {
    let mut memory = json!({
        "id": change["memory"],
        "scope": effect["scope"],
        "lesson": effect["lesson"],
        "status": effect["status"],
        "weight": effect["weight"],
        "observed_runs": 1,
        "tentative_runs": [effect["evidence"]["run"]],
        "evidence": [effect["evidence"]],
        "cue_not_met": 0,
        "contradicted_by": [],
        "created_at": change["at"],
        "changed_at": change["at"],
    });
    for (key, value) in
        [("quarantine", &effect["quarantine"]), ("authority", &effect["evidence"]["remark"]["standing"])]
    {
        if !value.is_null() {
            memory[key] = value.clone();
        }
    }
    memory
}

/// Checks that the memory's status allows this kind of change, and that the numbers of a weight change add
/// up.
fn validate_change(memory: &Value, kind: &str, effect: &Value) -> Result<(), String> {
    let status = memory["status"].as_str().unwrap_or_default();
    let allowed: &[&str] = match status {
        "tentative" => &["promoted", "accepted", "observed", "deleted", "superseded"],
        "active" => &["observed", "reweighted", "exempted", "archived", "deleted", "superseded"],
        "archived" => &["promoted", "accepted", "revived", "deleted", "superseded"],
        _ => &[],
    };
    if !allowed.contains(&kind) {
        return Err(format!("{kind}, but the memory is {status}"));
    }
    if ["promoted", "revived"].contains(&kind) && !memory["quarantine"].is_null() {
        return Err(format!("{kind}, but the memory is in quarantine"));
    }
    if kind != "reweighted" {
        return Ok(());
    }
    // A missing number must match no weight. A quarter of the minimum keeps the sum below from overflowing.
    let number = |value: &Value| value.as_i64().unwrap_or(i64::MIN / 4);
    let (before, delta, after) =
        (number(&effect["before"]), number(&effect["delta"]), number(&effect["after"]));
    if before != number(&memory["weight"]) || after != (before + delta).clamp(0, 1000) {
        return Err(format!(
            "{before} changed by {delta} to {after}, but the memory's weight is {}",
            memory["weight"]
        ));
    }
    Ok(())
}

fn apply_change(memory: &mut Value, kind: &str, change: &Value, effect: &Value) {
    memory["changed_at"] = change["at"].clone();
    let run = effect["evidence"]["run"].clone();
    match kind {
        "promoted" => {
            (memory["status"], memory["weight"]) = (json!("active"), effect["weight"].clone());
            reset_counts(memory);
        }
        "accepted" => {
            (memory["status"], memory["weight"]) = (json!("active"), effect["weight"].clone());
            reset_counts(memory);
            if let Some(fields) = memory.as_object_mut() {
                fields.remove("quarantine");
                // Accepting a rule gives it the authority of an insider. A memory that is not a rule has no
                // authority, so do not insert one.
                fields.entry("authority").and_modify(|authority| *authority = json!("insider"));
            }
        }
        "observed" if memory["status"] == "tentative" => {
            push_bounded(&mut memory["tentative_runs"], run, usize::MAX)
        }
        "reweighted" => {
            memory["weight"] = effect["after"].clone();
            memory["cue_not_met"] = effect["cue_not_met"].clone();
            let runs = effect["contradicted_by"].as_array().into_iter().flatten();
            for run in runs.filter(|_| !change["epoch"].is_null()) {
                push_bounded(
                    &mut memory["contradicted_by"],
                    json!([change["epoch"], run]),
                    CONTRADICTIONS_MAX,
                );
            }
        }
        "exempted" => memory["cue_not_met"] = effect["cue_not_met"].clone(),
        "archived" | "deleted" | "superseded" => memory["status"] = json!(kind),
        "revived" => {
            (memory["status"], memory["weight"]) = (json!("tentative"), json!(0));
            memory["tentative_runs"] = json!([run]);
            reset_counts(memory);
        }
        _ => {}
    }
    if ["promoted", "observed", "revived"].contains(&kind) {
        memory["observed_runs"] = json!(memory["observed_runs"].as_u64().unwrap_or_default() + 1);
        push_bounded(&mut memory["evidence"], effect["evidence"].clone(), EVIDENCE_MAX);
        let standing = &effect["evidence"]["remark"]["standing"];
        if authority_rank(standing) > authority_rank(&memory["authority"]) {
            memory["authority"] = standing.clone();
        }
    }
}

/// Returns the rank of a reviewer's standing, 0 being the lowest; `None` for evidence from a run.
fn authority_rank(standing: &Value) -> Option<usize> {
    let order = ["bot", "outsider", "contributor", "insider"];
    order.iter().position(|known| standing == known)
}

fn reset_counts(memory: &mut Value) {
    (memory["cue_not_met"], memory["contradicted_by"]) = (json!(0), json!([]));
}

/// Appends an item to a JSON array and drops the oldest items beyond `max`.
fn push_bounded(list: &mut Value, item: Value, max: usize) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
        let surplus = list.len().saturating_sub(max);
        list.drain(..surplus);
    }
}
