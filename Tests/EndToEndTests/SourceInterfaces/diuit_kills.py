# Sends files while the broker is killed and started again, and reads all that were answered. Uses
# websocket-client and requests.
#
#     diuit_kills.py PORT TOKEN OTHER_TOKEN COUNT
#
# The tokens are of the users alice and bob. COUNT files are sent; `stored N` is printed for each.
# SIGUSR1 says that the broker was started again.

import base64
import json
import random
import signal
import sys
import time

import requests
import websocket

port, token, other, count = sys.argv[1:5]
patience = 60
# It waits until someone looks for it.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
number = 0


class Lost(Exception):
    pass


def login(session):
    end = time.monotonic() + 150
    while True:
        assert time.monotonic() < end, "the broker does not come back"
        try:
            socket = websocket.create_connection(
                "ws://localhost:%s/1/socket" % port, timeout=patience)
            call(socket, "authenticate", {"authToken": session})
            return socket
        except (OSError, Lost, websocket.WebSocketException):
            signal.sigtimedwait({signal.SIGUSR1}, 1)


def call(socket, name, data):
    global number
    number += 1
    try:
        socket.send(json.dumps({"event": name, "id": number, "data": data}))
        while True:
            text = socket.recv()
            if not text:
                raise Lost()
            found = json.loads(text)
            if found.get("event") == "ping":
                socket.send('{"event":"pong"}')
            elif found.get("id") == number:
                break
    except (OSError, websocket.WebSocketException):
        raise Lost()
    if found.get("error", {}).get("code") == 503:
        raise Lost()
    assert "data" in found, found
    return found["data"]


def content(index):
    return random.Random(index).randbytes(1 + (index * 7_919) % 300_000)


def complete(url, expected):
    end = time.monotonic() + 150
    while True:
        try:
            answer = requests.get(url, timeout=patience)
            if answer.status_code != 503:
                break
        except requests.RequestException:
            # The last kill may come only now.
            pass
        assert time.monotonic() < end, "the broker does not come back"
        signal.sigtimedwait({signal.SIGUSR1}, 1)
    assert answer.status_code == 200, (url, answer.status_code)
    assert answer.content == expected, (url, len(answer.content), len(expected))


socket = login(token)
chat = None
while chat is None:
    try:
        chat = call(
            socket, "chats/create", {"members": ["bob"], "whiteList": None, "meta": {}})["id"]
    except Lost:
        socket = login(token)
stored = {}
for index in range(int(count)):
    while index not in stored:
        try:
            stored[index] = call(socket, "messages/create", {
                "chatId": chat, "data": base64.b64encode(content(index)).decode(),
                "mime": "image/png", "encoding": "base64"})["data"]
        except Lost:
            socket = login(token)
    print("stored", index, flush=True)

# What was answered is there.
by_address = {}
for index, url in stored.items():
    complete(url, content(index))
    by_address[url] = index
assert len(by_address) == len(stored)
# A message that is kept has its file, also one that was sent and not answered.
found, page = set(), 0
while True:
    try:
        messages = call(
            socket, "messages/list", {"chatId": chat, "count": 100, "page": page})["messages"]
    except Lost:
        socket = login(token)
        continue
    if not messages:
        break
    for message in messages:
        assert message["encoding"] == "url", message
        complete(message["data"], content(by_address[message["data"]]))
        found.add(message["data"])
    page += 1
assert found == set(stored.values()), (len(found), len(stored))
print("kills well", flush=True)
