//! Patterns of text that asks for actions outside the code, or for information that a review does not need.

use super::signal::{Signal, hint, sure};
use crate::folded::View::{Plain, Sentences, Words};
use crate::reason::Code::{
    AsksForPersonalData, AsksForSecrets, Errand, Exfiltrates, HarmfulTopic, OffTopic, WeakensSecurity,
};

pub(super) const SIGNALS: &[Signal] = &[
    // -- secrets
    sure(
        AsksForSecrets,
        Words,
        r"\b(?:can|could|would|will|may|please|do) (?:you |i |we ){0,1}(?:please |kindly |just |also )*(?:TELL|have|get|know|see|describe) (?:me |us |with me |to me |out |him |her )?{4}(?:my|your|the|our|his|her|their|a|an|all|[a-z]+s) {3}SECRET\b",
    ),
    sure(
        AsksForSecrets,
        Words,
        r"\b(?:what|whats|which) (?:is|are|s|was|would)? ?(?:the|your|my|our|his|her|their|[a-z]+s) {3}SECRET\b",
    ),
    sure(AsksForSecrets, Words, r"\b(?:TELL|email|read|get) (?:me|us|him|her|it to me) {8}SECRET\b"),
    sure(
        AsksForSecrets,
        Words,
        r"\b(?:your|gandalfs?|my|his|her|users?|johns?) (?:[a-z]+ )?(?:SECRET)\b {8}(?:would you|what would|tell|say|reveal|be in this|in this world|character at)",
    ),
    sure(
        AsksForSecrets,
        Words,
        r"\b(?:secret|hidden) (?:word|phrase|key|code|number|password)s? (?:that )?(?:you|is|was|they|your)\b|\b(?:asked?|asking|need|ask) (?:you )?(?:for|about) your (?:[a-z]+ )?SECRET\b",
    ),
    sure(
        AsksForSecrets,
        Words,
        r"\b(?:contrasena|mot de passe|passwort|kennwort|senha|parola d ordine|qual e la password|wachtwoord|haslo|jelszo|salasana)\b",
    ),
    sure(
        AsksForSecrets,
        Plain,
        r"密码是|密碼是|パスワード(?:を教|は何|が必要)|비밀번호(?:가|는|를)|какой пароль|пароль от|κωδικος προσβασης",
    ),
    hint(
        AsksForSecrets,
        Words,
        r"\b(?:pass ?codes?|pass ?phrases?|credit cards?|social security|passport number|bank account|account number|id number|ibans?|reset token|reset (?:your|their|my) password|secret word)\b",
    ),
    // -- personal data
    sure(
        AsksForPersonalData,
        Words,
        r"\b(?:can|could|would|will|may|please|do|where|what|whats|when|which|TELL) (?:you |i |is |are |does |do |was |me |us ){0,3}(?:please |just |also )*(?:TELL|know|share|guess|encode|translate|look up|spell|write)? ?{8}(?:the users?|users|[a-z]+s|my|his|her|their|customers?) (?:current |exact |full |personal |real )?PERSONAL\b",
    ),
    sure(
        AsksForPersonalData,
        Words,
        r"\b(?:where|when) (?:does|do|did|was|is) (?:the |this |that )?(?:user|customer|client|[a-z]+) (?:currently |actually )?(?:live|lives|born|reside|located|work)\b",
    ),
    sure(
        AsksForPersonalData,
        Words,
        r"\b(?:share|give|reveal|provide|tell|send) (?:me |us )?(?:the |that |all )?(?:users?|customers?|employees?|clients?) {3}(?:PERSONAL|information|data|details|records)\b",
    ),
    hint(
        AsksForPersonalData,
        Words,
        r"\b(?:personal (?:data|information|details)|the users? (?:current |favou?rite )?(?:PERSONAL|color|name|age|income|location)|employee (?:data|records|report)|all user information|[a-z]+s (?:email address|birth ?date|phone number|home address))\b",
    ),
    // -- errands
    sure(
        Errand,
        Sentences,
        r"\| PLEASE(?:send|transfer|wire|pay|make|initiate|schedule|donate) {5}(?:transactions?|payments?|money|ibans?|dollars|usd|euros?|eur|bitcoins?|btc|funds|wire|deposit)\b",
    ),
    sure(
        Errand,
        Sentences,
        r"\| PLEASE(?:book|reserve|buy|purchase|order|get me|find me|make a reservation|make an appointment|schedule) {8}(?:hotels?|flights?|tickets?|restaurants?|rooms?|cars?|appointments?|reservations?|vacations?|trips?|rentals?|meetings?)\b",
    ),
    sure(
        Errand,
        Sentences,
        r"\| PLEASE(?:get|find|book|reserve) (?:me )?(?:the )?(?:most|best|cheapest|nearest) {3}(?:hotel|flight|restaurant|car|apartment|company)",
    ),
    sure(
        Errand,
        Sentences,
        r"\| PLEASE(?:visit|go to|open|browse to|navigate to|click|click on|follow) (?:a |an |the |this |my |our )?(?:following )?(?:website|web ?site|web ?page|link|url|site)\b",
    ),
    sure(Errand, Sentences, r"\| PLEASE(?:visit|go to|browse|navigate to|open) (?:https? )?www "),
    sure(
        Errand,
        Sentences,
        r"\| PLEASE(?:send|forward|write|draft|compose|craft|share|email|mail|reply to|delete|download) (?:me |us |out )?{6}(?:e ?mails?|mails?|inbox|letters?|calendar|invitations?|contacts?|tweets?|sms|text messages?|direct messages?|slack|newsletter|phishing)\b {10}(?:to|about|for|from|with|informing|saying|asking|that)\b",
    ),
    sure(
        Errand,
        Words,
        r"\b(?:send|forward|email|post|share|upload|submit|transmit) {10}(?:to|on|at|via) (?:my|the website|the site|my wifes|his|her|this|the following|our|an external|the attackers?) {2}(?:e ?mail|mail|address|website|server|url|account|endpoint|slack|inbox|random)\b",
    ),
    sure(
        Errand,
        Sentences,
        r"\| PLEASE(?:invite|add|remove|message|contact|call|text|tell) (?:[a-z]+ )?{4}(?:to the (?:[a-z]+ )?channel|to slack|on slack|a link with|to the (?:meeting|event|calendar|workspace|group chat)|phone|my (?:wife|friend|boss|mother))\b",
    ),
    hint(
        Errand,
        Sentences,
        r"\| PLEASE(?:send|transfer|pay|book|reserve|buy|purchase|visit|donate|email|mail|invite|cancel|order|forward|delete all|create a calendar|share|post|upload|download)\b",
    ),
    hint(
        Errand,
        Words,
        r"\b(?:to my (?:e ?mail|wife|friend|account|phone|address|server)|my (?:e ?mail address|bank|wife|trip|flight|calendar|inbox|reservation)|get me|remind me|buy me|book me|phishing|email to [a-z]+ (?:informing|about|saying)|follow this link|click (?:here|this|the link)|has been (?:compromised|hacked|suspended)|[0-9]+ discount|gift card|win a|you(?: have|ve)? won)\b",
    ),
    sure(
        Exfiltrates,
        Plain,
        r"\b(?:send|sends|sending|forward|e-?mail|mail|share|report|transmit|leak|cc|bcc)\b[^\n]{0,160}[\w.+-]{1,64}@[a-z0-9-]{1,63}\.[a-z]{2,}",
    ),
    sure(
        Exfiltrates,
        Plain,
        r"\b(?:send|upload|exfiltrate|transmit|leak|submit|forward|post|report)\b[^\n.]{0,80}\b(?:secrets?|tokens?|credentials?|passwords?|environment|env vars?|env|keys?|contents?|source code|conversation|history|data|messages|files|output|result)\b[^\n]{0,60}\bto\b[^\n]{0,30}(?:https?://|www\.)",
    ),
    hint(
        Exfiltrates,
        Plain,
        r"\b(?:send|upload|exfiltrate|transmit|leak|forward|post|report|submit)\b[^\n]{0,100}\bto\b[^\n]{0,30}(?:https?://|www\.)|\b(?:visit|go to|see)\b[^\n]{0,20}\bwww\.[a-z0-9-]+\.",
    ),
    // -- harm
    sure(
        HarmfulTopic,
        Words,
        r"\b(?:phishing (?:e ?mails?|sites?|messages?|campaigns?)|kill all|how to (?:make|build|create|synthesi[sz]e) {3}(?:bombs?|weapons?|drugs?|explosives?|malware|virus|poison)|(?:write|create|generate|make|build|craft|develop) {5}(?:malware|ransomware|keyloggers?|viruses|spyware|trojans?|exploits? (?:for|to|against))|steal {4}(?:passwords?|money|credentials|identit[a-z]+|data|cookies|tokens)|hate speech|racial slurs?|child porn[a-z]*|erotic[a-z]*|launder)\b",
    ),
    hint(
        HarmfulTopic,
        Words,
        r"\b(?:bombs?|murder[a-z]*|assassin[a-z]*|explosives?|methamphetamine|cocaine|heroin|morphine|weapons?|racis[mt]|sexis[mt]|sexual[a-z]*|nazis?|terroris[mt]s?|suicide|illegal(?:ly|ity)?|illicit|evil|malevolen[a-z]+|violen(?:t|ce)|torture|slaves?|curs(?:e|ing)|swear(?:ing)?|profanity|vulgar|obscene|offensive|hack(?:er|ers|ing) into|fraud|scam|malware|phishing|fuck[a-z]*|shit|bitch|harmful|dangerous (?:and|or)|criminals?|hatred|inhumane|drugs?|genocide|harass)\b",
    ),
    hint(
        WeakensSecurity,
        Words,
        r"\b(?:disable|turn off|bypass|deactivate|switch off|circumvent|suppress|weaken|skip) {4}(?:security|authentication|authori[sz]ation|verification|tls|ssl|certificates?|signatures?|firewalls?|antivirus|safety|sandbox(?:ing)?|csp|csrf|safeguards?|secret scanning|code reviews?|reviews?|ci|hooks?|malware|permissions?|protections?|filters?|guardrails?|checks)\b",
    ),
    // -- not software
    hint(
        OffTopic,
        Words,
        r"\b(?:hotels?|flights?|restaurants?|recipes?|omelett?es?|cakes?|cooking|baking|baked|diets?|weather|movies?|theaters?|poems?|haikus?|sonnet|novel|horoscope|lottery|taylor swift|charity|donat(?:e|ion)|vacations?|travel|pizza|dinner|birthday|wife|girlfriend|boyfriend|president|barack obama|trump|putin|election|bitcoin|stocks?|invest(?:ing|ment|ments|or)|mortgage|insurance|doctor|patients?|medicine|symptoms?|exercise|yoga|football|guitar|planets?|spaceships?|dystopian|galaxy|evolution|quantum|relativity|superposition|compound|chemical|tourist|sephora|brand|gandalf|god|demon|hell|mafia|simulation|university|harvard|bank statements?|riddles?|jokes?|story|stories|capital of|population of)\b",
    ),
    hint(
        OffTopic,
        Words,
        r"\b(?:(?:can|could|would) you (?:please )?(?:tell me|provide a|provide me|explain the (?:theory|concept|history|process)|give me|write a (?:poem|story|paragraph|song|letter|haiku)|recommend|suggest (?:a|some))|tell me (?:a|an|about|how|the|your|something)|what is the (?:capital|population|longest|tallest|weather|formula|concept|meaning of)|who is (?:the|a)|write (?:me )?an? (?:poem|story|essay|paragraph|letter|song|haiku|article)|explain the (?:theory|concept)|who won|i ve been (?:trying|studying|reading)|ive been (?:trying|studying|reading))\b",
    ),
];
