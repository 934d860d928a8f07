"""JSON clients of others against the broker: the library websockets on /api/v1/socket, and event
streams read with Python's own HTTP client. Ends with code 0 when all is as it should be.

    json_clients.py PORT ALICE-TOKEN BOB-TOKEN APP-KEY PART [FILE]

PART is `exchange`, `faults`, `streams`, `resumed` (what of `streams` proxies pass on), `acting`, or,
for a broker that is killed meanwhile, `send` and `read`, which write what they have to FILE;
SIGUSR1 says that it was started again.
"""

import sys

# The folder of this script is not the place of the library that has the name of another script.
sys.path.pop(0)

import asyncio
import http.client
import json
import signal
import socket
import time
import urllib.parse

import websockets

PORT, ALICE, BOB, KEY, PART = sys.argv[1:6]
PATIENCE_SECONDS = 60
# It waits until someone looks for it.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})


def socket_of(query="", **options):
    """A WebSocket whose client gives the broker time; the caller awaits it."""
    return websockets.connect(
        f"ws://localhost:{PORT}/api/v1/socket{query}", open_timeout=PATIENCE_SECONDS,
        ping_timeout=None, **options)


class Client:
    """A client that has logged in."""

    @classmethod
    async def connect(cls, token, **members):
        self = cls()
        self.socket = await socket_of()
        await self.send(type="connect", token=token, **members)
        self.connected = await self.next("connected")
        return self

    async def send(self, **message):
        await self.socket.send(json.dumps(message))

    async def next(self, kind=None):
        text = await asyncio.wait_for(self.socket.recv(), PATIENCE_SECONDS)
        assert isinstance(text, str), "a binary message"
        message = json.loads(text)
        assert kind is None or message["type"] == kind, (kind, message)
        return message

    async def ask(self, **message):
        await self.send(**message)
        answer = await self.next()
        while answer["type"] == "message" and answer["kind"] == "groupEvent":
            await self.send(type="ack", number=answer["number"])
            answer = await self.next()
        assert answer["type"] == "response", answer
        assert answer["request"] == message["request"], answer
        return answer


def well(what):
    print(what, "well", flush=True)


async def exchange():
    alice = await Client.connect(ALICE, device="page", outbox={"epoch": "00000000000000ff"})
    bob = await Client.connect(BOB, device="page", sessionExpirySeconds=600)
    assert alice.connected["user"] == "alice" and not alice.connected["isSessionPresent"]

    text = 'line\n"quoted" \u00fc \U0001f600 \\'
    await alice.send(type="send", number=1, users=["bob"], t=7, b=text, mid="m-1")
    message = await bob.next("message")
    assert (message["number"], message["t"], message["b"]) == (1, 7, text), message
    assert (message["from"], message["kind"], message["grade"]) == ("alice", "user", "durable")
    await bob.send(type="ack", number=1)
    result = await alice.next("result")
    assert (result["number"], result["reason"], result["mid"]) == (1, 1, "m-1"), result
    well("text")

    granted = await bob.ask(type="subscribe", request=1, filter="site/#", grade="durable")
    assert (granted["reason"], granted["grade"]) == (0, "durable"), granted
    await alice.send(type="send", number=2, topic="site/x", base64="AAH/")
    message = await bob.next("message")
    assert (message["topic"], message["base64"]) == ("site/x", "AAH/"), message
    await bob.send(type="ack", number=2)
    await alice.next("result")
    large = "x" * 100_000
    await alice.send(type="send", grade="transient", topic="site/x", payload=large)
    message = await bob.next("message")
    assert message["payload"] == large and "number" not in message
    well("topics")

    # The test asks the broker for them: one remains.
    for topic, payload in [("kept/x", "40"), ("kept/y", "41"), ("kept/x", "")]:
        await alice.send(
            type="send", grade="transient", topic=topic, payload=payload, isRetained=True)
    # The broker has read them when it answers.
    await alice.ask(type="presence", request=9, user="bob")
    well("retained")

    await alice.send(type="send", number=3, users=["bob", "nobody"], b="x")
    message = await bob.next("message")
    await bob.send(type="ack", number=message["number"])
    result = await alice.next("result")
    assert result["refused"] == [{"index": 1, "reason": 144}], result
    well("refusals")

    made = await alice.ask(
        type="createGroup", request=1, title="T", meta="{}", key="00000000000000aa")
    group = made["group"]
    assert (await bob.ask(type="joinGroup", request=2, group=group))["reason"] == 0
    seen = await alice.ask(type="describeGroup", request=2, group=group)
    assert (seen["memberCount"], seen["members"]) == (2, ["alice", "bob"]), seen
    listed = await bob.ask(type="listGroups", request=3)
    assert listed["groups"] == [{"group": group, "title": "T", "isOwn": False}], listed
    await alice.send(type="send", number=4, group=group, b="all")
    message = await bob.next("message")
    while message.get("b") != "all":
        message = await bob.next("message")
    assert (message["kind"], message["group"]) == ("group", group), message
    await bob.send(type="ack", number=message["number"])
    well("groups")

    # The fragments of a message, and a session that is taken up again at a number.
    fragments = json.dumps({"type": "presence", "request": 4, "user": "alice"})
    await bob.socket.send([fragments[:7], fragments[7:20], fragments[20:]])
    while (presence := await bob.next())["type"] != "response":
        pass
    assert presence["isOnline"] and presence["devices"] == ["page"], presence
    epoch = bob.connected["epoch"]
    await bob.send(type="disconnect")
    assert (await bob.next("closed"))["reason"] == 0
    result = None
    while result is None or result["number"] != 4:
        result = await alice.next("result")
        assert result["reason"] == 1, result
    await alice.send(type="send", number=5, users=["bob"], b="queued")
    assert (await alice.next("result"))["reason"] == 1
    again = await Client.connect(
        BOB, device="page", sessionExpirySeconds=600,
        resume={"epoch": epoch, "number": message["number"]})
    assert again.connected["isSessionPresent"] and again.connected["epoch"] == epoch
    assert (await again.next("message"))["b"] == "queued"
    well("sessions")

    other = await Client.connect(BOB, device="page")
    closed = await again.next("closed")
    assert closed["name"] == "session-taken-over", closed
    await other.send(type="ping")
    while (await other.next())["type"] != "pong":
        pass
    well("takeovers")


async def faults():
    async def ends(token, message, *expected, code=1000):
        socket = await socket_of()
        if token:
            await socket.send(json.dumps({"type": "connect", "token": token}))
            await socket.recv()
        await socket.send(message)
        for part in expected:
            text = await asyncio.wait_for(socket.recv(), PATIENCE_SECONDS)
            assert part in text, (part, text)
        try:
            await asyncio.wait_for(socket.recv(), PATIENCE_SECONDS)
            assert False, "not closed"
        except websockets.ConnectionClosed as error:
            assert (error.rcvd or error).code == code, error

    await ends(None, '{"type":"connect","token":"wrong"}', '"reason":134')
    await ends(None, '{"type":"connect"}', '"refused"')
    await ends(None, '{"type":"ping"}', '"refused","reason":130')
    await ends(
        None, '{"type":"connect","window":18446744073709551616}', '"error"', '"refused"')
    await ends(ALICE, "[1]", '"error"', '"closed","reason":129')
    await ends(ALICE, '{"type":"ping","x":1}', '"member":"x"', '"closed"')
    await ends(ALICE, b"\x00", code=1003)
    await ends(ALICE, " " * 600_000, code=1009)
    await ends(None, " " * 20_000, "too large", '"refused","reason":149')
    await ends(ALICE, [" "] * 100, "too many frames", '"closed","reason":149')
    well("faults")


class Stream:
    """An event stream: iterates over the ids and the messages."""

    def __init__(self, query="", token=BOB, last=None, user=None):
        self.connection = http.client.HTTPConnection(
            "localhost", int(PORT), timeout=PATIENCE_SECONDS)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if last:
            headers["Last-Event-ID"] = last
        if user:
            headers["Martlet-User"] = user
        self.connection.request("GET", "/api/v1/events?" + query, headers=headers)
        self.response = self.connection.getresponse()

    def __iter__(self):
        identifier = None
        while line := self.response.readline():
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                identifier = line[4:]
            elif line.startswith("data: "):
                yield identifier, json.loads(line[6:])
                identifier = None


async def streams():
    await stream_faults()
    await resumed()


async def stream_faults():
    refused = Stream("device=s", token="wrong")
    assert refused.response.status == 401, refused.response.status
    assert json.load(refused.response)["code"]["number"] == 134
    for query, part in [("devise=s", "devise"), ("window=0", "window"), ("device=%zz", "query"),
                        ("cleanStart=yes", "cleanStart"), ("subscribe=", "subscribe")]:
        refused = Stream(query)
        assert refused.response.status == 400, query
        assert part in json.load(refused.response)["detail"], query
    assert Stream("device=s", last="x").response.status == 400
    assert Stream("device=s", token=None).response.status == 401
    # Whoever sends something behind the request loses the stream.
    talkative = socket.create_connection(("localhost", int(PORT)), PATIENCE_SECONDS)
    talkative.sendall(
        b"GET /api/v1/events?device=talk HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "
        + BOB.encode() + b"\r\n\r\n")
    text = b""
    while b"connected" not in text:
        text += talkative.recv(65_536)
    talkative.sendall(b"x")
    try:
        while talkative.recv(65_536):
            pass
    except ConnectionError:
        pass


async def resumed():
    query = "device=s&window=3&sessionExpirySeconds=600&subscribe=site/%23&subscribe=other"
    stream = Stream(query)
    assert stream.response.status == 200
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    events = iter(stream)
    assert next(events)[1]["type"] == "connected"
    assert [next(events)[1]["reason"] for _ in range(2)] == [0, 0]

    alice = await Client.connect(ALICE, device="s", outbox={"epoch": "0000000000000001"})
    for number in range(1, 8):
        await alice.send(type="send", number=number, topic="site/x", b=str(number))
    await alice.send(type="send", number=8, users=["bob"], b="8")
    got, last = [], None
    # The stream ends with its window; each further one begins behind the last id.
    while len(got) < 8:
        for identifier, message in events:
            if message["type"] == "message":
                got.append(message["b"])
                last = identifier
            if len(got) == 8:
                break
        events = iter(Stream(query, last=last))
    assert got == [str(number) for number in range(1, 9)], got
    for _ in range(8):
        assert (await alice.next("result"))["reason"] == 1
    well("streams")

    # A client that does not read keeps nobody waiting: the rest of its messages is in its queue.
    query = "device=slow&sessionExpirySeconds=600"
    idle = Stream(query)
    assert next(iter(idle))[1]["type"] == "connected"
    # Twenty of them may share a commit: a slow disk has few of them to sync.
    for first in range(9, 309, 20):
        for number in range(first, first + 20):
            await alice.send(type="send", number=number, users=["bob"], b="x" * 900 + str(number))
        for _ in range(20):
            assert (await alice.next("result"))["reason"] == 1
        await alice.send(type="ack", resultsSeen=first + 19)
    got, last = [], None
    while len(got) < 300:
        for identifier, message in Stream(query, last=last):
            if message["type"] == "message":
                got.append(int(message["b"][900:]))
                last = identifier
            if len(got) == 300:
                break
    assert got == list(range(9, 309)), got
    well("slow")

    keyed = Stream("app=demo&user=carol&device=k", token=KEY)
    assert next(iter(keyed))[1]["user"] == "carol"
    await alice.socket.close()
    well("keys")


async def acting():
    """The user of an app key, as a handshake or the request of a stream names it."""
    cases = [
        # The query, the field, and the user of the message: the first that there is decides.
        ("?user=carol", None, None, "carol"),
        ("", "carol", None, "carol"),
        ("", "j%C3%BCrgen%25", None, "j\u00fcrgen%"),
        ("?user=j%C3%BCrgen%25", "carol", None, "j\u00fcrgen%"),
        ("?user=carol", "bob", "alice", "alice"),
    ]
    for query, field, named, expected in cases:
        headers = {"Martlet-User": field} if field else {}
        opened = await socket_of(query, extra_headers=headers)
        connect = {"type": "connect", "key": KEY, "app": "demo"}
        if named:
            connect["user"] = named
        await opened.send(json.dumps(connect))
        answer = json.loads(await asyncio.wait_for(opened.recv(), PATIENCE_SECONDS))
        assert (answer["type"], answer.get("user")) == ("connected", expected), answer
        # The credential again, with messages before and behind it in one write.
        again = dict(connect, type="authenticate")
        for message in ({"type": "ping"}, again, {"type": "ping"}):
            await opened.send(json.dumps(message))
        answers = [json.loads(await asyncio.wait_for(opened.recv(), PATIENCE_SECONDS))
                   for _ in range(3)]
        found = sorted((answer["type"], answer.get("reason")) for answer in answers)
        assert found == [("authenticated", 0), ("pong", None), ("pong", None)], answers
        # Another user is refused.
        await opened.send(json.dumps(dict(again, user="mallory")))
        answer = json.loads(await asyncio.wait_for(opened.recv(), PATIENCE_SECONDS))
        assert answer["type"] != "authenticated" or answer["reason"] >= 128, answer
        await opened.close()
    well("sockets")

    # A token has its own user, whomever a handshake names.
    opened = await socket_of("?user=carol")
    await opened.send(json.dumps({"type": "connect", "token": BOB}))
    answer = json.loads(await asyncio.wait_for(opened.recv(), PATIENCE_SECONDS))
    assert answer["user"] == "bob", answer
    # Without a name in handshake and message there is a fault; a longer one comes in full.
    opened = await socket_of()
    await opened.send(json.dumps({"type": "connect", "key": KEY, "app": "demo"}))
    answer = json.loads(await asyncio.wait_for(opened.recv(), PATIENCE_SECONDS))
    assert (answer["type"], answer["member"]) == ("error", "user"), answer
    for query, field in [("?user=", None), ("?user=a/b", None), ("?user=a&user=b", None),
                         ("?user=%zz", None), ("", "%zz"), ("", "a#"), ("", "x" * 65)]:
        try:
            await socket_of(query, extra_headers={"Martlet-User": field} if field else {})
            assert False, (query, field)
        except websockets.InvalidStatusCode as refused:
            assert refused.status_code == 400, (query, field, refused)
    well("refused sockets")

    for query, field, expected in [
            ("&user=carol", None, "carol"), ("", "carol", "carol"),
            ("", "j%C3%BCrgen%25", "j\u00fcrgen%"), ("&user=bob", "carol", "bob")]:
        stream = Stream("app=demo" + query, token=KEY, user=field)
        assert next(iter(stream))[1]["user"] == expected, (query, field)
    for field, status in [("%zz", 400), ("x" * 300, 400), ("a/b", 400), (None, 400)]:
        stream = Stream("app=demo", token=KEY, user=field)
        assert stream.response.status == status, (field, stream.response.status)
    well("streams")


async def send(file):
    """Sends numbered messages until 400 have their results, over restarts of the broker."""
    seen, number, highest = 0, 1, 0
    while seen < 400:
        try:
            client = await Client.connect(ALICE, device="kill", outbox={
                "epoch": "00000000000000aa", "resultsSeen": seen, "highestUsed": highest})
            number = seen + 1
            while seen < 400:
                while number <= min(400, seen + 32):
                    await client.send(
                        type="send", number=number, users=["bob"], b=str(number), grade="once")
                    highest = max(highest, number)
                    number += 1
                answer = await client.next()
                if answer["type"] == "result":
                    assert answer["reason"] == 1, answer
                    seen = max(seen, answer["number"])
                    if seen % 10 == 0:
                        print(seen, "results", flush=True)
                    await client.send(type="ack", resultsSeen=seen)
        except (OSError, websockets.ConnectionClosed, websockets.InvalidHandshake,
                asyncio.TimeoutError):
            signal.sigtimedwait({signal.SIGUSR1}, 1)
    open(file, "w").write(str(seen))


def read(file):
    """Reads an event stream until it has 400 messages, over restarts of the broker."""
    got, last = [], None
    query = "device=reader&window=40&sessionExpirySeconds=600"
    end = time.monotonic() + 500
    while len(got) < 400 and time.monotonic() < end:
        try:
            for identifier, message in Stream(query, last=last):
                if message["type"] == "message":
                    got.append(int(message["b"]))
                    last = identifier
                if len(got) == 400:
                    break
                if message["type"] == "connected":
                    print("reading after", last, message["epoch"], flush=True)
        # A broker that is killed may have written a part of a line.
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            print(type(error).__name__, len(got), flush=True)
            signal.sigtimedwait({signal.SIGUSR1}, 1)
    # Grade once to one who remembers the last id: each exactly once, in order.
    assert got == list(range(1, 401)), got
    open(file, "w").write("all")


if PART == "read":
    read(sys.argv[6])
elif PART == "send":
    asyncio.run(send(sys.argv[6]))
else:
    parts = {
        "exchange": exchange, "faults": faults, "streams": streams, "resumed": resumed,
        "acting": acting}
    asyncio.run(parts[PART]())
