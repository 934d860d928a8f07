# Ends of sockets of Diuit, by the broker and by clients that do not read. Uses websocket-client
# and python-socketio.
#
#     diuit_ends.py PORT TOKEN stop       waits for the end of the broker
#     diuit_ends.py PORT TOKEN return     waits for it with python-socketio, and for another one
#     diuit_ends.py PORT TOKEN unread     asks for 40 MB and reads later
#     diuit_ends.py PORT TOKEN gone       asks, and is gone before the answer

import json
import queue
import struct
import socket as sockets
import sys
import time

import socketio
import websocket

port, token, what = sys.argv[1:4]
patience = 60


def opened(path):
    return websocket.create_connection("ws://localhost:%s%s" % (port, path), timeout=patience)


def logged_in():
    socket = opened("/1/socket")
    call(socket, "authenticate", {"authToken": token})
    return socket


number = 0


def ask(socket, name, data):
    global number
    number += 1
    socket.send(json.dumps({"event": name, "id": number, "data": data}))
    return number


def answer(socket, number):
    while True:
        found = json.loads(socket.recv())
        if found.get("event") == "ping":
            socket.send('{"event":"pong"}')
        elif found.get("id") == number:
            return found


def call(socket, name, data):
    found = answer(socket, ask(socket, name, data))
    assert "data" in found, found
    return found["data"]


if what == "stop":
    plain = logged_in()
    engine = opened("/socket.io/?EIO=4&transport=websocket")
    assert engine.recv().startswith("0")
    engine.send("40")
    assert engine.recv().startswith("40")
    engine.send('421["authenticate",{"authToken":"%s"}]' % token)
    # Both have no device, so the second one takes the session over.
    assert engine.recv().startswith("431[")
    end = json.loads(plain.recv())
    while end["event"] == "ping":
        end = json.loads(plain.recv())
    assert end["event"] == "error" and end["data"]["code"] == 4111, end
    opcode, data = plain.recv_data(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_CLOSE and struct.unpack(">H", data[:2]) == (1000,)
    stranger = opened("/1/socket")
    print("ready", flush=True)
    text = engine.recv()
    while text == "2":
        engine.send("3")
        text = engine.recv()
    assert text.startswith('42["error",{"code":503,'), text
    # No packet of Socket.IO ends the connection: its clients would not come back.
    for socket in (engine, stranger):
        opcode, data = socket.recv_data(control_frame=True)
        assert opcode == websocket.ABNF.OPCODE_CLOSE, (opcode, data)
        assert struct.unpack(">H", data[:2]) == (1001,), data
elif what == "return":
    client = socketio.Client(
        reconnection_delay=1, reconnection_delay_max=1, request_timeout=patience)
    logins = queue.Queue()

    @client.event
    def connect():
        client.emit("authenticate", {"authToken": token}, callback=logins.put)

    client.connect(
        "http://localhost:" + port, transports=["websocket"], wait_timeout=patience)
    assert "userId" in logins.get(timeout=patience)
    print("ready", flush=True)
    # The broker stops and starts meanwhile.
    assert "userId" in logins.get(timeout=2 * patience)
    client.disconnect()
elif what == "unread":
    socket = logged_in()
    chat = call(socket, "chats/create", {"members": [], "whiteList": None, "meta": {}})["id"]
    for count in range(70):
        call(socket, "messages/create", {"chatId": chat, "data": "%d " % count + "x" * 16_000})
    asked = [ask(socket, "messages/list", {"chatId": chat, "count": 100}) for _ in range(40)]
    for wanted in asked:
        page = answer(socket, wanted)["data"]
        assert 50 < len(page["messages"]) < 70, len(page["messages"])
        assert page["omitted"] == 70 - len(page["messages"])
    # Refusals too are read no faster than they are written.
    asked = [ask(socket, "x", {}) for _ in range(2_000)]
    for wanted in asked:
        assert answer(socket, wanted)["error"]["code"] in (404, 429, 503)
else:
    for _ in range(20):
        socket = logged_in()
        ask(socket, "chats/list", {})
        # An RST, before the answer.
        socket.sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        socket.sock.close()
    socket = logged_in()
    found = answer(socket, ask(socket, "chats/list", {}))
    end = time.monotonic() + patience
    # The requests of those who are gone have places until they are answered.
    while found.get("error", {}).get("code") == 503 and time.monotonic() < end:
        found = answer(socket, ask(socket, "chats/list", {}))
    assert found["data"]["chats"] == [], found
print(what, "well", flush=True)
