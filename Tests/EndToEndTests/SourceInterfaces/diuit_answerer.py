# A user of Diuit who marks each message of another user as read and answers it, over
# python-socketio.
#
#     diuit_answerer.py PORT TOKEN

import os
import queue
import sys

import socketio

port, token = sys.argv[1:3]
patience = 60
client = socketio.Client(reconnection=False, request_timeout=patience)
messages = queue.Queue()
client.on("message", messages.put)
# It ends with the broker of its test.
client.on("disconnect", lambda *reason: os._exit(0))
client.connect(
    "http://localhost:" + port, transports=["websocket"], wait_timeout=patience)
me = client.call("authenticate", {"authToken": token}, timeout=patience)["userId"]
print("ready as " + me, flush=True)
while True:
    message = messages.get()
    if message["senderUser"]["serial"] == me:
        continue
    client.call("messages/markAsRead", {"messageId": message["id"]}, timeout=patience)
    client.call(
        "messages/create",
        {"chatId": message["chatId"], "data": "Diuit has read " + message["data"]},
        timeout=patience)
    print("read " + message["data"], flush=True)
