#!/usr/bin/env python3
# What logins with passwords cost others: the latency of messages between two clients alone, and
# beside 500 logins a second with tokens, with passwords that the broker recognizes, with passwords
# that it has never seen, and with wrong ones.
#
#     Bench/Scenarios/passwords.py BUILD [ROUNDS]
#
# BUILD is the directory of `martletd` and `martlet`, such as .build/release. The logins come from a
# process of the scheduler's idle class, as if from another machine: it does not take a processor
# that a message needs. All traffic is on loopback.

import asyncio
import csv
import ctypes
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import mqtt

PORT = 21885  # With passwords; the next one takes tokens.
RATE = 500  # Logins a second.
SECONDS = 8  # Of a measurement.
INTERVAL = 0.005  # Between two messages.


async def logins(port, seconds, names, password):
    """Logs in RATE times a second, and prints how many were accepted."""
    counts = [0, 0]

    async def log_in(name):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(mqtt.connect("c-" + name, name, password or name))
            answer = await asyncio.wait_for(reader.readexactly(4), 10)
            counts[answer[3] != 0] += 1
            writer.write(mqtt.DISCONNECT)
            writer.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            counts[1] += 1

    start, tasks, done = time.monotonic(), set(), 0
    while (now := time.monotonic() - start) < seconds:
        while done < now * RATE:
            tasks.add(task := asyncio.create_task(log_in(names[done % len(names)])))
            task.add_done_callback(tasks.discard)
            done += 1
        await asyncio.sleep(0.002)
    await asyncio.sleep(1)
    print(*counts)


def latencies(port, tokens):
    """The time of each message from one client to the other, in milliseconds, in order."""
    def client(name, token):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(mqtt.connect(name, "x", token))
        assert stream.recv(4)[3] == 0
        return stream

    sender, receiver = client("lat-a", tokens[0]), client("lat-b", tokens[1])
    receiver.sendall(mqtt.subscribe("lat/x", 0))
    receiver.recv(5)
    message = mqtt.publish("lat/x", b"12345678")
    times, next_time = [], time.monotonic()
    end = next_time + SECONDS
    while next_time < end:
        next_time += INTERVAL
        time.sleep(max(0, next_time - time.monotonic()))
        start, left = time.perf_counter(), len(message)
        sender.sendall(message)
        while left:
            left -= len(receiver.recv(left))
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def standard_hash(password):
    """The argon2id hash that the broker computes for a new password."""
    library, place = ctypes.CDLL("libargon2.so.1"), ctypes.create_string_buffer(200)
    code = library.argon2id_hash_encoded(
        *map(ctypes.c_uint32, (5, 7168, 1)), password.encode(), ctypes.c_size_t(len(password)),
        os.urandom(16), ctypes.c_size_t(16), ctypes.c_size_t(32), place, ctypes.c_size_t(200))
    assert code == 0, code
    return place.value.decode()


def main(build, rounds):
    folder = tempfile.mkdtemp()
    log = open(folder + "/log", "w")
    broker = subprocess.Popen(
        [build + "/martletd", "--dev", "--data=" + folder + "/data",
         "--listen", "tcp://127.0.0.1:%d?passwords=demo" % PORT,
         "--listen", "tcp://127.0.0.1:%d" % (PORT + 1),
         "--set", "limits.connectionsPerAddress=20000"], stdout=log, stderr=log)
    try:
        while "state=ready" not in open(folder + "/log").read():
            assert broker.poll() is None, open(folder + "/log").read()
            time.sleep(0.1)

        def martlet(*words):
            done = subprocess.run(
                [build + "/martlet", *words, "--data", folder + "/data", "--app", "demo"],
                capture_output=True, text=True)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            return done.stdout.strip()

        tokens = [martlet("token", "mint", "--user", user) for user in ("lat-a", "lat-b")]
        martlet("token", "mint", "--count", "200", "--prefix", "t", "--output", folder + "/fleet")
        with open(folder + "/fleet") as source:
            fleet = [row["token"] for row in csv.DictReader(source)]
        first = ["first%d" % i for i in range(RATE * (SECONDS + 2) * rounds)]
        known = ["known%d" % i for i in range(200)]
        shared = standard_hash("secret")
        with open(folder + "/passwords", "w") as to:
            to.writelines("%s:%s\n" % (name, shared) for name in first + known)
        with open(folder + "/mosquitto.conf", "w") as to:
            to.write("listener 31999 127.0.0.1\nallow_anonymous false\npassword_file %s\n"
                     % (folder + "/passwords"))
        os.chmod(folder + "/passwords", 0o600)
        martlet("import", "mosquitto", "--config", folder + "/mosquitto.conf")

        def generator(port, seconds, names, password=""):
            with open(folder + "/names", "w") as to:
                to.write("\n".join(names))
            return subprocess.Popen(
                [sys.executable, __file__, "logins", str(port), str(seconds),
                 folder + "/names", password], stdout=subprocess.PIPE, text=True)

        # Until all known ones are recognized: then no login is refused.
        while generator(PORT, 5, known, "secret").communicate()[0].split()[1] != "0":
            pass
        found = {}
        for turn in range(rounds):
            part = first[turn * len(first) // rounds:(turn + 1) * len(first) // rounds]
            for name, arguments in {
                "alone": None, "tokens": (PORT + 1, fleet), "recognized": (PORT, known, "secret"),
                "first": (PORT, part, "secret"), "wrong": (PORT, known, "wrong"),
            }.items():
                process = None
                if arguments:
                    port, names, *password = arguments
                    process = generator(port, SECONDS + 2, names, *password)
                    time.sleep(1)
                times = latencies(PORT + 1, tokens)
                counts = process.communicate()[0].split() if process else [0, 0]
                found.setdefault(name, []).append(times)
                print("%-10s  p50 %.3f ms  p99 %.3f ms  logins accepted %s refused %s" % (
                    name, times[len(times) // 2], times[len(times) * 99 // 100], *counts),
                    flush=True)
        for name, rows in found.items():
            print("median of %d rounds: %-10s  p50 %.3f ms  p99 %.3f ms" % (
                rounds, name, statistics.median(row[len(row) // 2] for row in rows),
                statistics.median(row[len(row) * 99 // 100] for row in rows)))
    finally:
        broker.terminate()
        broker.wait()


if sys.argv[1] == "logins":
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with open(sys.argv[4]) as source:
        asyncio.run(logins(int(sys.argv[2]), float(sys.argv[3]), source.read().split(),
                           sys.argv[5]))
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Ends the broker, too.
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
