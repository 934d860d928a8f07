#!/usr/bin/env python3
# What clients of Diuit cost beside those of the broker's own interfaces: memory of an idle socket,
# and processor time of requests and deliveries.
#
#     Bench/Scenarios/sockets.py idle BUILD [COUNT]     bytes of a client, JSON and Socket.IO
#     Bench/Scenarios/sockets.py requests BUILD [COUNT] microseconds of a request
#
# BUILD is the directory of `martletd` and `martlet`, such as .build/release. The clients come with
# plain TCP from this process, which starts a broker of its own for each run.

import atexit
import csv
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

mode, build = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else {"idle": 2_000, "requests": 2_000}[mode]
chat_count = 61
ping_seconds = 20
rounds = 2


class Broker:
    """A broker with an app that speaks Diuit."""

    def __init__(self, port):
        self.port = port
        self.folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            [build + "/martletd", "--dev", "--data=" + self.folder, "--set",
             'listeners=["tls://127.0.0.1:%d","http://127.0.0.1:%d"]' % (port + 1, port),
             "--set", 'apps=[{app:"demo",interfaces:["diuit"]}]'],
            stdout=subprocess.DEVNULL, stderr=open(self.folder + "/log", "w"))
        atexit.register(self.process.kill)
        while not os.path.exists(self.folder + "/dev.env") or subprocess.run(
                ["curl", "-sf", "-o", "/dev/null", "http://127.0.0.1:%d/healthz" % port]
        ).returncode:
            assert self.process.poll() is None, open(self.folder + "/log").read()
            time.sleep(0.1)
        text = open(self.folder + "/dev.env").read()
        self.environment = {
            **os.environ, **dict(re.findall(r"export (\w+)=(\S+)", text))}

    def run(self, *words):
        done = subprocess.run(
            [build + "/martlet", *words, "--data", self.folder], capture_output=True, text=True,
            env=self.environment)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def tokens(self, user_count):
        """Names of users and their tokens."""
        path = self.folder + "/tokens.csv"
        self.run(
            "token", "mint", "--app", "demo", "--count", str(user_count), "--prefix", "u",
            "--output", path)
        return [(row["user"], row["token"]) for row in csv.DictReader(open(path))]

    def memory_bytes(self):
        """Memory that no file backs: the store's pages are none of it."""
        rollup = open("/proc/%d/smaps_rollup" % self.process.pid).read()
        return 1024 * int(re.search(r"Anonymous: +(\d+) kB", rollup).group(1))

    def microseconds(self):
        """Processor time, which the kernel counts in nanoseconds for each thread."""
        folder = "/proc/%d/task/" % self.process.pid
        return sum(
            int(open(folder + task + "/schedstat").read().split()[0]) for task in os.listdir(folder)
        ) / 1_000

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Socket:
    """A client of WebSocket that sends and reads texts."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((
            "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            % path).encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4_096)
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        assert b" 101 " in head, head

    def send(self, text):
        text = text.encode()
        size = (
            bytes([0x80 | len(text)]) if len(text) < 126
            else b"\xfe" + struct.pack(">H", len(text)))
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + text)

    def text(self):
        """The next text that is there or comes."""
        while True:
            start, size = 2, self.buffer[1] & 127 if len(self.buffer) > 1 else None
            if size == 126:
                size, start = (
                    struct.unpack(">H", self.buffer[2:4])[0] if len(self.buffer) > 3 else None, 4)
            elif size == 127:
                size, start = (
                    struct.unpack(">Q", self.buffer[2:10])[0] if len(self.buffer) > 9 else None, 10)
            if size is not None and len(self.buffer) >= start + size:
                text = self.buffer[start:start + size]
                self.buffer = self.buffer[start + size:]
                return text.decode()
            more = self.socket.recv(1 << 20)
            assert more, "the broker has closed"
            self.buffer += more


class Diuit(Socket):
    """A client of Socket.IO."""

    def __init__(self, port, token):
        super().__init__(port, "/socket.io/?EIO=4&transport=websocket")
        self.send("40")
        self.call("authenticate", {"authToken": token})

    def call(self, name, data=None):
        self.send("421" + json.dumps([name, data]))
        while True:
            text = self.text()
            if text == "2":
                self.send("3")
            elif text.startswith("43"):
                answer = json.loads(text[text.index("["):])[0]
                assert "error" not in answer, answer
                return answer

    def receive(self):
        """Reads until a message has come and is acknowledged."""
        has_message, is_acknowledged = False, False
        while not (has_message and is_acknowledged):
            text = self.text()
            if text == "2":
                self.send("3")
                is_acknowledged = has_message
            else:
                has_message = has_message or text.startswith('42["message"')


class JSONClient(Socket):
    """A client of the JSON socket."""

    def __init__(self, port, token):
        super().__init__(port, "/api/v1/socket")
        self.send(json.dumps(
            {"type": "connect", "token": token, "keepAliveSeconds": 600}))
        assert json.loads(self.text())["type"] == "connected"

    def receive(self):
        """Reads until a message has come and is acknowledged."""
        message = json.loads(self.text())
        self.send(json.dumps({"type": "ack", "number": message["number"]}))

    def ping(self):
        self.send('{"type":"ping"}')
        assert json.loads(self.text())["type"] == "pong"


def rest(clients, seconds):
    """Keeps clients for some seconds, as their libraries do."""
    end = time.monotonic() + seconds
    poll = select.epoll()
    by_number = {}
    for client in clients:
        by_number[client.socket.fileno()] = client
        if isinstance(client, Diuit):
            poll.register(client.socket, select.EPOLLIN)
    next_pings = time.monotonic()
    while time.monotonic() < end:
        for number, _ in poll.poll(0.5):
            client = by_number[number]
            text = client.text()
            assert text == "2", text
            client.send("3")
        if time.monotonic() >= next_pings:
            next_pings += ping_seconds
            for client in clients:
                if isinstance(client, JSONClient):
                    client.ping()


def connect(clients, kind, port, tokens):
    """Adds clients, and answers pings meanwhile."""
    for start in range(0, len(tokens), 100):
        clients += [kind(port, token) for _, token in tokens[start:start + 100]]
        rest(clients, 0.1)


def idle(kind, port):
    """Bytes of each client beyond the first 500."""
    broker = Broker(port)
    tokens = broker.tokens(count + 500)
    clients = []
    connect(clients, kind, port, tokens[:500])
    rest(clients, 30)
    before = broker.memory_bytes()
    connect(clients, kind, port, tokens[500:])
    rest(clients, 60)
    after = broker.memory_bytes()
    broker.stop()
    return (after - before) / count


class API:
    """A client of the HTTP API with an app key, on one connection."""

    def __init__(self, port, key):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.key = key

    def call(self, method, path, content=None):
        content = b"" if content is None else json.dumps(content).encode()
        self.socket.sendall((
            "%s /api/v1/apps/demo%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (method, path, self.key, len(content))).encode() + content)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(1 << 20)
        head, _, data = data.partition(b"\r\n\r\n")
        assert b" 200 " in head, (head, data)
        length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
        while len(data) < length:
            data += self.socket.recv(1 << 20)
        return json.loads(data)


def requests(port):
    """Processor time of requests to the API and of the same to Diuit's interface."""
    broker = Broker(port)
    (user, token), (other, _), (receiver, receiver_token) = broker.tokens(3)
    client = Diuit(port, token)
    api = API(port, broker.environment["MARTLET_APP_KEY"])
    for number in range(chat_count):
        chat = client.call(
            "chats/create",
            {"members": [other], "whiteList": None, "meta": {"name": "chat %d" % number}})["id"]
        client.call("messages/create", {"chatId": chat, "data": "message %d" % number})
    pair = "u-" + ("%s/%s" % (user, other)).encode().hex()
    message = {"from": user, "b": "message", "isKept": True, "users": [other]}
    for _ in range(40):
        api.call("POST", "/messages", message)
    cases = [
        ("%d chats with their newest messages" % chat_count,
         lambda: api.call("GET", "/users/%s/conversations/newest" % user),
         lambda: client.call("chats/list")),
        ("20 messages of a chat",
         lambda: api.call("GET", "/users/%s/history/%s?limit=20" % (user, other)),
         lambda: client.call("messages/list", {"chatId": pair})),
        ("a message that is kept",
         lambda: api.call("POST", "/messages", message),
         lambda: client.call("messages/create", {"chatId": pair, "data": "message"})),
    ]

    def cost(case, repetitions):
        start = broker.microseconds()
        for _ in range(repetitions):
            case()
        return (broker.microseconds() - start) / repetitions

    for _ in range(rounds):
        for name, api_case, diuit_case in cases:
            one, two = cost(api_case, count), cost(diuit_case, count)
            print(
                "%-38s API %4.0f us, Diuit %4.0f us, ratio %.2f" % (name, one, two, two / one),
                flush=True)
    for kind in (JSONClient, Diuit):
        socket_of_receiver = kind(port, receiver_token)

        def deliver():
            api.call("POST", "/messages", {"from": user, "b": "message", "users": [receiver]})
            socket_of_receiver.receive()

        print("a message from the API to a %s: %.0f us" % (kind.__name__, cost(deliver, count)))
        socket_of_receiver.socket.close()
    broker.stop()


port = 21_800
if mode == "idle":
    for round_number in range(rounds):
        for kind in (JSONClient, Diuit):
            port += 10
            print("%-10s %.0f bytes" % (kind.__name__, idle(kind, port)), flush=True)
else:
    requests(port)
