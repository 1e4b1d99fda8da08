//! Kills the program at each of its durable steps, before and after it, on SQLite and on Postgres.
//!
//! A story is a script that reaches its labels one after the other, each in its own workflow. It runs three times, side
//! by side: undisturbed, and on each database killed by SIGKILL at each label, before and after the step, and
//! restarted. A label at which the program does not die fails the story, so a story in which nothing happened cannot pass.
//! In the end, the three exports are byte-identical (law 3), `retro verify` finds all sound, each dead letter
//! is stored once, the outbox is empty and no consumer of the broker has pending messages. A difference names
//! its workflow and therefore its label.
//!
//! `retro up` uses the test's broker, which survives the crash, so its acknowledgements can be inspected
//! while the program is dead.

mod agents;
mod alone;
mod commands;
mod dead_letters;
mod harness;
mod outcomes;
mod pipeline;
mod replays;
mod reviews;
mod start;
mod traces;

use std::collections::BTreeMap;

use retro_fault::Label;

/// Labels of each story.
const STORIES: [(&str, &[Label]); 11] = [
    ("start", &start::LABELS),
    ("pipeline", &pipeline::LABELS),
    ("dead_letters", &dead_letters::LABELS),
    ("agents", &agents::LABELS),
    ("outcomes", &outcomes::LABELS),
    ("commands", &commands::LABELS),
    ("reviews", &reviews::LABELS),
    ("replays", &replays::LABELS),
    ("alone", &alone::LABELS),
    ("claimed reviews", &alone::REVIEW_LABELS),
    ("traces", &traces::LABELS),
];

#[test]
fn every_fault_label_belongs_to_one_story() {
    let mut stories_by_label = BTreeMap::<Label, Vec<&str>>::new();
    for (story, labels) in STORIES {
        for label in labels {
            stories_by_label.entry(*label).or_default().push(story);
        }
    }
    let wrong: Vec<String> = Label::ALL
        .iter()
        .map(|label| (label, stories_by_label.get(label).cloned().unwrap_or_default()))
        .filter(|(_, stories)| stories.len() != 1)
        .map(|(label, stories)| format!("{} is in the stories {stories:?}", label.as_str()))
        .collect();
    assert!(
        wrong.is_empty(),
        "each label belongs to one story of crates/retro/tests/stories/crash: {wrong:#?}"
    );
}
