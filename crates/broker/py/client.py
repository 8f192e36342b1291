"""The client of this run's grant: calls an API for a program that holds no credential."""

import http.client
import json
import os
import re
import socket

__all__ = ["HostError", "host"]

_ALLOW = "@ALLOW@"
_LONGEST_PATH = 8192
_LETTERS = re.compile(r"[A-Za-z]+")
_ALPHABET = re.compile(r"[A-Za-z0-9\-_.~$&+,:=@/]+")
_NO_BODY = object()


class HostError(Exception):
    """A call that did not succeed; `status` and `body` are None when it was not sent."""

    def __init__(self, message, status=None, body=None):
        super().__init__(message)
        self.status = status
        self.body = body


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


# The broker's own rule, byte for byte: a path is in its one spelling or it is refused.
def _is_canonical(path):
    if len(path) > _LONGEST_PATH or not path.startswith("/") or not _ALPHABET.fullmatch(path):
        return False
    return path == "/" or all(segment.strip(".") for segment in path[1:].split("/"))


def _covers(pattern, path):
    wanted, given = pattern.split("/"), path.split("/")
    return len(wanted) == len(given) and all(
        (segment != "" and ":" not in segment) if star == "*" else star == segment
        for star, segment in zip(wanted, given, strict=True)
    )


def _is_permitted(method, path):
    return _is_canonical(path) and any(entry["m"] == method and _covers(entry["p"], path) for entry in _ALLOW)


def _no_constant(name):
    raise ValueError(name)


def _parsed(text):
    try:
        # Python reads NaN and Infinity, which JSON does not have.
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _send(method, path, data):
    where = os.environ.get("HOST_API_SOCKET")
    if not where:
        raise HostError("host api: HOST_API_SOCKET is not set: there is no grant, or it was removed")
    connection = _Connection(where)
    try:
        headers = {"Connection": "close"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body=data, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # A refusal may come while the body is still being sent; it can be read all the same.
            if connection.sock is None:
                raise
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


class _Client:
    """One method a verb: returns the answer's JSON, or its text if it is none; raises HostError on any other status."""

    def call(self, method, path, body=_NO_BODY):
        """Sends any of the five verbs; without `body` none is sent, and None sends `null`."""
        method, path = str(method), str(path)
        if _LETTERS.fullmatch(method):
            method = method.upper()
        if not _is_permitted(method, path):
            raise HostError(f"host api call not permitted: {method} {path}")
        data = None
        if body is not _NO_BODY:
            data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii")
        status, text = _send(method, path, data)
        if not 200 <= status <= 299:
            raise HostError(f"host api {status}: {text}", status, text)
        return _parsed(text)

    def get(self, path):
        return self.call("GET", path)

    def put(self, path, body=_NO_BODY):
        return self.call("PUT", path, body)

    def post(self, path, body=_NO_BODY):
        return self.call("POST", path, body)

    def patch(self, path, body=_NO_BODY):
        return self.call("PATCH", path, body)

    def delete(self, path):
        return self.call("DELETE", path)


host = _Client()
# The grant's own name for it, unless this module uses that name itself.
globals().setdefault("@GLOBAL@", host)
