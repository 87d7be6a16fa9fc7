"""A running `ingot serve`, and talking to it: whole answers, events, bare sockets."""
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import tempfile
import time


class Served:
    def __init__(self, binary, model, *options, env=None, measure=False, port=0, limits=None):
        self.errors = tempfile.TemporaryFile("w+")  # a pipe that nobody reads would fill
        def limit():
            for which, values in (limits or {}).items():
                resource.setrlimit(which, values)
        self.process = subprocess.Popen(
            [binary, "serve", model, "--port", str(port), "--json",
             *([] if measure else ["--no-measure"]), *options],
            stdout=subprocess.PIPE, stderr=self.errors, text=True, env=env,
            preexec_fn=limit if limits else None)
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            raise RuntimeError(f"the server did not start: {self.said}")
        self.about = json.loads(line)
        self.port = self.about["port"]

    def stop(self, number=signal.SIGTERM, timeout=30):
        """Its exit code; what it said on standard error is in `said` then."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.seek(0)
        self.said = self.errors.read()
        self.errors.close()
        return self.process.returncode

    def connect(self, timeout=60):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def ask(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers, body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        try:
            c.request(method, path, body, sent)
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()
        finally:
            c.close()

    def json(self, path, body=None, headers=None, status=200):
        got, _, raw = self.ask("GET" if body is None else "POST", path, body, headers)
        if got != status:
            raise AssertionError(f"{path}: {got}, wanted {status}: {raw[:400]!r}")
        return json.loads(raw)

    def chat(self, content="Hello", status=200, **fields):
        messages = content if isinstance(content, list) else [
            {"role": "user", "content": content}]
        return self.json("/v1/chat/completions", {"messages": messages, **fields},
                         status=status)

    def complete(self, prompt, status=200, **fields):
        return self.json("/v1/completions", {"prompt": prompt, **fields}, status=status)

    def events(self, path, body):
        """The lines of a stream: parsed chunks, "[DONE]", and comments as they are."""
        status, headers, raw = self.ask("POST", path, {**body, "stream": True})
        if status != 200:
            raise AssertionError(f"{path}: {status}: {raw[:400]!r}")
        assert headers["Content-Type"] == "text/event-stream", headers
        return parse_events(raw)

    def metric(self, name, **labels):
        text = self.ask("GET", "/metrics")[2].decode()
        for line in text.splitlines():
            if line.startswith(f"ingot:{name}{{") and all(
                    f'{k}="{v}"' in line for k, v in labels.items()):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name} {labels}")

    def wait_idle(self, seconds):
        """Until nothing runs and no page is used; the seconds that it took."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            if (self.metric("num_requests_running") == 0
                    and self.metric("num_requests_waiting") == 0
                    and self.metric("kv_pages_used") == 0):
                return time.monotonic() - start
            time.sleep(0.005)
        raise AssertionError(f"still busy after {seconds} s: running "
                             f"{self.metric('num_requests_running')}, pages "
                             f"{self.metric('kv_pages_used')}")

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def parse_events(raw):
    events = []
    for line in raw.split(b"\n\n"):
        if not line:
            continue
        text = line.decode("utf-8")  # every event is valid on its own
        if text.startswith(":"):
            events.append(text)
        else:
            assert text.startswith("data: ") and "\n" not in text, text
            events.append(text[6:] if text == "data: [DONE]" else json.loads(text[6:]))
    return events


def request_bytes(path, body, *headers):
    """A POST as it goes over a socket."""
    raw = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: test", "Content-Type: application/json",
             f"Content-Length: {len(raw)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def read_until(s, mark, limit=1 << 22):
    got = b""
    while mark not in got and len(got) < limit:
        piece = s.recv(65536)
        if not piece:
            break
        got += piece
    return got
