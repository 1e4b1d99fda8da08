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
            validate_switches(&memory, kind, change)?;
            apply_change(&mut memory, kind, change, effect);
            Ok(Some(memory))
        }
    }
}

fn create_memory(change: &Value, effect: &Value) -> Value {
    // A memory that a person wrote has no evidence.
    let first: Vec<&Value> = effect.get("evidence").into_iter().collect();
    let mut memory = json!({
        "id": change["memory"],
        "scope": effect["scope"],
        "lesson": effect["lesson"],
        "status": effect["status"],
        "weight": effect["weight"],
        "observed_runs": first.len(),
        "tentative_runs": first.iter().map(|evidence| &evidence["run"]).collect::<Vec<_>>(),
        "evidence": first,
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
    if !effect["by"].is_null() {
        memory["added_by"] = effect["by"].clone();
        // A rule that a person adds has the authority of an insider, whoever wrote the remark behind it.
        if effect["scope"]["scope"] == "repository" {
            memory["authority"] = json!("insider");
        }
    }
    add_witness(&mut memory, &effect["evidence"]);
    memory
}

/// Returns the name of the witness that evidence comes from: a page or file, or a user with one task. Returns
/// `None` if the run itself is the witness.
fn witness_names(evidence: &Value) -> Vec<String> {
    let origin = &evidence["origin"];
    let part = |name: &str| origin[name].as_str();
    let source = part("source").map(|source| format!("source\u{1f}{source}"));
    let user = part("user").zip(part("task")).map(|(user, task)| format!("user\u{1f}{user}\u{1f}{task}"));
    source.into_iter().chain(user).collect()
}

/// Adds the run of the evidence to the memory's witnesses, unless the run itself is the witness. Memories without
/// such a run have no field for them.
fn add_witness(memory: &mut Value, evidence: &Value) {
    let names = witness_names(evidence);
    if let (Some(run), false) = (evidence["run"].as_str(), names.is_empty()) {
        let known = memory["tentative_witnesses"].as_array().cloned().unwrap_or_default();
        let new = names.into_iter().map(|witness| json!([run, witness]));
        memory["tentative_witnesses"] = known.into_iter().chain(new).collect();
    }
}

/// Checks that the memory's status allows this kind of change, and that the numbers of a weight change add
/// up.
fn validate_change(memory: &Value, kind: &str, effect: &Value) -> Result<(), String> {
    let status = memory["status"].as_str().unwrap_or_default();
    let allowed: &[&str] = match status {
        "tentative" => &[
            "promoted",
            "accepted",
            "observed",
            "quote_missing",
            "revised",
            "held",
            "released",
            "disabled",
            "enabled",
            "pinned",
            "unpinned",
            "deleted",
            "superseded",
        ],
        "active" => &[
            "observed",
            "quote_missing",
            "revised",
            "reweighted",
            "exempted",
            "held",
            "released",
            "disabled",
            "enabled",
            "pinned",
            "unpinned",
            "archived",
            "deleted",
            "superseded",
        ],
        "archived" => &[
            "promoted",
            "accepted",
            "quote_missing",
            "revived",
            "held",
            "released",
            "disabled",
            "enabled",
            "unpinned",
            "deleted",
            "superseded",
        ],
        "deleted" => &["restored"],
        _ => &[],
    };
    if !allowed.contains(&kind) {
        return Err(format!("{kind}, but the memory is {status}"));
    }
    let (is_held, is_rule) = (!memory["quarantine"].is_null(), !memory["authority"].is_null());
    // Further runs may confirm a held memory, but nothing except a person confirms a held rule.
    if ["promoted", "revived"].contains(&kind) && is_held && is_rule {
        return Err(format!("{kind}, but the rule is in quarantine"));
    }
    if kind == "held" && is_held {
        return Err("held, but the memory is in quarantine already".to_owned());
    }
    if kind == "held" && !memory["released_by"].is_null() {
        return Err("held, but a person has released the memory".to_owned());
    }
    if kind == "released" && !is_held {
        return Err("released, but the memory is not in quarantine".to_owned());
    }
    if kind == "quote_missing" && unchecked_evidence(memory, &effect["run"]).is_none() {
        return Err("quote_missing, but the memory has no unchecked quote of the run".to_owned());
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

/// Checks that the change fits what people have disabled and pinned.
fn validate_switches(memory: &Value, kind: &str, change: &Value) -> Result<(), String> {
    let (disabled, pinned) = (!memory["disabled_by"].is_null(), !memory["pinned_by"].is_null());
    let problem = match kind {
        "disabled" if disabled => "it is disabled already",
        "enabled" if !disabled => "it is not disabled",
        "pinned" if pinned => "it is pinned already",
        "unpinned" if !pinned => "it is not pinned",
        "reweighted" | "exempted" | "archived" | "superseded" | "deleted"
            if disabled && change["cause"]["cause"] != "operator" && change["cause"]["cause"] != "review" =>
        {
            "it is disabled, and no person caused the change"
        }
        _ => return Ok(()),
    };
    Err(format!("{kind}, but {problem}"))
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
            // The run of an agent that saved the lesson is listed since then.
            if unchecked_evidence(memory, &run).is_none() {
                push_bounded(&mut memory["tentative_runs"], run, usize::MAX);
            }
            add_witness(memory, &effect["evidence"]);
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
        "revised" => {
            memory["lesson"] = effect["lesson"].clone();
            if let Some(fields) = memory.as_object_mut() {
                fields.remove("released_by");
            }
        }
        "quote_missing" => {
            let run = &effect["run"];
            if let Some(nth) = unchecked_evidence(memory, run) {
                memory["evidence"].as_array_mut().expect("it was just read").remove(nth);
            }
            let runs = memory["observed_runs"].as_u64().unwrap_or_default();
            memory["observed_runs"] = json!(runs.saturating_sub(1));
            memory["quote_missing_in"] = run.clone();
        }
        "exempted" => memory["cue_not_met"] = effect["cue_not_met"].clone(),
        "archived" | "deleted" | "superseded" => memory["status"] = json!(kind),
        "revived" => {
            (memory["status"], memory["weight"]) = (json!("tentative"), json!(0));
            memory["tentative_runs"] = json!([run]);
            if let Some(fields) = memory.as_object_mut() {
                fields.remove("tentative_witnesses");
            }
            add_witness(memory, &effect["evidence"]);
            reset_counts(memory);
        }
        "disabled" => memory["disabled_by"] = effect["by"].clone(),
        "pinned" => memory["pinned_by"] = effect["by"].clone(),
        "enabled" | "unpinned" => {
            let field = if kind == "enabled" { "disabled_by" } else { "pinned_by" };
            if let Some(fields) = memory.as_object_mut() {
                fields.remove(field);
            }
        }
        "restored" => {
            memory["status"] = effect["status"].clone();
            memory["contradicted_by"] = json!([]);
        }
        "held" => memory["quarantine"] = effect["why"].clone(),
        "released" => {
            if let Some(fields) = memory.as_object_mut() {
                fields.remove("quarantine");
            }
            memory["released_by"] = effect["by"].clone();
        }
        _ => {}
    }
    if ["promoted", "observed", "revived"].contains(&kind) {
        // A run counts once: what its trace shows replaces what its agent said.
        if let Some(nth) = unchecked_evidence(memory, &effect["evidence"]["run"]) {
            memory["evidence"][nth] = effect["evidence"].clone();
            return;
        }
        memory["observed_runs"] = json!(memory["observed_runs"].as_u64().unwrap_or_default() + 1);
        push_bounded(&mut memory["evidence"], effect["evidence"].clone(), EVIDENCE_MAX);
        let standing = &effect["evidence"]["remark"]["standing"];
        if authority_rank(standing) > authority_rank(&memory["authority"]) {
            memory["authority"] = standing.clone();
        }
    }
}

/// Returns the index of the quote that the agent of a run gave and that nobody has found in its trace.
fn unchecked_evidence(memory: &Value, run: &Value) -> Option<usize> {
    let evidence = memory["evidence"].as_array()?;
    evidence.iter().position(|one| one["quote"]["place"]["part"] == "saved" && one["run"] == *run)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn created(standing: Option<&str>) -> Value {
        let remark = standing.map(|standing| json!({"standing": standing}));
        let evidence = json!({"run": "a", "remark": remark, "origin": {"user": "ann", "task": "1"}});
        let effect = json!({"change": "created", "status": "tentative", "weight": 0, "evidence": evidence});
        fold(None, &effect).unwrap()
    }

    fn fold(memory: Option<Value>, effect: &Value) -> Result<Value, String> {
        let change = json!({"memory": "m", "at": "now", "effect": effect});
        fold_change(memory, &change).map(|memory| memory.expect("no memory vanishes"))
    }

    fn held(memory: Value) -> Result<Value, String> {
        fold(Some(memory), &json!({"change": "held", "why": "a danger"}))
    }

    fn released(memory: Value) -> Result<Value, String> {
        fold(Some(memory), &json!({"change": "released", "by": "ann"}))
    }

    fn promoted(memory: Value) -> Result<Value, String> {
        fold(Some(memory), &json!({"change": "promoted", "weight": 300, "evidence": {"run": "b"}}))
    }

    #[test]
    fn a_memory_is_held_until_it_is_released_and_then_never_again() {
        let memory = held(created(None)).unwrap();
        assert_eq!(memory["quarantine"], "a danger");
        assert!(held(memory.clone()).unwrap_err().contains("already"));
        let memory = released(memory).unwrap();
        assert_eq!((&memory["quarantine"], &memory["released_by"]), (&Value::Null, &json!("ann")));
        assert!(memory.get("quarantine").is_none(), "the program stores no empty field");
        assert!(held(memory.clone()).unwrap_err().contains("a person has released"));
        assert!(released(memory).unwrap_err().contains("not in quarantine"));
    }

    #[test]
    fn a_held_memory_is_promoted_and_a_held_rule_is_not() {
        let memory = promoted(held(created(None)).unwrap()).unwrap();
        assert_eq!((&memory["status"], &memory["quarantine"]), (&json!("active"), &json!("a danger")));
        let rule = held(created(Some("outsider"))).unwrap();
        assert!(promoted(rule.clone()).unwrap_err().contains("the rule is in quarantine"));
        assert!(promoted(released(rule).unwrap()).is_ok(), "positive control");
    }

    #[test]
    fn the_witnesses_behind_runs_are_kept_while_the_memory_is_tentative() {
        let observed = |memory, run: &str, origin: Value| {
            let evidence = json!({"run": run, "origin": origin});
            fold(Some(memory), &json!({"change": "observed", "evidence": evidence})).unwrap()
        };
        let memory = created(None);
        assert_eq!(memory["tentative_witnesses"], json!([["a", "user\u{1f}ann\u{1f}1"]]));
        let memory = observed(memory, "b", json!({"user": "bob"}));
        let memory =
            observed(memory, "c", json!({"user": "bob", "task": "2", "source": "https://a.example"}));
        let both = json!([
            ["a", "user\u{1f}ann\u{1f}1"],
            ["c", "source\u{1f}https://a.example"],
            ["c", "user\u{1f}bob\u{1f}2"]
        ]);
        assert_eq!(memory["tentative_witnesses"], both, "a user without a task is no witness");
        let memory = promoted(memory).unwrap();
        let memory = observed(memory, "d", json!({"source": "page"}));
        assert_eq!(memory["tentative_witnesses"], both, "an active memory needs none");
        let memory = fold(Some(memory), &json!({"change": "archived"})).unwrap();
        let revived = json!({"change": "revived", "evidence": {"run": "e"}});
        let memory = fold(Some(memory), &revived).unwrap();
        assert_eq!(memory.get("tentative_witnesses"), None);
    }
}
