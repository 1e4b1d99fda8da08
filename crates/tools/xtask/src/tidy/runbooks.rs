//! Checks that every dead-letter code and every alert has a runbook page that says what to do.

use retro_core::dead_letter::DeadLetterCode;

use super::problem::Problem;
use super::tree::Tree;

/// Headings of every page about a dead-letter code.
const CODE_QUESTIONS: &[&str] = &["## What happened", "## What to look at", "## Is replay safe?"];

/// Headings of every page about an alert.
const ALERT_QUESTIONS: &[&str] = &["## What it means", "## What to look at", "## What to do"];

/// Checks that each code has a page, that each page has a code, and that every page has the headings in
/// [`CODE_QUESTIONS`].
pub(super) fn check_code_pages(tree: &Tree) -> Vec<Problem> {
    let page = |code: &DeadLetterCode| tree.runbooks.iter().any(|(stem, _)| stem == code.as_str());
    let missing = DeadLetterCode::ALL.iter().filter(|code| !page(code));
    let missing = missing
        .map(|code| format!("deploy/runbooks/{code}.md is missing: say what happened and what to look at"));
    let known = |stem: &str| DeadLetterCode::ALL.iter().any(|code| code.as_str() == stem);
    let left_over = tree.runbooks.iter().filter(|(stem, _)| !known(stem));
    let left_over =
        left_over.map(|(stem, _)| format!("deploy/runbooks/{stem}.md describes a code that does not exist"));
    missing
        .chain(left_over)
        .chain(find_unanswered("deploy/runbooks", &tree.runbooks, CODE_QUESTIONS))
        .collect()
}

/// Checks that each alert has a page, that each page has an alert, and that every page has the headings in
/// [`ALERT_QUESTIONS`].
pub(super) fn check_alert_pages(tree: &Tree) -> Vec<Problem> {
    const FOLDER: &str = "deploy/runbooks/alerts";
    let alerts: Vec<&str> =
        tree.alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let page = |alert: &&str| tree.alert_pages.iter().any(|(stem, _)| stem == alert);
    let missing = alerts.iter().filter(|alert| !page(alert));
    let missing = missing.map(|alert| format!("{FOLDER}/{alert}.md is missing: say what the alert means"));
    let left_over = tree.alert_pages.iter().filter(|(stem, _)| !alerts.contains(&stem.as_str()));
    let left_over =
        left_over.map(|(stem, _)| format!("{FOLDER}/{stem}.md describes an alert that does not exist"));
    missing.chain(left_over).chain(find_unanswered(FOLDER, &tree.alert_pages, ALERT_QUESTIONS)).collect()
}

fn find_unanswered(folder: &str, pages: &[(String, String)], questions: &[&str]) -> Vec<Problem> {
    pages.iter().flat_map(|(stem, text)| check_page(folder, stem, text, questions)).collect()
}

fn check_page(folder: &str, stem: &str, text: &str, questions: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !text.starts_with(&format!("# {stem}\n")) {
        problems.push(format!("{folder}/{stem}.md does not begin with `# {stem}`"));
    }
    let answered = |question: &str| {
        let after = text.split_once(&format!("{question}\n")).map_or("", |(_, after)| after);
        !after.split("\n## ").next().unwrap_or_default().trim().is_empty()
    };
    let open = questions.iter().filter(|question| !answered(question));
    problems.extend(open.map(|question| format!("{folder}/{stem}.md does not answer `{question}`")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Tree {
        let page = |code: &DeadLetterCode| {
            let answers: String =
                CODE_QUESTIONS.iter().map(|question| format!("\n{question}\nSo.\n")).collect();
            (code.to_string(), format!("# {code}\n{answers}"))
        };
        Tree { runbooks: DeadLetterCode::ALL.iter().map(page).collect(), ..Tree::default() }
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        assert!(check_code_pages(&complete()).is_empty());
        let mut tree = complete();
        tree.runbooks.pop();
        assert_eq!(check_code_pages(&tree).len(), 1);
        let mut tree = complete();
        let text = tree.runbooks[0].1.replace("# not_json", "# not_a_code");
        tree.runbooks.push(("not_a_code".to_owned(), text));
        assert_eq!(
            check_code_pages(&tree),
            ["deploy/runbooks/not_a_code.md describes a code that does not exist"]
        );
    }

    #[test]
    fn an_unanswered_question_is_found() {
        let mut tree = complete();
        tree.runbooks[0].1 = tree.runbooks[0].1.replace("## What to look at\nSo.", "## What to look at\n");
        assert_eq!(check_code_pages(&tree).len(), 1);
    }

    #[test]
    fn a_missing_alert_page_and_an_incomplete_one_are_found() {
        let alerts = "groups:\n  - rules:\n      - alert: A\n      - alert: B\n".to_owned();
        let page = "# A\n\n## What it means\nSo.\n\n## What to look at\nSo.\n\n## What to do\n";
        let alert_pages =
            vec![("A".to_owned(), page.to_owned()), ("C".to_owned(), page.replace("# A", "# C"))];
        let problems = check_alert_pages(&Tree { alerts, alert_pages, ..Tree::default() });
        assert_eq!(
            problems.len(),
            4,
            "B has no page, C no alert, and both pages say not what to do: {problems:?}"
        );
    }
}
