//! Every text that a decision compares is among those that its facts return beforehand, or there would be no
//! vector for it. The test world checks this for each decision about memories, proposals, remarks and rules (see
//! [`CollectedTexts`]), so the stories of all other laws are cases, too.

use proptest::prelude::*;
use retro_core::calls::Contrast;
use retro_core::learn::{apply_mutations, close_retrospective, settle_investigations};
use retro_core::remark::AuthorStanding;
use retro_core::retrospective::ManualRequest;
use retro_core::review::{OtherRequest, ReadRemark};

use crate::law_03_same_inputs_same_bytes::closing_facts;
use crate::story::{lesson, stories};
use crate::world::rules::{RuleStore, rule_request};
use crate::world::{CollectedTexts, World, investigate, remark, start_time};
use crate::{CASES, cases};

/// Requests that are the same in other words, the opposite of each other, or about something else.
const REQUESTS: &[&str] = &[
    "Use `Result` instead of `panic!` in library code",
    "In library code use `Result` instead of `panic!`",
    "Use `panic!` instead of `Result` in library code",
    "Log every retry with its reason",
    "Log each retry with the reason",
];

fn request_from(pull_request: u64, id: u64, request: usize) -> ReadRemark {
    rule_request(AuthorStanding::Contributor, pull_request, id, REQUESTS[request])
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn a_closing_compares_only_collected_texts(
        story in stories(),
        found in prop::collection::vec((0..12u8, prop::collection::vec(0..11usize, 0..5)), 1..5),
        is_manual in any::<bool>(),
    ) {
        let world = story.play(|_, _, _, _| {});
        let mut facts = closing_facts(&world);
        let investigated = found.iter().map(|(run, lessons)| {
            lessons.iter().fold(investigate(&format!("r{run}")), |one, nth| one.with_finding(lesson(*nth)))
        });
        facts.investigations = (1u32..).zip(investigated).map(|(number, one)| one.to_investigation(number)).collect();
        facts.batch = settle_investigations(facts.retrospective.id, &facts.investigations, &Contrast::default());
        facts.writer = world.facts(facts.retrospective.id, &facts.batch);
        if is_manual {
            facts.batch.clear();
            let (request, by) = ("request".to_owned(), "ada".to_owned());
            facts.retrospective.manual_request = Some(ManualRequest { request, by, with_token: None, runs: Vec::new(), focus: None, reason: None });
        }
        let texts = CollectedTexts::of(&facts);
        close_retrospective(facts, &texts, &world.policy, start_time());
    }

    #[test]
    fn a_review_compares_only_collected_texts(
        asked in prop::collection::vec(0..REQUESTS.len(), 1..4),
        elsewhere in prop::collection::vec((6..9u64, 0..REQUESTS.len()), 0..6),
    ) {
        let remarks: Vec<_> = (1u64..).zip(&asked).map(|(id, request)| request_from(7, id, *request)).collect();
        let others = (1u64..).zip(&elsewhere).map(|(id, (number, request))| {
            let remark = request_from(*number, id, *request).remark.key;
            OtherRequest { remark, standing: AuthorStanding::Contributor, title: REQUESTS[*request].to_owned(), added_rule: None }
        });
        let others: Vec<_> = others.collect();
        let mut store = RuleStore::new();
        store.record_review_with(&remarks, &others);
        let living: Vec<_> = store.memories.values().filter(|rule| rule.status.is_living()).map(|rule| rule.id).collect();
        for id in living {
            // Rules that are active or superseded by now cannot be promoted.
            let _ = store.promote(id);
        }
    }
}

#[test]
#[should_panic(expected = "was not collected")]
fn a_text_that_was_not_collected_is_noticed() {
    let mut world = World::new();
    let runs =
        ["r1", "r2"].map(|run| investigate(run).with_finding(remark("List the tables before querying one")));
    let input = world.prepare_batch(&runs);
    apply_mutations(input.facts, &input.batch, &CollectedTexts::new(Vec::new()));
}
