//! Confirms changes of options that a model states about commands, such as `-y` of `ffmpeg`: a command is one string, so its
//! options are no parameters of the tool.

use retro_core::finding::SavedChange;

use super::call::Call;
use super::stated::StatedFinding;

/// A later call of the run that changed an option as stated, and did not fail.
pub(super) struct OptionChange<'c, 'a> {
    /// Program whose option it is.
    pub(super) program: String,
    pub(super) worked: &'c Call<'a>,
}

/// Finds the call that changed the option. Returns `None` if the fields are not about an option of a command. Fails with the
/// reason if no later call of the run did so without a failure, in words that the model may be told.
pub(super) fn find_option_change<'c, 'a>(
    calls: &'c [Call<'a>],
    failing: &Call<'a>,
    stated: &StatedFinding,
    change: SavedChange,
) -> Result<Option<OptionChange<'c, 'a>>, String> {
    let is_about_argument =
        matches!(change, SavedChange::SetArgument | SavedChange::AddArgument | SavedChange::DropArgument);
    let option = stated.argument.as_deref().filter(|argument| is_about_argument && argument.starts_with('-'));
    let (Some(option), Some(command)) = (option, failing.arguments.as_command()) else { return Ok(None) };
    let place = |one: &Call<'_>| (one.turn, one.call_index);
    let later = || {
        calls
            .iter()
            .filter(|one| one.tool == failing.tool && place(one) > place(failing) && one.failure().is_none())
    };
    for program in command.programs() {
        let before = find_option(failing, program, option);
        let is_stated = |after: Option<Option<String>>| match (change, &before, after) {
            (SavedChange::SetArgument, Some(Some(bad)), Some(Some(good))) => {
                stated.bad.as_ref().is_none_or(|stated| stated == bad)
                    && Some(&good) == stated.good.as_ref()
                    && good != *bad
            }
            (SavedChange::AddArgument, None, Some(value)) => stated.good.is_none() || value == stated.good,
            (SavedChange::DropArgument, Some(_), None) => true,
            _ => false,
        };
        let found = later().find(|one| {
            let runs_it = one
                .arguments
                .as_command()
                .is_some_and(|command| command.programs().any(|other| other == program));
            runs_it && is_stated(find_option(one, program, option))
        });
        if let Some(worked) = found {
            return Ok(Some(OptionChange { program: program.to_owned(), worked }));
        }
    }
    Err(format!(
        "no later call of {} with the same program changed `{option}` so without a failure; leave `change` out",
        failing.tool
    ))
}

/// Returns the value of an option of a program in a command, which is `None` if the option has none. Returns `None` if the
/// program is called without the option.
fn find_option(call: &Call<'_>, program: &str, option: &str) -> Option<Option<String>> {
    let words = call.arguments.as_command()?.words_after(program);
    words.iter().enumerate().find_map(|(at, word)| {
        if let Some(value) = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
            return Some(Some(value.to_owned()));
        }
        let next = words.get(at + 1).filter(|next| !next.starts_with('-'));
        (word == option).then(|| next.cloned())
    })
}
