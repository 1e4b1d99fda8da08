#!/usr/bin/env bash
# What the action does, with its inputs in the environment: a job never fails because there is no gateway.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")

client() {
    python3 "$here/../python/retrospect.py" --timeout 5 --spool "${RUNNER_TEMP:-/tmp}/retrospect-spool" "$@"
}

# A job says `cancelled`, an event `cancellation`.
[ "$OUTCOME" != cancelled ] || OUTCOME=cancellation

case $COMMAND in
    context)
        # The text may have any lines, so it ends at one that nobody can know.
        end="retrospect-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
        {
            echo "text<<$end"
            client context --workflow "$WORKFLOW" --step "$STEP" --run "$RUN_ID" --repo "$REPO"
            echo "$end"
        } >>"$GITHUB_OUTPUT"
        ;;
    transcript)
        client transcript "$FILE" --workflow "$WORKFLOW" --outcome "$OUTCOME" --repo "$REPO" ||
            echo "::warning::the run was not sent to Retrospect"
        ;;
    send) client send "$FILE" || echo "::warning::the run was not sent to Retrospect" ;;
    *)
        echo "::error::the command $COMMAND is not known: context, transcript and send are"
        exit 1
        ;;
esac
