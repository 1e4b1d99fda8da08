# Adds the trailers `Retro-Run: <workflow>/<run>` and `Retro-Prompt-Version` to the message of every commit that an agent
# makes. Without RETRO_RUN_ID it does nothing. It needs git and a shell, but not the program retro. Whatever goes wrong
# here, the commit continues with its message unchanged.
#
# It is not a commit-msg hook, because agents like to pass --no-verify, which skips those.

# The hook that was here before; its exit status decides about the commit.
before="${0%/*}/prepare-commit-msg.before-retro"
if [ -x "$before" ]; then
    "$before" "$@" || exit
fi

# A name that the program accepts and that fits on a line: 1 to 256 bytes, no control characters, no surrounding space.
valid() {
    [ -n "$1" ] && [ "$(printf %s "$1" | wc -c)" -le 256 ] || return 1
    case $1 in ' '* | *' ') return 1 ;; esac
    [ "$(printf %s "$1" | LC_ALL=C tr -d '\001-\037\177')" = "$1" ] || return 1
    ! printf %s "$1" | LC_ALL=C grep -q "$(printf '\302[\200-\237]')"
}

# Succeeds if any line of the message names the run already: squashed commits leave several trailers.
named() {
    key='[Rr][Ee][Tt][Rr][Oo]-[Rr][Uu][Nn][[:space:]]*:[[:space:]]*'
    LC_ALL=C sed -n "s/^$key//p" "$1" | LC_ALL=C sed 's/[[:space:]]*$//' | LC_ALL=C grep -Fxq -e "$2"
}

# Succeeds if the message has text. With a trailer in an empty message or in an unchanged template, git would not notice
# that the user gave the commit up, and would create it.
written() {
    [ "$2" != template ] || return 1
    LC_ALL=C sed '/ -\{24\} >8 -\{24\}$/,$d' "$1" | git stripspace --strip-comments | grep -q .
}

# Succeeds during a rebase or `git am`: commits that are only moved keep the run that made them.
moving() {
    [ -d "$(git rev-parse --git-path rebase-merge)" ] || [ -d "$(git rev-parse --git-path rebase-apply)" ]
}

name_run() {
    valid "${RETRO_RUN_ID:-}" || return
    run=$RETRO_RUN_ID
    # The reader takes both together as one name; the run's id alone suffices if no other workflow has the same.
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
    # Git writes a temporary file and renames it, so the message is never partial.
    git -c trailer.separators=: interpret-trailers --in-place --no-divider \
        --where end --if-exists add --if-missing add "$@" "$message"
}

name_run "$1" "${2:-}" >/dev/null 2>&1
exit 0
