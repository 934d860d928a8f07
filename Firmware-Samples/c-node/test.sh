#!/usr/bin/env bash
# A node in the emulator, without a line: it stores readings, loses its power in the middle of it, and
# goes on with what its flash says.
#
# test.sh IMAGE

set -euo pipefail
source "$(dirname "$0")/../board-mps2/emulator.sh"
directory=$(mktemp -d)
emulator=
trap 'kill -KILL $emulator 2>/dev/null || true; rm -rf "$directory"' EXIT

make_flash "$directory/flash"
touch "$directory/log"
for start in 1 2 3; do
    emulate "$1" "$directory/flash" "$directory/log" null
    deadline=$((SECONDS + 60))
    until grep -q "^stored $start\.4$" "$directory/log"; do
        [ $SECONDS -lt $deadline ] || { cat "$directory/log"; echo "$1: start $start" >&2; exit 1; }
        sleep 0.1
    done
    kill -KILL "$emulator"
    wait "$emulator" 2>/dev/null || true
done
echo "  $(basename "$1"): stored readings over two power cuts"
