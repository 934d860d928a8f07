"""The HTTP side of the broker against h11, which accepts no answer that breaks a rule of HTTP/1.1.
Ends with code 0 when all is as it should be, and names what is not.

    http_exchange.py HTTP-PORT OPERATOR-TOKEN APP-KEY
"""

import json
import socket
import sys

# The folder of this script is not the place of a library that has the name of another script.
sys.path.pop(0)

import h11

PORT, TOKEN, KEY = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PATIENCE_SECONDS = 60
MESSAGE = {"from": "alice", "users": ["alice"], "b": "x", "grade": "transient"}


class Answer:
    def __init__(self):
        self.informational, self.status, self.headers, self.body = [], None, {}, b""


class Peer:
    """One TCP connection, whose bytes h11 writes and reads."""

    def __init__(self):
        self.socket = socket.create_connection(("localhost", PORT), PATIENCE_SECONDS)
        self.http = h11.Connection(our_role=h11.CLIENT)
        self.rest = b""

    def send(self, *events):
        for event in events:
            self.socket.sendall(self.http.send(event))

    def event(self):
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(self.socket.recv(65_536))
        return event

    def answer(self):
        """Reads one answer to its end."""
        answer = Answer()
        while True:
            event = self.event()
            if isinstance(event, h11.InformationalResponse):
                answer.informational.append(event.status_code)
            elif isinstance(event, h11.Response):
                answer.status = event.status_code
                answer.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                answer.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return answer
            else:
                raise AssertionError(f"{event!r} within an answer")

    def ask(self, *events):
        self.send(*events, h11.EndOfMessage())
        answer = self.answer()
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
        return answer

    def is_closed(self):
        return isinstance(self.event(), h11.ConnectionClosed)


def request(method, target, *fields, token=TOKEN):
    headers = [("Host", f"localhost:{PORT}"), *fields]
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    return h11.Request(method=method, target=target, headers=headers)


def message(*fields):
    return request(
        "POST", "/api/v1/apps/demo/messages", ("Content-Type", "application/json"), *fields)


def content(**members):
    return json.dumps({**MESSAGE, **members}).encode()


def both(peer, target):
    """The answers to GET and to HEAD, of one page: the metrics are written again each second."""
    answer = peer.ask(request("GET", target))
    for _ in range(100):
        whole, again = peer.ask(request("HEAD", target)), peer.ask(request("GET", target))
        if again.body == answer.body:
            return answer, whole
        answer = again
    raise AssertionError("%s changes with each request" % target)


def pages():
    """Every kind of answer on one connection that stays open."""
    peer = Peer()
    for target, status in [
        ("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/", 200), ("/dashboard.js", 200),
        ("/api/v1/apps", 200), ("/api/v1/openapi.json", 200), ("/api/v1/nothing", 404),
        ("/nothing", 404), ("/api/v1/backups/last", 200),
    ]:
        if target.startswith("/api"):
            answer = whole = peer.ask(request("GET", target))
        else:
            answer, whole = both(peer, target)
        assert answer.status == status, (target, answer.status)
        assert int(whole.headers["content-length"]) == len(answer.body), (target, whole.headers)
        assert peer.http.our_state is h11.IDLE, target
    refused = peer.ask(request("PUT", "/api/v1/apps"))
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, POST"), refused.headers


def closing():
    """The connection ends when the client says so, and not before."""
    peer = Peer()
    assert peer.ask(request("GET", "/healthz", ("Connection", "keep-alive"))).status == 200
    answer = peer.ask(request("GET", "/healthz", ("Connection", "close")))
    assert answer.status == 200 and answer.headers["connection"] == "close", answer.headers
    assert peer.is_closed()
    peer = Peer()
    assert peer.ask(request("GET", "/mqtt")).status == 426
    assert peer.is_closed()


def pipelining():
    """Requests of all kinds at once; the answers are in their order."""
    peer = Peer()
    parts, wanted = b"", []
    for number in range(24):
        body = content(mid=f"m{number}")
        chunked = ("Transfer-Encoding", "chunked")
        head, data, status = [
            (request("GET", "/healthz"), [], 200),
            (message(("Content-Length", str(len(body)))), [body], 200),
            (message(chunked), [body[:1], body[1:9], body[9:]], 200),
            (request("HEAD", "/healthz"), [], 200),
            (request("GET", f"/api/v1/apps/none{number}"), [], 404),
            (request("GET", "/api/v1/apps", token="mo1_wrong"), [], 401),
        ][number % 6]
        # h11 sends no request before the last answer: each has a state of its own.
        http = h11.Connection(our_role=h11.CLIENT)
        for event in [head, *(h11.Data(data=piece) for piece in data), h11.EndOfMessage()]:
            parts += http.send(event)
        wanted.append((http, number, status))
    peer.socket.sendall(parts)
    rest = b""
    for http, number, status in wanted:
        peer.http = http
        http.receive_data(rest) if rest else None
        answer = peer.answer()
        assert answer.status == status, (number, answer.status, answer.body)
        if number % 6 in (1, 2):
            assert json.loads(answer.body)["mid"] == f"m{number}", answer.body
        rest, _ = http.trailing_data
    assert rest == b"", rest


def continuing():
    """100 Continue comes before the content is sent, and not where the request is refused."""
    for length in (True, False):
        peer, body = Peer(), content(mid="later")
        field = ("Content-Length", str(len(body))) if length else ("Transfer-Encoding", "chunked")
        peer.send(message(field, ("Expect", "100-continue")))
        event = peer.event()
        assert isinstance(event, h11.InformationalResponse) and event.status_code == 100, event
        peer.send(h11.Data(data=body), h11.EndOfMessage())
        answer = peer.answer()
        assert answer.status == 200 and json.loads(answer.body)["mid"] == "later", answer.body
    peer = Peer()
    peer.send(
        request(
            "POST", "/api/v1/apps", ("Content-Length", "9"), ("Expect", "100-continue"),
            token="mo1_wrong"))
    answer = peer.answer()
    assert (answer.status, answer.informational) == (401, []), answer.status
    # The content never comes: the broker closes.
    assert peer.is_closed()


def chunks():
    """Content in chunks of one byte, in one chunk, and in none."""
    peer, body = Peer(), content(mid="\u00fc")
    chunked = ("Transfer-Encoding", "chunked")
    for size in (1, 7, len(body)):
        pieces = [body[start:start + size] for start in range(0, len(body), size)]
        answer = peer.ask(message(chunked), *(h11.Data(data=piece) for piece in pieces))
        assert answer.status == 200 and json.loads(answer.body)["mid"] == "\u00fc", answer.body
    answer = peer.ask(message(chunked))
    assert answer.status == 400, answer.status
    # More than 64 KiB: the answer comes before the end, and then the connection ends.
    peer = Peer()
    peer.send(message(chunked))
    try:
        for _ in range(9):
            peer.send(h11.Data(data=b" " * 8_192))
    except OSError:
        pass
    assert peer.answer().status == 413
    assert peer.is_closed()


def streams():
    """An event stream is a valid answer that does not end."""
    peer = Peer()
    peer.send(
        request("GET", "/api/v1/events?app=demo&user=alice&device=h11", token=KEY),
        h11.EndOfMessage())
    response = peer.event()
    assert isinstance(response, h11.Response) and response.status_code == 200, response
    text = b""
    while b'"type":"connected"' not in text:
        event = peer.event()
        assert isinstance(event, h11.Data), event
        text += event.data


def refusals():
    """Answers to what h11 would never send are valid too."""
    host = f"Host: localhost:{PORT}\r\n"
    for head, status in [
        (f"GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (f"GET / HTTP/1.1\n{host}\r\n", 400), ("GET / HTTP/1.1\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\n{host}A: b\r\n c\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\n{host}A: {'x' * 9_000}\r\n\r\n", 431),
        (f"GET /{'x' * 9_000} HTTP/1.1\r\n{host}\r\n", 414),
        (f"GET / HTTP/2.0\r\n{host}\r\n", 505), ("GET /\r\n", 400),
        (f"GET / HTTP/1.1\r\n{host}Transfer-Encoding: gzip\r\n\r\n", 501),
    ]:
        peer = Peer()
        # The state of a client that has sent a request.
        peer.http.send(request("GET", "/"))
        peer.http.send(h11.EndOfMessage())
        peer.socket.sendall(head.encode())
        answer = peer.answer()
        assert answer.status == status, (head[:60], answer.status)
        assert answer.headers["connection"] == "close", answer.headers
        assert peer.is_closed()


for case in (pages, closing, pipelining, continuing, chunks, streams, refusals):
    case()
    print(f"{case.__name__} well", flush=True)
