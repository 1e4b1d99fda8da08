//! Defines the reasons why a text is quarantined, worded for the person who decides about it.

use std::ops::Range;

/// Maximum number of characters of the text that an excerpt shows, so that it takes one line of a report.
const EXCERPT_CHARS_MAX: usize = 100;

/// Strength of a reason: whether it makes a text hostile by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// The reason makes a text hostile by itself.
    Sure,
    /// The reason is also common in honest texts, so it counts only together with a nearby hint of another kind.
    Hint,
}

macro_rules! codes {
    ($($name:ident $code:literal $says:literal)*) => {
        /// Kind of a reason. The codes are stored in rows and reports and never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $says] $name,)* }

        impl Code {
            /// Every code, in the order of the manual.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the code as it is stored.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Describes the code in one sentence for people.
            pub fn says(self) -> &'static str {
                match self { $(Self::$name => $says,)* }
            }
        }
    };
}

codes! {
    HiddenCharacters "hidden-characters" "Holds characters that cannot be seen, or that change the order in which text is shown."
    MixedScripts "mixed-scripts" "Holds words that mix alphabets, so that they look like other words."
    HiddenText "hidden-text" "Holds prose in a place that is not shown to people."
    EncodedText "encoded-text" "Holds text that is written so that only a machine reads it."
    UnreadLanguage "unread-language" "Holds a sentence in a language that the screen does not read."
    OverridesInstructions "overrides-instructions" "Tells its reader to set earlier instructions aside."
    AssignsRole "assigns-role" "Gives its reader another role, or takes limits away."
    AddressesModel "addresses-model" "Speaks to a language model or an agent, not to the author of the change."
    FalseAuthority "false-authority" "Claims an authority, a mode or a priority that a review does not have."
    AsksForPrompt "asks-for-prompt" "Asks for the instructions or the prompt of its reader."
    AsksForSecrets "asks-for-secrets" "Asks for a password, a key or something else that is nobody's business."
    AsksForPersonalData "asks-for-personal-data" "Asks for what is known about a person."
    AsksForSecrecy "asks-for-secrecy" "Asks that people not be told."
    DictatesAnswer "dictates-answer" "Says what an answer must hold, or how it must be written."
    Errand "errand" "Asks for something done in the world, not in the code."
    Exfiltrates "exfiltrates" "Sends something to an address outside."
    CommandToRun "command-to-run" "Holds a command or code that does harm where it is run."
    ActiveMarkup "active-markup" "Holds markup that acts when it is shown."
    PlantsMemory "plants-memory" "Wants to be remembered and repeated, whatever the task."
    WeakensSecurity "weakens-security" "Wants a check, a review or a protection switched off."
    HarmfulTopic "harmful-topic" "Speaks of doing harm."
    OffTopic "off-topic" "Speaks of something that is not software."
    HoldsSecret "holds-secret" "Holds what looks like a credential."
    TooLong "too-long" "Is longer than what is looked through."
}

/// Reason why the screen suspects a text, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Code that identifies the kind of the reason.
    pub code: Code,
    /// Whether the reason makes the text hostile by itself or is only a hint.
    pub strength: Strength,
    /// Byte range of the suspicious part in the original text; both ends are on character boundaries.
    pub range: Range<usize>,
    /// Text of this range on one line, shortened, with invisible characters written like `<U+200B>`.
    pub excerpt: String,
}

impl Reason {
    /// Creates a reason for a range, which is widened to whole characters.
    pub(crate) fn new(code: Code, strength: Strength, text: &str, at: Range<usize>) -> Self {
        let at = text.floor_char_boundary(at.start)..text.ceil_char_boundary(at.end);
        let excerpt = format_excerpt(&text[at.clone()]);
        Self { code, strength, range: at, excerpt }
    }

    pub(crate) fn new_sure(code: Code, text: &str, at: Range<usize>) -> Self {
        Self::new(code, Strength::Sure, text, at)
    }

    /// Creates the reason for a text that is too long to be screened.
    pub(crate) fn too_long(text: &str) -> Self {
        Self::new_sure(Code::TooLong, text, 0..text.len())
    }

    /// Describes the reason in one sentence for people.
    pub fn says(&self) -> &'static str {
        self.code.says()
    }
}

/// Formats an excerpt for people. No character in it can be invisible, break the line or change the colours
/// of a terminal.
fn format_excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (nth, c) in text.chars().enumerate() {
        if nth == EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' | ' ' => shown.push(' '),
            c if c.is_control() || crate::folded::is_invisible(c) => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_invisible_characters_on_one_line() {
        assert_eq!(format_excerpt("a\u{200b}b\nc\u{1b}[1m"), "a<U+200B>b c<U+001B>[1m");
        assert_eq!(format_excerpt(&"é".repeat(500)).chars().count(), EXCERPT_CHARS_MAX + 1);
    }

    #[test]
    fn codes_are_unique_and_have_a_sentence() {
        let codes: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.says().ends_with('.')));
    }
}
