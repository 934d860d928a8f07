#!/usr/bin/env bash
# The whole way of a message: three boards in the emulator (two run the node in Embedded Swift, one the
# node in C) on serial lines, a gateway, its one TLS connection to a broker, somebody who reads, somebody
# who commands, and on a fourth line a device that keeps no rule. Everyone's power is taken away while
# messages flow. At the end:
#
#   * every reading that a node had stored has arrived once, and in order;
#   * every command was carried out once, by the nodes' own count and sum;
#   * a will was sent when, and only when, somebody was lost;
#   * the fourth device has cost nobody a connection, and went on to the end.
#
#   story.sh PROGRAMS SWIFT-IMAGE C-IMAGE HOSTILE
#
# STORY_ROUNDS=5 goes through all of it five times.
set -euo pipefail

programs=$1 swift_image=$2 c_image=$3 hostile=$4
here=$(dirname "$0")
martletd=$programs/martletd
source "$here/../c-client/test/harness.sh"
source "$here/../board-mps2/emulator.sh"
rounds=${STORY_ROUNDS:-1}
# A device that the others' losses meet several times waits longer each time, two minutes at most.
patience=$((rounds > 1 ? 180 : 60))

nodes=(plant7-1 plant7-2 plant7-3)
images=("$swift_image" "$swift_image" "$c_image")
# How many wills of each are to have arrived.
losses=(0 0 0)
gateway_losses=0
boards=(0 0 0)
desks=(0 0 0)
gateway=

line_port() { echo $((tcp_port + 1 + $1)); }

power_on() {
    emulate "${images[$1]}" "$directory/flash-$1" "$directory/node-$1.log" "$(line_port "$1")"
    boards[$1]=$emulator
    others[$emulator]=1
}

# end PID: kill -9, and no word of the shell's about it.
end() {
    unset "others[$1]"
    kill -KILL "$1"
    wait "$1" 2>/dev/null || true
}

start_gateway() {
    local lines=() i
    for i in 0 1 2; do
        lines+=("--line=${nodes[i]}=tcp://127.0.0.1:$(line_port $i)")
    done
    lines+=("--line=plant7-4=tcp://127.0.0.1:$(line_port 3)")
    "$programs/martlet-gateway" --token="$gate_token" --will-to=ops --will=lost "${lines[@]}" \
        2>>"$directory/gateway.log" &
    gateway=$!
    others[$gateway]=1
}

# Somebody who reads, with a place of its own in its inbox.
start_reader() {
    MARTLET_TOKEN=$ops_token "$programs/martlet" listen --state "$directory/ops.state" \
        >>"$directory/ops.log" 2>>"$directory/reader.log" &
    others[$!]=1
}

# Somebody who commands: 1, 2, 3... to one node, until there is no file of this name any more.
start_commands() {
    touch "$directory/go"
    local number=0
    while [ -e "$directory/go" ]; do
        number=$((number + 1))
        echo $number
        sleep 0.3
    done | tee "$directory/commands-$1" | MARTLET_TOKEN=$desk_token "$programs/martlet" send \
        --to "${nodes[$1]}" --grade once --timeout 1h 2>"$directory/desk-$1.log" &
    desks[$1]=$!
    others[$!]=1
}

# Waits until so many more readings of each node have arrived.
flow() {
    local i count
    for i in 0 1 2; do
        count=$(grep -c "^${nodes[i]} (unicast): [0-9]" "$directory/ops.log" || true)
        wait_for "$directory/ops.log" "^${nodes[i]} (unicast): [0-9]" $((count + $1))
    done
}

wills_of() { grep -c "^$1 (unicast): lost$" "$directory/ops.log" || true; }

# Waits for the wills that are expected. More would be a loss that was none.
expect_wills() {
    local i
    for i in 0 1 2; do
        wait_for "$directory/ops.log" "^${nodes[i]} (unicast): lost$" "${losses[i]}"
        [ "$(wills_of "${nodes[i]}")" = "${losses[i]}" ] || fail "a will of ${nodes[i]} too many"
    done
    wait_for "$directory/ops.log" "^gate (unicast): lost$" $gateway_losses
    [ "$(wills_of gate)" = $gateway_losses ] || fail "a will of the gateway too many"
}

# A will is kept for each connection that is not the same session's continuation.
expect_kept() { wait_for "$directory/node-$1.log" '^will kept' $((losses[$1] + 1)); }

lose_node() {
    flow 6
    end "${boards[$1]}"
    losses[$1]=$((losses[$1] + 1))
    expect_wills
    power_on "$1"
    expect_kept "$1"
    passed "${nodes[$1]} lost its power: its will was sent, and no other"
}

lose_gateway() {
    local i
    flow 6
    end "$gateway"
    gateway_losses=$((gateway_losses + 1))
    for i in 0 1 2; do losses[i]=$((losses[i] + 1)); done
    expect_wills
    start_gateway
    for i in 0 1 2; do expect_kept $i; done
    passed "the gateway lost its power: its will was sent, and those of its three devices"
}

lose_broker() {
    flow 6
    kill_broker
    sleep 2
    start_broker
    flow 6
    expect_wills
    passed "the broker lost its power: nobody else did, and no will was sent"
}

mint() {
    "$programs/martlet" token mint --user "$@" --json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p'
}

start_broker
source "$directory/data/dev.env"
export MARTLET_APP MARTLET_DATA MARTLET_CA MARTLET_SERVER
ops_token=$(mint ops)
desk_token=$(mint desk)
gate_token=$(mint gate --right 'attach:plant7-*' --right 'send:ops')
[ -n "$ops_token" ] && [ -n "$desk_token" ] && [ -n "$gate_token" ] || fail "no tokens"

start_reader
wait_for "$directory/reader.log" '^martlet: connected' 1
# The boards are on before there is a gateway to hear them.
for i in 0 1 2; do
    make_flash "$directory/flash-$i"
    power_on $i
done
wait_for "$directory/node-2.log" '^stored 1.2$' 1
"$hostile" "$(line_port 3)" >"$directory/hostile.log" 2>&1 &
others[$!]=1
start_gateway
for i in 0 1 2; do
    expect_kept $i
    start_commands $i
done

for ((round = 0; round < rounds; round++)); do
    # A connection that lasted a minute was a good one. Without any, devices wait for longer and longer,
    # in the end for two minutes, and a broker that was restarted waits one before it sends their wills.
    [ $round = 0 ] || sleep 65
    lose_node 0
    lose_node 2
    lose_gateway
    lose_broker
done

# The end: no more commands; what was stored by now has to arrive.
rm "$directory/go"
for i in 0 1 2; do
    wait "${desks[i]}" || fail "a command was refused"
    unset "others[${desks[i]}]"
    count=$(wc -l <"$directory/commands-$i")
    # Sampled after the last command.
    wait_for "$directory/ops.log" "^${nodes[i]} (unicast): .* executed=$count " 2
    cp "$directory/node-$i.log" "$directory/stored-$i"
    wait_for "$directory/ops.log" \
        "^${nodes[i]} (unicast): $(sed -n 's/^stored //p' "$directory/stored-$i" | tail -1) " 1
done
wait_for "$directory/hostile.log" '^taken' $(($(wc -l <"$directory/hostile.log") + 10))
flow 2
expect_wills
grep -q 'event=device_faulty user=plant7-4' "$directory/gateway.log" || fail "the fourth device was not heard"
passed "a fourth device sent $(sed -n 's/^taken //p' "$directory/hostile.log" | tail -1) bytes of nonsense"

for i in 0 1 2; do
    [ -z "$(grep '^executed' "$directory/node-$i.log" | sort | uniq -d)" ] ||
        fail "${nodes[i]} carried out a command twice"
    awk -v node="${nodes[i]}" -v commands="$(wc -l <"$directory/commands-$i")" \
        -f "$here/check.awk" "$directory/stored-$i" "$directory/ops.log" || fail "${nodes[i]}"
done
