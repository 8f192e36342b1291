# Talking to the person at the terminal. Sourced by `try`, `test` and tools/setup.sh; needs bash and coreutils only.
# shellcheck shell=bash

# A step longer than this many seconds says every so often that it is still alive.
HEARTBEAT_SECONDS=20

say() { printf '%s\n' "$*"; }

# What went wrong and what to do about it, in plain words. Callers decide whether to stop.
complain() { printf '\nproblem: %s\n' "$*" >&2; }

# seconds_text SECONDS: 75 becomes "1m15s".
seconds_text() {
  local seconds=$1
  if ((seconds < 60)); then printf '%ds' "$seconds"; else printf '%dm%02ds' $((seconds / 60)) $((seconds % 60)); fi
}

# The process group of the step that is running. Interrupting the script ends it too.
running=
trap '[ -z "$running" ] || kill -TERM -- "-$running" 2>/dev/null; exit 130' INT TERM

# run_logged LOG COMMAND...: runs the command with its output in LOG, reports progress on long ones, and on failure
# prints the end of the log. Answers the command's own exit code.
run_logged() {
  local log=$1 code=0 started=$SECONDS next=$HEARTBEAT_SECONDS last
  shift
  mkdir -p "$(dirname "$log")"
  set -m # a process group of its own
  "$@" >"$log" 2>&1 </dev/null &
  running=$!
  set +m
  while kill -0 "$running" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - started >= next)); then
      last=$(tail -c 400 "$log" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c1-100)
      say "      still running after $(seconds_text $((SECONDS - started))): ${last:-no output yet}"
      next=$((SECONDS - started + HEARTBEAT_SECONDS))
    fi
  done
  wait "$running" || code=$?
  running=
  if ((code != 0)); then
    say "      failed after $(seconds_text $((SECONDS - started))) with exit code $code; the end of $log:"
    tail -n 60 "$log" | sed 's/^/      | /'
  fi
  return "$code"
}
