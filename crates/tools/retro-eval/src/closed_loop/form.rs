//! Checks a form, such as "multiplied by 100", against values: whether it leads from the value of the failing call to the
//! one that works. It is written apart from the code that finds such forms.

use serde_json::Value;

use crate::closed_loop::lesson::format_value;

/// Returns `true` if a form leads from one value to another. Returns `None` if the form does not say how.
pub(crate) fn leads_to(form: &str, before: &Value, after: &Value) -> Option<bool> {
    if form == "as a list" {
        return Some(after.as_array().is_some_and(|items| items == std::slice::from_ref(before)));
    }
    let (before, after) = (format_value(before), format_value(after));
    let quoted = |words: &str| form.strip_prefix(words)?.strip_prefix('`')?.strip_suffix('`');
    let number = |words: &str| form.strip_prefix(words)?.parse::<f64>().ok();
    // A world may print a rounded number, and a lesson a rounded factor.
    let decimals = after.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let rounding = if decimals > 0 { 0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap_or(0)) } else { 0.0 };
    let scaled = |factor: f64| match (before.parse::<f64>(), after.parse::<f64>()) {
        (Ok(old), Ok(new)) => {
            let tolerance = if factor.fract() == 0.0 { 1e-9 } else { 5e-3 };
            (old * factor - new).abs() <= rounding.max(tolerance * new.abs())
        }
        _ => false,
    };
    let front = |long: &str, short: &str| long.strip_suffix(short).map(|front| front.trim().to_owned());
    let back = |long: &str, short: &str| long.strip_prefix(short).map(|back| back.trim().to_owned());
    let is = |found: Option<String>, wanted: &str| found.is_some_and(|found| found == wanted);
    let bare = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    Some(match form {
        "in upper case" => before.to_uppercase() == after,
        "in lower case" => before.to_lowercase() == after,
        "written without separators" => bare(&before) == after,
        _ => {
            if let Some(factor) = number("multiplied by ") {
                scaled(factor)
            } else if let Some(factor) = number("divided by ") {
                scaled(1.0 / factor)
            } else if let Some(text) = quoted("beginning with ") {
                // A prefix may take the place of leading zeros: `+49` in `+49176` for `0176`.
                let digits = bare(&before).trim_start_matches('0').to_owned();
                let is_number = digits.chars().count() >= 5 && digits.chars().all(|c| c.is_ascii_digit());
                is(front(&after, &before), text) || (is_number && is(front(&after, &digits), text))
            } else if let Some(text) = quoted("ending with ") {
                is(back(&after, &before), text)
            } else if let Some(text) = quoted("containing ") {
                return contains_change(&before, &after, text);
            } else if let Some(text) = form
                .strip_prefix("containing what is named in the error, “")
                .and_then(|rest| rest.strip_suffix('”'))
            {
                return contains_change(&before, &after, text);
            } else if let Some(text) = quoted("not containing ") {
                return contains_change(&after, &before, text);
            } else if let Some(text) = quoted("not beginning with ") {
                is(front(&before, &after), text)
            } else if let Some(text) = quoted("not ending with ") {
                is(back(&before, &after), text)
            } else if let Some(count) =
                form.strip_prefix("written with ").and_then(|rest| rest.strip_suffix(" digits"))
            {
                let plain = |text: &str| text.trim_start_matches('0').to_owned();
                after.chars().count().to_string() == count && plain(&before) == plain(&after)
            } else if let Some(separators) =
                form.strip_prefix("written with “").and_then(|rest| rest.strip_suffix("” between its parts"))
            {
                let of = |c: char| if c == ' ' { '␣' } else { c };
                let mut own = after.chars().filter(|c| !c.is_alphanumeric()).map(of).peekable();
                bare(&before) == bare(&after) && own.peek().is_some() && own.all(|c| separators.contains(c))
            } else if form.contains("YYYY") {
                let shape = form.trim_start_matches("written ");
                has_shape_of(&after, shape)
                    && (is_same_date(&before, &after) || is_same_day(&before, &after, shape))
            } else {
                return None;
            }
        }
    })
}

/// Returns `true` if a piece of text holds everything that is new in the second text, and `None` if only a part of it.
fn contains_change(before: &str, after: &str, piece: &str) -> Option<bool> {
    if !after.contains(piece) || before.contains(piece) {
        return Some(false);
    }
    let marks = |c: char| !c.is_alphanumeric() && c != '_';
    let words = |text: &str| -> Vec<String> {
        text.split(marks).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (mut old, named) = (words(before), words(piece));
    let is_new = |word: &String| match old.iter().position(|other| other == word) {
        Some(at) => {
            old.swap_remove(at);
            false
        }
        None => true,
    };
    let new: Vec<String> = words(after).into_iter().filter(is_new).collect();
    new.iter().all(|word| named.contains(word)).then_some(true)
}

/// Returns `true` if two texts have the same numbers, in whatever order and with whatever between them.
fn is_same_date(before: &str, after: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        let mut numbers: Vec<u64> = parts.take(3).filter_map(|part| part.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    numbers(before).len() == 3 && numbers(before) == numbers(after)
}

/// Returns `true` if a text in a shape is the same day as another text, in one of the usual shapes.
fn is_same_day(before: &str, after: &str, shape: &str) -> bool {
    const USUAL: [&str; 8] = [
        "YYYY-MM-DD",
        "YYYY/MM/DD",
        "YYYYMMDD",
        "DD.MM.YYYY",
        "DD/MM/YYYY",
        "MM/DD/YYYY",
        "YYYY-DDD",
        "YYYYDDD",
    ];
    let wanted = day_of_year(after, shape);
    wanted.is_some() && USUAL.iter().any(|shape| day_of_year(before, shape) == wanted)
}

/// Returns year and day of the year of the date with which a text in a shape begins.
fn day_of_year(text: &str, shape: &str) -> Option<(u64, u64)> {
    let read = |letter: char| {
        let digits: String =
            shape.chars().zip(text.chars()).filter(|(of, _)| *of == letter).map(|(_, c)| c).collect();
        digits.parse::<u64>().ok()
    };
    let (year, day) = (read('Y')?, read('D')?);
    if !shape.contains('M') {
        return Some((year, day));
    }
    let month = usize::try_from(read('M')?).ok().filter(|month| (1..=12).contains(month))?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    Some((year, lengths[..month - 1].iter().sum::<u64>() + day))
}

fn has_shape_of(text: &str, shape: &str) -> bool {
    text.chars().count() == shape.chars().count()
        && text.chars().zip(shape.chars()).all(|(c, of)| match of {
            'Y' | 'M' | 'D' | 'h' | 'm' | 's' | '9' | '#' => c.is_ascii_digit(),
            of => c == of,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_form_is_checked_against_the_values() {
        for (form, before, after, leads) in [
            ("multiplied by 100", json!("129.90"), json!("12990"), true),
            ("multiplied by 100", json!(1.5), json!(1500), false),
            ("beginning with `+49`", json!("0176 0760060"), json!("+491760760060"), true),
            ("beginning with `+33`", json!("0176 0760060"), json!("+491760760060"), false),
            ("beginning with `+49`", json!("0176 0760060"), json!("+491760760061"), false),
            ("divided by 1000", json!(2500), json!(2.5), true),
            ("in upper case", json!("eur"), json!("EUR"), true),
            ("written without separators", json!("8471.30.00"), json!("84713000"), true),
            ("written without separators", json!("8471.30"), json!("8471300000"), false),
            ("written with “_” between its parts", json!("pt-BR"), json!("pt_BR"), true),
            ("written with “_” between its parts", json!("pt_BR"), json!("pt-BR"), false),
            ("beginning with `chr`", json!("7:100"), json!("chr7:100"), true),
            ("beginning with `chr`", json!("7:100"), json!("chr8:100"), false),
            ("not ending with `.git`", json!("a.git"), json!("a"), true),
            ("written with 8 digits", json!("4711"), json!("00004711"), true),
            ("written YYYY-MM-DD", json!("31.12.2026"), json!("2026-12-31"), true),
            ("written YYYY-MM-DD", json!("31.12.2026"), json!("2026/12/31"), false),
            ("written YYYY-DDD", json!("2026-03-14"), json!("2026-073"), true),
            ("written YYYY-DDD", json!("2026-03-14"), json!("2026-074"), false),
            ("written YYYYMMDD", json!("14.03.2026"), json!("20260314"), true),
            ("divided by 3600", json!("30"), json!("0.008333"), true),
            ("divided by 3600", json!("30"), json!("0.009"), false),
            ("as a list", json!("a"), json!(["a"]), true),
            ("containing `limit 5`", json!("select a from t"), json!("select a from t limit 5"), true),
            ("containing `limit 9`", json!("select a from t"), json!("select a from t limit 5"), false),
            ("containing `from t`", json!("select a from t"), json!("select a from t limit 5"), false),
            ("not containing `limit 5`", json!("select a from t limit 5"), json!("select a from t"), true),
        ] {
            assert_eq!(leads_to(form, &before, &after), Some(leads), "{form} {before} {after}");
        }
        let half = leads_to("containing `limit`", &json!("select a"), &json!("select a limit 5"));
        assert_eq!(half, None, "only a part of what is new");
        assert_eq!(leads_to("as named in the task", &json!("a"), &json!("b")), None);
    }
}
