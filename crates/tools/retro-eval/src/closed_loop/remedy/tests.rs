use serde_json::json;

use super::*;

/// Compares a lesson about `tool` that prefers `prefer` with the remedy from `wrong` to `right`.
fn compare(wrong: &Value, right: &Value, prefer: &str) -> Agreement {
    let lesson = Lesson { tool: Some("t".into()), prefer: vec![Element::parse(prefer)], ..Lesson::default() };
    let call = |arguments| PlannedCall { tool: "t", arguments };
    Remedy { wrong: call(wrong), right: call(right), first: Vec::new(), waits: false, values: None }
        .compare(&lesson)
}

#[test]
fn a_parameter_agrees_only_in_its_direction() {
    let (plain, more) = (json!({"a": 1}), json!({"a": 1, "region": "eu"}));
    assert_eq!(compare(&plain, &more, "with `region`"), Agreement::Whole);
    assert_eq!(compare(&plain, &more, "without `region`"), Agreement::Against);
    assert_eq!(compare(&plain, &more, "with `Region`"), Agreement::Against, "letter case counts");
    assert_eq!(compare(&plain, &more, "with `a`"), Agreement::Against, "both calls have it");
    assert_eq!(compare(&more, &plain, "without `region`"), Agreement::Whole);
    assert_eq!(compare(&more, &plain, "with `region`"), Agreement::Against);
}

#[test]
fn a_value_agrees_only_if_it_is_exact_and_the_same_in_every_run() {
    let (wrong, right) = (json!({"format": "PDF"}), json!({"format": "pdf"}));
    assert_eq!(compare(&wrong, &right, "`format` = `pdf`"), Agreement::Whole);
    assert_eq!(compare(&wrong, &right, "`format` = `PDF`"), Agreement::Against);
    let varies = json!({"format": "{format}"});
    assert_eq!(compare(&wrong, &varies, "`format` = `pdf`"), Agreement::Against, "one run's value");
}

#[test]
fn two_nested_parameters_need_both() {
    let (wrong, right) = (json!({}), json!({"to": {"zip": "1", "city": "x"}}));
    assert_eq!(compare(&wrong, &right, "with `to.zip`"), Agreement::Part);
    assert_eq!(compare(&wrong, &right, "with `to`"), Agreement::Whole);
    assert_eq!(compare(&wrong, &right, "with `zip.to`"), Agreement::Against);
}

#[test]
fn a_shell_string_and_a_list_of_words_are_compared_alike() {
    for (wrong, right) in [
        (json!({"cmd": "terraform plan"}), json!({"cmd": "terraform plan -input=false -lock 3"})),
        (
            json!({"argv": ["terraform", "plan"]}),
            json!({"argv": ["terraform", "plan", "-input=false", "-lock", "3"]}),
        ),
    ] {
        assert_eq!(compare(&wrong, &right, "`terraform` with `-input`"), Agreement::Part);
        assert_eq!(compare(&wrong, &right, "`terraform` with `-lockfile`"), Agreement::Against);
        assert_eq!(compare(&wrong, &right, "`terraform` without `-lock`"), Agreement::Against);
        assert_eq!(compare(&right, &wrong, "`terraform` without `-lock`"), Agreement::Part);
    }
    let (wrong, right) = (json!({"cmd": "mogrify a.heic"}), json!({"cmd": "heif-convert a.heic"}));
    assert_eq!(compare(&wrong, &right, "program `heif-convert`"), Agreement::Whole);
    assert_eq!(compare(&wrong, &right, "program `mogrify`"), Agreement::Against);
}

#[test]
fn a_call_before_and_another_tool_agree_by_name() {
    let (same, first) = (json!({"command": "npm test"}), json!({"command": "npm ci --silent"}));
    let call = |tool, arguments| PlannedCall { tool, arguments };
    let remedy = Remedy {
        wrong: call("t", &same),
        right: call("t", &same),
        first: vec![call("t", &first)],
        waits: false,
        values: None,
    };
    let prefer = |remedy: &Remedy<'_>, prefer: &str| {
        remedy.compare(&Lesson { prefer: vec![Element::parse(prefer)], ..Lesson::default() })
    };
    assert_eq!(prefer(&remedy, "first `npm ci`"), Agreement::Whole);
    assert_eq!(prefer(&remedy, "first `npm run`"), Agreement::Against);
    assert_eq!(prefer(&remedy, "first `t`"), Agreement::Against, "the same tool says nothing");
    let other = Remedy { first: vec![call("login", &first)], ..remedy.clone() };
    assert_eq!(prefer(&other, "first `login`"), Agreement::Whole);
    assert_eq!(prefer(&remedy, "the same call again"), Agreement::Unknown);
    let remedy = Remedy { first: Vec::new(), ..remedy };
    assert_eq!(prefer(&remedy, "the same call again"), Agreement::Whole, "only time passes");
    let remedy = Remedy { right: call("u", &first), ..remedy };
    assert_eq!(prefer(&remedy, "tool `u`"), Agreement::Whole);
    assert_eq!(prefer(&remedy, "tool `v`"), Agreement::Against);
    assert_eq!(prefer(&remedy, "the same call again"), Agreement::Against);
}

#[test]
fn a_lesson_about_another_tool_or_against_the_remedy_disagrees() {
    let (plain, more) = (json!({}), json!({"region": "eu"}));
    let call = |arguments| PlannedCall { tool: "t", arguments };
    let remedy =
        Remedy { wrong: call(&plain), right: call(&more), first: Vec::new(), waits: false, values: None };
    let other = Lesson { tool: Some("T".into()), ..Lesson::default() };
    assert_eq!(remedy.compare(&other), Agreement::Against);
    let avoids = Lesson { avoid: vec![Element::parse("with `region`")], ..Lesson::default() };
    assert_eq!(remedy.compare(&avoids), Agreement::Against);
    assert_eq!(remedy.compare(&Lesson::from_line("pass `region`")), Agreement::Unknown, "only text");
}

#[test]
fn the_type_of_a_value_is_compared() {
    let (text, number) = (json!({"row": "1"}), json!({"row": 1}));
    assert_eq!(compare(&text, &number, "`row` as a number"), Agreement::Part, "the words decide");
    assert_eq!(compare(&text, &number, "`row` as a list"), Agreement::Against);
    assert_eq!(compare(&number, &text, "`row` as a number"), Agreement::Against);
    assert_eq!(compare(&text, &number, "`row` written 9"), Agreement::Part);
    assert_eq!(compare(&text, &number, "`seat` written 9"), Agreement::Against);
}

#[test]
fn a_list_around_an_object_is_compared() {
    let item = json!({"sku": "a", "n": 1});
    let (one, list) = (json!({"order": {"items": item}}), json!({"order": {"items": [item]}}));
    assert_eq!(compare(&one, &list, "`order.items` as a list"), Agreement::Whole);
    assert_eq!(compare(&list, &one, "`order.items` as a list"), Agreement::Against);
    let text = json!({"order": {"items": "a,1"}});
    assert_eq!(
        compare(&text, &list, "`order.items` as a list"),
        Agreement::Part,
        "the objects are not stated"
    );
}

#[test]
fn a_stated_value_of_the_remedy_replaces_the_right_one() {
    let (wrong, right) = (json!({"a": 1}), json!({"a": 1, "to": {"port": 8443, "zone": "{zone}"}}));
    let call = |arguments| PlannedCall { tool: "t", arguments };
    let remedy =
        Remedy { wrong: call(&wrong), right: call(&right), first: Vec::new(), waits: false, values: None };
    let with = |prefer: &str| {
        let prefer = vec![Element::parse(prefer)];
        remedy.with_stated_value(&Lesson { tool: Some("t".into()), prefer, ..Lesson::default() })
    };
    assert_eq!(with("`port` = `9443`").unwrap(), json!({"a": 1, "to": {"port": 9443, "zone": "{zone}"}}));
    assert_eq!(with("`zone` = `z1`").unwrap()["to"]["zone"], "z1", "the value of another run");
    assert_eq!(with("`port` = `8443`"), None, "the right value");
    assert_eq!(with("`a` = `2`"), None, "not part of the remedy");
    assert_eq!(with("with `port`"), None, "no value");
    let other = Lesson { tool: Some("u".into()), ..Lesson::default() };
    assert_eq!(remedy.with_stated_value(&other), None);
}

#[test]
fn what_is_avoided_counts_as_left_out() {
    let (wrong, right) = (json!({"a": 1}), json!({"b": 1}));
    let call = |arguments| PlannedCall { tool: "t", arguments };
    let remedy =
        Remedy { wrong: call(&wrong), right: call(&right), first: Vec::new(), waits: false, values: None };
    let lesson = |avoid: &str, prefer: &str| Lesson {
        avoid: vec![Element::parse(avoid)],
        prefer: vec![Element::parse(prefer)],
        ..Lesson::default()
    };
    assert_eq!(remedy.compare(&lesson("with `a`", "with `b`")), Agreement::Whole);
    assert_eq!(remedy.compare(&lesson("without `b`", "with `b`")), Agreement::Part);
    assert_eq!(remedy.compare(&lesson("with `b`", "with `a`")), Agreement::Against);
}

#[test]
fn a_command_can_be_named_by_its_program() {
    let (wrong, right) = (json!({"cmd": "terraform plan"}), json!({"cmd": "terraform plan -lock=false"}));
    let call = |arguments| PlannedCall { tool: "shell", arguments };
    let remedy =
        Remedy { wrong: call(&wrong), right: call(&right), first: Vec::new(), waits: false, values: None };
    let lesson = |tool: &str| Lesson {
        tool: Some(tool.to_owned()),
        prefer: vec![Element::parse("`terraform` with `-lock`")],
        ..Lesson::default()
    };
    assert_eq!(remedy.compare(&lesson("terraform")), Agreement::Whole);
    assert_eq!(remedy.compare(&lesson("shell")), Agreement::Whole);
    assert_eq!(remedy.compare(&lesson("plan")), Agreement::Against);
}

#[test]
fn an_option_with_a_value_needs_both() {
    let option = |value: &str| Element::OptionValue("--region".into(), value.into());
    let compare = |wrong: &Value, right: &Value, element: Element| {
        let call = |arguments| PlannedCall { tool: "t", arguments };
        let lesson = Lesson { prefer: vec![element], ..Lesson::default() };
        Remedy { wrong: call(wrong), right: call(right), first: Vec::new(), waits: false, values: None }
            .compare(&lesson)
    };
    for right in ["aws s3 ls --region eu", "aws s3 ls --region=eu"] {
        for wrong in ["aws s3 ls", "aws s3 ls --region us"] {
            let (wrong, right) = (json!({"cmd": wrong}), json!({"cmd": right}));
            assert_eq!(compare(&wrong, &right, option("eu")), Agreement::Whole, "{wrong} {right}");
            assert_eq!(compare(&wrong, &right, option("us")), Agreement::Against, "{wrong} {right}");
        }
    }
    let (wrong, right) =
        (json!({"argv": ["curl", "-s"]}), json!({"argv": ["curl", "-s", "-H", "X-Site: LEJ-02"]}));
    let header = |value: &str| Element::OptionValue("-H".into(), value.into());
    assert_eq!(compare(&wrong, &right, header("X-Site: LEJ-02")), Agreement::Whole);
    assert_eq!(compare(&wrong, &right, header("X-Site: LEJ-03")), Agreement::Against);
    let (wrong, right) = (json!({"cmd": "aws s3 ls"}), json!({"cmd": "aws s3 ls --region eu"}));
    let whole = Element::Value("cmd".into(), "aws s3 ls --region eu".into());
    assert_eq!(compare(&wrong, &right, whole), Agreement::Whole, "the whole command");
    let (wrong, right) = (json!({"cmd": "curl a"}), json!({"cmd": "curl -H 'Content-Type: a/b' a"}));
    let header = |value: &str| Element::OptionValue("-H".into(), value.into());
    assert_eq!(compare(&wrong, &right, header("Content-Type: a/b")), Agreement::Whole, "without the quotes");
    assert_eq!(compare(&wrong, &right, header("Content-Type: a/c")), Agreement::Against);
}

#[test]
fn a_value_from_an_answer_states_the_call_and_the_parameter() {
    let (wrong, right) = (json!({"node": "leader"}), json!({"node": "{node}"}));
    let nothing = json!({});
    let call = |tool, arguments| PlannedCall { tool, arguments };
    let remedy = Remedy {
        wrong: call("restart", &wrong),
        right: call("restart", &right),
        first: vec![call("get_leader", &nothing)],
        waits: false,
        values: None,
    };
    let compare = |prefer: &str| {
        let prefer = prefer.split("; ").map(Element::parse).collect();
        remedy.compare(&Lesson { prefer, ..Lesson::default() })
    };
    assert_eq!(compare("first `get_leader`; `node` from `get_leader`"), Agreement::Whole);
    assert_eq!(compare("first `get_leader`"), Agreement::Part, "not where the value goes");
    assert_eq!(compare("`node` from `get_leader`"), Agreement::Whole);
    assert_eq!(compare("first `get_follower`; `node` from `get_follower`"), Agreement::Against);
    assert_eq!(compare("`node` from `get_follower`"), Agreement::Unknown);
}

#[test]
fn a_command_is_named_by_its_words_in_their_order() {
    let (same, first) =
        (json!({"cmd": "terraform plan"}), json!({"cmd": "terraform -chdir=a init -input=false"}));
    let call = |arguments| PlannedCall { tool: "sh", arguments };
    let remedy = Remedy {
        wrong: call(&same),
        right: call(&same),
        first: vec![call(&first)],
        waits: false,
        values: None,
    };
    let prefer =
        |prefer: &str| remedy.compare(&Lesson { prefer: vec![Element::parse(prefer)], ..Lesson::default() });
    assert_eq!(prefer("first `terraform init -input=false`"), Agreement::Whole);
    assert_eq!(prefer("first `terraform -input=false init`"), Agreement::Against, "another order");
    assert_eq!(prefer("first `init`"), Agreement::Against, "it does not begin with the program");
    let (crds, apps) = (json!({"path": "apps/{app}/crds.yaml"}), json!({"path": "apps/{app}/apps.yaml"}));
    let remedy = Remedy {
        wrong: call(&apps),
        right: call(&apps),
        first: vec![call(&crds)],
        waits: false,
        values: None,
    };
    let prefer =
        |prefer: &str| remedy.compare(&Lesson { prefer: vec![Element::parse(prefer)], ..Lesson::default() });
    assert_eq!(prefer("first `sh crds.yaml`"), Agreement::Whole);
    assert_eq!(prefer("first `sh other.yaml`"), Agreement::Against);
}
