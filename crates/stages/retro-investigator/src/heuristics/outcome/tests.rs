use super::*;

/// Returns the signature of the failure, or `None` for a success.
fn error(arguments: &str, answer: &str) -> Option<String> {
    let call =
        ToolCall { tool: "t".into(), arguments: arguments.into(), answer: Some(answer.into()), failed: None };
    match judge_outcome(&call, &Arguments::parse(arguments)) {
        CallOutcome::Failed(failure) => {
            assert!(answer.contains(failure.line), "{:?} is not verbatim", failure.line);
            Some(failure.error)
        }
        _ => None,
    }
}

/// Asserts that each answer fails with its signature.
#[track_caller]
fn fail(cases: &[(&str, &str, &str)]) {
    for (arguments, answer, signature) in cases {
        assert_eq!(error(arguments, answer).as_deref(), Some(*signature), "{answer}");
    }
}

#[test]
fn failures_in_words_are_recognised() {
    fail(&[
        ("{}", "Error: user not found", "user not found"),
        ("SELECT 1", "Error executing query: Unknown column 'x' in 'field list'", "Unknown column … in …"),
        ("sleep 99", "Command timed out", "Command timed out"),
        (
            "kubectl get pod a-7",
            "Error from server (NotFound): pods \"a-7\" not found",
            "Error from server (NotFound): pods … not found",
        ),
        (
            "aws s3 ls",
            "An error occurred (AccessDenied) when calling the ListBuckets operation: Access Denied",
            "An error occurred (AccessDenied) when calling the ListBuckets operation: Access Denied",
        ),
        ("npm ci", "npm error code ERESOLVE\nnpm error could not resolve", "npm error code ERESOLVE"),
        (
            "sqlite3 a.db .x",
            "Parse error near line 1: no such table: t",
            "Parse error near line …: no such table: t",
        ),
        ("{}", "HTTP 503 Service Unavailable", "HTTP 503 Service Unavailable"),
        (
            "x",
            "No SQL code was found in your last response.\n\nYour response should",
            "No SQL code was found in your last response",
        ),
    ]);
}

#[test]
fn python_failures_are_recognised() {
    fail(&[
        (
            "python x.py",
            "Traceback (most recent call last):\n  File \"x.py\", line 3\nValueError: bad 12",
            "ValueError: bad …",
        ),
        (
            "python x.py",
            "enter: Traceback (most recent call last):\n  File\nEOFError: EOF when reading",
            "EOFError: EOF when reading",
        ),
        ("python x.py", "File \"x.py\", line 1\n    import a  def b… [cut]", "File …, line …"),
        (
            "python x.py",
            "  File \"x.py\", line 1\n    import a  def b\n    ^^^\nSyntaxError: invalid syntax",
            "SyntaxError: invalid syntax",
        ),
    ]);
}

#[test]
fn failures_in_documents_are_recognised() {
    fail(&[
        ("{}", r#"{"error": "no such order", "id": 3}"#, "no such order"),
        ("{}", r#"{"error": {"code": 7, "message": "quota 12 exceeded"}}"#, "quota … exceeded"),
        ("{}", r#"{"status": 404, "message": "missing thing"}"#, "missing thing"),
        ("{}", r#"{"status": "403", "message": "no right to it"}"#, "no right to it"),
        ("{}", r#"{"data": {"order": {"error": "card 12 declined"}}}"#, "card … declined"),
        ("{}", r#"{"success": false}"#, ""),
        (
            "{}",
            r#"403 {"detail": "a refund of this size needs an approver"}"#,
            "a refund of this size needs an approver",
        ),
        ("{}", r#"409: {"order": 7}"#, ""),
        ("{}", r#"503 {"detail": "the order is not ready"}"#, ""),
        ("x", "{'error': 'Error: invalid syntax (<string>, line 1)'}", "invalid syntax (<string>, line …)"),
    ]);
}

#[test]
fn failures_of_shells_and_programs_are_recognised() {
    fail(&[
        ("ls /x", "ls: cannot access '/x': No such file or directory", "…: No such file or directory"),
        (
            "tar -xzf a -c b",
            "tar: You may not specify more than one '-Acdtrux' option\nTry 'tar --help' for more.",
            "tar: You may not specify more than one -Acdtrux option",
        ),
        ("xxd a", "/bin/bash: line 1: xxd: command not found", "xxd: command not found"),
        (
            "make",
            "Exit code: 2\nWall time: 1 s\nOutput:\nmake: *** No rule to make target 'x'.  Stop.",
            "make: … No rule to make target …. Stop",
        ),
        (
            "make",
            "<returncode>1</returncode>\n<output>\nerror: could not compile\n</output>",
            "could not compile",
        ),
        (
            "tar -cf a b c",
            "b\ntar: c: Cannot stat: No such file or directory\ntar: Exiting with failure status due to previous errors",
            "…: No such file or directory",
        ),
        (
            "tail -r a | wc",
            "0\ntail: invalid option -- 'r'\nTry 'tail --help' for more information.",
            "tail: invalid option -- …",
        ),
        ("echo x | base64 -d", "picobase64: invalid input", "base64: invalid input"),
        (
            "wget a.b",
            "--2023--  http://a.b/\nResolving a.b... failed.\nwget: unable to resolve host address 'a.b'",
            "wget: unable to resolve host address …",
        ),
        (
            "I am (sorry)",
            "/bin/bash: -c: line 1: syntax error near unexpected token `('\nand more\nof it",
            "syntax error near unexpected token …",
        ),
        ("sh -c 'wc <(x)'", "sh: 1: Syntax error: \"(\" unexpected", "sh: …: Syntax error: ( unexpected"),
        ("gcc a.c", "/usr/bin/ld: cannot find 26: No such file or directory", "…: No such file or directory"),
    ]);
}

#[test]
fn content_that_mentions_errors_is_no_failure() {
    for (arguments, answer) in [
        ("SELECT * FROM log", "[('Error: disk full',), ('error',)]"),
        ("{}", "[]"),
        ("ls", ""),
        ("ls", "error.log\nfatal.txt"),
        ("cat a.log", "Error: one\nError: two\nok\nok\nok"),
        ("cat t.py", "try:\n  x()\nexcept ValueError:\n  raise\nfinally:\n  pass"),
        ("grep -r Traceback .", "a:Traceback (most recent call last):\nb:1\nc:2\nd:3\ne:4"),
        ("{}", r#"{"error": null, "items": ["error"]}"#),
        ("{}", r#"{"rows": [{"error": "disk full"}], "status": "200"}"#),
        ("{}", r#"{"order": {"error": null, "state": "paid"}}"#),
        ("{}", r#"{"error": "", "status": "ok"}"#),
        ("{}", r#"{"errors": [], "success": true, "exit_code": 0}"#),
        ("x", "{'output': '', 'error': ''}"),
        ("find / -name x", "find: '/proc/1': No such file or directory\n/home/x"),
        ("tar -cf a /b", "tar: Removing leading `/' from member names"),
        ("ls a b", "ls: cannot access 'a': No such file or directory\nb"),
        ("cat notes", "Try 'tail --help' for more information."),
        ("make", "Exit code: 0\nerror handling compiled"),
        ("make", "Exit code: 0\nit compiles\nError: none"),
        ("{}", "404 pages are counted\n{}"),
        ("{}", r#"200 {"detail": "no error"}"#),
        ("{}", "Invalid items were removed from the list as asked.\nOne.\nTwo.\nThree.\nFour."),
    ] {
        assert_eq!(error(arguments, answer), None, "{answer}");
    }
}

#[test]
fn the_flag_of_the_log_takes_precedence() {
    let said = |failed, answer: &str| {
        let call = ToolCall { tool: "t".into(), arguments: "{}".into(), answer: Some(answer.into()), failed };
        matches!(judge_outcome(&call, &Arguments::parse("{}")), CallOutcome::Failed(_))
    };
    assert!(said(Some(true), "all fine") && said(Some(true), ""));
    assert!(!said(Some(false), "Error: no"));
    let silent = ToolCall { tool: "t".into(), arguments: "{}".into(), answer: None, failed: None };
    assert_eq!(judge_outcome(&silent, &Arguments::parse("{}")), CallOutcome::Unanswered);
}

/// Returns the failing line of an answer of an unknown tool.
fn line_of(answer: &str) -> Option<&str> {
    find_failure("t", &Arguments::parse(r#"{"id":1}"#), answer).map(|failure| failure.line)
}

#[test]
fn errors_of_unknown_tools_are_recognised_by_their_form() {
    for (answer, line) in [
        (r#"{"code": 16, "message": "no active session"}"#, "no active session"),
        (r#"{"code": "FAILED_PRECONDITION", "message": "not a leader"}"#, "not a leader"),
        (r#"{"code": "UNAUTHENTICATED", "message": "no session"}"#, "no session"),
        (r#"{"code": "VALUE_OUT_OF_RANGE", "message": "at most 7"}"#, "at most 7"),
        (
            r#"{"detail": [{"loc": ["body", "x"], "msg": "field required", "type": "missing"}]}"#,
            "field required",
        ),
        ("LockNotHeld: the index is read only", "LockNotHeld: the index is read only"),
        (
            "psycopg2.errors.DatatypeMismatch: is of type integer",
            "psycopg2.errors.DatatypeMismatch: is of type integer",
        ),
        ("page.goto: net::ERR_CERT_INVALID at x", "page.goto: net::ERR_CERT_INVALID at x"),
        ("hook exited with code 1\nsubject may not be empty", "hook exited with code 1"),
        (
            "Request failed with status code 400\n{\"type\": \"x\", \"error\": \"a key is needed\"}",
            "a key is needed",
        ),
        (
            "<?xml version=\"1.0\"?>\n<Error><Code>Bad</Code><Message>It is not valid.</Message></Error>",
            "It is not valid.",
        ),
    ] {
        assert_eq!(line_of(answer), Some(line), "{answer}");
    }
    for well in [
        r#"{"code": 0, "message": "done"}"#,
        r#"{"code": 200, "message": "done"}"#,
        r#"{"code": "OK", "message": "your order"}"#,
        r#"{"code": "COMPLETED", "message": "your order"}"#,
        r#"{"code": "NORMAL_NOTE", "message": "your order"}"#,
        r#"{"code": 1, "message": "success"}"#,
        r#"{"code": 7, "message": "the weather", "rows": [1]}"#,
        r#"{"detail": [{"loc": "here", "price": 3}]}"#,
        "NotesOfMonday: we met",
        "OrderSummary: 3 items",
        "com.acme.Main: the server has started",
        "the job exited with code 0",
        "see www.Example: all of it",
        "<Error><Name>x</Name></Error>",
    ] {
        assert_eq!(line_of(well), None, "{well}");
    }
}

#[test]
fn a_line_that_holds_only_an_exit_status_decides_in_any_form() {
    for (answer, error) in [
        ("a.c: kaputt\nexit=2", Some("a.c: kaputt")),
        ("kein Platz\nExit code: 28", Some("kein Platz")),
        ("kein Platz\n[exit 1]", Some("kein Platz")),
        ("Error: nothing is wrong\n[exit code: 0]", None),
        ("rc=0\nError: nothing is wrong", None),
        ("the command exits with code 3 if a file is missing\nall is well", None),
    ] {
        let call = ToolCall {
            tool: "bash".to_owned(),
            arguments: "make".to_owned(),
            answer: Some(answer.to_owned()),
            failed: None,
        };
        let judged = judge_outcome(&call, &Arguments::parse("make"));
        let line = match &judged {
            CallOutcome::Failed(failure) => Some(failure.line),
            _ => None,
        };
        assert_eq!(line, error, "{answer}");
    }
}
