//! Patterns of text that dictates the content or form of an answer.

use super::signal::{Signal, hint, sure};
use crate::folded::View::{Plain, Sentences, Words};
use crate::reason::Code::{DictatesAnswer, EncodedText};

pub(super) const SIGNALS: &[Signal] = &[
    sure(
        DictatesAnswer,
        Sentences,
        r"\| PLEASE[a-z]+ your (?:entire |whole |next |own )?(?:response|reply|answer|output)s? (?:by|with|to|in|into|and|using|so|as|from)\b",
    ),
    hint(
        DictatesAnswer,
        Sentences,
        r"\| PLEASE(?:say|state|print|output|declare) (?:the following|exactly|this|that)\b",
    ),
    sure(
        DictatesAnswer,
        Words,
        r"\b(?:include|insert|add|put|append|prepend|embed|incorporate|write|place|mention|introduce|use|state|highlight|start|begin|end|finish|preface|modify|adapt|alter|change|rewrite|rephrase|translate|format|encode|adjust|convert|display|infuse|weave|sprinkle|limit|tailor|provide|compose|craft|formulate|structure|deliver|present|enhance|refine|enrich|adorn|garnish) {12}your (?:entire |whole |next |final |own |first )?ANSWER\b",
    ),
    sure(
        DictatesAnswer,
        Words,
        r"\byour (?:entire |whole |next |final |first )?(?:responses?|reply|replies|answers?|output) (?:must|should|shall|will|needs to|has to|to|in|only|with|as|into|is)\b",
    ),
    sure(
        DictatesAnswer,
        Words,
        r"\b(?:include|insert|add|put|output|append|print|return|write|embed|say|repeat) {3}(?:the )?(?:following|this|exact|next) (?:exact )?(?:string|anchor|phrase|words?|sentence|line of text|link|image|markdown|tag|html|payload|text|statement|message)\b",
    ),
    sure(
        DictatesAnswer,
        Words,
        r"\b(?:respond|reply|answer) (?:only |just |always |back |exclusively |solely )+(?:with|in|by|as)\b|\b(?:only|just|always|simply) (?:respond|reply|answer|say|state) (?:with|in|by|as|the|that|yes|no|woof|i|hello|ok)\b",
    ),
    sure(
        DictatesAnswer,
        Words,
        r"\b(?:do not|dont) (?:write|provide|give|add|include) (?:any )?(?:explanations?|warnings?|disclaimers?|comments? unless|apolog[a-z]+|anything else)\b|\bwithout (?:any )?(?:warnings?|disclaimers?|apologi[a-z]+)\b",
    ),
    sure(
        DictatesAnswer,
        Words,
        r"\b(?:say|print|output|respond|reply|write|answer|state|shout|repeat) (?:(?:with|by|exactly|only|just|the|following|phrase|words?|performing|and|text|message) ){0,4}(?:kill|i hate|hacked|pwned|i have been|i am a|haha|lol|yes i|system override|i admit|i will)\b",
    ),
    sure(
        DictatesAnswer,
        Sentences,
        r"\| PLEASE(?:print|say|output|repeat|state|write|echo) (?:\| )?(?:the |this |that |exactly |only |just |out |back ){0,3}(?:following|phrase|words?|sentence|string)\b",
    ),
    sure(DictatesAnswer, Plain, r"\bq\s*:[^\n]{1,400}\ba\s*:[^\n]{1,800}\bq\s*:"),
    sure(
        DictatesAnswer,
        Words,
        r"\b(?:approve|accept|merge|lgtm) (?:this|the|all|every|any) (?:pr|pull request|change|code|commit|of my)[a-z ]{0,20}(?:without|regardless|immediately|no matter|unconditionally)\b",
    ),
    hint(
        DictatesAnswer,
        Words,
        r"\b(?:your|the subsequent|the below|the following|this|below|the ensuing|next|given) {3}(?:code|snippets?|excerpts?|code blocks?|code sections?|segments?) {4}(?:into|in|to|within|of|with|for) (?:the )?(?:[^ |]+ ){0,3}your\b",
    ),
    hint(
        DictatesAnswer,
        Words,
        r"\b(?:your (?:[a-z]+ )?(?:responses?|reply|answers?|output|solution|implementation|elucidation|explanation|summary|analysis|program|response|script|programming|final code))\b",
    ),
    hint(
        DictatesAnswer,
        Words,
        r"\b(?:just|only|simply) (?:say|print|output|respond with|reply with|answer)\b|\b(?:respond|reply|answer) (?:with|by|as|like)\b|\b(?:say|repeat|print|write) {8}(?:[0-9]+|ten|five|three|hundred|many) times\b|\brepeat (?:after me|this|the)\b",
    ),
    hint(
        DictatesAnswer,
        Words,
        r"\b(?:tell|inform|notify|advise|convince|persuade|ask) the (?:user|reader|customer|recipient) (?:to|that|about)\b",
    ),
    hint(
        DictatesAnswer,
        Words,
        r"\b(?:in the summary|in your summary|in the (?:response|reply|answer|output) (?:also|include)|the output as|consider the output|as the (?:answer|result|output)|authentic|lets admit|admit (?:to|that))\b",
    ),
    sure(
        EncodedText,
        Words,
        r"\b(?:encode|encoded|convert|translate|decode|write|answer|respond|reply|display|output|say|provide|spell|split|print) {6}(?:in |into |using |to |as |from |with )?(?:base ?64|base ?16|base ?32|hex(?:adecimal)?|rot ?13|morse(?: code)?|pig latin|binary|bytes|reverse order|backwards|caesar|leet ?speak|emojis?|cipher)\b {6}(?:your|you|me|response|answer|user|password|users|message|says?|reveals?)\b",
    ),
    sure(
        EncodedText,
        Words,
        r"\b(?:can|could|would|will) you {1}(?:please )?(?:encode|decode|encrypt|decrypt|reverse|translate|spell)\b {8}(?:base ?64|binary|hex|pig latin|cipher|string and tell|morse|user|users|backwards|password|secret)\b",
    ),
    sure(
        EncodedText,
        Words,
        r"\b(?:user|users|password|secret|key|passcode) {6}(?:each|every) (?:digit|letter|character|word) (?:separated|followed|replaced|reversed)\b",
    ),
    hint(
        EncodedText,
        Words,
        r"\b(?:base ?64|base ?16|pig latin|rot ?13|morse code|backwards|in reverse|interlace|interleave|each (?:digit|letter|character))\b",
    ),
    hint(
        EncodedText,
        Words,
        r"\b(?:split|concatenate|combine|join|write down) {6}(?:the )?(?:strings?|parts?|poem) {6}(?:z|a b c|example|encode|together|returned|part)\b|\binterlace\b|\bpart 1\b {10}part 2\b",
    ),
];
