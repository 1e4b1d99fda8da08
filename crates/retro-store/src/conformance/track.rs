//! Pull requests, the runs behind them, and late credit.

use futures::future::join;
use retro_core::finding::{Checked, MemoryVerdict, Quote, Verdict};
use retro_core::id::{EventKey, MemoryId, Tenant};
use retro_core::memory::{Cause, Effect, FoldError, Memory};
use retro_core::message::Notice;
use retro_core::outcome::{
    CreditFacts, PullRequestEnd, PullRequestFacts, PullRequestRef, ReviewFacts, ReviewVerdict, Standing,
    credit,
};
use retro_core::retrospective::{InvestigationResult, Presented};
use retro_core::trajectory::Place;

use super::Database;
use super::story::{Story, moment, nothing, tenant};
use crate::track::{Heard, LinkKey, RunLink, Tracked, Trailer};
use crate::{IncomingRun, Step, Store};

const HEAD: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

fn pull_request() -> PullRequestRef {
    PullRequestRef::new("Owner/Größe", 7)
}

/// An event that adds this.
fn heard(of: &Tenant, id: &str, facts: PullRequestFacts) -> Heard {
    let event = EventKey { tenant: of.clone(), source: "https://github.com".to_owned(), id: id.to_owned() };
    Heard {
        event,
        content_hash: format!("hash of {id}"),
        pull_request: Some((pull_request(), facts)),
        commits: vec![HEAD.to_owned()],
        trailers: Vec::new(),
    }
}

fn push(of: &Tenant, id: &str, named: &str) -> Heard {
    let trailers = vec![Trailer { commit: HEAD.to_owned(), named: named.to_owned() }];
    let heard = heard(of, id, PullRequestFacts::default());
    Heard { pull_request: None, commits: Vec::new(), trailers, ..heard }
}

fn opened() -> PullRequestFacts {
    PullRequestFacts { opened_at: Some(moment(0)), heard: Some((moment(0), true)), ..Default::default() }
}

fn merged() -> PullRequestFacts {
    PullRequestFacts { merged_at: Some(moment(600)), heard: Some((moment(600), false)), ..Default::default() }
}

fn closed() -> PullRequestFacts {
    PullRequestFacts {
        closed_at: [moment(300)].into(),
        heard: Some((moment(300), false)),
        ..Default::default()
    }
}

async fn track(store: &dyn Store, heard: &Heard) -> Tracked {
    store.track(heard).await.expect("tracking")
}

async fn follow(story: &Story<'_>) -> usize {
    story.store.follow(&story.key, 100).await.expect("following")
}

/// Each run and the number of a pull request that it belongs to.
async fn links(store: &dyn Store, of: &Tenant) -> Vec<String> {
    let links = store.run_links(of, None, None, 100).await.expect("links");
    links.iter().map(|(workflow, run, one, _)| format!("{workflow}/{run} {one}")).collect()
}

/// The same run in an event of another id.
fn with_event(mut run: IncomingRun, id: &str) -> IncomingRun {
    (run.arrival.event.id, run.arrival.content_hash) = (id.to_owned(), format!("hash of {id}"));
    run
}

fn with(mut run: IncomingRun, change: impl FnOnce(&mut retro_core::run::RunFacts)) -> IncomingRun {
    change(&mut run.arrival.run);
    run
}

/// Two runs, of which the first says that it belongs to the pull request, and in which this memory was applied.
async fn apply(story: &Story<'_>, memory: &Memory, names: [&str; 2]) {
    let belongs = with(story.run(names[0]), |facts| facts.pull_request = Some(7));
    story.count_batch(&[belongs, story.run(names[1])], moment(0)).await;
    assert_eq!(story.sample().await, Step::Done);
    story
        .investigate(&|claim| if claim.run.run_id.as_str() == names[0] { used(memory.id) } else { nothing() })
        .await;
    assert_eq!(story.close(story.retrospective().await.id).await, Step::Done);
}

/// The trace shows the agent acting on it.
fn used(memory: MemoryId) -> InvestigationResult {
    let quote = Quote { place: Place::Message { turn: 0 }, text: "words".to_owned() };
    let verdict = MemoryVerdict {
        memory,
        verdict: Verdict::Applied,
        reason: "it acted on it".to_owned(),
        quote: Some(quote),
    };
    let checked = Checked { verdicts: vec![verdict], ..Checked::default() };
    InvestigationResult::Nothing { checked, presented: vec![Presented::own(memory, false)] }
}

async fn give(story: &Story<'_>) -> Result<Step, FoldError> {
    let decide = |facts: &CreditFacts| credit(facts, &story.policy, moment(900));
    story.store.credit(&story.key, &pull_request(), 100, &decide).await.expect("crediting")
}

/// Credits at most one use.
async fn give_one(story: &Story<'_>) -> Result<Step, FoldError> {
    let decide = |facts: &CreditFacts| {
        assert!(facts.uses.len() <= 1, "{:?}", facts.uses);
        credit(facts, &story.policy, moment(900))
    };
    story.store.credit(&story.key, &pull_request(), 1, &decide).await.expect("crediting")
}

async fn due(story: &Story<'_>) -> usize {
    let notices = story.notices().await;
    notices.iter().filter(|notice| matches!(notice, Notice::OutcomesDue { .. })).count()
}

/// The ends that a memory was credited with, and its weight.
async fn credited(story: &Story<'_>, memory: &Memory) -> (Vec<PullRequestEnd>, u16) {
    let history = story.store.history(&story.key.tenant, memory.id).await.expect("history");
    let end = |change: &retro_core::memory::Change| match (&change.cause, &change.effect) {
        (Cause::Outcome { end, .. }, Effect::Reweighted { .. }) => Some(*end),
        _ => None,
    };
    let stored =
        story.store.memory(&story.key.tenant, memory.id).await.expect("reading").expect("it is there");
    (history.iter().filter_map(end).collect(), stored.weight.get())
}

/// An event adds once, and its identity answers for its content.
pub async fn what_is_heard_of_a_pull_request_grows_and_an_event_adds_once(database: &Database) {
    let of = tenant("t");
    let story = Story::new(&*database.one, "t", "w");
    story.count_batch(&[with(story.run("a"), |facts| facts.pull_request = Some(7))], moment(0)).await;
    let review = ReviewFacts { verdict: Some(ReviewVerdict::ChangesRequested), dismissed: false };
    let reviewed = PullRequestFacts { reviews: [(1, review)].into(), ..Default::default() };
    assert_eq!(track(&*database.one, &heard(&of, "2", merged())).await, Tracked::Now);
    assert_eq!(track(&*database.two, &heard(&of, "1", opened())).await, Tracked::Now);
    assert_eq!(track(&*database.one, &heard(&of, "3", reviewed)).await, Tracked::Now);
    assert_eq!(track(&*database.two, &heard(&of, "2", merged())).await, Tracked::Before);
    let other = Heard { content_hash: "another".to_owned(), ..heard(&of, "2", closed()) };
    assert!(matches!(track(&*database.one, &other).await, Tracked::Conflict(_)));
    assert_eq!(follow(&story).await, 1);
    let (_, _, _, facts) = database.two.run_links(&of, None, None, 1).await.expect("links").remove(0);
    assert_eq!((facts.standing(), facts.review_rounds()), (Standing::Merged, 1));
    assert_eq!(facts.time_to_merge_s(), Some(600));
}

/// In either order, and each run once whatever says so.
pub async fn a_run_belongs_by_its_event_by_its_commit_or_by_a_trailer(database: &Database) {
    let of = tenant("t");
    let story = Story::new(&*database.one, "t", "w");
    assert_eq!(database.one.unfollowed(9).await.expect("reading"), [], "nothing was heard from GitHub");
    let runs = [
        with(story.run("by event"), |facts| facts.pull_request = Some(7)),
        with(story.run("by commit"), |facts| facts.commit = Some(HEAD.to_uppercase())),
        story.run("by trailer"),
        with(story.run("elsewhere"), |facts| {
            (facts.repo, facts.commit) = (Some("owner/other".to_owned()), Some(HEAD.to_owned()));
        }),
        with(story.run("of another"), |facts| {
            (facts.pull_request, facts.commit) = (Some(8), Some(HEAD.to_owned()));
        }),
    ];
    story.count_batch(&runs, moment(0)).await;
    let expected = [
        "w/by commit owner/größe#7",
        "w/by event owner/größe#7",
        "w/by trailer owner/größe#7",
        "w/of another owner/größe#8",
    ];
    track(&*database.one, &push(&of, "push", "by trailer")).await;
    track(&*database.one, &push(&of, "elsewhere", "w/elsewhere")).await;
    assert_eq!(database.two.unfollowed(9).await.expect("reading"), std::slice::from_ref(&story.key));
    assert_eq!(database.one.follow(&story.key, 2).await.expect("following"), 2);
    assert_eq!(follow(&story.by(&*database.two)).await, 3);
    assert_eq!(database.two.unfollowed(9).await.expect("reading"), []);
    track(&*database.one, &heard(&of, "opened", opened())).await;
    assert_eq!(links(&*database.two, &of).await, expected);
    // The other way round: first the pull request, then the runs.
    let late = Story::new(&*database.one, "u", "w");
    track(&*database.one, &heard(&tenant("u"), "opened", opened())).await;
    track(&*database.one, &push(&tenant("u"), "push", "w/by trailer")).await;
    let runs = runs.map(|mut run| {
        run.arrival.key.tenant = tenant("u");
        run.arrival.event.tenant = tenant("u");
        run
    });
    late.count_batch(&runs, moment(0)).await;
    follow(&late).await;
    assert_eq!(links(&*database.two, &tenant("u")).await, expected);
}

/// Credit at the wrong place is worse than none.
pub async fn a_trailer_that_fits_several_runs_names_none_until_it_names_the_workflow(database: &Database) {
    let of = tenant("t");
    let (one, two) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.one, "t", "v"));
    track(&*database.one, &heard(&of, "opened", opened())).await;
    track(&*database.one, &push(&of, "push", "42")).await;
    one.count(&["42"]).await;
    follow(&one).await;
    assert_eq!(links(&*database.two, &of).await, ["w/42 owner/größe#7"]);
    two.count(&["42"]).await;
    follow(&two).await;
    assert_eq!(links(&*database.two, &of).await, Vec::<String>::new());
    track(&*database.one, &push(&of, "push again", "v/42")).await;
    assert_eq!(links(&*database.two, &of).await, ["v/42 owner/größe#7"]);
}

/// Whichever of the three is known last asks the writer, and it credits once.
pub async fn credit_comes_once_whatever_is_known_last(database: &Database) {
    for (nth, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        let name = format!("t{nth}");
        let story = Story::new(&*database.one, &name, "w");
        let other = story.by(&*database.two);
        let memory = story.learn("a lesson").await;
        story.everything_sent().await;
        for part in order {
            match part {
                0 => drop(track(&*database.two, &heard(&tenant(&name), "merged", merged())).await),
                1 => apply(&story, &memory, ["a", "b"]).await,
                // Before anything was heard from GitHub, no run is followed.
                _ => drop(follow(&other).await),
            }
        }
        follow(&other).await;
        assert_eq!(due(&story).await, 1, "{order:?}");
        let (one, two) = join(give(&story), give(&other)).await;
        assert!(
            [(Ok(Step::Done), Ok(Step::AlreadyDone)), (Ok(Step::AlreadyDone), Ok(Step::Done))]
                .contains(&(one, two))
        );
        assert_eq!(credited(&other, &memory).await, (vec![PullRequestEnd::Merged], 350), "{order:?}");
        // What is heard of again changes nothing.
        let again =
            Heard { commits: vec!["another head".to_owned()], ..heard(&tenant(&name), "later", merged()) };
        track(&*database.two, &again).await;
        assert_eq!(give(&story).await, Ok(Step::Done));
        assert_eq!(credited(&other, &memory).await, (vec![PullRequestEnd::Merged], 350), "{order:?}");
        assert_eq!(give(&story).await, Ok(Step::AlreadyDone));
    }
}

/// One that was reopened and merged has both ends, each once.
pub async fn a_close_without_a_merge_costs_and_a_merge_after_it_credits(database: &Database) {
    let of = tenant("t");
    let story = Story::new(&*database.one, "t", "w");
    let memory = story.learn("a lesson").await;
    apply(&story, &memory, ["a", "b"]).await;
    track(&*database.one, &heard(&of, "closed", closed())).await;
    assert_eq!(due(&story).await, 0, "no run is followed yet");
    follow(&story).await;
    let overdue = database.two.overdue_credits(0, 9).await.expect("reading");
    assert_eq!(overdue, [(story.key.clone(), pull_request())]);
    assert_eq!(database.two.overdue_credits(3600, 9).await.expect("reading"), []);
    assert_eq!(give(&story).await, Ok(Step::Done));
    assert_eq!(credited(&story, &memory).await, (vec![PullRequestEnd::ClosedUnmerged], 225));
    track(&*database.one, &heard(&of, "merged", merged())).await;
    assert_eq!(give(&story).await, Ok(Step::Done));
    let both = vec![PullRequestEnd::ClosedUnmerged, PullRequestEnd::Merged];
    assert_eq!(credited(&story, &memory).await, (both, 275));
}

/// However many runs stand behind a pull request, one transaction credits a part, and asks for the next one.
pub async fn credit_comes_in_parts_and_none_is_lost(database: &Database) {
    let of = tenant("t");
    let mut story = Story::new(&*database.one, "t", "w");
    let memory = story.learn("a lesson").await;
    story.policy.threshold_runs = 3;
    let other = story.by(&*database.two);
    let belongs = |name: &str| with(story.run(name), |facts| facts.pull_request = Some(7));
    story.count_batch(&["a", "b", "c"].map(belongs), moment(0)).await;
    assert_eq!(story.sample().await, Step::Done);
    story.investigate(&|_| used(memory.id)).await;
    assert_eq!(story.close(story.retrospective().await.id).await, Step::Done);
    follow(&story).await;
    track(&*database.one, &heard(&of, "merged", merged())).await;
    let asked = due(&story).await;
    assert_eq!((give_one(&story).await, due(&story).await), (Ok(Step::Done), asked + 1));
    assert_eq!(credited(&other, &memory).await.1, 350);
    let waits = database.two.overdue_credits(0, 9).await.expect("reading");
    assert_eq!(waits, [(story.key.clone(), pull_request())], "a lost message is no lost credit");
    assert_eq!(give_one(&other).await, Ok(Step::Done));
    assert_eq!(credited(&other, &memory).await.1, 400);
    // Another end, while the rest waits, is for those that were credited already, too.
    track(&*database.two, &heard(&of, "closed", closed())).await;
    for left in [325, 250, 225] {
        assert_eq!(give_one(&story).await, Ok(Step::Done));
        assert_eq!(credited(&other, &memory).await.1, left);
    }
    assert_eq!(give_one(&other).await, Ok(Step::AlreadyDone));
    assert_eq!(credited(&other, &memory).await.0.len(), 6, "each run and end once");
}

/// A higher attempt knows the pull request that the first one did not, and what was followed before is followed again.
pub async fn what_a_higher_attempt_says_of_its_pull_request_is_followed(database: &Database) {
    let of = tenant("t");
    let story = Story::new(&*database.one, "t", "w");
    track(&*database.one, &heard(&of, "merged", merged())).await;
    // One that no window has claimed yet.
    story.count(&["a"]).await;
    assert_eq!(follow(&story).await, 1);
    assert_eq!(database.two.unfollowed(9).await.expect("reading"), []);
    assert_eq!(links(&*database.two, &of).await, Vec::<String>::new());
    let again = with(story.run("a"), |facts| (facts.attempt, facts.pull_request) = (2, Some(7)));
    story.by(&*database.two).count_batch(&[with_event(again, "a, attempt 2")], moment(1)).await;
    assert_eq!(database.two.unfollowed(9).await.expect("reading"), std::slice::from_ref(&story.key));
    assert_eq!(follow(&story).await, 1);
    assert_eq!(database.two.unfollowed(9).await.expect("reading"), []);
    assert_eq!(links(&*database.two, &of).await, ["w/a owner/größe#7"]);
}

/// Links come in their order, a look at a time, and each once.
pub async fn links_are_read_a_look_at_a_time(database: &Database) {
    let of = tenant("t");
    let (one, two) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.one, "t", "v"));
    track(&*database.one, &heard(&of, "opened", opened())).await;
    for story in [&one, &two] {
        let runs = ["a", "b", "c"].map(|name| with(story.run(name), |facts| facts.pull_request = Some(7)));
        story.count_batch(&runs, moment(0)).await;
        follow(story).await;
    }
    for asked in [None, Some(&one.key.workflow)] {
        let whole = database.two.run_links(&of, asked, None, 100).await.expect("links");
        let (mut parts, mut after): (Vec<RunLink>, Option<LinkKey>) = (Vec::new(), None);
        loop {
            let part = database.two.run_links(&of, asked, after.as_ref(), 2).await.expect("links");
            let Some((workflow, run, one, _)) = part.last().cloned() else { break };
            assert!(part.len() <= 2);
            (after, parts) = (Some((run, workflow, one)), [parts, part].concat());
        }
        assert_eq!((&parts, parts.len()), (&whole, if asked.is_some() { 3 } else { 6 }));
        assert!(whole.is_sorted_by_key(|(workflow, run, one, _)| (
            run.clone(),
            workflow.clone(),
            one.clone()
        )));
    }
}

/// The report tells what was known when the retrospective closed, and does not change when more is known.
pub async fn a_report_tells_what_was_known_of_its_runs_pull_requests(database: &Database) {
    let of = tenant("t");
    let story = Story::new(&*database.one, "t", "w");
    track(&*database.one, &heard(&of, "closed", closed())).await;
    let belongs = with(story.run("a"), |facts| facts.pull_request = Some(7));
    story.count_batch(&[belongs, story.run("b")], moment(0)).await;
    follow(&story).await;
    assert_eq!(story.sample().await, Step::Done);
    story
        .investigate(&|claim| {
            let known: Vec<Standing> = claim.outcomes.iter().map(|one| one.standing).collect();
            let expected = if claim.run.run_id.as_str() == "a" { vec![Standing::Closed] } else { Vec::new() };
            assert_eq!(known, expected, "what the investigator sees");
            nothing()
        })
        .await;
    let id = story.retrospective().await.id;
    assert_eq!(story.close(id).await, Step::Done);
    track(&*database.one, &heard(&of, "merged", merged())).await;
    let report = database.two.report(&of, id).await.expect("reading").expect("it is closed");
    let all = report.sampled.iter().chain(&report.unsampled);
    let told: Vec<_> =
        all.flat_map(|run| run.pull_requests.iter().map(|one| (run.run.as_str(), one))).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (told[0].0, &told[0].1.pull_request, told[0].1.standing),
        ("a", &pull_request(), Standing::Closed)
    );
}

/// Another tenant's pull request of the same name, number and commit is another one.
pub async fn pull_requests_keep_tenants_apart(database: &Database) {
    let (ours, theirs) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.one, "u", "w"));
    let memory = ours.learn("a lesson").await;
    apply(&ours, &memory, ["a", "b"]).await;
    track(&*database.one, &heard(&tenant("u"), "merged", merged())).await;
    track(&*database.one, &push(&tenant("u"), "push", "w/b")).await;
    assert_eq!(database.two.unfollowed(9).await.expect("reading"), [], "nothing was heard of this tenant's");
    follow(&ours).await;
    assert_eq!((due(&ours).await, due(&theirs).await), (0, 0));
    assert_eq!(give(&ours).await, Ok(Step::AlreadyDone));
    assert_eq!(links(&*database.two, &tenant("u")).await, Vec::<String>::new());
    assert_eq!(credited(&ours, &memory).await, (vec![], 300));
    // The control: its own does.
    track(&*database.one, &heard(&tenant("t"), "merged", merged())).await;
    assert_eq!(give(&ours).await, Ok(Step::Done));
    assert_eq!(credited(&ours, &memory).await, (vec![PullRequestEnd::Merged], 350));
}
