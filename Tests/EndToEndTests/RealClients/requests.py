# Python's http.client against the HTTP API: makes the requests of standard input, one JSON object
# each line, over one connection, and prints one JSON object for each answer.
#
#     requests.py PORT [AUTHORITY-FILE]

import http.client
import json
import ssl
import sys

port = int(sys.argv[1])
if len(sys.argv) > 2:
    context = ssl.create_default_context(cafile=sys.argv[2])
    connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
else:
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
connections = 0
connect = connection.connect


def counted():
    global connections
    connections += 1
    connect()


connection.connect = counted
for line in sys.stdin:
    request = json.loads(line)
    body = request.get("body")
    if body is not None:
        body = body.encode() + b" " * request["spaceCount"]
    chunked = request.get("chunked", False)
    if chunked:
        # Pieces of seven bytes.
        body = iter([body[start:start + 7] for start in range(0, len(body), 7)])
    connection.request(
        request["method"], request["path"], body=body, headers=request["headers"],
        encode_chunked=chunked)
    answer = connection.getresponse()
    print(
        json.dumps({
            "status": answer.status,
            "type": answer.headers.get("Content-Type", ""),
            "allow": answer.headers.get("Allow", ""),
            "authenticate": answer.headers.get("WWW-Authenticate", ""),
            "retryAfter": answer.headers.get("Retry-After", ""),
            "body": answer.read().decode(),
            "connections": connections,
        }), flush=True)
