# An actuator with Paho for Python: it takes one message that asks for *applied*, tells that it is too
# hot, and ends when the broker has answered.
#
#     actuator.py PORT VERSION AUTHORITY-FILE TOKEN

import json
import sys

import paho.mqtt.client as mqtt

port, version, authority, token = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
protocol = {"3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}[version]


def connected(client, userdata, flags, reason, properties=None):
    client.subscribe("$u/alice", qos=1)


def subscribed(client, userdata, mid, codes, properties=None):
    print("ready", flush=True)


def received(client, userdata, message):
    content = json.loads(message.payload)
    if message.topic == "$api/reply":
        print("reply", content["name"], flush=True)
        client.disconnect()
        return
    if version == "5":
        own = dict(message.properties.UserProperty)
        reference, receipts = own["martlet-reference"], own["receipts"].split(",")
    else:
        reference, receipts = content["reference"], content["receipts"]
    print("asks", " ".join(receipts), flush=True)
    client.publish(
        "$api/applied", json.dumps({"reference": reference, "code": 131, "text": "too hot"}), qos=1)


if hasattr(mqtt, "CallbackAPIVersion"):
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION1, client_id="actuator", protocol=protocol)
else:
    client = mqtt.Client(client_id="actuator", protocol=protocol)
client.username_pw_set("demo/alice", token)
client.tls_set(ca_certs=authority)
client.on_connect, client.on_message, client.on_subscribe = connected, received, subscribed
client.connect("localhost", port)
client.loop_forever()
