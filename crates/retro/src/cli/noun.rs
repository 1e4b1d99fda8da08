//! The form that every noun of the command line has: its subcommands, and a list if none is given.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Subcommand};

/// A noun: without a subcommand it lists, with the filters of its list.
#[derive(Debug, Args)]
pub(crate) struct Noun<S: Subcommand, L: Args> {
    #[command(subcommand)]
    pub(crate) command: Option<S>,
    #[command(flatten)]
    pub(crate) list: L,
}

/// Fails if an option of a noun's own list stands before a subcommand, where it would be ignored.
///
/// `args_conflicts_with_subcommands` of clap would also refuse the global options there.
pub(crate) fn refuse_misplaced_options(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, within)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { return Ok(()) };
        (command, matches) = (found, within);
        let Some(next) = matches.subcommand_name() else { return Ok(()) };
        let misplaced =
            command.get_arguments().filter(|argument| !argument.is_global_set()).find(|argument| {
                matches.try_contains_id(argument.get_id().as_str()).unwrap_or(false)
                    && matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
            });
        if let Some(option) = misplaced {
            let flag = option.get_long().unwrap_or_else(|| option.get_id().as_str());
            let message = format!(
                "the option '--{flag}' belongs after '{next}': as it stands, it is of the list alone\n"
            );
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message).with_cmd(command));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn parse(line: &str) -> Result<(), clap::Error> {
        let matches = Cli::command().try_get_matches_from(line.split(' '))?;
        let mut command = Cli::command();
        command.build();
        refuse_misplaced_options(&command, &matches)
    }

    #[test]
    fn a_bare_noun_has_the_filters_of_its_list() {
        for line in [
            "retro memories --workflow w --held",
            "retro memories list --workflow w --held",
            "retro memories -o json list",
            "retro memories --tenant t show 8aad0cee",
            "retro runs --user anna --agent coder --since 2h",
            "retro reports --workflow w",
            "retro dead-letters --code not_json",
            "retro losses --all",
            "retro outcomes --workflow w",
            "retro proposals --status open",
            "retro rules --repo acme/shop",
            "retro retrospectives --limit 3",
            "retro workflows",
        ] {
            assert!(parse(line).is_ok(), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn a_filter_before_a_subcommand_is_refused() {
        for line in
            ["retro memories --workflow w list", "retro losses --all close RETRO_INTAKE/1/2 --reason r"]
        {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains("belongs after"), "{error}");
        }
    }
}
