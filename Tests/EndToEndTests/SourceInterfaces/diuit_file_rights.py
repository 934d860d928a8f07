# Who may not send keeps no file, and who may has a share. Uses python-socketio and requests.
#
#     diuit_file_rights.py refusals|shares|broken PORT ALICE BOB CAROL
#
# The tokens are of the users alice, bob and carol; carol may send to nobody but alice. Files of the
# app may have 1,000,000 bytes, and those of one user a tenth.

import base64
import sys

import requests
import socketio

mode, port, alice_token, bob_token, carol_token = sys.argv[1:6]
patience = 60
content = bytes(range(200)) * 100


def connected(token):
    client = socketio.Client(reconnection=False, request_timeout=patience)
    client.connect(
        "http://localhost:" + port, transports=["websocket"], wait_timeout=patience)
    assert client.call("authenticate", {"authToken": token}, timeout=patience)["userId"]
    return client


alice, bob, carol = map(connected, (alice_token, bob_token, carol_token))
chat = alice.call(
    "chats/create", {"members": ["bob"], "whiteList": None, "meta": {}}, timeout=patience)["id"]


def send(client, file, chat=chat, **changes):
    data = {
        "chatId": chat, "data": base64.b64encode(file).decode(), "mime": "image/png",
        "encoding": "base64", **changes}
    return client.call("messages/create", data, timeout=patience)


def refused(answer, code, text):
    assert answer["error"]["code"] == code and text in answer["error"]["message"], answer


if mode == "refusals":
    # Each with a content of its own.
    refused(send(carol, b"1" + content), 403, "chatId")
    refused(send(alice, b"2" + content, chat="nothing"), 404, "chatId")
    refused(send(carol, b"3" + content, chat="u-" + b"bob/carol".hex()), 403, "no right to send")
    refused(send(carol, b"4" + content, chat="u-" + b"alice/bob".hex()), 403, "chatId")
    refused(send(alice, b"5" + content, meta={"a": "b" * 384}), 413, "meta")
    refused(send(alice, b"6" + content, meta=1), 400, "meta")
    refused(send(alice, b"7" + content, more="x" * 100000), 413, "too long")
elif mode == "broken":
    for number in range(2):
        refused(send(alice, b"%d" % number + content), 500, "failed")
else:
    url = send(alice, content)["data"]
    for number in range(4):
        send(alice, b"%d" % number + content[:-1])
    refused(send(alice, content[:-1]), 507, "share")
    assert send(alice, content)["data"] == url
    assert send(bob, content[:-1])["encoding"] == "url"
    assert send(carol, b"c" + content, chat="u-" + b"alice/carol".hex())["encoding"] == "url"
    assert requests.get(url, timeout=patience).content == content
    print(url, flush=True)
for client in (alice, bob, carol):
    client.disconnect()
print(mode + " well", flush=True)
