use proptest::prelude::*;

use super::*;

fn check(text: &str, markdown: &str) {
    assert_eq!(escape_markdown(text, EscapeContext::Line), markdown, "{text:?}");
}

#[test]
fn plain_texts_are_unchanged() {
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
    check("![x](y) [^1] ~~a~~ *b* _c_ __init__", r"!\[x\](y) \[\^1\] \~\~a\~\~ \*b\* \_c\_ \_\_init\_\_");
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
fn spaces_at_both_ends_of_a_code_span_survive() {
    check("``\\` ``", "``\\` ``");
    check("` a `", "`  a  `");
    check("` `", "` `");
}

#[test]
fn text_cannot_close_its_code_span() {
    check("``a`b``", "``a`b``");
    check("x@y`https://evil.example", "``x@y`https://evil.example``");
    assert_eq!(escape_markdown(r"`a\|b|`", EscapeContext::Cell), r"`a\`\|`b`\|");
    assert_eq!(escape_markdown("`a|b`", EscapeContext::Line), "`a|b`");
    assert_eq!(escape_markdown("a|b@c||d", EscapeContext::Cell), r"`a`\|`b@c`\|\|`d`");
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
    assert_eq!(escape_markdown("1. run x", EscapeContext::Cell), "1. run x");
}

#[test]
fn lines_and_hidden_characters_are_shown() {
    check("a\n# b\u{202e}c", r"a \# b\\u{202e}c");
}

/// Generates strings from pieces with a meaning in Markdown.
fn texts() -> impl Strategy<Value = String> {
    let pieces = [
        "`",
        "``",
        "```",
        "\\",
        "|",
        "\\|",
        "*",
        "_",
        "~",
        "[",
        "](",
        ")",
        "![",
        "<",
        ">",
        "&",
        "&#64;",
        "@",
        "#1",
        ".",
        "www.evil.example",
        "https://evil.example/x",
        "a@b.example",
        "evil.example",
        "o/r#2",
        "GH-3",
        "$",
        " ",
        " ",
        "a",
        "1.",
        "-",
        "=",
        "+",
        "é",
        "\n",
        "\u{202e}",
        "\u{200b}",
        "<img src=x>",
        "<!--",
        "-->",
        "mailto:",
        "^",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..24).prop_map(|pieces| pieces.concat())
}

/// Splits Markdown into the text outside code spans and the code spans, independently of the code under test.
fn read_code(markdown: &str) -> (String, Vec<String>) {
    let (mut prose, mut codes, mut rest) = (String::new(), Vec::new(), markdown);
    while let Some(at) = rest.find(['`', '\\']) {
        prose.push_str(&rest[..at]);
        if rest[at..].starts_with('\\') {
            let escaped = rest[at + 1..].chars().next().map_or(1, |c| 1 + c.len_utf8());
            prose.push_str(&rest[at..at + escaped]);
            rest = &rest[at + escaped..];
            continue;
        }
        let run = count_backticks(&rest[at..]);
        let inside = &rest[at + run..];
        let mut closing = 0;
        let end = loop {
            closing += inside[closing..].find('`').expect("every code is closed");
            let found = count_backticks(&inside[closing..]);
            if found == run {
                break closing;
            }
            closing += found;
        };
        codes.push(inside[..end].to_owned());
        prose.push('\u{0}');
        rest = &inside[end + run..];
    }
    (prose + rest, codes)
}

proptest! {
    // Failing cases are printed in full, so no file of past failures is kept next to the code.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_produces_links_or_elements(text in texts(), cell in any::<bool>()) {
        let markdown = escape_markdown(&text, if cell { EscapeContext::Cell } else { EscapeContext::Line });
        let (prose, codes) = read_code(&markdown);
        prop_assert!(!prose.contains(['<', '>', '@', '$']), "{}", markdown);
        prop_assert!(!prose.contains("www.") && !prose.contains("://") && !prose.contains(".example"), "{}", markdown);
        let plain: Vec<char> = prose.chars().collect();
        for (at, c) in plain.iter().enumerate().filter(|(_, c)| matches!(c, '[' | ']' | '*' | '~' | '|' | '#' | '^')) {
            let is_entity = *c == '#' && at > 0 && plain[at - 1] == '&';
            prop_assert!(is_entity || (at > 0 && plain[at - 1] == '\\'), "{:?} in {}", c, markdown);
        }
        prop_assert!(!cell || codes.iter().all(|code| !code.contains('|')), "{}", markdown);
        prop_assert!(!markdown.contains('\n'), "{}", markdown);
    }

    #[test]
    fn nothing_of_a_text_is_lost(text in texts()) {
        let (prose, codes) = read_code(&escape_markdown(&text, EscapeContext::Line));
        // As CommonMark: one space is stripped from both sides, unless there is nothing else.
        let mut codes = codes.iter().map(|code| {
            let inner = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
            inner.filter(|_| !code.trim_matches(' ').is_empty()).unwrap_or(code).to_owned()
        });
        let mut shown = String::new();
        let mut plain = prose.chars();
        while let Some(c) = plain.next() {
            match c {
                '\u{0}' => shown.push_str(&codes.next().expect("a code for each mark")),
                '\\' => shown.extend(plain.next()),
                c => shown.push(c),
            }
        }
        let shown = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&#96;", "`").replace("&amp;", "&");
        // Only the fences of code spans are removed.
        prop_assert_eq!(shown.replace('`', ""), text::single_line(&text).replace('`', ""));
    }
}
