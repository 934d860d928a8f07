"""Publishers and subscribers of a cluster, with Paho: each goes from address to address until one
accepts it. Publications are numbered; the end compares what was acknowledged with what arrived.

    cluster_clients.py HOST:PORT,HOST:PORT,... [PUBLISHERS]

Prints `ready` when all clients are connected, and for each line of standard input:
    progress   the acknowledgements so far, and the time since the last one in ms
    pause      the longest time without an acknowledgement since the last `pause`, in ms
    stop       publishes no more, waits until everything acknowledged has arrived, prints the result
"""
import json
import sys
import threading
import time

import paho.mqtt.client as mqtt

ADDRESSES = [(a.rsplit(":", 1)[0], int(a.rsplit(":", 1)[1])) for a in sys.argv[1].split(",")]
PUBLISHERS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
INFLIGHT = 8
PATIENCE = 120


class Acknowledgements:
    """Of all publishers together."""

    def __init__(self):
        # Told of each acknowledgement and of each message that arrives.
        self.lock = threading.Condition(threading.RLock())
        self.numbers = {1: set(), 2: set()}
        self.last = time.monotonic()
        self.longest = 0.0

    def add(self, qos, number):
        with self.lock:
            now = time.monotonic()
            self.numbers[qos].add(number)
            self.longest = max(self.longest, now - self.last)
            self.last = now
            self.lock.notify_all()

    def count(self):
        with self.lock:
            return sum(len(n) for n in self.numbers.values())

    def take_pause(self):
        with self.lock:
            longest = max(self.longest, time.monotonic() - self.last)
            self.longest = 0.0
            return longest


class Client:
    """A client that keeps its session and looks for the primary."""

    def __init__(self, name, protocol):
        self.client = mqtt.Client(name, clean_session=False, protocol=protocol)
        self.client.max_inflight_messages_set(4 * INFLIGHT)
        self.client.on_connect = self.connected
        self.is_connected = threading.Event()
        self.stopped = threading.Event()
        self.place = hash(name) % len(ADDRESSES)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def connected(self, client, userdata, flags, code):
        if code == 0:
            self.is_connected.set()

    def run(self):
        while not self.stopped.is_set():
            host, port = ADDRESSES[self.place]
            self.place = (self.place + 1) % len(ADDRESSES)
            self.keep_releases()
            try:
                self.client.connect(host, port, keepalive=5)
                begin = time.monotonic()
                while (self.client.loop(0.05) == mqtt.MQTT_ERR_SUCCESS
                       and not self.stopped.is_set()):
                    # A node that was stopped accepts the connection and says nothing.
                    if not self.is_connected.is_set() and time.monotonic() - begin > 1:
                        break
                    self.work()
            except OSError:
                pass
            self.is_connected.clear()
            # The pause before the next address.
            self.stopped.wait(0.05)

    def keep_releases(self):
        """Paho 1.6.1 publishes a released message again after two attempts to connect in a row."""
        for message in self.client._out_messages.values():
            if message.state == mqtt.mqtt_ms_resend_pubrel:
                message.state = mqtt.mqtt_ms_wait_for_pubcomp

    def work(self):
        pass


class Publisher(Client):
    def __init__(self, index, acknowledged):
        super().__init__(f"publisher-{index}", mqtt.MQTTv311)
        self.qos = 1 + index % 2
        self.index = index
        self.acknowledged = acknowledged
        self.under_way = {}
        self.next = 0
        self.publishes = True
        self.client.on_publish = self.published

    def work(self):
        if not self.is_connected.is_set():
            return
        while self.publishes and len(self.under_way) < INFLIGHT:
            number = self.index * 10_000_000 + self.next
            self.next += 1
            info = self.client.publish(f"cluster/{self.qos}", str(number), qos=self.qos)
            self.under_way[info.mid] = number

    def published(self, client, userdata, mid):
        number = self.under_way.pop(mid, None)
        if number is not None:
            self.acknowledged.add(self.qos, number)


class Subscriber(Client):
    def __init__(self, lock):
        super().__init__("subscriber", mqtt.MQTTv311)
        self.counts = {1: {}, 2: {}}
        self.lock = lock
        self.client.on_message = self.received
        self.is_subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: self.is_subscribed.set()

    def connected(self, client, userdata, flags, code):
        super().connected(client, userdata, flags, code)
        if code == 0 and not self.is_subscribed.is_set():
            client.subscribe("cluster/#", qos=2)

    def received(self, client, userdata, message):
        qos = int(message.topic.rsplit("/", 1)[1])
        number = int(message.payload)
        with self.lock:
            self.counts[qos][number] = self.counts[qos].get(number, 0) + 1
            self.lock.notify_all()

    def missing(self, acknowledged):
        with self.lock:
            return [n for q in (1, 2) for n in acknowledged.numbers[q] if n not in self.counts[q]]


def say(**values):
    print(json.dumps(values), flush=True)


def main():
    acknowledged = Acknowledgements()
    subscriber = Subscriber(acknowledged.lock)
    subscriber.thread.start()
    if not subscriber.is_subscribed.wait(PATIENCE):
        sys.exit("the subscriber finds no primary")
    publishers = [Publisher(index, acknowledged) for index in range(PUBLISHERS)]
    for publisher in publishers:
        publisher.thread.start()
    with acknowledged.lock:
        if not acknowledged.lock.wait_for(
                lambda: acknowledged.count() >= PUBLISHERS, timeout=PATIENCE):
            sys.exit("no publisher finds a primary")
    acknowledged.take_pause()
    print("ready", flush=True)
    for line in sys.stdin:
        command = line.strip()
        if command == "progress":
            say(acknowledged=acknowledged.count(),
                sinceLast=int(1000 * (time.monotonic() - acknowledged.last)))
        elif command == "pause":
            say(pause=int(1000 * acknowledged.take_pause()))
        elif command == "stop":
            break
    for publisher in publishers:
        publisher.publishes = False
    with acknowledged.lock:
        acknowledged.lock.wait_for(
            lambda: all(not p.under_way for p in publishers)
            and not subscriber.missing(acknowledged), timeout=PATIENCE)
        missing = subscriber.missing(acknowledged)
    doubled = [n for n, count in subscriber.counts[2].items() if count > 1]
    say(acknowledged=acknowledged.count(), lost=len(missing), doubledOnce=len(doubled),
        underWay=sum(len(p.under_way) for p in publishers),
        received=sum(len(c) for c in subscriber.counts.values()))
    sys.exit(1 if missing or doubled else 0)


main()
