# The commands of this repository. docs/HACKING.md explains them.
#
#   make build   debug build of all programs      make lint    check the style
#   make test    all tests                        make format  correct the style
#   make run     a broker with TLS and tokens     make check   layering, Embedded Swift, hygiene
#   make dashboard   open its dashboard, signed in
#   make cluster  three brokers and three NATS servers on this machine
#   make cluster-test   kill and stop them while clients publish
#   make sim     the simulation; ARGS='--seed 7'  make bench   what a delivery costs
#   make fuzz    fuzzing of untrusted bytes       make install the programs into PREFIX
#   make sanitize the tests under the thread, address and undefined behaviour sanitizers
#   make micro   instructions of the hot path, against their limits
#   make soak    half an hour of ordinary load, with memory and latency by the minute
#   make conformance   disable rules of MQTT one by one: a test must fail for each
#   make examples, dependency: programs that use the SDK, and a package that depends on it
#   make docc    the pages of the SDK's public API
#   make firmware, firmware-test: the samples for devices
#   make package, package-test, image, release: Debian packages, a container image, a release

# The swift command. For a toolchain that is not on the path: make SWIFT=/opt/swift/bin/swift
SWIFT ?= swift
SWIFTC ?= $(SWIFT)c
ARGS ?=

# The data of `make run`: store, certificates, tokens. Delete it to start over.
DEV_DATA := dev-data

# Release builds link Swift's libraries statically, so that the programs can be copied to hosts
# without Swift.
RELEASE := -c release --static-swift-stdlib

# The directory of `make install`.
PREFIX ?= /usr/local

# System libraries of the code, by pkg-config name and by Debian package.
LIBRARIES := 'openssl >= 3.0' lmdb libargon2 libcurl sqlite3
PACKAGES := libssl-dev liblmdb-dev libargon2-dev libcurl4-openssl-dev \
    libsqlite3-dev pkg-config

# The log of a cluster needs libnats and is built where that is installed, and by no other part of
# the product (docs/decisions/0011-cluster-builds.md). `make test` installs it.
export MARTLET_CLUSTER = $(shell pkg-config --exists libnats 2>/dev/null && echo 1)

# MQTT clients and a broker that the tests start and compile, and the tools of the recipes in
# docs/operating.
TEST_PACKAGES := mosquitto mosquitto-clients libpaho-mqtt-dev python3-paho-mqtt gcc libc6-dev \
    fail2ban systemd-journal-remote nftables jq python3-prometheus-client python3-websockets curl \
    python3-h11 python3-wsproto chromium chromium-driver python3-selenium python3-systemd \
    python3-requests prometheus haproxy node-mqtt golang-go \
    golang-github-eclipse-paho.mqtt.golang-dev libnats-dev python3-venv

# Targets that firmware uses, each after those it imports, and the processor that they are checked
# for: a Cortex-M4, as in the samples.
EMBEDDED_MODULES := Primitives BrokerTerms WireFormat ClientCore
EMBEDDED_TRIPLE := armv7em-none-none-eabi
EMBEDDED_OUTPUT := .build/embedded

FORMATTED := $(wildcard Sources Tests Bench Examples Package.swift)

.PHONY: build
build: deps
	$(SWIFT) build

# The tests start the programs of the same debug build, and third-party MQTT clients. Those with
# several programs come last: the others use both processors for minutes.
PROGRAM_TESTS := '^(EndToEnd|Cluster|NATSLog)Tests\.'
.PHONY: test
test: deps test-deps examples dependency
	Tests/summarize $(SWIFT) test --skip $(PROGRAM_TESTS)
	Tests/summarize $(SWIFT) test --skip-build --filter $(PROGRAM_TESTS)

# Programs that use the SDK from a package of their own; the tests run them.
.PHONY: examples
examples: deps
	$(SWIFT) build --package-path Examples --scratch-path .build/examples

# A package that depends on this one by version builds in debug and release, and runs.
.PHONY: dependency
dependency: deps
	SWIFT=$(SWIFT) Examples/as-dependency

# exec: the broker itself receives Ctrl-C and `kill`.
.PHONY: run
run: deps
	$(SWIFT) build $(RELEASE) --product martletd
	$(SWIFT) build $(RELEASE) --product martlet
	exec .build/release/martletd --dev --data=$(DEV_DATA) $(ARGS)

# The dashboard of that broker in the browser of this machine, signed in by a new link. Without a
# browser, the link is printed.
.PHONY: dashboard
dashboard:
	@link=$$(.build/release/martlet dashboard --data=$(DEV_DATA)) || exit; \
	if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] && command -v xdg-open >/dev/null; then \
	    xdg-open "$$link"; \
	else \
	    echo "$$link"; \
	fi

# Three brokers and three NATS servers on this machine, until Ctrl-C; it prints what to do next.
.PHONY: cluster cluster-test
cluster: deps
	@[ -n "$(MARTLET_CLUSTER)" ] || { echo "a cluster needs libnats: install libnats-dev"; exit 1; }
	$(SWIFT) build $(RELEASE) --product martletd
	$(SWIFT) build $(RELEASE) --product martlet
	exec Examples/cluster run

# Each round has nineteen faults, in random order.
ROUNDS ?= 30
cluster-test: deps test-deps
	MARTLET_CLUSTER_ROUNDS=$(ROUNDS) $(SWIFT) test --filter CampaignTests

# docs/operating/install.md describes the next steps. Do not run it as root: the build belongs to
# the user. Set DESTDIR to make a package.
.PHONY: install
install: deps
	$(SWIFT) build $(RELEASE) --product martletd
	$(SWIFT) build $(RELEASE) --product martlet
	$(SWIFT) build $(RELEASE) --product martlet-gateway
	$$([ -w $(PREFIX)/bin ] || [ -n "$(DESTDIR)" ] || [ "$$(id -u)" = 0 ] || echo sudo) \
	    install -D -t $(DESTDIR)$(PREFIX)/bin \
	    .build/release/martletd .build/release/martlet .build/release/martlet-gateway

# Debian packages into .build/packages; docs/operating/install.md installs them. RELEASE_PROGRAMS
# are those of the build before; the release adds sources, SBOM and checksums.
RELEASE_PROGRAMS := .build/release
.PHONY: programs package package-test release image
# Packages depend on no library that most people do not need.
programs: MARTLET_CLUSTER =
programs: deps
	for program in martletd martlet martlet-gateway martlet-bench; do \
	    $(SWIFT) build $(RELEASE) --product $$program || exit 1; done

package: programs
	packaging/build-packages $(RELEASE_PROGRAMS) .build/packages

# In a fresh root of Debian 12: install, send, upgrade, send, remove, purge. Needs root and
# mmdebstrap.
package-test: package
	REVISION=2 packaging/build-packages $(RELEASE_PROGRAMS) .build/packages
	packaging/test-packages .build/packages $(ARGS)

release: programs
	rm -rf .build/release-files
	SWIFT=$(SWIFT) packaging/release $(RELEASE_PROGRAMS) .build/release-files

# Without Debian's buildah: IMAGE_BUILDER='podman build'.
IMAGE_BUILDER ?= buildah bud
image: package
	rm -rf .build/image && mkdir -p .build/image
	packaging/image-root "$$(ls .build/packages/martlet_*.deb | sort -V | tail -1)" .build/image/root
	cd .build/image && $(IMAGE_BUILDER) -t martlet -f $(CURDIR)/packaging/Containerfile .

.PHONY: sim
sim: deps
	$(SWIFT) build -c release --product martlet-sim
	.build/release/martlet-sim $(ARGS)

# Each target runs for a minute; ARGS='--seconds 600 connection' runs one of them for longer.
.PHONY: fuzz
fuzz: deps
	SWIFT=$(SWIFT) Tests/Fuzzing/fuzz $(ARGS)

# The thread sanitizer, then those of addresses and undefined behaviour; ARGS=thread selects one,
# ARGS='thread -- --filter NetTransportTests' some tests. libnats is not built with the sanitizers,
# so the log of a cluster is left out.
.PHONY: sanitize
sanitize: deps test-deps
	MARTLET_CLUSTER= SWIFT=$(SWIFT) Tests/Sanitizers/sanitize $(ARGS)

# Compares allocations with their thresholds, which hold on any machine; then measures ratios to the
# floor and to installed brokers, for the tables of docs/PERFORMANCE.md. ARGS selects a part:
# make bench ARGS='--only fan-in --rounds 1'
SCENARIOS := deliveries connections durable lives
.PHONY: bench
bench: deps
	$(SWIFT) build -c release --product martletd
	$(SWIFT) build -c release --product martlet-bench
	$(SWIFT) build -c release --product MallocCount
	Bench/Scenarios/allocations release
	.build/release/martlet-bench compare --write docs/PERFORMANCE.md $(ARGS) \
	    $(SCENARIOS:%=Bench/Scenarios/%.json5)

# Ordinary load of a fleet on bad networks; for a night: make soak MINUTES=480
MINUTES ?= 30
.PHONY: soak
soak: deps
	MARTLET_SOAK_MINUTES=$(MINUTES) $(SWIFT) test --filter SoakTests

# Instructions, retains and releases, and allocations of the hot path without sockets, against
# Bench/Thresholds/instructions.txt. ARGS names cases: make micro ARGS=unicast
.PHONY: micro
micro: deps valgrind
	$(SWIFT) build -c release --product martlet-micro
	Bench/Micro/instructions $(ARGS)

# Disables more than thirty rules of MQTT, chosen at random, one at a time in a copy of the sources;
# a test must fail for each. ARGS names statements: make conformance ARGS='3.1.0-2'
.PHONY: conformance
conformance: deps
	SWIFT=$(SWIFT) Tests/Conformance/disable-rules $(ARGS)

.PHONY: valgrind
valgrind:
	@command -v valgrind >/dev/null || { \
	    echo "Installing valgrind with apt-get"; \
	    root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$root apt-get update -qq; \
	    $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq valgrind; }

.PHONY: lint
lint: toolchain
	$(SWIFT) format lint --strict --recursive $(FORMATTED)

.PHONY: format
format: toolchain
	$(SWIFT) format --in-place --recursive $(FORMATTED)

# The build checks the imports of targets, the hygiene tests those of system modules.
.PHONY: check
check: deps embedded
	$(SWIFT) build --build-tests --explicit-target-dependency-import-check error
	$(SWIFT) test --skip-build --filter HygieneTests
	@$(MAKE) --no-print-directory docc

# The pages of the SDK's public API. A warning is an error: each parameter has a description and
# each link a target. The symbols come from the debug build.
DOCC := .build/docc
.PHONY: docc
docc: deps
	$(SWIFT) build --target MartletClient
	@rm -rf $(DOCC) && mkdir -p $(DOCC)/symbols
	$(SWIFT)-symbolgraph-extract -module-name MartletClient -minimum-access-level public \
	    -target $$($(SWIFT) -print-target-info | sed -n 's/.*"triple": "\(.*\)",/\1/p' | head -1) \
	    -I .build/debug/Modules -Xcc -fmodule-map-file=Sources/COpenSSL/module.modulemap \
	    $$(find .build/debug/C*.build -name module.modulemap | sed 's/^/-Xcc -fmodule-map-file=/') \
	    -output-dir $(DOCC)/symbols
	$(SWIFT:%swift=%docc) convert --warnings-as-errors --additional-symbol-graph-dir $(DOCC)/symbols \
	    --fallback-display-name MartletClient --fallback-bundle-identifier MartletClient \
	    --output-path $(DOCC)/MartletClient.doccarchive

.PHONY: embedded
embedded: toolchain
	@mkdir -p $(EMBEDDED_OUTPUT)
	@set -e; for module in $(EMBEDDED_MODULES); do \
	    echo "Embedded Swift ($(EMBEDDED_TRIPLE)): $$module"; \
	    $(SWIFTC) -enable-experimental-feature Embedded \
	        -enable-experimental-feature Lifetimes -wmo -Osize -swift-version 6 \
	        -parse-as-library -target $(EMBEDDED_TRIPLE) -module-name $$module \
	        -package-name martlet \
	        -I $(EMBEDDED_OUTPUT) -emit-module-path $(EMBEDDED_OUTPUT)/$$module.swiftmodule \
	        -c $$(find Sources/$$module -name '*.swift') -o $(EMBEDDED_OUTPUT)/$$module.o; \
	done

# The samples for devices have their own Makefile.
FIRMWARE := $(MAKE) -C Firmware-Samples OUTPUT=$(CURDIR)/.build/firmware

.PHONY: firmware
firmware:
	$(FIRMWARE) packages
	$(FIRMWARE) all SWIFTC=$(SWIFTC)

.PHONY: firmware-test
firmware-test: deps
	$(FIRMWARE) packages
	for program in martletd martlet-gateway martlet; do \
	    $(SWIFT) build --product $$program || exit 1; done
	$(FIRMWARE) test PROGRAMS=$(CURDIR)/.build/debug SWIFTC=$(SWIFTC)

# Fuzzes the C client: make firmware-fuzz SECONDS=600
SECONDS ?= 60
.PHONY: firmware-fuzz
firmware-fuzz:
	$(FIRMWARE) fuzz SWIFTC=$(SWIFTC) SECONDS=$(SECONDS)

# Installs missing packages; if none is missing, it uses no network and changes nothing.
.PHONY: deps
deps: toolchain
	@pkg-config --exists $(LIBRARIES) 2>/dev/null || { \
	    set -e; \
	    command -v apt-get >/dev/null || { \
	        echo "Missing: OpenSSL 3, LMDB, libargon2, libcurl, SQLite or pkg-config. Install" \
	            "the counterparts of $(PACKAGES), then run make again." >&2; exit 1; }; \
	    echo "Installing $(PACKAGES) with apt-get"; \
	    root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$root apt-get update -qq; \
	    $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(PACKAGES); }

# The same for the packages of the tests. Without root and sudo, install them by hand. The tests
# start their own brokers, their own Prometheus and their own haproxy, so those that Debian starts
# with its packages are stopped.
.PHONY: test-deps
test-deps:
	@[ -x /usr/sbin/mosquitto ] && [ -x /usr/bin/mosquitto_pub ] && [ -x /usr/bin/gcc ] \
	    && [ -e /usr/include/MQTTClient.h ] && [ -e /usr/include/nats/nats.h ] \
	    && /usr/bin/python3 -c 'import ensurepip' 2>/dev/null \
	    && [ -x /usr/bin/fail2ban-regex ] && [ -x /usr/bin/jq ] && [ -x /usr/sbin/nft ] \
	    && [ -x /lib/systemd/systemd-journal-remote ] \
	    && [ -x /usr/bin/curl ] \
	    && [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ] && [ -x /usr/bin/prometheus ] \
	    && [ -x /usr/sbin/haproxy ] && [ -d /usr/share/nodejs/mqtt ] && [ -x /usr/bin/go ] \
	    && [ -d /usr/share/gocode/src/github.com/eclipse/paho.mqtt.golang ] \
	    && /usr/bin/python3 -c \
	        'import paho.mqtt.client, prometheus_client, selenium, systemd.journal, websockets' \
	        2>/dev/null && /usr/bin/python3 -c 'import requests' \
	        2>/dev/null || { \
	    set -e; \
	    command -v apt-get >/dev/null || { \
	        echo "Missing for the tests: the counterparts of $(TEST_PACKAGES)." >&2; exit 1; }; \
	    echo "Installing $(TEST_PACKAGES) with apt-get"; \
	    root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$root apt-get update -qq; \
	    stopped=; \
	    [ -x /usr/sbin/mosquitto ] || stopped="$$stopped mosquitto"; \
	    [ -x /usr/bin/prometheus ] || stopped="$$stopped prometheus"; \
	    [ -x /usr/sbin/haproxy ] || stopped="$$stopped haproxy"; \
	    $$root env DEBIAN_FRONTEND=noninteractive \
	        apt-get install -y -qq --no-install-recommends $(TEST_PACKAGES); \
	    for service in $$stopped; do \
	        if [ -d /run/systemd/system ]; then $$root systemctl disable --now $$service; \
	        else $$root service $$service stop || true; fi; \
	    done; }

.PHONY: toolchain
toolchain:
	@command -v $(SWIFT) >/dev/null || { \
	    echo "Swift is not on the path. Install Swift 6.3 or newer (https://www.swift.org/install)" \
	        "or say where it is: make SWIFT=/path/to/swift" >&2; exit 1; }
