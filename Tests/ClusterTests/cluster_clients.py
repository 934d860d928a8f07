"""Publishers and subscribers of a cluster, with Paho: each goes from address to address until one
accepts it. Publications are numbered; the end compares what was acknowledged with what arrived.
They go to topics, with a subscriber of its own and a pair that shares a subscription, to a group,
and, retained, to a topic of each publisher.

    cluster_clients.py HOST:PORT,HOST:PORT,... GROUP

Prints `ready` when all clients are connected, and for each line of standard input:
    progress   the acknowledgements so far, and the time since the last one in ms
    pause      the longest time without an acknowledgement since the last `pause`, in ms
    will NAME  connects a client with a will, which does not come back when its connection ends
    cut NAME   ends that connection without a word
    stop       publishes no more, waits until everything acknowledged has arrived, prints the result
"""
import json
import sys
import threading
import time

import paho.mqtt.client as mqtt

ADDRESSES = [(a.rsplit(":", 1)[0], int(a.rsplit(":", 1)[1])) for a in sys.argv[1].split(",")]
GROUP = "$g/" + sys.argv[2]
# Topics and client ids of this run: numbers begin anew, and an earlier run that was ended has left
# retained messages, and sessions with messages.
ROOT = "cluster/" + sys.argv[2]
PUBLISHERS = 4
INFLIGHT = 8
PATIENCE = 180
# Seconds for the answer to a login: a commit on a busy machine takes some of them.
LOGIN_PATIENCE = 3
# Of so many publications of a publisher one goes to the group, and one is retained. Two retained
# ones are never under way together, so that an attempt that is repeated changes nothing back.
GROUP_EVERY = 4
RETAINED_EVERY = 2 * INFLIGHT


class Acknowledgements:
    """Of all publishers together."""

    def __init__(self):
        # Told of each acknowledgement and of each message that arrives.
        self.lock = threading.Condition(threading.RLock())
        self.numbers = {1: set(), 2: set()}
        # By publisher, the last retained number that was acknowledged.
        self.retained = {}
        self.last = time.monotonic()
        self.longest = 0.0

    def add(self, qos, number):
        with self.lock:
            now = time.monotonic()
            self.numbers[qos].add(number)
            if is_retained(number):
                self.retained[publisher_of(number)] = number
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


def publisher_of(number):
    return number // 10_000_000


def goes_to_group(number):
    return number % GROUP_EVERY == 1


def is_retained(number):
    return number % 10_000_000 % RETAINED_EVERY == 0


class Client:
    """A client that keeps its session and looks for the primary."""

    def __init__(self, name, returns=True):
        self.returns = returns
        self.client = mqtt.Client(f"{sys.argv[2]}-{name}", clean_session=False, protocol=mqtt.MQTTv311)
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
                    silence = time.monotonic() - begin
                    if not self.is_connected.is_set() and silence > LOGIN_PATIENCE:
                        break
                    self.work()
            except OSError:
                pass
            if self.is_connected.is_set() and not self.returns:
                return
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
        super().__init__(f"publisher-{index}")
        self.qos = 1 + index % 2
        self.index = index
        self.acknowledged = acknowledged
        self.under_way = {}
        self.next = 0
        self.publishes = True
        self.client.on_publish = self.published

    def connected(self, client, userdata, flags, code):
        super().connected(client, userdata, flags, code)
        if code == 0:
            # Members may send to a group, and a subscription joins it.
            client.subscribe(GROUP, qos=0)

    def work(self):
        if not self.is_connected.is_set():
            return
        while self.publishes and len(self.under_way) < INFLIGHT:
            number = self.index * 10_000_000 + self.next
            self.next += 1
            topic, payload = f"{ROOT}/{self.qos}", str(number)
            if goes_to_group(number):
                topic, payload = GROUP, json.dumps({"t": "0", "b": payload})
            elif is_retained(number):
                topic = f"{ROOT}/{self.qos}/state/{self.index}"
            info = self.client.publish(
                topic, payload, qos=self.qos, retain=is_retained(number))
            self.under_way[info.mid] = number

    def published(self, client, userdata, mid):
        number = self.under_way.pop(mid, None)
        if number is not None:
            self.acknowledged.add(self.qos, number)


class Received:
    """What one subscriber has got, or a pair that shares a subscription."""

    def __init__(self, lock):
        self.lock = lock
        self.counts = {1: {}, 2: {}}
        # By name of its client.
        self.wills = {}

    def add(self, topic, payload):
        if topic == GROUP:
            content = json.loads(payload)
            if "msg" not in content:
                # Somebody joined.
                return
            payload = content["msg"]["b"]
        with self.lock:
            if topic.startswith("wills/"):
                self.wills[payload] = self.wills.get(payload, 0) + 1
            else:
                number = int(payload)
                counts = self.counts[1 + publisher_of(number) % 2]
                counts[number] = counts.get(number, 0) + 1
            self.lock.notify_all()

    def missing(self, acknowledged, expects):
        with self.lock:
            return [
                n for q in (1, 2) for n in acknowledged.numbers[q]
                if expects(n) and n not in self.counts[q]]

    def doubled(self):
        with self.lock:
            return [n for n, count in self.counts[2].items() if count > 1]


class Subscriber(Client):
    def __init__(self, name, filters, received):
        super().__init__(name)
        self.filters = filters
        self.received = received
        self.client.on_message = lambda _, __, message: received.add(
            message.topic, message.payload.decode())
        self.is_subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: self.is_subscribed.set()

    def connected(self, client, userdata, flags, code):
        super().connected(client, userdata, flags, code)
        if code == 0 and not self.is_subscribed.is_set():
            client.subscribe([(name, 2) for name in self.filters])


class Mortal(Client):
    """A client with a will that never comes back."""

    def __init__(self, name):
        super().__init__(name, returns=False)
        self.client.will_set(f"wills/{name}", name, qos=1)

    def cut(self):
        self.stopped.set()
        self.thread.join()
        sock = self.client.socket()
        if sock is not None:
            sock.close()


class Reader(Client):
    """Reads what is retained."""

    def __init__(self):
        super().__init__("reader")
        self.condition = threading.Condition()
        self.numbers = {}
        self.client.on_message = self.read

    def connected(self, client, userdata, flags, code):
        super().connected(client, userdata, flags, code)
        if code == 0:
            client.subscribe(ROOT + "/+/state/#", qos=1)

    def read(self, client, userdata, message):
        number = int(message.payload)
        with self.condition:
            self.numbers[publisher_of(number)] = number
            self.condition.notify_all()

    def behind(self, acknowledged):
        return [p for p, n in acknowledged.retained.items() if self.numbers.get(p, -1) < n]


def say(**values):
    print(json.dumps(values), flush=True)


def main():
    acknowledged = Acknowledgements()
    received, shared = Received(acknowledged.lock), Received(acknowledged.lock)
    subscribers = [
        Subscriber("subscriber", [ROOT + "/#", GROUP, "wills/#"], received),
        Subscriber("pair-0", ["$share/pair/" + ROOT + "/#"], shared),
        Subscriber("pair-1", ["$share/pair/" + ROOT + "/#"], shared)]
    for subscriber in subscribers:
        subscriber.thread.start()
        if not subscriber.is_subscribed.wait(PATIENCE):
            sys.exit("a subscriber finds no primary")
    publishers = [Publisher(index, acknowledged) for index in range(PUBLISHERS)]
    for publisher in publishers:
        publisher.thread.start()
    with acknowledged.lock:
        if not acknowledged.lock.wait_for(
                lambda: acknowledged.count() >= PUBLISHERS, timeout=PATIENCE):
            sys.exit("no publisher finds a primary")
    acknowledged.take_pause()
    print("ready", flush=True)
    mortals = {}
    for line in sys.stdin:
        command = line.strip()
        if command == "progress":
            say(acknowledged=acknowledged.count(),
                sinceLast=int(1000 * (time.monotonic() - acknowledged.last)))
        elif command == "pause":
            say(pause=int(1000 * acknowledged.take_pause()))
        elif command.startswith("will "):
            name = command.split(" ")[1]
            mortals[name] = Mortal(name)
            mortals[name].thread.start()
            say(isConnected=mortals[name].is_connected.wait(PATIENCE))
        elif command.startswith("cut "):
            mortals[command.split(" ")[1]].cut()
            say(isConnected=False)
        elif command == "stop":
            break
    for publisher in publishers:
        publisher.publishes = False
    def missing():
        return (received.missing(acknowledged, lambda _: True)
                + shared.missing(acknowledged, lambda n: not goes_to_group(n)))

    def unsent_wills():
        return [name for name in mortals if name not in received.wills]

    with acknowledged.lock:
        acknowledged.lock.wait_for(
            lambda: not any(p.under_way for p in publishers) and not missing()
            and not unsent_wills(), timeout=PATIENCE)
        lost, wills = missing(), unsent_wills()
    reader = Reader()
    reader.thread.start()
    with reader.condition:
        reader.condition.wait_for(lambda: not reader.behind(acknowledged), timeout=PATIENCE)
        behind = reader.behind(acknowledged)
    doubled = received.doubled() + shared.doubled()
    say(acknowledged=acknowledged.count(), lost=len(lost), doubledOnce=len(doubled),
        lostWills=len(wills), lostRetained=len(behind),
        underWay=sum(len(p.under_way) for p in publishers))
    sys.exit(1 if lost or doubled or wills or behind else 0)


main()
