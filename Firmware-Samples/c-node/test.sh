#!/usr/bin/env bash
# A node in the emulator, without a line: it stores readings, loses its power in the middle of it, and
# goes on with what its flash says.
#
# test.sh IMAGE

set -euo pipefail
directory=$(mktemp -d)
node=
trap 'kill -KILL "$node" 2>/dev/null || true; rm -rf "$directory"' EXIT

# As from the factory: erased, with a few random bytes in sector 0.
head -c 65536 /dev/zero | tr '\0' '\377' >"$directory/flash"
dd if=/dev/urandom of="$directory/flash" bs=8 count=1 conv=notrunc 2>/dev/null
truncate -s 16M "$directory/flash"
for start in 1 2 3; do
    qemu-system-arm -machine mps2-an386,memory-backend=flash -nographic -monitor none \
        -object "memory-backend-file,id=flash,size=16M,mem-path=$directory/flash,share=on" \
        -serial null -serial "file:$directory/log.$start" -kernel "$1" </dev/null &
    node=$!
    deadline=$((SECONDS + 60))
    touch "$directory/log.$start"
    until grep -q "^stored $start\.4$" "$directory/log.$start"; do
        [ $SECONDS -lt $deadline ] || { cat "$directory"/log.*; echo "$1: start $start" >&2; exit 1; }
        sleep 0.1
    done
    kill -KILL "$node"
    wait "$node" 2>/dev/null || true
done
echo "  $(basename "$1"): stored readings over two power cuts"
