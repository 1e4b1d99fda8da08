//! The program is killed at every durable step that it has, on both sides of it, over SQLite and over Postgres.
//!
//! A story is a script that crosses its labels one after the other, each in a workflow of its own. It is told twice: once
//! undisturbed, and once killed by SIGKILL at each of its labels, before the step and after it, started again and let finish.
//! A label at which the program does not die fails the story, so that none passes in which nothing happened. In the end the two
//! exports are the same bytes (law 3), `retro verify` finds both sound, every dead letter is there once, the outbox is empty and
//! no consumer of the broker has anything pending. A difference names its workflow, and so the label.
//!
//! `retro up` works over a broker of the test's own, which survives it: what it has acknowledged can be looked at from outside
//! while the program is dead.

mod agents;
mod alone;
mod ground;
mod letters;
mod outcomes;
mod people;
mod replays;
mod reviews;
mod road;
mod start;

use std::collections::BTreeMap;

use retro_fault::Label;

/// The labels of each story.
const STORIES: [(&str, &[Label]); 9] = [
    ("start", &start::LABELS),
    ("road", &road::LABELS),
    ("letters", &letters::LABELS),
    ("agents", &agents::LABELS),
    ("outcomes", &outcomes::LABELS),
    ("people", &people::LABELS),
    ("reviews", &reviews::LABELS),
    ("replays", &replays::LABELS),
    ("alone", &alone::LABELS),
];

#[test]
fn every_label_has_the_story_of_its_crashes() {
    let mut told = BTreeMap::<Label, Vec<&str>>::new();
    for (story, labels) in STORIES {
        for label in labels {
            told.entry(*label).or_default().push(story);
        }
    }
    let wrong: Vec<String> = Label::ALL
        .iter()
        .map(|label| (label, told.get(label).cloned().unwrap_or_default()))
        .filter(|(_, stories)| stories.len() != 1)
        .map(|(label, stories)| format!("{} is in the stories {stories:?}", label.as_str()))
        .collect();
    assert!(
        wrong.is_empty(),
        "each label belongs to one story of crates/retro/tests/stories/crash: {wrong:#?}"
    );
}
