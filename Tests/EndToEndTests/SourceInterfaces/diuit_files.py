# Files in messages of Diuit: base64 in, address out. Uses python-socketio and requests.
#
#     diuit_files.py PORT TOKEN OTHER_TOKEN [full]
#
# The tokens are of the users alice and bob. Files of the app may have 11 MiB. With `full` the disk
# has 2 MiB.

import base64
import queue
import sys

import requests
import socketio

port, alice_token, bob_token = sys.argv[1:4]
patience = 60
size_maximum = 5 << 20


def connected(token):
    client = socketio.Client(reconnection=False, request_timeout=patience)
    client.messages = queue.Queue()
    client.on("message", client.messages.put)
    client.connect(
        "http://localhost:" + port, transports=["websocket"], wait_timeout=patience)
    assert client.call("authenticate", {"authToken": token}, timeout=patience)["userId"]
    return client


alice, bob = connected(alice_token), connected(bob_token)
chat = alice.call(
    "chats/create", {"members": ["bob"], "whiteList": None, "meta": {}}, timeout=patience)["id"]


def send(content, mime="image/png", **changes):
    data = {
        "chatId": chat, "data": base64.b64encode(content).decode(), "mime": mime,
        "encoding": "base64", "meta": {"name": "../../boat.png"}, **changes}
    return alice.call("messages/create", data, timeout=patience)


def address(content, mime="image/png"):
    sent = send(content, mime)
    assert sent["encoding"] == "url" and sent["mime"] == mime, sent
    return sent["data"]


content = bytes(range(256)) * 300
if sys.argv[4:] == ["full"]:
    assert send(bytes(3 << 20))["error"]["code"] == 507
    url = address(content)
    assert requests.get(url, timeout=patience).content == content
    assert send(bytes(3 << 20))["error"]["code"] == 507
    alice.disconnect()
    bob.disconnect()
    print("full disk well", flush=True)
    sys.exit()
sent = send(content)
message = bob.messages.get(timeout=patience)
assert message["encoding"] == "url" and message["mime"] == "image/png"
assert message["meta"] == {"name": "../../boat.png"} and message["data"] == sent["data"]
url = message["data"]
assert url.startswith("http://localhost:%s/1/files/" % port) and url.endswith(".png"), url
assert address(content) == url
assert address(content, "image/jpeg") != url
print("messages well", flush=True)

# The response.
answer = requests.get(url, timeout=patience)
assert answer.status_code == 200 and answer.content == content
assert answer.headers["Content-Type"] == "image/png"
assert answer.headers["Content-Disposition"] == "attachment"
assert answer.headers["X-Content-Type-Options"] == "nosniff"
assert answer.headers["Accept-Ranges"] == "bytes"
head = requests.head(url, timeout=patience)
assert head.status_code == 200 and head.headers["Content-Length"] == str(len(content))
session = requests.Session()
for field, part in (
        ("bytes=0-0", content[:1]), ("bytes=10-19", content[10:20]),
        ("bytes=76000-", content[76000:]), ("bytes=-5", content[-5:]),
        ("bytes=5-999999", content[5:])):
    answer = session.get(url, headers={"Range": field}, timeout=patience)
    assert answer.status_code == 206 and answer.content == part, (field, answer.status_code)
    assert answer.headers["Content-Range"].endswith("/%d" % len(content))
for field in ("bytes=76800-", "bytes=-0"):
    answer = session.get(url, headers={"Range": field}, timeout=patience)
    assert answer.status_code == 416 and answer.content == b"", field
    assert answer.headers["Content-Range"] == "bytes */%d" % len(content)
for field in ("bytes=5-1", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4"):
    answer = session.get(url, headers={"Range": field}, timeout=patience)
    assert answer.status_code == 200 and answer.content == content, field
base, name = url.rsplit("/", 1)
for other in (
        base + "/" + "0" * 64 + ".png", base + "/%2e%2e%2fkey", base + "/key",
        base + "/" + name[:-4] + ".jpg", base + "/" + name + ".new",
        # The other app has the interface too, and none of the files of this one.
        base[:base.rindex("/")] + "/" + b"other".hex() + "/" + name,
        base + "/..%2f" + b"demo".hex() + "%2f" + name, base + "//" + name,
        base[:base.rindex("/")] + "/ff/" + name, base[:base.rindex("/")] + "/%2e%2e/" + name):
    assert session.get(other, timeout=patience).status_code == 404, other
answer = session.get(
    url, headers={"Origin": "https://app.example", "Range": "bytes=0-3"}, timeout=patience)
assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
answer = session.get(url, headers={"Origin": "https://evil.example"}, timeout=patience)
assert "Access-Control-Allow-Origin" not in answer.headers and answer.headers["Vary"] == "Origin"
assert session.post(url, timeout=patience).status_code == 405
print("responses well", flush=True)

# What is no file.
for changes, code, field in (
        ({"data": "!"}, 400, "data"), ({"data": "YQ"}, 400, "data"),
        ({"data": "YQ==YQ=="}, 400, "data"), ({"data": "Y\nQ=="}, 400, "data"),
        ({"data": "YQ==\u0000"}, 400, "data"), ({"data": "_-8="}, 400, "data"), ({"data": ""}, 400, "data"), ({"data": 1}, 400, "data"),
        ({"mime": "text/html"}, 415, "mime"), ({"mime": "image/svg+xml"}, 415, "mime"),
        ({"mime": "x" * 101}, 415, "mime"), ({"mime": None}, 400, "mime")):
    error = send(content, **changes)["error"]
    assert error["code"] == code and error["message"].startswith(field), (changes, error)
assert send(bytes(size_maximum + 1))["error"]["code"] == 413
large = bytes(range(251)) * (size_maximum // 251) + bytes(size_maximum % 251)
assert len(large) == size_maximum
url = address(large)
answer = requests.get(url, timeout=patience)
assert answer.content == large
address(b"x" + large[1:])
assert send(b"y" + large[1:])["error"]["code"] == 507
# A text that is too long for an event without a file.
refused = alice.call(
    "messages/create", {"chatId": chat, "data": "x" * 70_000}, timeout=patience)
assert refused["error"]["code"] == 413, refused
text = alice.call(
    "messages/create", {"chatId": chat, "data": "base64 is a word too"}, timeout=patience)
assert text["data"] == "base64 is a word too"
alice.disconnect()
bob.disconnect()
print("limits well", flush=True)
print(url, flush=True)
