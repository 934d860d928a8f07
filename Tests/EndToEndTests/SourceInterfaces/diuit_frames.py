# Frames of Engine.IO and Socket.IO by hand, and the same events as plain JSON: order, limits, and
# what is none. Uses websocket-client and requests.
#
#     diuit_frames.py PORT TOKEN OTHER_TOKEN HASTY_PORT
#
# The tokens are of the users alice and bob of an app with the interface. The broker at the last
# port closes what has not logged in after five seconds.

import json
import sys
import time

import requests
import websocket

port, alice, bob, hasty_port = sys.argv[1:5]
engine = "/socket.io/?EIO=4&transport=websocket"
patience = 60


class Closed(Exception):
    pass


class Socket:
    def __init__(self, path, port=port):
        self.socket = websocket.create_connection(
            "ws://localhost:%s%s" % (port, path), timeout=patience)

    def send(self, text):
        self.socket.send(text)

    def read(self):
        """The next text that is no ping; pings are answered."""
        while True:
            opcode, data = self.socket.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                raise Closed(int.from_bytes(data[:2], "big") if data else 0)
            if opcode != websocket.ABNF.OPCODE_TEXT:
                continue
            text = data.decode()
            if text == "2":
                self.send("3")
            elif text == '{"event":"ping"}':
                self.send('{"event":"pong"}')
            else:
                return text

    def expect(self, start):
        text = self.read()
        assert text.startswith(start), text
        return text

    def expect_close(self, code=1000):
        try:
            text = self.read()
        except Closed as closed:
            assert closed.args[0] == code, closed
        else:
            raise AssertionError(text)


def opened(port=port):
    socket = Socket(engine, port)
    greeting = json.loads(socket.expect("0")[1:])
    assert set(greeting) == {"sid", "upgrades", "pingInterval", "pingTimeout", "maxPayload"}
    assert greeting["upgrades"] == [] and greeting["pingInterval"] == 25000
    assert greeting["pingTimeout"] == 20000
    return socket


def connected(port=port):
    socket = opened(port)
    socket.send("40")
    assert set(json.loads(socket.expect("40")[2:])) == {"sid"}
    return socket


def logged_in(token=alice):
    socket = connected()
    socket.send('420["authenticate",{"authToken":"%s"}]' % token)
    assert json.loads(socket.expect("430[")[3:])[0]["userId"]
    return socket


def refused(socket, text, start):
    """A text that is answered with an error, after which the connection ends."""
    socket.send(text)
    socket.expect(start)
    socket.expect("41")
    socket.expect_close()


# The handshake.
for query, code in (
        ("EIO=4&transport=polling", 0), ("EIO=3&transport=websocket", 5),
        ("EIO=4&transport=websocket&sid=x", 1), ("EIO=4", 0), ("", 0)):
    answer = requests.get("http://localhost:%s/socket.io/?%s" % (port, query), timeout=patience)
    assert answer.status_code == 400 and answer.json()["code"] == code, answer.text
assert requests.get(
    "http://localhost:%s%s" % (port, engine), timeout=patience).status_code == 426
print("handshake well", flush=True)

# Packets out of order, and what is none.
error = '42["error",{"code":%d,'
refused(opened(), '42["chats/list"]', error % 400)
refused(connected(), "40", error % 400)
refused(opened(), "9", error % 400)
refused(opened(), "", error % 400)
refused(opened(), "0", error % 400)
refused(opened(), "49", error % 400)
refused(opened(), "2" + "x" * 64, error % 400)
refused(opened(), "40/" + "x" * 65 + ",", error % 400)
refused(connected(), '451-["x",{"_placeholder":true,"num":0}]', error % 415)
refused(connected(), "461-1[{}]", error % 415)
refused(connected(), '42["x","' + "y" * 2_048 + '"]', error % 413)
socket = opened()
socket.send("2probe")
socket.expect("3probe")
socket.send("40/chat,")
socket.expect('44/chat,{"message":"Invalid namespace"}')
socket.send("6")
socket.send("3")
socket.send("1")
socket.expect("41")
socket.expect_close()
socket = opened()
socket.socket.send_binary(b"x")
socket.expect_close(1003)
print("packets well", flush=True)

# Before the login.
socket = connected()
for number in range(7):
    socket.send('42%d["chats/list"]' % number)
    socket.expect('43%d[{"error":{"code":403,' % number)
socket.send('42["chats/list"]')
socket.expect(error % 403)
socket.expect("41")
socket.expect_close()
for text, start in (
        ('42{"a":1}', error % 400), ("42", error % 400), ('42[1]', error % 400),
        ('42["x"', error % 400), ('42["x",' + "[" * 100, error % 400),
        ('42' + "9" * 20 + '["x"]', error % 400),
        ('421["authenticate"]', '431[{"error":{"code":400,"message":"authToken is missing"}}]'),
        ('421["authenticate",7]', '431[{"error":{"code":400,')):
    socket = connected()
    socket.send(text)
    socket.expect(start)
    socket.socket.close()
socket = connected()
socket.send('425["authenticate",{"authToken":"mt1_none"}]')
socket.expect('435[{"error":{"code":403,')
socket.expect("41")
socket.expect_close()
start = time.monotonic()
socket = connected(hasty_port)
socket.expect(error % 408)
socket.expect_close()
assert 4 <= time.monotonic() - start < 15, time.monotonic() - start
print("login well", flush=True)

# After it.
socket = logged_in()
socket.send('42["chats/list"]')
socket.send('427["chats/list"]')
socket.expect('437[{"chats":[]}]')
socket.send('42["chats/none",{}]')
assert json.loads(socket.expect('42["error"')[2:])[1]["event"] == "chats/none"
socket.send('42["x')
socket.expect(error % 400)
socket.send('421["chats/create",[]]')
socket.expect('431[{"error":{"code":400,')
socket.send('421["messages/create",{"chatId":"\\u0000","data":"x"}]')
socket.expect('431[{"error":{"code":404,')
refused(socket, '42["x","' + "y" * 65_536 + '"]', error % 413)
print("limits well", flush=True)

# The same events as plain JSON.
plain = Socket("/1/socket")


def call(socket, name, data, number):
    socket.send(json.dumps({"event": name, "id": number, "data": data}))
    while True:
        answer = json.loads(socket.read())
        if answer.get("id") == number:
            return answer


early = call(plain, "chats/list", None, 1)
assert early["error"]["code"] == 403, early
info = call(plain, "authenticate", {"authToken": alice}, 2)["data"]
assert info["userId"] == "alice", info
other = Socket("/1/socket")
assert call(other, "authenticate", {"authToken": bob}, 1)["data"]["userId"] == "bob"
chat = call(plain, "chats/create", {"members": ["bob"], "whiteList": None, "meta": {}}, 3)
identifier = chat["data"]["id"]
call(plain, "messages/create", {"chatId": identifier, "data": "plain"}, 4)
joined = json.loads(other.read())
assert joined == {
    "event": "user.joined", "data": {"chatId": identifier, "userId": "bob"}}, joined
message = json.loads(other.read())
assert message["event"] == "message" and message["data"]["data"] == "plain"
plain.send('{"event":"ping"}')
while plain.read() != '{"event":"pong"}':
    pass
assert call(plain, "chats/none", {}, 5)["error"]["code"] == 404
plain.send('{"event":"chats/none"}')
assert json.loads(plain.read())["data"]["event"] == "chats/none"
plain.send("[]")
assert json.loads(plain.read())["data"]["code"] == 400
plain.send('{"event":"chats/list","id":-1}')
assert json.loads(plain.read())["data"]["code"] == 400
plain.send("x" * 65_537)
assert json.loads(plain.read())["data"]["code"] == 413
plain.expect_close()
other.socket.close()
print("plain well", flush=True)
