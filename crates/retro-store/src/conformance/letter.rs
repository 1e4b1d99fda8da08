//! What belongs to a dead letter: the history of its attempts, its versions, and how many there are of its kind.

use futures::future::join;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{Tenant, Workflow};
use retro_core::steer::Act;

use super::Database;
use super::delivery::{begin, letter};
use super::story::{moment, tenant};
use crate::letter::{ATTEMPTS_KEPT, FAILURE_CHARS_MAX};
use crate::{Attempt, Content, DeadLetterFilter, Deed, Failure, LetterStatus, NewDeadLetter};

/// The first delivery is not counted, so nobody knows when it began.
pub async fn a_letter_tells_of_every_attempt_and_its_error(database: &Database) {
    let given_up = NewDeadLetter { attempts: 3, ..letter(7) };
    let position = &given_up.position;
    database.one.note_failure(position, &Failure::passing(1, "it was locked")).await.expect("noting");
    begin(&*database.one, position).await;
    database
        .two
        .note_failure(position, &Failure::passing(2, "it was locked \u{0} again"))
        .await
        .expect("noting");
    begin(&*database.one, position).await;
    let id = database.two.bury(&given_up).await.expect("burying");
    let told = database.one.attempts(&tenant("t"), id).await.expect("reading");
    let numbers: Vec<_> = told.iter().map(|one| (one.attempt, one.begun_at.is_some(), one.code)).collect();
    assert_eq!(numbers, [(1, false, None), (2, true, None), (3, true, Some(Code::FieldInvalid))]);
    assert_eq!(told[0].detail.as_deref(), Some("it was locked"));
    assert!(told[1].detail.as_deref().is_some_and(|detail| detail.ends_with("again")));
    assert_eq!(told[2].path.as_deref(), Some("data.run_id"));
    let whole = |one: &Attempt| {
        one.position == *position && !one.program_version.is_empty() && one.failed_at >= one.begun_at
    };
    assert!(told.iter().all(whole), "{told:?}");
}

/// What kills the process cannot say so.
pub async fn an_attempt_that_left_no_word_is_told_with_when_it_began(database: &Database) {
    let given_up = NewDeadLetter { attempts: 3, ..letter(7) };
    // Two attempts die, the last one fails, and the fourth time it is only buried.
    for _ in 0..3 {
        begin(&*database.one, &given_up.position).await;
    }
    let id = database.one.bury(&given_up).await.expect("burying");
    let told = database.two.attempts(&tenant("t"), id).await.expect("reading");
    let words: Vec<_> =
        told.iter().map(|one| (one.attempt, one.detail.is_some(), one.failed_at.is_some())).collect();
    assert_eq!(words, [(2, false, false), (3, true, true)]);
    assert!(told.iter().all(|one| one.begun_at.is_some()), "{told:?}");
}

/// A crash between giving up and acknowledging brings the message again; so does a broker that was wiped.
pub async fn giving_up_twice_leaves_one_history(database: &Database) {
    let given_up = NewDeadLetter { attempts: 1, ..letter(7) };
    let id = database.one.bury(&given_up).await.expect("burying");
    let first = database.one.attempts(&tenant("t"), id).await.expect("reading");
    assert_eq!(first.len(), 1);
    begin(&*database.two, &given_up.position).await;
    database.two.bury(&NewDeadLetter { attempts: 2, ..given_up.clone() }).await.expect("burying");
    assert_eq!(database.two.attempts(&tenant("t"), id).await.expect("reading"), first);
    // Another message in the same place begins a history of its own.
    let other = NewDeadLetter { payload: b"another".to_vec(), ..given_up };
    let other = database.two.bury(&other).await.expect("burying");
    let told = database.one.attempts(&tenant("t"), other).await.expect("reading");
    assert_eq!(told.iter().map(|one| one.attempt).collect::<Vec<_>>(), [1]);
    assert_eq!(database.two.attempts(&tenant("t"), id).await.expect("reading"), first);
}

/// The first attempt says how it began, the newest how it stands.
pub async fn a_history_is_bounded(database: &Database) {
    let many = ATTEMPTS_KEPT + 20;
    let given_up = NewDeadLetter {
        attempts: many,
        rejection: Rejection::whole(Code::AttemptsExhausted, "no".repeat(FAILURE_CHARS_MAX)),
        ..letter(7)
    };
    for attempt in 1..many {
        let failure = Failure::passing(attempt, "not yet");
        database.one.note_failure(&given_up.position, &failure).await.expect("noting");
    }
    let id = database.one.bury(&given_up).await.expect("burying");
    let told = database.two.attempts(&tenant("t"), id).await.expect("reading");
    let numbers: Vec<_> = told.iter().map(|one| one.attempt).collect();
    let newest = many - ATTEMPTS_KEPT + 2..=many;
    assert_eq!(numbers, std::iter::once(1).chain(newest).collect::<Vec<_>>());
    let last = told.last().and_then(|one| one.detail.as_ref()).expect("a word");
    assert_eq!(last.chars().count(), FAILURE_CHARS_MAX);
    let whole = database.two.dead_letter(&tenant("t"), id).await.expect("reading").expect("it is there");
    assert_eq!(whole.letter, given_up, "the letter itself is whole");
}

/// Version 0 is the letter as it came.
pub async fn a_version_is_kept_beside_the_letter_and_with_who_made_it(database: &Database) {
    let came = letter(7);
    let id = database.one.bury(&came).await.expect("burying");
    assert_eq!(database.one.versions(&tenant("t"), id).await.expect("reading"), []);
    let act = Act { by: "ann".to_owned(), reason: "the \u{0} is wrong".to_owned(), at: moment(60) };
    let content = Content { headers: came.headers.clone(), payload: b"\x00{\xff".to_vec() };
    let made = database.one.mend(&tenant("t"), id, 0, &content, &act).await.expect("mending");
    assert_eq!(made, Some(1));
    let (one, two) = join(
        database.one.mend(&tenant("t"), id, 1, &content, &act),
        database.two.mend(&tenant("t"), id, 0, &content, &act),
    )
    .await;
    let mut both = [one.expect("mending"), two.expect("mending")];
    both.sort_unstable();
    assert_eq!(both, [Some(2), Some(3)], "each has a number of its own");
    let rows = database.two.versions(&tenant("t"), id).await.expect("reading");
    assert_eq!(rows.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2, 3]);
    let whole = database.two.version(&tenant("t"), id, 1).await.expect("reading").expect("it is there");
    assert_eq!((&whole.content, whole.based_on, whole.act.at), (&content, 0, act.at));
    assert_eq!(whole.payload_sha256, retro_core::canonical::sha256_hex(&content.payload));
    assert_eq!((rows[0].payload_bytes, &rows[0].payload_sha256), (3, &whole.payload_sha256));
    assert_eq!(database.two.version(&tenant("t"), id, 4).await.expect("reading"), None);
    let stored = database.two.dead_letter(&tenant("t"), id).await.expect("reading").expect("it is there");
    assert_eq!(stored.letter, came, "the original is as it came");
    let acts = database.two.acts(&tenant("t"), id.0).await.expect("reading");
    let told: Vec<_> = acts.iter().map(|row| (row.deed, row.act.by.as_str())).collect();
    assert_eq!(told, [(Deed::Edited, "ann"); 3]);
}

/// Word for word: what varies within a sentence is for whoever shows it.
pub async fn letters_are_counted_by_what_is_the_same_of_them(database: &Database) {
    let too_large = |sequence| NewDeadLetter {
        rejection: Rejection::whole(Code::Oversized, "too large"),
        ..letter(sequence)
    };
    let elsewhere = NewDeadLetter { workflow: Some(Workflow::new("v").expect("a good name")), ..letter(4) };
    let nobodys = NewDeadLetter { tenant: None, workflow: None, ..letter(5) };
    for letter in [&letter(1), &too_large(2), &too_large(3), &elsewhere, &nobodys] {
        database.one.bury(letter).await.expect("burying");
    }
    let count = |of: &str, filter: DeadLetterFilter| {
        let of = tenant(of);
        async move {
            let counts = database.two.counts(&of, &filter).await.expect("counting");
            let told = counts
                .into_iter()
                .map(|one| (one.rejection.code, one.workflow, one.letters, one.open, one.example));
            told.collect::<Vec<_>>()
        }
    };
    let (v, w) = (elsewhere.workflow.clone(), letter(1).workflow);
    let all = DeadLetterFilter { limit: 9, ..Default::default() };
    let expected = [
        (Code::FieldInvalid, v.clone(), 1, 1, elsewhere.id()),
        (Code::Oversized, w.clone(), 2, 2, too_large(3).id()),
        (Code::FieldInvalid, w, 1, 1, letter(1).id()),
    ];
    assert_eq!(count("t", all.clone()).await, expected);
    assert_eq!(count("t", DeadLetterFilter { limit: 1, ..all.clone() }).await, expected[..1]);
    assert_eq!(count("t", DeadLetterFilter { workflow: v, ..all.clone() }).await, expected[..1]);
    let only = DeadLetterFilter { ids: vec![too_large(2).id()], code: Some(Code::Oversized), ..all.clone() };
    assert_eq!(
        count("t", only).await.iter().map(|one| (one.2, one.4)).collect::<Vec<_>>(),
        [(1, too_large(2).id())]
    );
    assert_eq!(count("t", DeadLetterFilter { status: Some(LetterStatus::Handled), ..all.clone() }).await, []);
    assert_eq!(count("u", all.clone()).await, [], "another tenant's");
    assert_eq!(count("default", all.clone()).await.len(), 1, "nobody's are the default tenant's");
    let counts = database.one.counts(&tenant("t"), &all).await.expect("counting");
    assert!(
        counts.iter().all(|one| one.first_seen <= one.last_seen && one.consumer == "counter"),
        "{counts:?}"
    );
}

/// Law 11, with a letter of nobody's as the default tenant's.
pub async fn what_belongs_to_a_letter_keeps_tenants_apart(database: &Database) {
    let id = database.one.bury(&letter(7)).await.expect("burying");
    assert_eq!(database.two.attempts(&tenant("t"), id).await.expect("reading").len(), 1);
    assert_eq!(database.two.attempts(&tenant("u"), id).await.expect("reading"), []);
    assert_eq!(database.two.attempts(&Tenant::default_tenant(), id).await.expect("reading"), []);
    let act = Act { by: "eve".to_owned(), reason: "curious".to_owned(), at: moment(0) };
    let content = Content { headers: vec![], payload: b"{}".to_vec() };
    assert_eq!(database.two.mend(&tenant("u"), id, 0, &content, &act).await.expect("mending"), None);
    assert_eq!(database.two.mend(&tenant("t"), id, 0, &content, &act).await.expect("mending"), Some(1));
    assert_eq!(database.two.versions(&tenant("u"), id).await.expect("reading"), []);
    assert_eq!(database.two.version(&tenant("u"), id, 1).await.expect("reading"), None);
    assert_eq!(database.two.versions(&tenant("t"), id).await.expect("reading").len(), 1);
    assert_eq!(database.two.acts(&tenant("u"), id.0).await.expect("reading"), []);
    let nobodys = NewDeadLetter { tenant: None, workflow: None, ..letter(8) };
    let id = database.one.bury(&nobodys).await.expect("burying");
    assert_eq!(database.two.attempts(&Tenant::default_tenant(), id).await.expect("reading").len(), 1);
    assert_eq!(database.two.attempts(&tenant("t"), id).await.expect("reading"), []);
}
