use proptest::prelude::*;

use super::*;

fn check(text: &str, printed: &str) {
    assert_eq!(make_printable(text), printed, "{text:?}");
}

#[test]
fn terminal_controls_are_printed_as_codes() {
    check("a\u{1b}[2Jb", r"a\u{1b}[2Jb");
    check("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}");
    check("\u{9b}2J \u{7f} \u{0} \u{85}", r"\u{9b}2J \u{7f} \u{0} \u{85}");
    check("over\rwritten", r"over\rwritten");
    check("\u{202e}txt\u{202c} \u{2066}x\u{2069} \u{61c}", r"\u{202e}txt\u{202c} \u{2066}x\u{2069} \u{61c}");
    check("one\u{2028}two\u{2029}", r"one\u{2028}two\u{2029}");
}

#[test]
fn invisible_characters_are_printed_as_codes() {
    check("pass\u{200b}word\u{feff}", r"pass\u{200b}word\u{feff}");
    check("\u{e0041}\u{e007f}\u{e0100}", r"\u{e0041}\u{e007f}\u{e0100}");
    check("a\u{ad}b\u{2063}c\u{3164}", r"a\u{ad}b\u{2063}c\u{3164}");
    check("\u{f8ff}\u{10ffff}\u{ffff}", r"\u{f8ff}\u{10ffff}\u{ffff}");
}

#[test]
fn ordinary_text_is_unchanged() {
    for text in [
        "",
        "two\n\tlines",
        "Größe, naïve, Δt in µs → “ok” — €5…",
        "می\u{200c}خواهم",
        "क्\u{200d}ष",
        "\u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f}\u{200d}\u{1f525} 1\u{fe0f}\u{20e3}",
        "日本語、한국어, العربية, עברית",
        "\u{fffd} \u{a0}x",
        r"already \u{1b} and \n",
    ] {
        assert!(matches!(make_printable(text), Cow::Borrowed(same) if same == text), "{text:?}");
        assert!(is_printable(text));
    }
}

#[test]
fn joiners_and_selectors_without_a_function_are_printed_as_codes() {
    check("pass\u{200d}word \u{200c}", r"pass\u{200d}word \u{200c}");
    check("é\u{200d}\u{200c}é", r"é\u{200d}\u{200c}é");
    check("a\u{fe0f}b 1\u{fe0f}2", r"a\u{fe0f}b 1\u{fe0f}2");
    check("\u{2764}\u{fe0f}\u{fe01}\u{fe02}", "\u{2764}\u{fe0f}\\u{fe01}\\u{fe02}");
    check("\u{200b}\u{200d}é", r"\u{200b}\u{200d}é");
}

#[test]
fn a_line_has_neither_line_breaks_nor_tabs() {
    assert_eq!(make_printable_line("a\n\tb\u{1b}"), r"a\n\tb\u{1b}");
}

#[test]
fn json_is_escaped_as_json() {
    let document = "{\n\t\"a\": \"\u{202e}x\u{e0041}\u{7f}\u{9b}\"\r\n}";
    let printed = make_printable_json(document);
    assert_eq!(printed, "{\n\t\"a\": \"\\u202ex\\udb40\\udc41\\u007f\\u009b\"\r\n}");
}

/// Generates texts with many unprintable characters.
fn texts() -> impl Strategy<Value = String> {
    let hostile = prop::char::ranges(
        vec![
            '\0'..='\u{1f}',
            '\u{7f}'..='\u{9f}',
            '\u{180a}'..='\u{1820}',
            '\u{200a}'..='\u{2070}',
            '\u{fe00}'..='\u{fe10}',
            '\u{fff0}'..='\u{ffff}',
            '\u{e0000}'..='\u{e0200}',
        ]
        .into(),
    );
    let other = prop::sample::select(vec!['a', '1', '#', '"', '\\', ' ', 'é', 'م', '\u{1f469}', '\u{20e3}']);
    let c = prop_oneof![hostile, other, any::<char>()];
    prop::collection::vec(c, 0..40).prop_map(String::from_iter)
}

/// Independent statement of the property: characters that never occur in the output.
fn is_harmless(c: char) -> bool {
    let code = u32::from(c);
    let controls = code < 0x20 || (0x7f..=0x9f).contains(&code);
    let turns = matches!(code, 0x61c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
    let hides =
        matches!(code, 0xad | 0x200b | 0x2028 | 0x2029 | 0x2060..=0x2064 | 0xfeff | 0xe0000..=0xe0fff);
    !controls && !turns && !hides
}

proptest! {
    // No file of failing cases is kept: a failing case is printed in full and becomes a test.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_hidden_comes_out(text in texts()) {
        prop_assert!(make_printable(&text).chars().all(|c| c == '\n' || c == '\t' || is_harmless(c)));
        prop_assert!(make_printable_line(&text).chars().all(is_harmless));
    }

    #[test]
    fn twice_is_once(text in texts()) {
        let once = make_printable(&text).into_owned();
        prop_assert!(is_printable(&once));
        let line = make_printable_line(&text).into_owned();
        prop_assert_eq!(&make_printable_line(&line), &line);
        let document = serde_json::to_string(&text).unwrap();
        let json = make_printable_json(&document).into_owned();
        prop_assert_eq!(&make_printable_json(&json), &json);
    }

    #[test]
    fn it_is_bounded(text in texts()) {
        prop_assert!(make_printable_line(&text).len() <= 6 * text.len());
        prop_assert!(make_printable_json(&text).len() <= 6 * text.len());
    }

    /// The output is the text with some characters as their codes: nothing is lost, added or moved.
    #[test]
    fn nothing_else_changes(text in texts()) {
        let printed = make_printable(&text).into_owned();
        let mut rest = printed.as_str();
        for c in text.chars() {
            let code: String = c.escape_default().collect();
            let kept = rest.strip_prefix(c);
            let shown = rest.strip_prefix(&code).filter(|_| !c.is_ascii_graphic());
            prop_assert!(kept.is_some() || shown.is_some(), "{:?} is neither kept nor shown in {:?}", c, rest);
            rest = kept.or(shown).unwrap_or_default();
        }
        prop_assert_eq!(rest, "");
    }

    #[test]
    fn json_parses_to_the_same_value(text in texts(), pretty in any::<bool>()) {
        let value = serde_json::json!({"key": [text], text: 1.5});
        let document = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let document = document.unwrap();
        let printed = make_printable_json(&document);
        prop_assert!(printed.chars().all(|c| matches!(c, '\n') || is_harmless(c)));
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
