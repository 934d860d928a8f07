#!/usr/bin/env python3
# What the relays of martlet-gateway do beside a broker: events to a webhook, and wake-ups of many
# targets of which a part is dead.
#
#     Bench/Scenarios/relays.py events BUILD [COUNT]  events a second, latency at 100/s, idle memory
#     Bench/Scenarios/relays.py wakes BUILD [COUNT]   delay of wake-ups, all alive and a tenth dead
#
# BUILD is the directory of `martletd`, `martlet` and `martlet-gateway`, such as .build/release. The
# relay has processor 0 alone. Broker, publisher and receiver, all of which this process starts, have
# the others. All traffic is on loopback.

import asyncio
import atexit
import base64
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import mqtt

mode, build = sys.argv[1:3]
# Events that the relay has not taken wait in its queue, which has 10,000 places.
count = int(sys.argv[3]) if len(sys.argv) > 3 else {"events": 8_000, "wakes": 10_000}[mode]
pace = 500  # Wake-ups a second.
window = 64  # Publications without an acknowledgement.

signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Ends the children, too.
processors = sorted(os.sched_getaffinity(0))
relay_processor = processors[0]
if len(processors) > 1:
    os.sched_setaffinity(0, processors[1:])


class Broker:
    """A broker with the user `relay`, who is told events and wake-ups."""

    def __init__(self, port):
        self.port = port
        self.folder = tempfile.mkdtemp()
        self.process = start(
            "martletd", "--dev", "--data=" + self.folder, "--set",
            'listeners=["tls://127.0.0.1:%d","tcp://127.0.0.1:%d","http://127.0.0.1:%d"]'
            % (port, port + 1, port + 2),
            "--set", 'apps=[{app:"demo",wake:{relay:"relay"}}]',
            log=self.folder + "/log")
        while "state=ready" not in open(self.folder + "/log").read():
            assert self.process.poll() is None, open(self.folder + "/log").read()
            time.sleep(0.1)
        relay_token = self.run("token", "mint", "--user", "relay", "--right", "wake:*",
                               "--right", "publish:#", "--right", "subscribe:#")
        self.write("relay.token", relay_token)
        self.write("secret", "whsec_" + base64.b64encode(os.urandom(24)).decode())

    def write(self, name, content):
        with open(os.open(self.path(name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as to:
            to.write(content)

    def path(self, name):
        return self.folder + "/" + name

    def run(self, *words):
        environment = dict(re.findall(r"export (\w+)=(\S+)", open(self.path("dev.env")).read()))
        done = subprocess.run(
            [build + "/martlet", *words, "--app", "demo", "--data", self.folder],
            capture_output=True, text=True, env={**os.environ, **environment})
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def relay(self, kind, settings):
        """Starts a relay, and waits until the broker knows it."""
        self.write(kind + ".json5", """{
            martlet: { server: "tls://127.0.0.1:%d", caFile: "certificates/ca.pem",
                       tokenFile: "relay.token" },
            stateFile: "%s.state", privateNetworks: ["127.0.0.0/8"], %s }""" % (
                self.port, kind, settings))
        log = self.path(kind + ".log")
        process = start(
            "martlet-gateway", kind, "--config=" + self.path(kind + ".json5"), log=log,
            processor=relay_processor, folder=self.folder)
        ready = "event=connected" if kind == "push" else "event=subscribed"
        while ready not in open(log).read():
            assert process.poll() is None, open(log).read()
            time.sleep(0.1)
        return process

    def stop(self):
        stop(self.process)


def start(program, *words, log, processor=None, folder=None):
    pin = [] if processor is None else ["taskset", "-c", str(processor)]
    process = subprocess.Popen(
        [*pin, os.path.abspath(build) + "/" + program, *words], stdout=subprocess.DEVNULL, stderr=open(log, "w"),
        cwd=folder)
    atexit.register(process.kill)
    return process


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def processor_seconds(process):
    fields = open("/proc/%d/stat" % process.pid).read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Publisher:
    """A client of MQTT 3.1.1 that publishes with QoS 1 and a window."""

    def __init__(self, broker):
        token = broker.run("token", "mint", "--user", "publisher").strip()
        self.socket = socket.create_connection(("127.0.0.1", broker.port + 1))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(mqtt.connect("load", "x", token))
        assert self.socket.recv(4) == b"\x20\x02\x00\x00"
        self.number = 0
        self.is_closed = False
        self.free = threading.Semaphore(window)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        rest = b""
        while data := self.socket.recv(1 << 16):
            rest += data
            acknowledged = len(rest) // 4
            rest = rest[4 * acknowledged:]
            if acknowledged:
                self.free.release(acknowledged)
        self.is_closed = True
        self.free.release()

    def publish(self, topic, payload):
        self.free.acquire()
        assert not self.is_closed, "the broker has closed the connection"
        self.number = self.number % 65_535 + 1
        self.socket.sendall(mqtt.publish(topic, payload.encode(), self.number))


class Receiver:
    """An HTTP server that answers 200 to all, and notes when a request has come."""

    def __init__(self, handle):
        self.handle = handle
        self.loop = asyncio.new_event_loop()
        self.port = None
        is_ready = threading.Event()

        def run():
            async def serve():
                server = await asyncio.start_server(self.serve, "0.0.0.0", 0, backlog=4_096)
                self.port = server.sockets[0].getsockname()[1]
                is_ready.set()
            self.loop.run_until_complete(serve())
            self.loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        is_ready.wait()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
                body = await reader.readexactly(length)
                self.handle(head, body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def percentiles(values):
    values = sorted(values)
    return "p50 %.1f, p99 %.1f, maximum %.1f ms" % tuple(
        1_000 * values[min(len(values) - 1, int(len(values) * part))] for part in (0.5, 0.99, 1))


def wait(what, condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def events():
    broker = Broker(21_700)
    delays, seen = [], set()

    def handle(head, body):
        event = json.loads(body)
        seen.add(event["id"])
        delays.append(time.time() - json.loads(event["data"]["payload"])["at"])

    receiver = Receiver(handle)
    relay = broker.relay("webhook", """hooks: [{ name: "load", url: "http://127.0.0.1:%d/", secretFiles: ["secret"], topics: ["load/+"] }]""" % receiver.port)
    time.sleep(5)
    rollup = open("/proc/%d/smaps_rollup" % relay.pid).read()
    sizes = {name: int(re.search(r"(?m)^%s: +(\d+) kB" % name, rollup).group(1)) / 1_024
             for name in ("Rss", "Pss", "Private_Dirty")}
    print("idle: %.1f MiB resident, %.1f with its share of libraries, %.1f private" % (
        sizes["Rss"], sizes["Pss"], sizes["Private_Dirty"]))
    publisher = Publisher(broker)

    def publish(number):
        publisher.publish("load/%d" % (number % 100), json.dumps({"at": time.time()}))

    for _ in range(3):
        seen.clear(), delays.clear()
        used, began = processor_seconds(relay), time.monotonic()
        for number in range(count):
            publish(number)
        wait("all events", lambda: len(seen) == count, 120)
        seconds = time.monotonic() - began
        print("%d events in %.1f s: %.0f/s, %.1f s of the relay's processor" % (
            count, seconds, count / seconds, processor_seconds(relay) - used), flush=True)
        seen.clear(), delays.clear()
        began = time.monotonic()
        for number in range(2_000):
            time.sleep(max(0, began + number / 100 - time.monotonic()))
            publish(number)
        wait("2,000 events", lambda: len(seen) == 2_000, 30)
        print("100/s: " + percentiles(delays), flush=True)
    stop(relay)
    broker.stop()


def set_targets(broker, users, address):
    """Each user sets a target, over one connection to the API."""
    api = socket.create_connection(("127.0.0.1", broker.port + 2))
    api.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for index, (_, token) in enumerate(users):
        content = json.dumps({"kind": "webhook", "address": address(index)}).encode()
        api.sendall((
            "PUT /api/v1/wake-targets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (token, len(content))).encode() + content)
        data = b""
        while not data.rstrip().endswith(b"}"):
            data += api.recv(1 << 16)
        assert data.startswith(b"HTTP/1.1 200"), data


def wakes(port, dead_part):
    """Delays from the publication to the request at the receiver, of targets that answer."""
    broker = Broker(port)
    broker.run("token", "mint", "--count", str(count), "--prefix", "u",
               "--output", broker.path("users.csv"))
    users = [(row["user"], row["token"]) for row in csv.DictReader(open(broker.path("users.csv")))]
    sent, delays = {}, {}

    def handle(head, body):
        index = int(re.match(rb"POST /(\d+)", head).group(1))
        delays.setdefault(index, time.monotonic() - sent[index])

    receiver = Receiver(handle)
    # One that takes connections and says nothing, and a port at which nobody listens.
    silent = socket.create_server(("0.0.0.0", 0), backlog=4_096)
    closed = socket.socket()
    closed.bind(("0.0.0.0", 0))
    dead_ports = [silent.getsockname()[1], closed.getsockname()[1]]

    def is_dead(index):
        return index % 10 < 10 * dead_part

    def address(index):
        # Ten targets for each host.
        host = index // 100 * 10 + index % 10
        return "http://127.%d.%d.%d:%d/%d" % (
            1 + host // 62_500, host // 250 % 250, 1 + host % 250,
            dead_ports[host // 10 % 2] if is_dead(index) else receiver.port, index)

    set_targets(broker, users, address)
    relay = broker.relay("push", 'webhook: { secretFiles: ["secret"], allowHttp: true }')
    publisher = Publisher(broker)
    used, began = processor_seconds(relay), time.monotonic()
    for index, (user, _) in enumerate(users):
        time.sleep(max(0, began + index / pace - time.monotonic()))
        sent[index] = time.monotonic()
        publisher.publish("$u/" + user, '{"t":0,"b":"wake"}')
    living = sum(not is_dead(index) for index in range(count))
    wait("all wake-ups", lambda: len(delays) == living, 120)
    print("%d targets, %d of them dead, %d wake-ups a second: %s; %.1f s of the relay's processor" % (
        count, count - living, pace, percentiles(delays.values()),
        processor_seconds(relay) - used), flush=True)
    silent.close()
    stop(relay)
    broker.stop()


if mode == "events":
    events()
else:
    for round_number in range(2):
        wakes(21_710 + 20 * round_number, 0)
        wakes(21_720 + 20 * round_number, 0.1)
