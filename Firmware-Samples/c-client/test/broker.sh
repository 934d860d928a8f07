#!/usr/bin/env bash
# The node against a real broker: sends, receives, and loses its power in between.
#
#   broker.sh MARTLETD NODE tls|tcp [EMULATOR]
set -euo pipefail

martletd=$1 node=$2 scheme=$3 emulator=${4:-}
source "$(dirname "$0")/harness.sh"

# The command line of a node: USER STATE OPTIONS...
command_of() {
    local token=MARTLET_TOKEN_${1^^} state=$directory/$2 server
    shift 2
    mkdir -p "$state"
    server=tls://localhost:$tls_port
    [ "$scheme" = tls ] || server=tcp://127.0.0.1:$tcp_port
    server=${dead:+$dead,}$server
    command=($emulator "$node" --server "$server" --ca "$MARTLET_CA" --token "${!token}"
        --device node --state "$state" "$@")
}

# Runs a node to its end, at most 60 s.
run() {
    command_of "$@"
    timeout 60 "${command[@]}"
}

# launch LOG USER STATE OPTIONS...: runs one beside the script, as $launched, for lose_power.
launch() {
    local log=$1
    shift
    command_of "$@"
    "${command[@]}" >>"$log" 2>&1 &
    launched=$!
}

lose_power() {
    kill -KILL "$launched" 2>/dev/null || true
    wait "$launched" 2>/dev/null || true
    launched=
}

# Each text once, from "NAME 1" to "NAME COUNT", but for repeats that the broker has marked.
expect_texts() {
    local file=$1 name=$2 count=$3 found
    found=$(grep -v ' duplicate' "$file" | sed -n "s/^message .* text=\($name [0-9]*\)$/\1/p" |
        sort | uniq -d)
    [ -z "$found" ] || fail "twice: $found"
    found=$(sed -n "s/^message .* text=\($name [0-9]*\)$/\1/p" "$file" | sort -u | wc -l)
    [ "$found" -eq "$count" ] || fail "$found of $count messages '$name' arrived"
}

# Sends one more message and receives until it arrives: what was sent before has arrived then too.
# Each has a text of its own, because a loss of power may repeat the one before.
lasts=0
receive_all() {
    lasts=$((lasts + 1))
    run alice alice --to bob --text "last $lasts" >/dev/null
    launch "$1" bob bob --listen 0
    wait_for "$1" "text=last $lasts" 1
    lose_power
}

use_key
start_broker
source "$directory/data/dev.env"

run alice alice --to bob --text first --count 20 >"$directory/alice.log"
run bob bob --listen 20 >"$directory/bob.log"
expect_texts "$directory/bob.log" first 20
passed "messages that waited arrive in order, once"

dead=$scheme://127.0.0.1:1 run alice alice --to bob --text beside >"$directory/alice.log"
grep -q 'retry_ms=0' "$directory/alice.log" || fail "no attempt at the dead server"
run bob bob --listen 1 >"$directory/bob.log"
expect_texts "$directory/bob.log" beside 0
grep -q 'text=beside' "$directory/bob.log" || fail "nothing arrived beside the dead server"
passed "a server that is not there is passed over"

run alice alice --to bob --text offline --count 5 --offline >/dev/null
run alice alice >"$directory/alice.log"
run bob bob --listen 5 >"$directory/bob.log"
expect_texts "$directory/bob.log" offline 5
passed "what was stored without a connection is sent with the next one"

# The power goes while it sends: whatever was stored arrives, and nothing twice.
: >"$directory/stored.log"
for life in 1 2 3; do
    launch "$directory/stored.log" alice alice --to bob --text "life$life" --count 2000
    wait_for "$directory/stored.log" "^stored" $((life * 30))
    lose_power
done
run alice alice >"$directory/alice.log"
stored=$(grep -c '^stored' "$directory/stored.log")
run bob bob --listen "$stored" >"$directory/bob.log"
[ -z "$(sed -n 's/^message .* text=//p' "$directory/bob.log" | sort | uniq -d)" ] ||
    fail "a message arrived twice"
passed "a sender that lost its power three times: $stored messages stored, all arrived, none twice"

# The power goes while it receives: the record says where to go on.
run bob bob >/dev/null
run alice alice --to bob --text tick --count 300 >"$directory/alice.log"
: >"$directory/bob.log"
for life in 1 2; do
    launch "$directory/bob.log" bob bob --listen 300
    wait_for "$directory/bob.log" '^message' $((life * 40))
    lose_power
done
receive_all "$directory/bob.log"
# Printing and storing the record are two steps here: each loss of power may repeat one line.
lines=$(grep -c 'text=tick' "$directory/bob.log")
distinct=$(sed -n 's/.*text=\(tick.*\)/\1/p' "$directory/bob.log" | sort -u | wc -l)
[ "$distinct" -eq 300 ] || fail "$distinct of 300 arrived"
[ "$lines" -le 302 ] || fail "$((lines - 300)) repeats after two losses of power"
passed "a receiver that lost its power twice: 300 messages, $((lines - 300)) repeated"

# The broker dies in the middle.
: >"$directory/alice.log"
launch "$directory/alice.log" alice alice --to bob --text crash --count 200
wait_for "$directory/alice.log" '^result' 20
kill_broker
start_broker
wait "$launched" || fail "the sender failed"
launched=
: >"$directory/bob.log"
receive_all "$directory/bob.log"
expect_texts "$directory/bob.log" crash 200
passed "a broker that was killed in the middle: all 200 arrived"

# The same with grade once, and the sender dies too: then not even a mark is allowed.
: >"$directory/alice.log"
launch "$directory/alice.log" alice alice --to bob --grade 2 --text once --count 300
wait_for "$directory/alice.log" '^result' 20
kill_broker
lose_power
start_broker
run alice alice >"$directory/alice2.log"
stored=$(grep -c '^stored number' "$directory/alice.log")
: >"$directory/bob.log"
receive_all "$directory/bob.log"
found=$(grep -c 'text=once' "$directory/bob.log")
# The last one may have been stored and not told.
[ "$found" -ge "$stored" ] || fail "$found of $stored messages 'once' arrived"
[ -z "$(sed -n 's/^message .* text=\(once .*\)/\1/p' "$directory/bob.log" | sort | uniq -d)" ] ||
    fail "a message of grade once arrived twice"
! grep -q ' duplicate text=once' "$directory/bob.log" || fail "a message of grade once is in doubt"
passed "grade once, sender and broker killed: $stored stored, all arrived, none twice or in doubt"

: >"$directory/bob.log"
launch "$directory/bob.log" bob bob --listen 0 --receive-bytes 200
wait_for "$directory/bob.log" '^connected' 1
run alice alice --to bob --text "$(printf 'x%.0s' $(seq 600))" >/dev/null
wait_for "$directory/bob.log" '^oversize .* from=alice missing=' 1
run alice alice --everybody --text "to all" >/dev/null
wait_for "$directory/bob.log" 'kind=4 .* text=to all' 1
lose_power
passed "a message larger than the buffer is reported, and the next one arrives"

: >"$directory/alice.log"
launch "$directory/alice.log" alice alice --will-to bob --listen 0
wait_for "$directory/alice.log" '^answer .*"success"' 1
lose_power
launch "$directory/bob.log" bob bob --listen 0
wait_for "$directory/bob.log" 'from=alice text=gone' 1
lose_power
passed "the last will of a device that lost its power is sent"

if MARTLET_TOKEN_ALICE=mt1_wrong_wrong run alice other --listen 1 >"$directory/refused.log" 2>&1; then
    fail "a wrong token was let in"
fi
grep -q 'bad credential' "$directory/refused.log" || fail "no reason for a wrong token"
passed "a wrong token is refused for good"

if [ "$scheme" = tls ]; then
    timeout 60 $emulator "$node" --server "tls://localhost:$tls_port" --psk-identity demo/alice \
        --psk "$key" --to bob --text "by key" >"$directory/psk.log" || fail "no login with a key"
    : >"$directory/bob.log"
    launch "$directory/bob.log" bob bob --listen 0
    wait_for "$directory/bob.log" 'from=alice text=by key' 1
    lose_power
    launch "$directory/psk.log" alice psk --psk-identity demo/alice --psk "${key//[0-4]/5}"
    wait_for "$directory/psk.log" '^disconnected' 1
    lose_power
    passed "a pre-shared key lets in without certificate and token, and a wrong one does not"

    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other \
        -keyout "$directory/other.key" -out "$directory/other.pem" 2>/dev/null
    MARTLET_CA=$directory/other.pem
    launch "$directory/refused.log" alice other --listen 1
    wait_for "$directory/refused.log" '^tls:' 1
    lose_power
    ! grep -q '^connected' "$directory/refused.log" || fail "a foreign certificate was accepted"
    passed "a broker that another authority signed is not talked to"
fi
