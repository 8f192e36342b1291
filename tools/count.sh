# Counting. Sourced by `test`. A check counts as one test; a test runner's tests count one by one, read from its own
# closing lines. A skipped or ignored test counts as failed: a test that does not run proves nothing.
# shellcheck shell=bash

passed=0
failed=0
failures=()

count_pass() {
  passed=$((passed + 1))
  say "  ok    $1"
}

count_fail() {
  failed=$((failed + 1))
  failures+=("$1")
  say "  FAIL  $1"
}

# check NAME COMMAND...: one command, one test.
check() {
  local name=$1
  shift
  if run_logged "$cache/log/${name//[^a-z0-9]/-}" "$@"; then count_pass "$name"; else count_fail "$name"; fi
}

# count_tests NAME CODE PASSED FAILED IDLE: adds one runner's figures. IDLE are the tests it skipped or ignored. A runner
# that broke off without a failed test, or that ran no test at all, is itself a failure.
count_tests() {
  local name=$1 code=$2 good=$3 bad=$4 idle=$5
  passed=$((passed + good))
  failed=$((failed + bad + idle))
  ((bad == 0)) || failures+=("$name: $bad failed")
  ((idle == 0)) || failures+=("$name: $idle skipped or ignored, which counts as failed")
  if ((code != 0 && bad == 0 && idle == 0)); then
    failed=$((failed + 1))
    failures+=("$name: the runner ended with exit code $code")
  elif ((good + bad + idle == 0)); then
    failed=$((failed + 1))
    failures+=("$name: ran no test")
  fi
  if ((code == 0 && bad == 0 && idle == 0 && good > 0)); then
    say "  ok    $name: $good passed"
  else
    say "  FAIL  $name: $good passed, $bad failed, $idle skipped (exit code $code)"
  fi
}

# run_cargo_test NAME COMMAND...: adds up the lines "test result: ok. 3 passed; 0 failed; 0 ignored; …".
run_cargo_test() {
  local name=$1 log="$cache/log/$1" code=0 figures
  shift
  run_logged "$log" "$@" || code=$?
  ((code == 0)) || grep -E '^(test .*(FAILED|failed)|---- .* stdout ----|error(\[|:))' "$log" | head -n 40 | sed 's/^/      > /'
  figures=$(awk '/^test result: / {
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^passed/) good += $(i - 1)
        if ($i ~ /^failed/) bad += $(i - 1)
        if ($i ~ /^ignored/) idle += $(i - 1)
      }
    } END { print good + 0, bad + 0, idle + 0 }' "$log")
  # shellcheck disable=SC2086 # three numbers, three arguments
  count_tests "$name" "$code" $figures
}

# run_pytest NAME COMMAND...: reads pytest's closing line, "3 passed, 1 failed in 0.12s".
run_pytest() {
  local name=$1 log="$cache/log/$1" code=0 figures
  shift
  run_logged "$log" "$@" || code=$?
  figures=$(tail -n 1 "$log" | awk '{
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^(passed|xpassed)/) good += $(i - 1)
        if ($i ~ /^(failed|error|errors)/) bad += $(i - 1)
        if ($i ~ /^(skipped|xfailed|deselected)/) idle += $(i - 1)
      }
    } END { print good + 0, bad + 0, idle + 0 }')
  # shellcheck disable=SC2086 # three numbers, three arguments
  count_tests "$name" "$code" $figures
}

# run_node_test NAME COMMAND...: reads the closing lines of node's TAP reporter, "# pass 3".
run_node_test() {
  local name=$1 log="$cache/log/$1" code=0 figures
  shift
  run_logged "$log" "$@" || code=$?
  ((code == 0)) || grep -E '^ *(not ok|error:|  error)' "$log" | head -n 40 | sed 's/^/      > /'
  figures=$(awk '
      /^# pass / { good += $3 }
      /^# (fail|cancelled) / { bad += $3 }
      /^# (skipped|todo) / { idle += $3 }
      END { print good + 0, bad + 0, idle + 0 }' "$log")
  # shellcheck disable=SC2086 # three numbers, three arguments
  count_tests "$name" "$code" $figures
}
