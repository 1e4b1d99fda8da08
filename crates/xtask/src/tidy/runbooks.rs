//! Every way in which a message can be given up, and every alert, has a page that tells its reader what to do.

use retro_core::dead_letter::Code;

use super::Problem;
use super::tree::Tree;

/// What a person with a dead letter in hand asks.
const QUESTIONS: &[&str] = &["## What happened", "## What to look at", "## Is replay safe?"];

/// What a person asks who was woken.
const WOKEN: &[&str] = &["## What it means", "## What to look at", "## What to do"];

/// One page a code, one code a page, and every page answers the questions.
pub(super) fn one_page_a_code(tree: &Tree) -> Vec<Problem> {
    let page = |code: &Code| tree.runbooks.iter().any(|(stem, _)| stem == code.as_str());
    let missing = Code::ALL.iter().filter(|code| !page(code));
    let missing =
        missing.map(|code| format!("deploy/runbooks/{code}.md is missing: what happened, what to look at?"));
    let known = |stem: &str| Code::ALL.iter().any(|code| code.as_str() == stem);
    let left_over = tree.runbooks.iter().filter(|(stem, _)| !known(stem));
    let left_over =
        left_over.map(|(stem, _)| format!("deploy/runbooks/{stem}.md speaks of a code that is not there"));
    missing.chain(left_over).chain(unanswered("deploy/runbooks", &tree.runbooks, QUESTIONS)).collect()
}

/// One page an alert, one alert a page, and every page answers the questions.
pub(super) fn one_page_an_alert(tree: &Tree) -> Vec<Problem> {
    const FOLDER: &str = "deploy/runbooks/alerts";
    let alerts: Vec<&str> =
        tree.alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let page = |alert: &&str| tree.alert_pages.iter().any(|(stem, _)| stem == alert);
    let missing = alerts.iter().filter(|alert| !page(alert));
    let missing = missing.map(|alert| format!("{FOLDER}/{alert}.md is missing: what does it mean?"));
    let left_over = tree.alert_pages.iter().filter(|(stem, _)| !alerts.contains(&stem.as_str()));
    let left_over =
        left_over.map(|(stem, _)| format!("{FOLDER}/{stem}.md speaks of an alert that is not there"));
    missing.chain(left_over).chain(unanswered(FOLDER, &tree.alert_pages, WOKEN)).collect()
}

fn unanswered(folder: &str, pages: &[(String, String)], questions: &[&str]) -> Vec<Problem> {
    pages.iter().flat_map(|(stem, text)| silent(folder, stem, text, questions)).collect()
}

fn silent(folder: &str, stem: &str, text: &str, questions: &[&str]) -> Vec<Problem> {
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
        let page = |code: &Code| {
            let answers: String = QUESTIONS.iter().map(|question| format!("\n{question}\nSo.\n")).collect();
            (code.to_string(), format!("# {code}\n{answers}"))
        };
        Tree { runbooks: Code::ALL.iter().map(page).collect(), ..Tree::default() }
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        assert!(one_page_a_code(&complete()).is_empty());
        let mut tree = complete();
        tree.runbooks.pop();
        assert_eq!(one_page_a_code(&tree).len(), 1);
        let mut tree = complete();
        let text = tree.runbooks[0].1.replace("# not_json", "# not_a_code");
        tree.runbooks.push(("not_a_code".to_owned(), text));
        assert_eq!(
            one_page_a_code(&tree),
            ["deploy/runbooks/not_a_code.md speaks of a code that is not there"]
        );
    }

    #[test]
    fn an_unanswered_question_is_found() {
        let mut tree = complete();
        tree.runbooks[0].1 = tree.runbooks[0].1.replace("## What to look at\nSo.", "## What to look at\n");
        assert_eq!(one_page_a_code(&tree).len(), 1);
    }

    #[test]
    fn an_alert_without_a_page_and_a_page_that_leaves_a_question_open_are_found() {
        let alerts = "groups:\n  - rules:\n      - alert: A\n      - alert: B\n".to_owned();
        let page = "# A\n\n## What it means\nSo.\n\n## What to look at\nSo.\n\n## What to do\n";
        let alert_pages =
            vec![("A".to_owned(), page.to_owned()), ("C".to_owned(), page.replace("# A", "# C"))];
        let problems = one_page_an_alert(&Tree { alerts, alert_pages, ..Tree::default() });
        assert_eq!(
            problems.len(),
            4,
            "B has no page, C no alert, and both pages say not what to do: {problems:?}"
        );
    }
}
