use super::*;

#[test]
fn run_specific_parts_of_errors_are_masked() {
    for (line, signature) in [
        ("Error executing query: Table 'network_1.friends' doesn't exist", "Table … doesn't exist"),
        ("Error executing query: Unknown column 'f.name' in 'field list'", "Unknown column … in …"),
        (
            "Error: payment amount does not add up, total price is 4875, but paid 1625",
            "payment amount does not add up, total price is …, but paid …",
        ),
        (
            r#"Could not find ["'Allo 'Allo!"]. Similar: ['A Close Shave', "List of things", 'A…"#,
            "Could not find […]. Similar: […]",
        ),
        ("Could not find [Antic]. Similar: []", "Could not find […]. Similar: []"),
        ("open failed: [Errno 13] Permission denied", "open failed: [Errno 13] Permission denied"),
        ("a.c:3: unused variable [-Wunused-variable]", "a.c:3: unused variable [-Wunused-variable]"),
        (
            "src/net.c:100:10: fatal error: generated.h: No such file or directory",
            "…: No such file or directory",
        ),
        ("a.ts:3:7: cannot find name 'x'", "cannot find name …"),
        ("Error: flight HAT030 not available on date 2024-05-13", "flight … not available on date …"),
        ("Error: non-pending order cannot be modified", "non-pending order cannot be modified"),
        ("find: missing argument to `-exec'", "find: missing argument to -exec"),
        (
            "/bin/bash: -c: line 1: unexpected EOF while looking for matching `''",
            "unexpected EOF while looking for matching '",
        ),
        (
            " $1}': -c: line 1: unexpected EOF while looking for matching `''",
            "unexpected EOF while looking for matching '",
        ),
        ("/bin/bash: line 1: xxd: command not found", "xxd: command not found"),
        ("/bin/bash: line 1: Im sorry, but I cant: command not found", "…: command not found"),
        ("cat: source.py: No such file or directory", "…: No such file or directory"),
        ("/usr/bin/find: '/a b': No such file or directory", "…: No such file or directory"),
        ("ModuleNotFoundError: No module named 'PIL'", "ModuleNotFoundError: No module named PIL"),
        (
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "JSONDecodeError: Expecting value: line … column … (char …)",
        ),
        ("/bin/bash: line 1: ./run: Permission denied", "…: Permission denied"),
        ("HTTP 404 for https://example.org/a/b?c=1", "HTTP 404 for …"),
        ("request 0f8fad5b-d9cb-469f-a165-70867728950e of a@b.org failed", "request … of … failed"),
        ("base64: invalid input", "base64: invalid input"),
        ("Not unique table/alias: 'T1'", "Not unique table/alias: …"),
        (
            "Error executing query: This version of MySQL doesn't yet support 'LIMIT & IN/ALL/ANY/SOME subquery'",
            "This version of MySQL doesn't yet support LIMIT & IN/ALL/ANY/SOME subquery",
        ),
        ("Error: missing required argument 'region'", "missing required argument region"),
        ("Error: 'zone' is required", "zone is required"),
        ("\"host_key_v2\": \"AAAA+/x\"", "host_key_v2: …"),
        ("Friday March 6th - disk full", "… March … - disk full"),
        ("pull of image latest failed 3 minutes ago", "pull of image … failed … ago"),
        ("ACK(tap42-1) from 10.0.0.1", "ACK(…) from …"),
        ("command left with exit code 1", "command left with exit code …"),
        ("command left with exit code 137", "command left with exit code 137"),
        ("no route to fe80::1 or ::1", "no route to …"),
        ("b", ""),
        ("12 / 3", ""),
        ("", ""),
    ] {
        assert_eq!(error_signature(line), signature, "{line}");
    }
}

#[test]
fn one_class_has_one_signature_and_two_classes_two() {
    let same = [
        ("Table 'a.b' doesn't exist", "Table 'x_1.Y2' doesn't exist"),
        ("Unknown column 'a' in 'where clause'", "Unknown column 'b.c' in 'on clause'"),
        (
            "You have an error in your SQL syntax near 'a' at line 1",
            "You have an error in your SQL syntax near 'FROM t WHERE n = 'x' AND",
        ),
        ("tar: /a/b: Permission denied", "tar: c: Permission denied"),
        ("order #W123 is late", "order #W99 is late"),
    ];
    for (a, b) in same {
        assert_eq!(error_signature(a), error_signature(b));
    }
    let different = [
        ("Table 'a.b' doesn't exist", "Unknown column 'a' in 'field list'"),
        ("rm: a: Permission denied", "cat: a: Permission denied"),
        ("xxd: command not found", "jq: command not found"),
        ("status 404", "status 500"),
    ];
    for (a, b) in different {
        assert_ne!(error_signature(a), error_signature(b));
    }
}

/// Which of a run's secrets an error names depends on the run.
#[test]
fn the_number_of_a_redacted_secret_is_no_part_of_the_signature() {
    let first = error_signature("Error: access denied for token [redacted:github-pat]");
    assert_eq!(first, error_signature("Error: access denied for token [redacted:github-pat#2]"));
    assert_eq!(first, "access denied for token [redacted:github-pat]");
}

#[test]
fn what_a_call_was_given_is_masked_in_its_error() {
    let masked = |error: &str, raw: &str| mask_arguments(error.to_owned(), &Arguments::parse(raw));
    assert_eq!(masked("user not found: Krüger, Holger", r#"{"to":"Krüger, Holger"}"#), "user not found: …");
    assert_eq!(masked("name is required", r#"{"field":"name"}"#), "name is required", "a plain word stays");
    assert_eq!(masked("no EUR here", r#"{"currency":"EUR"}"#), "no EUR here", "short values stay");
}
