use super::*;

fn facts(repo: Option<&str>, commit: Option<&str>, outcome: &str, second: i64) -> RunFacts {
    let mut facts = serde_json::json!({ "run_id": "x", "outcome": outcome });
    facts["finished_at"] = serde_json::json!(Timestamp::from_second(1_800_000_000 + second).unwrap());
    if let Some(repo) = repo {
        facts["repo"] = repo.into();
    }
    if let Some(commit) = commit {
        facts["commit"] = commit.into();
    }
    serde_json::from_value(facts).unwrap()
}

fn ci(
    file: &str,
    run: &str,
    commit: Option<&str>,
    outcome: &str,
    second: i64,
) -> (Workflow, RunId, RunFacts) {
    let workflow = Workflow::new(format!("github.com/Acme/Shop/{file}")).unwrap();
    (workflow, RunId::new(run).unwrap(), facts(Some("acme/shop"), commit, outcome, second))
}

fn listed(commit: Option<&str>, all: &[(Workflow, RunId, RunFacts)]) -> Vec<String> {
    let checks = list_checks(commit, all.iter().cloned());
    checks.iter().map(|one| format!("{} {} {}", one.workflow, one.run, one.outcome.as_str())).collect()
}

#[test]
fn a_ci_run_is_known_by_the_name_of_its_workflow() {
    let is_ci =
        |workflow: &str, repo| is_ci_run(&Workflow::new(workflow).unwrap(), &facts(repo, None, "failure", 0));
    assert!(is_ci("github.com/acme/shop/ci.yml", Some("acme/shop")));
    assert!(is_ci("git.acme.example/team/docs/ci.yml", Some("git.acme.example/team/docs")));
    assert!(is_ci("git.acme.example/team/docs/ci.yml", Some("Team/Docs")), "a pull request names no host");
    for (workflow, repo) in [
        ("release", Some("acme/shop")),
        ("github.com/acme/shopping/ci.yml", Some("acme/shop")),
        ("github.com/acme/shop", Some("acme/shop")),
        ("github.com/acme/shop/ci.yml", None),
        ("fix/acme/shop/bug", Some("acme/shop")),
        ("acme/shop/bug", Some("acme/shop")),
        ("ümlaut", Some("ü")),
    ] {
        assert!(!is_ci(workflow, repo), "{workflow}");
    }
}

#[test]
fn the_newest_conclusion_of_each_workflow_about_the_commit_of_the_run_counts() {
    let all = [
        ci("ci.yml", "1", Some("AAAA"), "failure", 5),
        ci("ci.yml", "2", Some("aaaa"), "success", 9),
        ci("ci.yml", "3", Some("bbbb"), "timeout", 20),
        ci("lint.yml", "4", Some("aaaa"), "failure", 1),
    ];
    let expected = ["github.com/Acme/Shop/ci.yml 2 success", "github.com/Acme/Shop/lint.yml 4 failure"];
    assert_eq!(listed(Some("aaaa"), &all), expected);
    let mut reversed = all.clone();
    reversed.reverse();
    assert_eq!(listed(Some("aaaa"), &reversed), expected, "the order of arrival does not matter");
    // A run that names no commit has the state of its pull request.
    assert_eq!(
        listed(None, &all),
        ["github.com/Acme/Shop/ci.yml 3 timeout", "github.com/Acme/Shop/lint.yml 4 failure"]
    );
    assert_eq!(listed(Some("cccc"), &all), Vec::<String>::new());
}

#[test]
fn runs_of_other_agents_are_no_checks_and_the_list_is_bounded() {
    let other = (
        Workflow::new("review").unwrap(),
        RunId::new("r").unwrap(),
        facts(Some("acme/shop"), None, "failure", 1),
    );
    assert_eq!(listed(None, &[other]), Vec::<String>::new());
    let many: Vec<_> =
        (0..40).map(|n| ci(&format!("{n:02}.yml"), &n.to_string(), None, "success", n)).collect();
    assert_eq!(listed(None, &many).len(), CHECKS_NOTED_MAX);
}
