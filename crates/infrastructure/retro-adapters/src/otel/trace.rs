//! Builds the run of a trace.

use std::collections::HashMap;

use retro_core::dead_letter::Rejection;
use retro_core::id::Step;
use retro_core::run::RunOutcome;
use retro_core::trace_collection::SpanOutline;
use serde_json::Value;

use super::kind::{SpanKind, TOOL_NAME, classify};
use super::messages::{Direction, Part, read_parts, read_plain};
use super::span::{Span, first_text};
use super::timeline::{Timeline, ToolSpan};
use crate::conversation::{Conversation, ConversationFormat};
use crate::import::{ImportOptions, ImportedRun, TASK_BYTES_MAX, choose_workflow};

const FORMAT: ConversationFormat =
    ConversationFormat { source: "retro-emit/otel", workflow: "otel", id_path: "traceId" };
/// Maximum number of spans that are looked at around a span.
const DEPTH_MAX: usize = 100;
/// Attributes with the name of a step.
const STEP_NAMES: [&str; 7] = [
    "retro.step",
    "graph.node.id",
    "graph.node.name",
    "langgraph_node",
    "gen_ai.agent.name",
    "agent.name",
    "agent_name",
];
/// Number of bytes of a request that its task begins with, if the request is too long to be the task.
const TASK_PREFIX_BYTES: usize = 200;

/// The spans of one trace, in the order of their starts.
pub(crate) struct Trace {
    pub(crate) spans: Vec<Span>,
    kinds: Vec<SpanKind>,
    /// Place of the span that contains each.
    parents: Vec<Option<usize>>,
}

/// What a span adds to the conversation at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Start,
    End,
}

impl Trace {
    /// Creates the trace of spans with one trace id, of which there is at least one.
    pub(crate) fn new(mut spans: Vec<Span>) -> Self {
        spans.sort_by(|a, b| (&a.span_id, a.end).cmp(&(&b.span_id, b.end)));
        // Of two copies of a span, the one that ended last.
        spans.reverse();
        spans.dedup_by(|a, b| !a.span_id.is_empty() && a.span_id == b.span_id);
        spans.sort_by(|a, b| (a.start, b.end, &a.span_id).cmp(&(b.start, a.end, &b.span_id)));
        let places: HashMap<&str, usize> =
            spans.iter().enumerate().map(|(at, span)| (span.span_id.as_str(), at)).collect();
        let parent =
            |span: &Span| places.get(span.parent_id.as_str()).copied().filter(|_| !span.parent_id.is_empty());
        let parents = spans.iter().map(parent).collect();
        let kinds = spans.iter().map(classify).collect();
        Self { spans, kinds, parents }
    }

    /// Returns the span and those that contain it, from the inside out.
    fn chain(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        // Spans of a broken exporter may contain each other.
        let outer = std::iter::successors(self.parents[at], |outer| self.parents[*outer]);
        std::iter::once(at).chain(outer.take(DEPTH_MAX).take_while(move |outer| *outer != at))
    }

    /// Returns the outlines of the spans.
    pub(crate) fn outline_spans(&self) -> Vec<SpanOutline> {
        let outline = |(span, kind): (&Span, &SpanKind)| SpanOutline {
            span_id: span.span_id.clone(),
            parent_id: span.parent_id.clone(),
            has_ended: span.end > 0,
            has_remote_parent: span.has_remote_parent,
            is_call: *kind != SpanKind::Other,
        };
        self.spans.iter().zip(&self.kinds).map(outline).collect()
    }

    /// Returns the run of the trace; `None` if no model or tool was called in it, or nothing of it was captured.
    pub(crate) fn build_run(&self, options: &ImportOptions) -> Result<Option<ImportedRun>, Rejection> {
        let root = self.root();
        let Some(mut timeline) = self.build_timeline(root) else { return Ok(None) };
        let task = timeline.first_request.take();
        let mut conversation = timeline.conversation;
        self.set_facts(root, &mut conversation);
        conversation.task = self
            .find_text(root, &["retro.task"])
            .map(str::to_owned)
            .or_else(|| options.task.is_none().then(|| task.as_deref().and_then(name_task)).flatten());
        let workflow = choose_workflow(options, "gen_ai.agent.name", || self.workflow_name(root))?;
        let options = ImportOptions { workflow: Some(workflow), ..options.clone() };
        conversation.into_run(&FORMAT, &options).map(Some)
    }

    /// Returns the span that is the run: the only agent or workflow that no other contains, or else the first span that
    /// nothing contains.
    fn root(&self) -> usize {
        let is_agent = |at: usize| self.kinds[at] == SpanKind::Agent;
        let outermost = |at: &usize| is_agent(*at) && !self.chain(*at).skip(1).any(is_agent);
        let mut agents = (0..self.spans.len()).filter(outermost);
        match (agents.next(), agents.next()) {
            (Some(only), None) => only,
            _ => (0..self.spans.len()).find(|at| self.parents[*at].is_none()).unwrap_or_default(),
        }
    }

    /// Returns the first of these attributes of the run's span, or of its resource.
    fn find_text(&self, root: usize, keys: &[&str]) -> Option<&str> {
        let span = &self.spans[root];
        span.text(keys).or_else(|| first_text(&span.resource, keys))
    }

    fn workflow_name(&self, root: usize) -> String {
        let own = self.find_text(root, &["retro.workflow", "gen_ai.workflow.name", "gen_ai.agent.name"]);
        let entity = || {
            self.spans[root].text(&[
                "traceloop.workflow.name",
                "traceloop.entity.name",
                "agent.name",
                "agent_name",
            ])
        };
        let service =
            || self.find_text(root, &["service.name"]).filter(|name| !name.starts_with("unknown_service"));
        let name = own.or_else(entity).or_else(service).unwrap_or(FORMAT.workflow);
        name.to_owned()
    }

    fn set_facts(&self, root: usize, conversation: &mut Conversation) {
        let span = &self.spans[root];
        conversation.id = Some(span.trace_id.clone());
        conversation.agent_name =
            self.find_text(root, &["gen_ai.agent.name", "agent.name", "service.name"]).map(str::to_owned);
        conversation.version =
            self.find_text(root, &["gen_ai.agent.version", "service.version"]).map(str::to_owned);
        conversation.repo = self.find_text(root, &["vcs.repository.url.full"]).map(str::to_owned);
        conversation.commit = self.find_text(root, &["vcs.ref.head.revision"]).map(str::to_owned);
        conversation.outcome = self.outcome(root);
        let model = ["gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id"];
        conversation.model = self.spans.iter().rev().find_map(|span| span.text(&model)).map(str::to_owned);
        let started = self.spans.iter().filter_map(Span::started_at).min();
        let ended = self.spans.iter().filter_map(Span::ended_at).max();
        for time in [started, ended].into_iter().flatten() {
            conversation.note_time(Some(&time.to_string()));
        }
        conversation.usage.input_tokens = self.tokens(
            root,
            &[
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.prompt_tokens",
                "llm.token_count.prompt",
                "ai.usage.inputTokens",
            ],
        );
        conversation.usage.output_tokens = self.tokens(
            root,
            &[
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.completion_tokens",
                "llm.token_count.completion",
                "ai.usage.outputTokens",
            ],
        );
    }

    /// Returns the outcome that the run's span states: `retro.outcome`, or `cicd.pipeline.result` of the CI/CD
    /// conventions. A span whose status is an error ended with one, which is what those conventions call `error`: it says
    /// that the run could not be carried out, not that its work was judged. No other status says how a run went.
    fn outcome(&self, root: usize) -> Option<RunOutcome> {
        let said = self.find_text(root, &["retro.outcome", "cicd.pipeline.result"]);
        let said = said.and_then(|text| serde_json::from_value(Value::String(text.to_owned())).ok());
        said.or(self.spans[root].has_failed().then_some(RunOutcome::Error))
    }

    /// Returns the sum over the calls of models, of those that contain no other; or what the run's span says.
    fn tokens(&self, root: usize, keys: &[&str]) -> Option<u64> {
        let counts: Vec<Option<u64>> = self.spans.iter().map(|span| span.count(keys)).collect();
        let mut contains_count = vec![false; self.spans.len()];
        for at in (0..self.spans.len()).filter(|at| counts[*at].is_some()) {
            self.chain(at).skip(1).for_each(|outer| contains_count[outer] = true);
        }
        let innermost = (0..self.spans.len()).filter(|at| !contains_count[*at]);
        let sum = innermost.filter_map(|at| counts[at]).fold(0_u64, u64::saturating_add);
        counts[root].or(Some(sum).filter(|sum| *sum > 0))
    }

    fn build_timeline(&self, root: usize) -> Option<Timeline> {
        let mut timeline = Timeline::new(Conversation::new(&FORMAT));
        let contains_model = self.find_containing_models();
        let steps = self.find_steps(root);
        let tool_names: Vec<Option<&str>> = self.spans.iter().map(|span| span.text(&TOOL_NAME)).collect();
        let tools: HashMap<usize, ToolSpan> = (0..self.spans.len())
            .filter(|at| self.kinds[*at] == SpanKind::Tool && !self.repeats_tool(*at, &tool_names))
            .map(|at| (at, ToolSpan::from_span(&self.spans[at])))
            .collect();
        let mut calls: HashMap<usize, usize> = HashMap::new();
        for (at, moment) in self.list_moments() {
            let span = &self.spans[at];
            let time = if moment == Moment::Start { span.started_at() } else { span.ended_at() };
            let time = time.map(|time| time.to_string());
            timeline.conversation.step = steps[at].map(str::to_owned);
            match (self.kinds[at], moment) {
                (SpanKind::Tool, Moment::Start) => {
                    if let Some(tool) = tools.get(&at) {
                        calls.insert(at, timeline.start_tool(tool, time.as_deref()));
                    }
                }
                (SpanKind::Tool, Moment::End) => {
                    if let Some(tool) = tools.get(&at) {
                        timeline.finish_tool(calls[&at], tool, time.as_deref());
                    }
                }
                (SpanKind::Agent | SpanKind::Model, _) => {
                    let direction =
                        if moment == Moment::Start { Direction::Input } else { Direction::Output };
                    let parts = self.read_span(at, direction, contains_model[at]);
                    if direction == Direction::Output && !contains_model[at] {
                        timeline.add_reply(parts, time.as_deref());
                    } else {
                        timeline.add_missing(parts, time.as_deref());
                    }
                }
                (SpanKind::Other, _) => {}
            }
        }
        (!timeline.conversation.is_empty()).then_some(timeline)
    }

    /// Returns what a span of a model or agent says. Text without a role is left out if spans in it say the same better.
    fn read_span(&self, at: usize, direction: Direction, contains_model: bool) -> Vec<Part> {
        let span = &self.spans[at];
        let parts = read_parts(span, direction);
        if parts.is_empty() && !contains_model { read_plain(span, direction) } else { parts }
    }

    /// Returns, for each span, whether it contains one of a model.
    fn find_containing_models(&self) -> Vec<bool> {
        let mut contains = vec![false; self.spans.len()];
        for at in (0..self.spans.len()).filter(|at| self.kinds[*at] == SpanKind::Model) {
            self.chain(at).skip(1).for_each(|outer| contains[outer] = true);
        }
        contains
    }

    /// Returns `true` if the span is inside another of the same tool, as the request to a server that has it.
    fn repeats_tool(&self, at: usize, names: &[Option<&str>]) -> bool {
        let is_same = |outer: usize| self.kinds[outer] == SpanKind::Tool && names[outer] == names[at];
        names[at].is_some() && self.chain(at).skip(1).any(is_same)
    }

    /// Returns the starts and ends of all spans in order. Of those at one time, ends are first, except of spans that
    /// started then; what remains equal is in the order of the spans.
    fn list_moments(&self) -> Vec<(usize, Moment)> {
        let mut moments: Vec<(i128, u8, usize, Moment)> = Vec::new();
        for (at, span) in self.spans.iter().enumerate() {
            // A span without an end is there, though it says nothing of when.
            let end = span.end.max(span.start);
            moments.push((span.start, 1, at, Moment::Start));
            moments.push((end, if end > span.start { 0 } else { 2 }, at, Moment::End));
        }
        moments.sort_by_key(|(time, rank, at, _)| (*time, *rank, *at));
        moments.into_iter().map(|(_, _, at, moment)| (at, moment)).collect()
    }

    /// Returns the step of each span: the nearest name of a step (`retro.step`), a node of a graph, or an agent, that the
    /// span or one that contains it has, below the run's span. The run's span may have a `retro.step` too. `None` is
    /// `main`.
    fn find_steps(&self, root: usize) -> Vec<Option<&str>> {
        let names: Vec<Option<&str>> = (0..self.spans.len()).map(|at| self.own_step(root, at)).collect();
        let run = self.spans[root].text(&["gen_ai.agent.name", "agent.name", "agent_name"]);
        let step = |at: usize| self.chain(at).find_map(|outer| names[outer]);
        let is_step = |name: &&str| Some(*name) != run && Step::new(*name).is_ok();
        (0..self.spans.len()).map(|at| step(at).filter(is_step)).collect()
    }

    fn own_step(&self, root: usize, at: usize) -> Option<&str> {
        let span = &self.spans[at];
        if at == root {
            return span.text(&["retro.step"]);
        }
        let entity = || {
            let kind = span.text(&["traceloop.span.kind"]);
            matches!(kind, Some("agent" | "task")).then(|| span.text(&["traceloop.entity.name"])).flatten()
        };
        span.text(&STEP_NAMES).or_else(entity)
    }
}

/// Returns the name of the task of a request: its text on one line, or, if that is too long, its beginning with a hash.
fn name_task(request: &str) -> Option<String> {
    let words: Vec<&str> = request.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|character| !character.is_control()).collect();
    if line.len() <= TASK_BYTES_MAX {
        return Some(line).filter(|line| !line.is_empty());
    }
    let hash = retro_core::canonical::content_hash(&Value::String(line.clone()));
    let end = line.floor_char_boundary(TASK_PREFIX_BYTES);
    Some(format!("{}… {}", &line[..end], &hash[..16]))
}
