# A board in the emulator. Sourced by the scripts that try a node.

# Flash as from the factory: erased, with a few random bytes in sector 0. make_flash FILE
make_flash() {
    head -c 65536 /dev/zero | tr '\0' '\377' >"$1"
    dd if=/dev/urandom of="$1" bs=8 count=1 conv=notrunc 2>/dev/null
    truncate -s 16M "$1"
}

# Puts the power on: emulate IMAGE FLASH LOG LINE runs it beside the script, as $emulator. The log is
# appended to; LINE is a TCP port of this machine, or null. With a fifth argument, a UDP port of this
# machine, the board has a network that brings it the datagrams to that port, at its own port 7000.
emulate() {
    local line=null network=(-nic none)
    [ -z "${5:-}" ] || network=(-nic "user,restrict=on,hostfwd=udp:127.0.0.1:$5-10.0.2.15:7000")
    [ "$4" = null ] || line="socket,host=127.0.0.1,port=$4,server=on,wait=off,nodelay=on"
    qemu-system-arm -machine mps2-an386,memory-backend=flash -display none -monitor none \
        -object "memory-backend-file,id=flash,size=16M,mem-path=$2,share=on" \
        -chardev "$line,id=line" -serial chardev:line \
        -chardev "file,id=log,path=$3,append=on" -serial chardev:log "${network[@]}" \
        -kernel "$1" </dev/null &
    emulator=$!
}
