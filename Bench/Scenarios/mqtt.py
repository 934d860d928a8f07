# The packets of MQTT 3.1.1 that the scripts of this directory send (OASIS MQTT 3.1.1, section 3).

import struct


def text(value):
    """A string with its length (section 1.5.3)."""
    return struct.pack(">H", len(value.encode())) + value.encode()


def packet(kind, content):
    """A packet with its fixed header (section 2.2)."""
    size, length = b"", len(content)
    while True:
        length, digit = divmod(length, 128)
        size += bytes([digit | (128 if length else 0)])
        if not length:
            return bytes([kind]) + size + content


def connect(client, name=None, password=None, is_clean=True):
    """A CONNECT without a will, whose keep-alive is off (section 3.1)."""
    flags = (2 if is_clean else 0) | (0 if name is None else 0xC0)
    content = text("MQTT") + bytes([4, flags, 0, 0]) + text(client)
    return packet(0x10, content + (b"" if name is None else text(name) + text(password)))


def subscribe(topic, qos):
    """A SUBSCRIBE with one filter and the identifier 1 (section 3.8)."""
    return packet(0x82, b"\0\1" + text(topic) + bytes([qos]))


def publish(topic, payload, identifier=None):
    """A PUBLISH: with an identifier of QoS 1, otherwise of QoS 0 (section 3.3)."""
    number = b"" if identifier is None else struct.pack(">H", identifier)
    return packet(0x30 if identifier is None else 0x32, text(topic) + number + payload)


DISCONNECT = b"\xe0\0"
