"""WebSocket clients of others against the broker: Paho's Python client, and the library websockets
for what Paho does not do. Ends with code 0 when all is as it should be, and names what is not.

    websockets.py WS-PORT WSS-PORT AUTHORITY-FILE TOKEN
"""

import sys

# The folder of this script is not the place of the library that has its name.
sys.path.pop(0)

import asyncio
import queue
import ssl

import paho.mqtt.client as mqtt
import websockets

PLAIN, SECURE, AUTHORITY, TOKEN = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
PATIENCE_SECONDS = 60


def paho(name, protocol, secure):
    """A connected client of Paho's, and the queue of its messages."""
    arguments = {"client_id": name, "transport": "websockets", "protocol": protocol}
    if hasattr(mqtt, "CallbackAPIVersion"):
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, **arguments)
    else:
        client = mqtt.Client(**arguments)
    client.ws_set_options(path="/mqtt")
    if secure:
        client.tls_set(ca_certs=AUTHORITY)
        client.username_pw_set("demo/alice", TOKEN)
    messages, connected, subscribed = queue.Queue(), queue.Queue(), queue.Queue()
    client.on_connect = lambda c, u, f, reason, p=None: connected.put(reason)
    client.on_subscribe = lambda *rest: subscribed.put(True)
    client.on_message = lambda c, u, message: messages.put(message)
    client.connect("localhost", SECURE if secure else PLAIN)
    client.loop_start()
    assert connected.get(timeout=PATIENCE_SECONDS) == 0, "refused"
    return client, messages, subscribed


def exchange(protocol, secure):
    receiver, messages, subscribed = paho(f"r{protocol}{secure}", protocol, secure)
    topic = f"web/{protocol}/{int(secure)}"
    receiver.subscribe(topic, 2)
    subscribed.get(timeout=PATIENCE_SECONDS)
    sender, _, _ = paho(f"s{protocol}{secure}", protocol, secure)
    payloads = [b"", b"x" * 125, b"y" * 70_000, bytes(range(256)) * 900]
    for qos in (0, 1, 2):
        for payload in payloads:
            sender.publish(topic, payload, qos).wait_for_publish(PATIENCE_SECONDS)
            message = messages.get(timeout=PATIENCE_SECONDS)
            assert (message.payload, message.qos) == (payload, qos), (qos, len(message.payload))
    sender.disconnect()
    receiver.disconnect()


CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05pages"
CONNACK = b"\x20\x02\x00\x00"


def opened(path="/mqtt", subprotocols=("mqtt",), **rest):
    return websockets.connect(
        f"ws://localhost:{PLAIN}{path}", subprotocols=list(subprotocols), compression=None,
        max_size=None, open_timeout=PATIENCE_SECONDS, close_timeout=PATIENCE_SECONDS,
        ping_interval=None, **rest)


async def pieces():
    """Packets and frames do not end together; pings are answered; the close is clean."""
    async with opened(subprotocols=["other", "mqttv3.1", "mqtt"]) as socket:
        assert socket.subprotocol == "mqtt", socket.subprotocol
        # A message of three fragments, the last with half of a PINGREQ.
        await socket.send([CONNECT[:1], CONNECT[1:9], CONNECT[9:] + b"\xc0"])
        assert await socket.recv() == CONNACK
        pong = await socket.ping(b"are you there")
        await asyncio.wait_for(pong, PATIENCE_SECONDS)
        await socket.send(b"\x00\xc0\x00")
        # Both answers are in one frame, because they left in one flush.
        assert await socket.recv() == b"\xd0\x00\xd0\x00"
        await socket.close(1000, "done")
    assert socket.close_code == 1000, socket.close_code


async def text():
    async with opened() as socket:
        await socket.send("hello")
        try:
            await asyncio.wait_for(socket.recv(), PATIENCE_SECONDS)
        except websockets.ConnectionClosed:
            pass
        assert socket.close_code == 1003, socket.close_code


async def large():
    async with opened() as socket:
        await socket.send(CONNECT)
        assert await socket.recv() == CONNACK
        try:
            await socket.send(b"\x30" + b"x" * (1 << 20))
            await asyncio.wait_for(socket.recv(), PATIENCE_SECONDS)
        except websockets.ConnectionClosed:
            pass
        assert socket.close_code == 1009, socket.close_code


async def refused(status, **rest):
    try:
        async with opened(**rest):
            raise AssertionError("was accepted")
    except websockets.InvalidStatusCode as error:
        assert error.status_code == status, error.status_code


async def handshakes():
    await refused(403, origin="https://elsewhere.example")
    await refused(400, subprotocols=["other"])
    await refused(400, path="/mrt")
    await refused(404, path="/other")
    async with opened(origin=f"http://localhost:{PLAIN}") as socket:
        await socket.send(CONNECT)
        assert await socket.recv() == CONNACK
    async with opened(origin="https://listed.example", subprotocols=["mqttv3.1"]) as socket:
        assert socket.subprotocol == "mqttv3.1"


async def dialects():
    """/mrt is for MRT alone: an MQTT client is told that its version is not spoken there."""
    async with opened(path="/mrt", subprotocols=["mrt"]) as socket:
        assert socket.subprotocol == "mrt"
        await socket.send(CONNECT)
        assert await socket.recv() == b"\x20\x02\x00\x01"


for protocol in (mqtt.MQTTv31, mqtt.MQTTv311, mqtt.MQTTv5):
    for secure in (False, True):
        exchange(protocol, secure)
        print(f"paho {protocol} {secure} well", flush=True)
for case in (pieces, text, large, handshakes, dialects):
    asyncio.run(case())
    print(f"{case.__name__} well", flush=True)
