# A client of Diuit, written with requests and python-socketio, and its account server: replays the
# requests of the documentation, and compares the shapes of the answers with it.
#
#     diuit_client.py PORT KEY OTHER_KEY
#
# The keys are RSA: the account server of the app demo signs with the first one, that of the app
# other with the second.

import base64
import datetime
import json
import queue
import subprocess
import sys

import engineio
import requests
import socketio

port, key_file, other_key_file = sys.argv[1:4]
base = "http://localhost:%s/1/" % port
headers = {"x-diuit-application-id": "demo", "x-diuit-app-key": "not-read"}
patience = 60


def time_text(seconds):
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return (now + datetime.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def nonce():
    answer = requests.get(base + "auth/nonce", headers=headers, timeout=patience)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"nonce"}
    return answer.json()["nonce"]


def encoded(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=")


def signed(header, claims, signing_key):
    text = b".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    signature = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", signing_key], input=text, check=True,
        capture_output=True).stdout
    return (text + b"." + encoded(signature)).decode()


def token(user, signing_key=key_file, kid="k1", cty="diuit-auth;v=1", **changes):
    claims = {
        "iss": "demo", "sub": user, "iat": time_text(0), "exp": time_text(3_600),
        "nonce": changes.pop("nonce", None) or nonce(), **changes}
    claims = {name: value for name, value in claims.items() if value != "absent"}
    header = {"typ": "JWT", "alg": "RS256", "cty": cty, "kid": kid}
    header = {name: value for name, value in header.items() if value != "absent"}
    return signed(header, claims, signing_key)


def login(text, status=200, application="demo", **more):
    body = {"authToken": text, "deviceId": "web-1", **more}
    answer = requests.post(
        base + "auth/login", headers={**headers, "x-diuit-application-id": application}, json=body,
        timeout=patience)
    assert answer.status_code == status, (answer.status_code, answer.text)
    return answer.json()


# Login. An address has ten refusals in a minute.
# A new push token replaces that of the same device.
login(token("alice"), platform="gcm", pushToken="push-0")
session = login(token("alice"), platform="gcm", pushToken="push-1")
assert set(session) == {"session", "userId", "deviceId"}, session
assert session["userId"] == "alice" and session["deviceId"] == "web-1"
once = nonce()
login(token("alice", nonce=once))
login(token("alice", nonce=once), 403)
login(token("alice", nonce="absent"), 403)
login(token("alice", kid="k9"), 403)
login(token("alice", iss="other"), 403)
login(token("alice", other_key_file, kid="k2", iss="other"), 403)
login(token("alice", other_key_file), 403)
login(token("alice", cty="absent"), 403)
login(token("alice"), 403, application="other")
seconds = int(datetime.datetime.now().timestamp())
login(token("alice", iat=seconds, exp=seconds + 3_600))
login(token("alice", exp="tomorrow"), 403)
for body in ({"deviceId": ""}, {"platform": "pager"}, {"platform": "ios_sandbox", "pushToken": "x"},
             {"platform": "gcm", "pushToken": "x" * 2_049}):
    login(token("alice"), 400, **body)
login("", 400)
# The same account server signs for QuickBlox's paths.
expiry = int(datetime.datetime.now().timestamp()) + 3_600
web_token = signed(
    {"typ": "JWT", "alg": "RS256", "kid": "k1"},
    {"iss": "demo", "sub": "alice", "exp": expiry}, key_file)
answer = requests.get(
    "http://localhost:%s/chat/Dialog.json" % port, headers={"QB-Token": web_token},
    timeout=patience)
assert answer.status_code == 200, (answer.status_code, answer.text)
print("login well", flush=True)


class OrderedEngine(engineio.Client):
    """Handles each packet before it reads the next one. The library starts a thread for each, so
    that the machine decides which of two events comes first."""

    def _trigger_event(self, event, *args, **options):
        return super()._trigger_event(event, *args, **{**options, "run_async": False})


class OrderedClient(socketio.Client):
    def _engineio_client_class(self):
        return OrderedEngine


class Client:
    """A user's socket: python-socketio, and the events in the order of their arrival."""

    def __init__(self, session):
        self.session = session
        self.events = queue.Queue()
        self.socket = OrderedClient(reconnection=False, request_timeout=patience)
        self.socket.on("*", lambda name, data=None: self.events.put((name, data)))
        self.ended = queue.Queue()
        self.socket.on("disconnect", lambda *reason: self.ended.put(True))

    def open(self):
        self.socket.connect(
            "http://localhost:" + port, transports=["websocket"], wait_timeout=patience)

    def connect(self):
        self.open()
        return self.call("authenticate", {"authToken": self.session["session"]})

    def call(self, name, data=None):
        return self.socket.call(name, data, timeout=patience)

    def refused(self, name, data, code, text):
        answer = self.call(name, data)
        assert answer["error"]["code"] == code and text in answer["error"]["message"], answer

    def event(self, name):
        """The next event of this name; others are left out."""
        while True:
            found, data = self.events.get(timeout=patience)
            if found == name:
                return data


def connected(user, device="web-1"):
    client = Client(login(token(user), deviceId=device))
    device_info = client.connect()
    assert device_info["userId"] == user and device_info["deviceId"] == device, device_info
    assert device_info["device"] == {
        "id": device, "serial": device, "status": "online", "platform": None, "meta": {}}
    return client


bob_login = login(token("bob"), deviceId="web-2")
login(token("carol"), deviceId="web-3")
stranger = Client(bob_login)
stranger.open()
stranger.refused("chats/list", None, 403, "authenticate")
stranger.socket.disconnect()
alice, bob = connected("alice"), connected("bob")
alice.refused("authenticate", {"authToken": "x"}, 409, "authenticated")
alice.refused("chats/destroy", {}, 404, "event")
print("authenticate well", flush=True)

# Chats.
chat_members = {"id", "pushEnabled", "lastMessage", "members", "whiteList", "meta"}
assert alice.call("chats/list") == {"chats": []}
chat = alice.call(
    "chats/create", {"members": ["bob"], "whiteList": None, "meta": {"name": "boat"}})
assert set(chat) == chat_members, chat
assert chat["members"] == ["alice", "bob"] and chat["whiteList"] is None
assert chat["meta"] == {"name": "boat"} and chat["pushEnabled"] is True
identifier = chat["id"]
for data, code, text in (
        ({}, 400, "members"), ({"members": "bob"}, 400, "members"),
        ({"members": ["nobody"]}, 400, "nobody"), ({"members": [], "meta": 1}, 400, "meta"),
        ({"members": ["bob"] * 65}, 400, "members"),
        ({"members": [], "meta": {"a": "b" * 5120}}, 413, "meta")):
    alice.refused("chats/create", data, code, text)
assert bob.event("user.joined") == {"chatId": identifier, "userId": "bob"}
assert [one["id"] for one in bob.call("chats/list")["chats"]] == [identifier]
carol = connected("carol", "web-3")
carol.refused("messages/list", {"chatId": identifier}, 403, "chatId")
joined = carol.call("chats/join", {"chatId": identifier})
assert joined["members"] == ["alice", "bob", "carol"], joined
assert bob.event("user.joined") == {"chatId": identifier, "userId": "carol"}
bob.refused("chats/meta/update", {"chatId": identifier, "meta": {}}, 403, "owner")
bob.refused("chats/join", {"chatId": "nothing"}, 404, "chatId")
changed = alice.call("chats/meta/update", {"chatId": identifier, "meta": {"name": "ship"}})
assert changed["meta"] == {"name": "ship"}
assert bob.event("meta.updated") == {"chatId": identifier, "meta": {"name": "ship"}}
# Whoever is taken off the list stays a member.
closed = alice.call(
    "chats/whiteList/update", {"chatId": identifier, "whiteList": ["alice", "bob"]})
assert closed["whiteList"] == ["alice", "bob"] and "carol" in closed["members"]
assert bob.event("whiteList.updated") == {
    "chatId": identifier, "whiteList": ["alice", "bob"]}
bob.refused("chat/kick", {"chatId": identifier, "userId": "carol"}, 403, "owner")
assert alice.call("chat/kick", {"chatId": identifier, "userId": "carol"}) == {
    "chatId": identifier, "userId": "carol"}
assert bob.event("user.kicked") == {"chatId": identifier, "userId": "carol"}
assert carol.event("user.kicked") == {"chatId": identifier, "userId": "carol"}
carol.refused("chats/join", {"chatId": identifier}, 403, "whiteList")
assert alice.call("chat/whiteList/update", {"chatId": identifier, "whiteList": None})[
    "whiteList"] is None
carol.call("chats/join", {"chatId": identifier})
carol.call("chats/leave", {"chatId": identifier})
assert bob.event("user.left") == {"chatId": identifier, "userId": "carol"}
alice.refused("chat/kick", {"chatId": identifier, "userId": "alice"}, 403, "owner")
closed = bob.call("chats/create", {"members": ["alice"], "whiteList": ["carol"], "meta": {}})
assert closed["whiteList"] == ["carol"] and closed["members"] == ["alice", "bob"]
print("chats well", flush=True)

# Messages.
event_members = {
    "id", "chatId", "data", "mime", "encoding", "meta", "senderUser", "createdAt"}
sent = alice.call(
    "messages/create",
    {"chatId": identifier, "data": "hello", "mime": "text/plain", "encoding": "utf8",
     "meta": {"color": "red", "sizes": [1, 2]}})
assert sent["chatId"] == identifier and sent["data"] == "hello"
message = bob.event("message")
assert set(message) == event_members, message
assert message["chatId"] == identifier and message["data"] == "hello"
assert message["mime"] == "text/plain" and message["encoding"] == "utf8"
assert message["meta"] == {"color": "red", "sizes": [1, 2]}
assert message["senderUser"] == {"serial": "alice"} and isinstance(message["id"], str)
assert abs(message["createdAt"] / 1_000 - datetime.datetime.now().timestamp()) < 60
assert alice.event("message")["id"] == message["id"]
alice.call(
    "messages/create",
    {"chatId": identifier, "data": "https://a.example/b.png", "mime": "image/png",
     "encoding": "url"})
picture = bob.event("message")
assert picture["mime"] == "image/png" and picture["encoding"] == "url" and picture["meta"] == {}
for data, code, text in (
        ({}, 400, "chatId"), ({"chatId": identifier}, 400, "data"),
        ({"chatId": identifier, "data": "x", "encoding": "rot13"}, 400, "encoding"),
        ({"chatId": identifier, "data": "x", "meta": {"a": "b" * 384}}, 413, "meta"),
        ({"chatId": identifier, "data": "x" * 2_000}, 413, "long"),
        ({"chatId": "nothing", "data": "x"}, 404, "chatId")):
    alice.refused("messages/create", data, code, text)
for number in range(25):
    alice.call("messages/create", {"chatId": identifier, "data": "number %d" % number})
texts = [bob.event("message")["data"] for _ in range(25)]
assert texts == ["number %d" % number for number in range(25)], texts


def listed(client, **data):
    return client.call("messages/list", {"chatId": identifier, **data})["messages"]


page = listed(bob)
assert len(page) == 20 and page[0]["data"] == "number 24"
assert set(page[0]) == event_members | {"reads"}
assert [one["data"] for one in listed(bob, page=1)] == (
    ["number %d" % number for number in (4, 3, 2, 1, 0)]
    + ["https://a.example/b.png", "hello"])
assert [one["data"] for one in listed(bob, count=2, page=1)] == ["number 22", "number 21"]
assert listed(bob, before=1) == []
assert len(listed(bob, before=int(datetime.datetime.now().timestamp()) + 5, count=100)) == 27
for data, text in (
        ({"count": 101}, "count"), ({"count": 0}, "count"), ({"page": -1}, "page"),
        ({"page": 51}, "page"), ({"before": "x"}, "before")):
    bob.refused("messages/list", {"chatId": identifier, **data}, 400, text)
assert page[0]["reads"] == []
newest = page[0]["id"]
assert bob.call("messages/markAsRead", {"messageId": newest}) == {"messageId": newest}
assert [one["reads"] for one in listed(alice, count=2)] == [["bob"], ["bob"]]
bob.refused("messages/markAsRead", {"messageId": "x"}, 404, "messageId")
carol.refused("messages/markAsRead", {"messageId": newest}, 403, "chat")
last = [one for one in bob.call("chats/list")["chats"] if one["id"] == identifier]
assert last[0]["lastMessage"]["data"] == "number 24"
print("messages well", flush=True)

# A later login of the same device ends the earlier one.
again = connected("bob")
assert bob.event("error")["code"] == 4111
bob.ended.get(timeout=patience)
# What arrives while a device is away arrives when it is back.
again.socket.disconnect()
again.ended.get(timeout=patience)
alice.call("messages/create", {"chatId": identifier, "data": "while away"})
back = connected("bob")
while back.event("message")["data"] != "while away":
    pass
for client in (alice, back, carol):
    client.socket.disconnect()
print("return well", flush=True)
