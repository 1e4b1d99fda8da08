# Names the agent's run in the message of every commit that it makes: Retro-Run: <workflow>/<run>, and beside it
# Retro-Prompt-Version. Without RETRO_RUN_ID it does nothing. It needs git and a shell, not the program retro, and whatever
# goes wrong here, the commit goes on with its message as it was.
#
# This hook and not commit-msg, since agents like to pass --no-verify, which leaves that one out.

# The hook that was here before; what it says of the commit holds.
before="${0%/*}/prepare-commit-msg.before-retro"
if [ -x "$before" ]; then
    "$before" "$@" || exit
fi

# A name as the program takes it, which a line can carry: 1 to 256 bytes, no control characters, no space around it.
valid() {
    [ -n "$1" ] && [ "$(printf %s "$1" | wc -c)" -le 256 ] || return 1
    case $1 in ' '* | *' ') return 1 ;; esac
    [ "$(printf %s "$1" | LC_ALL=C tr -d '\001-\037\177')" = "$1" ] || return 1
    ! printf %s "$1" | LC_ALL=C grep -q "$(printf '\302[\200-\237]')"
}

# Whether the message names the run already, in whichever line: those of squashed commits stand one below the other.
named() {
    key='[Rr][Ee][Tt][Rr][Oo]-[Rr][Uu][Nn][[:space:]]*:[[:space:]]*'
    LC_ALL=C sed -n "s/^$key//p" "$1" | LC_ALL=C sed 's/[[:space:]]*$//' | LC_ALL=C grep -Fxq -e "$2"
}

# Whether somebody wrote something. A trailer in a message that stayed empty, or in a template that nobody filled in, would
# keep git from noticing it, and the commit would be made that was given up.
written() {
    [ "$2" != template ] || return 1
    LC_ALL=C sed '/ -\{24\} >8 -\{24\}$/,$d' "$1" | git stripspace --strip-comments | grep -q .
}

# Whether commits are only moved: they stay those of the runs that made them.
moving() {
    [ -d "$(git rev-parse --git-path rebase-merge)" ] || [ -d "$(git rev-parse --git-path rebase-apply)" ]
}

name_run() {
    valid "${RETRO_RUN_ID:-}" || return
    run=$RETRO_RUN_ID
    # Together they are one name to whoever reads it; a run's id alone will do where no other workflow has the same.
    if valid "${RETRO_WORKFLOW:-}" && valid "$RETRO_WORKFLOW/$run"; then
        run=$RETRO_WORKFLOW/$run
    fi
    if moving || ! written "$1" "$2" || named "$1" "$run"; then
        return
    fi
    message=$1
    set -- --trailer "Retro-Run: $run"
    if valid "${RETRO_PROMPT_VERSION:-}"; then
        set -- "$@" --trailer "Retro-Prompt-Version: $RETRO_PROMPT_VERSION"
    fi
    # It writes another file and renames it: the message is whole before and after.
    git -c trailer.separators=: interpret-trailers --in-place --no-divider \
        --where end --if-exists add --if-missing add "$@" "$message"
}

name_run "$1" "${2:-}" >/dev/null 2>&1
exit 0
