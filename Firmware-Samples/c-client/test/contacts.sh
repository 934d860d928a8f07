#!/usr/bin/env bash
# Two devices that know each other from their firmware, against a real broker.
#
#   contacts.sh MARTLETD CONTACTS
set -euo pipefail

martletd=$1 contacts=$2
source "$(dirname "$0")/harness.sh"

start_broker
source "$directory/data/dev.env"

timeout 30 "$contacts" bob "$MARTLET_SERVER" "$MARTLET_CA" "$MARTLET_TOKEN_BOB" \
    >"$directory/bob.log" 2>&1 &
bob=$!
timeout 30 "$contacts" alice "$MARTLET_SERVER" "$MARTLET_CA" "$MARTLET_TOKEN_ALICE" \
    >"$directory/alice.log" 2>&1 || fail "the controller failed"
wait "$bob" || fail "the sensor failed"

grep -q '^reading from bob: 21.5$' "$directory/alice.log" || fail "no unicast to the controller"
grep -q '^group reading from bob: 7.2 bar$' "$directory/alice.log" || fail "nothing to the group"
grep -q '^order: close valve 3$' "$directory/bob.log" || fail "no order from the controller"
passed "controller and sensor find each other, and talk alone and in their group"
