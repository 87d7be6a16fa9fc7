"""The server over real sockets: a tiny model with random weights, and SmolLM2 where
INGOT_TEST_MODEL_DIR has it.

    test_api.py BINARY [unittest's arguments]
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tiny_gguf
from served import Served, read_until, request_bytes

BINARY = None
FOLDER = tempfile.TemporaryDirectory(prefix="ingot-serve-")
A = tiny_gguf.byte_id(ord("a"))  # forced by a bias of 100, "a" is what every draw gives
FORCE_A = {str(A): 100}


def tiny_path():
    path = os.path.join(FOLDER.name, "tiny.gguf")
    return path if os.path.exists(path) else tiny_gguf.write(path)


def content(answer, i=0):
    return answer["choices"][i]["message"]["content"]


def deltas(events, name="content", i=0):
    return "".join(c["delta"].get(name) or "" for e in events if isinstance(e, dict)
                   for c in e["choices"] if c["index"] == i)


class Shared(unittest.TestCase):
    """One server for all tests of a class; it has to be idle and alive after each."""
    options = ()
    env = None
    model = staticmethod(tiny_path)

    @classmethod
    def setUpClass(cls):
        cls.s = Served(BINARY, cls.model(), *cls.options, env=cls.env)

    @classmethod
    def tearDownClass(cls):
        code = cls.s.stop()
        if code != 0 or "Sanitizer" in cls.s.said:
            raise AssertionError(f"exit code {code}: {cls.s.said[-3000:]}")

    def tearDown(self):
        self.s.wait_idle(10)
        self.assertEqual(self.s.json("/health"), {"status": "ok"})


class Tiny(Shared):
    options = ("--ctx", "512", "--max-running", "4", "--log-prompts")

    # ---- the small endpoints

    def test_models(self):
        got = self.s.json("/v1/models")
        self.assertEqual([m["id"] for m in got["data"]], ["tiny"])
        self.assertEqual(got["data"][0]["max_model_len"], 512)
        self.assertEqual(self.s.json("/v1/models/tiny")["id"], "tiny")
        self.s.json("/v1/models/other", status=404)

    def test_routes(self):
        self.s.json("/v1/embeddings", {"input": ""}, status=404)
        status, headers, raw = self.s.ask("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST, OPTIONS"))
        self.assertEqual(json.loads(raw)["error"]["code"], "method_not_allowed")
        self.assertEqual(self.s.ask("HEAD", "/health")[::2], (200, b""))
        self.assertEqual(self.s.ask("GET", "/")[0], 200)
        for path in ["/page.html/", "/../etc/passwd", "/v1", "/" + "a" * 300]:
            self.assertEqual(self.s.ask("GET", path)[0], 404, path)

    def test_openapi(self):
        api = self.s.json("/openapi.json")
        fields = api["components"]["schemas"]["ChatRequest"]["properties"]
        self.assertEqual((fields["top_p"]["minimum"], fields["top_p"]["maximum"]), (0, 1))
        self.assertIn("/v1/completions", api["paths"])
        # 3.1's words: null is a type there, and names of properties have a pattern
        self.assertEqual(api["openapi"], "3.1.0")
        self.assertNotIn("nullable", json.dumps(api))
        self.assertNotIn("null", json.dumps(fields["messages"]))
        for name in "seed", "stop", "logit_bias", "n", "stream":
            self.assertIn('"null"', json.dumps(fields[name]), name)
        try:
            import openapi_spec_validator
        except ImportError:
            return
        openapi_spec_validator.validate(api)

    def test_tokenize(self):
        ids = self.s.json("/tokenize", {"content": "aé<|im_end|>"})["tokens"]
        self.assertEqual(ids, [A, tiny_gguf.byte_id(0xC3), tiny_gguf.byte_id(0xA9), 2])
        plain = self.s.json("/tokenize", {"content": "<|im_end|>", "parse_special": False})
        self.assertEqual(plain["count"], 10)
        back = self.s.json("/detokenize", {"tokens": ids})
        self.assertEqual(back["content"], "aé<|im_end|>")
        self.assertEqual(self.s.json("/detokenize", {"tokens": [tiny_gguf.byte_id(255)]})["bytes"],
                         [255])
        self.assertEqual(self.s.json("/tokenize", {"content": "\x00"})["tokens"],
                         [tiny_gguf.byte_id(0)])
        self.assertEqual(self.s.json("/detokenize", {"tokens": [A, float(A)]})["content"], "aa")
        for wrong in [{}, {"tokens": "a"}, {"tokens": [-1]}, {"tokens": [tiny_gguf.VOCAB]},
                      {"tokens": [1.5]}, {"tokens": [None]}]:
            self.s.json("/detokenize", wrong, status=400)
        self.s.json("/tokenize", {"content": 5}, status=400)
        api = self.s.json("/openapi.json")["components"]["schemas"]
        for name, field in api["TokenizeRequest"]["properties"].items():
            got, _, _ = self.s.ask("POST", "/tokenize", {"content": "a", name: None})
            self.assertEqual(got, 200 if "null" in field["type"] else 400, name)

    def test_long_text(self):
        """Texts are bounded; long bodies are read beside what else is asked, in turn."""
        ok = self.s.json("/tokenize", {"content": "a" * (1 << 20)})
        self.assertEqual(ok["count"], 1 << 20)
        got = self.s.json("/tokenize", {"content": "a" * ((1 << 20) + 1)}, status=400)["error"]
        self.assertEqual(got["param"], "content")
        self.assertIn("1048577 bytes, wanted are at most 1048576", got["message"])
        back = self.s.json("/detokenize", {"tokens": ok["tokens"]})
        self.assertEqual(back["content"], "a" * (1 << 20))
        got = self.s.json("/detokenize", {"tokens": ok["tokens"] + [A]}, status=400)["error"]
        self.assertEqual(got["param"], "tokens")
        self.assertIn("1048577 bytes, wanted are at most 1048576", got["message"])
        long = {"messages": [{"role": "user", "content": " " * 4000000}]}
        for path in "/apply-template", "/v1/chat/completions":
            got = self.s.json(path, long, status=400)["error"]
            self.assertEqual(got["code"], "context_length_exceeded", path)

    def test_left_before_read(self):
        """Clients that leave before their long body is read hold up nobody for long."""
        for reset in False, True:
            for _ in range(20):
                c = self.s.connect()
                if reset:
                    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                c.sendall(request_bytes("/tokenize", {"content": "a" * (1 << 20),
                                                      "with_pieces": True}))
                time.sleep(0.01)
                c.close()
            one = time.monotonic()
            self.s.json("/tokenize", {"content": "a" * (1 << 20), "with_pieces": True})
            one = time.monotonic() - one
            started = time.monotonic()
            self.s.json("/tokenize", {"content": "a" * 20000})
            self.assertLess(time.monotonic() - started, max(1, 2 * one))

    def only_answer(self, lines):
        """To a POST with these header lines, which is refused; a request behind it gets none."""
        with self.s.connect() as c:
            c.sendall(b"POST /tokenize HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n\r\n"
                      b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            got = b""
            while piece := c.recv(65536):
                got += piece
        self.assertEqual(got.count(b"HTTP/1.1 "), 1, (lines, got))
        self.assertIn(b"HTTP/1.1 400 ", got)
        return got

    def test_blank_in_a_name(self):
        """What one reads as a length and another does not is refused, and nothing behind it read."""
        for line in b"Transfer-Encoding : chunked", b"Content-Length\t: 5", b"X Y: 1":
            self.assertIn(b"bad_header", self.only_answer(line))

    def test_folded_length(self):
        """A length in a folded line is lost on the way: what follows is not read as a request."""
        for lines in (b"Content-Length:\r\n 15", b"Transfer-Encoding:\r\n chunked",
                      b"Content-Length: 0\r\nContent-Length:\r\n 15", b"X: y"):
            self.only_answer(lines)

    def test_odd_targets(self):
        c = self.s.connect()
        c.sendall(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
        got = read_until(c, b"\r\n\r\n")
        c.close()
        self.assertIn(b" 204 ", got)
        self.assertIn(b"Allow: GET, HEAD, POST, OPTIONS", got)
        for path in "/health%00", "/health%00x", "/v1/models/%00":
            self.assertEqual(self.s.ask("GET", path)[0], 404, path)
        got = self.s.json("/chat/completions", {}, status=404)["error"]["message"]
        self.assertEqual(got, "no such path: /chat/completions, but /v1/chat/completions")
        self.assertEqual(self.s.json("/nothing", status=404)["error"]["message"],
                         "no such path: /nothing")

    def test_times_without_the_upload(self):
        """A client that is slow to send is no slowness of the server's."""
        before = self.s.metric("time_to_first_token_seconds_sum")
        prefill = self.s.metric("request_prefill_time_seconds_sum")
        body = request_bytes("/v1/completions", {"prompt": "a", "max_tokens": 1})
        c = self.s.connect()
        c.sendall(body[:-5])
        time.sleep(1.5)
        c.sendall(body[-5:])
        read_until(c, b"total_tokens")
        c.close()
        self.s.wait_idle(5)
        self.assertLess(self.s.metric("time_to_first_token_seconds_sum") - before, 1)
        self.assertLess(self.s.metric("request_prefill_time_seconds_sum") - prefill, 1)

    def test_long_bodies(self):
        """What is read on a thread of its own comes out as what is read at once; a client that
        leaves meanwhile, or sends no JSON, harms nobody."""
        wide = " " * 40000  # makes a body long, and says nothing
        for path, body in [("/tokenize", {"content": "aé"}), ("/detokenize", {"tokens": [A]}),
                           ("/apply-template", {"messages": [{"role": "user", "content": "x"}]}),
                           ("/v1/completions", {"prompt": "x", "max_tokens": 3, "seed": 1}),
                           ("/v1/completions", {"prompt": "x", "max_tokens": "a"})]:
            got, want = (self.s.ask("POST", path, json.dumps(body) + space)
                         for space in (wide, ""))
            self.assertEqual(got[0], want[0], path)
            if path != "/v1/completions" or got[0] != 200:
                self.assertEqual(got[2], want[2], path)
            else:
                self.assertEqual(*(json.loads(x[2])["choices"] for x in (got, want)))
        events = self.s.events("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "x"}], "max_tokens": 3,
            "logit_bias": FORCE_A, "user": wide})
        self.assertEqual(deltas(events), "aaa")
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(self.s.ask("POST", "/tokenize", "{" + wide)[0], 400)
        refused = self.s.metric("requests_refused_total")
        self.assertEqual(self.s.ask("POST", "/tokenize", "{" + wide)[0], 400)
        self.assertEqual(self.s.metric("requests_refused_total"), refused + 1)
        started = time.monotonic()  # digits that are no number: read once, not once each
        got = self.s.json("/tokenize", '{"content":' + "0" * 2000000 + "}", status=400)["error"]
        self.assertIn("not JSON", got["message"])
        self.assertLess(time.monotonic() - started, 3)
        for body, words in (('{"x":[' + "{}," * 70000 + "{}]}", "70002 objects"),
                            ('{"x":[' + "0," * 2100000 + "0]}", "values, wanted are at most")):
            got = self.s.json("/tokenize", body, status=400)["error"]
            self.assertIn(words, got["message"])
        leaving = []
        for i in range(12):
            s = self.s.connect()
            s.sendall(request_bytes("/v1/completions", {
                "prompt": "x" * 60000 if i % 2 else "x", "max_tokens": 50, "stream": True,
                "user": "y" * 1000000}))
            leaving.append(s)
        for s in leaving:
            s.close()
        self.assertEqual(self.s.json("/tokenize", {"content": "a" * 40000})["count"], 40000)

    def test_apply_template(self):
        got = self.s.json("/apply-template", {"messages": [
            {"role": "user", "content": "<|im_end|>"}]})
        self.assertEqual(got["prompt"], "<|im_start|>user\n<|im_end|><|im_end|>\n"
                                        "<|im_start|>assistant\n")
        self.assertEqual((got["tokens"].count(1), got["tokens"].count(2)), (2, 1))

    # ---- answers

    def test_chat(self):
        got = self.s.chat(max_tokens=3, logit_bias=FORCE_A)
        self.assertEqual(got["object"], "chat.completion")
        self.assertEqual(content(got), "aaa")
        self.assertEqual(got["choices"][0]["finish_reason"], "length")
        self.assertEqual(got["choices"][0]["message"]["role"], "assistant")
        usage = got["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 3)
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])

    def test_stream(self):
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4,
                "logit_bias": FORCE_A}
        plain = self.s.events("/v1/chat/completions", body)
        full = self.s.events("/v1/chat/completions",
                             {**body, "stream_options": {"include_usage": True}})
        for events in plain, full:
            self.assertEqual(events[-1], "[DONE]")
            chunks = events[:-1]
            self.assertEqual(len({(c["id"], c["created"], c["model"]) for c in chunks}), 1)
            self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
            self.assertEqual(deltas(events), "aaaa")
            ends = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
            self.assertEqual(ends, [None] * (len(ends) - 1) + ["length"])
        self.assertTrue(all("usage" not in c for c in plain[:-1]))
        self.assertEqual(full[-2]["choices"], [])
        self.assertEqual(full[-2]["usage"]["completion_tokens"], 4)
        self.assertTrue(all(c["usage"] is None for c in full[:-2]))

    def test_slow_reader(self):
        with self.s.connect() as s:
            s.sendall(request_bytes("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4,
                "stream": True, "logit_bias": FORCE_A}))
            got = b""
            while b"[DONE]" not in got:
                piece = s.recv(1)
                self.assertTrue(piece, got)
                got += piece
                time.sleep(0.0005)
        self.assertEqual(got.count(b'"a"'), 4)

    def test_completion_stream(self):
        events = self.s.events("/v1/completions", {"prompt": "x", "max_tokens": 3,
                                                   "logit_bias": FORCE_A})
        self.assertEqual("".join(c["choices"][0]["text"] for c in events[:-1]), "aaa")
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")

    def test_limits(self):
        def ask(**fields):
            got = self.s.chat(logit_bias=FORCE_A, **fields)
            return got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"], got
        self.assertEqual(ask(max_tokens=1)[:2], (1, "length"))
        self.assertEqual(ask(max_completion_tokens=1)[:2], (1, "length"))
        self.assertEqual(ask(max_tokens=5, max_completion_tokens=2)[:2], (2, "length"))
        self.assertEqual(ask(max_tokens=0)[:2], (0, "length"))
        for fields in {}, {"max_tokens": -1}:
            n, finish, got = ask(**fields)
            self.assertEqual(finish, "length")
            self.assertEqual(got["usage"]["total_tokens"], 512)
        self.assertEqual(self.s.complete("x", logit_bias=FORCE_A)["usage"]["completion_tokens"],
                         16)

    def test_n(self):
        got = self.s.chat(n=2, temperature=5, seed=7, max_tokens=12)
        self.assertEqual([c["index"] for c in got["choices"]], [0, 1])
        self.assertNotEqual(content(got, 0), content(got, 1))
        again = self.s.chat(n=2, temperature=5, seed=7, max_tokens=12)
        self.assertEqual([content(again, i) for i in (0, 1)], [content(got, i) for i in (0, 1)])
        events = self.s.events("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello"}], "n": 2, "temperature": 5,
            "seed": 7, "max_tokens": 12})
        self.assertEqual([deltas(events, i=i) for i in (0, 1)],
                         [content(got, i) for i in (0, 1)])

    def test_stop(self):
        for stream in False, True:
            body = {"prompt": "x", "max_tokens": 9, "logit_bias": FORCE_A, "stop": ["aaaa", "b"],
                    "logprobs": 0}
            if stream:
                events = self.s.events("/v1/completions", body)
                text = "".join(c["choices"][0]["text"] for c in events[:-1])
                finish = events[-2]["choices"][0]["finish_reason"]
                notes = [n for c in events[:-1]
                         for n in (c["choices"][0]["logprobs"] or {"content": []})["content"]]
            else:
                choice = self.s.json("/v1/completions", body)["choices"][0]
                text, finish = choice["text"], choice["finish_reason"]
                notes = choice["logprobs"]["content"]
            self.assertEqual((text, finish, notes), ("", "stop", []))

    def test_logprobs(self):
        got = self.s.chat(max_tokens=2, temperature=0, logit_bias=FORCE_A, logprobs=True,
                          top_logprobs=3)["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(got), 2)
        for note in got:
            self.assertEqual((note["token"], note["bytes"]), ("a", [97]))
            tops = [t["logprob"] for t in note["top_logprobs"]]
            self.assertEqual(len(tops), 3)
            self.assertEqual(tops, sorted(tops, reverse=True))
            self.assertLessEqual(note["logprob"], tops[0])
        events = self.s.events("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "temperature": 0,
            "logit_bias": FORCE_A, "logprobs": True, "top_logprobs": 3})
        streamed = [n for e in events[:-1] for n in (e["choices"][0]["logprobs"] or
                                                     {"content": []})["content"]]
        self.assertEqual(streamed, got)
        old = self.s.complete("x", max_tokens=2, logit_bias=FORCE_A,
                              logprobs=2)["choices"][0]["logprobs"]
        self.assertEqual((old["tokens"], old["text_offset"]), (["a", "a"], [0, 1]))
        self.assertEqual(len(old["top_logprobs"][0]), 2)
        bare = self.s.chat(max_tokens=1, logprobs=True)["choices"][0]["logprobs"]["content"]
        self.assertTrue(all(n["top_logprobs"] == [] for n in bare))

    def test_bytes(self):
        """S6: half a character is no reason to send bytes that are no text."""
        half = {str(tiny_gguf.byte_id(0xF0)): 100}
        got = self.s.complete("x", max_tokens=1, logit_bias=half, logprobs=0)["choices"][0]
        self.assertIn(got["text"], ("", "\ufffd"))
        self.assertEqual(got["logprobs"]["content"][0]["bytes"], [0xF0])
        text = self.s.complete("x", max_tokens=3, logit_bias=half)["choices"][0]["text"]
        self.assertEqual(text, "\ufffd" * 3)
        events = self.s.events("/v1/completions", {"prompt": "x", "max_tokens": 3,
                                                   "logit_bias": half})
        self.assertEqual("".join(c["choices"][0]["text"] for c in events[:-1]), "\ufffd" * 3)
        self.assertEqual(self.s.ask("POST", "/v1/completions", b'{"prompt":"\xff"}')[0], 400)

    def test_prefill(self):
        """A last message of the assistant's is continued, whether text or parts."""
        for tail in "Yes", [{"type": "text", "text": "Y"}, {"type": "text", "text": "es"}]:
            got = self.s.json("/apply-template", {"messages": [
                {"role": "user", "content": "Hi"}, {"role": "assistant", "content": tail}]})
            self.assertTrue(got["prompt"].endswith("<|im_start|>assistant\nYes"), got)

    def test_token_ids(self):
        got = self.s.complete([A, A], max_tokens=2, logit_bias=FORCE_A, return_token_ids=True)
        self.assertEqual(got["prompt_token_ids"], [A, A])
        self.assertEqual(got["choices"][0]["token_ids"], [A, A])

    def test_reasoning(self):
        """What stands between the marks comes apart, streamed or not."""
        got = self.s.chat(max_tokens=5, logit_bias=FORCE_A)
        self.assertNotIn("reasoning_content", got["choices"][0]["message"])

    # ---- what is refused

    def test_wrong_fields(self):
        user = [{"role": "user", "content": "x"}]
        wrong = {
            "temperature": [-1, 101, "1", [1], True], "top_p": [1.1, -0.1], "min_p": [2],
            "typical_p": [0], "top_k": [-1, 1.5], "repeat_penalty": [0],
            "presence_penalty": [-2.1], "frequency_penalty": [3], "n": [0, 17, 1.5, 2**64],
            "max_tokens": [-2, "1"], "max_completion_tokens": [-2], "seed": ["7", 1e30, 2**63, -2**64, 0.5],
            "stop": ["", ["a", ""], [""] * 17, 5, ["\x00"]], "stream": ["yes", 1],
            "logit_bias": [{"x": 1}, {"259": 1}, {"1": 101}, {"1": "1"}, [1]],
            "logprobs": [1], "top_logprobs": [1], "stream_options": [{"include_usage": True}],
            "ignore_eos": [0], "response_format": [{"type": "json_object"}, "text"],
            "tools": [[{"type": "function"}]], "tool_choice": ["required"],
            "modalities": [["audio"]], "store": [True], "grammar": ["root ::= \"a\""],
            "functions": [[{}]], "audio": [{"voice": "x"}], "reasoning_effort": ["high"],
        }
        for field, values in wrong.items():
            for value in values:
                got = self.s.json("/v1/chat/completions", {"messages": user, field: value},
                                  status=400)["error"]
                self.assertTrue(got["param"].startswith(field), (field, value, got))
                self.assertEqual(got["type"], "invalid_request_error")
                self.assertIn(field, got["message"])
        for field, value in {"echo": True, "suffix": "x", "best_of": 2, "logprobs": 21}.items():
            got = self.s.json("/v1/completions", {"prompt": "x", field: value}, status=400)
            self.assertEqual(got["error"]["param"], field)

    def test_harmless_fields(self):
        """Defaults, nulls, and names that nobody documents."""
        got = self.s.chat(max_tokens=1, logit_bias=FORCE_A, temperature=None, stop=None, n=1.0,
                          response_format={"type": "text"}, tools=[], tool_choice="auto",
                          modalities=["text"], user="me", metadata={"a": "b"}, store=False,
                          parallel_tool_calls=True, no_such_field={"x": [1]},
                          stream_options=None, functions=None)
        self.assertEqual(content(got), "a")
        self.s.complete("x", max_tokens=1, echo=False, suffix=None, best_of=1)

    def test_messages(self):
        """S11."""
        def chat(messages, status=200):
            return self.s.json("/v1/chat/completions",
                               {"messages": messages, "max_tokens": 1, "logit_bias": FORCE_A},
                               status=status)
        user = {"role": "user", "content": "x"}
        chat([], 400)
        chat("x", 400)
        chat([5], 400)
        chat([{"role": "user"}], 400)
        chat([{"content": "x"}], 400)
        chat([{"role": "user", "content": None}], 400)
        chat([{"role": "user", "content": "a\x00b"}], 400)
        chat([{"role": "user", "content": [{"type": "image_url"}]}], 400)
        chat([{"role": "tool", "content": "x"}], 400)
        chat([{"role": "wizard", "content": "x"}], 400)
        chat([{"role": "user", "content": ""}])
        chat([{"role": "user", "content": []}])
        chat([user, {"role": "assistant", "content": None, "tool_calls": []}, user])
        as_system, as_developer = (
            self.s.json("/apply-template", {"messages": [{"role": role, "content": "x"}, user]})
            for role in ("system", "developer"))
        self.assertEqual(as_system, as_developer)
        self.assertIn("prompt is empty", self.s.complete("", 400)["error"]["message"])
        self.s.complete([], 400)
        self.s.complete(["a", "b"], 400)
        self.s.complete(None, 400)

    def test_too_long(self):
        """S12: refused before any byte of an answer, with both counts."""
        for stream in False, True:
            got = self.s.json("/v1/completions", {"prompt": "a" * 600, "stream": stream},
                              status=400)["error"]
            self.assertEqual(got["code"], "context_length_exceeded")
            self.assertEqual((got["n_prompt_tokens"], got["n_ctx"]), (600, 512))
        got = self.s.complete("a" * 510, max_tokens=100, logit_bias=FORCE_A)
        self.assertEqual(got["usage"]["completion_tokens"], 2)
        got = self.s.complete("a" * 512, 400)["error"]
        self.assertEqual((got["n_prompt_tokens"], got["n_ctx"]), (512, 512))
        self.assertIn("holds 512 with its answer", got["message"])
        self.assertEqual(self.s.complete("a" * 512, max_tokens=0)["usage"]["total_tokens"], 512)
        self.s.complete("a" * 1000000, 400)

    def test_bodies(self):
        for raw in b"", b"{", b"[]", b"5", b'"x"', b"{}{}", b'{"prompt":"a",}', b"\xff\xfe":
            status, _, answer = self.s.ask("POST", "/v1/completions", raw)
            self.assertEqual(status, 400, raw)
            self.assertIn("error", json.loads(answer))
        for deep in b"[" * 3000 + b"]" * 3000, b'{"a":' * 3000 + b"1" + b"}" * 3000, b"[" * 100000:
            start = time.monotonic()
            status, _, answer = self.s.ask("POST", "/v1/completions", deep)
            self.assertEqual(status, 400)
            self.assertIn("too deep", json.loads(answer)["error"]["message"])
            self.assertLess(time.monotonic() - start, 2)
        status, _, answer = self.s.ask("POST", "/v1/completions", b" " * (9 << 20))
        self.assertEqual((status, json.loads(answer)["error"]["code"]), (413, "too_large"))

    # ---- the protocol

    def test_malformed(self):
        for raw in [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" * 99,
                    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n",
                    b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\n\r\n",
                    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"]:
            with self.s.connect(timeout=10) as s:
                try:
                    s.sendall(raw)
                    s.shutdown(socket.SHUT_WR)
                    got = s.recv(65536)
                except (ConnectionError, OSError) as err:
                    self.assertNotIsInstance(err, TimeoutError)
                    got = b""
                self.assertFalse(got.startswith(b"HTTP/1.1 200"), (raw[:60], got[:80]))

    def raw(self, head, body=b""):
        """Status and error of what a request with this head gets."""
        with self.s.connect(timeout=10) as s:
            s.sendall(head.replace(b"\n", b"\r\n") + b"\r\n" + body)
            got = read_until(s, b"}}\n")
        lines, _, answer = got.partition(b"\r\n\r\n")
        self.assertIn(b"content-type: application/json", lines.lower(), got[:400])
        return int(lines[9:12]), json.loads(answer)["error"]

    def test_faults_of_the_head(self):
        """What is refused before a body is read is told in the same shape as all else."""
        post = b"POST /v1/completions HTTP/1.1\nHost: a\n"
        for status, head in [
                (414, b"GET /" + b"a" * 20000 + b" HTTP/1.1\nHost: a\n"),
                (414, b"GET /health?a=" + b"b" * 20000 + b" HTTP/1.1\nHost: a\n"),
                (431, b"GET /health HTTP/1.1\nHost: a\nX: " + b"b" * 25000 + b"\n"),
                (400, b"GET /health HTTP/1.1\n"),
                (400, b"GET /health HTTP/1.1\nHost: a\nHost: b\n"),
                (501, post + b"Transfer-Encoding: gzip\n"),
                (400, post + b"Content-Length: 2\nContent-Length: 4\n"),
                (400, post + b"Content-Length: 2\nTransfer-Encoding: chunked\n"),
                (413, post + b"Content-Length: 10000000000\n"),
                (413, post + b"Content-Length: 9000000\nExpect: 100-continue\n"),
                (400, post),  # no length is no body
                (415, post + b"Content-Encoding: gzip\nContent-Length: 2\n"),
                (405, b"FOO /health HTTP/1.1\nHost: a\n"),
                (404, b"GET http://a/nothing HTTP/1.1\nHost: a\n"),
                (405, b"DELETE /v1/models HTTP/1.1\nHost: a\n"),
                (404, b"CONNECT a:80 HTTP/1.1\nHost: a\n")]:
            got, error = self.raw(head)
            self.assertEqual(got, status, head[:60])
            self.assertEqual(error["type"], "invalid_request_error")
            self.assertTrue(error["message"])
        with self.s.connect(timeout=10) as s:  # a length within the limit is waited for
            s.sendall(post.replace(b"\n", b"\r\n") +
                      b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            self.assertIn(b"100 Continue", read_until(s, b"\r\n\r\n"))
            s.sendall(b"{}")
            self.assertIn(b"prompt is missing", read_until(s, b"}}\n"))
        status, _, answer = self.s.ask("POST", "/v1/completions", b" " * (9 << 20))
        self.assertEqual((status, json.loads(answer)["error"]["code"]), (413, "too_large"))

    def test_whole_address(self):
        """As to a proxy: every server has to take it."""
        for address in b"http://a.example/health", b"HTTPS://a.example:8080/health?x=http://y/":
            with self.s.connect(timeout=10) as s:
                s.sendall(b"GET " + address + b" HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertIn(b'{"status":"ok"}', read_until(s, b"}\n"))
        with self.s.connect(timeout=10) as s:
            s.sendall(b"GET http://a.example HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertIn(b"text/html", read_until(s, b"</html>"))

    def test_no_http(self):
        """What the HTTP library cannot read it refuses itself, with the right status."""
        for status, raw in [
                (b"505", b"GET / HTTP/9.9\r\nHost: a\r\n\r\n"),
                (b"400", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"),
                (b"414", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
                (b"431", b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"b" * 100000 + b"\r\n\r\n"),
                (b"400", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")]:
            with self.s.connect(timeout=10) as s:
                try:
                    s.sendall(raw)
                except ConnectionError:
                    pass
                self.assertEqual(s.recv(4096)[9:12], status, raw[:60])

    def test_pipelined(self):
        one = request_bytes("/v1/completions", {"prompt": "x", "max_tokens": 2,
                                                "logit_bias": FORCE_A})
        with self.s.connect() as s:
            s.sendall(one * 3 + b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            got = read_until(s, b'{"status":"ok"}')
        self.assertEqual(got.count(b"HTTP/1.1 200"), 4)
        self.assertEqual(got.count(b'"text":"aa"'), 3)

    def test_trickle(self):
        """A request that comes byte by byte is whole in the end."""
        with self.s.connect() as s:
            for b in request_bytes("/tokenize", {"content": "a"}):
                s.sendall(bytes([b]))
            self.assertIn(b'"count":1', read_until(s, b"}"))

    def test_chunked_body(self):
        body = b'{"content":"abc"}'
        with self.s.connect() as s:
            s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for b in body:
                s.sendall(b"1\r\n" + bytes([b]) + b"\r\n")
            s.sendall(b"0\r\n\r\n")
            self.assertIn(b'"count":3', read_until(s, b"}"))

    # ---- clients that leave (S18)

    def long(self, **fields):
        return {"prompt": "x", "max_tokens": 480, "ignore_eos": True, "logit_bias": FORCE_A,
                **fields}

    def test_half_closed(self):
        """The sending side alone is shut: the answer still comes, streamed or not."""
        for stream in False, True:
            with self.s.connect() as s:
                s.sendall(request_bytes("/v1/completions", self.long(stream=stream),
                                        "Connection: close"))
                s.shutdown(socket.SHUT_WR)
                got = b""
                while piece := s.recv(65536):
                    got += piece
            self.assertTrue(got.startswith(b"HTTP/1.1 200"), got[:200])
            if stream:
                self.assertIn(b"data: [DONE]", got)
            self.assertIn(b'"finish_reason":"length"', got)

    def test_many_half_closed(self):
        """Many at once, that wait in the queue: each gets its answer."""
        got = []

        def one():
            with self.s.connect() as s:
                s.sendall(request_bytes("/v1/completions", self.long(max_tokens=20),
                                        "Connection: close"))
                s.shutdown(socket.SHUT_WR)
                got.append(read_until(s, b"no such bytes"))
        threads = [threading.Thread(target=one) for _ in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual([x[:12] for x in got], [b"HTTP/1.1 200"] * 40)
        self.assertTrue(all(b'"text":"' + b"a" * 20 in x for x in got))

    def test_waiting_client_leaves(self):
        """One that waits in the queue goes; those that run give what they give alone."""
        alone = self.s.json("/v1/completions", self.long())["choices"][0]["text"]
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(
            self.s.json("/v1/completions", self.long())["choices"][0]["text"]))
            for _ in range(4)]
        for t in threads:
            t.start()
        for _ in range(8):
            with self.s.connect() as s:
                s.sendall(request_bytes("/v1/completions", self.long()))
        for t in threads:
            t.join()
        self.assertEqual(answers, [alone] * 4)

    # ---- what is told about it

    def test_metrics(self):
        before = {name: self.s.metric(name) for name in
                  ("prompt_tokens_total", "generation_tokens_total", "requests_refused_total")}
        got = self.s.complete("abc", max_tokens=7, logit_bias=FORCE_A)
        self.s.complete("", 400)
        self.assertEqual(self.s.metric("prompt_tokens_total") - before["prompt_tokens_total"], 3)
        self.assertEqual(self.s.metric("generation_tokens_total") -
                         before["generation_tokens_total"], got["usage"]["completion_tokens"])
        self.assertEqual(self.s.metric("requests_refused_total") -
                         before["requests_refused_total"], 1)
        text = self.s.ask("GET", "/metrics")[2].decode()
        self.assertNotIn("abc", text)
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) ingot:\w+ .+|"
                                   r'ingot:\w+\{model_name="tiny"(,\w+="[^"]*")?\} \S+)$')
        counts = [float(x.rsplit(" ", 1)[1]) for x in text.splitlines()
                  if x.startswith("ingot:e2e_request_latency_seconds_bucket")]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], self.s.metric("e2e_request_latency_seconds_count"))

    def test_idle_uses_no_cpu(self):
        self.s.json("/health")
        with self.s.connect() as s:  # an open connection too
            s.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            s.recv(4096)
            time.sleep(0.3)
            before = self.s.cpu_s()
            time.sleep(1)
            self.assertLess(self.s.cpu_s() - before, 0.03)


class Leaving(Shared):
    """S18 with one slot: A runs, B waits."""
    options = ("--ctx", "2048", "--max-running", "1", "--quiet")
    # freed memory that a sanitizer holds back is no growth
    env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") +
           ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}

    def body(self, **fields):
        return {"prompt": "x", "max_tokens": 2000, "ignore_eos": True, "logit_bias": FORCE_A,
                **fields}

    def leave(self, s):
        """Close, and how long the server takes to have nothing left."""
        s.close()
        return self.s.wait_idle(5)

    def test_streamed(self):
        before = self.s.metric("requests_cancelled_total")
        s = self.s.connect()
        s.sendall(request_bytes("/v1/completions", self.body(stream=True)))
        while read_until(s, b"data: ").count(b"data: ") < 1:
            pass
        self.assertLess(self.leave(s), 1)
        self.assertEqual(self.s.metric("requests_cancelled_total") - before, 1)

    def test_whole(self):
        s = self.s.connect()
        s.sendall(request_bytes("/v1/completions", self.body()))
        time.sleep(0.05)
        self.assertLess(self.leave(s), 1)

    def test_prompt_work(self):
        s = self.s.connect()
        s.sendall(request_bytes("/v1/completions", self.body(prompt="word " * 380)))
        time.sleep(0.02)
        self.assertLess(self.leave(s), 1)

    def test_running_one_leaves(self):
        a = self.s.connect()
        a.sendall(request_bytes("/v1/completions", self.body()))
        time.sleep(0.03)
        b = self.s.connect()
        b.sendall(request_bytes("/v1/completions", self.body(max_tokens=3)))
        a.close()
        self.assertIn(b'"text":"aaa"', read_until(b, b"}}\n"))
        b.close()

    def test_many_times(self):
        """A lost connection would keep 64 KiB; what is smaller, the leak checker finds."""
        def repeat(n):
            for i in range(n):
                self.once()
                if i % 25 == 24:
                    self.s.wait_idle(10)
        repeat(100)
        before = self.s.resident()
        repeat(300)
        self.assertLess(self.s.resident() - before, 12 << 20)

    def once(self):
        with self.s.connect() as s:
            s.sendall(request_bytes("/v1/completions", self.body(max_tokens=30)))


class Full(Shared):
    """A full queue is refused with 429, and when to come again."""
    options = ("--ctx", "2048", "--max-running", "1", "--max-queued", "1", "--quiet")

    def test_busy(self):
        body = {"prompt": "x", "max_tokens": 2000, "ignore_eos": True, "logit_bias": FORCE_A}
        held = [self.s.connect() for _ in range(8)]
        for s in held:  # at once: one runs, one waits
            s.sendall(request_bytes("/v1/completions", body, "Connection: close"))
        answers = []
        for s in held:
            got = b""
            while piece := s.recv(65536):
                got += piece
            answers.append(got)
            s.close()
        codes = [int(a.split(b" ", 2)[1]) for a in answers]
        self.assertEqual(set(codes), {200, 429})
        head, raw = answers[codes.index(429)].split(b"\r\n\r\n", 1)
        [wait] = re.findall(rb"\r\nRetry-After: (\d+)", head)
        self.assertGreaterEqual(int(wait), 1)
        self.assertEqual(json.loads(raw)["error"]["type"], "rate_limit_error")
        self.assertGreaterEqual(self.s.metric("requests_rejected_total"), 1)


class Guarded(Shared):
    """Keys, origins, time limits."""

    @classmethod
    def setUpClass(cls):
        cls.key_file = os.path.join(FOLDER.name, "keys")
        cls.set_keys("first-key", "# a comment", "", "second-key")
        cls.options = ("--api-key-file", cls.key_file, "--cors", "https://a.example",
                       "--timeout", "2", "--ctx", "256")
        super().setUpClass()

    @classmethod
    def set_keys(cls, *lines):
        with open(cls.key_file, "w") as f:
            f.write("\n".join(lines) + "\n")

    def tearDown(self):
        self.assertEqual(self.s.json("/health"), {"status": "ok"})

    def status(self, key, path="/v1/models"):
        return self.s.ask("GET", path, headers={"Authorization": key} if key else {})[0]

    def test_keys(self):
        for key in (None, "Bearer", "Bearer ", "Bearer wrong", "Bearer first-ke",
                    "Bearer first-key2", "first-key", "Basic first-key", "Bearer # a comment"):
            self.assertEqual(self.status(key), 401, key)
        for key in "Bearer first-key", "Bearer second-key", "bearer first-key", "BEARER  first-key ":
            self.assertEqual(self.status(key), 200, key)
        self.assertEqual(self.status(None, "/metrics"), 401)
        for path in "/health", "/", "/openapi.json":
            self.assertEqual(self.status(None, path), 200)
        status, _, raw = self.s.ask("POST", "/v1/completions", {"prompt": "x"})
        self.assertEqual((status, json.loads(raw)["error"]["code"]), (401, "invalid_api_key"))
        self.assertIn("a key is needed", json.loads(raw)["error"]["message"])
        _, _, raw = self.s.ask("POST", "/v1/completions", {"prompt": "x"}, {"Authorization": "Bearer wrong"})
        self.assertIn("none of this server's", json.loads(raw)["error"]["message"])

    def test_reload(self):
        self.set_keys("third-key")
        self.s.process.send_signal(signal.SIGHUP)
        self.until(lambda: self.status("Bearer third-key") == 200)
        self.assertEqual(self.status("Bearer first-key"), 401)
        self.set_keys("# none")  # a file without a key shuts nobody out
        self.s.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertEqual(self.status("Bearer third-key"), 200)
        os.rename(self.key_file, self.key_file + ".kept")
        os.mkfifo(self.key_file)  # nobody writes: it would be waited for for ever
        self.s.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertEqual(self.status("Bearer third-key"), 200)
        os.remove(self.key_file)
        os.rename(self.key_file + ".kept", self.key_file)
        self.set_keys("first-key", "second-key")
        self.s.process.send_signal(signal.SIGHUP)
        self.until(lambda: self.status("Bearer first-key") == 200)

    def until(self, holds):
        for _ in range(100):
            if holds():
                return
            time.sleep(0.05)
        self.fail("did not come about")

    def test_origins(self):
        key = {"Authorization": "Bearer first-key"}
        _, headers, _ = self.s.ask("GET", "/v1/models", headers={**key, "Origin": "https://a.example"})
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://a.example")
        self.assertIn("Retry-After", headers["Access-Control-Expose-Headers"])
        status, headers, _ = self.s.ask("GET", "/v1/models",
                                        headers={**key, "Origin": "https://b.example"})
        self.assertEqual(status, 403)
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        for host, allowed in {"127.0.0.1": True, "localhost": True, "LOCALHOST": True,
                              "[::1]": True, "b.example": False, "localhost.b.example": False,
                              "127.0.0.1.b.example": False, "[::1].b": False}.items():
            for at in f"{host}:{self.s.port}", host:  # a name may be made to point here
                status = self.s.ask("GET", "/v1/models", headers={
                    **key, "Host": at, "Origin": "http://" + at})[0]
                self.assertEqual(status, 200 if allowed else 403, at)
        status, headers, _ = self.s.ask("OPTIONS", "/v1/chat/completions", headers={
            "Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual(status, 204)
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])
        self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
        asked = "authorization,content-type,x-stainless-lang,x-stainless-retry-count"
        for origin, allowed in ("https://a.example", asked), ("https://b.example", None):
            _, headers, _ = self.s.ask("OPTIONS", "/v1/chat/completions", headers={
                "Origin": origin, "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": asked})
            self.assertEqual(headers.get("Access-Control-Allow-Headers"), allowed)

    def test_slow_request(self):
        """Slow loris: a head that never ends, a body that trickles, a silent socket."""
        started = time.monotonic()
        silent, head, body = (self.s.connect(timeout=20) for _ in range(3))
        head.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n")
        body.sendall(b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
        open_ones = {"silent": silent, "head": head, "body": body}
        while open_ones and time.monotonic() - started < 15:
            for name, s in list(open_ones.items()):
                try:
                    if name != "silent":
                        s.sendall(b"X: y\r\n" if name == "head" else b" ")
                    s.settimeout(0.05)
                    if s.recv(4096) == b"":
                        del open_ones[name]
                except (BrokenPipeError, ConnectionResetError):
                    del open_ones[name]
                except TimeoutError:
                    pass
            time.sleep(0.2)
        for s in silent, head, body:
            s.close()
        self.assertEqual(list(open_ones), [])
        self.assertLess(time.monotonic() - started, 8)


class Encrypted(unittest.TestCase):
    """TLS, where there is an openssl to make a certificate."""

    def test_tls(self):
        if not shutil.which("openssl"):
            self.skipTest("no openssl here")
        key, certificate = (os.path.join(FOLDER.name, x) for x in ("tls.key", "tls.crt"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                        "-out", certificate], check=True, capture_output=True)
        s = Served(BINARY, tiny_path(), "--tls-cert", certificate, "--tls-key", key,
                   "--ctx", "1024")
        try:
            self.assertTrue(s.about["url"].startswith("https://"))
            trust = ssl.create_default_context(cafile=certificate)

            def send(body, *headers):
                c = trust.wrap_socket(s.connect(), server_hostname="127.0.0.1")
                c.sendall(request_bytes("/v1/completions", body, *headers))
                return c
            for stream in False, True:
                with send({"prompt": "x", "max_tokens": 5, "logit_bias": FORCE_A,
                           "stream": stream}, "Connection: close") as c:
                    got = read_until(c, b"no such bytes")
                self.assertTrue(got.startswith(b"HTTP/1.1 200"), got[:100])
                self.assertIn(b"[DONE]" if stream else b'"aaaaa"', got)
            c = send({"prompt": "x", "max_tokens": 1000, "logit_bias": FORCE_A,
                      "ignore_eos": True})
            time.sleep(0.02)
            c.close()  # left: noticed under TLS too
            self.until_idle(s, trust)
            with s.connect() as plain:
                plain.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertNotIn(b"200 OK", plain.recv(4096))
        finally:
            self.assertEqual(s.stop(), 0)

    def until_idle(self, s, trust):
        for _ in range(100):
            c = http.client.HTTPSConnection("127.0.0.1", s.port, context=trust)
            c.request("GET", "/metrics")
            text = c.getresponse().read().decode()
            c.close()
            if (re.search(r"num_requests_running\{.*\} 0\n", text)
                    and re.search(r"requests_cancelled_total\{.*\} 1\n", text)):
                return
            time.sleep(0.02)
        self.fail("not cancelled")


class Client(Shared):
    """The official Python client, where there is one."""

    @classmethod
    def setUpClass(cls):
        try:
            import openai
        except ImportError:
            raise unittest.SkipTest("no package openai here")
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.s.port}/v1", api_key="none",
                                   max_retries=0)
        cls.openai = openai

    def tearDown(self):
        self.s.wait_idle(10)

    def test_chat(self):
        got = self.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "x"}], max_tokens=3,
            logit_bias=FORCE_A, logprobs=True, top_logprobs=2, n=2)
        self.assertEqual([c.message.content for c in got.choices], ["aaa", "aaa"])
        self.assertEqual(got.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(len(got.choices[0].logprobs.content[0].top_logprobs), 2)

    def test_stream(self):
        with self.client.chat.completions.stream(
                model="tiny", messages=[{"role": "user", "content": "x"}], max_tokens=4,
                logit_bias=FORCE_A, stream_options={"include_usage": True}) as stream:
            for _ in stream:
                pass
            got = stream.current_completion_snapshot
        self.assertEqual(got.choices[0].message.content, "aaaa")
        self.assertEqual(got.usage.completion_tokens, 4)

    def test_rest(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["tiny"])
        got = self.client.completions.create(model="tiny", prompt="x", max_tokens=2,
                                             logit_bias=FORCE_A, logprobs=1)
        self.assertEqual(got.choices[0].text, "aa")
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="tiny", messages=[], max_tokens=1)
        self.assertEqual(caught.exception.param, "messages")


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
