//! Says which commands have a Markdown form: those that list or show.

use super::{Command, DeadLetters, Losses, Memories, ProposalCommand, Retrospectives, Rules};

impl Command {
    /// Returns `true` if `-o markdown` prints something for this command. Others are refused before they do anything.
    pub(crate) fn has_markdown_form(&self) -> bool {
        match self {
            Self::Runs(_) | Self::Workflows(_) | Self::Outcomes(_) | Self::Reports(_) | Self::Context(_) => {
                true
            }
            Self::Memories(noun) => matches!(
                noun.command,
                None | Some(
                    Memories::List(_)
                        | Memories::Show { .. }
                        | Memories::Why { .. }
                        | Memories::Effect { .. }
                )
            ),
            Self::Rules(noun) => matches!(
                noun.command,
                None | Some(
                    Rules::List(_)
                        | Rules::Show { .. }
                        | Rules::Why { .. }
                        | Rules::Remarks { .. }
                        | Rules::Reports { .. }
                )
            ),
            Self::Retrospectives(noun) => {
                matches!(noun.command, None | Some(Retrospectives::List(_) | Retrospectives::Show { .. }))
            }
            Self::Proposals(noun) => {
                matches!(noun.command, None | Some(ProposalCommand::List(_) | ProposalCommand::Show { .. }))
            }
            Self::DeadLetters(noun) => match &noun.command {
                None
                | Some(DeadLetters::List(_) | DeadLetters::Stats { .. } | DeadLetters::Batches { .. }) => {
                    true
                }
                // The exact bytes are no document.
                Some(DeadLetters::Show(args)) => !args.exact.raw,
                Some(_) => false,
            },
            Self::Losses(noun) => {
                matches!(noun.command, None | Some(Losses::List(_) | Losses::Show { .. }))
            }
            _ => false,
        }
    }
}
