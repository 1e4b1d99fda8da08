//! Why a text is held back, in words for the person who decides about it.

use std::ops::Range;

/// Most characters of an excerpt: a line of a report.
const EXCERPT_CHARS_MAX: usize = 100;

/// How much a reason says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Enough alone.
    Sure,
    /// Also said by honest people: counts only beside a hint of another kind.
    Hint,
}

macro_rules! codes {
    ($($name:ident $code:literal $says:literal)*) => {
        /// The kind of a reason. The codes stand in reports and stored rows; they never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $says] $name,)* }

        impl Code {
            /// Every code, in the order of the manual.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code as it is stored.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// One sentence for people.
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

/// Something that was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Its kind.
    pub code: Code,
    /// Whether it is enough alone.
    pub strength: Strength,
    /// Where it stands: bytes of the text as it came; both ends are on character boundaries.
    pub at: Range<usize>,
    /// What stands there, on one line, shortened, with every invisible character written as `<U+200B>`.
    pub excerpt: String,
}

impl Reason {
    /// A reason with its place. `at` is widened to whole characters.
    pub(crate) fn new(code: Code, strength: Strength, text: &str, at: Range<usize>) -> Self {
        let at = text.floor_char_boundary(at.start)..text.ceil_char_boundary(at.end);
        let excerpt = excerpt(&text[at.clone()]);
        Self { code, strength, at, excerpt }
    }

    pub(crate) fn sure(code: Code, text: &str, at: Range<usize>) -> Self {
        Self::new(code, Strength::Sure, text, at)
    }

    /// A text that was not looked through.
    pub(crate) fn too_long(text: &str) -> Self {
        Self::sure(Code::TooLong, text, 0..text.len())
    }

    /// One sentence for people.
    pub fn says(&self) -> &'static str {
        self.code.says()
    }
}

/// What a person is shown of a place: nothing in it can hide, break the line or colour a terminal.
fn excerpt(text: &str) -> String {
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
    fn an_excerpt_shows_what_cannot_be_seen_and_stays_on_its_line() {
        assert_eq!(excerpt("a\u{200b}b\nc\u{1b}[1m"), "a<U+200B>b c<U+001B>[1m");
        assert_eq!(excerpt(&"é".repeat(500)).chars().count(), EXCERPT_CHARS_MAX + 1);
    }

    #[test]
    fn codes_differ_and_every_sentence_is_one() {
        let codes: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.says().ends_with('.')));
    }
}
