# A client of LeanMessage, written with websockets in the words of its documentation: compares the
# shapes of events with those of the documentation.
#
#     leanmessage_client.py PORT ALICE BOB STRANGER APP-KEY
#
# Alice and bob have these tokens; the stranger's app has no such interface.

import sys

# The folder of this script is not the place of the library that has the name of another script.
sys.path.pop(0)

import asyncio
import json

import websockets

PORT, ALICE, BOB, STRANGER, KEY = sys.argv[1:6]
PATIENCE_SECONDS = 60


def connection():
    """A socket whose client gives the broker time."""
    return websockets.connect(
        f"ws://localhost:{PORT}/leanmessage", open_timeout=PATIENCE_SECONDS, ping_timeout=None)


class Client:
    """A client with a tag, whose messages have numbers of their own."""

    def __init__(self):
        self.i = 0
        self.events = []

    @classmethod
    async def open(cls, token=None, **members):
        self = cls()
        self.socket = await connection()
        if token:
            members["token"] = token
        await self.tell(command="open", **members)
        self.opened = await self.next("OPENED", "REFUSED", "CONFLICT")
        return self

    async def tell(self, **message):
        await self.socket.send(json.dumps(message))

    async def next(self, *events):
        """The next event of these names; others wait for their turn."""
        for place, event in enumerate(self.events):
            if event["event"] in events:
                return self.events.pop(place)
        while True:
            text = await asyncio.wait_for(self.socket.recv(), PATIENCE_SECONDS)
            event = json.loads(text)
            if "n" in event:
                await self.tell(command="ack", n=event["n"])
            if event["event"] in events:
                return event
            self.events.append(event)

    async def texts(self, last):
        """The texts of the next messages, up to this one."""
        texts = []
        while last not in texts:
            texts.append((await self.next("MESSAGE"))["text"])
        return texts

    async def call(self, command, code=0, **members):
        self.i += 1
        await self.tell(command=command, i=self.i, **members)
        answer = await self.next("ACK" if command == "send" and not members.get("will")
                                 and not members.get("options", 0) & 4 else "RESPONSE")
        assert answer["i"] == self.i and answer["code"] == code, answer
        if answer["event"] == "ACK":
            await self.tell(command="ack", i=self.i)
        return answer

    async def end(self):
        await self.tell(command="close")
        assert (await self.next("CLOSED"))["code"] == 0
        await self.socket.wait_closed()


async def messages():
    alice, bob = await Client.open(ALICE, tag="mobile"), await Client.open(BOB, tag="mobile")
    assert alice.opened["event"] == "OPENED" and alice.opened["clientId"] == "alice"
    group = (await alice.call("createConversation", name="Tom & Jerry", members=["bob"]))["convId"]
    await bob.call("join", convId=group)
    # Mentions.
    sent = await alice.call(
        "send", convId=group, type=-1, text="@bob lunch?", mentionList=["bob"],
        attributes={"style": "bold"}, pushData={"alert": "lunch", "badge": 1})
    got = await bob.next("MESSAGE")
    assert {key: got[key] for key in (
        "convId", "from", "type", "text", "mentioned", "mentionedAll", "attributes", "messageId")
    } == {
        "convId": group, "from": "alice", "type": -1, "text": "@bob lunch?", "mentioned": True,
        "mentionedAll": False, "attributes": {"style": "bold"}, "messageId": sent["messageId"]}
    assert got["timestamp"] > 0 and got["index"] == 1
    await bob.call("mute", convId=group)
    await bob.call("unmute", convId=group)
    await alice.call("send", convId=group, text="all", mentionAll=True)
    got = await bob.next("MESSAGE")
    assert got["mentioned"] is True and got["mentionedAll"] is True
    # Types: built-in ones are negative, those of an app positive.
    for number, member in ((-2, "url"), (-3, "url"), (-4, "url"), (-5, "text"), (-6, "url"),
                           (16, "text"), (255, "text")):
        await alice.call("send", convId=group, type=number, **{member: "https://x/1"})
        got = await bob.next("MESSAGE")
        assert (got["type"], got["text"]) == (number, "https://x/1"), got
    # First in, first out.
    for count in range(20):
        await alice.call("send", convId=group, text=str(count))
    assert [(await bob.next("MESSAGE"))["text"] for _ in range(20)] == [
        str(count) for count in range(20)]
    # A transient message is not kept, and has no answer.
    await alice.tell(command="send", i=1, convId=group, text="typing", transient=True)
    got = await bob.next("MESSAGE")
    assert got["text"] == "typing" and "n" not in got and "messageId" not in got
    page = await bob.call("query", convId=group, limit=3)
    assert [one["text"] for one in page["messages"]] == ["19", "18", "17"], page
    older = await bob.call("query", convId=group, limit=2, before=page["next"])
    assert [one["text"] for one in older["messages"]] == ["16", "15"], older
    assert (await bob.call("query", convId="user/alice"))["messages"] == []
    print("messages well", flush=True)
    return alice, bob, group


async def revisions(alice, bob):
    # Receipts, in a conversation of two.
    sent = await alice.call("send", convId="user/bob", text="ping", receipt=True, priority="high")
    got = await bob.next("MESSAGE")
    assert got["convId"] == "user/alice" and got["receipt"] is True
    told = await alice.next("LAST_DELIVERED_AT_UPDATE")
    assert (told["convId"], told["clientId"], told["messageId"]) == (
        "user/bob", "bob", sent["messageId"])
    assert told["lastDeliveredAt"] > 0
    await bob.call("read", messageId=got["messageId"])
    told = await alice.next("LAST_READ_AT_UPDATE")
    assert told["lastReadAt"] > 0 and told["messageId"] == sent["messageId"]
    # Changed and taken back.
    await alice.call("update", messageId=sent["messageId"], text="pong")
    told = await bob.next("MESSAGE_UPDATE")
    assert (told["convId"], told["text"], told["messageId"]) == (
        "user/alice", "pong", sent["messageId"]) and "reason" not in told, told
    await alice.call("recall", messageId=sent["messageId"], reason="wrong person")
    told = await bob.next("MESSAGE_RECALL")
    assert told["messageId"] == sent["messageId"]
    assert told["reason"] == {"code": 0, "detail": "wrong person"}, told
    await bob.call("recall", code=144, messageId=sent["messageId"])
    print("revisions well", flush=True)


async def unread(alice, bob, group):
    second = await Client.open(BOB, tag="web")
    await second.call("watchUnread", clientId="bob")
    sent = await alice.call("send", convId="user/bob", text="one")
    got = await bob.next("MESSAGE")
    assert (await second.next("MESSAGE"))["messageId"] == sent["messageId"]
    listed = await bob.call("conversations", unread=True)
    pair = [one for one in listed["conversations"] if one["convId"] == "user/alice"][0]
    assert pair["unreadMessagesCount"] >= 1 and pair["lastMessage"]["text"] == "one", pair
    await bob.call("read", convId="user/alice", index=got["index"])
    told = await second.next("UNREAD_MESSAGES_COUNT_UPDATE")
    assert (told["convId"], told["unreadMessagesCount"]) == ("user/alice", 0), told
    await second.end()
    # Who pulls gets nothing of what is kept, and asks for it.
    puller = await Client.open(BOB, tag="pull", sync="pull")
    assert puller.opened["unreadConversations"] >= 1, puller.opened
    await alice.call("send", convId="user/bob", text="two")
    listed = await puller.call("conversations", unread=True)
    assert {"convId", "unreadMessagesCount", "lastMessage"} <= set(listed["conversations"][0])
    page = await puller.call("query", convId="user/alice", limit=1)
    assert page["messages"][0]["text"] == "two", page
    assert not [one for one in puller.events if one["event"] == "MESSAGE"], puller.events
    await puller.end()
    print("unread well", flush=True)


async def tags(alice):
    # Without a tag there are as many devices as one likes.
    free = [await Client.open(ALICE) for _ in range(3)]
    assert all(one.opened["event"] == "OPENED" for one in free)
    first = await Client.open(ALICE, tag="desktop")
    second = await Client.open(ALICE, tag="desktop", deviceId="d-2")
    assert second.opened["event"] == "OPENED"
    told = await first.next("CONFLICT")
    assert told["code"] == 4111 and told["reason"], told
    try:
        await asyncio.wait_for(first.socket.recv(), PATIENCE_SECONDS)
        raise AssertionError("the connection goes on")
    except websockets.ConnectionClosed as closed:
        assert closed.rcvd.code == 4111, closed
    # A login that nobody requested gets the error itself.
    third = await Client.open(ALICE, tag="desktop", reconnect=True)
    assert (third.opened["event"], third.opened["code"]) == ("CONFLICT", 4111), third.opened
    await second.tell(command="ping")
    assert await second.next("PONG")
    for one in free + [second]:
        await one.end()
    print("tags well", flush=True)


async def wills(alice, bob):
    phone = await Client.open(ALICE, tag="phone")
    await phone.call("send", convId="user/bob", text="first", will=True)
    await phone.call("send", convId="user/bob", text="gone", options=4)
    phone.socket.transport.abort()
    assert "first" not in await bob.texts("gone")
    page = await bob.call("query", convId="user/alice", limit=1)
    assert page["messages"][0]["text"] != "gone", page
    # Who leaves in order sends none.
    phone = await Client.open(ALICE, tag="phone")
    await phone.call("send", convId="user/bob", text="never", will=True)
    await phone.end()
    await alice.call("send", convId="user/bob", text="after")
    assert await bob.texts("after") == ["after"]
    print("wills well", flush=True)


async def refusals(alice, group):
    other = await Client.open(appId="demo", appKey=KEY, clientId="carol", tag="t")
    assert other.opened["clientId"] == "carol", other.opened
    await other.call("send", code=135, convId=group, text="not a member")
    await other.call("send", code=144, convId="user/nobody", text="x")
    await other.call("quit", convId=group)
    await other.end()
    stranger = await Client.open(STRANGER)
    assert (stranger.opened["event"], stranger.opened["code"]) == ("REFUSED", 135)
    assert (await Client.open("nonsense")).opened["code"] == 134
    for message in (
            {"command": "dance"}, {"command": "send", "i": 1}, {"no": "command"},
            {"command": "send", "i": 1, "convId": "user/bob", "type": -7, "text": "x"},
            {"command": "send", "i": 1, "convId": "user/bob", "type": 15, "text": "x"},
            {"command": "send", "i": 1, "convId": "user/bob", "text": "x", "pushData": "y"},
            {"command": "send", "i": 1, "convId": "user/bob", "text": "x", "color": "y"},
            {"command": "join", "i": 1, "convId": "user/bob"}):
        wrong = await Client.open(ALICE)
        await wrong.tell(**message)
        assert (await wrong.next("ERROR"))["reason"], message
        assert (await wrong.next("CLOSED"))["code"] == 129, message
    early = Client()
    early.socket = await connection()
    await early.tell(command="ping")
    assert (await early.next("REFUSED"))["code"] == 130
    print("refusals well", flush=True)


async def main():
    alice, bob, group = await messages()
    await revisions(alice, bob)
    await unread(alice, bob, group)
    await tags(alice)
    await wills(alice, bob)
    await refusals(alice, group)


asyncio.run(main())
