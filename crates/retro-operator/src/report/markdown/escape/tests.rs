use super::*;

fn check(text: &str, markdown: &str) {
    assert_eq!(escape(text, Place::Line), markdown, "{text:?}");
}

#[test]
fn honest_texts_read_as_they_did() {
    for text in [
        "Call `roll_back` after `deploy_service --env prod` fails",
        "0.300 → 0.400 (+0.100), e.g. twice; it's “ok”: 50 %",
        "airline-3 and snake_case_name",
        "R2-D2, a/b/c, v2.15.1!",
    ] {
        check(text, text);
    }
}

#[test]
fn the_syntax_of_markdown_is_escaped() {
    check("<img src=x onerror=1>", "&lt;img src=x onerror=1&gt;");
    check("![x](y) [^1] ~~a~~ *b* _c_ __init__", r"!\[x\](y) \[^1\] \~\~a\~\~ \*b\* \_c\_ \_\_init\_\_");
    check(r"a | b \ c &lt;", r"a \| b \\ c &amp;lt;");
    check("# no heading", r"\# no heading");
    check("one ` two", "one &#96; two");
}

#[test]
fn what_could_become_a_link_a_mention_or_a_reference_is_code() {
    check("see https://evil.example/x_y now", "see `https://evil.example/x_y` now");
    check("www.evil.example, Evil.COM and main.rs", "`www.evil.example,` `Evil.COM` and `main.rs`");
    check("ask @octocat or a@b.c", "ask `@octocat` or `a@b.c`");
    check("fixes #12, GH-3 and o/r#4", "fixes `#12,` `GH-3` and `o/r#4`");
    check("<https://evil.example>", "`<https://evil.example>`");
    check("[x](http://evil.example)", "`[x](http://evil.example)`");
    check("pays $x$", "pays `$x$`");
    check("`a`@evil.example", "`` `a`@evil.example ``");
    check("`https://evil.example`", "`https://evil.example`");
}

#[test]
fn code_cannot_be_left_from_within() {
    check("``a`b``", "``a`b``");
    check("x@y`https://evil.example", "``x@y`https://evil.example``");
    assert_eq!(escape(r"`a\|b|`", Place::Cell), r"`a\`\|`b`\|");
    assert_eq!(escape("`a|b`", Place::Line), "`a|b`");
    assert_eq!(escape("a|b@c||d", Place::Cell), r"`a`\|`b@c`\|\|`d`");
}

#[test]
fn a_first_word_opens_neither_a_list_nor_an_underline() {
    check("- a", r"\- a");
    check("--- b", r"\--- b");
    check("=== c", r"\=== c");
    check("+ d", r"\+ d");
    check("1. e", r"1\. e");
    check("12) f", r"12\) f");
    check("-1 g 2. h", "-1 g 2. h");
    assert_eq!(escape("1. run x", Place::Cell), "1. run x");
}

#[test]
fn lines_and_hidden_characters_are_shown() {
    check("a\n# b\u{202e}c", r"a \# b\\u{202e}c");
}
