use jiff::Timestamp;

use super::*;
use crate::pull_request::{PullRequestFacts, PullRequestRef, ReviewFacts, ReviewVerdict};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

#[test]
fn a_trailer_has_every_possible_reading() {
    let read = |text| {
        let names = parse_trailer(text).into_iter();
        names.map(|(workflow, run)| (workflow.map(String::from), run.to_string())).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(read(" 42 "), [(None, "42".to_owned())]);
    assert_eq!(read("ci/42"), [(None, "ci/42".to_owned()), (some("ci"), "42".to_owned())]);
    assert_eq!(read("a/b/c")[1..], [(some("a"), "b/c".to_owned()), (some("a/b"), "c".to_owned())]);
    assert_eq!(read(""), []);
    assert_eq!(read(&"x/".repeat(100)).len(), TRAILER_READINGS_MAX);
}

#[test]
fn runs_are_totalled_by_workflow_and_merge_times_by_pull_request() {
    let (ci, docs) = (Workflow::new("ci").unwrap(), Workflow::new("docs").unwrap());
    let merged = PullRequestFacts {
        opened_at: Some(at(0)),
        merged_at: Some(at(60)),
        reviews: [(
            1,
            ReviewFacts {
                verdict: Some(ReviewVerdict::ChangesRequested),
                dismissed: false,
                by_insider: true,
            },
        )]
        .into(),
        ..Default::default()
    };
    let open = PullRequestFacts { opened_at: Some(at(0)), ..Default::default() };
    let link = |workflow: &Workflow, run: &str, number, facts: &PullRequestFacts| {
        (workflow.clone(), RunId::new(run).unwrap(), PullRequestRef::new("Acme/Shop", number), facts.clone())
    };
    let links = [
        link(&ci, "a", 1, &merged),
        link(&ci, "b", 1, &merged),
        link(&ci, "b", 2, &open),
        link(&docs, "a", 2, &open),
    ];
    let mut sums = OutcomeTotals::default();
    links.iter().for_each(|(workflow, run, one, facts)| sums.add_link(workflow, run, one, facts));
    let outcomes = sums.into_outcomes();
    assert_eq!((outcomes[0].runs, outcomes[0].merged, outcomes[0].changes_requested), (2, 2, 2));
    assert_eq!(
        (outcomes[0].review_rounds_mean_milli, outcomes[0].time_to_merge_median_s),
        (Some(1000), Some(60))
    );
    assert_eq!((outcomes[1].workflow.as_str(), outcomes[1].runs, outcomes[1].merged), ("docs", 1, 0));
    assert_eq!((outcomes[1].review_rounds_mean_milli, outcomes[1].time_to_merge_median_s), (None, None));
}
