#!/usr/bin/env bash
# A node that sleeps in the emulator, without a connection. A message for it makes the broker ask the
# relay, the relay sends a datagram, and the node wakes, fetches the message and sleeps again.
#
# sleeper.sh PROGRAMS IMAGE
set -euo pipefail

programs=$1 image=$2
here=$(dirname "$0")
martletd=$programs/martletd
source "$here/../c-client/test/harness.sh"
source "$here/../board-mps2/emulator.sh"
patience=60
broker_options=(--set 'apps=[{app:"demo",wake:{relay:"relay",intervalSeconds:1}}]')

martlet() { "$programs/martlet" "$@"; }

mint() { martlet token mint --user "$@" --json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p'; }

power_on() {
    emulate "$image" "$directory/flash" "$directory/node.log" "$line_port" "$radio_port"
    others[$emulator]=1
}

# The bytes of hexadecimal digits.
bytes() { printf "$(sed 's/../\\x&/g' <<<"$1")"; }

count_of() { grep -c "$1" "$directory/node.log" || true; }

# datagram TIME: one with the node's key, whatever its time is, in hexadecimal.
datagram() {
    local head
    head=$(printf '4d4c5731%016x0102030405060708' "$1")
    echo "$head$(bytes "$head" | openssl dgst -sha256 -mac HMAC\
        -macopt "hexkey:$device_key" -r | cut -c 1-32)"
}

send_datagram() { bytes "$1" >"/dev/udp/127.0.0.1/$radio_port"; }

start_broker
source "$directory/data/dev.env"
export MARTLET_APP MARTLET_DATA MARTLET_CA MARTLET_SERVER
line_port=$((tcp_port + 1)) radio_port=$((tcp_port + 2))
gate_token=$(mint gate --right 'attach:pump7' --right 'send:ops')
desk_token=$(mint desk)
ops_token=$(mint ops)
(umask 077 && openssl rand -hex 32 >"$directory/udp.key" && mint relay --right 'wake:*' >"$directory/relay.token")
cat >"$directory/push.json5" <<END
{
  martlet: { server: "$MARTLET_SERVER", caFile: "$MARTLET_CA", tokenFile: "$directory/relay.token" },
  stateFile: "$directory/push.state",
  udp: { networks: ["127.0.0.0/8"], keyFile: "$directory/udp.key", intervalMilliseconds: 500 },
}
END
"$programs/martlet-gateway" push --config="$directory/push.json5" >"$directory/relay.log" 2>&1 &
others[$!]=1
wait_for "$directory/relay.log" 'event=connected' 1
"$programs/martlet-gateway" --token="$gate_token" --line="pump7=tcp://127.0.0.1:$line_port" \
    >"$directory/gateway.log" 2>&1 &
others[$!]=1
MARTLET_TOKEN=$ops_token martlet listen >"$directory/ops.log" 2>"$directory/reader.log" &
others[$!]=1
wait_for "$directory/reader.log" '^martlet: connected' 1

# The factory writes the device's key behind the seed.
make_flash "$directory/flash"
device_key=$("$programs/martlet-gateway" push device-key --config="$directory/push.json5" --user=pump7)
bytes "$device_key" | dd of="$directory/flash" bs=1 seek=8 conv=notrunc 2>/dev/null
power_on
wait_for "$directory/node.log" '^asleep' 1
martlet wake set --user pump7 --kind udp --address "127.0.0.1:$radio_port" >/dev/null

MARTLET_TOKEN=$desk_token martlet send --to pump7 --grade once 42 >/dev/null
wait_for "$directory/node.log" '^executed 42$' 1
wait_for "$directory/ops.log" '^pump7 (unicast): executed=1 sum=42$' 1
wait_for "$directory/node.log" '^asleep' 2
[ "$(count_of '^woken')" = 1 ] || fail "woken $(count_of '^woken') times"
passed "a message woke the node, which fetched it and sleeps again"

for number in 1 2 3 4 5; do
    MARTLET_TOKEN=$desk_token martlet send --to pump7 --grade once $number >/dev/null
done
wait_for "$directory/ops.log" 'executed=6 sum=57$' 1
wait_for "$directory/node.log" '^asleep' 3
passed "five messages in a row were fetched, each once"

# The relay's own datagrams may still be on their way: every refusal below is waited for by its number.
now=$(($(date +%s) * 1000))
refused=$(count_of '^refused') woken=$(count_of '^woken')
old=$(datagram 1) true=$(datagram $((now + 3600000)))
forged=${true%????????}00000000
send_datagram "$old"
send_datagram "$forged"
send_datagram 4d4c57
wait_for "$directory/node.log" '^refused' $((refused + 3))
[ "$(count_of '^woken')" = "$woken" ] || fail "a datagram without a proof woke the node"
send_datagram "$true"
wait_for "$directory/node.log" '^woken' $((woken + 1))
wait_for "$directory/node.log" '^asleep' $((woken + 2))
passed "an old, a forged and a short datagram were refused, a proven one woke the node"

# The power goes while it sleeps. What was followed does not count again.
kill -KILL "$emulator"
wait "$emulator" 2>/dev/null || true
unset "others[$emulator]"
asleep=$(count_of '^asleep') refused=$(count_of '^refused') woken=$(count_of '^woken')
power_on
wait_for "$directory/node.log" '^asleep' $((asleep + 1))
send_datagram "$true"
wait_for "$directory/node.log" '^refused' $((refused + 1))
[ "$(count_of '^woken')" = "$woken" ] || fail "a datagram woke the node twice"
passed "after a loss of power the same datagram is refused"

[ "$(count_of '^executed')" = 6 ] || fail "$(count_of '^executed') commands were carried out"

# Each frame ends the sleep of the processor, and nothing else does: a tick would, 200 times a second.
most=$(sed -n 's/^woken //p' "$directory/node.log" | sort -n | tail -n 1)
[ "$most" -le 20 ] || fail "the processor was woken $most times in one sleep"
