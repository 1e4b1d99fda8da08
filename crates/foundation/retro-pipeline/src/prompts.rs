//! The checked texts of all prompts of a pipeline.

use std::collections::BTreeMap;

use retro_core::pipeline::PipelineName;

use crate::name::PromptName;
use crate::problem::PromptProblem;
use crate::template;

/// Texts of all prompts of a pipeline, each of which has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompts(BTreeMap<PromptName, String>);

impl Prompts {
    /// Returns the shipped prompts of a pipeline.
    pub fn shipped(pipeline: PipelineName) -> Self {
        Self::from_texts(pipeline, &BTreeMap::new()).expect("the shipped prompts are checked by a test")
    }

    /// Checks the texts of the prompts of a pipeline, by file name; a prompt without a text has the shipped one. Fails with all
    /// mistakes.
    pub fn from_texts(
        pipeline: PipelineName,
        texts: &BTreeMap<String, String>,
    ) -> Result<Self, Vec<PromptProblem>> {
        let (mut checked, mut problems) = (BTreeMap::new(), Vec::new());
        for prompt in PromptName::of_pipeline(pipeline).iter().copied() {
            let text = texts.get(prompt.file_name()).map_or(prompt.shipped_text(), String::as_str);
            match template::check_template(prompt, text) {
                Ok(()) => {
                    checked.insert(prompt, text.to_owned());
                }
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(Self(checked)) } else { Err(problems) }
    }

    /// Returns these prompts with some of them replaced, by file name; a name that no prompt of the pipeline has is left out.
    /// Fails with all mistakes in the replaced ones.
    pub fn with_texts(
        &self,
        pipeline: PipelineName,
        texts: &BTreeMap<String, String>,
    ) -> Result<Self, Vec<PromptProblem>> {
        let (mut replaced, mut problems) = (self.clone(), Vec::new());
        for (file, text) in texts {
            let Some(prompt) = PromptName::find_by_file(pipeline, file) else { continue };
            match template::check_template(prompt, text) {
                Ok(()) => _ = replaced.0.insert(prompt, text.clone()),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(replaced) } else { Err(problems) }
    }

    /// Returns the text of a prompt of the pipeline.
    pub fn text(&self, prompt: PromptName) -> &str {
        &self.0[&prompt]
    }

    /// Returns all texts, by file name.
    pub fn texts(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(prompt, text)| (prompt.file_name().to_owned(), text.clone())).collect()
    }

    /// Renders a prompt. A variable that `facts` lacks is empty. Fails if the result is too large or the template breaks on
    /// these facts.
    pub fn render(
        &self,
        prompt: PromptName,
        facts: &BTreeMap<&'static str, String>,
    ) -> Result<String, PromptProblem> {
        template::render_template(prompt, self.text(prompt), facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::PROMPT_BYTES_MAX;

    fn with_run(text: &str) -> Result<Prompts, Vec<PromptProblem>> {
        Prompts::from_texts(PipelineName::Retrospective, &[("run.md".to_owned(), text.to_owned())].into())
    }

    fn problem_of(text: &str) -> String {
        let problems = with_run(text).expect_err(text);
        assert_eq!(problems.len(), 1);
        problems[0].to_string()
    }

    fn facts() -> BTreeMap<&'static str, String> {
        [("facts", "<data facts 1>\nThe run.\n</data 1>".to_owned())].into()
    }

    #[test]
    fn the_shipped_prompts_are_valid_and_use_every_variable() {
        for pipeline in PipelineName::ALL.iter().copied() {
            let prompts = Prompts::shipped(pipeline);
            for prompt in PromptName::of_pipeline(pipeline) {
                assert_eq!(prompt.pipeline(), pipeline);
                for variable in prompt.variables() {
                    assert!(
                        prompts.text(*prompt).contains(&format!("{{{{ {} }}}}", variable.name)),
                        "{variable:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_mistake_has_its_file_its_line_and_what_to_do() {
        for (text, expected) in [
            ("a\n{{ fatcs }}", "run.md:2: unknown variable `fatcs`; did you mean `facts`?"),
            ("a\n\n{% if facts %}x", "run.md:3: "),
            ("{{ facts | upper }}", "run.md:1: "),
            ("{% include \"other.md\" %}", "run.md:1: "),
            ("", "run.md:1: the prompt is empty; delete the file to have the shipped one"),
            ("{% for i in [1, 2] %}{% for j in [1, 2] %}", "run.md:1: "),
            ("a\nb \u{E000}", "run.md:2: has the character U+E000, which is reserved"),
        ] {
            let found = problem_of(text);
            assert!(found.starts_with(expected), "{text:?}: {found}");
        }
        let long = problem_of(&"x".repeat(PROMPT_BYTES_MAX + 1));
        assert!(long.contains("32769 bytes; at most 32768 are allowed"), "{long}");
        let system = Prompts::from_texts(
            PipelineName::Retrospective,
            &[("system.md".to_owned(), "{{ facts }}".to_owned())].into(),
        )
        .unwrap_err();
        assert!(
            system[0]
                .to_string()
                .contains("the prompt is always the same and has no variables, those are for workflow.md"),
            "{system:?}"
        );
    }

    #[test]
    fn mistakes_in_branches_that_no_sample_takes_are_found_all_at_once_and_by_line() {
        let text = "{{ facts }}\n{% if question and not question %}\n{{ facts | upper }}\n{{ facts.turns }} {{ fact }}\n\
                    {% elif question is odd %}\n{{ range(3) }}\n{% for c in facts %}{{ c }}{% endfor %}\n{% endif %}\n\
                    {{ \"\" if facts else question[1:] }}\n";
        let problems = with_run(text).unwrap_err();
        let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let expected = [
            "run.md:3: unknown filter `upper`; prompts have no filters",
            "run.md:4: the prompt takes a variable apart",
            "run.md:4: unknown variable `fact`; did you mean `facts`?",
            "run.md:5: unknown test `odd`; write `{% if question %}`",
            "run.md:6: unknown function `range`; prompts have no functions",
            "run.md:7: the prompt takes a variable apart",
            "run.md:9: the prompt takes a variable apart",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
        // A name that a template sets itself is no variable of the prompt, and a loop over words of its own is allowed.
        let own = "{% set mine = \"x\" %}{% for word in [\"a\", \"b\"] %}{{ loop.index }} {{ word }}{{ mine }}{% endfor %}";
        assert!(with_run(own).is_ok(), "{:?}", with_run(own));
    }

    #[test]
    fn variables_and_conditions_are_filled_in() {
        let prompts = with_run(
            "Run:\n{{ facts }}\n{% if question %}Asked: {{ question }}{% else %}Nobody asks.{% endif %}",
        )
        .unwrap();
        let rendered = prompts.render(PromptName::Run, &facts()).unwrap();
        assert_eq!(rendered, "Run:\n<data facts 1>\nThe run.\n</data 1>\nNobody asks.");
        let asked = [("question", "Why?".to_owned())].into();
        assert_eq!(prompts.render(PromptName::Run, &asked).unwrap(), "Run:\n\nAsked: Why?");
    }

    #[test]
    fn a_template_cannot_cut_a_variable_or_read_it() {
        for text in [
            "{{ facts[16:] }}",
            "{{ (\"\" ~ facts)[1:] }}",
            "{{ (\"\" ~ facts)[:1] }}",
            "{% for c in facts %}{{ c }}{% endfor %}",
            "{% for c in \"\" ~ facts %}{{ c }} {% endfor %}",
            "{{ facts.turns }}",
        ] {
            assert!(with_run(text).is_err(), "{text}");
        }
        // Comparing sees the placeholder and never the text.
        let compared =
            with_run("{% if \"The run.\" in (\"\" ~ facts) %}secret{% else %}opaque{% endif %}").unwrap();
        assert_eq!(compared.render(PromptName::Run, &facts()).unwrap(), "opaque");
    }

    #[test]
    fn time_memory_and_result_are_bounded() {
        let doubled =
            "{% set x = \"0123456789abcdef\" %}".to_owned() + &"{% set x = x ~ x %}".repeat(60) + "{{ x }}";
        let endless = "{% for a in [1,2,3,4,5,6,7,8] %}".repeat(12) + "x" + &"{% endfor %}".repeat(12);
        let repeated = "{{ facts }}".repeat(2000);
        for text in [doubled, endless] {
            assert!(with_run(&text).is_err(), "{}", &text[..40]);
        }
        let prompts = with_run(&repeated).unwrap();
        let large = [("facts", "x".repeat(2000))].into();
        let problem = prompts.render(PromptName::Run, &large).unwrap_err();
        assert!(problem.to_string().contains("more than 524288 bytes"), "{problem}");
    }

    proptest::proptest! {
        #[test]
        fn no_template_makes_the_program_panic(text in ".{0,200}", inner in "[a-z0-9 ~+*%\\[\\]()\"|.:{}#-]{0,40}") {
            for text in [text.clone(), format!("{{{{{inner}}}}}"), format!("{{%{inner}%}}{text}")] {
                if let Ok(prompts) = with_run(&text) {
                    let _ = prompts.render(PromptName::Run, &facts());
                }
            }
        }
    }
}
