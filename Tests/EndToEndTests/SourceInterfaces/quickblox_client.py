# A client of QuickBlox Chat 2.0, written with requests as its documentation shows it: compares the
# shapes of the answers with those of the documentation.
#
#     quickblox_client.py PORT ALICE BOB CAROL STRANGER
#
# The users 298, 299 and carol of one app have these tokens; the stranger's app has no such
# interface.

import sys
import time

import requests

base = "http://localhost:" + sys.argv[1] + "/chat/"
alice, bob, carol, stranger = sys.argv[2:6]
patience = 60
dialog_members = {
    "_id", "last_message", "last_message_date_sent", "last_message_user_id", "name", "photo",
    "occupants_ids", "type", "unread_messages_count", "xmpp_room_jid"}
created_members = {
    "_id", "attachments", "chat_dialog_id", "date_sent", "message", "recipient_id", "sender_id"}


def call(method, path, token, status=200, **more):
    answer = requests.request(
        method, base + path, headers={"QB-Token": token}, timeout=patience, **more)
    assert answer.status_code == status, (method, path, answer.status_code, answer.text)
    return answer.json()


def dialogs(token, **params):
    return call("GET", "Dialog.json", token, params=params)


def messages(token, dialog, **params):
    return call("GET", "Message.json", token, params={"chat_dialog_id": dialog, **params})


# Dialogs.
assert dialogs(alice) == {"limit": 100, "skip": 0, "items": []}
group = call(
    "POST", "Dialog.json", alice, 201,
    json={"type": 2, "name": "Hawaii relax team", "occupants_ids": "299"})
assert set(group) == dialog_members, group
assert group["type"] == 2 and group["occupants_ids"] == [298, 299]
assert group["last_message"] is None and group["unread_messages_count"] == 0
assert group["xmpp_room_jid"] == "demo_%s@muc.localhost" % group["_id"]
# The same as a form, with the other ways to write occupants.
room = call(
    "POST", "Dialog", alice, 201,
    data={"type": "1", "name": "Every one", "photo": "7"})
assert room["type"] == 1 and room["occupants_ids"] == [] and room["photo"] == "7"
pair = call("POST", "Dialog.json", alice, 201, json={"type": 3, "occupants_ids": [299]})
assert pair["type"] == 3 and pair["name"] is None and pair["xmpp_room_jid"] is None
assert pair["occupants_ids"] == [298, 299]
for body, field in (
        ({"name": "x"}, "type"), ({"type": 2}, "occupants_ids"), ({"type": 3}, "occupants_ids"),
        ({"type": 4}, "type"), ({"type": 2, "occupants_ids": "nobody"}, "occupants_ids"),
        ({"type": 3, "occupants_ids": "299,carol"}, "occupants_ids")):
    errors = call("POST", "Dialog.json", alice, 400, json=body)["errors"]
    assert errors[0].startswith(field), errors
assert {one["_id"] for one in dialogs(bob)["items"]} == {group["_id"], room["_id"]}
assert {one["_id"] for one in dialogs(carol)["items"]} == {room["_id"]}
print("dialogs well", flush=True)

# Changes.
changed = call(
    "PUT", "Dialog/%s.json" % group["_id"], bob,
    json={"name": "Crossfit", "push_all": {"occupants_ids": ["carol"]}})
assert changed["name"] == "Crossfit" and changed["occupants_ids"] == [298, 299, "carol"]
changed = call(
    "PUT", "Dialog/%s.json" % group["_id"], bob,
    data={"pull_all[occupants_ids][]": "carol"})
assert changed["occupants_ids"] == [298, 299]
call("PUT", "Dialog/%s.json" % group["_id"], carol, 403, json={"name": "x"})
call("PUT", "Dialog/%s.json" % room["_id"], bob, 403, json={"name": "x"})
call(
    "PUT", "Dialog/%s.json" % room["_id"], bob,
    json={"push_all": {"occupants_ids": [299]}})
call("PUT", "Dialog/%s.json" % pair["_id"], alice, 403, json={"name": "x"})
call("PUT", "Dialog/nothing.json", alice, 404, json={"name": "x"})
print("changes well", flush=True)

# Messages. The first one makes the private dialog.
made = call(
    "POST", "Message.json", alice, 201,
    json={"message": "hello!", "recipient_id": 299, "age": "25",
          "attachments": [{"type": "image", "id": "47863"}]})
assert set(made) == created_members | {"age"}, made
assert made["chat_dialog_id"] == pair["_id"] and made["sender_id"] == 298
assert made["recipient_id"] == 299 and made["age"] == "25"
assert made["attachments"] == [{"id": "47863", "type": "image"}]
assert abs(made["date_sent"] - time.time()) < patience
second = call(
    "POST", "Message.json", bob, 201,
    data={"chat_dialog_id": pair["_id"], "message": "it is+me", "attachments[0][type]": "video",
          "attachments[0][url]": "https://x/v"})
assert second["message"] == "it is+me"
picture = call(
    "POST", "Message.json", bob, 201,
    json={"chat_dialog_id": pair["_id"],
          "attachments": [{"type": "image", "url": "https://x/p"}]})
assert picture["message"] is None
assert picture["attachments"] == [{"type": "image", "url": "https://x/p"}]
late = call(
    "POST", "Message.json", alice, 201,
    json={"chat_dialog_id": group["_id"], "message": "imported", "date_sent": 1403706567})
assert late["date_sent"] == 1403706567 and late["recipient_id"] is None
call("POST", "Message.json", alice, 400, json={"message": "x"})
call("POST", "Message.json", alice, 400, json={"chat_dialog_id": pair["_id"]})
call("POST", "Message.json", carol, 403, json={"chat_dialog_id": pair["_id"], "message": "x"})
call("POST", "Message.json", carol, 403, json={"chat_dialog_id": group["_id"], "message": "x"})
call(
    "POST", "Message.json", alice, 413,
    json={"chat_dialog_id": pair["_id"], "message": "x" * 1025})
print("messages well", flush=True)

# Lists, operators, unread counts and read marks.
listed = dialogs(alice, type=3)
assert listed["items"][0]["unread_messages_count"] == 2
assert listed["items"][0]["last_message_user_id"] == 299
kept = messages(alice, pair["_id"], mark_as_read=0)
assert list(kept) == ["items", "limit", "skip"] and (kept["limit"], kept["skip"]) == (100, 0)
assert [one["_id"] for one in kept["items"]] == [picture["_id"], second["_id"], made["_id"]]
assert set(kept["items"][0]) == created_members | {"read"}
assert dialogs(alice, type=3)["items"][0]["unread_messages_count"] == 2
assert all(one["read"] == 1 for one in messages(alice, pair["_id"])["items"])
assert dialogs(alice, type=3)["items"][0]["unread_messages_count"] == 0
assert dialogs(bob, type=3)["items"][0]["unread_messages_count"] == 1
assert call(
    "PUT", "Message/%s.json" % made["_id"], bob, params={"chat_dialog_id": pair["_id"]},
    json={"read": "1"}) == {}
assert dialogs(bob, type=3)["items"][0]["unread_messages_count"] == 0
identifiers = "%s,%s" % (made["_id"], second["_id"])
call(
    "PUT", "Message/%s.json" % identifiers, bob,
    json={"read": "1", "chat_dialog_id": pair["_id"]})


def found(**params):
    return [one["_id"] for one in messages(alice, pair["_id"], **params)["items"]]


assert found(sender_id=298) == [made["_id"]]
assert found(**{"sender_id[ne]": 298}) == [picture["_id"], second["_id"]]
assert found(**{"sender_id[in]": "298,5"}) == [made["_id"]]
assert found(**{"sender_id[nin]": "298,5"}) == [picture["_id"], second["_id"]]
assert found(**{"sender_id[or]": "298,299"}) == [picture["_id"], second["_id"], made["_id"]]
assert found(**{"message[ctn]": "IS+"}) == [second["_id"]]
assert found(age="25") == [made["_id"]]
assert found(**{"date_sent[gt]": made["date_sent"] + 60}) == []
assert len(found(**{"date_sent[lte]": int(time.time()) + 5})) == 3
assert found(sort_asc="date_sent", limit=1)[0] == made["_id"]
assert found(limit=1, skip=1) == [second["_id"]]
assert messages(alice, pair["_id"], count=1) == {"items": {"count": 3}}
assert [one["_id"] for one in dialogs(alice, **{"occupants_ids[all]": "298,299", "type": 2})[
    "items"]] == [group["_id"]]
assert dialogs(alice, count=1) == {"items": {"count": 3}}
assert [one["type"] for one in dialogs(alice, sort_desc="type")["items"]] == [3, 2, 1]
for params, field in (
        ({"date_sent[like]": 1}, "date_sent[like]"), ({"limit": 101}, "limit"),
        ({"skip": 100000}, "skip"), ({"attachments": "x"}, "attachments"),
        ({"sort_asc": "message"}, "sort_asc"), ({"count": "yes"}, "count")):
    errors = call(
        "GET", "Message.json", alice, 400,
        params={"chat_dialog_id": pair["_id"], **params})["errors"]
    assert errors[0].startswith(field), errors
assert call("GET", "Dialog.json", alice, 400, params={"color": 1})["errors"]
call("GET", "Message.json", alice, 400)
call("GET", "Message.json", carol, 403, params={"chat_dialog_id": group["_id"]})
call("GET", "Message.json", carol, 403, params={"chat_dialog_id": pair["_id"]})
call("GET", "Message.json", alice, 404, params={"chat_dialog_id": "u-00"})
print("lists well", flush=True)

# Delete, for oneself.
call("DELETE", "Message/%s.json" % second["_id"], alice, 422)
assert call("DELETE", "Message/%s.json" % made["_id"], alice) == {}
assert found() == [picture["_id"], second["_id"]]
assert len(messages(bob, pair["_id"])["items"]) == 3
call("DELETE", "Message/%s.json" % made["_id"], carol, 403)
call("DELETE", "Message/nonsense.json", alice, 404)
# Whoever leaves sees it no more.
left = call(
    "PUT", "Dialog/%s.json" % group["_id"], bob, json={"pull_all": {"occupants_ids": [299]}})
assert left["occupants_ids"] == [298]
call("GET", "Message.json", bob, 403, params={"chat_dialog_id": group["_id"]})
print("delete well", flush=True)

# A public dialog is read and written by members only, and who joins may write.
call("GET", "Message.json", carol, 403, params={"chat_dialog_id": room["_id"]})
text = {"chat_dialog_id": room["_id"], "message": "hi"}
call("POST", "Message.json", carol, 403, json=text)
call("PUT", "Dialog/%s.json" % room["_id"], carol, json={"push": {"occupants_ids": "carol"}})
call("POST", "Message.json", carol, 201, json=text)
call("PUT", "Dialog/%s.json" % room["_id"], carol, json={"pull": {"occupants_ids": ["carol"]}})
call("POST", "Message.json", carol, 403, json=text)
# The messages before the newest one become read too.
pair = "u-" + b"298/carol".hex()
two = [
    call("POST", "Message.json", alice, 201, json={"recipient_id": "carol", "message": text})["_id"]
    for text in ("one", "two")]
call(
    "PUT", "Message/%s.json" % two[1], carol, json={"read": "1", "chat_dialog_id": pair})
assert dialogs(carol, type=3)["items"][0]["unread_messages_count"] == 0
# Members of a client are text, and their number is bounded.
body = {"recipient_id": "carol", "message": "x"}
call(
    "POST", "Message.json", alice, 413, json={**body, **{"m%d" % n: "v" for n in range(17)}})
made = call("POST", "Message.json", alice, 201, json={**body, **{"m%d" % n: n for n in range(16)}})
assert all(made["m%d" % n] == "%d" % n for n in range(16)), made
# A time of a delivered message counts if it is nearly now: five seconds before or after it. One in
# the future leaves the request some time.
now = int(time.time())
for sent, kept in ((now + 4, now + 4), (now - 60, None)):
    made = call(
        "POST", "Message.json", alice, 201, json={**body, "date_sent": sent, "send_to_chat": 1})
    assert made["date_sent"] == kept if kept else made["date_sent"] >= now, made
print("rules well", flush=True)

# Tokens, methods, forms of content.
for token in ("nonsense", ""):
    assert call("GET", "Dialog.json", token, 403)["errors"]
assert requests.get(base + "Dialog.json", timeout=patience).status_code == 403
assert requests.get(
    base + "Dialog.json", headers={"QB-Token": stranger}, timeout=patience).status_code == 404
assert requests.get(
    base + "Dialog.xml", headers={"QB-Token": alice}, timeout=patience).status_code == 404
assert requests.delete(
    base + "Dialog.json", headers={"QB-Token": alice}, timeout=patience).status_code == 405
call(
    "POST", "Dialog.json", alice, 415, data=b"<dialog/>", )
for text in (b"{", b"[]", b"\xff", b"[" * 5000, b'{"type":2,"occupants_ids":{"a":{"b":1}}}'):
    answer = requests.post(
        base + "Dialog.json", data=text, timeout=patience,
        headers={"QB-Token": alice, "Content-Type": "application/json"})
    assert answer.status_code == 400, (text[:20], answer.status_code, answer.text)
print("refusals well", flush=True)
