//! Renders Markdown and plain text as pages for a browser. A page loads nothing and runs nothing, whatever stands in it.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use sha2::{Digest as _, Sha256};

use crate::text;

/// Style of every page. Wide tables and quotes scroll in themselves, so that the text beside them keeps its width.
const STYLE: &str = include_str!("html/page.css");
/// Title of a page that has no heading.
const TITLE: &str = "Retrospect";

/// Value of the header `Content-Security-Policy` of every page: only the page's own style is used, and no other site shows
/// the page in a frame of its own.
pub(crate) static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Renders Markdown as a page, whose title is the first heading. HTML in it is shown as text, and links lead nowhere else:
/// what strangers wrote may have got past the escaping.
pub(crate) fn render_markdown_page(markdown: &str) -> String {
    let events: Vec<Event<'_>> =
        Parser::new_ext(markdown, Options::ENABLE_TABLES).map(make_harmless).collect();
    let mut body = String::with_capacity(markdown.len() * 2);
    html::push_html(&mut body, events.iter().cloned());
    // So that a wide table scrolls, and not the page.
    let body = body.replace("<table>", "<div class=\"wide\"><table>").replace("</table>", "</table></div>");
    render_page(&find_title(&events), &body)
}

/// Renders plain text, as it is shown on a terminal, as a page with a title.
pub(crate) fn render_text_page(title: &str, shown: &str) -> String {
    let shown = text::printable(shown.trim_end());
    let events = [
        Event::Start(Tag::Heading {
            level: HeadingLevel::H1,
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::Text(title.into()),
        Event::End(TagEnd::Heading(HeadingLevel::H1)),
        Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)),
        Event::Text(shown.into()),
        Event::End(TagEnd::CodeBlock),
    ];
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    render_page(title, &body)
}

fn render_page(title: &str, body: &str) -> String {
    let mut escaped = String::new();
    html::push_html(&mut escaped, std::iter::once(Event::Text(title.into())));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{escaped}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Turns HTML into the text that spells it, and drops what a browser would follow or load.
fn make_harmless(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::Link { .. } | Tag::Image { .. }) => Event::Start(Tag::Emphasis),
        Event::End(TagEnd::Link | TagEnd::Image) => Event::End(TagEnd::Emphasis),
        other => other,
    }
}

fn find_title(events: &[Event<'_>]) -> String {
    let is_start =
        |event: &Event<'_>| matches!(event, Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }));
    let heading = events.iter().skip_while(|event| !is_start(event)).skip(1);
    let title: String = heading
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))))
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect();
    if title.is_empty() { TITLE.to_owned() } else { title }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_tables_and_takes_its_title_from_the_heading() {
        let page = render_markdown_page("# Report of `shop` & co\n\n| a | b |\n|---|---|\n| 1 | 2 \\| 3 |\n");
        assert!(page.contains("<title>Report of shop &amp; co</title>"), "{page}");
        assert!(page.contains("<div class=\"wide\"><table>") && page.contains("<td>2 | 3</td>"), "{page}");
        assert!(render_markdown_page("no heading").contains("<title>Retrospect</title>"));
    }

    #[test]
    fn nothing_in_a_page_is_run_loaded_or_followed() {
        let hostile = "# <script>alert(1)</script>\n\n<img src=x onerror=alert(1)> [a](javascript:alert(1)) \
                       ![b](https://evil.example/x.png) <https://evil.example> <b>bold</b>\n\n<iframe src=x></iframe>\n\n\
                       ```\n</code></pre><script>alert(2)</script>\n```\n";
        for page in [render_markdown_page(hostile), render_text_page("</title><script>", hostile)] {
            for part in ["<script", "<img", "<iframe", "<a ", "href", "<b>"] {
                assert!(!page.contains(part), "{part}: {page}");
            }
            assert!(page.contains("&lt;script&gt;"), "positive control: {page}");
        }
    }

    #[test]
    fn the_policy_allows_the_style_of_the_page_and_nothing_else() {
        assert!(CONTENT_SECURITY_POLICY.starts_with("default-src 'none'; style-src 'sha256-"));
        assert!(render_text_page("a", "b").contains(&format!("<style>{STYLE}</style>")));
    }
}
