"""MQTT 5.0 with Paho's Python client over TLS: what a message brings along, and the limits that
both sides tell each other. Ends with code 0 when all is as it should be, and names what is not.

    properties.py PORT AUTHORITY-FILE TOKEN
"""

import queue
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PORT, AUTHORITY, TOKEN = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PATIENCE_SECONDS = 60


def properties(kind, **values):
    result = Properties(kind)
    for name, value in values.items():
        setattr(result, name, value)
    return result


class Peer:
    """A client whose events are taken one by one."""

    def __init__(self, name, clean=True, will=None, will_delay=0, **connect):
        # The callbacks of 1.6 are those of 2.x's first version.
        if hasattr(mqtt, "CallbackAPIVersion"):
            self.client = mqtt.Client(
                mqtt.CallbackAPIVersion.VERSION1, client_id=name, protocol=mqtt.MQTTv5)
        else:
            self.client = mqtt.Client(client_id=name, protocol=mqtt.MQTTv5)
        self.events = {kind: queue.Queue() for kind in ("in", "message", "subscribed", "published")}
        self.client.username_pw_set("demo/alice", TOKEN)
        self.client.tls_set(ca_certs=AUTHORITY)
        self.client.on_connect = (
            lambda c, u, flags, code, props: self.put("in", (flags, code, props)))
        self.client.on_message = lambda c, u, message: self.put("message", message)
        self.client.on_subscribe = lambda c, u, mid, codes, props: self.put("subscribed", codes)
        self.client.on_publish = lambda c, u, mid: self.put("published", mid)
        if will:
            self.client.will_set(
                will, name, qos=1,
                properties=properties(PacketTypes.WILLMESSAGE, WillDelayInterval=will_delay))
        self.client.connect(
            "localhost", PORT, clean_start=clean,
            properties=properties(PacketTypes.CONNECT, **connect))
        self.client.loop_start()
        self.flags, self.code, self.granted = self.get("in")
        assert self.code == 0, f"CONNACK: {self.code}"

    def put(self, kind, event):
        self.events[kind].put(event)

    def get(self, kind):
        try:
            return self.events[kind].get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise AssertionError(f"no {kind} within {PATIENCE_SECONDS} s") from None

    def subscribe(self, topic, qos=1, identifier=None, **options):
        chosen = SubscribeOptions(qos=qos, **options)
        values = {"SubscriptionIdentifier": identifier} if identifier else {}
        self.client.subscribe(
            topic, options=chosen, properties=properties(PacketTypes.SUBSCRIBE, **values))
        codes = self.get("subscribed")
        assert [code.value for code in codes] == [qos], f"SUBACK: {codes}"

    def publish(self, topic, payload, qos=1, retain=False, **values):
        self.client.publish(
            topic, payload, qos, retain, properties=properties(PacketTypes.PUBLISH, **values))
        self.get("published")

    def vanish(self):
        """Closes the connection without a word."""
        self.client.loop_stop()
        self.client.socket().close()

    def leave(self):
        self.client.disconnect()
        self.client.loop_stop()


def what_travels_along():
    listener, sender = Peer("py-listener"), Peer("py-sender")
    listener.subscribe("py/+/along", 2, identifier=77)
    users = [("a", "1"), ("b", "2"), ("a", "3")]
    for qos in (0, 1, 2):
        sender.publish(
            f"py/{qos}/along", f"payload {qos}", qos, PayloadFormatIndicator=1,
            ContentType="text/plain", ResponseTopic="py/answers", CorrelationData=b"\x00\xff",
            MessageExpiryInterval=100, UserProperty=users)
        message = listener.get("message")
        came = message.properties
        assert (message.topic, message.payload) == (f"py/{qos}/along", b"payload %d" % qos)
        assert message.qos == qos and not message.retain
        assert came.UserProperty == users and came.CorrelationData == b"\x00\xff"
        assert came.ResponseTopic == "py/answers" and came.ContentType == "text/plain"
        assert came.PayloadFormatIndicator == 1 and 0 < came.MessageExpiryInterval <= 100
        assert came.SubscriptionIdentifier == [77]
    listener.leave()
    sender.leave()


def request_and_response():
    asking, answering = Peer("py-asking"), Peer("py-answering")
    asking.subscribe("py/reply/#")
    answering.subscribe("py/question")
    asking.publish(
        "py/question", "how much?", ResponseTopic="py/reply/9", CorrelationData=b"nine")
    question = answering.get("message").properties
    answering.publish(
        question.ResponseTopic, "that much", CorrelationData=question.CorrelationData)
    reply = asking.get("message")
    assert reply.payload == b"that much" and reply.properties.CorrelationData == b"nine"
    asking.leave()
    answering.leave()


def aliases_and_limits():
    listener = Peer("py-limited", ReceiveMaximum=1, TopicAliasMaximum=3)
    listener.subscribe("py/limited", 1)
    sender = Peer("py-limiting")
    assert sender.granted.TopicAliasMaximum > 0 and sender.granted.ReceiveMaximum > 0
    sender.publish("py/limited", "by name", TopicAlias=1)
    sender.publish("", "by number", TopicAlias=1)
    for payload in (b"by name", b"by number"):
        message = listener.get("message")
        # Paho 1.6 hands an alias over as it came.
        assert message.payload == payload and message.topic in ("py/limited", "")
    listener.leave()
    sender.leave()


def expiry_and_options():
    sleeper = Peer("py-sleeper", clean=False, SessionExpiryInterval=600)
    sleeper.subscribe("py/sleep", 1)
    sleeper.leave()
    sender = Peer("py-waker")
    sender.publish("py/sleep", "too late", MessageExpiryInterval=1)
    sender.publish("py/sleep", "in time", MessageExpiryInterval=600)
    # A will with a delay tells when the broker's own clock has passed the first message's time.
    sender.subscribe("py/clock", 1)
    clock = Peer("py-clock", will="py/clock", will_delay=2, SessionExpiryInterval=60)
    clock.vanish()
    assert sender.get("message").payload == b"py-clock"
    sleeper = Peer("py-sleeper", clean=False, SessionExpiryInterval=60)
    assert sleeper.flags["session present"] == 1
    assert sleeper.get("message").payload == b"in time"
    sender.subscribe("py/own", 1, noLocal=True)
    sender.publish("py/own", "mine", retain=True)
    sleeper.subscribe("py/own", 1, retainAsPublished=True)
    kept = sleeper.get("message")
    assert kept.payload == b"mine" and kept.retain
    sender.publish("py/own", "", retain=True)
    assert sleeper.get("message").payload == b""
    assert sender.events["message"].empty()
    sleeper.leave()
    sender.leave()


for test in (what_travels_along, request_and_response, aliases_and_limits, expiry_and_options):
    test()
    print(test.__name__, "well", flush=True)
