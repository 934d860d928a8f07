#!/usr/bin/env bash
# An actuator that answers, against a real broker.
#
#   actuator.sh MARTLETD ACTUATOR MARTLET
set -euo pipefail

martletd=$1 actuator=$2 martlet=$3
source "$(dirname "$0")/harness.sh"

# work MILLISECONDS: the valve, beside the script, as $launched.
work() {
    "$actuator" "$MARTLET_SERVER" "$MARTLET_CA" "$MARTLET_TOKEN_BOB" "$directory/record" "$1" \
        >>"$directory/valve.log" 2>&1 &
    launched=$!
}

lose_power() {
    kill -KILL "$launched"
    wait "$launched" 2>/dev/null || true
    launched=
}

order() { MARTLET_TOKEN=$MARTLET_TOKEN_ALICE timeout 30 "$martlet" send --to bob "$@"; }

start_broker
source "$directory/data/dev.env"
export MARTLET_SERVER MARTLET_CA

work 0
order --wait applied 40 >"$directory/order.log" || fail "the valve did not answer"
grep -q done "$directory/order.log" || fail "no answer that it is done"
wait_for "$directory/valve.log" '^answered success$' 1
passed "a command is carried out, and its sender is told"

! order --wait applied 150 >"$directory/order.log" 2>&1 || fail "150 % passed for done"
grep -q 'refused: out of range' "$directory/order.log" || fail "no reason for a refusal"
grep -q '^refused 150$' "$directory/valve.log" || fail "the valve moved to 150 %"
wait_for "$directory/valve.log" '^answered success$' 2
passed "a refusal reaches the sender with its reason"
lose_power

# The power goes between the plan and the deed, and again between the deed and the answer. The broker
# is stopped meanwhile: a valve that has stored its answer's response and lost its power before it
# printed that would never print it.
work 600000
order --receipt 55 >/dev/null
wait_for "$directory/valve.log" '^planned 55$' 1
lose_power
kill -STOP "$broker"
work 0
wait_for "$directory/valve.log" '^valve at 55$' 1
lose_power
kill -CONT "$broker"
work 0
wait_for "$directory/valve.log" '^answered success$' 3
[ "$(grep -c '^valve at 55$' "$directory/valve.log")" -eq 1 ] || fail "the valve moved twice"
passed "a valve that lost its power twice moves once, and answers"

# The sender thinks better of it while the valve waits.
revise() { MARTLET_TOKEN=$MARTLET_TOKEN_ALICE timeout 30 "$martlet" "$@"; }
lose_power
work 600000
reference=$(order --receipt 70 | sed -n 's/^reference //p')
wait_for "$directory/valve.log" '^planned 70$' 1
revise replace --reference "$reference" 75 >"$directory/order.log"
grep -q 'who are told: bob' "$directory/order.log" || fail "the valve is not told of an update"
wait_for "$directory/valve.log" '^planned 75$' 1
revise recall --reference "$reference" >"$directory/order.log"
wait_for "$directory/valve.log" '^recalled 75$' 1
wait_for "$directory/valve.log" '^answered success$' 4
lose_power
work 0
order --wait applied 20 >/dev/null || fail "the valve did not answer after a recall"
! grep -q '^valve at 7' "$directory/valve.log" || fail "the valve moved after the recall"
passed "a command that waits is changed and taken back, and its sender is answered"
