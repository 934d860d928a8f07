#!/usr/bin/env bash
# What connections cost on a 32-bit processor, at a real broker: prints the tables of the README, and fails
# where a figure is above its threshold.
#
#   cost.sh MARTLETD THRESHOLDS COMMAND...
set -euo pipefail

martletd=$1 thresholds=$2
shift 2
source "$(dirname "$0")/harness.sh"
failed=0

# compare WHAT NAME FIGURE
compare() {
    local limit
    limit=$(awk -v what="$1" -v name="$2" '$1 == what && $2 == name { print $3 }' "$thresholds")
    if [ -z "$limit" ] || [ "$3" -gt "$limit" ]; then
        echo "$1 of $2: $3 bytes, above ${limit:-no threshold in $thresholds}" >&2
        failed=1
    fi
}

# measure PREFIX ARGUMENTS...: one run, as rows.
measure() {
    local prefix=$1 name sent received highest standing
    shift
    timeout 60 "${command[@]}" "$@" >"$directory/cost.log" || fail "$prefix"
    while read -r name sent received highest standing; do
        echo "| $prefix $name | $sent | $received | $highest | $standing |"
        compare air "$prefix-$name" $((sent + received))
        [ -z "$highest" ] || compare heap "$prefix-$name" "$highest"
    done <"$directory/cost.log"
}

command=("$@")
use_key
start_broker
source "$directory/data/dev.env"
echo '| what | bytes sent | bytes received | heap at most | heap while it stands |'
echo '|---|---|---|---|---|'
measure plain "tcp://127.0.0.1:$tcp_port" "$MARTLET_TOKEN_ALICE" none
measure certificate "tls://localhost:$tls_port" "$MARTLET_TOKEN_ALICE" "$MARTLET_CA"
measure key "tls://localhost:$tls_port" "" demo/alice "$key"
exit $failed
