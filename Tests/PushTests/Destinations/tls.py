# A receiver of webhooks over TLS for tests, which answers each request with 200.
#
#   tls.py CERTIFICATE [--updates]
#
# CERTIFICATE is a file with a chain and its key. It offers HTTP/2, and prints the protocol that the
# client has chosen. With --updates it sends key updates of TLS 1.3 after a request, and nothing
# else, until the client closes or 60 s are over.
import argparse
import ctypes
import ctypes.util
import socket
import ssl
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("certificate")
parser.add_argument("--updates", action="store_true")
options = parser.parse_args()


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(stream):
    with context.wrap_socket(stream, server_side=True) as stream:
        say(f"protocol={stream.selected_alpn_protocol()}.")
        stream.recv(65536)
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        stream.recv(1)


def update(stream):
    session = ctypes.c_void_p(library.SSL_new(updating))
    library.SSL_set_fd(session, stream.fileno())
    if library.SSL_accept(session) == 1:
        library.SSL_read(session, ctypes.create_string_buffer(65536), 65536)
        say("updates begin")
        end, count = time.monotonic() + 60, 0
        while (time.monotonic() < end and library.SSL_key_update(session, 0) == 1
               and library.SSL_do_handshake(session) == 1):
            count += 1
        say(f"updates end count={count} .")
    stream.close()


if options.updates:
    library = ctypes.CDLL(ctypes.util.find_library("ssl"))
    library.TLS_server_method.restype = ctypes.c_void_p
    library.SSL_CTX_new.restype = library.SSL_new.restype = ctypes.c_void_p
    updating = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_server_method())))
    path = options.certificate.encode()
    assert library.SSL_CTX_use_certificate_chain_file(updating, path) == 1
    assert library.SSL_CTX_use_PrivateKey_file(updating, path, 1) == 1
else:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
listener = socket.create_server(("127.0.0.1", 0))
say(f"port={listener.getsockname()[1]}.")
while True:
    connection, _ = listener.accept()
    threading.Thread(
        target=update if options.updates else answer, args=(connection,), daemon=True).start()
