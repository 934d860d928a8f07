#!/usr/bin/env bash
# Measures flash, RAM and stack of the client per processor at -Os, prints the table of the README, and
# fails where a figure is above its threshold, or where a function calls itself. The same of whole images.
#
#   sizes.sh CLIENT OUTPUT THRESHOLDS IMAGE...
set -euo pipefail

client=$1 output=$2 thresholds=$3
shift 3
mkdir -p "$output"
failed=0

# measure NAME COMPILER FLAGS...: prints one row and compares it.
measure() {
    local name=$1 compiler=$2 flash=0 volatile=0 part bytes
    shift 2
    if ! command -v "$compiler" >/dev/null; then
        echo "$name: $compiler is not installed; make packages" >&2
        failed=1
        return
    fi
    compile() {
        "$compiler" -std=c99 -Os -ffunction-sections -fdata-sections -fcallgraph-info=su \
            "${flags[@]}" -I"$client/include" -I"$client/src" -I"$client/port/serial" "$@"
    }
    text_of() { "${compiler%gcc}size" "$1" | awk 'NR == 2 { print $1 }'; }
    local flags=("$@")
    for part in client log reader writer crc32; do
        compile -c "$client/src/$part.c" -o "$output/$name-$part.o"
        flash=$((flash + $(text_of "$output/$name-$part.o")))
        compile -DMRT_VOLATILE_ONLY -c "$client/src/$part.c" -o "$output/$name-volatile.o"
        volatile=$((volatile + $(text_of "$output/$name-volatile.o")))
    done
    local extras=()
    for part in src/requests src/answers src/receipts src/history src/text port/serial/serial; do
        compile -c "$client/$part.c" -o "$output/$name-$(basename $part).o"
        extras+=("$(text_of "$output/$name-$(basename $part).o")")
    done
    # Nothing is static: the client is the one object that the program owns.
    echo '#include "mrt/client.h"
        char mrt_size_of_client[sizeof(mrt_client)];' | compile -x c -c - -o "$output/$name-size.o"
    bytes=$("${compiler%gcc}nm" -S -t d "$output/$name-size.o" | awk '{ print $2 + 0; exit }')
    local stack
    stack=$(awk -f "$client/test/stack.awk" "$output/$name"-{client,log,reader,writer,crc32}.ci) ||
        failed=1
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$name" "$flash" "$volatile" \
        "${extras[@]}" "$bytes" "$stack"
    compare "$name" flash "$flash"
    compare "$name" flash-ram-only "$volatile"
    compare "$name" conversations "$((extras[2] + extras[3]))"
    compare "$name" ram "$bytes"
    compare "$name" stack "$stack"
}

# compare NAME WHAT FIGURE
compare() {
    local limit
    limit=$(awk -v name="$1" -v what="$2" '$1 == name && $2 == what { print $3 }' "$thresholds")
    if [ -z "$limit" ]; then
        echo "$1 $2: no threshold in $thresholds" >&2
        failed=1
    elif [ "$3" -gt "$limit" ]; then
        echo "$1 $2: $3 bytes, above the threshold of $limit" >&2
        failed=1
    fi
}

echo '| processor | core | core, RAM store only | requests | answers | receipts | history | texts | serial line | RAM | stack |'
echo '|---|---|---|---|---|---|---|---|---|---|---|'
measure Cortex-M0+ arm-none-eabi-gcc -mcpu=cortex-m0plus -mthumb
measure Cortex-M4 arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb
measure RV32IMAC riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32 \
    --specs=picolibc.specs

echo
echo '| image | flash | RAM |'
echo '|---|---|---|'
for image in "$@"; do
    name=$(basename "$image" .elf)
    read -r text data bss _ < <(arm-none-eabi-size "$image" | tail -n 1)
    echo "| $name | $((text + data)) | $((data + bss)) |"
    compare "$name" flash $((text + data))
    compare "$name" ram $((data + bss))
done
exit $failed
