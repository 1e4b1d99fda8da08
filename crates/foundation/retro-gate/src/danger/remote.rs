//! Finds content of an address that is run, and packages that come from an explicit address.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::kind::Danger::{PackageAddress, RemoteContent};
use super::kind::Found;
use super::patterns::{Pattern, compile, find_patterns};
use super::polarity::Form::{Command, Machine, Phrase};
use super::reading::{Reading, gap};
use super::words::is_one_of;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // -- piped: an interpreter with a program of its own (`python -m json.tool`) only reads the content
        (
            RemoteContent,
            Command,
            r"(?:\bFETCH\b|URL)[^\n;]{0,300}?\|&?\s*(?:[^\n;|]{0,80}\|\s*)?PREFIX(?:xargs\s+(?:-\S+\s+)*)?SHELL(?:\s+-[a-z]*s?\b|\s*(?:[)'\x22;&|>}\x5c,.]|$|\n)|\s+-|\s+(?:and|to|then|in|on|before|after|when|for|as|which|from|because|if|so|instead)\b)",
        ),
        (
            RemoteContent,
            Command,
            r"(?:\bFETCH\b|URL)[^\n;]{0,300}?\|&?\s*PREFIXCODE(?:\s*(?:[)'\x22;&|>}\x5c,.]|$|\n)|\s+-(?:\s|['\x22]|$)|\s+(?:and|to|then|in|on|before|after|when)\b|\s+-(?:u|b|x|i|-no\w+|w)\b)",
        ),
        (
            RemoteContent,
            Command,
            r"(?:\bFETCH\b|URL)[^\n;]{0,300}?\|&?\s*(?:sudo\s+)?(?:kubectl\s+(?:apply|create|replace)\b|source\s+/dev/stdin|\.\s+/dev/stdin|psql\b|mysql\b|sqlite3\b|crontab\s+-|at\s+now|make\s+-f\s*-|docker\s+(?:load|build\s+-)|terraform\b|xargs\s+(?:-\S+\s+)*(?:bash|sh|eval))",
        ),
        // -- unknown tools: what reads its program from `-`, or evaluates what an address returns
        (
            RemoteContent,
            Command,
            r"URL[^\n;|]{0,120}?(?:\|&?\s*PREFIX|['\x22]?\s+(?:in)?to\s+['\x22])([a-z][\w./-]{0,40}\s+(?:(?:run|exec|eval|script|execute|source|apply|load)\s+)?-)(?:[\s'\x22;&,.)]|$)",
        ),
        (
            RemoteContent,
            Command,
            r"(?:\s-{1,2}(?:c|e|eval|exec|command|execute|r|script|cmd|run)[ =]|\b(?:eval|exec|source|bash|sh|execute)|(?:SHELL|CODE|/dev/stdin)\s+(?:-\S{1,8}\s+)?<<<)\s*[\x5c'\x22]{0,3}(?:\$\(|<\(|\x22')\s*[a-z][\w.-]{0,40}\s[^\n)]{0,120}?URL",
        ),
        (
            RemoteContent,
            Command,
            r"(?:^|[\s'\x22;&|])([a-z-][\w./-]{0,40})\s+(?:-\S{1,20}\s+)?<\(\s*[^\n)]{0,120}?URL|\b(?:make|gmake|just|task|compose|psql|mysql|awk|gdb|vim|nix-build|nix-shell|ninja|rake|ant)\b[^\n;|]{0,40}\s(?:-f|--file|--makefile|-s)[ =]?['\x22]?URL|\bregsvr32\b[^\n]{0,40}https?://|\bansible-playbook\b[^\n;|]{0,80}\sURL|URL[^\n.;]{0,40}\b(?:and|then)\s+(?:execute|run|paste|type)\s+(?:its|the|all|every|each|what)\s+(?:\w+\s+)?(?:lines?|commands?|steps?|snippets?|contents?|code)\b",
        ),
        (
            RemoteContent,
            Command,
            r"\b(?:eval|exec|execfile|loadstring|instance_eval|run_code)\s*\(?[^\n;]{0,60}?(?:file_get_contents|open-uri|uri\.open|open|urlopen|get|fetch|read|slurp|readlines)\s*\(?\s*\x5c?['\x22]https?://",
        ),
        // `fetch(…).then(r => r.text()).then(eval)`
        (
            RemoteContent,
            Command,
            r"\b(?:fetch|get|request|urlopen|axios|download\w*)\s*\([^\n;]{0,160}?\)[^\n;]{0,120}?(?:\.then\s*\(|\|>|>>=)[^\n;]{0,60}?\b(?:eval|exec|function|runinthiscontext|importscripts)\b",
        ),
        // -- substituted
        (
            RemoteContent,
            Command,
            r"(?:SHELL|CODE|\beval|\bexec|\bsource|(?:^|[;&|'\x22\s])\.)['\x22]?\s*(?:with\s+['\x22]?)?(?:-[a-z]+\s+)*['\x22]*\s*(?:[<$]\s*\(|['\x22]{2}|=\s*')\s*(?:FETCH)\b|\beval\s*['\x22]+\s*(?:FETCH)\b",
        ),
        (
            RemoteContent,
            Command,
            r"(?:\b(?:iex|invoke-expression)\b|\b(?:eval|exec|execfile|loadstring|runinthiscontext|new function)\s*\()[^\n]{0,120}?(?:https?://|downloadstring|invoke-webrequest|invoke-restmethod|\biwr\b|\birm\b|urlopen|requests\.get|fetch\s*\(|urllib|http\.get|net/http|\bcurl\b|\bwget\b)",
        ),
        (RemoteContent, Command, r"[<$]\(\s*(?:FETCH)\b[^\n)]{0,300}\)\s*['\x22]?\s*\|\s*(?:SHELL|CODE)"),
        (
            RemoteContent,
            Command,
            r"\s['\x22]?(?:-f|--file|--config|--script|--env-file)[ =]+<\(\s*(?:FETCH)\b|-from-module[= ]URL",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(run|execute|eval|evaluate|interpret|treat)\b[^\n.;]{0,80}\b(?:response|output|content|contents|body|result|download|page)\b[^\n;]{0,80}\bas (?:a |an )?(?:shell )?(?:code|script|program|commands?)\b",
        ),
        (
            RemoteContent,
            Command,
            r"(?:^|&&|;|\n)\s*(?:\$\(|')\s*(?:curl|wget)\s[^\n)']{0,300}[)']\s*(?:$|\n|;|&)",
        ),
        // -- run, imported or applied from an address
        (
            RemoteContent,
            Command,
            r"\b(?:SHELL|CODE|run|exec|execute|source|eval|apply|rundll32|mshta|regsvr32|msiexec|npx|bunx|dlx|uvx|execfile|include_once|include\s*\(|require\s*\(|importscripts|import|importmodule|load_script|playbook)['\x22]?\s*(?:run\s+)?(?:(?:-[\w-]+|--[\w-]+=\S+|with|y|script|code|module|file|install)\s+){0,4}['\x22(]{0,3}(?:-f\s+|-k\s+|-i\s+|/i\s*:?)?['\x22(]{0,2}(?:git\+|github:)?(?:https?|ftp|git|s3|gs|ssh)://",
        ),
        (
            RemoteContent,
            Command,
            r"\b(?:apply|create|replace)\b[^\n;|]{0,60}?\s(?:-f|-k|--filename|--kustomize)[ =]['\x22]?URL|\b(?:npx|bunx|dlx|nix\s+run|nix\s+shell|pipx\s+run|uvx)['\x22]?\s+(?:with\s+)?(?:--?\w[\w-]*\s+){0,3}(?:--from\s+|--spec\s+)?['\x22]?(?:github:|gitlab:|git\+|URL|[a-z0-9-]+\.[a-z]{2,6}/)",
        ),
        (
            RemoteContent,
            Command,
            r"\b(?:import|export)\b[^\n;]{0,120}?\bfrom\s*['\x22]https?://|\bimport\s*\(\s*['\x22]https?://|<script[^>]{0,120}src\s*=\s*['\x22]?(?:https?:)?//",
        ),
        (
            RemoteContent,
            Command,
            r"\b(?:docker|podman|buildah|nerdctl)\s+(?:buildx\s+)?build\b[^\n;|]{0,120}URL|\bansible-pull\b[^\n]{0,80}(?:-u|--url)|\bpsql\b[^\n]{0,80}-f\s+<\(",
        ),
        (RemoteContent, Command, r"\bgo\s+run\s+(?:-\S+\s+)*[a-z0-9-]+(?:\.[a-z0-9-]+)+/[^\s'\x22]+@"),
        (
            RemoteContent,
            Machine,
            r"['\x22]?\b[a-z_.-]*(?:script|exec|execute|bootstrap|entrypoint|playbook|userdata|user_data|startup|postinstall|on_?start|run|command|hook)[a-z_]*(?:_?url|_?uri|_?from|_?src|_?source|)['\x22]?\s*[:=]\s*['\x22]?https?://",
        ),
        // -- in prose
        (
            RemoteContent,
            Phrase,
            r"\b(pip(?:e|es|ing)|feed(?:ing)?|stream(?:ing)?|pass(?:ing)?|send(?:ing)?|redirect(?:ing)?)\b[^\n.;]{0,120}?(?:URL|ADDRESS|FETCH|response|download(?:ed)?|remote|url|web|script|installer|setup)[^\n;]{0,80}?\b(?:in)?to\s+(?:a |an |the |your )?(?:root |login )?['\x22]?(?:SHELL|CODE|shell|interpreter|terminal|eval|exec)\b",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(run|running|execut(?:e|ing)|eval(?:uate)?|source|sourcing|launch|launching|start|import|importing|apply|applying)\b\s+(?:[a-z0-9_'.-]+\s+){0,4}?(?:script|scripts|code|installer|setup|file|files|binary|program|module|modules|manifest|manifests|playbook|tool|commands?|it|them|snippet|gist|payload|job|plugin|profile|patch|macro|function|notebook|agent|helper|hook|template|steps|helm chart|workflow|query|sql|migration)\s+(?:(?:it|you|they|we) \w+ )?(?:straight |directly |downloaded |fetched |that is |which is )?(?:(?:hosted |served |published |available |found |located )?(?:at|from|under|behind)|hosted on|served by|returned by)\s+['\x22(]?(?:the )?(?:url |address |link |gist |site |page |host )?['\x22(]?(?:URL|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|(?:[a-z0-9-]{1,40}\.){1,4}[a-z]{2,8}/[^\s])",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(run|running|execut(?:e|ing)|eval(?:uate)?|source|sourcing|launch|apply|install)\b\s+(?:the |a |an |this |that |its |whatever |what |everything |any )?(?:[a-z'-]+\s+){0,3}?(?:script|code|installer|binary|content|contents|output|response|result|commands?|payload|snippet|program|instructions)?\s*(?:that |which )?(?:the |it |an? )?(?:url|address|server|site|endpoint|link|page|gist|webpage|website|host|response|pastebin)\b\s*(?:returns|serves|sends|gives|answers|responds|prints|hosts|contains|provides|says)\b",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(curl|wget|fetch|download|downloading|grab|pull|get|retrieve|retrieving|save|load)\b[^\n]{0,200}?(?:URL|ADDRESS|internet|\bweb\b|website|script|installer|binary|url|remote|bootstrap|setup)[^\n]{0,160}?(?:,|\band\b|\bthen\b|[.;]|&&|\bafterwards\b|\bbefore\b)\s*(?:and |then |it is |make it executable and |chmod it and |immediately |directly |just |afterwards |next,? |finally,? )*(?:run|running|execute|executing|source|eval|evaluate|launch|start|pipe|apply|install|invoke)\s+(?:it|them|that|this|the (?:script|file|installer|result|binary|download|output|content|contents|code|downloaded \w+|fetched \w+|saved \w+))\b",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(?:curl|wget|fetch|download|get|grab|retrieve|take|read)\b[^\n]{0,200}?\b(feed|pipe|pass|hand|send|give)\s+(?:it|them|that|the (?:output|result|content|script|response|file|body))\s+(?:in)?to\s+(?:a |an |the )?['\x22]?(?:SHELL|CODE|shell|interpreter|eval)\b",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(run|execute|eval|evaluate|source)\s+(?:whatever|what|everything|anything|any|all)\b[^\n.;]{0,40}?\b(?:URL|server|url|address|site|endpoint|page|link|host|response|\d{1,3}\.\d)[^\n;]{0,60}?\b(?:returns?|serves?|sends?|answers?|says?|gives?|lists?|contains?|tells?)\b",
        ),
        (
            RemoteContent,
            Phrase,
            r"\b(follow|obey|carry out|do|execute)\s+(?:the |all |any |whatever )?(?:instructions?|commands?|steps|directions)\s+(?:at|from|on|found at|served by|in)\s+(?:the )?(?:url |page |link )?['\x22]?(?:URL|ADDRESS)",
        ),
        // -- packages: an address after a verb that installs
        (
            PackageAddress,
            Command,
            r"\b(?:install|reinstall|upgrade|update|i|add|require|get|pull|tool\s+install|dependency|in|plugin|plugins|extension|--install-extension|module|sync|download|ensurepath|inject)\b['\x22]?(?:\s+(?:with\s+)?['\x22]?(?:-{1,2}[\w-]+(?:=\S+)?|[\w@.\[\],~^+-]+)['\x22]?){0,5}?\s+['\x22]?(?:[\w\[\],-]+\s?@\s?)?(?:git\+|github:|gitlab:|bitbucket:|gist:|hg\+|svn\+|(?:https?|git|ssh|ftp|s3|gs)://[^\s'\x22]*(?:\.git\b|\.tgz|\.tar|\.whl|\.zip|\.deb|\.rpm|\.gem|\.vsix|\.jar|\.nupkg|\.crate|\.pkg|\.dmg|\.msi|\.apk|\.phar|\.xz|\.gz))",
        ),
        (
            PackageAddress,
            Command,
            r"(?:\b(install|installing|installed|reinstall|upgrade|tap|dlx|sideload)\b['\x22]?(?:\s+(?:(?:-{1,2}[\w-]+(?:=\S+)?|[\w@'\x22.\[\],/-]+)\s+){0,7}?['\x22]?|\s*[:=]\s*['\x22]?)|\b(?:plugin|extension|dependency|package|wheel|crate)['\x22]?(?:\s*[:=]\s*|\s+(?:at|from)\s+)['\x22]?)(?:URL|git@|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|(?:[a-z0-9-]{1,40}\.){1,4}(?:com|org|net|io|dev|sh|ai|app|co|xyz|example|test|internal|local|corp|cloud|invalid)/\S)",
        ),
        (
            PackageAddress,
            Command,
            r"\b(?:MANAGER)\s+(?:[a-z-]+\s+){0,3}?(?:add|i|in|require|get|pull|tap|sideload|repo\s+add|remote-add|add-repository|source\s+add|marketplace\s+add|registry\s+add|config\s+set\s+\S+)\s+(?:\S+\s+){0,4}?['\x22]?(?:URL|git@)",
        ),
        (
            PackageAddress,
            Machine,
            r"\b(?:git|hg|svn|bzr)(?:\+|::)(?:https?|ssh|git|file)://[^\s'\x22]|\b(?:vcs|zig\s+fetch\b[^\n;|]{0,40}|nix\s+flake\s+\w+\s+\S*|source['\x22]?\s*[:=]\s*['\x22]?git::)\s+['\x22]?URL",
        ),
        (
            PackageAddress,
            Command,
            r"\b(?:npm|yarn|pnpm|bun)\s+(?:i|install|add)\s+(?:-\S+\s+){0,3}[a-z0-9][\w-]{0,60}/[\w.-]{1,60}(?:['\x22\s;&]|$)|\b(?:package|wheel|plugin|module|extension|library|cli)s?\b[^\n.;]{0,30}\b(?:is|are|lives?|sits)\s+(?:on|at|in)\s+['\x22]?URL[^\n]{0,40}\b(?:install|get|take|fetch)\b|\bpkg\.(?:add|develop)\s*\([^\n)]{0,80}?URL|\binstall_(?:github|gitlab|git|url|bitbucket)\s*\(|\bmod\s+edit\s+(-replace[= ]\S{1,120}=[a-z0-9-]+(?:\.[a-z0-9-]+)+/)|\b(?:point|pointing|switch|redirect)\s+(?:the )?['\x22]?[\w.-]{1,40}['\x22]?\s+(?:at|to)\s+['\x22]?https?://[\w./-]{0,60}(?:mirror|registry|index|proxy|pypi|npm|repo|package|charts|artifact|nexus|maven|crates|gems)|\bmirror\.https?://[^\s'\x22]{1,200}\s+['\x22]?https?://|\b(?:apply|create|replace)\b[^\n;|]{0,60}?\s(?:-f|-k|--filename|--kustomize)[ =]['\x22]?URL|[\w]::(?:https?|git|ssh)://|\b(?:maven|ivy|repositor(?:y|ies)|mirrors?|resolvers?|pluginrepositor\w*)\b['\x22]?\s*(?:\{|>|\+=|\[|:=|\()[^\n]{0,120}?URL|\b(?:MANAGER|rpm|dpkg|pkg_add|installer)\s+-[a-z]+\s+(?:\S+\s+){0,2}?['\x22]?URL",
        ),
        (
            PackageAddress,
            Phrase,
            r"\b(use|using|take|install|try|prefer)\s+(?:[a-z'-]+ ){0,3}?(?:fork|tarball|wheel|snapshot build)\s+(?:at|from|on|in)\s+['\x22(]?HOST",
        ),
        (
            PackageAddress,
            Machine,
            r"(?:\b(?:dev-?|peer|optional)?_?(?:dependenc(?:y|ies)|requirements|packages)['\x22]?\s*[:=]\s*[\[{][^\n]{0,160}?|(?:^|[\s{,:'\x22])git['\x22]?\s*(?:=>|=|:)\s*)['\x22]URL",
        ),
        (
            PackageAddress,
            Command,
            r"(?:^|['\x22&|;:]\s*)([a-z][a-z0-9_-]+)\s+(?:[a-z-]+\s+)?add\s+(?:-\S+(?:\s+\w+)?\s+){0,3}(?:[\w.-]+\s+)?['\x22]?URL",
        ),
        (
            PackageAddress,
            Phrase,
            r"\b(use|using|set|add|take|switch to|try)\s+(?:[a-z'-]+ ){0,3}?(?:index|registry|mirror|(?:package|apt|yum|helm|maven|npm|plugin|pip|gem|chart) (?:repository|repo|source))\s+['\x22(]?HOST|\b(point|pointing|set|switch|configure)\s+(?:the )?['\x22]?MANAGER['\x22]?\s+(?:at|to)\s+(?:use )?['\x22]?HOST",
        ),
        (
            PackageAddress,
            Command,
            r"\bbrew\s+tap\s+[a-z0-9_-]+/[a-z0-9_-]+|\b(?:add-apt-repository|apt-add-repository)\b|\bppa:[a-z0-9]|\bdeb\s+(?:\[[^\]\n]{0,120}\]\s+)?https?://|--add-repo\b|\bcopr\s+enable\b|\b(?:helm|flatpak|dnf|zypper|yum|conda|opam|nuget|cargo)\b[^\n;|]{0,40}\b(?:repo(?:sitory)?[- ]add|remote-add|addrepo|ar|sources?\s+add|add\s+source)\b[^\n;|]{0,80}://",
        ),
        // -- an index, a registry or a mirror that is given an address
        (
            PackageAddress,
            Machine,
            r"(?:\b|-d|-|_)(?:index|registry|registries|mirrors?|repos|remote_?repositories|find[-_]?links|goproxy|registry_?server|package_?source|plugin_?repository)(?:[-_]?(?:url|urls|uri|base|server|host|address))?['\x22]?\s*(?:=>|=|:)[\s'\x22\[]*(?:sparse\+)?HOST",
        ),
        (
            PackageAddress,
            Machine,
            r"(?:(?:--|\bset\s+['\x22]?|[._])[a-z0-9_.:/-]{0,40}?(?:index|registry|mirror|find[-_]links|goproxy|registryserver)(?:[-_]?(?:url|base|server|host))?\b['\x22]?\s+(?:to\s+|with\s+)?|\b(?:index|registry|mirror)(?:[-_ ]?(?:url|host))?['\x22]?\s+(?:to|as)\s+)['\x22]?(?:sparse\+)?HOST",
        ),
        (
            PackageAddress,
            Command,
            r"\b(?:install|add|restore|upgrade|update|require|pip|gem|nuget|conda|helm|packages?)\b[^\n;|]{0,160}?\s(?:-i|-s|-c|--?repo|--?repository|--?source|--?sources|--channel|--feed|--from|--origin|--registry|-f|--git|--server|--server-url|--url|--tarball|--archive|--path-url|--remote)[ =]['\x22]?(?:URL|git@)",
        ),
        (
            PackageAddress,
            Phrase,
            r"\b(install|installing|add|adding|pull|pulling|use|using|fetch|switch|switching|upgrade|reinstall|vendor|point|pointing|works?|needs)\b[^\n.;]{0,100}?\b(?:packages?|dependency|dependencies|librar(?:y|ies)|modules?|plugins?|extensions?|crates?|gems?|wheels?|chart|index|registry|mirror|(?:package|apt|yum|helm|maven|npm|plugin|pip|gem) (?:repository|repo|source)|tap|ppa)\b[^\n.;]{0,60}?\b(?:from|at|on|to|via|through|with|of)\s+(?:the |its |a |an |our |their |my )?(?:[a-z'-]+ ){0,4}?['\x22(]?HOST",
        ),
        (
            PackageAddress,
            Phrase,
            r"\b(install|installing|reinstall|upgrade|sideload)\b[^\n.;]{0,60}?\b(?:from|at|via|through)\s+(?:[a-z'-]+ ){0,5}?['\x22(]?HOST",
        ),
        (
            PackageAddress,
            Phrase,
            r"\b(install|installing|add|pull)\b[^\n.;]{0,80}?\b(?:straight |directly )?from\s+(?:the |its |a |an |this |that |my |our |their )?(?:[a-z-]+ ){0,2}?(?:tarball|fork|git repository|git repo|git url|git branch|git|url|private mirror|mirror|third-party (?:repository|registry|index))\b",
        ),
        (
            PackageAddress,
            Command,
            r"\b(?:add|enable|use)\s+(?:the |a |this |our |their )?(?:[\w'-]+ ){0,3}?(?:ppa|tap|third-party repository|package repository|apt repository|yum repository|copr)\b",
        ),
    ])
});

/// Finds content of addresses that is run, and packages from addresses.
pub(super) fn find_remote(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
    if let Some((first, last)) = find_saved_then_run(reading)
        && reading.asks_for(last, last, Command)
    {
        found.push(Found { danger: RemoteContent, first, last });
        let installs = (last.saturating_sub(4)..last).any(|word| {
            is_one_of(reading.text(word), "dpkg rpm install installer msiexec --install-extension")
        });
        if installs {
            found.push(Found { danger: PackageAddress, first, last });
        }
    }
}

/// Matches what fetches, so that a file which is named after it holds the content of an address.
static FETCHES: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\bFETCH\b|\b(?:download|downloads|downloading|grab|retrieve|clone)\b|URL"));

/// Verbs and interpreters that run the file after them.
const RUNNERS: &str = "sh bash zsh dash ksh fish ash python python3 perl ruby node deno bun php lua source . run install running execute executing exec eval launch start chmod sudo powershell pwsh import load installer dpkg rpm msiexec java start-process invoke-item";

/// Maximum number of words after an address in which the file that it is saved to is looked for.
const SAVED_WORDS_MAX: usize = 60;

/// Finds a file that is fetched and later run, also in two sentences. Returns the word that fetches and the
/// word that runs.
fn find_saved_then_run(reading: &Reading<'_>) -> Option<(usize, usize)> {
    let begin = reading.word_at(FETCHES.find(reading.plain.as_bytes())?.start());
    let end = reading.words.len().min(begin + SAVED_WORDS_MAX);
    let mut saved: Vec<&str> = Vec::new();
    for at in begin..end {
        let name = file_name(reading.text(at));
        let begins_command = at > 0 && reading.words[at].gap & (gap::SHELL | gap::STOP) != 0;
        let runs_itself =
            reading.text(at).starts_with("./") || begins_command && reading.text(at).contains('/');
        let run = runs_itself
            || (at.saturating_sub(3)..at).rev().any(|before| {
                let option = (before + 1..at).all(|between| {
                    reading.words[between].is_option()
                        || is_one_of(reading.text(between), "+x 755 u+x a+x 0755 777 -i the script file with")
                });
                option && is_one_of(reading.text(before), RUNNERS)
            });
        // A program within a clone, such as `./tools/install.sh`.
        let within = run
            && reading.text(at).contains('/')
            && reading
                .text(at)
                .split('/')
                .any(|part| !part.is_empty() && part != "." && saved.contains(&part));
        if run && saved.contains(&name) || within {
            return Some((begin, at));
        }
        let is_target = is_saved_to(reading, begin, at);
        if is_target && !name.is_empty()
            || (name.len() > 1 || reading.words[at].is_address() && !name.is_empty())
                && (reading.text(at).contains(['.', '/'])
                    || at > 0 && is_one_of(reading.text(at - 1), "to as into"))
        {
            // An archive is often unpacked to a folder of its name.
            if let Some((stem, _)) = name.split_once(".t").or_else(|| name.split_once(".zip")) {
                saved.push(stem);
            }
            saved.push(name.strip_suffix(".git").unwrap_or(name));
        }
    }
    None
}

/// Returns `true` if a command that fetches saves to the word `at`: it is the value of an option for the output,
/// the target of `>`, or the last argument of a command that copies.
fn is_saved_to(reading: &Reading<'_>, fetch: usize, at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| &reading.words[before]) else { return false };
    let word = &reading.words[at];
    // Short options are joined: `-fsSLo x`.
    let output = is_one_of(before.text, "--output --output-document --out-file -outfile --dest --out")
        || before.text.len() <= 8
            && before.text.starts_with('-')
            && !before.text.starts_with("--")
            && before.text.ends_with('o');
    let redirected = reading.plain[before.end..word.start].trim_end().ends_with('>');
    let same_command =
        (fetch..=at).skip(1).all(|word| reading.words[word].gap & (gap::STOP | gap::SHELL) == 0);
    let copies =
        (fetch.saturating_sub(1)..at).any(|word| is_one_of(reading.text(word), "clone scp rsync cp"));
    let remote = before.is_address()
        || before.text.contains(':')
        || reading.plain[before.end..word.start].starts_with(":/");
    let ends = reading.words.get(at + 1).is_none_or(|next| next.gap & (gap::SHELL | gap::STOP) != 0);
    !word.is_option()
        && (output || redirected || copies && same_command && ends && (remote || !word.is_address()))
}

fn file_name(text: &str) -> &str {
    let path = text.split(['?', '#']).next().unwrap_or(text);
    path.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or(path)
}
