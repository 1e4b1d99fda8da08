//! Memories presented to the next run of a step: the ten heaviest, with two places for newcomers, within a
//! token budget and in a fenced block.

use retro_core::id::{MemoryId, RunId, derive_uuid};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::policy::Policy;
use retro_core::recall::{
    Assignment, FENCE_BEGIN, FENCE_END, FENCE_HINT, FENCE_TOOL_HINT, Recall, RecallCandidate, hint_at_tools,
    is_withheld,
};
use retro_core::time::add_seconds;

use crate::prepare_and_choose;
use crate::world::{World, start_time};

/// Builds an active memory with this title and weight.
fn memory(name: &str, weight: u16) -> Memory {
    let mut world = World::new();
    world.add_active(name, weight);
    world.named(name).clone()
}

fn candidate(name: &str, weight: u16, presentations: u64) -> RecallCandidate {
    RecallCandidate { memory: memory(name, weight), presentations }
}

fn created_after(seconds: u64, mut candidate: RecallCandidate) -> RecallCandidate {
    candidate.memory.created_at = add_seconds(start_time(), seconds);
    candidate
}

fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn choose_by_default_policy(candidates: Vec<RecallCandidate>) -> Recall {
    prepare_and_choose(candidates, None, &Policy::default(), &count_words)
}

fn titles(recall: &Recall) -> Vec<&str> {
    recall.memories.iter().map(|memory| memory.title.as_str()).collect()
}

#[test]
fn only_active_memories_at_or_above_the_injection_weight_are_presented() {
    let other = |status| RecallCandidate {
        memory: Memory { status, ..memory(status.as_str(), 900) },
        presentations: 0,
    };
    let mut candidates: Vec<_> = MemoryStatus::ALL
        .iter()
        .copied()
        .filter(|status| *status != MemoryStatus::Active)
        .map(other)
        .collect();
    candidates.extend([candidate("light", 99, 0), candidate("just", 100, 0), candidate("heavy", 1000, 0)]);
    assert_eq!(titles(&choose_by_default_policy(candidates)), ["heavy", "just"]);
}

#[test]
fn no_memories_give_no_text() {
    assert_eq!(choose_by_default_policy(Vec::new()), Recall::default());
}

#[test]
fn ties_break_by_fewer_presentations_then_age_then_id() {
    let same_age = [candidate("x", 300, 5), candidate("y", 300, 5)];
    let mut by_id = same_age.clone().map(|candidate| (candidate.memory.id, candidate.memory.lesson.title));
    by_id.sort();
    let mut candidates = vec![
        candidate("lighter", 299, 0),
        created_after(20, candidate("younger", 300, 1)),
        created_after(10, candidate("older", 300, 1)),
        created_after(30, candidate("less shown", 300, 0)),
    ];
    candidates.extend(same_age);
    candidates.reverse();
    let expected = ["less shown", "older", "younger", &by_id[0].1, &by_id[1].1, "lighter"];
    assert_eq!(titles(&choose_by_default_policy(candidates)), expected);
}

#[test]
fn ten_eligible_memories_all_have_a_place_by_weight() {
    let candidates = (0..10).map(|nth| candidate(&format!("m{nth}"), 500 - nth, u64::from(nth))).collect();
    let recall = choose_by_default_policy(candidates);
    assert_eq!(titles(&recall), ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"]);
    assert!(recall.memories.iter().all(|memory| !memory.newcomer));
    assert_eq!(recall.omitted, 0);
}

#[test]
fn with_more_than_ten_two_places_go_to_the_least_presented() {
    let mut candidates: Vec<_> = (0..12).map(|nth| candidate(&format!("m{nth}"), 500 - nth, 100)).collect();
    candidates[9].presentations = 7;
    candidates[11].presentations = 3;
    let recall = choose_by_default_policy(candidates);
    assert_eq!(titles(&recall), ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m11", "m9"]);
    let newcomers = recall.memories.iter().map(|memory| memory.newcomer);
    assert_eq!(newcomers.collect::<Vec<_>>(), [[false; 8].as_slice(), &[true; 2]].concat());
    assert_eq!(recall.omitted, 2);
}

#[test]
fn the_policy_can_give_newcomers_no_place_or_every_place() {
    let candidates =
        || (0..12).map(|nth| candidate(&format!("m{nth}"), 500 - nth, 12 - u64::from(nth))).collect();
    let with = |inject_newcomers| {
        let policy = Policy { inject_newcomers, ..Policy::default() };
        let recall = prepare_and_choose(candidates(), None, &policy, &count_words);
        (recall.memories.len(), recall.memories[0].title.clone())
    };
    assert_eq!(with(0), (10, "m0".into()));
    assert_eq!(with(10), (10, "m11".into()));
}

#[test]
fn the_whole_block_stays_within_the_token_budget() {
    let long = (0..100).map(|nth| format!("w{nth}")).collect::<Vec<_>>().join(" ");
    let candidates =
        vec![candidate(&long[..200], 900, 0), candidate("short", 500, 0), candidate("brief", 400, 0)];
    let all = prepare_and_choose(candidates.clone(), None, &Policy::default(), &count_words);
    assert_eq!(all.tokens as usize, count_words(&all.text));
    for budget in 0..=all.tokens {
        let policy = Policy { inject_tokens_max: budget, ..Policy::default() };
        let recall = prepare_and_choose(candidates.clone(), None, &policy, &count_words);
        assert!(recall.tokens <= budget && recall.tokens as usize == count_words(&recall.text));
        assert_eq!(recall.memories.len() + recall.omitted as usize, 3);
    }
    let choose = |inject_tokens_max| {
        let policy = Policy { inject_tokens_max, ..Policy::default() };
        prepare_and_choose(candidates.clone(), None, &policy, &count_words)
    };
    let unhinted = choose(all.tokens - 1);
    assert_eq!(titles(&unhinted), titles(&all), "no memory makes room for the line about how to open it");
    assert!(all.text.contains(FENCE_HINT) && !unhinted.text.contains(FENCE_HINT));
    let lighter = choose(unhinted.tokens - 1);
    let titles = titles(&lighter);
    assert_eq!(titles.last(), Some(&"short"), "the lightest is left out first: {titles:?}");
}

#[test]
fn the_line_about_how_to_open_a_memory_is_removed_from_traces_even_if_they_are_cut_off_in_it() {
    let recall = choose_by_default_policy(vec![candidate("List the tables", 300, 0)]);
    assert!(FENCE_TOOL_HINT.len() <= FENCE_HINT.len(), "it keeps the budget");
    let of_tools = hint_at_tools(&recall.text);
    assert_eq!(of_tools, recall.text.replace(FENCE_HINT, FENCE_TOOL_HINT));
    assert_eq!(hint_at_tools(&of_tools), of_tools);
    for (text, hint) in [(&recall.text, FENCE_HINT), (&of_tools, FENCE_TOOL_HINT)] {
        let begins = text.find(hint).unwrap();
        for cut in begins + 1..=begins + hint.len() {
            let stripped = retro_core::recall::strip_injected(&text[..cut]);
            assert_eq!(stripped.as_deref(), Some(""), "cut at {cut}");
        }
        let quoted = serde_json::to_string(&format!("before\n{text}\nafter")).unwrap();
        assert_eq!(retro_core::recall::strip_injected(&quoted).unwrap(), r#""before\n\nafter""#);
        let inside = format!("{FENCE_BEGIN}\n{hint} And more.\n{FENCE_END}");
        let stripped = retro_core::recall::strip_injected(&inside).unwrap();
        assert!(stripped.contains(" And more."), "words behind it stay");
    }
}

#[test]
fn a_line_that_does_not_fit_makes_room_for_a_shorter_one() {
    let long = "a very long title that takes many words to say what could be said in two";
    let policy = Policy { inject_tokens_max: 20, ..Policy::default() };
    let recall = prepare_and_choose(
        vec![candidate(long, 900, 0), candidate("short", 100, 0)],
        None,
        &policy,
        &count_words,
    );
    assert_eq!(titles(&recall), ["short"]);
    assert_eq!(recall.omitted, 1);
}

/// Checks the memories chosen from `eligible` ones if the budget fits `lines` lines. The lightest memories
/// are the least presented.
#[track_caller]
fn check_scarce(eligible: u16, lines: u16, expected: &[&str]) {
    let named = |nth: u16| candidate(&format!("m{nth}"), 500 - nth, u64::from(100 - nth));
    let full = choose_by_default_policy((0..lines).map(named).collect());
    let hint = u32::try_from(count_words(&format!("{FENCE_HINT}\n"))).unwrap();
    let policy = Policy { inject_tokens_max: full.tokens - hint, ..Policy::default() };
    let recall = prepare_and_choose((0..eligible).map(named).collect(), None, &policy, &count_words);
    assert_eq!(titles(&recall), expected);
    assert_eq!(usize::from(eligible), recall.memories.len() + recall.omitted as usize);
}

#[test]
fn newcomers_keep_their_places_when_the_token_budget_is_short() {
    check_scarce(12, 7, &["m0", "m1", "m2", "m3", "m4", "m11", "m10"]);
    check_scarce(9, 7, &["m0", "m1", "m2", "m3", "m4", "m8", "m7"]);
    check_scarce(9, 3, &["m0", "m1", "m8"]);
    check_scarce(9, 2, &["m0", "m8"]);
    check_scarce(9, 1, &["m0"]);
    check_scarce(9, 9, &["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"]);
}

#[test]
fn the_block_is_fenced_and_names_id_weight_and_title_on_a_line_each() {
    let candidates = ["List the\n tables", "a << <b>> > c", FENCE_END];
    let recall = choose_by_default_policy(candidates.map(|title| candidate(title, 300, 0)).to_vec());
    let id = |name: &str| MemoryId(derive_uuid("given", &[name])).short_id();
    let mut lines = [
        format!("- [{}] (0.300) List the tables\n", id(candidates[0])),
        format!("- [{}] (0.300) a < b> c\n", id(candidates[1])),
    ];
    lines.sort();
    let mut shown: Vec<_> = recall.text.lines().map(|line| format!("{line}\n")).collect();
    assert_eq!(shown.remove(0).trim_end(), FENCE_BEGIN);
    assert_eq!(shown.pop().as_deref(), Some(&*format!("{FENCE_END}\n")));
    assert_eq!(shown.pop().as_deref(), Some(&*format!("{FENCE_HINT}\n")));
    shown.sort();
    assert_eq!(shown, lines);
    assert_eq!(recall.blocked, 1, "no memory is called like our marks");
}

#[test]
fn the_order_in_which_candidates_are_loaded_does_not_matter() {
    let mut candidates: Vec<_> = (0..30u64)
        .map(|nth| {
            created_after(
                nth % 3,
                candidate(&format!("m{nth}"), 300 + u16::try_from(nth % 4).unwrap(), nth % 5),
            )
        })
        .collect();
    let expected = choose_by_default_policy(candidates.clone());
    for turn in 1..30 {
        candidates.rotate_left(turn);
        assert_eq!(choose_by_default_policy(candidates.clone()), expected);
    }
}

/// Returns the first run from which exactly these of the candidates' memories are withheld.
fn find_run(candidates: &[RecallCandidate], policy: &Policy, withheld: &[&str]) -> RunId {
    let draw = |run: &RunId, one: &RecallCandidate| is_withheld(one.memory.id, run, policy.withhold_permille);
    let fits = |run: &RunId| {
        candidates.iter().all(|one| draw(run, one) == withheld.contains(&one.memory.lesson.title.as_str()))
    };
    (0..1_000_000).map(|nth| RunId::new(format!("run-{nth}")).unwrap()).find(fits).unwrap()
}

#[test]
fn a_withheld_memory_takes_no_place_and_every_request_of_the_run_gets_the_same() {
    let candidates = vec![candidate("heavy", 900, 0), candidate("light", 300, 0)];
    let policy = Policy { inject_memories_max: 1, inject_newcomers: 0, ..Policy::default() };
    let run = find_run(&candidates, &policy, &["heavy"]);
    let recall = prepare_and_choose(candidates.clone(), Some(&run), &policy, &count_words);
    assert_eq!((titles(&recall), recall.withheld(), recall.omitted), (vec!["light"], 1, 0));
    let [heavy, light] = [0, 1].map(|index: usize| candidates[index].memory.id);
    let expected = [(light, false), (heavy, true)];
    let expected = expected.map(|(memory, withheld)| Assignment { memory, withheld, permille: 100 });
    assert_eq!(recall.assignments, expected);
    assert_eq!(prepare_and_choose(candidates.clone(), Some(&run), &policy, &count_words), recall);
    let preview = prepare_and_choose(candidates.clone(), None, &policy, &count_words);
    assert_eq!((titles(&preview), preview.assignments.len()), (vec!["heavy"], 0));
    let off = Policy { withhold_permille: 0, ..policy };
    let all = prepare_and_choose(candidates, Some(&run), &off, &count_words);
    assert_eq!((titles(&all), all.assignments.len()), (vec!["heavy"], 0));
}

#[test]
fn a_memory_that_had_no_place_anyway_is_not_withheld() {
    let candidates = vec![candidate("heavy", 900, 0), candidate("light", 300, 0)];
    let policy = Policy { inject_memories_max: 1, inject_newcomers: 0, ..Policy::default() };
    let run = find_run(&candidates, &policy, &["light"]);
    let recall = prepare_and_choose(candidates.clone(), Some(&run), &policy, &count_words);
    assert_eq!((titles(&recall), recall.withheld(), recall.omitted), (vec!["heavy"], 0, 1));
    // If the heavier one is withheld too, it would have had the place.
    let run = find_run(&candidates, &policy, &["heavy", "light"]);
    let recall = prepare_and_choose(candidates, Some(&run), &policy, &count_words);
    assert_eq!((recall.memories.len(), recall.withheld()), (0, 2));
}

/// Chance is asked only about memories that may get a place. Compared with a choice that asks about each: who is handed
/// out is chosen as for a preview from those that chance leaves, and who is withheld would have been in that preview.
#[test]
fn chance_decides_as_if_it_were_asked_about_every_memory() {
    let mut withheld = 0;
    for (count, memories_max, newcomers, tokens_max, permille) in [
        (30, 10, 2, 500, 100),
        (30, 10, 2, 40, 300),
        (12, 10, 2, 500, 500),
        (12, 4, 4, 500, 300),
        (5, 10, 2, 500, 300),
        (3, 1, 1, 25, 500),
    ] {
        let policy = Policy {
            inject_memories_max: memories_max,
            inject_newcomers: newcomers,
            inject_tokens_max: tokens_max,
            withhold_permille: permille,
            ..Policy::default()
        };
        let words = |nth: u16| "word ".repeat(usize::from(nth % 7));
        let candidates: Vec<RecallCandidate> = (0..count)
            .map(|nth| {
                candidate(&format!("{}memory {nth}", words(nth)), 300 + nth % 5, u64::from(nth * 7 % 11))
            })
            .collect();
        for nth in 0..20 {
            let run = RunId::new(format!("run-{nth}")).unwrap();
            let preview = |kept: &dyn Fn(&RecallCandidate) -> bool| {
                let kept = candidates.iter().filter(|one| kept(one)).cloned().collect();
                prepare_and_choose(kept, None, &policy, &count_words).memories
            };
            let is_drawn = |one: &RecallCandidate| is_withheld(one.memory.id, &run, permille);
            let handed = preview(&|one| !is_drawn(one));
            let is_missing = |one: &&RecallCandidate| {
                let with_it = preview(&|other| !is_drawn(other) || other.memory.id == one.memory.id);
                is_drawn(one) && with_it.iter().any(|memory| memory.id == one.memory.id)
            };
            let mut missing: Vec<MemoryId> =
                candidates.iter().filter(is_missing).map(|one| one.memory.id).collect();
            let recall = prepare_and_choose(candidates.clone(), Some(&run), &policy, &count_words);
            let drawn = recall.assignments.iter().filter(|one| one.withheld);
            let mut found: Vec<MemoryId> = drawn.map(|one| one.memory).collect();
            missing.sort_unstable();
            found.sort_unstable();
            assert_eq!((&recall.memories, &found), (&handed, &missing), "{policy:?}, {run}");
            assert_eq!(recall.omitted as usize, usize::from(count) - handed.len() - found.len());
            withheld += found.len();
        }
    }
    assert!(withheld > 50, "{withheld} were withheld");
}
