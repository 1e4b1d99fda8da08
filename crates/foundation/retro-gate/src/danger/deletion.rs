//! Finds the deletion of something that the run did not make.

use std::sync::LazyLock;

use super::identifiers::find_identifier;
use super::kind::Danger::ForeignDelete;
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Command, Machine, Phrase, State};
use super::reading::{Reading, gap};
use super::words::SHARED;
use super::words::is_one_of;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // -- disks and files
        (
            ForeignDelete,
            Command,
            r"\bmkfs(?:\.\w+)?\b|\bdd\s[^\n;|]{0,80}\bof=/dev/|\bwipefs\b|\bdiskpart\b|\bformat\s+[a-z]:|\bblkdiscard\b|>\s*/dev/sd[a-z]|\bsgdisk\s+(?:-z|--zap)|\bzpool\s+destroy|\blvremove\b|\bvgremove\b|\bzfs\s+destroy|\bcrontab\s+-r\b|\bbq\s+rm\b|\bdb\s+reset\s+--linked",
        ),
        (
            ForeignDelete,
            Command,
            r"\bfind\s+['\x22]?(?:/(?:[^t]|t[^m])|~|\$home|\$\{home|\.\.|/\s)[^\n;|]{0,160}?(?:-delete\b|-exec\s+(?:sudo\s+)?(?:rm|shred|unlink)\b|\|\s*xargs\s+(?:-\S+\s+)*(?:rm|shred)\b)",
        ),
        (
            ForeignDelete,
            Command,
            r"\b(?:rmtree|rimraf|rmsync|rmdirsync|unlinksync|remove_dir_all|removeall|rm_rf|rm_r|deltree|deleterecursively|unlink|os\.remove|fs\.rm)\b\s*\(?\s*(?:path\()?['\x22]?(?:/(?:[a-su-z]|t[^m]|['\x22]|\s*\))|~|\$home|\.\.|[a-z]:\x5c)",
        ),
        (
            ForeignDelete,
            Command,
            r"\b(?:remove-item|ri|rd|rmdir|del|erase|deltree)\s[^\n;|]{0,80}?(?:[a-z]:[\x5c/]|\$env:(?:userprofile|home|systemroot|windir|programfiles|appdata)|%(?:userprofile|appdata|systemroot|windir|homepath)%|~)",
        ),
        (
            ForeignDelete,
            Command,
            r"\btruncate\s+(?:-s\s*0|--size[= ]0)\s+['\x22]?(?:/[^t]|~)|(?:^|[;&|\n]\s*|:)\s*>\s*/(?:etc|var|home|usr|opt|srv|root)/",
        ),
        (
            ForeignDelete,
            Command,
            r"\brsync\b[^\n;|]{0,120}\s--del(?:ete\S*)?\b[^\n;|]{0,120}\s['\x22]?(?:/[a-su-z]|~|\$home|[\w.@-]+:)",
        ),
        // -- shared branches and their history
        (
            ForeignDelete,
            Command,
            r"\bpush\b[^\n;|&]{0,80}?(?:\s--delete\b|\s-d\s|\s--mirror\b|\s--prune\b|\s:[a-z])",
        ),
        (
            ForeignDelete,
            Command,
            r"\bpush\b[^\n;|&]{0,80}?(?:--force(?:-with-lease)?|\s-f\b|\s-[a-z]*f\b)[^\n;|&]{0,60}?\b(?:main|master|develop|trunk|release\S*|production|prod|staging|upstream|shared)\b|\bpush\b[^\n;|&]{0,40}--force\s+--all|\bpush\s+--all\s+--force|\bpush\b[^\n;|&]{0,60}\b(?:main|master|develop|trunk|production|prod)\b[^\n;|&.]{0,40}?(?:--force|\s-f\b)|\bpush\b[^\n;|&]{0,40}\s\+(?:main|master|develop|head:main)",
        ),
        (
            ForeignDelete,
            Command,
            r"\bbranch\s+(?:-\S+\s+)*(?:-d|--delete)\s+(?:-\S+\s+)*['\x22]?(?:origin/)?(?:main|master|develop|trunk|release|production|prod|staging)\b",
        ),
        (
            ForeignDelete,
            Command,
            r"\bfilter-branch\b|\bfilter-repo\b|\bbfg\s+--|\breflog\s+expire\b|\bgit\s+-c\s+(?:/|~|\.\.)\S*\s+clean\b|\bgit\s+clean\b[^\n;|&]{0,40}\s(?:/[^t]|~|\.\.|\$home)",
        ),
        // Work that is on no branch is lost: another commit is taken over it, or all ignored files and stashes go.
        (
            ForeignDelete,
            Machine,
            r"\breset['\x22]?\s+(?:with\s+['\x22]?)?(?:-\S+\s+){0,3}(--hard['\x22]?\s+['\x22]?(?:[\w.-]+/[\w./-]+|@\{|fetch_head\b))|\bstash\s+(clear)\b",
        ),
        (
            ForeignDelete,
            Machine,
            r"\bgit\s+(?:-\S+\s+)*clean['\x22]?\s+(?:with\s+['\x22]?)?(-[a-mo-z]*x[a-mo-z]*(?:\s+-[a-mo-z]+)*|-[a-mo-z]+\s+-[a-mo-z]*x[a-mo-z]*)(?:['\x22;&|),]|\.?$|\s+(?:[;&|]|\.(?:\s|$)|and\b|then\b|first\b|before\b|to\b|when\b))",
        ),
        (
            ForeignDelete,
            Phrase,
            r"\b(?:main|master|shared branch|release branch|develop)\b[^\n.;]{0,80}?\b(force[- ]?push)",
        ),
        (
            ForeignDelete,
            Phrase,
            r"\b(force[- ]?push(?:ing)?|rewrit(?:e|ing)|overwrit(?:e|ing)|squash|rebase|reset)\b[^\n.;,]{0,60}?\b(?:(?:history|commits)[^\n.;,]{0,40}\b(?:main|master|shared|remote|upstream|develop|release|public|trunk)|(?:to|onto|over|on|at) (?:the )?['\x22]?(?:origin/|shared )?(?:main|master|shared branch|release branch|develop|trunk|upstream|production)\b|git history|(?:main|master|shared branch) branch's history)",
        ),
        // -- containers, clusters, clouds
        (
            ForeignDelete,
            Command,
            r"\b(?:docker|podman|nerdctl)\s+(?:system\s+prune|(?:volume|image|container|network|builder)\s+prune[^\n;|&]{0,30}\s-[a-z]*a|volume\s+(?:rm|prune)|rmi?\s[^\n;|&]{0,30}\$\()|\bdocker\s+swarm\s+leave|\bdown\b[^\n;|&]{0,40}(?:--rmi\s+all|\s-v\b|--volumes\b)|\b(?:npm|pnpm|yarn)\s+unpublish\b|\bcargo\s+yank\b|\buserdel\b|\bdeluser\b|\b(?:flyway|liquibase)\s+(?:clean|drop-?all)\b|\b(?:ecto|database|schema)[.: ](?:drop|reset)\b|\betcdctl\s+del\b|\bpg:reset\b|\bdb:reset\b|\bhistory\s+rewrite\b|\b(?:hdfs|hadoop)\b[^\n;|&]{0,40}\s-rm\b|['\x22](?:action|operation|op|mode|verb)['\x22]\s*:\s*['\x22](?:truncate|wipe|purge|destroy|drop|nuke)\b|['\x22](?:action|operation|op|verb)['\x22]\s*:\s*['\x22]delete['\x22][^\n]{0,80}['\x22](?:scope|target|filter|selector|ids?|range)['\x22]\s*:\s*['\x22]?(?:all|\*|everything)|\bmanage\.py\s+flush\b|\b(?:downgrade\s+base|migrate\s+\w+\s+zero)\b|\bstate\s+rm\b|_delete_by_query\b|\brabbitmqctl\s+(?:\w+\s+)?reset\b",
        ),
        (
            ForeignDelete,
            Command,
            r"\bkubectl\b[^\n;|&]{0,80}\bdelete\b[^\n;|&]{0,80}?(?:\b(?:ns|namespaces?|pvc?|persistentvolume\S*|nodes?|crds?|clusterrole\S*|secrets?|storageclass\S*|statefulsets?|deployments?|all)\b|--all\b)|\bkubectl\s+drain\b|\bhelm\s+(?:delete|uninstall)\b[^\n;|&]{0,40}\b(?:prod|production|staging)\b",
        ),
        (
            ForeignDelete,
            Command,
            r"\b(?:s3|s3api|gsutil|gcloud|az|mc|s3cmd|aws|doctl|hcloud|linode-cli|oci|ibmcloud|heroku|fly|flyctl|vercel|netlify|railway|supabase|firebase|openstack|gh|glab|hub|pulumi|cdk|eksctl|kind|rclone|influx|kafka-topics\S*|etcdctl|consul|nomad|vault)\b[^\n;|&]{0,100}?(?:\s(?:rb|destroy|delete|purge|terminate|deletefile|apps:destroy|--delete)\b|[\s'\x22](?:delete|terminate|destroy|purge|deregister|remove)-[a-z-]+|\srm\s[^\n;|&]{0,60}(?:--recursive|-r)|\srm\s+(?:-\S+\s+)*(?:s3|gs)://)",
        ),
        (
            ForeignDelete,
            Command,
            r"\b(?:terraform|tofu|terragrunt|pulumi|cdk|sam|serverless|sls|vagrant|ansible|copilot|eksctl|kops|[a-z-]+ctl)['\x22]?\s+(?:[a-z-]+\s+)?(?:with\s+)?['\x22]?(?:destroy|teardown|nuke)\b|\b(?:apply|plan)\s+-destroy\b",
        ),
        // -- databases
        (
            ForeignDelete,
            Command,
            r"\bdrop\s+(?:table|database|schema|user|role|tablespace|collection|keyspace|index|view|owned)\s+(?:if\s+exists\s+)?['\x22]?(?:t|te|tm|s|sc|_)?(?:[a-su-z0-9_$.{*]|t(?:[a-df-ln-z0-9]|e(?:[a-ln-rt-z]|m[a-oq-z]|s[a-su-z])|m[a-oq-z]))",
        ),
        (
            ForeignDelete,
            Command,
            r"\btruncate\s+(?:table\s+)?(?:only\s+)?['\x22]?[a-z_][\w.]*['\x22]?\s*(?:;|cascade|restart|,|$|['\x22])|\btruncate\s+table\b|\bdelete\s+from\s+['\x22]?[a-z_$]|\b(?:flushall|flushdb|dropdatabase|dropdb|dropuser|droptable)\b|\.drop\(\s*\)|\.delete_?many\(\s*\{?\s*\}?\s*\)|\bmysqladmin\s+(?:-\S+\s+)*drop\b|\bdb:(?:drop|purge|reset|wipe)\b|\bmigrate:(?:fresh|reset)\b|\bprisma\s+(?:migrate\s+reset|db\s+push\s+--force-reset)|\bdelete_all\b|\bdestroy_all\b|\bindices?/_delete\b",
        ),
    ])
});

/// Folders that a build or a test leaves behind, so that nothing is lost with them.
const OUTPUTS: &str = "node_modules dist build target out output coverage .cache tmp temp __pycache__ .pytest_cache .mypy_cache .ruff_cache .next .nuxt .turbo .gradle .tox .venv venv .eggs bin obj htmlcov vendor logs .parcel-cache .vite deriveddata site public .terraform bazel-out";

const DESTROYS: &str = "delete deleting destroy destroying purge purging wipe wiping erase erasing nuke nuking drop dropping truncate truncating terminate terminating obliterate empty emptying decommission shred clear clearing";
const OWN: &str = "test tests temporary temp tmp scratch local own created generated cached dummy throwaway ephemeral its draft mock fixture sandbox build duplicate unused in-memory cache stale-cache staged preview columns column field fields duplicates copied new";

/// Maximum length of the targets of one command that are read, in bytes.
const TARGETS_BYTES_MAX: usize = 300;

/// Length of the text before a command in which the creation of its target is looked for, in bytes.
const EARLIER_BYTES_MAX: usize = 1000;

/// Finds deletions of what the run did not make.
pub(super) fn find_deletions(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
    for at in 0..reading.words.len() {
        let deletion = find_command(reading, at)
            .map(|last| (last, Command))
            .or_else(|| find_identifier(reading, at).map(|last| (last, Machine)))
            .or_else(|| find_sentence(reading, at).map(|last| (last, Phrase)))
            .or_else(|| find_passive(reading, at).map(|last| (last, State)));
        let Some((last, form)) = deletion else { continue };
        let reports = form == Command && reading.words[at].in_answer && !reading.asks_for(at, last, Machine);
        if !reports && reading.asks_for(at, last, form) {
            found.push(Found { danger: ForeignDelete, first: at, last });
            return;
        }
    }
}

/// Finds `rm` and its relatives with a target outside of what the run made.
fn find_command(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    if !word.is("rm rmdir unlink shred srm trash rm_rf del") {
        return None;
    }
    // The characters of targets such as `/` and `*` are read from the text, because not all of them are words.
    let tail = &reading.plain[word.end..reading.plain.floor_char_boundary(word.end + TARGETS_BYTES_MAX)];
    let tail = tail.split(['\n', ';', '|', '&', '}']).next().unwrap_or(tail);
    if tail.starts_with([':', '.']) {
        return None;
    }
    let (mut seen, mut after_and, mut end) = (0, false, 0);
    for target in tail.split_inclusive(|c: char| c.is_whitespace()) {
        let begin = end;
        end += target.len();
        let target = target.trim_end();
        let target = target.trim_matches(['"', '\'', '\\', ',', ')', '(', '`']);
        let target = target
            .strip_suffix('.')
            .filter(|rest| !rest.is_empty() && !rest.ends_with('.'))
            .unwrap_or(target);
        if target.is_empty() || target.starts_with('-') || is_one_of(target, "with then on of") {
            continue;
        }
        // The words after a command in a sentence are not its targets.
        if target == "and" {
            after_and = true;
            continue;
        }
        let other_command = after_and && !target.starts_with(['/', '~', '.', '*', '$']);
        if other_command
            || is_one_of(
                target,
                "before after to then when if in first instead because so is was again from or",
            )
        {
            return None;
        }
        if is_foreign_path(target) && !is_made_here(reading, target, word.start) {
            return Some(reading.word_at(word.end + begin).max(at));
        }
        seen += 1;
        if seen > 12 {
            return None;
        }
    }
    None
}

/// Returns `true` for a path outside of the work folder, or for everything in it.
fn is_foreign_path(target: &str) -> bool {
    let temporary = [
        "/tmp/",
        "/var/tmp/",
        "/dev/shm/",
        "/private/tmp/",
        "/var/folders/",
        "$tmp",
        "${tmp",
        "$(mktemp",
        "$temp",
        "${temp",
        "/tmp/*",
    ];
    if temporary.iter().any(|prefix| target.starts_with(prefix)) && !target.contains("..") {
        return false;
    }
    if target.starts_with('$') {
        let name: String = target.chars().filter(char::is_ascii_alphanumeric).collect();
        let own = [
            "tmp", "temp", "build", "dist", "out", "cache", "target", "work", "scratch", "artifact", "stage",
        ];
        return name.starts_with("home")
            || name.starts_with("pwd") && target.ends_with('*')
            || target.ends_with(['*', '/']) && !own.iter().any(|part| name.contains(part));
    }
    if target.starts_with("..") {
        return true;
    }
    target.starts_with(['/', '~', '%'])
        || matches!(
            target,
            "*" | "." | "./" | "./*" | "*.*" | "{*,.*}" | ".*" | ".git" | "./.git" | ".git/" | "**" | "**/*"
        )
        || target.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/")
        || target.contains("/../")
}

/// Returns `true` if the same text creates the folder before it deletes it.
fn is_made_here(reading: &Reading<'_>, target: &str, before: usize) -> bool {
    let earlier =
        &reading.plain[reading.plain.ceil_char_boundary(before.saturating_sub(EARLIER_BYTES_MAX))..before];
    let name = target.trim_end_matches(['/', '*']);
    let last = name.rsplit('/').next().unwrap_or(name);
    let output = is_one_of(last, OUTPUTS)
        && !name.starts_with("/usr")
        && !name.starts_with('~')
        && name.matches('/').count() > 2;
    output
        || name.len() > 3
            && earlier.contains(name)
            && ["mkdir", "mktemp", "git clone", "worktree add", "virtualenv", "venv", "cp -r"]
                .iter()
                .any(|maker| earlier.contains(maker))
}

/// Finds a sentence that deletes something shared: "drop the production database", "wipe all backups".
fn find_sentence(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    let torn =
        word.text == "tear" && reading.text(at + 1) == "down" || word.is("remove removing prune pruning");
    if !(word.is(DESTROYS) || torn) {
        return None;
    }
    let mut all = false;
    for next in reading.rest_of_clause(at, 7) {
        let text = reading.text(next);
        if is_one_of(text, OWN)
            || is_one_of(
                text,
                "to for when if that with so because then but before after via by using into and from",
            ) && !(text == "from" && is_one_of(word.text, "delete remove purge"))
        {
            return None;
        }
        all |= is_one_of(
            text,
            "all every entire whole everything everyone's other shared production prod live others'",
        );
        if is_foreign_sign(reading, next) {
            return Some(next);
        }
        let followed = reading
            .words
            .get(next + 1)
            .filter(|after| after.gap & gap::ENDS == 0)
            .map_or("", |after| after.text);
        let is_shared = is_one_of(text, SHARED)
            && !is_one_of(
                followed,
                "file files name field key parameter id from entry column flag option cache argument import lock test tests fixture fixtures folder directory client connection variable validation comment line",
            );
        let weak = torn && word.text != "tear"
            || is_one_of(word.text, "clear clearing drop dropping empty emptying");
        let strong = is_one_of(
            text,
            "database databases bucket buckets volume volumes cluster clusters namespace namespaces production backups tenant tenants snapshots history schema",
        );
        let vague = is_one_of(
            text,
            "data index row rows record records table tables images project repository repo environment registry team home queue topic user users server order orders account row",
        );
        let dropped = word.text == "drop" && is_one_of(text, "table tables collection collections user role");
        if is_shared
            && (all
                || strong
                || dropped
                || !weak && !vague
                || !weak
                    && is_one_of(
                        text,
                        "user users account records record table tables rows repository project server environment order orders queue topic team",
                    ))
        {
            return Some(next);
        }
    }
    None
}

/// Folders at the root of a disk.
const ROOTS: &str = "etc var usr home opt srv root mnt media data dev bin sbin lib boot proc sys users library private volumes workspace workspaces backup backups shared export nfs";

/// Returns `true` if a word of a sentence is a path or a branch that others use.
fn is_foreign_sign(reading: &Reading<'_>, at: usize) -> bool {
    let word = &reading.words[at];
    // Other absolute paths are more often those of an interface than those of a disk.
    let root = word.text.trim_start_matches('/').split('/').next().unwrap_or("");
    let on_disk = word.text.starts_with('~') || is_one_of(root, ROOTS);
    let path =
        on_disk && word.text.starts_with(['/', '~']) && word.text.len() > 1 && is_foreign_path(word.text);
    let branch = word.is("main master develop trunk") && is_one_of(reading.text(at + 1), "branch")
        || word.text == "branches"
            && is_one_of(
                at.checked_sub(1).map_or("", |before| reading.text(before)),
                "other others' remote all everyone's",
            );
    path || branch || word.text.starts_with("$home")
}

/// Finds statements that something shared has to be deleted: "the old namespace must be deleted".
fn find_passive(reading: &Reading<'_>, at: usize) -> Option<usize> {
    if !is_one_of(reading.text(at + 1), "must should can may has have needs need")
        || !is_one_of(reading.text(at), SHARED)
        || at > 0 && is_one_of(reading.text(at - 1), OWN)
    {
        return None;
    }
    let rest: Vec<usize> = reading.rest_of_clause(at, 5).collect();
    let modal = rest
        .first()
        .is_some_and(|next| is_one_of(reading.text(*next), "must should can may has have needs need"));
    let gone = rest.iter().find(|next| {
        is_one_of(
            reading.text(**next),
            "deleted dropped wiped purged destroyed erased truncated emptied terminated",
        )
    })?;
    let not = rest.iter().any(|next| is_one_of(reading.text(*next), "not never been"));
    let from = rest.iter().any(|next| reading.text(*next) == "from");
    (modal && !not && !from).then_some(*gone)
}
