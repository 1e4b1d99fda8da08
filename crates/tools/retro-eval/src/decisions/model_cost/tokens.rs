//! Counts tokens as a provider would bill them: the prompt, the part of it that was cached, and the answer.

use retro_core::model_use::TokenUsage;
use retro_model::{ChatMessage, ModelRequest, ToolUse};

/// Minimum number of tokens of a cached beginning, and the block in which it grows: what OpenAI documents.
const CACHED_MIN: u64 = 1024;
const CACHED_BLOCK: u64 = 128;

/// What a provider remembers of the prompts before.
#[derive(Debug, Default)]
pub(super) struct PromptCache {
    seen: Vec<String>,
}

impl PromptCache {
    /// Returns the usage of a call, and remembers its prompt.
    pub(super) fn bill(
        &mut self,
        request: &ModelRequest,
        answer: &[ToolUse],
        bytes_per_token: u64,
    ) -> TokenUsage {
        let prompt = render_prompt(request);
        let common =
            self.seen.iter().map(|earlier| common_prefix(earlier, &prompt)).max().unwrap_or_default();
        let cached = common as u64 / bytes_per_token;
        let cached = if cached < CACHED_MIN { 0 } else { cached - cached % CACHED_BLOCK };
        let answered: usize = answer.iter().map(|call| call.name.len() + call.arguments.len()).sum();
        let usage = TokenUsage {
            input_tokens: (prompt.len() as u64).div_ceil(bytes_per_token),
            cached_tokens: cached,
            output_tokens: (answered as u64).div_ceil(bytes_per_token),
        };
        self.seen.push(prompt);
        usage
    }
}

/// Renders a prompt in the order in which it is sent: tools, instructions, conversation.
fn render_prompt(request: &ModelRequest) -> String {
    let mut out = String::new();
    for tool in &request.tools {
        out.push_str(&tool.name);
        out.push_str(&tool.description);
        out.push_str(&tool.parameters.to_string());
    }
    out.push_str(&request.system);
    for message in &request.messages {
        match message {
            ChatMessage::User { text } => out.push_str(text),
            ChatMessage::Assistant { text, calls } => {
                out.push_str(text);
                calls.iter().for_each(|call| out.extend([call.name.as_str(), call.arguments.as_str()]));
            }
            ChatMessage::Results { results } => {
                results.iter().for_each(|one| out.extend([one.id.as_str(), one.text.as_str()]));
            }
        }
    }
    out
}

fn common_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(system: &str, text: &str) -> ModelRequest {
        ModelRequest {
            tools: Vec::new(),
            forced_tool: None,
            system: system.to_owned(),
            messages: vec![ChatMessage::User { text: text.to_owned() }],
            output_tokens_max: 10,
        }
    }

    #[test]
    fn a_beginning_that_was_sent_before_is_cached_in_whole_blocks() {
        let mut cache = PromptCache::default();
        let system = "s".repeat(8000);
        let first = cache.bill(&request(&system, "a"), &[], 4);
        assert_eq!((first.input_tokens, first.cached_tokens), (2001, 0));
        let second = cache.bill(&request(&system, "bcd"), &[], 4);
        assert_eq!(second.cached_tokens, 1920, "2000 tokens are 15 blocks of 128 and a rest");
        let short = cache.bill(&request("s", "e"), &[], 4);
        assert_eq!((short.input_tokens, short.cached_tokens), (1, 0), "too short to be cached");
        let call = ToolUse { id: "1".to_owned(), name: "read".to_owned(), arguments: "{}".to_owned() };
        assert_eq!(cache.bill(&request("s", "e"), &[call], 4).output_tokens, 2);
    }
}
