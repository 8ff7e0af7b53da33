"""A door for readings over HTTP: keeps what it takes, and answers what a test says."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Door:
    """`answers`: (status, headers, body) of the next requests; after them 202."""

    def __init__(self):
        self.answers = []
        self.readings = []
        self.headers = []
        self.arrived = threading.Condition()
        self.url = ""

    def take(self, headers, body):
        with self.arrived:
            self.headers.append(headers)
            self.readings.append(json.loads(gzip.decompress(body)))
            self.arrived.notify_all()
            return self.answers.pop(0) if self.answers else (202, {}, b"")

    def wait_for(self, what):
        """Until a reading came of which `what` is true; for ever where none comes: then the test's own deadline ends it."""
        with self.arrived:
            while not any(map(what, self.readings)):
                self.arrived.wait(1)
        return next(filter(what, self.readings))


@contextmanager
def served(tls=None) -> Iterator[Door]:
    """On a free port of this machine; with `tls`, a server's SSLContext, by its name localhost."""
    door = Door()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers, answer = door.take({"path": self.path} | dict(self.headers), body)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(answer))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            """A client that does not trust us hangs up."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    door.url = f"https://localhost:{server.server_port}" if tls else f"http://127.0.0.1:{server.server_port}"
    try:
        yield door
    finally:
        server.shutdown()
        server.server_close()
