# What the scripts that try a sample against a real broker share. Sourced, with $martletd set. Everything
# happens on this machine, in $directory, and ends with the script.

directory=$(mktemp -d)
broker=
launched=
# More processes that end with the script, by their ids.
declare -A others

stop() {
    local process
    for process in $broker $launched "${!others[@]}"; do
        kill -KILL "$process" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$directory"
}
trap stop EXIT
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

fail() {
    echo "$(basename "$0"): $*" >&2
    tail -n 20 "$directory"/*.log >&2
    exit 1
}

passed() { echo "  $*"; }

# Waits until a file has so many lines with a word, at most this many seconds.
patience=20
wait_for() {
    local deadline=$((SECONDS + patience))
    touch "$1"
    until [ "$(grep -c "$2" "$1" || true)" -ge "$3" ]; do
        [ $SECONDS -lt $deadline ] || fail "no $3 lines with '$2' in $1"
        sleep 0.05
    done
}

# Ports below those that the system gives to connections. The broker comes back on the same ones, so
# that it cannot be given any; where another program is faster, others are tried.
choose_ports() {
    tls_port=$((20000 + RANDOM % 12000))
    tcp_port=$((tls_port + 1))
}
choose_ports

# More options for the broker.
broker_options=()

# Lets alice in with a pre-shared key: $key, in hexadecimal.
use_key() {
    key=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
    (umask 077 && echo "demo/alice:$key" >"$directory/keys")
    broker_options+=(--set "tls.pskFile=\"$directory/keys\"" --set 'tls.clientApp="demo"')
}

start_broker() {
    local attempt
    for attempt in 1 2 3 4 5; do
        "$martletd" --dev --data="$directory/data" --listen="tls://localhost:$tls_port" \
            --listen="tcp://127.0.0.1:$tcp_port?anonymous" "${broker_options[@]}" >"$directory/broker.log" 2>&1 &
        broker=$!
        wait_for "$directory/broker.log" 'state=ready\|is in use' 1
        ! grep -q 'is in use' "$directory/broker.log" || { choose_ports; continue; }
        return
    done
    fail "no port is free"
}

kill_broker() {
    kill -KILL "$broker"
    wait "$broker" 2>/dev/null || true
    broker=
}
