//! A memory out of its changes, written anew from what the manual says of each kind, over plain JSON.

use serde_json::{Value, json};

/// Quotes kept on a memory.
const EVIDENCE_MAX: usize = 8;
/// Contradictions kept on a memory.
const CONTRADICTIONS_MAX: usize = 16;

/// The memory after a change; `None`: there is none. Fails with a sentence when the change does not fit.
pub(crate) fn fold(memory: Option<Value>, change: &Value) -> Result<Option<Value>, String> {
    let effect = &change["effect"];
    let kind = effect["change"].as_str().ok_or("it does not say what was done")?;
    match (kind, memory) {
        ("suppressed" | "refused", memory) => Ok(memory),
        ("created", None) => Ok(Some(created(change, effect))),
        ("created", Some(_)) => Err("it makes a memory that is there".to_owned()),
        (_, None) => Err(format!("{kind}, and there is no memory")),
        (_, Some(mut memory)) => {
            fits(&memory, kind, effect)?;
            apply(&mut memory, kind, change, effect);
            Ok(Some(memory))
        }
    }
}

fn created(change: &Value, effect: &Value) -> Value {
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

/// What may happen to a memory, by where it stands.
fn fits(memory: &Value, kind: &str, effect: &Value) -> Result<(), String> {
    let status = memory["status"].as_str().unwrap_or_default();
    let allowed: &[&str] = match status {
        "tentative" => &["promoted", "accepted", "observed", "deleted", "superseded"],
        "active" => &["observed", "reweighted", "exempted", "archived", "deleted", "superseded"],
        "archived" => &["promoted", "accepted", "revived", "deleted", "superseded"],
        _ => &[],
    };
    if !allowed.contains(&kind) {
        return Err(format!("{kind}, and the memory is {status}"));
    }
    if ["promoted", "revived"].contains(&kind) && !memory["quarantine"].is_null() {
        return Err(format!("{kind}, and the memory is in quarantine"));
    }
    if kind != "reweighted" {
        return Ok(());
    }
    let number = |value: &Value| value.as_i64().unwrap_or(i64::MIN / 4);
    let (before, delta, after) =
        (number(&effect["before"]), number(&effect["delta"]), number(&effect["after"]));
    if before != number(&memory["weight"]) || after != (before + delta).clamp(0, 1000) {
        return Err(format!("{before} and {delta} make {after}, and the memory weighs {}", memory["weight"]));
    }
    Ok(())
}

fn apply(memory: &mut Value, kind: &str, change: &Value, effect: &Value) {
    memory["changed_at"] = change["at"].clone();
    let run = effect["evidence"]["run"].clone();
    match kind {
        "promoted" => {
            (memory["status"], memory["weight"]) = (json!("active"), effect["weight"].clone());
            forget(memory);
        }
        "accepted" => {
            (memory["status"], memory["weight"]) = (json!("active"), effect["weight"].clone());
            forget(memory);
            if let Some(fields) = memory.as_object_mut() {
                fields.remove("quarantine");
                // A person vouches for a rule like an insider; what is no rule has no authority.
                fields.entry("authority").and_modify(|authority| *authority = json!("insider"));
            }
        }
        "observed" if memory["status"] == "tentative" => push(&mut memory["tentative_runs"], run, usize::MAX),
        "reweighted" => {
            memory["weight"] = effect["after"].clone();
            memory["cue_not_met"] = effect["cue_not_met"].clone();
            let runs = effect["contradicted_by"].as_array().into_iter().flatten();
            for run in runs.filter(|_| !change["epoch"].is_null()) {
                push(&mut memory["contradicted_by"], json!([change["epoch"], run]), CONTRADICTIONS_MAX);
            }
        }
        "exempted" => memory["cue_not_met"] = effect["cue_not_met"].clone(),
        "archived" | "deleted" | "superseded" => memory["status"] = json!(kind),
        "revived" => {
            (memory["status"], memory["weight"]) = (json!("tentative"), json!(0));
            memory["tentative_runs"] = json!([run]);
            forget(memory);
        }
        _ => {}
    }
    if ["promoted", "observed", "revived"].contains(&kind) {
        memory["observed_runs"] = json!(memory["observed_runs"].as_u64().unwrap_or_default() + 1);
        push(&mut memory["evidence"], effect["evidence"].clone(), EVIDENCE_MAX);
        let standing = &effect["evidence"]["remark"]["standing"];
        if greatness(standing) > greatness(&memory["authority"]) {
            memory["authority"] = standing.clone();
        }
    }
}

/// What somebody's word counts for, the least first; nothing for what came from a run.
fn greatness(standing: &Value) -> Option<usize> {
    let order = ["bot", "outsider", "contributor", "insider"];
    order.iter().position(|known| standing == known)
}

fn forget(memory: &mut Value) {
    (memory["cue_not_met"], memory["contradicted_by"]) = (json!(0), json!([]));
}

/// Appends to a list; the oldest go when there are too many.
fn push(list: &mut Value, item: Value, max: usize) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
        let surplus = list.len().saturating_sub(max);
        list.drain(..surplus);
    }
}
