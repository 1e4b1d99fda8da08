//! Finds mistakes in a template without rendering it, in whichever branch they stand.
//!
//! A template is compiled into a list of instructions, in which the branches that a rendering skips stand like all others. What
//! can only be seen while rendering, such as a variable that is taken apart on a detour, is left to samples.

use std::collections::HashSet;

use minijinja::Template;
use minijinja::machinery::{Instruction, get_compiled_template};

use crate::name::PromptName;

/// Finds the mistakes of a template, each with its 1-based line, in the order of the template.
pub(crate) fn find_mistakes(
    prompt: PromptName,
    template: &Template<'_, '_>,
    describe_unknown: impl Fn(&str) -> String,
) -> Vec<(usize, String)> {
    let is_variable = |name: &str| prompt.variables().iter().any(|one| one.name == name);
    let undeclared: HashSet<String> = template.undeclared_variables(false);
    let instructions = &get_compiled_template(template).instructions;
    let (mut found, mut before): (Vec<(usize, String)>, Option<&Instruction<'_>>) = (Vec::new(), None);
    for at in 0.. {
        let Some(instruction) = instructions.get(at) else { break };
        // The variable that the instruction works on, if the one before has loaded one.
        let loaded = match before {
            Some(Instruction::Lookup(name)) => Some(*name),
            _ => None,
        };
        let mistake = match instruction {
            Instruction::Lookup(name) if !is_variable(name) && undeclared.contains(*name) => {
                Some(describe_unknown(name))
            }
            Instruction::ApplyFilter(name, ..) => {
                Some(format!("unknown filter `{name}`; prompts have no filters"))
            }
            Instruction::PerformTest(name, ..) => {
                Some(format!("unknown test `{name}`; write `{{% if {} %}}`", loaded.unwrap_or("facts")))
            }
            Instruction::CallFunction(name, _) | Instruction::CallMethod(name, _) => {
                Some(format!("unknown function `{name}`; prompts have no functions"))
            }
            Instruction::CallObject(_) => Some("calls a value; prompts have no functions".to_owned()),
            Instruction::GetAttr(_) if loaded == Some("loop") => None,
            Instruction::GetAttr(_) | Instruction::GetItem | Instruction::Slice => {
                Some(TAKES_APART.to_owned())
            }
            Instruction::PushLoop(_) if loaded.is_some_and(is_variable) => Some(TAKES_APART.to_owned()),
            _ => None,
        };
        found.extend(mistake.map(|mistake| (instructions.get_line(at).unwrap_or(1), mistake)));
        before = Some(instruction);
    }
    found.sort();
    found.dedup();
    found
}

/// What is wrong with a variable that is not placed whole.
pub(crate) const TAKES_APART: &str = "the prompt takes a variable apart; write it whole, as in `{{ facts }}`";
