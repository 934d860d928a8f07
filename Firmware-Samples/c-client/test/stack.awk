# Reads the call graphs that GCC writes (-fcallgraph-info=su) and prints the deepest stack below any
# function of the client, the program's callbacks not counted. Fails where a function reaches itself.
# Calls through pointers go to the bodies of packets, and to drain, which are taken as one more level.

function quoted(line, key,    parts) {
    split(line, parts, key ": \"")
    split(parts[2], parts, "\"")
    return parts[1]
}

/^node:/ {
    name = quoted($0, "title")
    label = quoted($0, "label")
    if (match(label, /[0-9]+ bytes/)) {
        own[name] = substr(label, RSTART, RLENGTH - 6) + 0
    }
}

/^edge:/ {
    from = quoted($0, "sourcename")
    callees[from] = callees[from] "\n" quoted($0, "targetname")
}

function is_body(name) {
    return name ~ /mrt_body_/ || name ~ /:drain$/
}

function depth(name,    list, count, i, deepest, below) {
    if (name in known) {
        return known[name]
    }
    if (name in visiting) {
        print "recursion through " name > "/dev/stderr"
        failed = 1
        return 0
    }
    visiting[name] = 1
    deepest = 0
    count = split(callees[name], list, "\n")
    for (i = 1; i <= count; i++) {
        below = list[i] == "__indirect_call" ? bodies : depth(list[i])
        deepest = below > deepest ? below : deepest
    }
    delete visiting[name]
    known[name] = own[name] + deepest
    return known[name]
}

END {
    # Bodies call the writer, which calls drain: two rounds reach what pointers reach.
    for (round = 0; round < 2; round++) {
        split("", known)
        highest = 0
        for (name in own) {
            if (is_body(name) && depth(name) > highest) {
                highest = depth(name)
            }
        }
        bodies = highest
    }
    split("", known)
    for (name in own) {
        if (depth(name) > result) {
            result = depth(name)
        }
    }
    print result + 0
    exit failed
}
