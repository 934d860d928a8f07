# What the scripts that try a sample against a real broker share. Sourced, with $martletd set. Everything
# happens on this machine, in $directory, and ends with the script.

directory=$(mktemp -d)
broker=
launched=

stop() {
    [ -z "$broker" ] || kill -KILL "$broker" 2>/dev/null || true
    [ -z "$launched" ] || kill -KILL "$launched" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$directory"
}
trap stop EXIT

fail() {
    echo "$(basename "$0"): $*" >&2
    tail -n 20 "$directory"/*.log >&2
    exit 1
}

passed() { echo "  $*"; }

# Waits until a file has so many lines with a word, at most 20 s.
wait_for() {
    local deadline=$((SECONDS + 20))
    until [ "$(grep -c "$2" "$1" 2>/dev/null || true)" -ge "$3" ]; do
        [ $SECONDS -lt $deadline ] || fail "no $3 lines with '$2' in $1"
        sleep 0.05
    done
}

free_port() {
    local port
    while port=$((20000 + RANDOM % 20000)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

tls_port=$(free_port)
tcp_port=$(free_port)

start_broker() {
    "$martletd" --dev --data="$directory/data" --listen="tls://localhost:$tls_port" \
        --listen="tcp://127.0.0.1:$tcp_port?anonymous" >"$directory/broker.log" 2>&1 &
    broker=$!
    wait_for "$directory/broker.log" state=ready 1
}

kill_broker() {
    kill -KILL "$broker"
    wait "$broker" 2>/dev/null || true
    broker=
}
