//! Finds failures in XML and HTML answers by the conventions of such documents: an element that is named after an
//! error, an attribute that states a failed status, the title of an error page.
//!
//! Only the structure is read, so a protocol needs no entry of its own: `<error code="badArgument">…</error>`,
//! `<soap:Fault>`, `<ServiceException>`, `<INFO name="QUERY_STATUS" value="ERROR">`, `<record status="Failure">` and
//! `<RespuestaError>` all follow one of three conventions. Attributes such as `class` are styles and say nothing.

use std::sync::LazyLock;

use regex::Regex;

use super::{CallFailure, first_line};
use crate::heuristics::quote::first_chars;

/// Number of opening tags that are searched for an error: a document that refuses a request says so at once, and what
/// comes later is data, in which a job or a test may have failed.
const TAGS_SEARCHED: usize = 8;
/// Number of characters of a document that are searched for them, and maximum length of an error page.
const SEARCHED_CHARS_MAX: usize = 6_000;
/// Maximum number of characters of text in a page whose title reports an error. A longer page is an article.
const PAGE_TEXT_CHARS_MAX: usize = 1_500;
/// Number of characters after the start of an error element in which its text is searched.
const TEXT_CHARS_MAX: usize = 600;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Start of an element whose name ends with a word for a failure, with its attributes and the text after it.
pattern!(
    ERROR_ELEMENT,
    r"(?i)<(?:[\w.-]+:)?[\w.-]*?(?:error|errorresponse|fault|faultstring|exception|failure|diagnostic)(?:\s[^<>]*)?>"
);
// An attribute that states how the request ended, or a pair of a name and a value that does.
pattern!(
    FAILED_STATUS,
    concat!(
        r#"(?i)<[\w:.-]+(?:\s[^<>]*)?\s(?:(?:status|state|result|outcome)|"#,
        r#"(?:name|id|key)\s*=\s*["'][\w.-]*(?:status|state|result|outcome)["'][^<>]*\svalue)"#,
        r#"\s*=\s*["'](?:error|fail|failed|failure|fatal|rejected|refused|denied|aborted)["'][^<>]*>"#
    )
);
// A pair of a name and a value, of which the name says that the value is an error.
pattern!(
    NAMED_ERROR,
    r#"(?i)<[\w:.-]+\s(?:[^<>]*\s)?(?:name|id|key)\s*=\s*["'](?:error|exception|fault)["'][^<>]*\bvalue\s*=\s*["']([^"'<>]+)["']"#
);
// Title or heading of a page that reports an error.
pattern!(
    PAGE_TITLE,
    concat!(
        r"(?i)<(?:title|h1|h2)(?:\s[^<>]*)?>\s*((?:[^<>]*[\s:–—-])?(?:[45]\d\d\b|error|failure|failed|forbidden|unauthorized|",
        r"denied|rejected|refused|unavailable|not (?:found|allowed|accepted|permitted|stored|authorized)|bad (?:request|gateway))\b[^<>]{0,80})</"
    )
);
// Child of an error element that explains it.
pattern!(
    EXPLANATION,
    r"(?i)<(?:[\w.-]+:)?(?:message|details?|text|texto|reason|description|faultstring)(?:\s[^<>]*)?>\s*([^<>]*[^<>\s])"
);
// Text of an element itself, and the next text of the document.
pattern!(OWN_TEXT, r"\A>\s*([^<>]*[^<>\s])");
pattern!(NEXT_TEXT, r">\s*([^<>]*[^<>\s])");
pattern!(TAG, r"<[^<>]*>");
pattern!(OPENING_TAG, r"<[A-Za-z][^<>]*>");
// A heading that counts failures and has none.
pattern!(NO_FAILURE, r"(?i)\b(?:0|no|zero|without)\s+(?:errors?|fail)");

/// Finds the failure that an XML or HTML document reports. Returns `None` for any other text.
pub(super) fn find_markup_failure(answer: &str) -> Option<CallFailure<'_>> {
    if !answer.starts_with('<') {
        return None;
    }
    let searched = first_chars(answer, SEARCHED_CHARS_MAX);
    let line = find_error_text(searched)
        .or_else(|| Some(NAMED_ERROR.captures(first_tags(searched))?.get(1)?.as_str()))
        .or_else(|| {
            FAILED_STATUS.find(first_tags(searched)).map(|found| text_after(searched, found.end() - 1))
        })
        .or_else(|| find_page_error(answer))?;
    Some(CallFailure::from_line(first_line(line)))
}

/// Returns the beginning of a document, up to the last opening tag that is searched.
fn first_tags(document: &str) -> &str {
    let last = OPENING_TAG.find_iter(document).nth(TAGS_SEARCHED - 1);
    &document[..last.map_or(document.len(), |tag| tag.end())]
}

/// Returns the text of the first error element that has one. An element without text, or with a number or a negation,
/// says that there was no error.
fn find_error_text(document: &str) -> Option<&str> {
    let says_none = |text: &str| {
        let text = text.trim().to_lowercase();
        text.chars().all(|c| c.is_ascii_digit())
            || matches!(text.as_str(), "false" | "none" | "null" | "no" | "ok" | "success")
    };
    ERROR_ELEMENT.find_iter(first_tags(document)).find_map(|element| {
        // An element that closes at once, or holds no text of its own or of its children, is empty.
        let rest = &document[element.end()..];
        if element.as_str().ends_with("/>") || rest.trim_start().starts_with("</") {
            return None;
        }
        let near = first_chars(&document[element.end() - 1..], TEXT_CHARS_MAX);
        // The text of any other child is a part of a record, and no message.
        let text = OWN_TEXT.captures(near).or_else(|| EXPLANATION.captures(near))?.get(1)?.as_str();
        (!says_none(text)).then_some(text)
    })
}

/// Returns what explains an element, of which the opening tag ends at this place; empty if there is no text.
fn text_after(document: &str, at: usize) -> &str {
    let near = first_chars(&document[at..], TEXT_CHARS_MAX);
    let found = EXPLANATION.captures(near).or_else(|| NEXT_TEXT.captures(near));
    found.and_then(|found| found.get(1)).map_or("", |text| text.as_str())
}

/// Returns the title of a short page that reports an error.
fn find_page_error(page: &str) -> Option<&str> {
    let title = PAGE_TITLE.captures(first_chars(page, SEARCHED_CHARS_MAX))?.get(1)?.as_str();
    let text = TAG.replace_all(first_chars(page, SEARCHED_CHARS_MAX), " ");
    let is_short = page.len() <= SEARCHED_CHARS_MAX
        && text.split_whitespace().map(|word| word.chars().count() + 1).sum::<usize>() <= PAGE_TEXT_CHARS_MAX;
    (is_short && !NO_FAILURE.is_match(title)).then_some(title.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(answer: &str) -> Option<&str> {
        find_markup_failure(answer).map(|failure| failure.line)
    }

    #[test]
    fn documents_that_refuse_a_request_are_failures() {
        for (answer, line) in [
            (
                "<OAI-PMH><error code=\"badArgument\">token is exclusive</error></OAI-PMH>",
                "token is exclusive",
            ),
            (
                "<Error><Code>NoSuchKey</Code><Message>The key does not exist</Message></Error>",
                "The key does not exist",
            ),
            (
                "<s:Envelope><s:Body><s:Fault><faultstring>no such method</faultstring></s:Fault></s:Body></s:Envelope>",
                "no such method",
            ),
            (
                "<r><diag:diagnostic><diag:uri>info:1/16</diag:uri><diag:message>Unsupported index</diag:message></diag:diagnostic></r>",
                "Unsupported index",
            ),
            (
                "<VOTABLE><INFO name=\"QUERY_STATUS\" value=\"ERROR\">Incorrect query</INFO></VOTABLE>",
                "Incorrect query",
            ),
            (
                "<VOTABLE><INFO ID=\"Error\" name=\"Error\" value=\"radius too large\"/></VOTABLE>",
                "radius too large",
            ),
            ("<RespuestaError><Codigo>17</Codigo><Texto>no admitida</Texto></RespuestaError>", "no admitida"),
            ("<record status=\"Failure\"><msg>not owned</msg></record>", "not owned"),
            ("<html><head><title>FAILURE</title></head><body><p>not accepted</p></body></html>", "FAILURE"),
            (
                "<!DOCTYPE html><html><head><title>Ingest</title></head><h1>Not stored</h1></html>",
                "Not stored",
            ),
            ("<html><title>502 Bad Gateway</title></html>", "502 Bad Gateway"),
        ] {
            assert_eq!(found(answer), Some(line), "{answer}");
        }
    }

    #[test]
    fn documents_that_answer_a_request_are_none() {
        let article =
            format!("<html><title>Error handling</title><p>{}</p></html>", "words and words ".repeat(200));
        for answer in [
            "<r><errors/><rows>3</rows></r>",
            "<r><error></error><row>1</row></r>",
            "<r><standardError>0</standardError><hasError>false</hasError></r>",
            "<r><INFO name=\"QUERY_STATUS\" value=\"OK\"/></r>",
            "<div class=\"error hidden\">x</div>",
            "<select><option value=\"failed\">failed</option><option value=\"done\">done</option></select>",
            "<html><h1>12 passed, 0 failed</h1></html>",
            "<jobs><a/><b/><c/><d/><e/><f/><g/><job status=\"failed\">x</job></jobs>",
            "<feed><t>a</t><t>b</t><t>c</t><t>d</t><t>e</t><t>f</t><t>g</t><error>in an article</error></feed>",
            "<html><title>Orders</title><h1>12 orders found</h1></html>",
            "no markup: <error>x</error>",
            &article,
        ] {
            assert_eq!(found(answer), None, "{answer}");
        }
    }
}
