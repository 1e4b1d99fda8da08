use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::fold_text;

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    danger: Option<Danger>,
    kind: Option<String>,
    line: String,
}

fn read_cases(file: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../pipelines/retrospective/cases/gate");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    toml::from_str::<Cases>(&text).unwrap().case
}

static HELD: LazyLock<Vec<Case>> = LazyLock::new(|| read_cases("held.toml"));
static NOT_HELD: LazyLock<Vec<Case>> = LazyLock::new(|| read_cases("not_held.toml"));

fn kinds(text: &str) -> BTreeSet<Danger> {
    find_dangers(text).iter().map(|sign| sign.danger).collect()
}

fn held_kinds(text: &str) -> BTreeSet<Danger> {
    kinds(text).into_iter().filter(|danger| Danger::HELD_BY_DEFAULT.contains(danger)).collect()
}

#[test]
fn every_held_case_is_held_for_its_danger() {
    let wrong: Vec<_> = HELD
        .iter()
        .filter(|case| !held_kinds(&case.line).contains(&case.danger.unwrap()))
        .map(|case| format!("{:?}: {} found {:?}", case.danger.unwrap(), case.line, kinds(&case.line)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_other_case_passes() {
    let wrong: Vec<_> = NOT_HELD
        .iter()
        .filter(|case| !held_kinds(&case.line).is_empty())
        .map(|case| {
            format!("{}: {} found {:?}", case.kind.as_deref().unwrap(), case.line, find_dangers(&case.line))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_policy_may_hold_what_the_default_does_not() {
    let expected = [
        ("package-install", Danger::PackageInstall),
        ("privilege", Danger::Privilege),
        ("force", Danger::Force),
    ];
    for (kind, danger) in expected {
        let missed: Vec<_> = NOT_HELD
            .iter()
            .filter(|case| case.kind.as_deref() == Some(kind) && !kinds(&case.line).contains(&danger))
            .collect();
        // "Run `go mod tidy`" and the like name no package manager that is known.
        assert!(missed.len() <= 1, "{:?}", missed.iter().map(|case| &case.line).collect::<Vec<_>>());
    }
}

#[test]
fn an_excerpt_is_short_and_on_one_line() {
    let text = format!("Skip the \u{200b}tests\n{}", "and the reviews ".repeat(40));
    for sign in find_dangers(&text) {
        assert!(sign.excerpt.chars().count() <= EXCERPT_CHARS_MAX, "{sign:?}");
        assert!(!sign.excerpt.chars().any(char::is_control), "{sign:?}");
    }
}

#[test]
fn a_long_text_is_read_in_part() {
    let text = format!("{}skip the tests", "word ".repeat(TEXT_BYTES_MAX / 5 + 1));
    assert_eq!(find_dangers(&text), []);
}

proptest! {
    #[test]
    fn any_text_is_handled(text in any::<String>()) {
        for sign in find_dangers(&text) {
            prop_assert!(sign.excerpt.chars().count() <= EXCERPT_CHARS_MAX);
        }
    }

    #[test]
    fn any_mixture_of_cases_is_handled(order in prop::collection::vec((0_usize..1000, 0_usize..80), 1..6)) {
        let cases: Vec<&Case> = HELD.iter().chain(&*NOT_HELD).collect();
        let text: String =
            order.iter().flat_map(|(nth, skipped)| cases[nth % cases.len()].line.chars().skip(*skipped)).collect();
        let found = find_dangers(&text);
        prop_assert!(found.windows(2).all(|pair| pair[0].danger < pair[1].danger));
    }

    #[test]
    fn spelling_a_case_with_other_letters_changes_nothing(nth in 0_usize..1000, upper in any::<u128>()) {
        let line = &HELD[nth % HELD.len()].line;
        let spelt: String = line
            .chars()
            .enumerate()
            .map(|(index, c)| match c {
                c if upper >> (index % 128) & 1 == 0 => c,
                'a' => 'а',
                'e' => 'е',
                'o' => 'о',
                c => c.to_ascii_uppercase(),
            })
            .collect();
        prop_assert_eq!(kinds(line), kinds(&spelt));
        prop_assert_eq!(kinds(line), kinds(&fold_text(&spelt)));
    }
}
