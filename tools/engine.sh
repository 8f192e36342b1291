#!/usr/bin/env bash
# Gives this machine a container engine that knows runc and gVisor's runsc. Sourced by `test`, or run by itself, as root:
#
#   tools/engine.sh          uses the engine that answers at /var/run/docker.sock, or starts one; registers runsc with it
#   tools/engine.sh stop     ends the engine that this script started, its containers included
#
# The engine's data, its configuration and runsc are kept below ${PLIMSOLL_CACHE:-~/.cache/plimsoll}, never in the clone.
# An engine that was there before is never stopped, and nothing but a runtime is added to its configuration.
# shellcheck shell=bash

engine_socket=/var/run/docker.sock

engine_answers() { curl --silent --fail --max-time 5 --unix-socket "$engine_socket" --output /dev/null http://engine/_ping; }

# engine_answers_within SECONDS
engine_answers_within() {
  local until=$((SECONDS + $1))
  until engine_answers; do
    ((SECONDS < until)) || return 1
    sleep 0.2
  done
}

# need_cgroups: control groups, without which no engine bounds anything. Version 2 where it has what is needed.
need_cgroups() {
  local controllers=/sys/fs/cgroup/cgroup.controllers controller enabled
  if [ -e "$controllers" ] || [ -d /sys/fs/cgroup/memory ]; then return 0; fi
  say "  mounting the control groups"
  if mount -t cgroup2 cgroup2 /sys/fs/cgroup; then
    if grep -qw memory "$controllers" && grep -qw pids "$controllers"; then return 0; fi
    umount /sys/fs/cgroup
  fi
  mount -t tmpfs -o mode=755,nosuid,nodev,noexec cgroup /sys/fs/cgroup || {
    complain "control groups cannot be mounted on /sys/fs/cgroup; this takes root, and not inside an unprivileged container"
    return 1
  }
  # The fourth column says whether the kernel has the controller switched on; it does not in the heading.
  while read -r controller _ _ enabled; do
    [ "$enabled" = 1 ] || continue
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" 2>/dev/null || rmdir "/sys/fs/cgroup/$controller"
  done </proc/cgroups
  if ! [ -d /sys/fs/cgroup/memory ] || ! [ -d /sys/fs/cgroup/pids ]; then
    complain "this kernel has no memory or pids control group, so no engine could bound a container"
    return 1
  fi
}

# need_container_engine: an engine that answers at the usual socket, started here if there is none.
need_container_engine() {
  local folder=$cache/container-engine
  need_debian curl || return 1
  engine_answers && return 0
  need_debian ca-certificates docker.io || return 1
  # Installing may have started it, where a service manager runs.
  if [ -d /run/systemd/system ] && engine_answers_within 10; then return 0; fi
  if [ "$(id -u)" != 0 ]; then
    complain "no container engine answers at $engine_socket, and starting one takes root"
    return 1
  fi
  need_cgroups || return 1
  say "  starting a container engine; its log is $cache/log/dockerd"
  mkdir -p "$folder" "$cache/log"
  [ -e "$folder/daemon.json" ] || printf '{}\n' >"$folder/daemon.json"
  # What a killed one left would stop the next one.
  [ -n "$(engine_process)" ] || rm -f "$folder/dockerd.pid"
  PATH="$PATH:/usr/sbin:/sbin" setsid dockerd --host "unix://$engine_socket" --pidfile "$folder/dockerd.pid" \
    --data-root "$folder/data" --config-file "$folder/daemon.json" >>"$cache/log/dockerd" 2>&1 </dev/null &
  engine_answers_within 60 || {
    complain "the container engine does not answer after a minute; the end of its log:"
    tail -n 20 "$cache/log/dockerd" | sed 's/^/      | /' >&2
    return 1
  }
}

# engine_process: the process id of the engine that this script started, or nothing.
engine_process() {
  local process
  process=$(cat "$cache/container-engine/dockerd.pid" 2>/dev/null) || return 0
  if [ "$(cat "/proc/$process/comm" 2>/dev/null)" = dockerd ]; then printf '%s' "$process"; fi
}

stop_container_engine() {
  local process started=$SECONDS
  process=$(engine_process)
  if [ -z "$process" ]; then
    say "no engine that this script started is running"
    return 0
  fi
  kill -TERM "$process"
  while kill -0 "$process" 2>/dev/null; do
    if ((SECONDS - started >= 60)); then
      complain "the engine, process $process, has not ended after a minute"
      return 1
    fi
    sleep 0.2
  done
  say "the engine has ended"
}

# go_program: the first Go there is.
go_program() {
  local go
  for go in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go/bin/go /usr/lib/go-1.19/bin/go; do
    if [ -x "$go" ]; then
      printf '%s' "$go"
      return 0
    fi
  done
  return 1
}

# need_go: a Go that can build gVisor's module, or fetch the one that can.
need_go() {
  go_program >/dev/null || need_debian ca-certificates golang-1.19-go
}

# register_runsc: gVisor's runsc of the pinned version, in the cache and in the running engine's configuration. The command
# that operators use does it; $CARGO_TARGET_DIR holds it.
register_runsc() {
  "$CARGO_TARGET_DIR/release/plimsoll" gvisor install --from-module --into "$cache/gvisor" --engine "$engine_socket"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  # shellcheck source=tools/say.sh
  . "$root/tools/say.sh"
  # shellcheck source=tools/setup.sh
  . "$root/tools/setup.sh"
  case ${1:-} in
    '')
      need_container_engine
      if ! [ -x "$CARGO_TARGET_DIR/release/plimsoll" ]; then
        say "  building the plimsoll command"
        need_engine_toolchain
        need_rust build
        (cd "$root" && run_logged "$cache/log/build" cargo build --release --locked -p plimsoll-cli)
      fi
      need_go
      run_logged "$cache/log/runsc" register_runsc
      tail -n 1 "$cache/log/runsc"
      ;;
    stop) stop_container_engine ;;
    *)
      sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      [ "$1" = --help ] || [ "$1" = -h ]
      ;;
  esac
fi
