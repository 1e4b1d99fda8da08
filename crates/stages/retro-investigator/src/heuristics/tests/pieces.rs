//! A piece of a longer text, one of several equal options, or what is in the items of a list becomes a lesson.

use super::remedies::check;

#[test]
fn a_piece_of_a_query_is_the_lesson() {
    check(
        "run_query",
        r#"{"query":"select id, sum(amount) from bookings where account = '{n}' group by id"}"#,
        "Error: result set exceeds the row limit of this session",
        &[(
            r#"{"query":"select id, sum(amount) from bookings where account = '{n}' and year = 2026 group by id"}"#,
            "3 rows",
        )],
        "pass `query` containing `and year = 2026`",
    );
    check(
        "bash",
        r#"ffmpeg -i a{n}.mp4 -vf "drawtext=text='shot {n}':x=40:y=40:fontsize=36:fontcolor=white" b{n}.mp4"#,
        "Error: Cannot find a valid font for the family Sans",
        &[(
            r#"ffmpeg -i a{n}.mp4 -vf "drawtext=fontfile=/usr/share/a.ttf:text='shot {n}':x=40:y=40:fontsize=36:fontcolor=white" b{n}.mp4"#,
            "frame=1",
        )],
        "call `ffmpeg` with an argument containing `fontfile=/usr/share/a.ttf`",
    );
}

#[test]
fn one_of_several_equal_options_is_the_lesson() {
    check(
        "bash",
        "docker run -e MODE=prod -e RUN={n} app:2",
        "Error: cannot determine the locale",
        &[("docker run -e MODE=prod -e RUN={n} -e LANG=C.UTF-8 app:2", "started")],
        "call `docker` with `-e LANG=C.UTF-8`",
    );
    check(
        "bash",
        "gdal_translate -co TILED=YES -co COMPRESS=LZW a{n}.vrt a{n}.tif",
        "Error: Maximum TIFF file size exceeded. Use BIGTIFF=YES creation option.",
        &[("gdal_translate -co TILED=YES -co COMPRESS=LZW -co BIGTIFF=YES a{n}.vrt a{n}.tif", "done")],
        "call `gdal_translate` with `-co` as named in the error, “BIGTIFF=YES”",
    );
}

#[test]
fn what_the_items_of_a_list_get_is_the_lesson() {
    check(
        "create_invoice",
        r#"{"id":"{n}","lines":[{"sku":"a","count":2},{"sku":"b","count":1}]}"#,
        "Error: A validation exception occurred",
        &[(
            r#"{"id":"{n}","lines":[{"sku":"a","count":2,"tax":"OUTPUT2"},{"sku":"b","count":1,"tax":"OUTPUT2"}]}"#,
            "created",
        )],
        "set `lines.tax` to `OUTPUT2`",
    );
    check(
        "configure",
        r#"{"host":"sw{n}","lines":["interface g1","switchport trunk encapsulation dot1q","switchport mode trunk"]}"#,
        "Error: Invalid input detected",
        &[(r#"{"host":"sw{n}","lines":["interface g1","switchport mode trunk"]}"#, "end")],
        "pass `lines` not containing `switchport trunk encapsulation dot1q`",
    );
    check(
        "create_token",
        r#"{"name":"t{n}","scopes":["repo","read:user"]}"#,
        "Error: the token lacks a permission",
        &[(r#"{"name":"t{n}","scopes":["repo","read:user","workflow:write"]}"#, "created")],
        "pass `scopes` containing `workflow:write`",
    );
}

#[test]
fn a_word_of_the_failing_call_is_not_what_its_error_demands() {
    check(
        "run",
        r#"{"argv":["validate","--file","reports/r{n}.zip","--offline"]}"#,
        "Error: reports/r{n}.zip: schema cannot be loaded",
        &[(
            r#"{"argv":["validate","--file","reports/r{n}.zip","--offline","--packages","taxonomies/esef.zip"]}"#,
            "valid",
        )],
        "call `validate` with `--packages taxonomies/esef.zip`",
    );
}

#[test]
fn a_statement_that_is_made_first_is_the_lesson() {
    check(
        "snowflake_execute",
        r#"{"statement":"SELECT COUNT(*) FROM ANALYTICS.PUBLIC.A{n}"}"#,
        "Error: No active warehouse selected in the current session. Select an active warehouse with the 'use warehouse' command.",
        &[
            (r#"{"statement":"USE WAREHOUSE ANALYST_WH"}"#, "Statement executed successfully."),
            (r#"{"statement":"SELECT COUNT(*) FROM ANALYTICS.PUBLIC.A{n}"}"#, "1 row"),
        ],
        "run `snowflake_execute USE WAREHOUSE ANALYST_WH` first",
    );
}

#[test]
fn a_piece_that_the_error_names_is_quoted() {
    check(
        "bigquery_query",
        r#"{"sql":"SELECT COUNT(DISTINCT user_id) FROM `acme.events.e{n}` WHERE DATE(ingested_at) = '2026-01-01'"}"#,
        "Error: Cannot query over table 'acme.events.e{n}' without a filter over column(s) 'event_date'",
        &[(
            r#"{"sql":"SELECT COUNT(DISTINCT user_id) FROM `acme.events.e{n}` WHERE event_date = '2026-01-01'"}"#,
            "1 row",
        )],
        "pass `sql` containing what is named in the error, “event_date”",
    );
}

#[test]
fn versions_and_paths_of_this_machine_are_words_of_a_command_that_is_run_first() {
    check(
        "bash",
        "cmake -S src{n} -B build",
        "Error: could not find MPI_Fortran",
        &[("module load gompi/2023b", "loaded"), ("cmake -S src{n} -B build", "configured")],
        "run `module load gompi/2023b` first",
    );
    check(
        "bash",
        "ldapsearch -Y GSSAPI uid={n}",
        "Error: no credentials cache found",
        &[("kinit -k -t /etc/krb5/svc.keytab svc", "done"), ("ldapsearch -Y GSSAPI uid={n}", "1 entry")],
        "run `kinit -k -t /etc/krb5/svc.keytab svc` first",
    );
}
