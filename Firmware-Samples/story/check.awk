# Compares what one node had stored (the first file, its log) with what arrived (the second file), and
# what it did with what it was told: commands 1 to `commands`.

FNR == NR {
    if ($1 == "stored") {
        stored[$2] = 1
        stored_count++
    }
    next
}

$1 != node || $2 != "(unicast):" {
    next
}

$3 == "lost" {
    lost_count++
    next
}

{
    # START.READING executed=COUNT sum=SUM
    split($3, parts, ".")
    split($4, executed, "=")
    split($5, sum, "=")
    is_next = parts[1] == start && parts[2] == reading + 1
    is_new = parts[1] > start && parts[2] == 1
    if (!is_next && !is_new) {
        print node ": " $3 " came behind " start "." reading > "/dev/stderr"
        failed = 1
    }
    # Whoever starts again has lost its power, and that is told before.
    if (is_new && lost_count < parts[1] - 1) {
        print node ": its will came after " $3 > "/dev/stderr"
        failed = 1
    }
    start = parts[1] + 0
    reading = parts[2] + 0
    arrived[$3] = 1
    count++
}

END {
    for (each in stored) {
        if (!(each in arrived)) {
            print node ": " each " was stored and did not arrive" > "/dev/stderr"
            failed = 1
        }
    }
    if (stored_count == 0 || executed[2] != commands || sum[2] != commands * (commands + 1) / 2) {
        print node ": " executed[2] " of " commands " commands, their sum is " sum[2] > "/dev/stderr"
        failed = 1
    }
    if (!failed) {
        printf "  %s: %d readings over %d starts arrived once and in order, %d commands done once\n", \
            node, count, start, commands
    }
    exit failed
}
