//! What several runs did about an answer that complains without a flag becomes a lesson.

use super::remedies::lessons;
use super::*;

/// Asserts that three runs which meet an answer without a flag, and two that do without, learn one lesson. `{n}` differs
/// from run to run.
#[track_caller]
fn check_complaint(failing: Told<'_>, then: &[Told<'_>], expected: &str) {
    let filled =
        |call: &Told<'_>, n: &str| (call.0.to_owned(), call.1.replace("{n}", n), call.2.replace("{n}", n));
    let calls = |n: &str, first: usize| -> Vec<(String, String, String)> {
        std::iter::once(&failing).chain(then).skip(first).map(|call| filled(call, n)).collect()
    };
    let known = then.len();
    let owned = [calls("4711", 0), calls("902", 0), calls("66", 0), calls("31", known), calls("80", known)];
    let runs: Vec<Vec<Told<'_>>> = owned
        .iter()
        .map(|calls| {
            calls.iter().map(|(tool, raw, answer)| (tool.as_str(), raw.as_str(), answer.as_str())).collect()
        })
        .collect();
    let found = lessons(&runs);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with(&format!(", {expected}.")), "{}", found[0]);
}

#[test]
fn an_answer_that_complains_without_a_flag_teaches_what_runs_did_next() {
    check_complaint(
        ("crossref_work", r#"{"doi":"10.5281/zenodo.{n}"}"#, "Resource not found."),
        &[("datacite_doi", r#"{"doi":"10.5281/zenodo.{n}"}"#, r#"{"data":{"id":"10.5281/zenodo.{n}"}}"#)],
        "call `datacite_doi` instead of `crossref_work`",
    );
    check_complaint(
        (
            "joindre_piece",
            r#"{"reference":"S{n}","fichier":"p{n}.jpg"}"#,
            "GED-413 : taille de la pièce supérieure au plafond du canal (2 Mo)",
        ),
        &[("deposer_document", r#"{"dossier":"S{n}","fichier":"p{n}.jpg"}"#, "<depot etat=\"RECU\"/>")],
        "call `deposer_document` instead of `joindre_piece`",
    );
    check_complaint(
        (
            "bash",
            "curl -sS -X POST http://fhir.test/Observation -d @out/o{n}.json",
            "HTTP ERROR 415 Unsupported Media Type",
        ),
        &[(
            "bash",
            "curl -sS -X POST http://fhir.test/Observation -H 'Content-Type: application/fhir+json' -d @out/o{n}.json",
            "created {n}",
        )],
        "call `curl` with `-H 'Content-Type: application/fhir+json'`",
    );
    check_complaint(
        (
            "run",
            r#"{"argv":["Rscript","/w/e{n}/fit.R"]}"#,
            "Error in library(lme4) : there is no package called ‘lme4’",
        ),
        &[(
            "run",
            r#"{"argv":["/sw/R/4.3.2/bin/Rscript","/w/e{n}/fit.R"]}"#,
            "-- done: 41 parameters, converged",
        )],
        "use `/sw/R/4.3.2/bin/Rscript`",
    );
    check_complaint(
        ("exec", r#"{"argv":["adb","install","-r","build/a{n}.apk"]}"#, "adb: error: more than one device"),
        &[
            ("exec", r#"{"argv":["adb","devices","-l"]}"#, "List of devices attached\nR58N{n} device"),
            ("exec", r#"{"argv":["adb","-s","R58N{n}","install","-r","build/a{n}.apk"]}"#, "Success"),
        ],
        "run `adb devices -l` first and call `adb` with `-s` and what `adb devices` answers",
    );
    check_complaint(
        (
            "bash",
            "samtools index -@ 8 /s/a{n}/a{n}.bam",
            "samtools index: failed to create index for \"/s/a{n}/a{n}.bam\"",
        ),
        &[
            ("bash", "samtools sort -@ 8 -o /s/a{n}/b{n}.bam /s/a{n}/a{n}.bam", "[bam_sort_core] merging"),
            ("bash", "samtools index -@ 8 /s/a{n}/b{n}.bam", "indexed"),
        ],
        "run `samtools sort 8 -o` first",
    );
}

#[test]
fn a_complaint_within_a_document_or_in_another_language_teaches_what_runs_did_next() {
    check_complaint(
        (
            "shopify",
            r#"{"operation":"set","input":{"name":"available","item":"gid{n}"}}"#,
            r#"{"data":{"group":null,"userErrors":[{"message":"The compareQuantity argument must be given to each quantity or ignored."}]}}"#,
        ),
        &[(
            "shopify",
            r#"{"operation":"set","input":{"name":"available","item":"gid{n}","ignoreCompareQuantity":true}}"#,
            r#"{"data":{"group":{"id":"{n}"},"userErrors":[]}}"#,
        )],
        "set `input.ignoreCompareQuantity` to `true`",
    );
    check_complaint(
        (
            "buchen",
            r#"{"VBELN":"80{n}"}"#,
            "TYPE E  ID VL  NUMBER 602\nAuslieferung 80{n}: Position 000010 ist noch nicht vollständig kommissioniert",
        ),
        &[
            ("quittieren", r#"{"VBELN":"80{n}"}"#, "S L3 016: wurde quittiert"),
            ("buchen", r#"{"VBELN":"80{n}"}"#, "S VL 311: gebucht"),
        ],
        "call `quittieren` first",
    );
    check_complaint(
        (
            "query_instant",
            r#"{"query":"{app=\"{n}\"}"}"#,
            "Log queries are not supported as an instant query type",
        ),
        &[("query_range", r#"{"query":"{app=\"{n}\"}"}"#, r#"{"status":"success"}"#)],
        "call `query_range` instead of `query_instant`",
    );
}

#[test]
fn an_answer_without_a_flag_passes_by_itself_if_runs_just_asked_again() {
    let call = r#"{"id":"a4711"}"#;
    let with_size = r#"{"id":"a4711","groesse":"klein"}"#;
    let (busy, done) = ("Dienst nicht verfügbar, bitte später erneut", r#"{"id":"a4711","thumbnail":"png"}"#);
    let changed: Vec<Told<'_>> = vec![("thumbnail", call, busy), ("thumbnail", with_size, done)];
    let again: Vec<Told<'_>> = vec![("thumbnail", call, busy), ("thumbnail", call, done)];
    let did_without: Vec<Told<'_>> = vec![("thumbnail", with_size, done)];
    let runs = |repeated: usize| {
        let mut runs = vec![changed.clone(); 3];
        runs.extend(vec![again.clone(); repeated]);
        runs.extend(vec![did_without.clone(); 2]);
        lessons(&runs)
    };
    assert_eq!(runs(0).len(), 1, "{:?}", runs(0));
    assert_eq!(runs(3), [""; 0]);
}

#[test]
fn a_call_that_says_to_do_something_else_is_no_variation_of_the_one_before() {
    let reload = r#"{"host":"sw{n}","command":"reload in 5"}"#;
    check_complaint(
        ("ios_exec", reload, "Reload not possible, the configuration was modified"),
        &[
            ("ios_exec", r#"{"host":"sw{n}","command":"write memory"}"#, "Building configuration"),
            ("ios_exec", reload, "Reload scheduled"),
        ],
        "run `ios_exec write memory` first",
    );
}
