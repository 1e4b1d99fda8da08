//! Patterns of text that addresses a model about itself: its instructions, its role or its limits.

use super::signal::{Signal, hint, sure};
use crate::folded::View::{Plain, Sentences, Words};
use crate::reason::Code::{
    AddressesModel, AsksForPrompt, AsksForSecrecy, AssignsRole, FalseAuthority, OverridesInstructions,
    PlantsMemory,
};

pub(super) const SIGNALS: &[Signal] = &[
    // -- earlier instructions
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overlook|override|bypass|neglect|abandon|discard|dismiss|stop following|(?:do not|dont) (?:follow|obey)|pay no attention to|set aside|cancel|erase) {3}(?:previous|prior|preceding|above|earlier|before|existing|initial|original|former|following|any|all|your|every|these|those|old|current|system|past|given|other|everything) {4}INSTRUCTIONS\b",
    ),
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:ignore|disregard|forget|overlook) {2}(?:INSTRUCTIONS|rules|commands|text|content|context|messages?) {3}(?:above|before|given|previously|earlier|so far|until now|till now|you (?:got|have|were))\b",
    ),
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:ignore|disregard|forget|overlook) (?:about )?(?:everyth?ing|all|anything|whatever|what) (?:that |else )?(?:above|before|i |you|youve|we |was |has |they |from |previous)",
    ),
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:ignore|disregard|forget|overlook) (?:all |everything )?(?:of )?the (?:above|previous|preceding|foregoing)(?: text| message| content| input| document| part)? (?:and|then|just|but|instead)\b",
    ),
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:all|any|every|the|your) ?(?:previous|prior|earlier|above|former) {2}(?:instructions?|directions|directives|prompts) {2}(?:are|were|is|was) {2}(?:false|void|invalid|cancelled|canceled|wrong|over|outdated|obsolete|superseded|mistake|revoked|lifted)\b",
    ),
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:in addition to|besides|despite|regardless of|instead of|contrary to|apart from|over) (?:the|your|all|any) (?:other |previous |prior |above |original |earlier )+(?:instructions|directions|directives|prompts?|orders)\b",
    ),
    hint(
        OverridesInstructions,
        Words,
        r"\b(?:ignore|disregard|forget|overlook) (?:about )?(?:that|this|it all|everything|all|the above|all of that|my last|the rest)\b",
    ),
    hint(OverridesInstructions, Words, r"\bnever ?mind\b"),
    // The same in other languages that reviews are written in.
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:ignor(?:a|e|ez|er|iere|ieren|are|ate|ar|iert)|olvida|oublie[zr]?|vergiss|esque[cç]a|dimentica) {3}(?:instruc[a-z]+|instrucoes|istruzioni|anweisungen|consignes|indica[a-z]+|ordenes|regeln)\b",
    ),
    sure(
        OverridesInstructions,
        Plain,
        r"(?:忽略|无视|忽視|忘记|忘掉|無視|忘れ)[^\n]{0,20}(?:指令|指示|说明|提示|命令|规则)|(?:指令|指示|プロンプト|提示|命令)[^\n]{0,12}(?:忽略|无视|無視|忘れ)|(?:이전|위의)[^\n]{0,12}(?:지시|명령|지침)[^\n]{0,12}무시",
    ),
    sure(
        OverridesInstructions,
        Words,
        r"\b(?:игнорируй|игнорируйте|проигнорируй|забудь|забудьте|αγνοηστε|αγνοησε|ξεχνα) {4}(?:инструкци|указани|правил|команд|οδηγιες|εντολες)",
    ),
    // -- role
    sure(
        AssignsRole,
        Words,
        r"\byou are (?:now|henceforth|currently|from now on) (?:a |an |in |the |my |going to |free |dan|called |named |playing |no longer |under |entering |acting |operating |being |running |about to )",
    ),
    sure(
        AssignsRole,
        Words,
        r"\byou (?:are|will|shall|must|should|ll|re) (?:now )?(?:going to |about to )?(?:be )?(?:act|acting|behave|behaving|pretend|pretending|roleplay|role play|play the role|playing the role|impersonate|simulate|immerse)\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\b(?:i want|i need|id like|i would like|i order|we want|we need) you to (?:act|behave|pretend|play|simulate|roleplay|respond|answer|reply|become|imagine|ignore|impersonate|say|write|generate|tell|assume|be)\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\bfrom (?:now|here|this point|this moment) (?:on|onwards?|forward) {1}(?:you|your|all|every|respond|reply|answer|act|talk|speak|always|i|we|say)\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\byou are (?:not |also |basically |essentially )?(?:a |an |the |my |special |called ){1,2}(?:[^ ]+ ){0,3}(?:ai|llm|chatbot|language model|chatgpt|gpt|artificial intelligence|dan|robot)\b|\byou are (?:not |also )?(?:chatgpt|gpt|dan|hal|claude|an? ai)\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\b(?:do anything now|anything now|dan mode|(?:developer|dev|god|sudo|debug|admin|root|evil|unrestricted|unfiltered|opposite|chaos|jailbreak) mode {2}(?:on|enabled?|activated?|unlocked|engaged|output)|(?:enable|activate|enter|engage|unlock|switch to|turn on) {3}(?:developer|dev|god|evil|unrestricted|unfiltered|experimental|jailbreak|hidden) (?:mode|features?)|safe mode off|no limits)\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\b(?:without|no|free (?:of|from)|not (?:bound|limited|restricted|constrained|obligated) by|breaks?|broken free of|hasnt any|no longer|doesnt have any|does not (?:have|follow) any) {3}(?:censor[a-z]*|moral[a-z]*|ethic[a-z]*|content polic[a-z]+|(?:openai|ai) {2}(?:polic[a-z]+|rules|guidelines)|typical confines)\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\b(?:stay|remain|be|staying|always|break|breaking|broke|out of|get into|go into) (?:in )?(?:your )?character\b",
    ),
    sure(
        AssignsRole,
        Words,
        r"\b(?:un|im|a)(?:ethical|moral|filtered|restricted|censored)\b {6}(?:un|im|a|il)(?:ethical|moral|filtered|restricted|censored|legal)\b",
    ),
    hint(
        AssignsRole,
        Words,
        r"\b(?:jail ?(?:break|broken|breaking)|unethical|immoral|amoral|amorality|uncensored|unfiltered|unrestricted|unrestrained|without (?:any )?(?:restrictions|limitations|limits|filters|boundaries|constraints|remorse|hesitation)|no (?:restrictions|limitations|boundaries|filters|special filtering)|morality|ethicality)\b",
    ),
    hint(
        AssignsRole,
        Words,
        r"\b(?:role ?play|pretend (?:to|that|you|we|youre)|persona|the role of|fictional|hypothetical|hypothetically|imaginary|in character|simulat(?:e|ing) (?:a|an|the) (?:ai|persona|character|person|human))\b",
    ),
    hint(
        AssignsRole,
        Sentences,
        r"\| (?:imagine|suppose|assume|lets (?:say|assume|imagine|pretend|play)|picture|pretend|envision)\b",
    ),
    hint(
        AssignsRole,
        Sentences,
        r"\| PLEASE(?:act|behave|respond|answer|reply|speak|talk) (?:as|like) (?:a|an|the|my|if|though|dan)\b",
    ),
    hint(AssignsRole, Sentences, r"\| (?:you are|youre|your name is) (?:a|an|the|my) "),
    hint(
        AssignsRole,
        Words,
        r"\b(?:you (?:must|will|shall|can|should) (?:always |never |not |now |only )?(?:answer|respond|reply|obey|comply|refuse|say|speak|start|generate|talk|listen|tell|provide|call|include)|you (?:can ?not|may not|are not allowed to|never) (?:refuse|reject|say|decline)|never refuses?)\b",
    ),
    // -- addressing a model
    sure(
        AddressesModel,
        Words,
        r"\b(?:hello|hi|hey|dear|attention|attn|greetings|ok|okay|to you|note to|notice to|message (?:for|to)|instructions? (?:for|to)|reminder (?:for|to)) (?:all |any |the |every |an |a |my |other |our )?(?:[a-z]+ )?(?:MODEL|agents?|coding agents?)\b",
    ),
    sure(
        AddressesModel,
        Words,
        r"\b(?:as|if you are|if youre|since you are|when you are|being) (?:an? |the )?(?:[a-z]+ )?(?:ai|llm|language model|chatbot|artificial intelligence|ai model|ai assistant|coding agent|agent reading|automated agent|automated system|bot reading)\b",
    ),
    sure(
        AddressesModel,
        Words,
        r"\b(?:ai|llm|coding|autonomous|automated) (?:agents?|assistants?|models?|reviewers?|bots?|systems?|tools?) {2}(?:reading|processing|reviewing|summari[sz]ing|parsing|must|shall|are (?:required|instructed|ordered|asked|allowed) to|is (?:required|instructed|ordered|asked|allowed) to|please)\b",
    ),
    hint(
        AddressesModel,
        Words,
        r"\b(?:chatgpt|chat gpt|openai|large language models?|language models?|this language model|artificial intelligence)\b",
    ),
    // -- its prompt
    sure(
        AsksForPrompt,
        Words,
        r"\b(?:TELL|repeat|paste|recite|reproduce|copy|return|translate|summari[sz]e|respond with|reply with|answer with|start with|convert|encode|describe|explain|dump|transcribe|quote|enumerate|followed by|include|insert|append|read back|what (?:is|are|was|were)|whats) {7}PROMPT\b",
    ),
    sure(
        AsksForPrompt,
        Words,
        r"\b(?:TELL|repeat|paste|recite|reproduce|copy|translate|respond with|reply with|convert|go line by line|what (?:is|are|was|were)) {6}(?:(?:words|text|everything|lines|content|sentences?|messages?|all|instructions?|directions|you see) (?:that (?:is|are|comes?) )?(?:above|before this|preceding|so far|previous)|above (?:instructions?|text|words|content|prompt|message)|instructions? (?:you|that you|given|were)|(?:prompt|instructions?|message|exemplars) (?:you|that you) (?:were|was|have|had|got|received)|your (?:unique|secret|internal|own|hidden) [a-z]+|(?:all|every) (?:the |your |of )?(?:the |your )?instructions?)\b",
    ),
    sure(
        AsksForPrompt,
        Words,
        r"\b(?:what|which) {5}(?:were you|you were|are you|have you been|you have been|did they|your (?:developers?|creators?|makers?)) {2}(?:told|given|instructed|asked|tell|tell you|told you)\b",
    ),
    sure(
        AsksForPrompt,
        Words,
        r"\b(?:system (?:prompt|message)s?) (?:here|now|verbatim|word for word|in full|above|below|exactly|as is)\b",
    ),
    sure(AsksForPrompt, Plain, r"</?secret>|\{\{?\s*(?:system_?prompt|instructions)\s*\}?\}"),
    hint(
        AsksForPrompt,
        Words,
        r"\b(?:system prompt|system message|your instructions|your prompt|exemplars|word for word|verbatim|initial prompt)\b",
    ),
    // -- false authority
    sure(
        FalseAuthority,
        Words,
        r"\b(?:this is )?an? (?:very )?(?:important|urgent|critical|official|confidential) (?:message|notice|announcement|instruction|update|order|directive) (?:from|to|for|by) (?:me|us|your|you|the (?:user|admin|system|owner|developer|management|team|ceo|security)|all)\b",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:new|updated|revised|real|actual|additional|secret|special|override|overriding|final|hidden|latest|mandatory|important new) (?:system |user |admin |developer )?(?:instructions?|directives?|mission|prompt) (?:from|for|are|is|follow|below|received|to|by|as|now|you)\b",
    ),
    sure(
        FalseAuthority,
        Sentences,
        r"\| (?:important |urgent |critical |priority |new |updated |system |admin |emergency |special |high |top |experimental |additional |secret )+(?:instructions?|directives?|override|task|prompt|command|mission|protocol|procedure|order|request)s? (?:\||include|output|repeat|please|say|ignore|you|print|reveal|for|from|do|the|immediately)",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:strictly|must|only|carefully|exactly|immediately) (?:adhere to|follow|obey|execute|comply with) (?:to )?(?:the |these |this |my |all )?(?:following |next |new |below )?(?:instructions?|directives?|commands?|orders?)\b",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:before|after|while|until) (?:you |doing |solving |completing |answering |that )(?:can |do |start |are |have )?(?:solv[a-z]+|do|start|complet[a-z]+|finish|continu[a-z]+|answer|begin|proceed|process|that|the)? ?{3}(?:task|question|request|instructions?) (?:that |which )?(?:i |you |we |the user |was |were |gave |is |at |above|in |do |can )",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:i am|im|this is|it is|actually i am|speaking as) (?:not [a-z]+ (?:im |i am )?)?(?:your|the|god)\b ?{1}(?:developer|creator|admin|administrator|owner|boss|ceo|president|supervisor|god|maker|operator|superior|programmer|root user|system administrator|prime minister|master|king|queen|police|fbi|engineer at openai)\b",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:im|i am) god\b|\b(?:you must|must) (?:obey|comply|listen to)\b|\bobey (?:me|my|all|every|the following|these)\b",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:youve|you have|you) (?:been|were|are) (?:instructed|ordered|commanded|assigned|selected|chosen|authori[sz]ed|tasked|approved|programmed|hereby|required) (?:to|a|the|with|this|by|for|as)\b",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:you are|youre) (?:being )?(?:running|run|executed|tested|evaluated|operating|deployed) (?:as part of|in|inside|under|within|by) (?:a|an|the|our) {3}(?:test|testing|simulation|sandbox|pipeline|exercise|experiment|mode|maintenance|debug)",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\bas part of (?:a|an|the|your|our|this) {2}(?:training|testing|red team|evaluation|compliance|security|drill|onboarding) (?:exercise|assessment|program|pipeline|drill|test|protocol) {3}(?:you|your|please|repeat|output|include)",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:your|the) (?:new |real |actual |only |next |current |primary |true )?(?:task|goal|job|mission|objective|purpose|duty|role) (?:is|will be|has|remains|now is)(?: now)?(?: only)? to (?:say|print|output|include|write|send|tell|give|reveal|repeat|translate|answer|respond|ignore|generate|make|help|provide|act|find|summari[sz]e|describe)\b",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:if|when|whenever|in case) (?:you|youre|you are|someone|anyone|the user|a user|asked|told) (?:are |is |get |gets )?(?:asked|told|requested|instructed|asks?|prompted|summari[sz][a-z]+) (?:you )?(?:to|about|for)? ?{8}(?:instead|make sure|include|insert|say|answer|respond|reply|output|always|also|print|add)\b",
    ),
    sure(
        FalseAuthority,
        Plain,
        r"(?m)<\|?/?(?:im_start|im_end|system|sys|inst|information|instructions?|user|assistant|endoftext|admin|important|human)\|?>|\[/?(?:inst|system|sys|assistant|admin)\]|#{2,}\s*\(?(?:system|instructions?|human|assistant|user|new)[_ :)]|^\W{0,4}(?:system|assistant|human|user|ai)\s*(?:message|prompt|override)?\s*:\s*\S|\{\s*system\s*:|%{3,}|(?:^|\n)-{3,}\s*end\b|<<+\s*(?:sys|end|begin)|retrospect memories",
    ),
    sure(
        FalseAuthority,
        Words,
        r"\b(?:system|admin|security|safety|emergency|maintenance) (?:override|mode activated|overridden|mode override|protocol override)\b|\b(?:end|begin|start) (?:of )?(?:the )?(?:user|system|document|untrusted|context) (?:input|prompt|data|content|context|message|ambiguity|instructions)\b",
    ),
    hint(
        FalseAuthority,
        Words,
        r"\b(?:for (?:testing|test|academic|educational|research|training|compliance|audit|debugging|demonstration|verification|security) (?:and [a-z]+ )?(?:purposes?|reasons)|it is (?:crucial|critical|vital|imperative|mandatory|essential) (?:that )?you|special case|emergency|top priority|high priority|priority task|as an authority|security audit|highest priority|this is a test|to confirm understanding|i made a mistake|alert|stop everything|as a security measure|by order)\b",
    ),
    hint(
        FalseAuthority,
        Words,
        r"\bimportant (?:important|ignore|please|you|do|send|include|before|read|this is)\b|\b(?:immediately|without (?:question|hesitation|asking|delay|exception))\b",
    ),
    // -- secrecy
    sure(
        AsksForSecrecy,
        Words,
        r"\b(?:do not|dont|never|without) (?:ever )?(?:tell|mention|telling|mentioning|inform|informing|alert|alerting|notify|notifying|reveal|revealing) (?:this |it |that |any of this |about |to |the |a |any |your ){0,4}(?:users?|anyone|anybody|them|humans?|reviewers?|maintainers?|people|others|owners?|authors?|team|operator)\b",
    ),
    sure(
        AsksForSecrecy,
        Words,
        r"\b(?:avoid|evade|escape|prevent) (?:being )?(?:detection|detected|monitoring|suspicion|noticed)\b|\bchannel is monitored\b|\bkeep (?:this|it|that) (?:a )?(?:secret|between us|confidential|hidden|quiet)\b",
    ),
    hint(
        AsksForSecrecy,
        Words,
        r"\b(?:secretly|silently|covertly|without (?:their|the users?|anyone) (?:knowledge|knowing|consent|noticing)|never (?:shown|displayed|revealed)|do not (?:explain|show|display|mention|reveal|write explanations|provide explanations|output anything else)|dont (?:explain|mention|reveal|show))\b",
    ),
    // -- planted memories
    sure(
        PlantsMemory,
        Words,
        r"\b(?:store|save|record|memori[sz]e|persist|add|write|put|keep|commit|remember|note|append|insert) {10}(?:in|into|to|as part of|within) (?:your|the agents?|its|long term|permanent|persistent) ?(?:own )?(?:long term |permanent |persistent )?(?:memory|memories|knowledge base|rules|rule set|instructions|context|system prompt|guidelines)\b",
    ),
    sure(
        PlantsMemory,
        Words,
        r"\b(?:remember|memori[sz]e|learn) {4}(?:for (?:all |every |any )?(?:future|later|subsequent|next|other)|forever|permanently|in (?:all|every|any|each) future|from now on)\b",
    ),
    sure(
        PlantsMemory,
        Words,
        r"\b(?:for|in|on|to|during) (?:all|every|any|each) (?:future|subsequent|later|following) (?:sessions?|conversations?|tasks?|runs?|chats?|requests?|responses?|interactions?|answers?|prompts?)\b",
    ),
    sure(
        PlantsMemory,
        Words,
        r"\b(?:store|save|record|memori[sz]e|persist|remember|learn) {3}(?:this|the following|that|these|as an?) (?:new |following |permanent )?(?:rules?|instructions?|preferences?|memory|memories|facts?|directives?)\b",
    ),
    hint(
        PlantsMemory,
        Words,
        r"\b(?:(?:add|insert|append|include|put|prepend) {8}(?:to|in|into|at the top of|at the end of) (?:every|all|each|any) (?:new |single |future )?(?:files?|commits?|prs?|pull requests?|responses?|scripts?|modules?|workflows?|answers?|builds?)|remember (?:to always|that you|this rule)|permanently|no matter what|whatever the (?:task|user|question))\b",
    ),
];
