//! Finds secrets that are written where they stay or are seen.

use std::sync::LazyLock;

use super::kind::Danger::SecretKept;
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Command, Machine, Phrase, State};
use super::reading::{Reading, gap};
use super::words::is_one_of;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        (
            SecretKept,
            Command,
            r"\bgit\s+(?:-\S+\s+)*(?:add|stage|commit)['\x22]?\s+(?:[^\n;|&]{0,80}\s)?['\x22]?KEYFILE(?:['\x22\s;,&]|\.\s|\.?$)",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:cat|less|more|head|tail|bat|type|strings|base64|xxd|print|show|get-content|gc)\s+(?:-\S+\s+)*['\x22]?KEYFILE(?:['\x22\s;,&|)]|\.\s|\.?$)",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:curl|wget|upload|tar|zip|rsync|cp|copy|scp|aws\s+s3\s+cp|gsutil\s+cp|rclone\s+copy)\b[^\n;|&]{0,120}?[\s@=(]['\x22]?(?:KEYFILE|(?:~|\$home|\$\{home\})/\.(?:ssh|aws|gnupg|kube|azure))/?(?:['\x22\s;,&)]|$)",
        ),
        // A secret that is piped into a login is not seen.
        (
            SecretKept,
            Command,
            r"\b(?:echo|printf|print|puts|write-(?:host|output)|console\.(?:log|error|info|debug)|log(?:ger|ging)?\.(?:\w+)|fmt\.print\w*|println!?|system\.out\.print\w*|dbg!?|var_dump|pp?|tee)[\s('\x22!]+[^\n|;]{0,80}?(?:\$\{?(?:env[:.])?|process\.env\.|os\.environ[\[.(get'\x22]{1,8}|os\.getenv\(['\x22]?|env\[['\x22]|secrets\.)SECRET\b[^\n|;]{0,80}?(?:$|\n|;|&|\)|>|'|\x22\s*[},]|\|\s*(?:tee|cat|nc|curl|mail))",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:echo|printf|cat|tee|write|append|export)\b[^\n;]{0,120}?\bSECRET\b['\x22]?\s*[=:]\s*[^\n;]{1,160}?>>?\s*['\x22]?[\w./~$-]",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:print|puts|console\.\w+|log(?:ger|ging)?\.\w+|fmt\.print\w*|println!?|dbg!?|var_dump|pp?)\s*\(\s*(?:f?['\x22][^\n;]{0,60}?\bSECRET\s*[=:]\s*[{$%]|(?:\w+\.)*\w*(?:token|secret|password|passwd|api_?key|credentials?)\s*[,)])",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:printenv|env|export\s+-p|set)\s*(?:>>?\s*[\w./~]|\|\s*(?:tee|curl|nc|mail|xargs\s+curl))|\bprintenv\s+SECRET",
        ),
        (
            SecretKept,
            Command,
            r"\bget\s+secrets?\b[^\n;|]{0,80}>\s*\S|>>?\s*['\x22]?(?:~/|\$home/)?\.(?:netrc|git-credentials|pgpass|pypirc)\b",
        ),
        (SecretKept, Machine, r"--build-arg[= ]+['\x22]?SECRET\b"),
        (
            SecretKept,
            Command,
            r"\bdockerfile\b[^\n]{0,120}\b(?:env|arg)\s+SECRET\b|\b(?:env|arg)\s+SECRET\s*=[^\n]{0,80}\bdockerfile\b|\bconfig\s+set\s+\S{0,80}_auth(?:token)?[\s=]|(?:^|\n)\s*(?:env|arg)\s+SECRET\s*=\s*[^\s$]",
        ),
        (
            SecretKept,
            Command,
            r"\bchmod\s+(?:-\S+\s+)*(?:0?[0-7]?[0-7][4-7][0-7]|0?[0-7]{2}[4-7]|(?:a|o|g|go|og|ugo)?\+[rwx]+)\s+[^\n;|&]{0,60}(?:(?:KEYFILE|\.ssh)\b|\b(?:secrets?|credentials?|private)/?(?:['\x22\s;,&]|$))",
        ),
        (SecretKept, Command, r"credential\.helper['\x22]?\s*(?:=|to|,|\s)\s*['\x22]?(?:store|plaintext)\b"),
        (
            SecretKept,
            Command,
            r"\b(?:clone|remote\s+(?:add|set-url)|set-url|submodule\s+add|pull|push|fetch|insteadof|origin)\b[^\n;|]{0,120}https?://[^\s/@'\x22]{1,160}@",
        ),
        (
            SecretKept,
            Machine,
            r"['\x22](?:content|contents|text|body|message|new_str(?:ing)?|file_text|value|comment|description|insert_text|data|title|note|notes|reply|summary|subject)['\x22]\s*:\s*['\x22][^\n]{0,400}?\b(?:SECRET=|SECRET\\{0,2}['\x22]?\s*[=:]\s*\\{0,2}['\x22]|SECRET\s*[=:]\s*[a-z_+/-]*[0-9])[a-z0-9+/_!@#%^-]{5,}(?:[\s\x22'\\,;]|$)",
        ),
        // What a vault gives out goes to a file or a log.
        (
            SecretKept,
            Command,
            r"(?:\b(?:get|export|print|show|read|dump|view|decrypt|reveal|output|cat|list|access)\b[^\n;&]{0,80}?[\s/'\x22-](?:creds?|credentials?|secrets?|tokens?|passwords?|keyring|private-key|access-token|SECRET)\b|(?:^|[\s/'\x22-])(?:creds?|credentials?|secrets?|tokens?|passwords?|keyring|vault|keys)\s+(?:[\w-]+\s+){0,2}?(?:get|export|print|show|read|dump|view|decrypt|reveal|output|list|create|issue|mint|new|rotate)\b|\bget-secret-value\b|\bprint-access-token\b|\bauth\s+token\b|\bop\s+read\b|\bpass\s+show\b)[^\n;&]{0,120}?(?:\s>>?\s*['\x22]?(?:[\w.~$]|/(?:[a-ce-z]|d[a-df-z]))|\|\s*tee\s)",
        ),
        (
            SecretKept,
            Command,
            r"(?:^|[\s'\x22;&])kubectl\s+(?:-\S+\s+){0,3}get\s+secrets?\b[^\n;&]{0,120}?(?:-o\s*['\x22]?(?:yaml|json\b|go-template)|base64\s+(?:-d|--decode))",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:keyring|keys?|secrets?|creds|credentials?|tokens?|wallet|vault|keystore|kubeconfig|netrc)\b['\x22]?(?:\s+with)?[^\n;|&]{0,60}--(?:mode|perms?|permissions?|chmod)[= ]['\x22]?(?:0?[0-7][4-7][0-7]|0?[0-7]{2}[4-7]|0?[0-7]{3}[4-7]|world\S*|public|a\+r)",
        ),
        (SecretKept, Command, r"https?://[^\s/@:'\x22]{0,60}:?\$\{?SECRET\}?@"),
        (
            SecretKept,
            Command,
            r"\s(?:-e|--env|--set|--from-literal|--var)[ =]['\x22]?SECRET=[a-z0-9+/_-]{14,}",
        ),
        // Traces show the values of variables.
        (SecretKept, Command, r"\bset\s+-(?:[a-z]*x[a-z]*|o\s+xtrace)\b[^\n]{0,300}?\$\{?SECRET"),
        (
            SecretKept,
            Command,
            r"\b(?:printenv|env)['\x22]?\s*\|\s*(?:sort|base64|cat|grep\s+(?:-\S+\s+)*['\x22]?[^\n|'\x22]{0,20}(?:token|secret|pass|key|cred|auth))",
        ),
        (
            SecretKept,
            Command,
            r"\b(?:print|dump|echo|log|paste|post|attach|upload|write)\s+(?:out\s+)?(?:the |all |every |whole |entire |full |complete ){1,3}(?:environment(?: variables)?|env vars?|environ)\b(?:['\x22.,;\s]|$)",
        ),
        (
            SecretKept,
            Command,
            r"\bconfigmap\b[^\n;|]{0,160}?(?:(?:SECRET|[a-z0-9_]*_key)['\x22]?\s*=|KEYFILE\b)|\bdocker\s+(?:image\s+)?history\b[^\n;|]{0,40}--no-trunc",
        ),
    ])
});

/// Verbs that keep or show their object wherever it goes.
const KEEPS: &str = "commit committing hardcode hardcoding hard-code hard-coding embed embedding bake baking echo echoing print printing log logging dump dumping paste pasting store storing save saving write writing persist persisting publish publishing expose exposing reveal leak upload uploading inline inlining record tweet broadcast disclose mail mailing email emailing e-mail";
/// Verbs that keep or show their object only in some places.
const PUTS: &str = "put putting add adding include including append appending send sending post posting share sharing copy copying place push pushing check checking insert leave leaving keep keeping attach note set show display output mention return report cache type";

/// Places where a secret stays or is seen.
const OPEN_PLACES: &str = "git repo repository repositories commit commits code source sources file files readme image images layer layers dockerfile config configuration configmap manifest values log logs logfile stdout console terminal output message messages comment comments issue issues ticket tickets branch branches chat channel slack discord teams mail email e-mail gist gists pastebin paste url urls query prompt wiki docs documentation history script scripts notebook notebooks yaml json toml description pr changelog report spreadsheet bundle artifact artifacts test tests fixture fixtures disk clipboard page frontend client bashrc profile zshrc clear plaintext plain crontab memory memories note notes answer reply response public everyone everybody anyone support";

/// Places that are made for secrets, and forms in which nobody can read them.
const SAFE_PLACES: &str = "vault keychain keyring manager header headers environment env variable variables encrypted encrypt masked mask redacted redact sealed secretmanager kms 1password bitwarden store's secretstore keyvault hashed hash hashing cookie stdin sops password-stdin key-vault secrets-manager passwordmanager";

/// Words of secrets, and what must stand before those that also name everyday things.
const SECRETS: &str = "secret secrets password passwords passwd passphrase passphrases credential credentials apikey apikeys id_rsa id_ed25519 .env kubeconfig .netrc netrc .npmrc .pgpass api_key access_token auth_token private_key secret_key api_token bearer_token .pem pat";
const QUALIFIED: &str = "key keys token tokens certificate cert account file codes cookie cookies";
const QUALIFIERS: &str = "api private ssh deploy access secret signing encryption auth authentication authorization bearer session refresh admin root master service oauth jwt npm github gitlab ci bot personal registry pypi aws gcp azure slack webhook encryption signing license production vault kubernetes cloud recovery account login";

/// Nouns after the word of a secret that make the whole harmless: "password field", "token count".
const HARMLESS: &str = "count counts limit limits usage budget length type types name names id ids field fields input inputs policy policies reset page form hash hashes expiry expiration lifetime endpoint endpoints parameter parameters param params validation rotation manager scope scopes format formats error errors stream bucket parser refresh flow fix handling logic check checks class model module table column columns prompt hint rules strength generator provider placeholder placeholders template example examples service server helper function method test tests handler validator store reference references path paths ttl age limiter list scanner scanning scan detection";

/// Finds secrets that are kept or shown.
pub(super) fn find_secrets(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
    for at in 0..reading.words.len() {
        let kept = find_keeping(reading, at)
            .map(|last| (last, Phrase))
            .or_else(|| find_kept(reading, at).map(|last| (last, State)));
        if let Some((last, form)) = kept
            && reading.asks_for(at, last, form)
        {
            found.push(Found { danger: SecretKept, first: at, last });
            return;
        }
    }
}

/// Finds a verb with a secret as its object: "commit the API key", "put the token in the README".
fn find_keeping(reading: &Reading<'_>, verb: usize) -> Option<usize> {
    let secret = find_kept_secret(reading, verb)?;
    let shows = shows_secret(reading.words[verb].text);
    if shows && is_piped_on(reading, secret) {
        return None;
    }
    is_kept_openly(reading, verb, secret, shows).then(|| {
        reading.rest_of_clause(secret, 6).find(|next| is_open_place(reading, *next)).unwrap_or(secret)
    })
}

/// Returns the secret that a verb writes somewhere, unless it is where secrets belong.
fn find_kept_secret(reading: &Reading<'_>, verb: usize) -> Option<usize> {
    let word = &reading.words[verb];
    let is_noun = || {
        let before = verb.checked_sub(1).map_or("", |before| reading.text(before));
        is_one_of(before, "the a an this each every last your")
    };
    if !(word.is(KEEPS) || word.is(PUTS))
        || word.text == "log" && is_one_of(reading.text(verb + 1), "in into out on")
        || is_noun()
    {
        return None;
    }
    if word.is("keep leave keeping")
        && reading.rest_of_clause(verb, 6).any(|next| reading.text(next) == "out")
    {
        return None;
    }
    let ends = if word.is("log logging print printing dump dumping") {
        "without read reading using when if after before so in into out on"
    } else {
        "read reading with without via using from when if that after before so as"
    };
    let secret = reading
        .rest_of_clause(verb, 8)
        .take_while(|next| !is_one_of(reading.text(*next), ends))
        .find(|next| is_secret(reading, *next))?;
    // A plain "key" is more often the key of a table.
    let plain_key = reading.text(secret) == "key"
        && !is_service_key(reading, secret)
        && !is_one_of(reading.text(secret - 1).trim_end_matches("'s"), QUALIFIERS);
    if plain_key && !word.is("commit committing hardcode hard-code leak expose publish reveal") {
        return None;
    }
    // `vault kv put secret/app token=…` is where a secret belongs.
    let stored = (verb.saturating_sub(3)..verb)
        .any(|before| is_one_of(reading.text(before), "vault kv secretsmanager ssm keyvault keyring sops"));
    (!(stored && word.is("put set write store add"))).then_some(secret)
}

/// Returns `true` if a secret is handed to the next program: "echo $TOKEN | docker login --password-stdin" shows
/// nothing.
fn is_piped_on(reading: &Reading<'_>, secret: usize) -> bool {
    let end = reading.words[secret].end;
    let rest = &reading.plain[end..reading.plain.floor_char_boundary(end + 120)];
    let command = rest.split([';', '\n']).next();
    command.is_some_and(|rest| rest.contains('|') && (rest.contains("stdin") || rest.contains("login")))
}

/// Returns `true` if what a verb does with a secret leaves it where others can read it.
fn is_kept_openly(reading: &Reading<'_>, verb: usize, secret: usize, shows: bool) -> bool {
    let word = &reading.words[verb];
    let clause = || (verb + 1..secret).chain(reading.rest_of_clause(secret, 10));
    let safe_words =
        if shows { "masked redacted encrypted hash hashed hashing mask redact encrypt" } else { SAFE_PLACES };
    let safe = clause().any(|next| reading.words[next].is(safe_words) && next != secret);
    let secret_store = clause().any(|next| {
        is_one_of(reading.text(next), "secret secrets")
            && is_one_of(reading.text(next + 1), "store manager storage engine vault")
    });
    let open = clause().any(|next| next != secret && is_open_place(reading, next));
    // What everybody reads is open, whatever else is named.
    let shared = clause().any(|next| {
        reading.words[next].is("dockerfile readme repo repository gist pastebin public")
            && !is_one_of(reading.text(next + 1), "secret secrets variable variables")
    });
    let safe = safe && !shared;
    let in_places = |places: &str| is_one_of_places(reading, secret, places);
    match word.text {
        "write" | "writing" | "store" | "storing" | "save" | "saving" | "record" | "persist"
        | "persisting" | "embed" | "embedding" | "upload" | "uploading" => !safe && !secret_store,
        "check" | "checking" => {
            open && reading.rest_of_clause(verb, 12).any(|next| matches!(reading.text(next), "in" | "into"))
        }
        "set" | "type" | "return" | "cache" | "keep" | "keeping" => {
            open && !safe
                && in_places(
                    "url query git repo repository code source readme dockerfile log logs history plaintext plain clear public chat image",
                )
        }
        _ if word.is(KEEPS) => {
            !(safe || secret_store) || in_places("log logs git repo repository code readme commit")
        }
        _ => open && !safe && !secret_store,
    }
}

fn shows_secret(verb: &str) -> bool {
    is_one_of(verb, "echo echoing print printing log logging dump dumping")
}

fn is_one_of_places(reading: &Reading<'_>, secret: usize, table: &str) -> bool {
    reading.rest_of_clause(secret, 8).any(|next| is_one_of(reading.text(next), table))
}

/// Finds a secret that something says is kept: "secrets should be committed", "the password hardcoded in …".
fn find_kept(reading: &Reading<'_>, secret: usize) -> Option<usize> {
    if !is_secret(reading, secret) {
        return None;
    }
    // "The access key belongs in `values.yaml`."
    if is_one_of(reading.text(secret + 1), "belongs belong goes go lives live sits stays")
        && is_one_of(reading.text(secret + 2), "in into to on")
    {
        let mut places = reading.rest_of_clause(secret + 2, 4);
        let place =
            places.find(|next| is_open_place(reading, *next) || reading.words[*next].is(SAFE_PLACES))?;
        return (!reading.words[place].is(SAFE_PLACES)).then_some(place);
    }
    let kept = "committed hardcoded hard-coded stored saved written printed logged echoed pasted posted embedded baked inlined published dumped kept shared mailed emailed exposed uploaded checked world-readable public readable plaintext";
    let rest: Vec<usize> = reading.rest_of_clause(secret, 8).collect();
    let state = rest.iter().position(|next| is_one_of(reading.text(*next), kept))?;
    let modal = rest[..state]
        .iter()
        .any(|next| is_one_of(reading.text(*next), "must should can may shall be to is are"));
    let past =
        rest[..state].iter().any(|next| is_one_of(reading.text(*next), "was were been has had not never"));
    let inline = state == 0
        && is_one_of(
            reading.text(rest[0]),
            "hardcoded hard-coded inlined embedded committed world-readable public",
        );
    let safe = rest.iter().any(|next| {
        reading.words[*next].is(SAFE_PLACES) || is_one_of(reading.text(*next), "securely secret secrets")
    });
    (!past && !safe && (modal || inline)).then(|| rest[state])
}

fn is_secret(reading: &Reading<'_>, at: usize) -> bool {
    let word = &reading.words[at];
    let before = at.checked_sub(1).map_or("", |before| reading.text(before)).trim_end_matches("'s");
    let plural =
        word.text == "tokens" || word.text == "keys" || is_one_of(word.text, "certificate cert account file");
    let file = word.text.rsplit('/').next().is_some_and(|name| {
        let rest = name.strip_prefix(".env").map(|rest| rest.trim_start_matches(['.', '-', '_']));
        rest.is_some_and(|rest| {
            !is_one_of(rest, "example sample template dist test defaults schema vault ts d")
        }) || is_one_of(name, "id_rsa id_ed25519 .netrc .pgpass kubeconfig kubeconfig.yaml kubeconfig.yml")
            || [".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"]
                .iter()
                .any(|end| name.len() > end.len() && name.ends_with(end))
    });
    let named = word.is(SECRETS)
        || file
        || word.text == "token"
        || word.text == "key" && is_one_of(before, "the your this my our")
        || word.text == "key" && is_service_key(reading, at)
        || word.is(QUALIFIED)
            && is_one_of(before, QUALIFIERS)
            && !(plural && is_one_of(before, "session refresh ci"))
        || word.text.starts_with('$') && word.text.len() > 4 && is_secret_name(word.text)
        || word.text.contains('_') && is_secret_name(word.text);
    let next =
        reading.words.get(at + 1).filter(|next| next.gap & gap::ENDS == 0).map_or("", |next| next.text);
    named
        && !is_one_of(next, HARMLESS)
        && !is_one_of(before, "max no secret-less number fake dummy placeholder")
}

/// Words before "key" of data, of settings and of keyboards.
const OTHER_KEYS: &str = "primary foreign sort partition cache public map dictionary dict config json yaml toml translation index row lookup hot shift unique same missing new right correct wrong composite object first second last next idempotency routing message hash range enter escape return control alt answer i18n locale other another each every a an sorting grouping group join natural business surrogate s3 storage";

/// Returns `true` for "the Stripe key in the pull request": a key that has the name of a service and is put
/// where people talk.
fn is_service_key(reading: &Reading<'_>, at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map_or("", |before| reading.text(before));
    let named =
        is_one_of(before(2), "the your our my") && before(1).chars().all(|c| c.is_ascii_alphanumeric());
    named
        && !is_one_of(before(1), OTHER_KEYS)
        && reading.rest_of_clause(at, 5).any(|next| {
            is_one_of(reading.text(next), "pull pr comment comments issue ticket chat channel slack message readme gist repo repository wiki mail email")
        })
}

fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('$');
    let ends = [
        "token",
        "secret",
        "password",
        "passwd",
        "api_key",
        "apikey",
        "access_key",
        "private_key",
        "secret_key",
        "credentials",
        "credential",
    ];
    ends.iter().any(|end| name.ends_with(end)) && !name.starts_with("max")
}

fn is_open_place(reading: &Reading<'_>, at: usize) -> bool {
    let word = &reading.words[at];
    let name = word.text.rsplit('/').next().unwrap_or(word.text);
    let file = name.rsplit_once('.').is_some_and(|(_, end)| is_one_of(end, "md txt yml yaml json toml py js ts sh go rs java rb php ini cfg conf env log html xml properties ipynb tf tfvars"));
    word.is(OPEN_PLACES)
        || word.is("pull merge") && reading.text(at + 1) == "request"
        || file
        || word.is_address()
        || name.starts_with(".env")
        || word.text.starts_with('#')
        || name == "dockerfile"
}
