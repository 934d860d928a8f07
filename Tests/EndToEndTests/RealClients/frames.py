"""The frames of the broker against wsproto, which accepts none that breaks a rule of WebSocket:
fragments with pings between them, and the codes with which both sides close. Ends with code 0 when
all is as it should be, and names what is not.

    frames.py WS-PORT TOKEN
"""

import json
import socket
import sys

# The folder of this script is not the place of a library that has the name of another script.
sys.path.pop(0)

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, RejectConnection, RejectData,
    Request, TextMessage)

PORT, TOKEN = int(sys.argv[1]), sys.argv[2]
PATIENCE_SECONDS = 60
CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05pages"
CONNACK, PING_REQUEST, PING_RESPONSE = b"\x20\x02\x00\x00", b"\xc0\x00", b"\xd0\x00"


class Peer:
    """One connection, whose bytes wsproto writes and reads."""

    def __init__(self, target, *subprotocols, **rest):
        self.socket = socket.create_connection(("localhost", PORT), PATIENCE_SECONDS)
        self.frames = WSConnection(ConnectionType.CLIENT)
        self.waiting = []
        self.send(
            Request(
                host=f"localhost:{PORT}", target=target, subprotocols=list(subprotocols), **rest))

    def send(self, *events):
        for event in events:
            self.socket.sendall(self.frames.send(event))

    def next(self):
        while not self.waiting:
            data = self.socket.recv(65_536)
            self.frames.receive_data(data if data else None)
            self.waiting = list(self.frames.events())
        return self.waiting.pop(0)

    def accepted(self):
        event = self.next()
        assert isinstance(event, AcceptConnection), event
        assert not event.extensions, event.extensions
        return event

    def message(self):
        """The next message, whose frames are joined, and the payloads of pongs before its end."""
        parts, pongs = [], []
        while True:
            event = self.next()
            if isinstance(event, Pong):
                pongs.append(bytes(event.payload))
                continue
            assert isinstance(event, (BytesMessage, TextMessage)), event
            parts.append(event.data)
            if event.message_finished:
                return parts[0][:0].join(parts), pongs

    def code(self):
        """The code with which the broker closes; other frames before it do not matter."""
        while not isinstance(event := self.next(), CloseConnection):
            pass
        if self.frames.state.name == "REMOTE_CLOSING":
            try:
                self.send(event.response())
            except OSError:
                # The broker waits for some seconds only.
                pass
        assert self.socket.recv(1) == b"", "the connection remains after both closed"
        return event.code


def mqtt(**rest):
    peer = Peer("/mqtt", "mqtt", **rest)
    assert peer.accepted().subprotocol == "mqtt"
    return peer


def pieces(data, kind, size):
    """The frames of a message, with a ping before each but the first."""
    for start in range(0, len(data), size):
        if start:
            yield Ping(payload=str(start).encode())
        yield kind(data=data[start:start + size], message_finished=start + size >= len(data))


def binary():
    """Packets in fragments, pings inside; and packets of which two share a frame."""
    peer = mqtt()
    peer.send(*pieces(CONNECT, BytesMessage, 5))
    data, pongs = peer.message()
    assert data == CONNACK and pongs == [b"5", b"10", b"15"], (data, pongs)
    peer.send(Pong(payload=b"nobody asked"), BytesMessage(data=b"", message_finished=False))
    peer.send(
        Ping(payload=b"x" * 125), BytesMessage(data=PING_REQUEST[:1], message_finished=False),
        Ping(), BytesMessage(data=PING_REQUEST[1:] + PING_REQUEST))
    answers, seen = b"", []
    while answers != 2 * PING_RESPONSE:
        data, pongs = peer.message()
        answers, seen = answers + data, seen + pongs
    assert seen == [b"x" * 125, b""], seen
    peer.send(CloseConnection(code=1000, reason="done"))
    assert peer.code() == 1000


def text():
    """A JSON message in fragments that divide a character, with pings inside."""
    peer = Peer("/api/v1/socket")
    assert peer.accepted().subprotocol is None
    peer.send(*pieces(json.dumps({"type": "connect", "token": TOKEN}), TextMessage, 20))
    connected, pongs = peer.message()
    assert json.loads(connected)["user"] == "alice" and pongs[0] == b"20", connected
    body = "\u00fc\U0001f600" * 20
    send = json.dumps(
        {"type": "send", "number": 1, "users": ["alice"], "b": body, "mid": "m"},
        ensure_ascii=False)
    peer.send(*pieces(send, TextMessage, 5))
    kinds = {}
    while len(kinds) < 2:
        message = json.loads(peer.message()[0])
        kinds[message["type"]] = message
    assert kinds["message"]["b"] == body, kinds
    assert (kinds["result"]["reason"], kinds["result"]["mid"]) == (1, "m"), kinds
    # 64 frames are a message, one more is too many.
    peer.send(*[TextMessage(data=" ", message_finished=False)] * 63)
    peer.send(TextMessage(data='{"type":"ping"}'))
    while json.loads(peer.message()[0])["type"] != "pong":
        pass
    peer.send(*[TextMessage(data=" ", message_finished=False)] * 64)
    seen = []
    while not seen or seen[-1]["type"] != "closed":
        seen.append(json.loads(peer.message()[0]))
    assert seen[-2]["type"] == "error" and "too many frames" in seen[-2]["detail"], seen
    peer.code()


def codes():
    """The broker answers every close with 1000, and closes with a code that says why."""
    for code in (1000, 1001, 1011, 3000, 4999):
        peer = mqtt()
        peer.send(CloseConnection(code=code, reason="because"))
        assert peer.code() == 1000, code
    peer = mqtt()
    peer.send(BytesMessage(data=CONNECT))
    assert peer.message()[0] == CONNACK
    # The end of a session by its own packet ends the connection in order.
    peer.send(BytesMessage(data=b"\xe0\x00"))
    assert peer.code() == 1000
    for target, subprotocol, event, code in [
        ("/mqtt", ["mqtt"], TextMessage(data="hello"), 1003),
        ("/mqtt", ["mqtt"], TextMessage(data="", message_finished=False), 1003),
        ("/api/v1/socket", [], BytesMessage(data=b"{}"), 1003),
        ("/mqtt", ["mqtt"], BytesMessage(data=b"\x10" * (2 << 20)), 1009),
    ]:
        peer = Peer(target, *subprotocol)
        peer.accepted()
        try:
            peer.send(event)
        except OSError:
            pass
        assert peer.code() == code, (target, code)


def refusals():
    """Handshakes that are refused are answered as HTTP, with a reason to read."""
    for target, subprotocols, headers, status in [
        ("/nothing", ["mqtt"], [], 404), ("/mqtt", ["other"], [], 400), ("/mqtt", [], [], 400),
        ("/mrt", ["mqtt"], [], 400),
        ("/mqtt", ["mqtt"], [(b"Origin", b"https://elsewhere.example")], 403),
        ("/api/v1/socket?user=%2F", [], [], 400),
    ]:
        peer = Peer(target, *subprotocols, extra_headers=headers)
        event = peer.next()
        assert isinstance(event, RejectConnection), event
        assert event.status_code == status, (target, event.status_code)
        assert isinstance(peer.next(), RejectData)


for case in (binary, text, codes, refusals):
    case()
    print(f"{case.__name__} well", flush=True)
